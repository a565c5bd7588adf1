//! A client that hangs up in its sleep while the server is busy with another.

use std::fs;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use redis::{Connection, Value};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Ask, Server, cmd, texts, until};
use crate::sleeper::{Sleeper, waiters};
use crate::threads::servers;

/// A client asleep on `k`, whose connection can be dropped.
fn asleep(server: &Server) -> Connection {
    let mut client = server.connect();
    let poll = cmd("DEHYDRATOR.POLL k BLOCK 0").get_packed_command();
    client.send_packed_command(&poll).expect("it is sent");
    until("it is asleep", || (waiters(server) == 1).then_some(()));
    client
}

/// As [`asleep`], to be shut down: to drop a connection closes it only when no process that is being started at that
/// moment, as other tests do, holds on to it.
fn asleep_on_a_socket(server: &Server) -> UnixStream {
    let mut socket = UnixStream::connect(server.file("redis.sock")).expect("a connection");
    let poll = cmd("DEHYDRATOR.POLL k BLOCK 0").get_packed_command();
    socket.write_all(&poll).expect("it is sent");
    until("it is asleep", || (waiters(server) == 1).then_some(()));
    socket
}

fn hang_up(socket: &UnixStream) {
    socket.shutdown(Shutdown::Both).expect("it is open");
}

/// Twenty times: the holder says this, the sleeper hangs up, the deadline passes.
fn nothing_is_swallowed(server: &Server, ttl: Option<u64>, lines: &[&str]) {
    let mut client = server.connect();
    for round in 0..20 {
        let sleeper = asleep(server);
        let mut holder = server.connect();
        let packed: Vec<u8> = lines.iter().flat_map(|it| cmd(it).get_packed_command()).collect();
        if let Some(ttl) = ttl {
            client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element id"));
        }
        holder.send_packed_command(&packed).expect("it is sent");
        // The server holds still by now, or will before it reads anything else. It cannot be asked.
        let since = Instant::now();
        until("it holds still", || (since.elapsed() > Duration::from_millis(10)).then_some(()));
        drop(sleeper);
        for _ in lines {
            holder.recv_response().expect("a reply");
        }
        until("it is due", || match client.ask("DEHYDRATOR.TTN k") {
            Value::Int(0) => Some(()),
            Value::Nil => panic!("swallowed in round {round}"),
            _ => None,
        });
        until("nobody is asleep", || (waiters(server) == 0).then_some(()));
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1), "swallowed in round {round}");
        let next = server.connect().ask("DEHYDRATOR.POLL k BLOCK 0");
        assert_eq!(next, texts(&["element"]));
    }
    let sleeper = Sleeper::start(server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(sleeper.reply(), texts(&["element"]));
}

#[test]
fn one_that_hangs_up_before_the_deadline_swallows_nothing() {
    for server in servers() {
        nothing_is_swallowed(&server, Some(60), &["DEBUG SLEEP 0.15"]);
    }
}

#[test]
fn one_that_hangs_up_before_the_push_swallows_nothing() {
    for server in servers() {
        let push = "DEHYDRATOR.PUSH k 0 element id";
        nothing_is_swallowed(&server, None, &["DEBUG SLEEP 0.15", push]);
    }
}

#[test]
fn one_that_hangs_up_right_before_a_push_swallows_nothing() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for round in 0..150 {
        let sleeper = asleep_on_a_socket(&server);
        hang_up(&sleeper);
        // The server may read of both in one pass of its loop.
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        let next = server.connect().ask("DEHYDRATOR.POLL k BLOCK 1000");
        assert_eq!(next, texts(&["element"]), "swallowed in round {round}");
    }
}

/// What a server reads of in one pass of its event loop, because it stood still when all of it came. (It is signalled
/// without another process: one that is being started holds on to all connections for a moment.)
fn in_one_pass(server: &Server, happens: impl FnOnce()) {
    let number = server.info("server", "process_id");
    let pid = Pid::from_raw(number as i32).expect("a process");
    let signal = |signal| kill_process(pid, signal).expect("it is signalled");
    let state = format!("/proc/{number}/stat");
    signal(Signal::STOP);
    until("it stands still", || {
        fs::read_to_string(&state).expect("a process").contains(") T ").then_some(())
    });
    happens();
    signal(Signal::CONT);
}

#[test]
fn one_that_hangs_up_in_the_pass_of_the_push_swallows_nothing() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for round in 0..20 {
        let sleeper = asleep_on_a_socket(&server);
        let push = cmd("DEHYDRATOR.PUSH k 0 element id").get_packed_command();
        in_one_pass(&server, || {
            client.send_packed_command(&push).expect("it is sent");
            hang_up(&sleeper);
        });
        client.recv_response().expect("OK");
        let next = server.connect().ask("DEHYDRATOR.POLL k BLOCK 1000");
        assert_eq!(next, texts(&["element"]), "swallowed in round {round}");
    }
}

#[test]
fn who_comes_behind_one_that_hangs_up_is_served_in_its_place() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let first = asleep_on_a_socket(&server);
    let second = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let push = cmd("DEHYDRATOR.PUSH k 0 element id").get_packed_command();
    in_one_pass(&server, || {
        client.send_packed_command(&push).expect("it is sent");
        hang_up(&first);
    });
    assert_eq!(second.reply(), texts(&["element"]));
}
