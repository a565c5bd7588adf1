//! A blocked client that hangs up while the server is busy with another.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

use redis::Value;
use rustix::process::{Pid, Signal, kill_process};

use crate::sleeper::{Sleeper, waiters};
use crate::threads::servers;
use harness::{Ask, Server, cmd, texts, until};

/// A connection that can be shut down. Dropping it closes it only if no process that other tests start at that moment has
/// inherited it.
enum Socket {
    /// The server's first write to a closed one fails.
    Unix(UnixStream),
    /// The server's first write to a closed one succeeds.
    Tcp(TcpStream),
}

impl Socket {
    fn unix(server: &Server) -> Self {
        Self::Unix(UnixStream::connect(server.file("redis.sock")).expect("a connection"))
    }

    fn tcp(server: &Server) -> Self {
        Self::Tcp(TcpStream::connect(("127.0.0.1", server.port())).expect("a connection"))
    }

    fn send(&mut self, line: &str) {
        let packed = cmd(line).get_packed_command();
        match self {
            Self::Unix(socket) => socket.write_all(&packed),
            Self::Tcp(socket) => socket.write_all(&packed),
        }
        .expect("it is sent");
    }

    fn hang_up(&self) {
        match self {
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
        }
        .expect("it is open");
    }

    /// Returns all that the server sends until it hangs up.
    fn read_all(mut self) -> String {
        let mut text = String::new();
        match &mut self {
            Self::Unix(socket) => socket.read_to_string(&mut text),
            Self::Tcp(socket) => socket.read_to_string(&mut text),
        }
        .expect("it hangs up");
        text
    }
}

const POLL: &str = "DEHYDRATOR.POLL k BLOCK 0";

/// Blocks a client on `k`, to be shut down.
fn asleep_on(server: &Server, mut socket: Socket) -> Socket {
    socket.send(POLL);
    until("it is asleep", || (waiters(server) == 1).then_some(()));
    socket
}

fn asleep_on_a_socket(server: &Server) -> Socket {
    asleep_on(server, Socket::unix(server))
}

fn hang_up(socket: &Socket) {
    socket.hang_up();
}

/// Runs this twenty times: one client keeps the server busy, with these commands before and after; meanwhile the
/// blocked client hangs up.
fn nothing_is_swallowed(server: &Server, before: &[&str], behind: &[&str]) {
    let mut client = server.connect();
    let mut rounds = 0;
    for round in 0.. {
        assert!(round < 200, "the server was never busy for long enough");
        let connect = if round % 2 == 0 { Socket::unix } else { Socket::tcp };
        let sleeper = asleep_on(server, connect(server));
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
    let (server, mut client) = Server::with_client(&[]);
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
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for round in 0..20 {
        let connect = if round % 2 == 0 { Socket::unix } else { Socket::tcp };
        let sleeper = asleep_on(&server, connect(&server));
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
    let (server, mut client) = Server::with_client(&[]);
    let first = asleep_on_a_socket(&server);
    let second = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let push = cmd("DEHYDRATOR.PUSH k 0 element id").get_packed_command();
    in_one_pass(&server, || {
        client.send_packed_command(&push).expect("it is sent");
        hang_up(&first);
    });
    assert_eq!(second.reply(), texts(&["element"]));
}

#[test]
fn what_a_vanished_client_was_given_returns_uncounted_and_unheld() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for round in 0..20 {
        let connect = if round % 2 == 0 { Socket::unix } else { Socket::tcp };
        let mut socket = connect(&server);
        socket.send("DEHYDRATOR.POLL k BLOCK 0 LEASE 60000");
        until("it is asleep", || (waiters(&server) == 1).then_some(()));
        let push = cmd("DEHYDRATOR.PUSH k 0 element id").get_packed_command();
        in_one_pass(&server, || {
            client.send_packed_command(&push).expect("it is sent");
            hang_up(&socket);
        });
        client.recv_response().expect("OK");
        let next = client.ask("DEHYDRATOR.POLL k BLOCK 1000 LEASE 60000");
        let Value::Array(rows) = &next else { panic!("{next:?} in round {round}") };
        let Value::Array(row) = &rows[0] else { panic!("{next:?}") };
        assert_eq!(row[2], Value::Int(1), "the first delivery, in round {round}");
        client.ask("DEL k");
    }
}

#[test]
fn a_client_that_quits_after_its_element_keeps_it() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for connect in [Socket::unix, Socket::tcp] {
        let mut socket = asleep_on(&server, connect(&server));
        // The server reads it while the client is blocked, and runs it in the pass in which it replies.
        socket.send("QUIT");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        assert_eq!(socket.read_all(), "*1\r\n$7\r\nelement\r\n+OK\r\n");
        until("no client is blocked", || (waiters(&server) == 0).then_some(()));
        client.ask("PING");
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0), "given out twice");
    }
}

/// Blocks a client that asks for a long string next: the server runs that in the pass in which it replies the element.
fn wake_before_a_long_reply(server: &Server) -> String {
    let mut client = server.connect();
    // Much more than a socket holds.
    client.ask("SETRANGE large 20000000 x");
    let mut socket = asleep_on_a_socket(server);
    socket.send("GETRANGE large 0 -1");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    socket.read_all()
}

#[test]
fn a_client_that_is_evicted_after_its_element_keeps_it() {
    let server = Server::start(&["--maxmemory-clients", "4mb"]);
    let text = wake_before_a_long_reply(&server);
    assert!(text.starts_with("*1\r\n$7\r\nelement\r\n"), "{}", &text[..text.len().min(40)]);
    assert_eq!(server.info("stats", "evicted_clients"), 1);
    let mut client = server.connect();
    client.ask("PING");
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0), "given out twice");
}

#[test]
fn a_client_whose_replies_are_too_long_takes_no_element() {
    let server = Server::start(&["--client-output-buffer-limit", "normal 4mb 0 0"]);
    assert_eq!(wake_before_a_long_reply(&server), "", "nothing is sent");
    let next = server.connect().ask("DEHYDRATOR.POLL k BLOCK 1000");
    assert_eq!(next, texts(&["element"]));
}
