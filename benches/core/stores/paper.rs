//! The Lawn of the paper, to the letter as far as it works.
//!
//! Three things are corrected, because with them timers would fire late or never. Its comparison is strict, which makes
//! each timer a tick late: here, due means at or before now. Its *closest expiration* starts at 0, which no deadline is
//! ever below: here there is none if no timer waits. And its tick includes the old closest expiration in the new
//! minimum, so that it stays in the past or skips a head: here a tick recalculates it from all heads.
//!
//! Its cost is unchanged: a tick with something due checks the head of every TTL, and so does the next tick after the
//! closest timer was stopped. The hash of TTLs is scanned as a dense array beside the hash, the fastest way to do it.

use ahash::RandomState;
use hashbrown::HashMap;

use crate::lists::Lists;
use crate::named::Scheme;

struct Queue {
    ttl: u64,
    list: u32,
}

pub struct Paper {
    by_ttl: HashMap<u64, u32, RandomState>,
    queues: Vec<Queue>,
    /// Lists of empty queues, for reuse.
    spare: Vec<u32>,
    /// 0: unknown, the next tick recalculates it.
    closest: u64,
    /// The position of the current tick, and the closest expiration that it has seen so far.
    scan: Option<(usize, u64)>,
}

impl Paper {
    fn forget_if_empty<T>(&mut self, lists: &Lists<u64, T>, ttl: u64) {
        let place = self.by_ttl[&ttl];
        let list = self.queues[place as usize].list;
        if lists.first(list).is_some() {
            return;
        }
        self.by_ttl.remove(&ttl);
        self.queues.swap_remove(place as usize);
        if let Some(moved) = self.queues.get(place as usize) {
            self.by_ttl.insert(moved.ttl, place);
        }
        self.spare.push(list);
    }
}

impl Scheme for Paper {
    const NAME: &'static str = "paper";
    const LABEL: &'static str = "the paper's Lawn";
    const IN_ORDER: bool = false;
    /// The TTL.
    type Extra = u64;

    fn new(_now: u64) -> Self {
        Self {
            by_ttl: HashMap::with_hasher(RandomState::new()),
            queues: Vec::new(),
            spare: Vec::new(),
            closest: u64::MAX,
            scan: None,
        }
    }

    fn file<T>(&mut self, lists: &mut Lists<u64, T>, node: u32, ttl: u64) {
        let queues = &mut self.queues;
        let spare = &mut self.spare;
        let place = *self.by_ttl.entry(ttl).or_insert_with(|| {
            let list = spare.pop().unwrap_or_else(|| lists.add_list());
            queues.push(Queue { ttl, list });
            queues.len() as u32 - 1
        });
        lists.get_mut(node).extra = ttl;
        lists.push_back(self.queues[place as usize].list, node);
        let deadline = lists.get(node).deadline;
        self.closest = self.closest.min(deadline);
        if let Some((_, closest)) = &mut self.scan {
            *closest = deadline.min(*closest);
        }
    }

    fn unfile<T>(&mut self, lists: &mut Lists<u64, T>, node: u32) {
        lists.unlink(node);
        let entry = lists.get(node);
        let ttl = entry.extra;
        if entry.deadline == self.closest {
            self.closest = 0;
        }
        self.forget_if_empty(lists, ttl);
    }

    fn pop<T>(&mut self, lists: &mut Lists<u64, T>, now: u64) -> Option<u32> {
        if self.scan.is_none() && now < self.closest {
            return None;
        }
        let (mut place, mut closest) = self.scan.unwrap_or((0, u64::MAX));
        while let Some(queue) = self.queues.get(place) {
            let node = lists.first(queue.list).expect("a queue in the hash is not empty");
            let deadline = lists.get(node).deadline;
            if deadline <= now {
                let ttl = queue.ttl;
                lists.unlink(node);
                self.forget_if_empty(lists, ttl);
                self.scan = Some((place, closest));
                return Some(node);
            }
            closest = closest.min(deadline);
            place += 1;
        }
        self.closest = closest;
        self.scan = None;
        None
    }
}
