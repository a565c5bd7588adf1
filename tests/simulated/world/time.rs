//! Time: passes of the event loop, and what must have happened by now.

use super::run::{Result, World};
use crate::judges::follow::Call;
use crate::judges::{Fault, Promise};
use crate::machine::Reply;

/// How late the module may be in what it does by itself, in milliseconds.
pub(super) const GRACE_MS: u64 = 3;
/// Within which time an empty key is deleted whose pause has ended, and a replica forgets a pause, in milliseconds.
pub(super) const UPKEEP_MS: u64 = 1000;
/// The most time of the processor that the module may spend in a pass, in nanoseconds: for a build with debug assertions, and
/// for commands with a thousand elements.
const PASS_NS: u64 = 60_000_000;
/// What is added for each element that a command asks for, in nanoseconds.
const ELEMENT_NS: u64 = 20_000;
/// As many pushes as it may take at most to change an element among very many.
const PUSHES: u64 = 3;
/// The most passes of the event loop at one moment of virtual time.
const PASSES_MAX: usize = 20_000;

impl World {
    /// Runs some passes of the primary, and then all that the others have to do.
    pub(super) fn passes(&mut self, many: usize) -> Result {
        for _ in 0..many {
            self.machine.pass(self.primary);
            self.judge_passes()?;
        }
        Ok(())
    }

    /// Runs passes until nothing is left to do at this moment.
    pub(super) fn quiet(&mut self) -> Result {
        for _ in 0..PASSES_MAX {
            let Some(ready) = self.machine.ready() else { return Ok(()) };
            self.machine.pass(ready);
            self.judge_passes()?;
        }
        Err(Promise::Idle.broken(format!("{PASSES_MAX} passes at one moment")))
    }

    /// Lets happen what is to be done at this moment, and judges it.
    pub(super) fn rest(&mut self) -> Result {
        self.quiet()?;
        self.collect(&[])
    }

    /// Lets time pass, from event to event.
    pub(super) fn advance(&mut self, ms: u64) -> Result {
        // Both clocks begin with a whole millisecond.
        let end = (self.machine.monotonic_us() / 1000 + ms) * 1000;
        // First what is to be done at this moment.
        self.rest()?;
        while self.advance_once(end)? {
            self.collect(&[])?;
        }
        Ok(())
    }

    /// Lets time pass until the next event, and no longer than to a moment on the monotonic clock. Returns whether that is to come.
    pub(super) fn advance_once(&mut self, end_us: u64) -> std::result::Result<bool, Fault> {
        let now = self.machine.monotonic_us();
        if now >= end_us {
            return Ok(false);
        }
        let next = self.machine.next_event_us().unwrap_or(end_us).clamp(now + 1, end_us);
        self.machine.advance(next - now);
        self.judge_passes()?;
        self.quiet()?;
        Ok(true)
    }

    /// Reading the clock takes time: nothing may begin at the end of a millisecond, or the model has another one.
    pub(super) fn begin_millisecond(&mut self) -> Result {
        while self.begun.is_none() && self.machine.monotonic_us() % 1000 > 300 {
            self.advance(1)?;
        }
        Ok(())
    }

    /// All clients go.
    pub(super) fn leave(&mut self) -> Result {
        for client in std::mem::take(&mut self.clients) {
            self.machine.hang_up(client.id);
        }
        self.quiet()
    }

    /// Judges the work of the last passes of the primary.
    pub(super) fn judge_passes(&self) -> Result {
        let bound_ns = PASS_NS + self.asked * ELEMENT_NS;
        let spent_ns = self.machine.take_slowest_ns(self.primary);
        if spent_ns > bound_ns {
            return Err(Promise::Work
                .broken(format!("a pass took {} ms of the processor", spent_ns / 1_000_000)));
        }
        Ok(())
    }

    /// Judges what each element took that PURGE or TOUCH of a group has changed, beside what it took to push one.
    pub(super) fn judge_each(&self, call: &Call, reply: Option<&Reply>, before: u64) -> Result {
        let (Some(Reply::Int(count)), true) = (reply, self.push_ns > 0) else { return Ok(()) };
        let spent_ns = self.machine.spent_ns(self.primary) - before;
        let bound_ns = PASS_NS + *count as u64 * PUSHES * self.push_ns;
        if spent_ns > bound_ns {
            let spent = spent_ns / 1_000_000;
            let what = format!("{:?} of {count} took {spent} ms of the processor", call.op);
            return Err(Promise::Work.broken(format!("{what}, a push {} ns", self.push_ns)));
        }
        Ok(())
    }

    pub(super) fn step_wall(&mut self, ms: i64) -> Result {
        self.rest()?;
        let before = self.now();
        self.machine.step_wall(ms);
        let now = self.now();
        self.model.all_mut().for_each(|it| {
            it.touched = now + 2 * crate::judges::reads::TICK_MS;
            it.acts_from = it.acts_from.max(it.touched);
            it.aged_from = it.aged_from.max(now + ms.min(0).unsigned_abs());
            if ms < 0 {
                it.set_back(before, now);
            }
        });
        self.advance(3 * crate::judges::reads::TICK_MS)
    }

    /// Lets happen what has to, and looks whether anything is owed.
    pub(super) fn settle(&mut self) -> Result {
        self.advance(GRACE_MS)?;
        let now = self.now();
        self.model.all_mut().for_each(|it| it.fitted(now - GRACE_MS));
        let result = self.owed(now);
        if self.trace && result.is_err() {
            // What comes of it a little later.
            self.advance(200)?;
        }
        result
    }

    /// Looks for a sleeper beside room, and for what should have been delivered.
    pub(super) fn owed(&self, now: u64) -> Result {
        let then = now - GRACE_MS;
        for sleep in self.clients.iter().filter_map(|it| it.sleep.as_ref()) {
            if sleep.call.now > then {
                continue;
            }
            for key in &sleep.poll.keys {
                let it = self.model.get(sleep.call.db, key).filter(|it| it.touched <= then);
                if it.is_some_and(|it| !it.policy.holds()) {
                    return Err(Promise::Unblocked.broken(format!(
                        "{:?} sleeps on {}, which is delivered elsewhere",
                        sleep.call.op,
                        key.escape_ascii()
                    )));
                }
                if let Some(left) = it.and_then(|it| it.gives(then)) {
                    let what = format!(
                        "{:?} sleeps since {} beside {left:?} in {}, now {now}",
                        sleep.call.op,
                        sleep.call.now,
                        key.escape_ascii()
                    );
                    return Err(Promise::Asleep.broken(what));
                }
            }
            let slept_ms = (self.machine.monotonic_us() - sleep.since_us) / 1000;
            if sleep.poll.block.is_some_and(|ms| ms > 0 && slept_ms > ms + 250) {
                return Err(Promise::Unblocked
                    .broken(format!("{:?} sleeps for {slept_ms} ms", sleep.call.op)));
            }
        }
        for (db, key, it) in self.model.all() {
            if let Some(owed) = it.owed_occurrence(then) {
                let what = format!("{owed} in {} of {db}, now {now}", key.escape_ascii());
                return Err(Promise::Schedule.broken(what));
            }
            if let Some(end) = it.owed_end(then) {
                let what =
                    format!("of {} in {db} until {end} goes on, now {now}", key.escape_ascii());
                return Err(Promise::Pause.broken(what));
            }
            if let Some(owed) = it.owed(then).filter(|_| it.touched.max(it.acts_from) <= then) {
                return Err(Promise::Delivered.broken(format!(
                    "{owed:?} in {} of {db} stays, now {now}",
                    key.escape_ascii()
                )));
            }
        }
        if let Some(rejected) = self.model.rejected.first() {
            return Err(
                Promise::Delivered.broken(format!("{rejected:?} was rejected, and did not arrive"))
            );
        }
        Ok(())
    }
}
