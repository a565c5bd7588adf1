//! Waiting for what takes minutes.

use std::thread;
use std::time::{Duration, Instant};

/// Asks now and then until there is an answer.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < Duration::from_secs(600), "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
