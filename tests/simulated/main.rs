//! Runs the simulation: histories from one seed after another, until the time is over.
//!
//! `simulated LIBRARY [seed N] [seconds N] [runs N] [all] [big | small | THEME] [shrink N] [beside LIBRARY]`; `all`: goes on after a
//! fault; `big`: only runs with many elements; `small`: only others; a theme of `Theme`: only its runs; `beside`: what breaks with this library too is counted as a
//! false alarm, and is no fault.
//! In the environment: `TRACE=1` prints each step and effect; `EXCEPT=exact,block-replies` lets reads and empty replies break these promises, which hides nothing else of an older library; with
//! `UNJUDGED=1` nothing is judged, nor is any time spent on waiting for what would be.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use simulated::judges::{Fault, Promise};
use simulated::machine::Machine;
use simulated::world::child::{Said, history, in_child, run, run_apart};
use simulated::world::draw::Drawer;
use simulated::world::shown::shown;
use simulated::world::shrink::shrink;
use simulated::world::step::{Profile, Theme};

/// How many runs a process does.
const RUNS: u64 = 1000;

#[derive(Clone, Copy)]
enum Only {
    Big(bool),
    Theme(Theme),
}

impl Only {
    fn is(self, profile: &Profile) -> bool {
        match self {
            Self::Big(is_big) => is_big == profile.is_big,
            Self::Theme(theme) => profile.theme == Some(theme),
        }
    }
}

struct Options {
    library: PathBuf,
    seed: u64,
    within: Duration,
    runs: u64,
    goes_on: bool,
    /// Only runs with many elements, only others, or only those of a theme.
    only: Option<Only>,
    shrinks: Duration,
    beside: Option<PathBuf>,
}

impl Options {
    fn read() -> Self {
        let mut words = std::env::args().skip(1);
        let library = PathBuf::from(words.next().expect("the path of the library"));
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
        let shrinks = Duration::from_secs(60);
        let (within, runs) = (Duration::from_secs(60), u64::MAX);
        let mut options = Self {
            library,
            seed: now.as_micros() as u64,
            within,
            runs,
            goes_on: false,
            only: None,
            shrinks,
            beside: None,
        };
        while let Some(word) = words.next() {
            if word == "beside" {
                options.beside = words.next().map(PathBuf::from);
                continue;
            }
            let mut number =
                || -> f64 { words.next().and_then(|it| it.parse().ok()).expect("a number") };
            match word.as_str() {
                "seed" => options.seed = number() as u64,
                "seconds" => options.within = Duration::from_secs_f64(number()),
                "hours" => options.within = Duration::from_secs_f64(number() * 3600.0),
                "runs" => options.runs = number() as u64,
                "shrink" => options.shrinks = Duration::from_secs_f64(number()),
                "all" => options.goes_on = true,
                "big" => options.only = Some(Only::Big(true)),
                "small" => options.only = Some(Only::Big(false)),
                word => {
                    let is_it = |it: &&Theme| format!("{it:?}").eq_ignore_ascii_case(word);
                    let theme = Theme::ALL.iter().find(is_it);
                    options.only = theme.map(|it| Only::Theme(*it));
                    assert!(theme.is_some(), "{word:?} is not known");
                }
            }
        }
        options
    }
}

/// Returns what was broken, in at most some lines.
fn short(what: &str) -> String {
    shown(what).chars().take(1500).collect()
}

/// Returns the time of the processor that the runs have taken, in seconds.
fn processor_s() -> f64 {
    // SAFETY: all bytes zero are a usage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn report(library: &Path, seed: u64, fault: &Fault, after: Duration, within: Duration) {
    println!(
        "seed {seed} after {:.1} s, {:.1} of the processor: {}: {}",
        after.as_secs_f64(),
        processor_s(),
        fault.promise.name(),
        short(&fault.what)
    );
    if within.is_zero() {
        return;
    }
    let (profile, steps) = history(seed);
    let all = steps.len();
    let (profile, steps, fault) = shrink(library, &profile, steps, fault.clone(), within);
    println!(
        "the shortest run that still fails, {} of {all} steps, on {:?}, replica {}:",
        steps.len(),
        profile.kind,
        profile.has_replica
    );
    steps.iter().for_each(|step| println!("    {}", shown(&format!("{step:?}"))));
    println!("    {}: {}", fault.promise.name(), short(&fault.what));
}

fn main() -> ExitCode {
    let options = Options::read();
    Machine::prepare(&options.library, 5);
    let (began, first) = (Instant::now(), options.seed);
    println!("seed {first}");
    let (mut seed, mut operations, mut faults, mut alarms) = (first, 0, 0, 0);
    while began.elapsed() < options.within && seed - first < options.runs {
        let (mut fault, mut current) = (None, seed);
        let from = seed;
        let work = |say: &mut dyn FnMut(Said)| {
            // After some runs, another process begins: libraries stay loaded.
            for seed in from..from + RUNS {
                if began.elapsed() >= options.within || seed - first >= options.runs {
                    return;
                }
                say(Said::Began(seed));
                let profile = Profile::draw(seed);
                if options.only.is_some_and(|only| !only.is(&profile)) {
                    continue;
                }
                let steps = Drawer::new(&profile).steps();
                let (count, result) = run(&options.library, &profile, &steps);
                say(Said::Did(count));
                if let Err(fault) = result {
                    say(Said::Broke(fault));
                    return;
                }
            }
        };
        in_child(work, |said| match said {
            Said::Began(seed) => current = seed,
            Said::Did(count) => operations += count,
            Said::Broke(broken) => fault = Some(broken),
        });
        seed = current + 1;
        // A busy machine makes passes slow too, but not the same one each time.
        let is_slow = |it: &Fault| it.promise == Promise::Work;
        if fault.as_ref().is_some_and(is_slow) {
            let (profile, steps) = history(current);
            let again =
                || run_apart(&options.library, &profile, &steps).as_ref().is_some_and(is_slow);
            fault = fault.filter(|_| again() && again());
        }
        if let (Some(_), Some(library)) = (&fault, &options.beside) {
            let (profile, steps) = history(current);
            if let Some(alarm) = run_apart(library, &profile, &steps) {
                alarms += 1;
                println!("seed {current} beside: {}: {}", alarm.promise.name(), short(&alarm.what));
                fault = None;
            }
        }
        if let Some(fault) = fault {
            faults += 1;
            report(&options.library, current, &fault, began.elapsed(), options.shrinks);
            if !options.goes_on {
                break;
            }
        }
    }
    if alarms > 0 {
        println!("{alarms} false alarms");
    }
    println!("{operations} operations, {:.0} s, seed {first}", began.elapsed().as_secs_f64());
    if faults > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
