//! The cost of each command to the server's main thread, with SET and LPOP for comparison, while a million other
//! elements wait.
//!
//! *In pipelines*, the server reads a thousand commands at once, which leaves the cost of the command itself. *One at a
//! time*, each command has its own pass of the event loop, a read and a write. *Many clients at once* is the situation
//! of a busy server: each command has a read and a write, and they share a pass. To get many commands into one pass,
//! the bench makes the server sleep (DEBUG SLEEP) while it sends them.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, ConnectionLike, Value};
use rustix::time::{ClockId, clock_gettime};

use crate::job::{self, Held};
use crate::probe::{Probe, median};
use benches::load::{Packed, element, id, pipelines, send};
use harness::{Ask, cmd, until};

/// Other elements in the same key.
const WAITING: usize = 1_000_000;
/// Elements per measurement.
const COUNT: usize = 50_000;
/// The COUNT of a POLL of many.
const MANY: usize = 100;
const ROUNDS: usize = 5;
/// Clients whose commands share a pass.
const CLIENTS: usize = 64;
const TURNS: usize = 60;
const LEASE_MS: u64 = 3_600_000;

/// The figures of all rounds, by name.
#[derive(Default)]
pub struct Figures(BTreeMap<String, Vec<f64>>);

impl Figures {
    fn note(&mut self, name: &str, figure: f64) {
        self.0.entry(name.to_owned()).or_default().push(figure);
    }

    pub fn medians(self) -> impl Iterator<Item = (String, f64)> {
        self.0.into_iter().map(|(name, figures)| (name, median(figures)))
    }
}

/// Fills a server with elements that wait for hours.
pub fn fill(client: &mut Connection, count: usize) {
    const BATCH: usize = 100_000;
    for first in (0..count).step_by(BATCH) {
        let pushes = pipelines(BATCH.min(count - first), |pipe, number| {
            let number = first + number;
            let ttl = 86_400_000 + number as u64 % 8;
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg("jobs").arg(ttl);
            push.arg(element(number, 64)).arg(id(number));
        });
        send(client, &pushes);
    }
}

/// Returns pushes of elements that are due at once, with unique ids.
fn pushes(key: &str, count: usize) -> Vec<Packed> {
    pipelines(count, |pipe, number| {
        let number = WAITING + number;
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(0);
        push.arg(element(number, 64)).arg(id(number));
    })
}

fn polls(count: usize, options: &str) -> Vec<Packed> {
    let poll = cmd(&format!("DEHYDRATOR.POLL jobs {options}"));
    pipelines(count, |pipe, _| _ = pipe.add_command(poll.clone()))
}

/// Sends POLLs with LEASE. Returns the leased elements.
fn lease(client: &mut Connection, polls: &[Packed]) -> Vec<Vec<Held>> {
    let replies = polls.iter().flat_map(|(pipeline, count)| {
        client.req_packed_commands(pipeline, 0, *count).expect("replies")
    });
    replies.map(job::held).collect()
}

fn answers(of: &[Vec<Held>], answer: impl Fn(&[Held]) -> redis::Cmd) -> Vec<Packed> {
    pipelines(of.len(), |pipe, at| _ = pipe.add_command(answer(&of[at])))
}

/// Measures commands in pipelines. `with` is a suffix for the names of the figures: empty, or that of a server with a
/// replica and an append-only file.
pub fn pipelined(probe: &Probe, with: &str) -> Figures {
    let mut client = probe.connect();
    let client = &mut client;
    fill(client, WAITING);
    let mut figures = Figures::default();
    let push = pushes("jobs", COUNT);
    let set = pipelines(COUNT, |pipe, number| {
        _ = pipe.cmd("SET").arg(id(number)).arg(element(number, 64));
    });
    let rpush = pipelines(COUNT, |pipe, number| {
        _ = pipe.cmd("RPUSH").arg("list").arg(element(number, 64));
    });
    let lpop = pipelines(COUNT, |pipe, _| _ = pipe.cmd("LPOP").arg("list"));
    let ping = pipelines(COUNT, |pipe, _| _ = pipe.cmd("PING"));
    for _ in 0..ROUNDS {
        let mut note = |name: &str, us: f64| figures.note(&format!("{name}{with}_us"), us);
        let mut each = |client: &mut Connection, name: &str, packed: &[Packed]| {
            note(name, probe.cost(COUNT, || send(client, packed)));
        };
        each(client, "ping", &ping);
        each(client, "set", &set);
        client.ask("DEL list");
        send(client, &rpush);
        each(client, "lpop", &lpop);
        each(client, "push", &push);
        each(client, "take_1", &polls(COUNT, "COUNT 1"));
        send(client, &push);
        each(client, "take_100", &polls(COUNT / MANY, &format!("COUNT {MANY}")));
        for (many, name) in [(1, "1"), (MANY, "100")] {
            send(client, &push);
            let poll = polls(COUNT / many, &format!("COUNT {many} LEASE {LEASE_MS}"));
            let mut held = Vec::new();
            note(&format!("lease_{name}"), probe.cost(COUNT, || held = lease(client, &poll)));
            let renew = answers(&held, |held| job::renew("jobs", LEASE_MS, held));
            let settle = answers(&held, |held| job::settle("jobs", held));
            note(&format!("renew_{name}"), probe.cost(COUNT, || send(client, &renew)));
            note(&format!("settle_{name}"), probe.cost(COUNT, || send(client, &settle)));
        }
        // The stream does not contain elements of other measurements.
        send(client, &pushes("later", COUNT));
        let deliver = || {
            client.ask("DEHYDRATOR.ONDUE later STREAM stream");
            // Occasional checks are negligible beside the work.
            let mut look = || {
                thread::sleep(Duration::from_millis(20));
                (client.ask("DEHYDRATOR.LEN later") == Value::Int(0)).then_some(())
            };
            crate::patience::until("all is in the stream", &mut look);
        };
        note("ondue_stream", probe.cost(COUNT, deliver));
        client.ask("DEL later stream");
    }
    figures
}

/// Measures commands without pipelines, and blocked clients.
pub fn one_by_one(probe: &Probe) -> Figures {
    let mut figures = Figures::default();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| probe.connect()).collect();
    let mut asks = probe.connect();
    let mut alone = Vec::new();
    for _ in 0..ROUNDS {
        let (own, together) = shared_turn(probe, &mut asks, &mut clients);
        figures.note("ping_in_a_shared_turn_us", together);
        figures.note("ping_in_its_own_turn_us", own);
        alone.extend((0..5).map(|_| lockstep(probe, &mut clients[0])));
        let [server, thread] = crowd(probe);
        figures.note("ping_of_a_crowd_us", server);
        figures.note("client_ping_of_a_crowd_us", thread);
        for (many, name) in [(1, "1"), (MANY, "100")] {
            let [server, thread] = jobs(probe, &mut asks, &mut clients[0], many);
            figures.note(&format!("job_alone_{name}_us"), server);
            figures.note(&format!("client_job_{name}_us"), thread);
        }
        for (sleepers, name) in [(1, "1"), (CLIENTS, "64")] {
            let (now, later) = wakings(probe, &mut asks, &mut clients[..sleepers]);
            figures.note(&format!("wake_now_{name}_us"), now);
            figures.note(&format!("wake_later_{name}_us"), later);
        }
    }
    // Other load on this machine lengthens a round, and nothing shortens one: take the shortest.
    let shortest = alone.into_iter().min_by(|one, other| one[0].total_cmp(&other[0]));
    let [wall, server, thread] = shortest.expect("a round");
    figures.note("ping_alone_us", server);
    figures.note("client_ping_us", thread);
    // The time in which neither worked is the time for the other core to wake.
    figures.note("wake_processor_us", ((wall - server - thread) / 2.0).max(0.0));
    figures
}

/// Measures a PING with a pass of its own, and one of many in a pass: the difference is the cost of a further request.
fn shared_turn(probe: &Probe, asks: &mut Connection, clients: &mut [Connection]) -> (f64, f64) {
    let ping = redis::cmd("PING").get_packed_command();
    let sleep = cmd("DEBUG SLEEP 0.003").get_packed_command();
    let mut turn = |clients: &mut [Connection]| {
        let one = || {
            let cost = probe.cost(1, || {
                asks.send_packed_command(&sleep).expect("it is sent");
                thread::sleep(Duration::from_micros(300));
                for client in &mut *clients {
                    client.send_packed_command(&ping).expect("it is sent");
                }
                for client in &mut *clients {
                    client.recv_response().expect("a reply");
                }
                asks.recv_response().expect("a reply");
            });
            thread::sleep(Duration::from_micros(500));
            cost
        };
        median(std::iter::repeat_with(one).take(TURNS).collect())
    };
    let none = turn(&mut []);
    let one = turn(&mut clients[..1]);
    let all = turn(clients);
    (one - none, (all - one) / (clients.len() - 1) as f64)
}

/// Returns the CPU time of this thread, in microseconds.
fn thread_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Measures PINGs of one client that waits for each reply: microseconds of wall-clock time, of the server, and of the
/// client.
fn lockstep(probe: &Probe, client: &mut Connection) -> [f64; 3] {
    const COUNT: usize = 1000;
    let ping = redis::cmd("PING");
    let (mut walls, mut thread) = (Vec::with_capacity(COUNT), 0.0);
    let server = probe.cost(COUNT, || {
        let before = thread_us();
        for _ in 0..COUNT {
            let asked = Instant::now();
            ping.exec(client).expect("a reply");
            walls.push(asked.elapsed().as_secs_f64() * 1e6);
        }
        thread = (thread_us() - before) / COUNT as f64;
    });
    walls.sort_by(f64::total_cmp);
    // Only the longer rounds include waiting for other programs.
    [walls[COUNT / 4], server, thread]
}

/// Measures PINGs of many threads that share a core and wait for each reply: microseconds of the server and of the
/// clients' core per PING.
fn crowd(probe: &Probe) -> [f64; 2] {
    const THREADS: usize = 16;
    const COUNT: usize = 1000;
    let thread_us = std::sync::Mutex::new(0.0);
    let work = || {
        let mut client = probe.connect();
        let before = self::thread_us();
        (0..COUNT).for_each(|_| redis::cmd("PING").exec(&mut client).expect("a reply"));
        *thread_us.lock().expect("no panic") += self::thread_us() - before;
    };
    let server = probe.cost(THREADS * COUNT, || {
        thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    });
    [server, thread_us.into_inner().expect("no panic") / (THREADS * COUNT) as f64]
}

/// Measures POLLs with LEASE and COUNT, and a SETTLE for each, of one client that waits for each reply, as a worker
/// does: microseconds of the server and of the client for both.
fn jobs(probe: &Probe, asks: &mut Connection, client: &mut Connection, many: usize) -> [f64; 2] {
    let rounds = if many == 1 { 3000 } else { 300 };
    send(asks, &pushes("jobs", rounds * many));
    let mut thread = 0.0;
    let server = probe.cost(rounds, || {
        let before = thread_us();
        for _ in 0..rounds {
            let held = job::poll(client, "jobs", many, LEASE_MS, 0);
            assert_eq!(held.len(), many, "enough are due");
            job::settle("jobs", &held).exec(client).expect("a reply");
        }
        thread = (thread_us() - before) / rounds as f64;
    });
    [server, thread]
}

/// Measures waking clients that are blocked on one key: by elements that are due when pushed, and by elements that come
/// due together a little later. Returns the server's microseconds per client after the push, without the push.
fn wakings(probe: &Probe, asks: &mut Connection, clients: &mut [Connection]) -> (f64, f64) {
    const ROUNDS: usize = 40;
    let count = clients.len();
    let poll = cmd("DEHYDRATOR.POLL sleepy BLOCK 0 COUNT 1").get_packed_command();
    let mut round = |ttl: usize| {
        let mut push = redis::pipe();
        for number in 0..count {
            push.cmd("DEHYDRATOR.PUSH")
                .arg("sleepy")
                .arg(ttl)
                .arg(element(number, 64))
                .arg(id(number));
        }
        let push = (push.get_packed_pipeline(), count);
        // No client is blocked: the cost of the pushes themselves.
        let alone = probe.cost(count, || send(asks, std::slice::from_ref(&push)));
        asks.ask("DEL sleepy");
        for client in &mut *clients {
            client.send_packed_command(&poll).expect("it is sent");
        }
        until("all are asleep", || {
            (asks.info("clients", "blocked_clients") == count as u64).then_some(())
        });
        let all = probe.cost(count, || {
            send(asks, std::slice::from_ref(&push));
            for client in &mut *clients {
                client.recv_response().expect("an element");
            }
        });
        all - alone
    };
    let mut rounds = |ttl| median(std::iter::repeat_with(|| round(ttl)).take(ROUNDS).collect());
    (rounds(0), rounds(10))
}
