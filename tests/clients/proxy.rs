//! A proxy between a client library and the server: it watches what the library does with its connections, and cuts
//! them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// An action of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// It sent a command with the watched key.
    Sent,
    /// It closed a connection on which it had sent one.
    Closed,
}

/// Listens on a port of its own until all tests have ended.
pub struct Proxy {
    port: u16,
    seen: Arc<Mutex<Vec<(Instant, Event)>>>,
    cuts: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts in front of a server's socket, and watches for commands with this key.
    pub fn start(socket: PathBuf, key: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let cuts = Arc::new(AtomicBool::new(false));
        let proxy = Self { port, seen: Arc::clone(&seen), cuts: Arc::clone(&cuts) };
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { continue };
                // It keeps its port without a server too; otherwise another test would get the port.
                let Ok(server) = UnixStream::connect(&socket) else { continue };
                let _ = client.set_nodelay(true);
                Wire { client, server, key, seen: Arc::clone(&seen), cuts: Arc::clone(&cuts) }
                    .run();
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on, cuts a connection when the server replies to a command with the key: the server has executed the
    /// command, and the client gets no reply.
    pub fn cut_replies(&self) {
        self.cuts.store(true, Ordering::SeqCst);
    }

    /// Returns the client's actions so far.
    pub fn seen(&self) -> Vec<(Instant, Event)> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Returns how often the client did this.
    pub fn count(&self, event: Event) -> usize {
        self.seen().iter().filter(|(_, it)| *it == event).count()
    }
}

/// Handles one connection through the proxy.
struct Wire {
    client: TcpStream,
    server: UnixStream,
    key: &'static str,
    seen: Arc<Mutex<Vec<(Instant, Event)>>>,
    cuts: Arc<AtomicBool>,
}

impl Wire {
    fn run(self) {
        // Whether it carried a command with the key.
        let has_sent = Arc::new(AtomicBool::new(false));
        let was_cut = Arc::new(AtomicBool::new(false));
        let mut client = self.client.try_clone().expect("a socket");
        let mut server = self.server.try_clone().expect("a socket");
        let (sent, cut) = (Arc::clone(&has_sent), Arc::clone(&was_cut));
        let cuts = self.cuts;
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = server.read(&mut bytes) {
                if cuts.load(Ordering::SeqCst) && sent.load(Ordering::SeqCst) {
                    cut.store(true, Ordering::SeqCst);
                    break;
                }
                if client.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        });

        let (mut client, mut server) = (self.client, self.server);
        let (key, seen) = (self.key.as_bytes(), self.seen);
        let tell = move |event| seen.lock().expect("no panic").push((Instant::now(), event));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = client.read(&mut bytes) {
                // These commands are short, and arrive in one piece.
                let named = bytes[..count].windows(key.len()).filter(|it| *it == key).count();
                for _ in 0..named {
                    has_sent.store(true, Ordering::SeqCst);
                    tell(Event::Sent);
                }
                if server.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            if has_sent.load(Ordering::SeqCst) && !was_cut.load(Ordering::SeqCst) {
                tell(Event::Closed);
            }
            let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        });
    }
}
