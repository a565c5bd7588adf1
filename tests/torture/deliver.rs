//! Delivery to a stream and to a list: a mass at once, and a server that is killed meanwhile.

use std::collections::HashSet;
use std::fs;

use redis::{Connection, Value};

use harness::{Ask, Server, cmd, setting, until};

/// How many elements come due at once.
const DELIVERED: u64 = 1_000_000;

/// Pushes ids from 0 on that come due at one moment, some seconds ahead, so that none is delivered before all are
/// pushed; each into the next of some groups, or into none. Returns that moment.
fn push_all(client: &mut Connection, count: usize, groups: usize) -> u64 {
    let Value::Array(time) = client.ask("TIME") else { panic!("an array") };
    let now: u64 = redis::from_redis_value(time[0].clone()).expect("seconds");
    let at = now * 1000 + 600_000;
    for first in (0..count).step_by(10_000) {
        let mut pipe = redis::pipe();
        for id in first..(first + 10_000).min(count) {
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(id % 8).arg(id).arg(id);
            if groups > 1 {
                push.arg("GROUP").arg(group_of(id, groups));
            }
            push.arg("AT").arg(at).ignore();
        }
        pipe.exec(client).expect("replies");
    }
    at
}

/// Returns the group of an id. The first is none.
fn group_of(id: usize, groups: usize) -> String {
    // Two neighbours are in one group.
    match id / 2 % groups {
        0 => String::new(),
        group => group.to_string(),
    }
}

/// The destination.
#[derive(Clone, Copy)]
enum Dest {
    Stream,
    /// At its right end, or at its left.
    List(bool),
}

impl Dest {
    fn route(self) -> &'static str {
        match self {
            Self::Stream => "STREAM s",
            Self::List(false) => "LIST s",
            Self::List(true) => "LIST s LEFT",
        }
    }

    fn length(self, client: &mut Connection) -> usize {
        let verb = if let Self::Stream = self { "XLEN" } else { "LLEN" };
        let Value::Int(length) = client.ask(&format!("{verb} s")) else { panic!("a number") };
        length as usize
    }

    /// Returns the delivered elements, in their order.
    fn delivered(self, client: &mut Connection) -> Vec<usize> {
        let Self::List(is_left) = self else { return delivered(client) };
        let mut ids: Vec<usize> = cmd("LRANGE s 0 -1").query(client).expect("a list, or none yet");
        if is_left {
            ids.reverse();
        }
        ids
    }
}

/// Returns the ids in the stream, in order.
fn delivered(client: &mut Connection) -> Vec<usize> {
    let mut ids = Vec::new();
    let mut from = "-".to_owned();
    loop {
        let range = cmd(&format!("XRANGE s {from} + COUNT 10000"));
        let entries: Vec<(String, [String; 4])> = range.query(client).expect("a stream");
        let Some((last, _)) = entries.last() else { return ids };
        from = format!("({last}");
        ids.extend(entries.iter().map(|(_, fields)| fields[1].parse::<usize>().expect("an id")));
    }
}

/// Returns how long the main thread of a process has run, and how long it was runnable but waited, in nanoseconds.
fn schedule(path: &str) -> (u64, u64) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut numbers = text.split_whitespace().map(|it| it.parse().expect("a number"));
    (numbers.next().expect("a time"), numbers.next().expect("a time"))
}

fn ran(process: u64) -> u64 {
    schedule(&format!("/proc/{process}/schedstat")).0
}

/// Returns how long this thread waited.
fn kept_waiting() -> u64 {
    schedule("/proc/thread-self/schedstat").1
}

#[test]
fn a_mass_at_once_arrives_in_order_and_others_are_served_meanwhile() {
    let count = setting("DEHYDRATOR_DELIVERED", DELIVERED) as usize;
    /// The limit of the server's CPU time per reply, in nanoseconds, for 99 percent of the replies. Wall-clock time
    /// depends on who else uses the cores. The bench shows the longest.
    const NOTICED: u64 = 20_000_000;
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    let process = server.info("server", "process_id");
    push_all(&mut client, count, 1);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.DEBUG k CLOCK 700000");
    let (mut asked, mut slow) = (0, 0);
    while client.ask("DEHYDRATOR.LEN k") != Value::Int(0) {
        for _ in 0..100 {
            let before = (ran(process), kept_waiting());
            client.ask("PING");
            // While this test has the reply but no core, the server continues with other work.
            let since = kept_waiting() - before.1;
            let waited = (ran(process) - before.0).saturating_sub(since);
            asked += 1;
            slow += usize::from(waited > NOTICED);
        }
    }
    assert!(asked > 100, "{asked} were served meanwhile");
    assert!(slow * 100 <= asked, "{slow} of {asked} waited for more than {NOTICED} ns");
    assert!(delivered(&mut client).into_iter().eq(0..count), "each once, in order");
}

#[test]
fn killed_during_deliveries_every_element_is_in_one_place_and_arrives_once() {
    kill_in_the_middle(Dest::Stream, 20_000, 20, 1);
}

#[test]
fn killed_during_list_pushes_every_element_is_in_one_place_and_arrives_once() {
    for is_left in [false, true] {
        kill_in_the_middle(Dest::List(is_left), 6000, 6, 1);
    }
}

#[test]
fn killed_during_deliveries_every_group_is_in_its_order_and_each_element_in_one_place() {
    kill_in_the_middle(Dest::Stream, 10_000, 10, 5);
    kill_in_the_middle(Dest::List(false), 5000, 5, 3);
}

/// Makes half of this many elements come due, and kills the server this often meanwhile.
fn kill_in_the_middle(dest: Dest, count: usize, rounds: usize, groups: usize) {
    let (mut server, mut client) =
        Server::with_client(&["--appendonly", "yes", "--appendfsync", "always"]);
    push_all(&mut client, count, groups);
    for id in (0..count).step_by(2) {
        // Due by now, in order; the others stay.
        let mut touch = redis::cmd("DEHYDRATOR.TOUCH");
        touch.arg("k").arg(0).arg("AT").arg(id + 1).arg(id).exec(&mut client).expect("1");
    }
    client.ask("CONFIG SET dehydrator.tick-budget-us 100");
    client.ask(&format!("DEHYDRATOR.ONDUE k {}", dest.route()));
    let due = count / 2;
    for round in 1..=rounds {
        let mut client = server.connect();
        until("some more are delivered", || {
            (dest.length(&mut client) >= due * round / (rounds + 1)).then_some(())
        });
        server.kill();
        server.relaunch();
        let mut client = server.connect();
        let ids = dest.delivered(&mut client);
        let mut delivered = 0;
        for group in (0..groups).map(|group| group_of(2 * group, groups)) {
            let is_in = |id: &usize| group_of(*id, groups) == group;
            let those: Vec<_> = ids.iter().copied().filter(is_in).collect();
            let expected = (0..count).step_by(2).filter(is_in).take(those.len());
            assert!(expected.eq(those.iter().copied()), "round {round}: each once, in order");
            delivered += those.len();
        }
        assert_eq!(delivered, ids.len());
        // It continues at once: these were not here a moment ago.
        let left: HashSet<usize> = {
            let waiting: (u64, Vec<usize>) =
                cmd("DEHYDRATOR.SCAN k 0 COUNT 1000000").query(&mut client).expect("ids");
            waiting.1.into_iter().collect()
        };
        let here: HashSet<usize> = dest.delivered(&mut client).into_iter().collect();
        let everywhere = (0..count).all(|id| left.contains(&id) || here.contains(&id));
        assert!(everywhere, "round {round}: something is lost");
    }
    let mut client = server.connect();
    until("all that is due is delivered", || (dest.length(&mut client) == due).then_some(()));
    let mut ids = dest.delivered(&mut client);
    if groups > 1 {
        ids.sort_unstable();
    }
    assert!(ids.into_iter().eq((0..count).step_by(2)));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int((count - due) as i64));
}
