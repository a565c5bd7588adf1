//! The shared state of the clients of a run: a server, its clock, and the stage of the run.

use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::Connection;

use crate::history::Clock;
use harness::Server;

/// The stage of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Busy,
    /// No more pushes.
    Late,
    /// No more polls.
    Over,
}

/// The shared state of the clients of a run.
pub struct Run {
    pub server: Server,
    pub began: Instant,
    pub clock: Mutex<Clock>,
    pub ids: AtomicU64,
    /// The number of groups that elements are pushed into; others are in none.
    pub groups: u64,
    stage: Mutex<Stage>,
    /// Notified at each new stage.
    has_moved_on: Condvar,
    /// When the conductor's elements are due.
    pub due: AtomicU64,
    /// Clients that may be killed or unblocked.
    pub victims: Mutex<Vec<usize>>,
    /// Clients that block forever.
    pub sleepers: Mutex<Vec<usize>>,
}

/// Ends a run when a client or the conductor panics, so that the others do not continue forever.
pub struct End<'a>(pub &'a Run);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.move_on(Stage::Over);
        }
    }
}

impl Run {
    pub fn new(options: &[&str], is_stepped: bool, groups: u64) -> Self {
        let server = if is_stepped {
            Server::start_with_clock(options)
        } else {
            Server::start_with_port(options)
        };
        let began = Instant::now();
        // The difference of two clocks is most precise when they were read at nearly the same time.
        let read = || {
            let before = began.elapsed();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            (began.elapsed() - before, wall.as_micros() as i64 - before.as_micros() as i64)
        };
        let (_, ahead) = (0..100).map(|_| read()).min().expect("some");
        // Valkey 9 reads the wall clock once per millisecond and continues with the processor's own clock. If it is
        // preempted between the two, or two threads do it at once, its time is wrong, and steps back.
        let version = server.version();
        let is_cached = version.is_valkey && version >= (9, 0);
        let error = if is_cached { 1000 } else { 0 };
        Self {
            server,
            began,
            clock: Mutex::new(Clock::steady(ahead, error)),
            ids: AtomicU64::new(1),
            groups,
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

    /// Returns the server's time, in unix ms.
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

    /// Waits for this many milliseconds, or until the next stage begins.
    pub fn pause(&self, ms: u64) {
        let stage = self.stage.lock().expect("no panic");
        let now = *stage;
        let waited =
            self.has_moved_on
                .wait_timeout_while(stage, Duration::from_millis(ms), |stage| *stage == now);
        drop(waited.expect("no panic"));
    }

    pub fn connect(&self) -> Connection {
        // Threads only read from network connections.
        let client = redis::Client::open(("127.0.0.1", self.server.port())).expect("an address");
        // The end of the server wakes clients that nothing else wakes, and then there is no server to connect to.
        client.get_connection().expect("a connection")
    }
}
