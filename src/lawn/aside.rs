//! A lawn beside another one, which most keys do not have: of ids, each remembered until a moment, or of schedules, each visited at
//! a moment. Elements of remembered ids have no payload.
//!
//! All have the TTL 0. Elements whose moments ascend make one queue. All others are in the timeline, where an element of this
//! TTL takes a handle and a deadline, twelve bytes more than in a queue.
//!
//! An operation costs what it costs a [`Lawn`].

use super::element::StartError;
use super::element::{Element, Row};
use super::lawn::Lawn;
use super::memory::{Mover, rounded};
use super::rank::{DEADLINE_MAX, Start};

/// Ids, each with a moment in milliseconds since the epoch, and perhaps a payload. `None` without ids: most keys remember none,
/// or a burst and then nothing for long.
#[derive(Clone, Default)]
pub struct Aside(Option<Box<Lawn>>);

impl Aside {
    /// Returns the number of ids, expired ones that nobody has [forgotten](Self::forget) yet included.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ids| ids.len())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of ids that are remembered at `now`. Costs what [`Lawn::count_due`] does.
    pub fn len_at(&self, now: u64) -> usize {
        self.0.as_ref().map_or(0, |ids| ids.len() - ids.count_due(now))
    }

    /// Returns the moment until which an id is remembered. It may have passed.
    #[inline]
    pub fn until(&self, id: &[u8]) -> Option<u64> {
        self.0.as_ref()?.look(id).map(|element| element.deadline)
    }

    #[inline]
    pub fn contains(&self, id: &[u8], now: u64) -> bool {
        self.until(id).is_some_and(|until| until > now)
    }

    /// Remembers an id until that moment, [`DEADLINE_MAX`] at the latest, whatever was known of it before. If the lawn of
    /// ids is full, at 32 GiB, the id that would be forgotten next makes room. `beside` is a lawn with the same `Shared`.
    pub fn insert(&mut self, beside: &Lawn, id: &[u8], until: u64) {
        let until = until.min(DEADLINE_MAX);
        let ids = self.0.get_or_insert_with(|| Box::new(beside.another()));
        // Nearly all are new.
        match ids.start_at(id, 0, b"", until) {
            Ok(()) => {}
            Err(StartError::Exists) => _ = ids.restart_at(id, 0, until),
            Err(StartError::Full | StartError::TooLate) => {
                ids.drain(DEADLINE_MAX, 1, |_, _| {});
                // Fails if that one had another width. Then there is no room for this id.
                _ = ids.start_at(id, 0, b"", until);
            }
        }
    }

    /// Forgets an id. Returns the moment until which it was remembered.
    pub fn remove(&mut self, id: &[u8]) -> Option<u64> {
        let until = self.0.as_mut()?.stop(id)?.element().deadline;
        self.shrink();
        Some(until)
    }

    /// Forgets up to `most` ids whose moment has passed at `now`, the earliest first. Returns their number.
    pub fn forget(&mut self, now: u64, most: usize) -> usize {
        let Some(ids) = &mut self.0 else { return 0 };
        let forgotten = ids.drain(now.min(DEADLINE_MAX), most, |_, _| {});
        self.shrink();
        forgotten
    }

    /// Frees all memory once there is no id left.
    fn shrink(&mut self) {
        self.0.take_if(|ids| ids.is_empty());
    }

    /// Returns when the next id can be forgotten, or is visited. It may be in the past.
    pub fn next(&self) -> Option<u64> {
        self.0.as_ref()?.next_deadline()
    }

    pub fn payload(&self, id: &[u8]) -> Option<&[u8]> {
        self.0.as_ref()?.look(id).map(|element| element.payload)
    }

    /// Sets the moment and the payload of an id. `beside` is a lawn with the same `Shared`. Fails with
    /// [`StartError::Full`]; then nothing has changed.
    pub fn set(
        &mut self,
        beside: &Lawn,
        id: &[u8],
        payload: &[u8],
        moment: u64,
    ) -> Result<(), StartError> {
        let lawn = self.0.get_or_insert_with(|| Box::new(beside.another()));
        let set = lawn.replace(0, &Element::new(id, payload, moment.min(DEADLINE_MAX)));
        self.shrink();
        set
    }

    /// Sets the moment of an id, if it is there.
    pub fn postpone(&mut self, id: &[u8], moment: u64) {
        self.0.as_mut().into_iter().for_each(|lawn| _ = lawn.restart_at(id, 0, moment));
    }

    /// Returns the first id whose moment has come at `now`, and its payload.
    pub fn due(&self, now: u64) -> Option<(&[u8], &[u8])> {
        let (_, element) = self.0.as_ref()?.iter_until(now).next()?;
        Some((element.id, element.payload))
    }

    /// Shows the ids and their payloads from `start` on, in the order of their moments.
    pub fn rows(&self, start: Start) -> impl Iterator<Item = Row<'_>> {
        self.0.iter().flat_map(move |lawn| lawn.rows(start, DEADLINE_MAX))
    }

    /// Shows all ids and their payloads, in the order of their moments.
    pub fn payloads(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.rows(Start::FIRST).map(|row| (row.element.id, row.element.payload))
    }

    /// Shows all ids, and until when they are remembered, in that order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let ids = self.0.iter().flat_map(|ids| ids.iter());
        ids.map(|(_, element)| (element.deadline, element.id))
    }

    /// Returns whether [`Aside::compact`] would free memory. O(1).
    pub fn is_sparse(&self) -> bool {
        self.0.as_ref().is_some_and(|ids| ids.is_sparse())
    }

    /// Does what [`Lawn::compact`] does.
    pub fn compact(&mut self, moves: usize) -> bool {
        self.0.as_mut().is_some_and(|ids| ids.compact(moves))
    }

    /// Does what [`Lawn::defrag`] does.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        let mut ids = self.0.take()?;
        if from == 0 {
            ids = mover.relocate_box(ids);
        }
        self.0.insert(ids).defrag(from, mover, go_on)
    }

    /// Returns the bytes allocated. Costs what [`Lawn::memory`] does.
    pub fn memory(&self) -> usize {
        let own = rounded(size_of::<Lawn>()) - size_of::<Lawn>();
        self.0.as_ref().map_or(0, |ids| own + ids.memory())
    }

    /// Returns about how many allocations dropping it will free. O(1).
    pub fn allocations(&self) -> usize {
        self.0.as_ref().map_or(0, |ids| 1 + ids.allocations())
    }

    /// Panics unless all parts agree with each other. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        assert!(self.0.as_ref().is_none_or(|ids| !ids.is_empty()), "it has no ids");
        self.0.iter().for_each(|ids| ids.check());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use ahash::RandomState;
    use proptest::prelude::*;

    use super::super::memory::moved::Count;
    use super::super::{Shared, SmallMax};
    use super::*;

    fn beside(small: SmallMax) -> Lawn {
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        Lawn::new(Arc::new(Shared::new(hasher, move || small)))
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert { id: u16, until: u64 },
        Remove { id: u16 },
        Forget { now: u64, most: usize },
    }

    /// Few ids, so that they meet again.
    fn id() -> impl Strategy<Value = u16> {
        0_u16..40
    }

    fn moment() -> impl Strategy<Value = u64> {
        let edges = prop::sample::select(vec![0_u64, 1, DEADLINE_MAX - 1, DEADLINE_MAX, u64::MAX]);
        prop_oneof![6 => 900_u64..1500, 1 => any::<u64>(), 1 => edges]
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            10 => (id(), moment()).prop_map(|(id, until)| Op::Insert { id, until }),
            4 => id().prop_map(|id| Op::Remove { id }),
            3 => (moment(), prop_oneof![0_usize..20, Just(usize::MAX)])
                .prop_map(|(now, most)| Op::Forget { now, most }),
        ]
    }

    /// Lengths from 0 on, binary, all different, and some of more than a hundred bytes or too long for a page.
    fn name(id: u16) -> Vec<u8> {
        match id {
            0 => Vec::new(),
            16 => id.to_be_bytes().repeat(6000),
            33 => id.to_be_bytes().repeat(100),
            _ => id.to_be_bytes().repeat(1 + usize::from(id % 5)),
        }
    }

    /// Compares with a map. What one lawn does beyond that (freeing memory, moving) is tested there.
    fn run(small: SmallMax, ops: &[Op]) {
        let (beside, mut remembered) = (beside(small), Aside::default());
        let mut oracle = BTreeMap::<Vec<u8>, u64>::new();
        for op in ops {
            match *op {
                Op::Insert { id, until } => {
                    remembered.insert(&beside, &name(id), until);
                    oracle.insert(name(id), until.min(DEADLINE_MAX));
                }
                Op::Remove { id } => {
                    assert_eq!(remembered.remove(&name(id)), oracle.remove(&name(id)));
                }
                Op::Forget { now, most } => {
                    let expired = oracle.values().filter(|until| **until <= now).count();
                    assert_eq!(remembered.forget(now, most), expired.min(most), "{op:?}");
                    // Those that were forgotten had expired, and had done so before those that were not.
                    let last = remembered.next().unwrap_or(u64::MAX).min(now);
                    let is_known = |id: &[u8]| remembered.until(id).is_some();
                    oracle.retain(|id, until| *until > last || is_known(id));
                }
            }
            remembered.check();
            let mut all: Vec<_> =
                remembered.iter().map(|(until, id)| (id.to_vec(), until)).collect();
            assert!(all.iter().map(|(_, until)| until).is_sorted(), "{op:?}");
            all.sort();
            assert!(all.iter().map(|(id, until)| (id, until)).eq(&oracle), "{op:?}");
            assert_eq!(remembered.next(), oracle.values().min().copied());
            assert_eq!(
                (remembered.len(), remembered.is_empty()),
                (oracle.len(), oracle.is_empty())
            );
            for now in [0, 1200, u64::MAX] {
                let live = oracle.values().filter(|until| **until > now).count();
                assert_eq!(remembered.len_at(now), live, "{op:?}");
                for id in (0..40).map(name) {
                    let until = oracle.get(&id).copied();
                    let found = (remembered.until(&id), remembered.contains(&id, now));
                    assert_eq!(found, (until, until > Some(now)));
                }
            }
        }
        assert!(remembered.clone().iter().eq(remembered.iter()));
        while remembered.forget(u64::MAX, 7) > 0 {}
        assert_eq!((remembered.is_empty(), remembered.allocations()), (true, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn it_remembers_what_a_map_does(ops in prop::collection::vec(op(), 1..120), is_small: bool) {
            let small = if is_small { SmallMax::USUAL } else { SmallMax { elements: 0, bytes: 0 } };
            run(small, &ops);
        }
    }

    /// Returns an id of sixteen bytes.
    fn sixteen(number: u64) -> Vec<u8> {
        format!("{number:016}").into_bytes()
    }
    fn each(remembered: &Aside) -> f64 {
        remembered.memory() as f64 / remembered.len() as f64
    }

    fn random(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    type Until<'a> = &'a dyn Fn(u64) -> u64;

    /// From 100,000 on, also where a page or a table has just been added; and as they go.
    #[test]
    #[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
    fn an_id_of_sixteen_bytes_takes_56_and_no_more_than_72_whatever_the_order() {
        let orders: [(&str, Until<'_>, f64); 5] = [
            ("ascending", &|id| id, 56.6),
            ("random in an hour", &|id| (random(id) >> 32) % 3_600_000, 68.0),
            ("random", &|id| random(id) >> 1, 68.0),
            ("descending", &|id| (1 << 40) - id, 62.0),
            ("to the fullest block", &|id| (1 << 40) - ((1 << 40) >> (id % 40)) + id, 66.0),
        ];
        for (name, until, last) in orders {
            let (beside, mut remembered) = (beside(SmallMax::USUAL), Aside::default());
            for id in 0..300_000_u64 {
                remembered.insert(&beside, &sixteen(id), until(id));
                if id >= 100_000 && id % 500 == 0 {
                    assert!(each(&remembered) <= 72.0, "{name}: {} bytes", each(&remembered));
                }
            }
            assert!(each(&remembered) <= last, "{name}: {} bytes", each(&remembered));
            let (mut counted, mut next) = (Count(0), Some(0));
            while let Some(from) = next {
                next = remembered.defrag(from, &mut counted, || false);
            }
            let range = remembered.memory() * 5 / 6..=remembered.memory();
            assert!(range.contains(&counted.0), "{name}: {} of {range:?} moved", counted.0);
            while remembered.len() > 15_000 {
                remembered.forget(u64::MAX, 5000);
                while remembered.compact(32) {}
                let each = each(&remembered);
                assert!(each <= 110.0, "{name}: {each} bytes for each of {}", remembered.len());
            }
            remembered.check();
            assert!(!remembered.is_sparse() && remembered.forget(u64::MAX, usize::MAX) > 0);
            assert_eq!(remembered.memory(), 0);
        }
    }

    #[test]
    fn payloads_come_by_their_moments_and_the_last_one_frees_all() {
        let (beside, mut names) = (beside(SmallMax::USUAL), Aside::default());
        for (name, moment) in [(&b"late"[..], 30), (b"early", 10), (b"never", u64::MAX)] {
            assert_eq!(names.set(&beside, name, b"one", moment), Ok(()));
        }
        let order =
            |names: &Aside| names.payloads().map(|(name, _)| name.to_vec()).collect::<Vec<_>>();
        assert_eq!((names.len(), names.next()), (3, Some(10)));
        assert_eq!((names.due(9), names.due(10)), (None, Some((&b"early"[..], &b"one"[..]))));
        assert_eq!(names.set(&beside, b"early", b"another", 40), Ok(()));
        assert_eq!(names.payload(b"early"), Some(&b"another"[..]));
        assert_eq!(order(&names), [&b"late"[..], b"early", b"never"]);
        names.postpone(b"late", 50);
        names.postpone(b"unknown", 50);
        assert_eq!(order(&names), [&b"early"[..], b"late", b"never"]);
        names.check();
        assert_eq!([b"early", b"other"].map(|name| names.remove(name)), [Some(40), None]);
        assert!(names.remove(b"late").is_some() && names.remove(b"never").is_some());
        assert_eq!((names.is_empty(), names.memory(), names.payload(b"never")), (true, 0, None));
    }
}
