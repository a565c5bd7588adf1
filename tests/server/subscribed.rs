//! A client that has subscribed to something, and may send commands all the same: RESP3.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::harness::{Ask, Server, until};
use crate::sleeper::waiters;

/// A connection without a client library: what comes is looked at as it comes.
struct Wire {
    socket: UnixStream,
    came: Vec<u8>,
}

impl Wire {
    fn connect(server: &Server) -> Self {
        let socket = UnixStream::connect(server.file("redis.sock")).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        Self { socket, came: Vec::new() }
    }

    fn send(&mut self, line: &str) {
        write!(self.socket, "{line}\r\n").expect("it is sent");
    }

    /// Waits until what came ends with this.
    fn ends_with(&mut self, end: &str) {
        let mut buffer = [0; 4096];
        until(&format!("{end:?} comes"), || {
            match self.socket.read(&mut buffer) {
                Ok(0) => panic!("the server hung up"),
                Ok(count) => self.came.extend_from_slice(&buffer[..count]),
                // Nothing has come yet.
                Err(_) => {}
            }
            self.came.ends_with(end.as_bytes()).then_some(())
        });
        self.came.clear();
    }
}

#[test]
fn one_that_has_subscribed_sleeps_or_is_told_that_nothing_is_due() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for subscribe in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
        let mut wire = Wire::connect(&server);
        wire.send("HELLO 3");
        wire.send(&format!("{subscribe} x"));
        wire.ends_with("x\r\n:1\r\n");
        wire.send("DEHYDRATOR.POLL k BLOCK 0");
        let valkey = server.log().contains("Valkey");
        if valkey {
            // This server puts no such client to sleep.
            wire.ends_with("*0\r\n");
        } else {
            until("it is asleep", || (waiters(&server) == 1).then_some(()));
            client.ask("DEHYDRATOR.PUSH k 0 element id");
            wire.ends_with("*1\r\n$7\r\nelement\r\n");
        }
        wire.send("ECHO in-step");
        wire.ends_with("$7\r\nin-step\r\n");
        assert_eq!(waiters(&server), 0);
        wire.send("DEHYDRATOR.MPOLL 2 j k BLOCK 0");
        if valkey {
            wire.ends_with("_\r\n");
        } else {
            until("it is asleep", || (waiters(&server) == 1).then_some(()));
            client.ask("DEHYDRATOR.PUSH k 0 element id");
            wire.ends_with("*2\r\n$1\r\nk\r\n*1\r\n$7\r\nelement\r\n");
        }
        // What is due is given to it as to any other.
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        wire.send("DEHYDRATOR.POLL k BLOCK 0");
        wire.ends_with("*1\r\n$7\r\nelement\r\n");
        // And once it listens to nothing any more, it sleeps.
        wire.send(&subscribe.replace("SUB", "UNSUB"));
        wire.ends_with("x\r\n:0\r\n");
        wire.send("DEHYDRATOR.POLL k BLOCK 0");
        until("it is asleep", || (waiters(&server) == 1).then_some(()));
        client.ask("DEHYDRATOR.PUSH k 5 element id");
        wire.ends_with("*1\r\n$7\r\nelement\r\n");
    }
}
