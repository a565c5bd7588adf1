//! Servers with threaded reads: other clients' commands run between the moment when a client is woken and the moment
//! when it is served.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, texts, until};

/// Options with threads, as this server names them, and without.
pub fn servers() -> [Server; 2] {
    let plain = Server::start_with_port(&[]);
    let reads = server_reads_by_option(&plain);
    let mut options = vec!["--io-threads", "2"];
    if reads {
        options.extend(["--io-threads-do-reads", "yes"]);
    }
    [plain, Server::start_with_port(&options)]
}

/// Redis 7.0 needs an option for threaded reads; the others always use their threads for reading.
fn server_reads_by_option(server: &Server) -> bool {
    let Value::BulkString(info) = server.connect().ask("INFO server") else { panic!("text") };
    let info = String::from_utf8_lossy(&info).into_owned();
    info.contains("redis_version:7.0") && !info.contains("valkey_version")
}

#[test]
fn block_0_never_returns_nothing_even_if_others_take_the_elements() {
    const COUNT: usize = 3000;
    for server in servers() {
        let is_over = AtomicBool::new(false);
        let taken = std::thread::scope(|scope| {
            let mut takers = Vec::new();
            for _ in 0..4 {
                takers.push(scope.spawn(|| {
                    let mut client = server.connect();
                    let mut taken = 0;
                    loop {
                        let reply = client.ask("DEHYDRATOR.POLL k BLOCK 0 COUNT 1");
                        let Value::Array(elements) = &reply else { panic!("woken for {reply:?}") };
                        assert_eq!(elements.len(), 1, "woken for {reply:?}");
                        if reply == texts(&["end"]) {
                            return taken;
                        }
                        taken += 1;
                    }
                }));
            }
            for _ in 0..3 {
                takers.push(scope.spawn(|| {
                    let mut client = server.connect();
                    let mut taken = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let poll = cmd("DEHYDRATOR.POLL k COUNT 1");
                        let elements: Vec<String> = poll.query(&mut client).expect("elements");
                        taken += elements.len();
                    }
                    taken
                }));
            }
            let mut client = server.connect();
            until("all are there", || (waiters(&server) == 4).then_some(()));
            for id in 0..COUNT {
                client.ask(&format!("DEHYDRATOR.PUSH k {} element {id}", id % 4));
            }
            until("all are taken", || {
                (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(())
            });
            is_over.store(true, Ordering::Relaxed);
            let mut sum = 0;
            for taker in takers.split_off(4) {
                sum += taker.join().expect("no panic");
            }
            // One for each blocked client.
            takers.iter().for_each(|_| drop(client.ask("DEHYDRATOR.GIDPUSH k 0 end")));
            for taker in takers {
                sum += taker.join().expect("no panic");
            }
            sum
        });
        assert_eq!(taken, COUNT);
    }
}

#[test]
fn clients_are_served_in_order_of_arrival_with_threads_too() {
    for server in servers() {
        let mut client = server.connect();
        let poll = cmd("DEHYDRATOR.POLL k BLOCK 0 COUNT 1").get_packed_command();
        let mut line: Vec<Connection> = (0..6).map(|_| server.connect()).collect();
        for (before, sleeper) in (0..).zip(&mut line) {
            sleeper.send_packed_command(&poll).expect("it is sent");
            until("it is asleep", || (waiters(&server) == before + 1).then_some(()));
        }
        for round in 0..1000 {
            client.ask(&format!("DEHYDRATOR.PUSH k {} {round} {round}", round % 3));
            // The first client gets it, and queues again at the end.
            let first = &mut line[0];
            let reply = first.recv_response().expect("a reply");
            assert_eq!(reply, texts(&[&round.to_string()]));
            first.send_packed_command(&poll).expect("it is sent");
            until("it is asleep", || (waiters(&server) == 6).then_some(()));
            line.rotate_left(1);
        }
    }
}

#[test]
fn an_element_that_expires_with_its_key_wakes_nobody() {
    for server in servers() {
        let mut client = server.connect();
        let mut sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
        for round in 0..300 {
            client.ask(&format!("DEHYDRATOR.PUSH k 5 {round} {round}"));
            // It may have been taken already, if the test was slow.
            client.ask("PEXPIRE k 5");
            until("it is gone", || (!client.exists("k")).then_some(()));
            // A woken client has left the queue.
            if waiters(&server) == 0 {
                assert_eq!(sleeper.reply(), texts(&[&round.to_string()]));
                sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
            }
        }
        assert!(!sleeper.is_awake(), "{:?}", sleeper.outcome());
        client.ask("DEHYDRATOR.PUSH k 0 last last");
        assert_eq!(sleeper.reply(), texts(&["last"]));
    }
}
