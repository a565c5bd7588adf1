//! Shortens a history that breaks a promise, by leaving out steps, as long as it still breaks the same one.

use std::path::Path;
use std::time::{Duration, Instant};

use super::child::run_apart;
use super::step::{Profile, Step};
use crate::judges::Fault;

/// Returns the shortest history that was found within this time, and what it breaks.
pub fn shrink(
    library: &Path,
    profile: &Profile,
    steps: Vec<Step>,
    fault: Fault,
    within: Duration,
) -> (Profile, Vec<Step>, Fault) {
    let until = Instant::now() + within;
    let (mut profile, mut steps, mut fault) = (profile.clone(), steps, fault);
    let mut try_it = |profile: &Profile, steps: &[Step]| {
        let is_same = |it: &Fault| it.promise == fault.promise;
        let found = run_apart(library, profile, steps).filter(is_same);
        if let Some(found) = found {
            fault = found;
            return true;
        }
        false
    };
    // What comes after the fault is left out first.
    let mut many = steps.len();
    while many > 1 && Instant::now() < until {
        let half = many / 2;
        if try_it(&profile, &steps[..half]) {
            steps.truncate(half)
        } else {
            break;
        }
        many = half;
    }
    for servers in
        [|it: &mut Profile| it.has_replica = false, |it: &mut Profile| it.has_tool = false]
    {
        let mut without = profile.clone();
        servers(&mut without);
        if try_it(&without, &steps) {
            profile = without;
        }
    }
    let mut size = steps.len().div_ceil(2);
    while size > 0 && Instant::now() < until {
        let (before, mut from) = (steps.len(), 0);
        while from < steps.len() && Instant::now() < until {
            let mut without = steps.clone();
            without.drain(from..(from + size).min(steps.len()));
            if try_it(&profile, &without) { steps = without } else { from += size }
        }
        if size == 1 && steps.len() == before {
            break;
        }
        size = if size == 1 { 1 } else { size / 2 };
    }
    for at in 0..steps.len() {
        while let Step::Batch(commands) = &steps[at]
            && commands.len() > 1
            && Instant::now() < until
        {
            let one_less = (0..commands.len()).find_map(|which| {
                let mut fewer = commands.clone();
                fewer.remove(which);
                let mut without = steps.clone();
                without[at] = Step::Batch(fewer);
                try_it(&profile, &without).then_some(without)
            });
            let Some(without) = one_less else { break };
            steps = without;
        }
    }
    (profile, steps, fault)
}
