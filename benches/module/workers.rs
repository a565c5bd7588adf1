//! Many workers: consumers of one key, and keys over the nodes of a cluster.
//!
//! A server runs one command after the other, so a second worker on the same server only uses the time in which the
//! first one is not asking. On the nodes of a cluster, each key has a core of its own. The workers are threads of this
//! program, and share the cores of the machine with the servers.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use redis::{Cmd, Connection, Value};

use crate::host::{COUNT, Host, LARGE};
use benches::load::{Packed, connect, cpu_us, element, id, pipelines, send};
use benches::table::Table;
use harness::nodes::Cluster;
use harness::{Ask, Server, cmd, refusal};

/// The numbers of consumers of one key.
pub const CONSUMERS: [usize; 4] = [1, 2, 4, 8];
/// The COUNT of each consumer.
pub const TAKEN: usize = 10;
/// The minimum of a cluster.
pub const NODES: usize = 3;
/// The number of pushes and polls, by all workers together.
const PAIRS: usize = 150_000;

/// The place of a worker: the number of its server, and its key there.
type Seat = (usize, String);

/// Runs all workers at once, each with a connection to the server of its seat. `work` returns how many operations it
/// did. Returns thousands of operations per second, and the servers' CPU time for each, in microseconds.
fn together(
    servers: &[Server],
    seats: &[Seat],
    work: impl Fn(usize, &mut Connection) -> usize + Sync,
) -> [f64; 2] {
    let mut clients: Vec<_> = servers.iter().map(connect).collect();
    let mut cpu = || clients.iter_mut().map(cpu_us).sum::<f64>();
    let (start, before) = (Barrier::new(seats.len() + 1), cpu());
    let (done, took) = thread::scope(|scope| {
        let employ = |(worker, (server, _)): (usize, &Seat)| {
            let (mut client, start, work) = (connect(&servers[*server]), &start, &work);
            scope.spawn(move || {
                start.wait();
                work(worker, &mut client)
            })
        };
        let workers: Vec<_> = seats.iter().enumerate().map(employ).collect();
        start.wait();
        let started = Instant::now();
        let done: usize = workers.into_iter().map(|it| it.join().expect("no panic")).sum();
        (done as f64, started.elapsed())
    });
    [done / took.as_secs_f64() / 1e3, (cpu() - before) / done]
}

/// Polls, waiting for each reply, until nothing is left. Returns how many elements it got.
fn consume(client: &mut Connection, ask: &Cmd) -> usize {
    let mut taken = 0;
    loop {
        match ask.query(client).expect("a reply") {
            Value::Array(elements) if !elements.is_empty() => taken += elements.len(),
            _ => return taken,
        }
    }
}

/// Measures consumers of one key, all of whose elements are due; and of a list, as the floor.
pub fn consumers(host: &mut Host, table: &mut Table) {
    for count in CONSUMERS {
        let seats = vec![(0, "k".to_owned()); count];
        let mut drain = |column: usize, host: &Host, ask: &Cmd| {
            let servers = std::slice::from_ref(&host.server);
            let figures = together(servers, &seats, |_, client| consume(client, ask));
            table.note_all(&count.to_string(), column, &figures);
        };
        host.push_due(COUNT);
        drain(0, host, &cmd(&format!("DEHYDRATOR.POLL k COUNT {TAKEN}")));
        host.fill_list();
        drain(2, host, &cmd(&format!("LPOP list {TAKEN}")));
        assert!(!host.client.exists("k") && !host.client.exists("list"), "all was taken");
    }
}

/// Measures workers that push due elements and take one each time, in pipelines: one worker, then several on the same
/// key, on one key each of the same node, and on one key each of different nodes.
pub fn spread(cluster: &Cluster, table: &mut Table) {
    let keys: Vec<_> = cluster.nodes.iter().map(|node| keys_of(node, NODES)).collect();
    let seat = |node: usize, key: usize| (node, keys[node][key].clone());
    table.note_all("1", 0, &put_and_take(cluster, &[seat(0, 0)]));
    for count in 2..=NODES {
        let seatings: [(&str, Vec<Seat>); 3] = [
            ("on one key", (0..count).map(|_| seat(0, 0)).collect()),
            ("on one key each, one node", (0..count).map(|worker| seat(0, worker)).collect()),
            ("on one key and one node each", (0..count).map(|worker| seat(worker, 0)).collect()),
        ];
        for (what, seats) in seatings {
            let row = format!("{count}, {what}");
            table.note_all(&row, 0, &put_and_take(cluster, &seats));
        }
    }
}

fn put_and_take(cluster: &Cluster, seats: &[Seat]) -> [f64; 2] {
    let load = |(worker, (_, key)): (usize, &Seat)| pairs(key, worker * PAIRS, PAIRS / seats.len());
    let loads: Vec<_> = seats.iter().enumerate().map(load).collect();
    let figures = together(&cluster.nodes, seats, |worker, client| {
        send(client, &loads[worker]);
        loads[worker].iter().map(|(_, replies)| replies).sum()
    });
    let is_gone = |(node, key): &Seat| !cluster.nodes[*node].connect().exists(key);
    assert!(seats.iter().all(is_gone), "each POLL took an element");
    figures
}

/// Returns pipelines with a PUSH of a due element and a POLL of one element, with ids from `first` on.
fn pairs(key: &str, first: usize, count: usize) -> Vec<Packed> {
    pipelines(count, |pipe, number| {
        let number = first + number;
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(0).arg(element(number, LARGE)).arg(id(number));
        pipe.cmd("DEHYDRATOR.POLL").arg(key).arg("COUNT").arg(1);
    })
}

/// Returns keys whose slots a node of a cluster serves; for others it would redirect.
fn keys_of(node: &Server, count: usize) -> Vec<String> {
    let mut client = node.connect();
    let keys = (0..).map(|number| format!("k{number}"));
    keys.filter(|key| refusal(&cmd(&format!("EXISTS {key}")), &mut client).is_err())
        .take(count)
        .collect()
}
