//! Which TTLs are frequent enough for a queue of their own.
//!
//! Counting the elements of each TTL would cost more than a queue saves when every element has its own TTL. Instead,
//! TTLs are elected by Boyer and Moore's majority vote, in a few groups: each pushed TTL without a queue votes in its
//! group. A vote for the leader adds one, any other vote takes one away, and at zero the next TTL becomes the leader. A
//! leader with enough votes has been pushed more often than all other TTLs of its group together. It gets a queue and
//! stops voting, and the group elects the next.

use super::super::memory::{Mover, allotted, relocate};
use super::super::tiny::TINY;

/// The number of groups as a power of two: a hundred TTLs have about one group each, in half a kilobyte …
const GROUPS_BITS: u32 = if TINY { 1 } else { 8 };
/// … and in a large lawn, where four kilobytes do not matter, a thousand.
const MANY_GROUPS_BITS: u32 = if TINY { 2 } else { 11 };
const MANY: usize = if TINY { 20 } else { 16_384 };
/// Votes that win. If TTLs are drawn evenly from more than a few hundred, hardly any ever gets there; a frequent TTL
/// gets there after about as many pushes.
const ENOUGH: u8 = if TINY { 2 } else { 16 };

#[derive(Clone, Copy, Default)]
struct Group {
    /// Eight bits of the leader's hash. If two TTLs share them, one of them gets a queue slightly early.
    leader: u8,
    votes: u8,
}

/// The votes of TTLs that have no queue.
#[derive(Clone, Default)]
pub(super) struct Votes {
    /// Empty until the first vote.
    groups: Vec<Group>,
}

impl Votes {
    /// Votes for a TTL with this hash, in a lawn with this many elements. Returns whether the TTL has won; its votes
    /// then restart at 0.
    pub(super) fn vote(&mut self, hash: u64, elements: usize) -> bool {
        let groups = 1 << if elements < MANY { GROUPS_BITS } else { MANY_GROUPS_BITS };
        if self.groups.len() < groups {
            self.groups = vec![Group::default(); groups];
        }
        let leader = hash as u8;
        let number = (hash >> 8) as usize % self.groups.len();
        let group = &mut self.groups[number];
        if group.votes == 0 {
            *group = Group { leader, votes: 1 };
        } else if group.leader == leader {
            group.votes += 1;
        } else {
            group.votes -= 1;
        }
        let has_enough = group.votes >= ENOUGH;
        if has_enough {
            group.votes = 0;
        }
        has_enough
    }

    pub(super) fn defrag(&mut self, mover: &mut impl Mover) {
        relocate(&mut self.groups, mover);
    }

    pub(super) fn memory(&self) -> usize {
        allotted(&self.groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mixes the bits of a number.
    fn hash(number: u64) -> u64 {
        let mixed = (number ^ 0x5bf0_3635).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn a_frequent_ttl_is_elected_among_many_rare_ones() {
        let mut votes = Votes::default();
        let mut elected = 0;
        for rare in 0..100_000 {
            elected += usize::from(votes.vote(hash(1_000_000 + rare), 100));
        }
        assert_eq!(elected, 0, "a TTL that came once has a queue");
        // One push in ten.
        let often = (0..300).find(|push| {
            let rare = (0..9).any(|rare| votes.vote(hash(2_000_000 + push * 9 + rare), 100));
            assert!(!rare, "a TTL that came once has a queue");
            votes.vote(hash(7), 100)
        });
        assert!(often.is_some_and(|push| push < 100), "{often:?}");
    }

    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn all_of_a_few_ttls_are_elected_one_after_the_other() {
        let mut votes = Votes::default();
        let mut waiting: Vec<u64> = (0..8).collect();
        for _ in 0..1000 {
            waiting.retain(|ttl| !votes.vote(hash(*ttl), 100));
        }
        assert!(waiting.is_empty(), "{waiting:?} have none");
    }
}
