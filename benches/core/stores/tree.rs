//! Scheme 3 of Varghese and Lauck: a heap or a tree, here those of the standard library.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::lists::Lists;
use crate::named::Scheme;

/// A binary heap. It cannot remove an entry from its middle, so a stopped or restarted timer leaves a dead entry, which
/// is dropped when it reaches the top. Each insertion has a stamp; the live entry is the one with the timer's current
/// stamp.
pub struct Heap {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    stamp: u32,
}

impl Scheme for Heap {
    const NAME: &'static str = "heap";
    const LABEL: &'static str = "3 BinaryHeap, lazy deletion";
    type Extra = u32;

    fn new(_now: u64) -> Self {
        Self { heap: BinaryHeap::new(), stamp: 0 }
    }

    fn file<T>(&mut self, lists: &mut Lists<u32, T>, node: u32, _ttl: u64) {
        self.stamp += 1;
        let entry = lists.get_mut(node);
        entry.extra = self.stamp;
        self.heap.push(Reverse((entry.deadline, self.stamp, node)));
    }

    fn unfile<T>(&mut self, lists: &mut Lists<u32, T>, node: u32) {
        lists.get_mut(node).extra = 0;
    }

    fn pop<T>(&mut self, lists: &mut Lists<u32, T>, now: u64) -> Option<u32> {
        while let Some(&Reverse((deadline, stamp, node))) = self.heap.peek() {
            if deadline > now {
                return None;
            }
            self.heap.pop();
            if lists.get(node).extra == stamp {
                return Some(node);
            }
        }
        None
    }
}

/// A B-tree. A number per insertion distinguishes equal deadlines.
pub struct Tree {
    tree: BTreeMap<(u64, u32), u32>,
    filings: u32,
}

impl Scheme for Tree {
    const NAME: &'static str = "btree";
    const LABEL: &'static str = "3 BTreeMap";
    type Extra = u32;

    fn new(_now: u64) -> Self {
        Self { tree: BTreeMap::new(), filings: 0 }
    }

    fn file<T>(&mut self, lists: &mut Lists<u32, T>, node: u32, _ttl: u64) {
        self.filings += 1;
        let entry = lists.get_mut(node);
        entry.extra = self.filings;
        self.tree.insert((entry.deadline, self.filings), node);
    }

    fn unfile<T>(&mut self, lists: &mut Lists<u32, T>, node: u32) {
        let entry = lists.get(node);
        self.tree.remove(&(entry.deadline, entry.extra)).expect("a timer is in the tree");
    }

    fn pop<T>(&mut self, _lists: &mut Lists<u32, T>, now: u64) -> Option<u32> {
        let first = self.tree.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }
}
