//! Storing the elements of schedules that are due.
//!
//! One occurrence is one effect: its element is stored and its schedule moves on, or neither. Replicas and files do what the
//! effect says.

use super::send::{BATCH, Origin};
use crate::clock;
use crate::data_type::{Dehydrator, Occurrence, RETRY_MS, Writing, inspect};
use crate::metrics::counters::{MISSED, OCCURRENCES};
use crate::replicate::Effect;
use crate::schedule::Step;
use crate::server::listeners;

impl Origin<'_> {
    /// Stores some of the occurrences that are due, or passes over those that were missed. What finds no room is tried again in a
    /// second. Ends at a moment of the monotonic clock, in microseconds. Returns how many steps that took.
    pub(super) fn occur(&self, until_us: u64) -> usize {
        let Self { context, key, now, .. } = *self;
        let postpone = |it: &Dehydrator| it.postpone_occurrences(now);
        if !context.serves(key) || !context.lets_clients_write(key) || context.is_out_of_memory() {
            inspect(context, key, postpone);
            return 0;
        }
        // Checking whether clients may write called out.
        let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
        let (mut stored, mut missed, mut steps) = (0, 0, 0);
        while steps < BATCH {
            match dehydrator.next_step() {
                None => break,
                Some(Occurrence::KeyIsFull) => {
                    dehydrator.existing().into_iter().for_each(postpone);
                    break;
                }
                Some(Occurrence::GroupIsFull(name)) => {
                    dehydrator.postpone_schedule(&name, now + RETRY_MS);
                }
                Some(Occurrence::Step(name, step)) => {
                    if dehydrator.occur(&name, step).is_err() {
                        dehydrator.existing().into_iter().for_each(postpone);
                        break;
                    }
                    match step {
                        Step::Stored { .. } => stored += 1,
                        Step::Missed { count, .. } => missed += count,
                    }
                    // The server counts changes by what is replicated.
                    if steps == 0 || !listeners::are_absent() {
                        Effect::occurred(key, &name, step).replicate(context);
                    }
                }
            }
            steps += 1;
            if clock::monotonic_us() >= until_us {
                break;
            }
        }
        OCCURRENCES.add(stored);
        MISSED.add(missed);
        match (stored, missed) {
            (0, 0) => {}
            (0, _) => dehydrator.finish(c"dehydrator.missed"),
            _ => dehydrator.finish(c"dehydrator.push"),
        }
        steps
    }
}
