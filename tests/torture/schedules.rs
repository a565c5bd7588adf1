//! Schedules while servers are killed, replicas take over, and clocks step.

use std::collections::BTreeMap;

use redis::Connection;

use crate::random::{Random, seed};
use harness::{Ask, Server, cmd, setting, until};

const SCHEDULES: u64 = 50;

fn time(client: &mut Connection) -> u64 {
    let (seconds, microseconds): (u64, u64) = cmd("TIME").query(client).expect("the time");
    seconds * 1000 + microseconds / 1000
}

fn stored(client: &mut Connection) -> u64 {
    cmd("DEHYDRATOR.LEN k").query(client).expect("a number")
}

/// Returns the moments of each schedule, in order of delivery.
fn moments(client: &mut Connection) -> BTreeMap<u64, Vec<u64>> {
    let mut all = BTreeMap::<u64, Vec<u64>>::new();
    let mut start = "-".to_owned();
    loop {
        let range = format!("DEHYDRATOR.RANGE k {start} + COUNT 10000");
        let (next, rows): (Option<String>, Vec<redis::Value>) =
            cmd(&range).query(client).expect("rows");
        for row in rows {
            let redis::Value::Array(row) = row else { panic!("{row:?}") };
            let id: String = redis::from_redis_value(row[0].clone()).expect("an id");
            let (name, moment) = id.split_once('@').expect("a name and a moment");
            let moment = moment.parse().expect("a moment");
            all.entry(name.parse().expect("a number")).or_default().push(moment);
        }
        match next {
            Some(next) => start = next,
            None => return all,
        }
    }
}

#[test]
fn each_occurrence_is_stored_once_and_none_early_whatever_ends_or_steps() {
    let mut random = Random::new(seed());
    let options =
        ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];
    let mut primary = Server::start_with_clock(&options);
    let mut client = primary.connect();
    let first = time(&mut client) + 5000;
    let every = |number: u64| 1500 + number * 37;
    for number in 0..SCHEDULES {
        let ms = every(number);
        client.ask(&format!("DEHYDRATOR.EVERY k {ms} element {number} FROM {first} MISSED ALL"));
    }
    let (mut shift, mut latest) = (0, 0);
    for round in 0..setting("DEHYDRATOR_KILLS", 20) {
        let before = stored(&mut client);
        shift += [0, 1000, 4000, 15_000, -700, -3000][random.below(6) as usize];
        primary.shift_clock(shift);
        if shift >= 0 && random.one_in(2) {
            until("it goes on", || (stored(&mut client) > before).then_some(()));
        }
        let number = random.below(SCHEDULES);
        let ms = every(number);
        // Another element changes no moment.
        let change = format!("DEHYDRATOR.EVERY k {ms} {round} {number} FROM {first} MISSED ALL");
        client.ask(&change);
        latest = latest.max(time(&mut client));
        if random.one_in(4) {
            let replica = Server::start_with_clock(&options);
            replica.shift_clock(shift);
            replica.follow(&primary);
            replica.wait_for_link();
            let _: u64 = cmd("WAIT 1 5000").query(&mut client).expect("a number");
            primary.kill();
            primary = replica;
            client = primary.connect();
            client.ask("REPLICAOF NO ONE");
            // Before, its file is that of an empty server.
            until("its file is whole", || {
                let busy = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
                let is_idle = |field: &str| primary.info("persistence", field) == 0;
                busy.into_iter().all(is_idle).then_some(())
            });
        } else {
            primary.crash_and_restart();
            client = primary.connect();
        }
        latest = latest.max(time(&mut client));
    }
    let all = moments(&mut client);
    latest = latest.max(time(&mut client));
    let mut count = 0;
    for number in 0..SCHEDULES {
        let (ms, moments) = (every(number), all.get(&number).cloned().unwrap_or_default());
        let expected: Vec<_> = (0..moments.len() as u64).map(|it| first + it * ms).collect();
        assert_eq!(moments, expected, "schedule {number}");
        assert!(moments.last().is_none_or(|last| *last <= latest), "early: {moments:?}, {latest}");
        count += moments.len();
    }
    println!("{count} occurrences");
    assert!(count > 500, "{count}");
}
