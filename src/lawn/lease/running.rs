//! Which leases of a lawn run: what somebody holds whose deadline is yet to come.
//!
//! It is kept only while there is a limit to that. Nobody says when a lease runs out, so the turns of all that is held stand
//! here, in two sets: those that ran at the last look at the clock, and those that had run out. A look moves what has run
//! out meanwhile, and, if the clock has stepped back, what runs again. So each lease moves once, and the count is at hand.

use std::collections::BTreeSet;

use super::super::turn::{DEADLINE_MAX, Turn};

/// The turns of all that is held.
#[derive(Clone, Default)]
pub struct Running {
    running: BTreeSet<Turn>,
    over: BTreeSet<Turn>,
    /// The last look at the clock, in milliseconds since the epoch.
    seen: u64,
    /// Where the search for what was held before goes on, in the index. Until it is done, not all of it stands here.
    pub search: Option<u64>,
    /// Another one that nobody asks any more, if nobody asks this one.
    pub behind: Option<Box<Self>>,
}

impl Running {
    /// Makes one for a lawn in which much may be held.
    pub fn searching() -> Self {
        Self { search: Some(0), ..Self::default() }
    }

    /// Notes that something of this turn is held. What never comes due is no lease that runs.
    pub fn insert(&mut self, turn: Turn) {
        if turn.deadline == DEADLINE_MAX {
            return;
        }
        let set = if turn.deadline > self.seen { &mut self.running } else { &mut self.over };
        set.insert(turn);
    }

    /// Notes that what has this turn is not held, or has it no more.
    pub fn remove(&mut self, turn: Turn) {
        let set = if turn.deadline > self.seen { &mut self.running } else { &mut self.over };
        set.remove(&turn);
    }

    /// Looks at the clock.
    pub fn look(&mut self, now: u64) {
        while let Some(turn) = self.running.pop_first() {
            if turn.deadline > now {
                self.running.insert(turn);
                break;
            }
            self.over.insert(turn);
        }
        while let Some(turn) = self.over.pop_last() {
            if turn.deadline <= now {
                self.over.insert(turn);
                break;
            }
            self.running.insert(turn);
        }
        self.seen = now;
    }

    /// Returns how many leases run at this time. It costs as much as have run out since the last look.
    pub fn count(&self, now: u64) -> usize {
        let over = self.running.iter().take_while(|turn| turn.deadline <= now).count();
        let again = self.over.iter().rev().take_while(|turn| turn.deadline > now).count();
        self.running.len() - over + again
    }

    /// Returns when the first of those that run at this time runs out.
    pub fn first_end(&self, now: u64) -> Option<u64> {
        let again = self.over.range(Turn::after(now)..).next();
        let first = again.or_else(|| self.running.range(Turn::after(now)..).next());
        first.map(|turn| turn.deadline)
    }

    /// Returns how many turns stand here.
    pub fn len(&self) -> usize {
        self.running.len() + self.over.len()
    }

    /// Frees some of what stands here.
    pub fn free(&mut self, count: usize) {
        for _ in 0..count {
            _ = self.running.pop_first().or_else(|| self.over.pop_first());
        }
    }

    /// Returns the bytes allocated, about.
    pub fn memory(&self) -> usize {
        let behind = self.behind.as_ref().map_or(0, |behind| behind.memory());
        behind + size_of::<Self>() + self.len() * (size_of::<Turn>() + size_of::<Turn>() / 2)
    }

    /// Returns all turns, in order.
    #[cfg(any(test, feature = "checks"))]
    pub fn turns(&self) -> impl Iterator<Item = Turn> + '_ {
        self.over.iter().chain(&self.running).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_comes_due_does_not_run() {
        let mut all = Running::default();
        let never = Turn { deadline: DEADLINE_MAX, push: 1 };
        all.insert(never);
        assert_eq!((all.count(5), all.first_end(5), all.len()), (0, None, 0));
        all.remove(never);
    }

    #[test]
    fn what_runs_is_what_has_a_later_deadline_whichever_way_the_clock_steps() {
        let mut all = Running::default();
        let turn = |deadline| Turn { deadline, push: deadline % 3 };
        (1..=100).for_each(|deadline| all.insert(turn(deadline)));
        for now in [0, 50, 50, 10, 99, 100, 200, 0, 100] {
            let count = 100_u64.saturating_sub(now);
            let first = (count > 0).then_some(now + 1);
            for looks in [false, true] {
                assert_eq!((all.count(now), all.first_end(now)), (count as usize, first), "{now}");
                if looks {
                    all.look(now);
                }
            }
            assert!(all.turns().map(|turn| turn.deadline).eq(1..=100));
        }
        (1..=100).step_by(2).for_each(|deadline| all.remove(turn(deadline)));
        assert_eq!((all.count(50), all.len()), (25, 50));
        assert!(all.memory() > 50 * 16);
        all.free(49);
        assert_eq!(all.len(), 1);
    }
}
