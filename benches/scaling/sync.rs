//! A full sync: a new replica gets everything, while clients write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::constants::Constants;
use crate::memory::churn;
use crate::patience::until;
use crate::probe::Probe;
use harness::Ask;

/// Makes a new replica follow `primary`, which has `count` elements, and records how long each part takes.
pub fn measure(primary: &Probe, count: usize, with: &str, constants: &mut Constants) {
    let replica = Probe::start(&[]);
    let (is_over, jobs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut note = |name: &str, figure: f64| constants.set(&format!("sync_{name}{with}"), figure);
    let is_synced = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| churn(&mut primary.connect(), count, &is_over, &jobs));
        thread::sleep(Duration::from_millis(500));
        note("stall_before_ms", longest_answer(primary, &AtomicBool::new(true), 2));
        let asker = scope.spawn(|| longest_answer(primary, &is_synced, 600));
        let (mut at_primary, mut at_replica) = (primary.connect(), replica.connect());
        let started = Instant::now();
        at_replica.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        let (mut received, mut buffered) = (None, 0);
        until("the replica is in step", || {
            let elapsed = started.elapsed().as_secs_f64();
            let buffer = at_primary.info("memory", "mem_clients_slaves");
            let total = at_primary.info("memory", "mem_total_replication_buffers");
            buffered = buffered.max(buffer).max(total);
            if received.is_none() && replica.log().contains("Loading DB in memory") {
                received = Some(elapsed);
            }
            // A replica that is loading replies only from time to time.
            let is_up = replica.log().contains("Finished with success");
            is_up.then_some(())
        });
        let total = started.elapsed().as_secs_f64();
        until("it has caught up", || {
            let [here, there] = [&mut at_primary, &mut at_replica]
                .map(|client| client.info("replication", "master_repl_offset"));
            (here.saturating_sub(there) < 100_000).then_some(())
        });
        note("caught_up_s", started.elapsed().as_secs_f64());
        is_synced.store(true, Ordering::Relaxed);
        note("stall_ms", asker.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
        let received = received.expect("it was received");
        note("receive_s", received);
        note("load_s", total - received);
        note("total_s", total);
        note("buffer_mb", buffered as f64 / 1e6);
        note("fork_ms", at_primary.info("stats", "latest_fork_usec") as f64 / 1e3);
        note("copied_mb", at_primary.info("persistence", "rdb_last_cow_size") as f64 / 1e6);
    });
}

/// Returns the longest reply time of a PING, in milliseconds, until `is_over`, or within this many seconds.
fn longest_answer(primary: &Probe, is_over: &AtomicBool, seconds: u64) -> f64 {
    let mut client = primary.connect();
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    // If it is over from the beginning, run for the given time.
    let runs_for_its_time = is_over.load(Ordering::Relaxed);
    while started.elapsed() < Duration::from_secs(seconds)
        && (runs_for_its_time || !is_over.load(Ordering::Relaxed))
    {
        let asked = Instant::now();
        client.ask("PING");
        longest = longest.max(asked.elapsed());
        thread::sleep(Duration::from_micros(500));
    }
    longest.as_secs_f64() * 1e3
}
