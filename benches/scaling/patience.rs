//! Waits for conditions that take minutes.

use std::thread;
use std::time::{Duration, Instant};

/// Calls a function from time to time, until it returns a value.
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
