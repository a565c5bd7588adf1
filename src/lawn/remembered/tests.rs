//! Remembered ids beside a map, and what they cost.

use std::collections::BTreeMap;

use std::sync::Arc;

use ahash::RandomState;
use proptest::prelude::*;

use super::super::memory::moved;
use super::super::{Shared, SmallMax};
use super::*;

fn remembered_in(small: SmallMax) -> Remembered {
    let hasher = RandomState::with_seeds(1, 2, 3, 4);
    Remembered::beside(&Lawn::new(Arc::new(Shared::new(hasher, move || small))))
}

fn remembered() -> Remembered {
    remembered_in(SmallMax::USUAL)
}

#[derive(Clone, Debug)]
enum Op {
    /// The time for which an id that is settled now is remembered.
    Settle {
        id: u16,
        ms: u64,
    },
    /// Many are, one after the other.
    Many {
        first: u16,
        count: u16,
        ms: u64,
    },
    InsertAt {
        id: u16,
        until: u64,
    },
    Remove {
        id: u16,
    },
    RemoveMany {
        first: u16,
        step: u16,
        count: u16,
    },
    Forget {
        most: usize,
    },
    Clock {
        by: i64,
    },
    Defrag {
        steps: usize,
    },
    Compact {
        moves: usize,
    },
}

/// Few ids, so that they meet again.
fn id() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0_u16..40, 1 => 0_u16..2000]
}

fn ms() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => prop::sample::select(vec![100_u64, 300]),
        1 => 0_u64..400,
        1 => prop::sample::select(vec![1 << 32, 1 << 40, DEADLINE_MAX, u64::MAX]),
    ]
}

fn until() -> impl Strategy<Value = u64> {
    let edges = prop::sample::select(vec![0_u64, 1, DEADLINE_MAX - 1, DEADLINE_MAX, u64::MAX]);
    prop_oneof![3 => 900_u64..1500, 1 => any::<u64>(), 1 => edges]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (id(), ms()).prop_map(|(id, ms)| Op::Settle { id, ms }),
        2 => (id(), 1_u16..120, ms()).prop_map(|(first, count, ms)| Op::Many { first, count, ms }),
        2 => (id(), until()).prop_map(|(id, until)| Op::InsertAt { id, until }),
        4 => id().prop_map(|id| Op::Remove { id }),
        1 => (id(), 1_u16..4, 1_u16..120)
            .prop_map(|(first, step, count)| Op::RemoveMany { first, step, count }),
        3 => prop_oneof![0_usize..20, Just(usize::MAX)].prop_map(|most| Op::Forget { most }),
        4 => prop_oneof![8 => 0_i64..40, 1 => -200_i64..200, 1 => any::<i64>()]
            .prop_map(|by| Op::Clock { by }),
        1 => (1_usize..5).prop_map(|steps| Op::Defrag { steps }),
        1 => (1_usize..40).prop_map(|moves| Op::Compact { moves }),
    ]
}

/// Lengths from 0 on, binary, all different, and some of more than a hundred bytes or too long for a page.
fn name(id: u16) -> Vec<u8> {
    match id {
        0 => Vec::new(),
        _ if id % 51 == 16 => id.to_be_bytes().repeat(6000),
        _ if id % 17 == 16 => id.to_be_bytes().repeat(100),
        _ => id.to_be_bytes().repeat(1 + usize::from(id % 5)),
    }
}

/// The remembered ids, in a map.
#[derive(Default)]
struct Oracle(BTreeMap<Vec<u8>, u64>);

impl Oracle {
    fn insert(&mut self, remembered: &mut Remembered, id: u16, until: u64) {
        remembered.insert(&name(id), until);
        self.0.insert(name(id), until.min(DEADLINE_MAX));
    }

    fn remove(&mut self, remembered: &mut Remembered, id: u16) {
        assert_eq!(remembered.remove(&name(id)), self.0.remove(&name(id)));
    }

    /// Forgets what the other has forgotten, which must have expired.
    fn forget(&mut self, remembered: &mut Remembered, now: u64, most: usize) {
        let count = remembered.forget(now, most);
        assert!(count <= most, "{count} of {most}");
        let before = self.0.len();
        self.0.retain(|id, until| *until > now || remembered.until(id).is_some());
        assert_eq!(before - self.0.len(), count, "what is not over was forgotten");
    }
}

/// Moves every allocation.
fn defrag(remembered: &mut Remembered, steps: usize) {
    moved::in_steps(steps, |from, mover, go_on| remembered.defrag(from, mover, go_on));
}

fn run(mut remembered: Remembered, ops: &[Op]) {
    let (mut oracle, mut now) = (Oracle::default(), 1000_u64);
    for op in ops {
        let it = &mut remembered;
        match *op {
            Op::Settle { id, ms } => oracle.insert(it, id, now.saturating_add(ms)),
            Op::Many { first, count, ms } => {
                for id in first..first + count {
                    now = now.saturating_add(1);
                    oracle.insert(it, id, now.saturating_add(ms));
                }
            }
            Op::InsertAt { id, until } => oracle.insert(it, id, until),
            Op::Remove { id } => oracle.remove(it, id),
            Op::RemoveMany { first, step, count } => {
                (first..)
                    .step_by(step.into())
                    .take(count.into())
                    .for_each(|id| oracle.remove(it, id));
            }
            Op::Forget { most } => oracle.forget(it, now, most),
            Op::Clock { by } => now = now.saturating_add_signed(by),
            Op::Defrag { steps } => defrag(it, steps),
            Op::Compact { moves } => while it.compact(moves) {},
        }
        it.check();
        let mut all: Vec<_> = it.iter().map(|(until, id)| (id.to_vec(), until)).collect();
        all.sort();
        assert!(all.iter().map(|(id, until)| (id, until)).eq(&oracle.0), "{op:?}");
        let live = oracle.0.values().filter(|until| **until > now).count();
        assert!(it.iter().map(|(until, _)| until).is_sorted(), "{op:?}");
        assert_eq!(it.len_at(now), live, "{op:?}");
        for id in (0..40).map(name) {
            let until = oracle.0.get(&id).copied();
            assert_eq!((it.until(&id), it.contains(&id, now)), (until, until > Some(now)));
        }
        assert_eq!(it.next(), oracle.0.values().min().copied());
    }
    let copy = remembered.clone();
    copy.check();
    assert!(copy.iter().eq(remembered.iter()));
    while remembered.forget(u64::MAX, 7) > 0 {}
    remembered.check();
    assert!(remembered.is_empty() && remembered.allocations() <= 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn it_remembers_what_a_map_does(ops in prop::collection::vec(op(), 1..120), is_small: bool) {
        let small = if is_small { SmallMax::USUAL } else { SmallMax { elements: 0, bytes: 0 } };
        run(remembered_in(small), &ops);
    }
}

/// Returns an id of sixteen bytes.
fn sixteen(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

/// Remembers ids of sixteen bytes, one each millisecond, for five minutes.
fn remember(remembered: &mut Remembered, numbers: std::ops::Range<u64>) {
    for number in numbers {
        remembered.insert(&sixteen(number), 1_700_000_000_000 + number + 300_000);
    }
}

fn each(remembered: &Remembered) -> f64 {
    remembered.memory() as f64 / remembered.len() as f64
}

fn random(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

type Until<'a> = &'a dyn Fn(u64) -> u64;

/// From 100,000 on, also where a page or a table has just been added. At the end there are up to 300,000.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn an_id_of_sixteen_bytes_takes_56_and_no_more_than_72_whatever_the_order() {
    let orders: [(&str, Until<'_>, f64); 8] = [
        ("ascending", &|id| id, 56.0),
        ("random in a window of 2^33", &|id| random(id) >> 31, 68.0),
        ("random in an hour", &|id| (random(id) >> 32) % 3_600_000, 68.0),
        ("random", &|id| random(id) >> 1, 68.0),
        ("descending", &|id| (1 << 40) - id, 62.0),
        ("by a window that is made smaller each time", &|id| (1 << 40) - 1000 * id, 62.0),
        ("always into the fullest block", &|id| (1 << 40) - ((1 << 40) >> (id % 40)) + id, 66.0),
        ("by two windows", &|id| id + id % 2 * 86_400_000, 60.0),
    ];
    for (name, until, last) in orders {
        for again in [false, true] {
            let (mut remembered, mut worst) = (remembered(), 0_f64);
            for id in 0..300_000_u64 {
                if again && id % 2 == 1 {
                    // An element of that id is pushed once more.
                    remembered.remove(&sixteen(random(id) % id));
                }
                remembered.insert(&sixteen(id), until(id));
                if remembered.len() >= 100_000 && id % 500 == 0 {
                    worst = worst.max(each(&remembered));
                }
            }
            let end = each(&remembered);
            println!("{name}, again: {again}: {end:.1} bytes, {worst:.1} at the most");
            // What was removed leaves blanks where the others are.
            let (most, last) = if again { (75.0, last + 5.0) } else { (72.0, last) };
            assert!(worst <= most && end <= last, "{name}, again: {again}: {worst}, {end}");
        }
    }
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn memory_comes_back_as_ids_go_whatever_the_order() {
    let orders: [Until<'_>; 3] = [&|id| id, &|id| random(id) % 300_000, &|id| 300_000 - id];
    for until in orders {
        let mut remembered = remembered();
        let empty = remembered.memory();
        (0..300_000).for_each(|id| remembered.insert(&sixteen(id), until(id)));
        for now in (0..290_000).step_by(10_000) {
            while remembered.forget(now, 128) > 0 {}
            while remembered.compact(32) {}
            let each = each(&remembered);
            assert!(each <= 110.0, "{each} bytes for each of {}", remembered.len());
        }
        remembered.check();
        assert!(remembered.forget(300_000, usize::MAX) > 0);
        // Nothing is left to compact, either.
        assert_eq!((remembered.memory(), remembered.is_sparse()), (empty, false));
    }
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn holes_are_closed_where_most_are_removed() {
    let mut remembered = remembered();
    // One of fifty stays for long, all others are pushed again at once.
    remember(&mut remembered, 0..50_000);
    for id in (0..50_000).filter(|id| id % 50 != 0) {
        assert!(remembered.remove(&sixteen(id)).is_some());
    }
    while remembered.compact(32) {}
    remembered.check();
    let each = each(&remembered);
    assert!(each <= 130.0, "{each} bytes for each of a thousand");
}

#[test]
fn what_comes_in_order_goes_in_order_and_gives_its_memory_back() {
    let mut remembered = remembered();
    let empty = remembered.memory();
    remember(&mut remembered, 0..5000);
    let untils: Vec<_> = remembered.iter().map(|(until, _)| until).collect();
    assert!(untils.is_sorted() && untils.len() == 5000);
    let first = untils[0];
    assert_eq!(remembered.next(), Some(first));
    assert_eq!((remembered.forget(first - 1, 9), remembered.forget(first, 9)), (0, 1));
    assert_eq!(remembered.forget(u64::MAX, 10), 10);
    assert_eq!(remembered.next(), Some(first + 11));
    assert_eq!(remembered.len_at(first + 20), 5000 - 21);
    assert_eq!(remembered.forget(u64::MAX, usize::MAX), 5000 - 11);
    remembered.check();
    assert_eq!(remembered.memory(), empty);
}

#[test]
fn what_is_over_is_forgotten_beside_ids_of_a_longer_window() {
    let mut remembered = remembered();
    let day = 86_400_000;
    (0..100_u64).for_each(|id| remembered.insert(&id.to_be_bytes(), day + id));
    (100..10_000_u64).for_each(|id| {
        remembered.insert(&id.to_be_bytes(), 1000 + id);
        remembered.forget(id, 4);
    });
    remembered.check();
    assert_eq!(remembered.len(), 100 + 1000);
}

#[test]
fn all_that_is_forgotten_at_once_is_freed_in_small_steps() {
    let mut remembered = remembered();
    for id in 0..20_000_u64 {
        remembered.insert(&sixteen(id), id);
        remembered.insert(&id.to_be_bytes(), random(id));
    }
    let allocations = remembered.allocations();
    let mut rest = remembered.into_rest();
    let steps = (0..).take_while(|_| rest.free_some()).count();
    // A step frees a page, or a table of the index, which is two allocations.
    assert!(steps * 3 >= allocations, "{steps} steps for {allocations} allocations");
}
