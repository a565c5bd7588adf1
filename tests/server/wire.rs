//! A connection without a client library, to inspect the bytes as they arrive.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use harness::{Server, until};

pub struct Wire {
    socket: UnixStream,
    came: Vec<u8>,
    echoes: u64,
}

impl Wire {
    pub fn connect(server: &Server) -> Self {
        let socket = UnixStream::connect(server.file("redis.sock")).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        Self { socket, came: Vec::new(), echoes: 0 }
    }

    pub fn send(&mut self, line: &str) {
        write!(self.socket, "{line}\r\n").expect("it is sent");
    }

    /// Waits until the received bytes end with this. Returns them.
    pub fn ends_with(&mut self, end: &str) -> String {
        self.wait(end, |came| came.ends_with(end.as_bytes()).then_some(came.len()))
    }

    /// Returns what came before the server replied to a command of this moment. Later bytes are for the next call.
    pub fn so_far(&mut self) -> String {
        self.echoes += 1;
        let word = format!("echo-{}", self.echoes);
        self.send(&format!("ECHO {word}"));
        let reply = format!("${}\r\n{word}\r\n", word.len());
        let length = reply.len();
        let place = |came: &[u8]| came.windows(length).position(|part| part == reply.as_bytes());
        self.wait(&reply, |came| place(came).map(|place| place + length))
    }

    /// Takes this many received bytes.
    fn wait(&mut self, what: &str, is_there: impl Fn(&[u8]) -> Option<usize>) -> String {
        let mut buffer = [0; 4096];
        let length = until(&format!("{what:?} comes"), || {
            match self.socket.read(&mut buffer) {
                Ok(0) => panic!("the server hung up"),
                Ok(count) => self.came.extend_from_slice(&buffer[..count]),
                // Nothing has arrived yet.
                Err(_) => {}
            }
            is_there(&self.came)
        });
        let rest = self.came.split_off(length);
        let came = std::mem::replace(&mut self.came, rest);
        String::from_utf8_lossy(&came).into_owned()
    }
}
