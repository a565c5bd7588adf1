//! The lawn beside an oracle, and one test for each rule.

use proptest::prelude::*;

use super::*;

/// What a lawn does, in thirty obvious lines.
#[derive(Default)]
struct Oracle {
    /// In order of pushing.
    elements: Vec<(Vec<u8>, u64, Vec<u8>, u64)>,
    deliveries: std::collections::HashMap<Vec<u8>, u16>,
}

impl Oracle {
    fn find(&self, id: &[u8]) -> Option<usize> {
        self.elements.iter().position(|element| element.0 == id)
    }

    fn start(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        at: Option<u64>,
    ) -> Result<(), StartError> {
        let deadline = at.filter(|at| *at <= DEADLINE_MAX).ok_or(StartError::TooLate)?;
        if self.find(id).is_some() {
            return Err(StartError::Exists);
        }
        self.elements.push((id.to_vec(), ttl, payload.to_vec(), deadline));
        Ok(())
    }

    fn stop(&mut self, id: &[u8]) -> Option<Vec<u8>> {
        self.deliveries.remove(id);
        self.find(id).map(|at| self.elements.remove(at).2)
    }

    fn first(&self) -> Option<usize> {
        // `min_by_key` returns the first of equals: ties in the order of pushing.
        (0..self.elements.len()).min_by_key(|at| self.elements[*at].3)
    }

    fn pop_due(&mut self, now: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let at = self.first().filter(|at| self.elements[*at].3 <= now)?;
        let (id, _, payload, _) = self.elements.remove(at);
        self.deliveries.remove(&id);
        Some((id, payload))
    }

    fn lease(&mut self, at: usize, ttl: u64, deadline: u64) -> (Vec<u8>, u16) {
        let (id, _, payload, _) = self.elements.remove(at);
        let deliveries = self.deliveries.remove(&id).unwrap_or(0) + 1;
        self.deliveries.insert(id.clone(), deliveries);
        self.elements.push((id.clone(), ttl, payload, deadline.min(DEADLINE_MAX)));
        (id, deliveries)
    }

    fn lease_due(&mut self, now: u64, ttl: u64) -> Option<(Vec<u8>, u16)> {
        let at = self.first().filter(|at| self.elements[*at].3 <= now)?;
        (now < DEADLINE_MAX).then(|| self.lease(at, ttl, now + ttl))
    }

    fn ordered(&self) -> Vec<(u64, &[u8], &[u8], u64)> {
        let mut all: Vec<_> = self
            .elements
            .iter()
            .map(|(id, ttl, payload, at)| (*ttl, &id[..], &payload[..], *at))
            .collect();
        all.sort_by_key(|element| element.3);
        all
    }
}

#[derive(Clone, Debug)]
enum Op {
    Start {
        id: u16,
        ttl: u64,
        length: usize,
    },
    StartAt {
        id: u16,
        ttl: u64,
        length: usize,
        deadline: u64,
    },
    /// Many elements with one TTL, so that queues get blocks and pages.
    Burst {
        first: u16,
        count: u16,
        ttl: u64,
    },
    Stop {
        id: u16,
    },
    StopMany {
        first: u16,
        step: u16,
        count: u16,
    },
    Update {
        id: u16,
        length: usize,
    },
    PopDue {
        most: usize,
    },
    Clock {
        by: i64,
    },
    Compact {
        moves: usize,
    },
    Defrag {
        steps: usize,
    },
    Replace {
        id: u16,
        ttl: u64,
        length: usize,
    },
    Restart {
        id: u16,
        ttl: u64,
    },
    LeaseDue {
        most: usize,
        ttl: u64,
    },
    Lease {
        id: u16,
        ttl: u64,
    },
}

/// Few ids, so that they meet again.
fn id() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0_u16..40, 1 => 0_u16..2000]
}

fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => prop::sample::select(vec![0_u64, 1, 2, 5, 10]),
        2 => 0_u64..2000,
        1 => any::<u64>(),
        1 => prop::sample::select(vec![DEADLINE_MAX, DEADLINE_MAX - 1000, 1 << 62, u64::MAX]),
    ]
}

fn deadline() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 900_u64..1200,
        1 => any::<u64>(),
        1 => prop::sample::select(vec![0_u64, 1, DEADLINE_MAX, DEADLINE_MAX - 1, DEADLINE_MAX + 1]),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0_usize..100, 1 => 100_usize..3000, 1 => 8000_usize..20_000]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (id(), ttl(), length()).prop_map(|(id, ttl, length)| Op::Start { id, ttl, length }),
        3 => (id(), ttl(), length(), deadline()).prop_map(
            |(id, ttl, length, deadline)| Op::StartAt { id, ttl, length, deadline }
        ),
        1 => (id(), 1_u16..120, prop::sample::select(vec![0_u64, 5, 10]))
            .prop_map(|(first, count, ttl)| Op::Burst { first, count, ttl }),
        4 => id().prop_map(|id| Op::Stop { id }),
        1 => (id(), 1_u16..4, 1_u16..120)
            .prop_map(|(first, step, count)| Op::StopMany { first, step, count }),
        2 => (id(), length()).prop_map(|(id, length)| Op::Update { id, length }),
        3 => prop_oneof![Just(1_usize), 0_usize..20, Just(usize::MAX)].prop_map(|most| Op::PopDue { most }),
        3 => prop_oneof![8 => -3_i64..4, 1 => -200_i64..200, 1 => any::<i64>()].prop_map(|by| Op::Clock { by }),
        1 => (1_usize..40).prop_map(|moves| Op::Compact { moves }),
        1 => (1_usize..5).prop_map(|steps| Op::Defrag { steps }),
        3 => (id(), ttl(), length()).prop_map(|(id, ttl, length)| Op::Replace { id, ttl, length }),
        3 => (id(), ttl()).prop_map(|(id, ttl)| Op::Restart { id, ttl }),
        3 => (0_usize..20, 1_u64..50).prop_map(|(most, ttl)| Op::LeaseDue { most, ttl }),
        1 => (id(), 1_u64..50).prop_map(|(id, ttl)| Op::Lease { id, ttl }),
    ]
}

fn name(id: u16) -> Vec<u8> {
    // Lengths from 0 on, binary, and all different.
    match id {
        0 => Vec::new(),
        _ => id.to_be_bytes().repeat(1 + usize::from(id % 5)),
    }
}

fn payload(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (seed ^ i) as u8).collect()
}

fn hasher() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

/// Runs operations on both, comparing every reply, the next deadline, and now and then all content.
fn run(ops: &[Op]) {
    let mut lawn = Lawn::new(hasher());
    let mut oracle = Oracle::default();
    let mut now = 1000_u64;
    for (step, op) in ops.iter().enumerate() {
        let seed = step as u64;
        match *op {
            Op::Start { id, ttl, length } => {
                start(&mut lawn, &mut oracle, id, ttl, &payload(seed, length), now)
            }
            Op::StartAt { id, ttl, length, deadline } => {
                let content = payload(seed, length);
                let expected = oracle.start(&name(id), ttl, &content, Some(deadline));
                assert_eq!(lawn.start_at(&name(id), ttl, &content, deadline), expected);
            }
            Op::Burst { first, count, ttl } => {
                for id in first..first.saturating_add(count) {
                    start(&mut lawn, &mut oracle, id, ttl, &payload(seed, 3), now);
                }
            }
            Op::Stop { id } => stop(&mut lawn, &mut oracle, id),
            Op::StopMany { first, step, count } => {
                for id in (0..count).map(|i| first.saturating_add(i * step)) {
                    stop(&mut lawn, &mut oracle, id);
                }
            }
            Op::Update { id, length } => {
                let content = payload(seed, length);
                let expected = oracle
                    .find(&name(id))
                    .map(|at| std::mem::replace(&mut oracle.elements[at].2, content.clone()));
                let old = lawn.update(&name(id), &content);
                assert_eq!(old.ok().map(|old| old.element().payload.to_vec()), expected);
            }
            Op::PopDue { most } => {
                for _ in 0..most {
                    let taken = lawn.pop_due(now);
                    let taken = taken.as_ref().map(Taken::element);
                    let found = taken.map(|taken| (taken.id.to_vec(), taken.payload.to_vec()));
                    assert_eq!(found, oracle.pop_due(now));
                    if found.is_none() {
                        break;
                    }
                }
            }
            Op::Clock { by } => now = now.saturating_add_signed(by).min(DEADLINE_MAX - 1000),
            Op::Compact { moves } => {
                // Asking first whether there is something to do saves the call, and nothing else.
                let is_sparse = lawn.is_sparse();
                let more = lawn.compact(moves);
                assert!(is_sparse || !more, "something was moved though nothing was sparse");
                assert!(more || !lawn.is_sparse(), "nothing is left to do, but it is sparse");
            }
            Op::Defrag { steps } => defrag(&mut lawn, steps),
            Op::Replace { id, ttl, length } => {
                let content = payload(seed, length);
                let deadline = now.saturating_add(ttl);
                if deadline <= DEADLINE_MAX {
                    oracle.stop(&name(id));
                }
                let expected = oracle.start(&name(id), ttl, &content, Some(deadline));
                // The oracle refuses what is too late, and then it must still be there.
                let expected = expected.map_err(|_| StartError::TooLate);
                assert_eq!(lawn.replace_at(&name(id), ttl, &content, deadline), expected);
            }
            Op::LeaseDue { most, ttl } => {
                for _ in 0..most {
                    let found = lawn.lease_due(now, ttl).map(|it| (it.id.to_vec(), it.deliveries));
                    assert_eq!(found, oracle.lease_due(now, ttl));
                }
            }
            Op::Lease { id, ttl } => {
                let at = oracle.find(&name(id));
                if let Some(at) = at {
                    oracle.lease(at, ttl, now + ttl);
                }
                let deadline = (now + ttl).min(DEADLINE_MAX);
                assert_eq!(lawn.lease_at(&name(id), ttl, deadline), at.is_some());
            }
            Op::Restart { id, ttl } => {
                let deadline = now.saturating_add(ttl);
                let at = oracle.find(&name(id)).filter(|_| deadline <= DEADLINE_MAX);
                if let Some(at) = at {
                    let (id, _, payload, _) = oracle.elements.remove(at);
                    oracle.elements.push((id, ttl, payload, deadline));
                }
                assert_eq!(lawn.restart_at(&name(id), ttl, deadline), at.is_some());
            }
        }
        lawn.check();
        assert_eq!(lawn.len(), oracle.elements.len());
        let first = oracle.first().map(|at| oracle.elements[at].3);
        assert_eq!(lawn.next_deadline(), first, "next deadline after {op:?}");
        let due = oracle.ordered().into_iter().filter(|element| element.3 <= now);
        let due: Vec<_> = due.map(|(_, id, ..)| id).collect();
        assert_eq!(lawn.iter_until(now).map(|(_, element)| element.id).collect::<Vec<_>>(), due);
        assert_eq!(lawn.count_due(now), due.len());
        assert_eq!(lawn.delivered(), oracle.deliveries.len(), "given out after {op:?}");
    }
    assert_eq!(content(&lawn), oracle.ordered());
    assert_eq!(scanned(&lawn, 1), sorted_ids(&oracle), "one at a time");
    assert_eq!(scanned(&lawn, usize::MAX), sorted_ids(&oracle), "in one go");
    assert_eq!(content(&lawn.clone()), oracle.ordered());
    let mut counts = std::collections::BTreeMap::new();
    for (ttl, ..) in oracle.ordered() {
        *counts.entry(ttl).or_insert(0) += 1;
    }
    assert_eq!(lawn.counts_by_ttl(), counts);
    for (_, id, payload, deadline) in oracle.ordered() {
        let deliveries = oracle.deliveries.get(id).copied().unwrap_or(0);
        assert_eq!(lawn.look(id), Some(Element { id, payload, deadline, deliveries }));
    }
}

/// The ids that a scan shows, about so many at a time, in their own order.
fn scanned(lawn: &Lawn, count: usize) -> Vec<Vec<u8>> {
    let mut ids = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = lawn.scan(cursor, count, |element| ids.push(element.id.to_vec()));
        if cursor == 0 {
            ids.sort();
            return ids;
        }
    }
}

fn sorted_ids(oracle: &Oracle) -> Vec<Vec<u8>> {
    let mut ids: Vec<_> = oracle.elements.iter().map(|element| element.0.clone()).collect();
    ids.sort();
    ids
}

/// Moves everything, always, a few steps at a time.
fn defrag(lawn: &mut Lawn, steps: usize) {
    struct MoveAll;
    impl Mover for MoveAll {
        fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T> {
            let mut moved = Vec::with_capacity(items.capacity());
            moved.extend(items);
            moved
        }
    }
    let mut next = Some(0);
    while let Some(from) = next {
        let mut left = steps;
        next = lawn.defrag(from, &mut MoveAll, || {
            left -= 1;
            left > 0
        });
    }
}

fn start(lawn: &mut Lawn, oracle: &mut Oracle, id: u16, ttl: u64, payload: &[u8], now: u64) {
    let expected = oracle.start(&name(id), ttl, payload, now.checked_add(ttl));
    assert_eq!(lawn.start(&name(id), ttl, payload, now), expected.map(|()| now + ttl));
}

fn stop(lawn: &mut Lawn, oracle: &mut Oracle, id: u16) {
    let taken = lawn.stop(&name(id)).map(|taken| taken.element().payload.to_vec());
    assert_eq!(taken, oracle.stop(&name(id)));
}

fn content(lawn: &Lawn) -> Vec<(u64, &[u8], &[u8], u64)> {
    lawn.iter().map(|(ttl, element)| (ttl, element.id, element.payload, element.deadline)).collect()
}

proptest! {
    // A failure prints the operations, shrunk to the fewest that fail: they are all there is to know, for
    // time is among them. PROPTEST_RNG_SEED chooses others, PROPTEST_CASES more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_do_what_the_oracle_does(ops in prop::collection::vec(op(), 1..150)) {
        run(&ops);
    }
}

fn lawn() -> Lawn {
    Lawn::new(hasher())
}

fn start_numbered(lawn: &mut Lawn, ids: std::ops::Range<u64>, ttl: u64, now: u64) {
    for id in ids {
        lawn.start(&id.to_be_bytes(), ttl, b"payload", now).expect("room");
    }
}

fn pop_all(lawn: &mut Lawn, now: u64) -> Vec<u64> {
    let mut ids = Vec::new();
    while let Some(taken) = lawn.pop_due(now) {
        ids.push(u64::from_be_bytes(taken.element().id.try_into().expect("eight bytes")));
    }
    ids
}

#[test]
fn due_means_at_or_before_now() {
    let mut lawn = lawn();
    lawn.start(b"a", 50, b"", 1000).expect("room");
    assert!(lawn.pop_due(1049).is_none());
    assert_eq!(lawn.next_deadline(), Some(1050));
    assert_eq!(lawn.pop_due(1050).map(|taken| taken.element().deadline), Some(1050));
    assert_eq!(lawn.next_deadline(), None);
}

#[test]
fn a_ttl_of_zero_is_due_at_once_and_taking_it_ends() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..3, 0, 7);
    assert_eq!(pop_all(&mut lawn, 7), [0, 1, 2]);
}

#[test]
fn equal_deadlines_come_in_the_order_of_pushing_over_all_ttls() {
    let mut lawn = lawn();
    // Each pushed a millisecond later with a TTL a millisecond shorter, then the other way round.
    for id in 0..50 {
        start_numbered(&mut lawn, id..id + 1, 100 - id, 1000 + id);
    }
    for id in 50..100_u64 {
        lawn.start_at(&id.to_be_bytes(), id, b"", 1100).expect("room");
    }
    lawn.check();
    assert_eq!(pop_all(&mut lawn, 1100), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_lease_counts_until_it_is_settled_and_stops_at_the_end_of_the_count() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..2, 10, 0);
    let (first, second) = (0_u64.to_be_bytes(), 1_u64.to_be_bytes());
    assert_eq!((lawn.len(), lawn.is_empty(), lawn.delivered()), (2, false, 0));
    assert!(lawn.lease_due(9, 5).is_none(), "nothing is due");
    assert_eq!(lawn.delivered(), 0);
    let leased = lawn.lease_due(10, 5).expect("it is due");
    assert_eq!((leased.id, leased.deadline, leased.deliveries), (&first[..], 15, 1));
    assert!(lawn.lease_at(&second, 7, 100));
    assert!(lawn.lease_at(&second, 7, 17));
    let looked = lawn.look(&second).expect("it is there");
    assert_eq!((looked.deadline, looked.deliveries, lawn.delivered()), (17, 2, 2));
    // What cannot be, changes nothing.
    assert!(!lawn.lease_at(b"none", 7, 17));
    assert!(!lawn.lease_at(&second, 7, DEADLINE_MAX + 1));
    assert!(!lawn.restart_at(&second, 7, DEADLINE_MAX + 1));
    assert!(!lawn.set_deliveries(b"none", 7));
    assert_eq!(lawn.look(&second).map(|it| (it.deadline, it.deliveries)), Some((17, 2)));

    assert!(lawn.set_deliveries(&first, u16::MAX));
    assert!(lawn.set_deliveries(&second, 0));
    assert_eq!(lawn.delivered(), 1);
    let leased = lawn.lease_due(15, DEADLINE_MAX).expect("it is due");
    assert_eq!((leased.deadline, leased.deliveries), (DEADLINE_MAX, u16::MAX));
    // A new timer leaves the count as it is, a new element begins it anew.
    assert!(lawn.restart_at(&first, 0, 16));
    assert_eq!(lawn.look(&first).map(|it| (it.deadline, it.deliveries)), Some((16, u16::MAX)));
    assert_eq!(lawn.replace_at(&first, 0, b"new", 16), Ok(()));
    assert_eq!((lawn.look(&first).map(|it| it.deliveries), lawn.delivered()), (Some(0), 0));
    lawn.check();
    assert_eq!(pop_all(&mut lawn, 17), [0, 1]);
    assert!(lawn.is_empty());
}

#[test]
fn the_longest_ttl_ends_where_deadlines_do() {
    assert_eq!(Lawn::deadline(DEADLINE_MAX, 0), Ok(DEADLINE_MAX));
    assert_eq!(Lawn::deadline(DEADLINE_MAX - 7, 7), Ok(DEADLINE_MAX));
    assert_eq!(Lawn::deadline(DEADLINE_MAX - 7, 8), Err(StartError::TooLate));
    assert_eq!(Lawn::deadline(u64::MAX, u64::MAX), Err(StartError::TooLate));
    let mut lawn = lawn();
    lawn.start_at(b"last", 0, b"", DEADLINE_MAX).expect("room");
    assert_eq!(lawn.replace_at(b"last", 0, b"", DEADLINE_MAX + 1), Err(StartError::TooLate));
    assert!(lawn.restart_at(b"last", 1, DEADLINE_MAX));
    assert!(lawn.pop_due(DEADLINE_MAX - 1).is_none());
    assert!(lawn.pop_due(DEADLINE_MAX).is_some());
}

#[test]
fn errors_say_what_is_wrong() {
    let errors = [StartError::Exists, StartError::TooLate, StartError::Full];
    let said = errors.map(|error| error.to_string());
    assert_eq!(
        said,
        ["id already exists", "the deadline does not fit in 63 bits", "the dehydrator is full"]
    );
    assert_eq!(UpdateError::Missing.to_string(), "no such id");
    assert_eq!(UpdateError::Full.to_string(), said[2]);
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn ttls_are_counted_whether_they_have_a_queue_or_not() {
    let mut lawn = lawn();
    assert_eq!(lawn.ttls(), 0);
    start_numbered(&mut lawn, 0..10, 3, 10_000);
    start_numbered(&mut lawn, 10..20, 5, 10_000);
    assert_eq!(lawn.ttls(), 2);
    // One queue more, and what is too far out of order for its own: each for itself.
    start_numbered(&mut lawn, 20..2000, 10, 10_000);
    start_numbered(&mut lawn, 2000..3000, 10, 1000);
    let (queues, overflowing) = lawn.shape();
    assert!(queues == 3 && overflowing > 700, "{queues} queues, {overflowing} in none");
    assert_eq!(lawn.ttls(), queues + overflowing);
    assert_eq!(
        lawn.counts_by_ttl().into_iter().collect::<Vec<_>>(),
        [(3, 10), (5, 10), (10, 2980)]
    );
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_scan_shows_about_as_many_as_are_wanted() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..20_000, 10, 0);
    for count in [10, 100, 1000] {
        let (mut cursor, mut calls, mut all) = (0, 0, 0);
        loop {
            let mut shown = 0;
            cursor = lawn.scan(cursor, count, |_| shown += 1);
            (calls, all) = (calls + 1, all + shown);
            assert!(shown < 2 * count + 30, "{shown} shown, {count} wanted");
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(all, 20_000);
        assert!(calls < 2 * 20_000 / count, "{calls} calls with a count of {count}");
    }
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn defragmenting_moves_every_allocation_once_whether_it_is_interrupted_or_not() {
    struct Count(usize);
    impl Mover for Count {
        fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T> {
            self.0 += items.capacity() * size_of::<T>();
            items
        }
    }
    let mut lawn = lawn();
    for ttl in 0..3 {
        start_numbered(&mut lawn, ttl * 30_000..(ttl + 1) * 30_000, ttl, 0);
    }
    // The table of TTLs cannot be moved.
    let least = lawn.memory() - size_of::<Lawn>() - 256;
    for go_on in [true, false] {
        let mut mover = Count(0);
        let mut next = Some(0);
        while let Some(from) = next {
            next = lawn.defrag(from, &mut mover, || go_on);
            assert!(next.is_none_or(|next| !go_on && next > from), "{next:?} after {from}");
        }
        let range = least..lawn.memory();
        assert!(range.contains(&mover.0), "{} bytes of {range:?}", mover.0);
    }
}

#[test]
fn an_updated_element_keeps_its_deadline_and_its_place() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..30, 10, 0);
    for id in [29_u64, 3, 14] {
        let old = lawn.update(&id.to_be_bytes(), &[b'x'; 500]).expect("it is there");
        assert_eq!(old.element().payload, b"payload");
    }
    lawn.check();
    assert_eq!(lawn.look(&3_u64.to_be_bytes()).expect("it is there").payload, [b'x'; 500]);
    assert_eq!(lawn.update(b"none", b"").err(), Some(UpdateError::Missing));
    assert_eq!(pop_all(&mut lawn, 10), (0..30).collect::<Vec<_>>());
}

#[test]
fn a_refused_start_changes_nothing() {
    let mut lawn = lawn();
    lawn.start(b"a", 5, b"first", 0).expect("room");
    assert_eq!(lawn.start(b"a", 9, b"second", 0), Err(StartError::Exists));
    assert_eq!(lawn.start(b"b", DEADLINE_MAX, b"", 1), Err(StartError::TooLate));
    assert_eq!(lawn.start(b"b", u64::MAX, b"", u64::MAX), Err(StartError::TooLate));
    assert_eq!(lawn.start_at(b"b", 0, b"", DEADLINE_MAX + 1), Err(StartError::TooLate));
    assert_eq!(lawn.start_at(b"c", u64::MAX, b"", DEADLINE_MAX), Ok(()));
    lawn.check();
    assert_eq!(
        content(&lawn),
        [(5, &b"a"[..], &b"first"[..], 5), (u64::MAX, b"c", b"", DEADLINE_MAX)]
    );
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_clock_that_steps_back_a_little_costs_a_short_walk() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..60, 10, 1000);
    start_numbered(&mut lawn, 60..90, 10, 995);
    start_numbered(&mut lawn, 90..120, 10, 1001);
    lawn.check();
    assert_eq!(lawn.shape(), (1, 0), "all of it is in the queue");
    assert_eq!(lawn.next_deadline(), Some(1005));
    let order: Vec<_> = (60..90).chain(0..60).chain(90..120).collect();
    assert_eq!(pop_all(&mut lawn, 2000), order);
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_clock_that_steps_back_far_keeps_the_order_without_a_long_walk() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..5000, 10, 10_000);
    start_numbered(&mut lawn, 5000..10_000, 10, 1000);
    lawn.check();
    let (queues, overflowing) = lawn.shape();
    assert_eq!(queues, 1);
    assert!(overflowing > 4800, "{overflowing} elements are in the overflow");
    let order: Vec<_> = (5000..10_000).chain(0..5000).collect();
    assert_eq!(pop_all(&mut lawn, 20_000), order);
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn one_ttl_for_each_element_is_a_sorted_set() {
    let mut lawn = lawn();
    let count = 20_000;
    for id in 0..count {
        // 7919 is prime: every TTL once, in no order.
        start_numbered(&mut lawn, id..id + 1, id * 7919 % count, 0);
    }
    lawn.check();
    let (queues, overflowing) = lawn.shape();
    assert_eq!(queues + overflowing, count as usize);
    // As many as there may be in any case, and one for sixteen elements.
    assert!((2000..=1024 + 20_000 / 16).contains(&queues), "{queues} queues");
    let deadlines: Vec<_> = pop_all(&mut lawn, count).iter().map(|id| id * 7919 % count).collect();
    assert_eq!(deadlines, (0..count).collect::<Vec<_>>());
    assert!(lawn.is_empty());
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn many_ttls_have_a_queue_each_if_there_are_many_elements_of_each() {
    let mut lawn = lawn();
    for id in 0..300_000 {
        start_numbered(&mut lawn, id..id + 1, 1000 + id % 5000, 0);
    }
    lawn.check();
    let (queues, overflowing) = lawn.shape();
    assert_eq!(queues, 5000);
    assert!(overflowing < 80_000, "{overflowing} of them came before there were enough");
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn emptied_queues_make_room_for_other_ttls() {
    let mut lawn = lawn();
    for round in 0..3 {
        for ttl in 0..1024 {
            lawn.start(&u64::to_be_bytes(ttl), ttl + round, b"", 0).expect("room");
        }
        assert_eq!(lawn.shape(), (1024, 0));
        assert_eq!(pop_all(&mut lawn, u64::MAX).len(), 1024);
        lawn.check();
        assert_eq!(lawn.shape(), (0, 0));
    }
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn memory_comes_back_after_a_burst_of_ttls() {
    let mut lawn = lawn();
    for id in 0..100_000 {
        start_numbered(&mut lawn, id..id + 1, 1000 + id % 5000, 0);
    }
    assert!(lawn.shape().0 > 3000, "{:?}", lawn.shape());
    let full = lawn.memory();
    for id in 1..100_000_u64 {
        lawn.stop(&id.to_be_bytes()).expect("it is there");
    }
    while lawn.compact(16) {}
    lawn.check();
    assert!(lawn.memory() * 200 < full, "{} of {full} bytes for one", lawn.memory());
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn queues_of_which_little_is_left_are_joined_to_fuller_blocks() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..100_000, 10, 0);
    for id in (0..100_000_u64).filter(|id| id % 50 != 0) {
        lawn.stop(&id.to_be_bytes()).expect("it is there");
    }
    while lawn.compact(16) {}
    let each = lawn.queues.memory() / lawn.len();
    assert!(each < 60, "{each} bytes for each of {} elements", lawn.len());
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn records_are_read_ahead_a_few_at_a_time_and_once() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..40, 10, 0);
    let mut reads = Vec::new();
    for taken in 0..40 {
        lawn.queues.settle(&lawn.records);
        if let Some(handles) = lawn.queues.unread() {
            reads.push((taken, handles.iter().flatten().count()));
        }
        lawn.pop_due(10).expect("it is due");
    }
    assert_eq!(reads, [(0, 16), (16, 16), (32, 8)]);
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn memory_comes_back_after_a_burst() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..1, 10, 0);
    let one = lawn.memory();
    start_numbered(&mut lawn, 1..100_000, 10, 0);
    let full = lawn.memory();
    // Every 50th stays: in each page there is something left.
    for id in (0..100_000_u64).filter(|id| id % 50 != 0) {
        lawn.stop(&id.to_be_bytes()).expect("it is there");
    }
    lawn.check();
    let mut steps = 0;
    while lawn.compact(16) {
        steps += 1;
        if steps % 16 == 0 {
            lawn.check();
        }
    }
    lawn.check();
    assert!(steps < 1000, "{steps} steps");
    assert!(lawn.memory() < full / 8, "{} of {full} bytes for 2,000 of 100,000", lawn.memory());
    assert_eq!(pop_all(&mut lawn, 10), (0..2000).map(|id| id * 50).collect::<Vec<_>>());
    start_numbered(&mut lawn, 0..1, 10, 0);
    while lawn.compact(16) {}
    // What is left is the table of pages, 64 bytes for each 64 KiB it once held.
    assert!(lawn.memory() < 3 * one + full / 400, "{} bytes for one", lawn.memory());
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_small_lawn_is_small_and_a_large_one_dense() {
    let mut lawn = lawn();
    lawn.start(b"id-of-16-bytes..", 1000, &[0; 64], 0).expect("room");
    assert!(lawn.memory() < 1536, "{} bytes for one element", lawn.memory());
    for id in 1..900_000_u64 {
        lawn.start(&[&id.to_be_bytes(), &b"12345678"[..]].concat(), id % 8, &[0; 64], 0)
            .expect("room");
    }
    let each = lawn.memory() / 900_000;
    assert!(each < 122, "{each} bytes an element");
}
