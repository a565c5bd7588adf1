//! Millions of random operations on groups with limits, against each promise about groups: no group is beyond its HELD or
//! RATE, none is passed over in a turn in which it has something to give, and each gives its elements in their order.
//!
//! The oracle compares more after each step, and so cannot do as many.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use ahash::RandomState;

use super::oracle::hasher;
use super::*;

/// The first one is that of the elements without a group. All may enter the round at one look.
const GROUPS: usize = if super::super::tiny::TINY { 3 } else { 60 };
/// The most elements.
const MOST: usize = 3000;

/// The limits of a group: what it may hold, and how many it may give out in how many milliseconds.
fn limits(group: usize) -> GroupLimits {
    let each = GroupLimits { length: 0, held: 3, rate: 5, per: 20 };
    match group {
        1 => GroupLimits { held: 1, ..each },
        2 => GroupLimits { rate: 2, per: 100, ..each },
        _ => each,
    }
}

/// The number of elements that a group gives in a turn.
fn share(group: usize) -> u8 {
    if group + 1 == GROUPS { 3 } else { 1 }
}

fn group_name(group: usize) -> Vec<u8> {
    if group == 0 { Vec::new() } else { format!("group {group}").into_bytes() }
}

/// A group, by its description.
#[derive(Default)]
struct Promised {
    /// Deadline, order of pushes and id of its elements. A lease counts as a push, and its end as a deadline.
    elements: BTreeSet<(u64, u64, u32)>,
    /// The same of those that were given out and not settled.
    leases: BTreeSet<(u64, u64, u32)>,
    /// When it gave something out.
    given: VecDeque<u64>,
    /// How often each other group gave something out since this one could.
    passed: Vec<u8>,
}

impl Promised {
    /// Returns the element that it has to give out at `now`, if it may.
    fn next(&mut self, group: usize, now: u64) -> Option<u32> {
        let first = self.elements.first().filter(|it| it.0 <= now)?.2;
        if group == 0 {
            return Some(first);
        }
        let limits = limits(group);
        while self.given.front().is_some_and(|moment| moment + limits.per <= now) {
            self.given.pop_front();
        }
        let held = self.leases.range((now + 1, 0, 0)..).count() as u64;
        let is_open = held < limits.held && (self.given.len() as u64) < limits.rate;
        // A lease that has ended comes before what waits for its place.
        let is_full = self.leases.len() as u64 >= limits.held;
        let next = if is_full { self.leases.first().map_or(first, |it| it.2) } else { first };
        is_open.then_some(next)
    }
}

#[derive(Default)]
struct Promises {
    all: Vec<Promised>,
    /// Group, deadline, order, and whether it is held, by id.
    elements: HashMap<u32, (usize, u64, u64, bool)>,
    pushes: u64,
}

impl Promises {
    fn remove(&mut self, id: u32) -> usize {
        let (group, deadline, order, is_held) = self.elements.remove(&id).expect("it is known");
        self.all[group].elements.remove(&(deadline, order, id));
        if is_held {
            self.all[group].leases.remove(&(deadline, order, id));
        }
        group
    }

    fn insert(&mut self, id: u32, group: usize, deadline: u64, is_held: bool) {
        self.pushes += 1;
        self.elements.insert(id, (group, deadline, self.pushes, is_held));
        self.all[group].elements.insert((deadline, self.pushes, id));
        if is_held {
            self.all[group].leases.insert((deadline, self.pushes, id));
        }
    }

    /// Notes that a group may have changed: nobody passes it over while it has nothing to give. A group that had nothing at
    /// the latest look goes to the end.
    fn note(&mut self, group: usize, looked_at: u64) {
        if self.all[group].next(group, looked_at).is_none() {
            self.all[group].passed = vec![0; GROUPS];
        }
    }

    /// Checks that an element may be given out, and leases it until `end`.
    fn give(&mut self, id: u32, now: u64, end: u64) {
        let group = self.elements[&id].0;
        assert_eq!(self.all[group].next(group, now), Some(id), "what group {group} gives out");
        for other in (1..GROUPS).filter(|other| *other != group) {
            self.note(other, now);
            if self.all[other].next(other, now).is_some() {
                let passed = &mut self.all[other].passed[group];
                *passed += 1;
                assert!(*passed <= share(group), "group {group} passed over group {other}");
            }
        }
        self.remove(id);
        self.insert(id, group, end, true);
        self.all[group].passed = vec![0; GROUPS];
        self.all[group].given.push_back(now);
    }
}

/// Ten million: `DEHYDRATOR_OPERATIONS=10000000`, in a minute or two.
#[test]
fn groups_keep_every_promise_in_millions_of_operations() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let operations = number("DEHYDRATOR_OPERATIONS").unwrap_or(200_000);
    let seed = number("DEHYDRATOR_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 1);
    println!("DEHYDRATOR_SEED={seed}");
    let mut lawn = Lawn::new(Arc::new(Shared::new(hasher(), || SmallMax::USUAL)));
    lawn.set_each_group(limits(GROUPS));
    for group in [1, 2, GROUPS - 1] {
        let settings = GroupSettings {
            share: share(group).into(),
            limits: if group < 3 { limits(group) } else { GroupLimits::NONE },
            paused_until: 0,
        };
        lawn.set_group(&group_name(group), settings);
    }
    let mut known = Promises::default();
    known.all.resize_with(GROUPS, || Promised { passed: vec![0; GROUPS], ..Promised::default() });
    let (mut now, mut looked_at, mut given) = (1_000_000_u64, 0, 0_u64);
    let mut held = Vec::new();
    for step in 0..operations {
        let random = hasher().hash_one((seed, step));
        let [chance, part, other] = [random & 15, random >> 4 & 0xffff, random >> 20 & 0xffff];
        match chance {
            0..5 if known.elements.len() < MOST => {
                // The first groups have the most.
                let group = (part as usize % GROUPS).min(other as usize % GROUPS);
                let (id, deadline) = (step as u32, now + part % 40);
                let name = Some(group_name(group)).filter(|name| !name.is_empty());
                let new = id.to_be_bytes();
                let new = Element::new(&new, b"", deadline);
                lawn.start_in_group(0, &new, name.as_deref()).expect("a new id");
                known.insert(id, group, deadline, false);
            }
            0..10 => {
                let end = now + 1 + part % 30;
                looked_at = now;
                let found = lawn.lease_due(now, end - now, Token::new(step + 1));
                if let Some((_, element)) = found {
                    let id = u32::from_be_bytes(element.id.try_into().expect("four bytes"));
                    known.give(id, now, end);
                    held.push((id, step + 1));
                    given += 1;
                } else {
                    let open = (0..GROUPS).find(|it| known.all[*it].next(*it, now).is_some());
                    assert_eq!(open, None, "a group with something to give");
                }
            }
            10..15 if !held.is_empty() => {
                let (id, token) = held.swap_remove(part as usize % held.len());
                let token = Token::new(token).expect("not 0");
                if lawn.holds(&id.to_be_bytes(), token) {
                    let group = known.remove(id);
                    if chance < 14 {
                        assert!(lawn.settle(&id.to_be_bytes(), token).is_some());
                    } else {
                        assert!(lawn.restart_at(&id.to_be_bytes(), 0, now));
                        known.insert(id, group, now, false);
                    }
                    known.note(group, looked_at);
                }
            }
            _ => now += other % 3,
        }
        if step % 50_000 == 0 {
            lawn.check();
            lawn.compact(1000);
        }
    }
    lawn.check();
    assert!(given > operations / 20, "{given} given out in {operations} operations");
}
