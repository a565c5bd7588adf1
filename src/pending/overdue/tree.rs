//! The least of all slots, at a cost that grows with their logarithm.
//!
//! A row, a page, 64 pages, 64 times as many each have a *bound*: nothing in it is less. To note less lowers the bounds
//! above it; to note more, or to free a slot, on whatever thread, leaves them as they are, too low perhaps. Whoever asks
//! goes down from the lowest bound, and sets what was too low right on his way. So a write costs a few instructions, and an
//! answer some hundred nanoseconds for each row that it looks at: those on the way, and those where something was taken
//! since the last answer. After FLUSHALL these are all there are: whoever asks may say at how many he looks at the most, and
//! asks again for the rest, which is that much less.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slots::{self, NEVER, ROW, ROWS};

/// What a bound above pages is of: so many of those below it.
const FAN: usize = 64;
const LEVELS: usize = 3;

#[derive(Default)]
struct Bounds {
    /// Of pages; of 64 pages; of 4,096.
    levels: [Vec<u32>; LEVELS],
}

thread_local! {
    // Commands, ticks and INFO run on the server's main thread alone.
    static BOUNDS: RefCell<Bounds> = RefCell::default();
}

/// Where one looks, the nearest to an answer first: of equals those come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Slot(u32),
    Row(usize, usize),
    /// A level above the rows, and the place there.
    Above(usize, usize),
}

/// Notes a second in a slot.
pub fn set(slot: u32, second: u32) {
    slots::set_second(slot, second);
    let (number, row) = slots::row_of(slot);
    let page = slots::page(number);
    if second < page.bound(row) {
        page.set_bound(row, second);
        BOUNDS.with_borrow_mut(|bounds| bounds.lower(number, second));
    }
}

/// The slots with the least seconds, as far as one has looked.
#[derive(Default)]
pub struct First {
    /// In the order of their seconds: each with its second.
    pub found: Vec<(u32, u32)>,
    /// Whether there may be more, where one has not looked.
    pub is_cut: bool,
    /// At how many rows and bounds above them one has looked.
    #[cfg(test)]
    pub looks: usize,
}

/// Returns the slots with the least seconds up to `latest`, `most` of them, for which it looks at so many rows and bounds
/// above them at the most.
pub fn first(latest: u32, most: usize, looks: usize) -> First {
    // Also in the report of a crash, which may have happened in the middle of a change.
    BOUNDS.with(|bounds| {
        bounds
            .try_borrow_mut()
            .map_or_else(|_| First::default(), |mut it| it.first(latest, most, looks))
    })
}

impl Bounds {
    fn lower(&mut self, page: usize, second: u32) {
        let mut at = page;
        for level in &mut self.levels {
            if level.len() <= at {
                level.resize(at + 1, NEVER);
            }
            if level[at] <= second {
                return;
            }
            level[at] = second;
            at /= FAN;
        }
    }

    fn first(&mut self, latest: u32, most: usize, looks: usize) -> First {
        let mut nodes = BinaryHeap::new();
        let mut looked_at = Vec::new();
        let (mut found, mut is_cut) = (Vec::new(), false);
        let add = |nodes: &mut BinaryHeap<_>, second: u32, node: Node| {
            if second <= latest && second != NEVER {
                nodes.push(Reverse((second, node)));
            }
        };
        let top = LEVELS - 1;
        for (at, bound) in self.levels[top].iter().enumerate() {
            add(&mut nodes, *bound, Node::Above(top, at));
        }
        while found.len() < most
            && let Some(Reverse((second, node))) = nodes.pop()
        {
            if let Node::Slot(slot) = node {
                found.push((second, slot));
                continue;
            }
            if looked_at.len() >= looks {
                is_cut = true;
                break;
            }
            looked_at.push(node);
            self.each_below(node, |second, below| add(&mut nodes, second, below));
        }
        #[cfg(test)]
        let looks = looked_at.len();
        // From below upwards.
        for node in looked_at.into_iter().rev() {
            let mut least = NEVER;
            self.each_below(node, |second, _| least = least.min(second));
            match node {
                Node::Slot(_) => {}
                Node::Row(page, row) => slots::page(page).set_bound(row, least),
                Node::Above(level, at) => self.levels[level][at] = least,
            }
        }
        #[cfg(debug_assertions)]
        self.check(latest, &found, if is_cut { found.len() } else { most });
        First {
            found,
            is_cut,
            #[cfg(test)]
            looks,
        }
    }

    /// Shows what is below a node, each with its bound, or what is noted in it.
    fn each_below(&self, node: Node, mut show: impl FnMut(u32, Node)) {
        match node {
            Node::Slot(_) => {}
            Node::Row(page, row) => {
                let slots = slots::first_of(page, row)..;
                for (second, slot) in slots::page(page).row(row).zip(slots) {
                    show(second, Node::Slot(slot));
                }
            }
            Node::Above(0, page) => {
                (0..ROWS).for_each(|row| show(slots::page(page).bound(row), Node::Row(page, row)));
            }
            Node::Above(level, at) => {
                let below = self.levels[level - 1].iter().enumerate().skip(at * FAN).take(FAN);
                below.for_each(|(below, bound)| show(*bound, Node::Above(level - 1, below)));
            }
        }
    }

    /// Panics unless no bound is too high, and what was found is what a look at all slots finds. Where slots are freed
    /// meanwhile, there may be less by now.
    #[cfg(debug_assertions)]
    fn check(&self, latest: u32, found: &[(u32, u32)], most: usize) {
        const PAGES_MAX: usize = 4;
        if slots::pages() > PAGES_MAX {
            return;
        }
        let mut all = Vec::new();
        for (page, row) in
            (0..slots::pages()).flat_map(|page| (0..ROWS).map(move |row| (page, row)))
        {
            let bound = slots::page(page).bound(row);
            let at = |level: usize| {
                let bounds = &self.levels[level];
                bounds.get(page / FAN.pow(level as u32)).copied().unwrap_or(NEVER)
            };
            assert!(
                bound >= at(0) && at(0) >= at(1) && at(1) >= at(2),
                "the bounds of page {page}"
            );
            for (second, slot) in slots::page(page).row(row).zip(slots::first_of(page, row)..) {
                assert!(second >= bound, "slot {slot} has {second}, of at least {bound}");
                if second <= latest && second != NEVER {
                    all.push((second, slot));
                }
            }
        }
        all.sort_unstable();
        all.truncate(most);
        let is_there = |it: &(u32, u32)| found.contains(it) || found.len() == most;
        assert!(all.iter().all(is_there), "{all:?} are the first, not {found:?}");
    }
}

const _: () = assert!(ROW == u64::BITS as usize);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_first_are_the_least_whatever_is_noted_and_freed_and_wherever() {
        // Slots are of the process, bounds of the thread: no other test here takes slots.
        let mut oracle = BTreeMap::new();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) as usize % below
        };
        for round in 0..30_000 {
            let at = draw(oracle.len().max(1));
            let slot = oracle.keys().nth(at).copied();
            match (slot, draw(8)) {
                (Some(slot), 0) if round % 4096 > 2048 => {
                    oracle.remove(&slot);
                    // As the server does.
                    std::thread::scope(|scope| _ = scope.spawn(|| slots::give_back(slot)));
                }
                (Some(slot), 1..4) => {
                    let second = if draw(9) == 0 { NEVER } else { draw(1000) as u32 };
                    set(slot, second);
                    oracle.insert(slot, second);
                }
                _ => {
                    let slot = slots::take();
                    set(slot, round % 1000);
                    assert!(oracle.insert(slot, round % 1000).is_none(), "slot {slot} is taken");
                }
            }
            if draw(50) == 0 {
                let (latest, most) = (draw(1100) as u32, 1 + draw(20));
                let found = first(latest, most, usize::MAX).found;
                assert!(found.iter().all(|(second, slot)| oracle.get(slot) == Some(second)));
                let mut all: Vec<_> = oracle.values().filter(|it| **it <= latest).collect();
                all.retain(|second| **second != NEVER);
                all.sort_unstable();
                all.truncate(most);
                let found: Vec<_> = found.iter().map(|(second, _)| second).collect();
                assert_eq!(found, all, "{most} until {latest} in round {round}");
            }
        }
        for (slot, second) in oracle {
            assert_eq!(slots::second(slot), second);
            slots::give_back(slot);
        }
        assert_eq!(first(u32::MAX, 3, usize::MAX).found, []);
        a_few_looks_at_a_time_find_what_is_left_when_all_else_was_freed();
    }

    /// As FLUSHALL does. It is no test of its own because slots are of the process.
    fn a_few_looks_at_a_time_find_what_is_left_when_all_else_was_freed() {
        const LOOKS: usize = 100;
        let slots: Vec<_> = (0..100_000).map(|_| slots::take()).collect();
        let last = *slots.last().expect("some");
        slots.iter().for_each(|slot| set(*slot, if *slot == last { 9 } else { 5 }));
        slots.iter().filter(|slot| **slot != last).for_each(|slot| slots::give_back(*slot));
        let (mut asked, mut looks) = (0, 0);
        let found = loop {
            let answer = first(7, 3, LOOKS);
            asked += 1;
            looks += answer.looks;
            assert!(answer.looks <= LOOKS && answer.found.is_empty());
            if !answer.is_cut {
                break first(9, 3, LOOKS);
            }
        };
        // Each row once, and each time those on the way to the first.
        let rows = slots.len() / ROW;
        assert!(looks >= rows && looks < rows + rows / 8, "{looks} looks, {rows} rows");
        assert_eq!(asked, looks.div_ceil(LOOKS), "none was in vain");
        assert_eq!((found.found, found.is_cut), (vec![(9, last)], false));
        slots::give_back(last);
    }
}
