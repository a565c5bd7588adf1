//! Schedules while servers are killed, replicas take over, slots move, clocks step and plans change.
//!
//! A policy moves each occurrence to a stream, which tells how often and when it was stored.

use std::collections::BTreeMap;

use redis::Connection;

use crate::random::{Random, seed};
use harness::nodes::Cluster;
use harness::{Ask, Server, cmd, setting, until};

const SCHEDULES: u64 = 50;
/// The slot of the key and of its stream.
const SLOT: usize = 7629;
const OUT: &str = "{k}:out";
/// Intervals are multiples of it, so that each plan of a schedule has moments of its own.
const APART: u64 = 100;

fn time(client: &mut Connection) -> u64 {
    let (seconds, microseconds): (u64, u64) = cmd("TIME").query(client).expect("the time");
    seconds * 1000 + microseconds / 1000
}

fn occurred(client: &mut Connection) -> u64 {
    cmd("XLEN").arg(OUT).query(client).expect("a number")
}

/// The moments of the occurrences, each with the time in the id of its entry, of each schedule, in order.
fn moments(client: &mut Connection) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut all = BTreeMap::<u64, Vec<_>>::new();
    let entries: Vec<(String, Vec<String>)> =
        cmd("XRANGE").arg(OUT).arg("-").arg("+").query(client).expect("entries");
    for (entry, fields) in entries {
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let (at, _) = entry.split_once('-').expect("an entry's id");
        let (name, moment) = fields[1].split_once('@').expect("a name and a moment");
        all.entry(number(name)).or_default().push((number(moment), number(at)));
    }
    all
}

/// The servers whose clocks step together: one, or two that share the slots of a cluster.
enum Servers {
    One(Server),
    Two { cluster: Cluster, owner: usize },
}

const OPTIONS: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];

impl Servers {
    fn two() -> Self {
        // A step of the clock looks like a long silence.
        let more = ["--cluster-enabled", "yes", "--cluster-node-timeout", "600000"];
        let options = [&OPTIONS[..], &more].concat();
        let nodes = [(); 2].map(|()| Server::start_with_clock(&options));
        Self::Two { cluster: Cluster::of_two(nodes), owner: 0 }
    }

    /// Returns the server of the key.
    fn owner(&self) -> &Server {
        match self {
            Self::One(server) => server,
            Self::Two { cluster, owner } => &cluster.nodes[*owner],
        }
    }

    fn shift_clocks(&self, milliseconds: i64) {
        match self {
            Self::One(server) => server.shift_clock(milliseconds),
            Self::Two { cluster, .. } => {
                cluster.nodes.iter().for_each(|node| node.shift_clock(milliseconds));
            }
        }
    }

    /// Kills the server, hands the key to a replica, or moves its slot.
    fn disturb(&mut self, random: &mut Random, shift: i64) {
        match self {
            Self::One(primary) if random.one_in(4) => hand_over(primary, shift),
            Self::One(primary) => primary.crash_and_restart(),
            Self::Two { cluster, owner } if random.one_in(3) => {
                cluster.nodes[*owner].crash_and_restart();
                cluster.wait_until_up();
            }
            Self::Two { cluster, owner } => {
                let to = 1 - *owner;
                let version = cluster.nodes[0].version();
                let at_once = if version.is_valkey { version >= (9, 0) } else { version >= (8, 4) };
                if at_once && random.one_in(2) {
                    cluster.move_at_once(*owner, to, (SLOT, SLOT));
                } else {
                    cluster.move_keys(*owner, to, SLOT, &["k", OUT]);
                }
                *owner = to;
            }
        }
    }
}

/// Lets a replica take over.
fn hand_over(primary: &mut Server, shift: i64) {
    let replica = Server::start_with_clock(&OPTIONS);
    replica.shift_clock(shift);
    replica.follow(primary);
    replica.wait_for_link();
    let _: u64 = cmd("WAIT 1 5000").query(&mut primary.connect()).expect("a number");
    primary.kill();
    *primary = replica;
    primary.connect().ask("REPLICAOF NO ONE");
    // Before, its file is that of an empty server.
    until("its file is whole", || {
        let busy = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        let is_idle = |field: &str| primary.info("persistence", field) == 0;
        busy.into_iter().all(is_idle).then_some(())
    });
}

/// A plan of a schedule: a moment every `ms`. It was set between two moments.
struct Plan {
    from: u64,
    ms: u64,
    set: (u64, u64),
}

/// The plans of each schedule, one after the other.
struct Campaign {
    first: u64,
    plans: Vec<Vec<Plan>>,
    /// The latest time seen.
    latest: u64,
}

impl Campaign {
    fn begin(client: &mut Connection) -> Self {
        client.ask(&format!("DEHYDRATOR.ONDUE k STREAM {OUT}"));
        let first = time(client) + 5000;
        let mut new = Self { first, plans: Vec::new(), latest: 0 };
        for number in 0..SCHEDULES {
            new.plans.push(Vec::new());
            new.change(client, number, (15 + number) * APART, 0);
        }
        new
    }

    /// Sets the plan of a schedule, or its element alone.
    fn change(&mut self, client: &mut Connection, number: u64, ms: u64, element: u64) {
        let plans = &mut self.plans[number as usize];
        let is_new = plans.last().is_none_or(|plan| plan.ms != ms);
        let from = self.first + plans.len() as u64 - u64::from(!is_new);
        let before = time(client);
        client.ask(&format!("DEHYDRATOR.EVERY k {ms} {element} {number} FROM {from} MISSED ALL"));
        let after = time(client);
        self.latest = self.latest.max(after);
        if is_new {
            assert!((plans.len() as u64) < APART);
            plans.push(Plan { from, ms, set: (before, after) });
        }
    }

    /// Checks what has occurred. Returns how much.
    fn check(&self, all: &BTreeMap<u64, Vec<(u64, u64)>>) -> usize {
        for (number, moments) in all {
            let plans = &self.plans[*number as usize];
            for (moment, at) in moments {
                assert!(at >= moment && *at <= self.latest + 1000, "{number}@{moment} at {at}");
            }
            let of = |moment: u64| ((moment - self.first) % APART) as usize;
            let order: Vec<_> = moments.iter().map(|(moment, _)| of(*moment)).collect();
            assert!(order.is_sorted() && order.last().is_none_or(|last| *last < plans.len()));
            for (at, Plan { from, ms, set: (before, after) }) in plans.iter().enumerate() {
                let moments = moments.iter().map(|(moment, _)| *moment).filter(|it| of(*it) == at);
                let moments: Vec<_> = moments.collect();
                let Some(first) = moments.first() else { continue };
                let after = after.max(from).saturating_sub(*from).next_multiple_of(*ms) + from;
                assert!(first >= before && *first <= after, "{number}@{first} after {before}");
                let expected = (0..moments.len() as u64).map(|it| first + it * ms);
                assert!(moments.iter().copied().eq(expected), "{number}: {moments:?}, {ms}");
            }
        }
        all.values().map(Vec::len).sum()
    }
}

/// Returns the next occurrence of any schedule.
fn next(client: &mut Connection) -> u64 {
    let rows: Vec<BTreeMap<String, redis::Value>> =
        cmd("DEHYDRATOR.SCHEDULES k").query(client).expect("schedules");
    let next = rows.into_iter().map(|mut row| row.remove("next").expect("the next one"));
    next.map(|next| redis::from_redis_value(next).expect("a moment")).min().expect("a schedule")
}

fn run(mut servers: Servers, rounds: u64) {
    let mut random = Random::new(seed());
    let mut client = servers.owner().connect();
    let mut campaign = Campaign::begin(&mut client);
    let (mut shift, mut changes) = (0, 0);
    for round in 1..=rounds {
        let before = occurred(&mut client);
        shift += [0, 1000, 4000, 15_000, -700, -3000][random.below(6) as usize];
        servers.shift_clocks(shift);
        if shift >= 0 && random.one_in(2) {
            until("it goes on", || (occurred(&mut client) > before).then_some(()));
        }
        let number = random.below(SCHEDULES);
        let same = campaign.plans[number as usize].last().expect("a plan").ms;
        let ms = if random.one_in(2) { same } else { (15 + random.below(40)) * APART };
        changes += u64::from(ms != same);
        campaign.change(&mut client, number, ms, round);
        servers.disturb(&mut random, shift);
        client = servers.owner().connect();
        campaign.latest = campaign.latest.max(time(&mut client));
    }
    until("much has occurred", || (occurred(&mut client) > rounds * 10).then_some(()));
    until("it has caught up", || (next(&mut client) > time(&mut client)).then_some(()));
    let names: Vec<_> = (0..SCHEDULES).map(|number| number.to_string()).collect();
    client.ask(&format!("DEHYDRATOR.UNSCHEDULE k {}", names.join(" ")));
    until("all is moved", || {
        let left: u64 = cmd("DEHYDRATOR.LEN k").query(&mut client).expect("a number");
        (left == 0).then_some(())
    });
    campaign.latest = campaign.latest.max(time(&mut client));
    let count = campaign.check(&moments(&mut client));
    println!("{count} occurrences, {changes} changes of plans in {rounds} rounds");
    assert_eq!(count as u64, occurred(&mut client));
}

#[test]
fn each_occurrence_is_stored_once_and_none_early_whatever_ends_or_steps() {
    run(Servers::One(Server::start_with_clock(&OPTIONS)), setting("DEHYDRATOR_KILLS", 20));
}

#[test]
fn each_occurrence_is_stored_once_and_none_early_while_slots_move() {
    run(Servers::two(), setting("DEHYDRATOR_KILLS", 20));
}
