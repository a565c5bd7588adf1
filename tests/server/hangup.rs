//! A blocked client that hangs up while the server is busy with another.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use redis::Value;
use rustix::process::{Pid, Signal, kill_process};

use crate::sleeper::{Sleeper, waiters};
use crate::threads::servers;
use harness::{Ask, Server, cmd, texts, until};

/// Blocks a client on `k`, to be shut down. Dropping a connection closes it only if no process that other tests start
/// at that moment has inherited it.
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

/// Runs this twenty times: one client keeps the server busy, with these commands before and after; meanwhile the
/// blocked client hangs up.
fn nothing_is_swallowed(server: &Server, before: &[&str], behind: &[&str]) {
    let mut client = server.connect();
    let mut rounds = 0;
    for round in 0.. {
        assert!(round < 200, "the server was never busy for long enough");
        let sleeper = asleep_on_a_socket(server);
        let mut holder = UnixStream::connect(server.file("redis.sock")).expect("a connection");
        // The server logs that it has begun; it cannot be asked.
        let begun = format!("round-{round}-has-begun");
        let log = format!("DEBUG LOG {begun}");
        let lines = [before, &[&log[..], "DEBUG SLEEP 0.15"], behind].concat();
        let packed: Vec<u8> = lines.iter().flat_map(|it| cmd(it).get_packed_command()).collect();
        holder.write_all(&packed).expect("it is sent");
        until("it holds still", || server.log().contains(&begun).then_some(()));
        hang_up(&sleeper);
        let expected = "+OK\r\n".repeat(lines.len());
        let mut replies = vec![0; expected.len()];
        holder.set_nonblocking(true).expect("a socket");
        let early = holder.read(&mut replies).unwrap_or(0);
        holder.set_nonblocking(false).expect("a socket");
        holder.read_exact(&mut replies[early..]).expect("replies");
        assert_eq!(String::from_utf8_lossy(&replies), expected);
        if early > 0 {
            // This test had to wait until the server was done: a client that was still blocked may have been served.
            until("no client is blocked", || (waiters(server) == 0).then_some(()));
            client.ask("DEL k");
            continue;
        }
        until("it is due", || match client.ask("DEHYDRATOR.TTN k") {
            Value::Int(0) => Some(()),
            Value::Nil => panic!("swallowed in round {round}"),
            _ => None,
        });
        until("no client is blocked", || (waiters(server) == 0).then_some(()));
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1), "swallowed in round {round}");
        let next = server.connect().ask("DEHYDRATOR.POLL k BLOCK 0");
        assert_eq!(next, texts(&["element"]));
        rounds += 1;
        if rounds == 20 {
            break;
        }
    }
    let sleeper = Sleeper::start(server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(sleeper.reply(), texts(&["element"]));
}

#[test]
fn a_client_that_hangs_up_before_the_deadline_takes_no_element() {
    for server in servers() {
        nothing_is_swallowed(&server, &["DEHYDRATOR.PUSH k 60 element id"], &[]);
    }
}

#[test]
fn a_client_that_hangs_up_before_the_push_takes_no_element() {
    for server in servers() {
        nothing_is_swallowed(&server, &[], &["DEHYDRATOR.PUSH k 0 element id"]);
    }
}

#[test]
fn a_client_that_hangs_up_right_before_a_push_takes_no_element() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for round in 0..150 {
        let sleeper = asleep_on_a_socket(&server);
        hang_up(&sleeper);
        // The server may read both in one pass of its event loop.
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        let next = server.connect().ask("DEHYDRATOR.POLL k BLOCK 1000");
        assert_eq!(next, texts(&["element"]), "swallowed in round {round}");
    }
}

/// Makes a server read everything in one pass of its event loop, by stopping it until all has arrived. (It sends
/// signals without another process: a starting process holds on to all connections for a moment.)
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
fn a_client_that_hangs_up_in_the_same_pass_as_the_push_takes_no_element() {
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
fn the_client_behind_one_that_hangs_up_is_served_instead() {
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
