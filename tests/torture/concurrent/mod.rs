//! Many concurrent clients, each with its own connection, and a check whether their observations are possible.
//!
//! DEHYDRATOR_SECONDS makes each run longer or shorter. DEHYDRATOR_SEED repeats its random numbers, but not the
//! scheduling.

mod client;
mod run;

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use self::client::Client;
use self::run::{End, Run, Stage};
use crate::history::{
    Act, Event, Finding, History, Id, Limit, Most, Poll, Reply, Wrong, check, check_limit,
};
use crate::random::{Random, seed};
use harness::{Ask, server_program, setting};
use redis::Value;

const SECONDS: u64 = 4;
/// In ms.
const LEASE: u64 = 60;
/// The maximum time to deliver the rest, after the last push.
const PATIENCE: Duration = Duration::from_secs(4);

/// The participants of a run.
#[derive(Clone, Copy)]
struct Plan {
    /// Clients that take one at a time, and block forever.
    sleepers: usize,
    /// Clients that lease, and settle most of their elements.
    lessees: usize,
    /// Clients that block for a while.
    waiters: usize,
    /// Clients that connect, poll, and leave without waiting.
    passers_by: usize,
    /// Clients that push from time to time.
    producers: usize,
    /// Clients that hang up before the conductor's elements are due.
    quitters: usize,
    /// Whether a conductor pushes many at once, and keeps the server busy until they are overdue.
    has_conductor: bool,
    /// Whether blocked clients are killed and unblocked.
    is_violent: bool,
    /// Whether the server's real-time clock is stepped.
    is_stepped: bool,
    /// Whether pushed elements are also touched, pulled and removed.
    is_restless: bool,
    /// The limit of the key, or of each group.
    limit: Option<Limit>,
    /// The number of groups, each of which is in an order of its own.
    groups: u64,
}

const NOBODY: Plan = Plan {
    sleepers: 0,
    lessees: 0,
    waiters: 0,
    passers_by: 0,
    producers: 3,
    quitters: 0,
    has_conductor: false,
    is_violent: false,
    is_stepped: false,
    is_restless: false,
    limit: None,
    groups: 0,
};

/// The actions of a client, until the run ends.
type Work = fn(Client<'_>) -> Vec<Event>;

fn left(run: &Run) -> Vec<Id> {
    let mut scan = redis::cmd("DEHYDRATOR.SCAN");
    scan.arg("k").arg(0).arg("COUNT").arg(1_000_000);
    let (cursor, ids): (u64, Vec<Id>) = scan.query(&mut run.connect()).expect("ids");
    assert_eq!(cursor, 0);
    ids
}

fn play(plan: Plan, options: &[&str]) {
    let run = Run::new(options, plan.is_stepped, plan.groups);
    for group in 1..=plan.groups {
        run.connect().ask(&format!("DEHYDRATOR.LIMIT k GROUP {group} SHARE {group}"));
    }
    if let Some(limit) = plan.limit {
        let each = if limit.is_of_each { " EACH" } else { "" };
        run.connect().ask(&match limit.most {
            Most::Held(most) => format!("DEHYDRATOR.LIMIT k{each} HELD {most}"),
            Most::Rate(most, per) => format!("DEHYDRATOR.LIMIT k{each} RATE {most} PER {per}"),
        });
    }
    let seconds = setting("DEHYDRATOR_SECONDS", SECONDS);
    // Each clock reading stays valid for a while.
    let seconds = if plan.is_stepped { 3 * seconds } else { seconds };
    let mut seeds = Random::new(seed());
    let mut events = Vec::new();
    let mut end = 0;
    let mut remains = Vec::new();
    thread::scope(|scope| {
        let _end = End(&run);
        let mut start = |many: usize, work: Work| -> Vec<_> {
            let client = |_| Client::new(&run, seeds.below(u64::MAX));
            let clients: Vec<_> = (0..many).map(client).collect();
            let run = &run;
            let work = move |it| {
                let _end = End(run);
                work(it)
            };
            clients.into_iter().map(|it| scope.spawn(move || work(it))).collect()
        };
        let produce: Work =
            if plan.is_restless { |it| it.produce(true) } else { |it| it.produce(false) };
        let consumers = [
            start(plan.sleepers, |it| it.sleep()),
            start(plan.lessees, |it| it.lease()),
            start(plan.waiters, |it| it.wait()),
            start(plan.passers_by, |it| it.pass_by()),
        ];
        let others = [
            start(plan.quitters, |it| it.quit()),
            start(plan.is_violent.into(), |it| it.haunt()),
            start(plan.is_stepped.into(), |it| it.step_clock()),
            start(plan.has_conductor.into(), |it| it.conduct()),
            start(plan.producers, produce),
        ];
        run.pause(1000 * seconds);
        run.move_on(Stage::Late);
        let ended = others.into_iter().flatten().map(|it| it.join().expect("no panic"));
        events = ended.flatten().collect();
        // Everything is delivered soon; if not, the check will report why that is wrong.
        let late = Instant::now();
        let mut client = run.connect();
        while client.ask("DEHYDRATOR.LEN k") != Value::Int(0) && late.elapsed() < PATIENCE {
            run.pause(10);
        }
        // Elements taken between the two count as left, and were not taken before the end.
        end = run.moment();
        remains = left(&run);
        run.move_on(Stage::Over);
        // Clients that block forever are still blocked.
        let mut woken = Client::new(&run, 1);
        while !consumers.iter().flatten().all(|it| it.is_finished()) {
            let sleepers = run.sleepers.lock().expect("no panic").clone();
            sleepers.into_iter().for_each(|client| woken.unblock(client, "TIMEOUT"));
            run.pause(10);
        }
        events.extend(woken.events);
        let ended = consumers.into_iter().flatten().map(|it| it.join().expect("no panic"));
        events.extend(ended.flatten());
    });
    let clock = run.clock.into_inner().expect("no panic");
    let history = History { clock, events, left: remains, end };
    // Elements taken for a client that has gone are given back, and others may have been served meanwhile.
    let may_be_late = plan.is_violent || plan.quitters > 0;
    let excused = match plan.limit {
        // Elements held back by a limit make no client late.
        Some(_) if may_be_late => &[Wrong::Stranded, Wrong::OutOfOrder][..],
        Some(_) => &[Wrong::Stranded],
        None if may_be_late => &[Wrong::OutOfOrder],
        None => &[],
    };
    let mut findings = check(&history);
    findings.extend(plan.limit.into_iter().flat_map(|limit| check_limit(&history, limit)));
    judge(&history, findings, excused);
}

fn judge(history: &History, mut findings: Vec<Finding>, excused: &[Wrong]) {
    /// How many errors of each kind are shown.
    const SHOWN: usize = 5;
    let count = |which: fn(&Act) -> bool| history.events.iter().filter(|it| which(&it.act)).count();
    let pushes = count(|act| matches!(act, Act::Push { .. }));
    let given = count(
        |act| matches!(act, Act::Poll(Poll { reply: Reply::Given(ids), .. }) if !ids.is_empty()),
    );
    println!("{} events, {pushes} pushes, {given} polls with elements", history.events.len());
    assert!(pushes > 20 && given > 5, "nothing was tried");
    findings.retain(|(wrong, _)| !excused.contains(wrong));
    findings.sort();
    for same in findings.chunk_by(|one, other| one.0 == other.0) {
        println!("{:?}: {} times", same[0].0, same.len());
        same.iter().take(SHOWN).for_each(|(_, what)| println!("    {what}"));
    }
    assert!(findings.is_empty(), "{} things cannot have been: see above", findings.len());
}

/// Returns the options for threaded reads, by the server's names.
fn threads() -> Vec<&'static str> {
    let version = Command::new(server_program()).arg("--version").output().expect("a version");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let mut options = vec!["--io-threads", "2"];
    if version.contains("Redis server v=7") {
        options.extend(["--io-threads-do-reads", "yes"]);
    }
    if version.contains("Valkey server v=8") {
        // Otherwise, few clients would never suffice for a thread.
        options.extend(["--events-per-io-thread", "0"]);
    }
    options
}

const fn of_key(most: Most) -> Option<Limit> {
    Some(Limit { is_of_each: false, most })
}

const fn of_each(most: Most) -> Option<Limit> {
    Some(Limit { is_of_each: true, most })
}

const SLEEPERS: Plan = Plan { sleepers: 4, ..NOBODY };
const CROWD: Plan =
    Plan { sleepers: 2, lessees: 2, waiters: 2, passers_by: 2, is_restless: true, ..NOBODY };
const VIOLENCE: Plan = Plan { sleepers: 4, lessees: 1, is_violent: true, ..NOBODY };
const QUITTERS: Plan =
    Plan { sleepers: 1, waiters: 1, producers: 0, quitters: 4, has_conductor: true, ..NOBODY };
// The server's own timeouts use the stepped clock, so no client blocks with a timeout here.
const STEPPED: Plan = Plan { sleepers: 3, lessees: 1, is_stepped: true, ..NOBODY };
const HELD: Plan =
    Plan { lessees: 5, producers: 1, limit: of_key(Most::Held(3)), is_restless: true, ..NOBODY };
const RATED: Plan =
    Plan { sleepers: 4, waiters: 2, producers: 1, limit: of_key(Most::Rate(40, 200)), ..NOBODY };
const ONE: Plan = Plan { sleepers: 1, ..NOBODY };
const ONE_OF_GROUPS: Plan = Plan { groups: 3, ..ONE };
const CROWD_OF_GROUPS: Plan = Plan { groups: 4, ..CROWD };
const VIOLENCE_OF_GROUPS: Plan = Plan { groups: 3, ..VIOLENCE };
const STEPPED_OF_GROUPS: Plan = Plan { groups: 3, ..STEPPED };
const HELD_OF_GROUPS: Plan = Plan { groups: 3, ..HELD };
const RATED_OF_GROUPS: Plan = Plan { groups: 3, ..RATED };
/// A crowd of which some lease, and others show the order.
const CROWD_OF_HELD_GROUPS: Plan =
    Plan { lessees: 5, limit: of_each(Most::Held(1)), ..CROWD_OF_GROUPS };
const CROWD_OF_RATED_GROUPS: Plan =
    Plan { producers: 1, limit: of_each(Most::Rate(8, 200)), ..CROWD_OF_GROUPS };
const VIOLENCE_OF_HELD_GROUPS: Plan =
    Plan { lessees: 4, limit: of_each(Most::Held(2)), ..VIOLENCE_OF_GROUPS };
const VIOLENCE_OF_RATED_GROUPS: Plan =
    Plan { producers: 1, limit: of_each(Most::Rate(8, 200)), ..VIOLENCE_OF_GROUPS };

/// Makes a test of each plan.
macro_rules! histories {
    ($options:expr; $($name:ident: $($plan:ident)+;)+) => {$(
        #[test]
        fn $name() {
            $(play($plan, $options);)+
        }
    )+};
}

histories! { &[];
    one_blocked_client_gets_everything_in_order: ONE;
    blocked_clients_are_served_in_turn: SLEEPERS;
    in_a_crowd_each_element_has_one_owner_at_a_time: CROWD;
    clients_that_are_killed_and_unblocked_take_no_element: VIOLENCE;
    clients_that_hang_up_beside_a_busy_server_take_no_element: QUITTERS;
    a_clock_that_steps_strands_nobody: STEPPED;
    no_more_are_leased_than_the_key_allows: HELD;
    no_more_are_delivered_in_a_window_than_the_key_allows: RATED;
    one_blocked_client_gets_each_group_in_its_order: ONE_OF_GROUPS;
    in_a_crowd_each_element_of_a_group_has_one_owner_at_a_time: CROWD_OF_GROUPS;
    clients_that_are_killed_and_unblocked_take_no_element_of_a_group: VIOLENCE_OF_GROUPS;
    a_clock_that_steps_strands_nobody_beside_groups: STEPPED_OF_GROUPS;
    no_more_of_groups_are_leased_or_delivered_than_the_key_allows: HELD_OF_GROUPS RATED_OF_GROUPS;
    in_a_crowd_no_group_has_more_leased_than_each_may: CROWD_OF_HELD_GROUPS;
    in_a_crowd_no_group_has_more_delivered_in_a_window_than_each_may: CROWD_OF_RATED_GROUPS;
    with_clients_that_are_killed_no_group_has_more_leased_than_each_may: VIOLENCE_OF_HELD_GROUPS;
    with_clients_that_are_killed_no_group_has_more_delivered_in_a_window_than_each_may: VIOLENCE_OF_RATED_GROUPS;
}

histories! { &threads();
    one_blocked_client_gets_everything_in_order_with_threads: ONE;
    blocked_clients_are_served_in_turn_with_threads: SLEEPERS;
    in_a_crowd_each_element_has_one_owner_at_a_time_with_threads: CROWD;
    clients_that_are_killed_and_unblocked_take_no_element_with_threads: VIOLENCE;
    clients_that_hang_up_beside_a_busy_server_take_no_element_with_threads: QUITTERS;
    a_clock_that_steps_strands_nobody_with_threads: STEPPED;
    no_more_are_leased_than_the_key_allows_with_threads: HELD;
    no_more_are_delivered_in_a_window_than_the_key_allows_with_threads: RATED;
    in_a_crowd_each_element_of_a_group_has_one_owner_at_a_time_with_threads: CROWD_OF_GROUPS;
}
