//! Measures the simulation in one process, for a profiler too: `speed LIBRARY [RUNS]`. With `UNJUDGED=1` without judges.

use std::path::PathBuf;
use std::time::Instant;

use simulated::machine::{Kind, Machine};
use simulated::world::child::{history, run};

fn main() {
    let mut words = std::env::args().skip(1);
    let library = PathBuf::from(words.next().expect("a library"));
    let runs: u64 = words.next().and_then(|it| it.parse().ok()).unwrap_or(200);
    let began = Instant::now();
    for seed in 1..51 {
        Machine::new(&library, Kind::Redis8, seed).start(&[]);
    }
    println!("a start: {:.2} ms", began.elapsed().as_secs_f64() * 20.0);
    let (began, mut operations) = (Instant::now(), 0);
    for seed in 1..=runs {
        let (profile, steps) = history(seed);
        if profile.is_big {
            continue;
        }
        let (count, result) = run(&library, &profile, &steps);
        operations += count;
        if let Err(fault) = result {
            println!("seed {seed}: {}", fault.promise.name());
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{operations} operations, {:.0} a second", operations as f64 / seconds);
}
