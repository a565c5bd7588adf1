//! Session timeouts: the load of a server that keeps connections open and pings them.
//!
//! 10,000 sessions, as in the article on the timing wheel of a Comet server, with slots of 50 ms and three kinds of
//! timeout. Here each message of a session restarts its *ping* (15 s of silence) and its *expiry* (60 s). From time to
//! time a connection drops: its ping stops and a *reconnection* window (10 s) opens. One session in five never sends a
//! message, so that pings and expiries fire too. An expired session is replaced by a new one. The fired timers are
//! counted and must be the same for all stores.

use crate::load::{Dice, PAYLOAD};
use crate::stopwatch::Stopwatch;
use crate::store::{Id, Store};

const SESSIONS: usize = 10_000;
const TALKING: u64 = 8_000;
const SLOT: u64 = 50;
/// Messages per slot: each active session sends one every 1.6 seconds.
const MESSAGES: usize = 250;
/// One in this many messages is the last before its connection drops.
const DROPS: u64 = 200;

const PING: usize = 0;
const RECONNECT: usize = 1;
const EXPIRY: usize = 2;
const TTLS: [u64; 3] = [15_000, 10_000, 60_000];

fn id(session: usize, kind: usize) -> Id {
    let mut id = *b"session:........";
    id[8..].copy_from_slice(&((session * 3 + kind) as u64).to_le_bytes());
    id
}

struct Server<S> {
    store: S,
    running: Vec<[bool; 3]>,
    now: u64,
    operations: u64,
}

impl<S: Store> Server<S> {
    fn arm(&mut self, session: usize, kind: usize) {
        self.operations += 1;
        let id = id(session, kind);
        if std::mem::replace(&mut self.running[session][kind], true) {
            assert!(self.store.restart(&id, TTLS[kind], self.now));
        } else {
            self.store.start(&id, &PAYLOAD, TTLS[kind], self.now);
        }
    }

    fn disarm(&mut self, session: usize, kind: usize) {
        if std::mem::replace(&mut self.running[session][kind], false) {
            self.operations += 1;
            self.store.stop(&id(session, kind)).expect("it is running");
        }
    }

    fn begin(&mut self, session: usize) {
        self.disarm(session, RECONNECT);
        self.arm(session, PING);
        self.arm(session, EXPIRY);
    }

    fn fire(&mut self, session: usize, kind: usize) {
        match kind {
            PING => self.arm(session, PING),
            EXPIRY => self.begin(session),
            _ => {}
        }
    }
}

pub fn run<S: Store>(minutes: u64, say: &mut dyn FnMut(&str, f64)) {
    let mut dice = Dice::new(11);
    let running = vec![[false; 3]; SESSIONS];
    let mut server = Server { store: S::new(0), running, now: 0, operations: 0 };
    let mut fired: Vec<(usize, usize)> = Vec::new();
    let mut counts = [0_u64; 3];
    // The sessions start at different times.
    for session in 0..SESSIONS {
        if session % 10 == 0 {
            server.now += 1;
            server.store.expire(server.now, &mut |_, _| panic!("an element is early"));
        }
        server.begin(session);
    }
    server.operations = 0;
    let first = server.now;
    let stopwatch = Stopwatch::start();
    while server.now < first + minutes * 60_000 {
        for _ in 0..MESSAGES {
            let session = dice.below(TALKING) as usize;
            server.begin(session);
            if dice.below(DROPS) == 0 {
                server.disarm(session, PING);
                server.arm(session, RECONNECT);
            }
        }
        server.now += SLOT;
        server.store.expire(server.now, &mut |id, _| {
            let number = u64::from_le_bytes(id[8..].try_into().expect("eight bytes")) as usize;
            fired.push((number / 3, number % 3));
        });
        // In the same order for all stores, whatever their order within a slot.
        fired.sort_unstable();
        fired.iter().for_each(|(session, kind)| server.running[*session][*kind] = false);
        for (session, kind) in fired.drain(..) {
            counts[kind] += 1;
            server.fire(session, kind);
        }
    }
    say("ns per operation", stopwatch.ns() / server.operations as f64);
    say("operations", server.operations as f64);
    say("pings", counts[PING] as f64);
    say("reconnections given up", counts[RECONNECT] as f64);
    say("expiries", counts[EXPIRY] as f64);
}
