//! What all clients of a run share: a server, its clock, and how far the run has come.

use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::Connection;

use crate::history::Clock;
use harness::Server;

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Busy,
    /// Nobody pushes any more.
    Late,
    /// Nobody asks any more.
    Over,
}

/// What all clients of a run share.
pub struct Run {
    pub server: Server,
    pub began: Instant,
    pub clock: Mutex<Clock>,
    pub ids: AtomicU64,
    stage: Mutex<Stage>,
    /// Told of each new stage.
    has_moved_on: Condvar,
    /// From when on the conductor's elements are due.
    pub due: AtomicU64,
    /// Clients that may be killed or unblocked.
    pub victims: Mutex<Vec<usize>>,
    /// Clients that sleep for ever.
    pub sleepers: Mutex<Vec<usize>>,
}

/// Ends a run when a client falls, or who conducts it: the others must not go on for ever.
pub struct End<'a>(pub &'a Run);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.move_on(Stage::Over);
        }
    }
}

impl Run {
    pub fn new(options: &[&str], is_stepped: bool) -> Self {
        let server = if is_stepped {
            Server::start_with_clock(options)
        } else {
            Server::start_with_port(options)
        };
        let began = Instant::now();
        // How far apart the clocks are is known best when they were read at nearly the same time.
        let read = || {
            let before = began.elapsed();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            (began.elapsed() - before, wall.as_micros() as i64 - before.as_micros() as i64)
        };
        let (_, ahead) = (0..100).map(|_| read()).min().expect("some");
        // Valkey 9 reads the wall clock once in a millisecond and counts on by the processor's own clock: preempted
        // between the two, or where two threads do it at once, it is beside the truth, and steps back.
        let version = server.version();
        let is_cached = version.is_valkey && version >= (9, 0);
        let error = if is_cached { 1000 } else { 0 };
        Self {
            server,
            began,
            clock: Mutex::new(Clock::steady(ahead, error)),
            ids: AtomicU64::new(1),
            stage: Mutex::new(Stage::Busy),
            has_moved_on: Condvar::new(),
            due: AtomicU64::new(0),
            victims: Mutex::new(Vec::new()),
            sleepers: Mutex::new(Vec::new()),
        }
    }

    pub fn moment(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// The server's time, in unix ms.
    pub fn wall(&self) -> u64 {
        let clock = self.clock.lock().expect("no panic");
        let ahead = clock.steps.last().expect("it shows something").2;
        self.moment().saturating_add_signed(ahead) / 1000
    }

    pub fn is_late(&self) -> bool {
        *self.stage.lock().expect("no panic") >= Stage::Late
    }

    pub fn is_over(&self) -> bool {
        *self.stage.lock().expect("no panic") == Stage::Over
    }

    pub fn move_on(&self, stage: Stage) {
        *self.stage.lock().expect("no panic") = stage;
        self.has_moved_on.notify_all();
    }

    /// Waits so many milliseconds, or until the next stage begins.
    pub fn pause(&self, ms: u64) {
        let stage = self.stage.lock().expect("no panic");
        let now = *stage;
        let waited =
            self.has_moved_on
                .wait_timeout_while(stage, Duration::from_millis(ms), |stage| *stage == now);
        drop(waited.expect("no panic"));
    }

    pub fn connect(&self) -> Connection {
        // Threads read what comes from a network alone.
        let client = redis::Client::open(("127.0.0.1", self.server.port())).expect("an address");
        // A sleeper that nobody wakes is woken by the end of the server, and then there is none to connect to.
        client.get_connection().expect("a connection")
    }
}
