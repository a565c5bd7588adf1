//! The memory of elements, and the additional memory while a child of the server saves them and clients write.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;

use crate::commands::fill;
use crate::constants::Constants;
use crate::probe::Probe;
use benches::load::{element, id};
use harness::{Ask, until};

/// Jobs per second during a save.
pub const JOBS_A_SECOND: usize = 5000;

/// Pushes a new element and takes a random old one, of `count`, at a fixed rate: the worst case for pages that the
/// server shares with a child.
pub fn churn(client: &mut Connection, count: usize, is_over: &AtomicBool, jobs: &AtomicUsize) {
    const BATCH: usize = 50;
    let (started, mut done) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let mut pipe = redis::pipe();
        for number in done..done + BATCH {
            // The stored elements, in an order of its own.
            let old = (number * 7919) % count;
            pipe.cmd("DEHYDRATOR.PULL").arg("jobs").arg(id(old)).ignore();
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg("jobs").arg(86_400_000 + number % 8);
            push.arg(element(number, 64)).arg(id(old)).arg("REPLACE").ignore();
        }
        pipe.exec(client).expect("replies");
        done += BATCH;
        jobs.store(done, Ordering::Relaxed);
        let next = started + Duration::from_secs_f64(done as f64 / JOBS_A_SECOND as f64);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Fills a server, and records its memory. `with` is a suffix for the names of the figures.
pub fn measure(count: usize, with: &str, constants: &mut Constants) -> Probe {
    let probe = Probe::start(&[]);
    let mut client = probe.connect();
    let memory = |client: &mut Connection, field: &str| client.info("memory", field) as f64;
    let before = ["used_memory", "used_memory_rss"].map(|field| memory(&mut client, field));
    fill(&mut client, count);
    let after = ["used_memory", "used_memory_rss"].map(|field| memory(&mut client, field));
    let [used, resident] = [0, 1].map(|at| (after[at] - before[at]) / count as f64);
    constants.set(&format!("element_bytes{with}"), used);
    constants.set(&format!("element_resident_bytes{with}"), resident);

    let (is_over, jobs) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| churn(&mut probe.connect(), count, &is_over, &jobs));
        until("it has begun", || (jobs.load(Ordering::Relaxed) > 1000).then_some(()));
        let (started, begun) = (Instant::now(), jobs.load(Ordering::Relaxed));
        client.ask("BGSAVE");
        crate::patience::until("it is saved", || {
            (client.info("persistence", "rdb_bgsave_in_progress") == 0).then_some(())
        });
        let seconds = started.elapsed().as_secs_f64();
        let written = (jobs.load(Ordering::Relaxed) - begun) as f64;
        is_over.store(true, Ordering::Relaxed);
        let copied = client.info("persistence", "rdb_last_cow_size") as f64;
        let fork_ms = client.info("stats", "latest_fork_usec") as f64 / 1e3;
        let file = fs::metadata(probe.file("dump.rdb")).expect("a dump").len() as f64;
        constants.set(&format!("rdb_bytes{with}"), file / count as f64);
        constants.set(&format!("save_s{with}"), seconds);
        constants.set(&format!("fork_ms{with}"), fork_ms);
        constants.set(&format!("copied_share{with}"), copied / after[1]);
        constants.set(&format!("copied_jobs{with}"), written);
        constants.set(&format!("copied_bytes_a_job{with}"), copied / written);
        constants.set(&format!("copied_pages_a_job{with}"), pages(copied, after[1]) / written);
    });
    probe
}

/// Returns how many random pages must have been touched to copy this share, as some were touched twice.
fn pages(copied: f64, all: f64) -> f64 {
    const PAGE: f64 = 4096.0;
    -(1.0 - (copied / all).min(0.999)).ln() * all / PAGE
}

/// Returns the share that is copied after this many jobs, the inverse of [`pages`].
pub fn copied_share(pages_a_job: f64, jobs: f64, all: f64) -> f64 {
    const PAGE: f64 = 4096.0;
    1.0 - (-pages_a_job * jobs / (all / PAGE)).exp()
}
