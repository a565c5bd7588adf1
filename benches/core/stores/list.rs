//! Schemes 1 and 2 of Varghese and Lauck: one list, unordered or ordered.

use crate::lists::Lists;
use crate::named::Scheme;

/// Scheme 1: a tick checks every timer.
///
/// The paper counts the timers down. Comparing deadlines writes nothing, and is a variant that the paper mentions.
pub struct Unordered {
    cursor: Option<u32>,
    now: u64,
}

impl Scheme for Unordered {
    const NAME: &'static str = "unordered-list";
    const LABEL: &'static str = "1 unordered list";
    const IN_ORDER: bool = false;
    const LISTS: usize = 1;
    type Extra = ();

    fn new(now: u64) -> Self {
        Self { cursor: None, now }
    }

    fn file<T>(&mut self, lists: &mut Lists<(), T>, node: u32, _ttl: u64) {
        lists.push_back(0, node);
    }

    fn pop<T>(&mut self, lists: &mut Lists<(), T>, now: u64) -> Option<u32> {
        if self.now < now {
            self.now = now;
            self.cursor = lists.first(0);
        }
        while let Some(node) = self.cursor {
            self.cursor = lists.next(node);
            if lists.get(node).deadline <= now {
                lists.unlink(node);
                return Some(node);
            }
        }
        None
    }
}

/// Scheme 2: a start searches for its place, from the back, which favours timers that are started in the order in which
/// they come due.
pub struct Ordered;

impl Scheme for Ordered {
    const NAME: &'static str = "ordered-list";
    const LABEL: &'static str = "2 ordered list";
    const LISTS: usize = 1;
    type Extra = ();

    fn new(_now: u64) -> Self {
        Self
    }

    fn file<T>(&mut self, lists: &mut Lists<(), T>, node: u32, _ttl: u64) {
        lists.insert_sorted(0, node);
    }

    fn pop<T>(&mut self, lists: &mut Lists<(), T>, now: u64) -> Option<u32> {
        let node = lists.first(0).filter(|node| lists.get(*node).deadline <= now)?;
        lists.unlink(node);
        Some(node)
    }
}
