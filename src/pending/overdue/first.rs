//! The slots with the least seconds.
//!
//! Each row of slots has a *bound*: no slot in it is less. To note a lesser second lowers the bound; to note a greater one,
//! or to free a slot, on whatever thread, leaves it as it is, too low perhaps. Whoever asks passes over the bounds, looks
//! into the rows with the least of them, and corrects those. Of a million slots, which have 16,000 bounds, that took 0.1 ms,
//! and 0.5 ms where something was overdue in all of them. After FLUSHALL all bounds are too low: whoever asks may limit at
//! how many rows this looks, and asks again for the rest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slots::{self, NEVER, ROW, ROWS};

/// Notes a second in a slot.
pub fn set(slot: u32, second: u32) {
    slots::set_second(slot, second);
    let (number, row) = slots::row_of(slot);
    let page = slots::page(number);
    if second < page.bound(row) {
        page.set_bound(row, second);
    }
}

/// The slots with the least seconds, as far as one has looked.
pub struct First {
    /// In the order of their seconds: each with its second.
    pub found: Vec<(u32, u32)>,
    /// Whether there may be others before these, in rows that were not looked at.
    pub is_cut: bool,
    /// At how many rows one has looked.
    #[cfg(test)]
    pub looks: usize,
}

/// Returns the `most` slots with the least seconds up to `latest`. Looks at `looks` rows at the most.
pub fn first(latest: u32, most: usize, looks: usize) -> First {
    let rows = (0..slots::pages()).flat_map(|page| (0..ROWS).map(move |row| (page, row)));
    let bounds = rows.map(|(page, row)| Reverse((slots::page(page).bound(row), page, row)));
    let mut rows: BinaryHeap<_> =
        bounds.filter(|Reverse((bound, ..))| *bound <= latest && *bound != NEVER).collect();
    // The greatest of them on top.
    let mut found: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut looked, mut is_cut) = (0, false);
    while let Some(Reverse((bound, number, row))) = rows.pop() {
        if found.len() >= most && found.peek().is_none_or(|(second, _)| *second <= bound) {
            break;
        }
        if looked == looks {
            is_cut = true;
            break;
        }
        looked += 1;
        let page = slots::page(number);
        let mut least = NEVER;
        for (second, slot) in page.row(row).zip(slots::first_of(number, row)..) {
            least = least.min(second);
            if second <= latest && second != NEVER {
                found.push((second, slot));
                if found.len() > most {
                    found.pop();
                }
            }
        }
        page.set_bound(row, least);
    }
    First {
        found: found.into_sorted_vec(),
        is_cut,
        #[cfg(test)]
        looks: looked,
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
