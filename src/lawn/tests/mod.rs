//! Tests of the lawn: one behaviour each here, and in `oracle` random operations against a simple model.

mod checks;
mod groups;
mod model;
mod op;
mod oracle;
mod scan;
mod timeline;
mod turns;
mod work;

use super::memory::moved;
use super::rank::Rank;
use super::*;
use oracle::*;

/// Creates a lawn that is in the full form from the start.
fn lawn() -> Lawn {
    lawn_with_limits(|| SmallMax { elements: 0, bytes: 0 })
}
fn start_numbered(lawn: &mut Lawn, ids: std::ops::Range<u64>, ttl: u64, now: u64) {
    for id in ids {
        start_now(lawn, &id.to_be_bytes(), ttl, b"payload", now).expect("room");
    }
}

/// Takes out all due elements, one at a time.
fn pop_all(lawn: &mut Lawn, now: u64) -> Vec<u64> {
    let mut ids = Vec::new();
    while let [(_, id, ..)] = &drained(lawn, now, 1)[..] {
        ids.push(u64::from_be_bytes(id[..].try_into().expect("eight bytes")));
    }
    ids
}

/// At each block: its first element is removed, and another is inserted just before.
#[test]
fn a_walk_from_the_middle_misses_no_element_inserted_before_a_block() {
    let mut lawn = lawn();
    let mut next = 0_u64;
    for round in 0..60 {
        for _ in 0..31 {
            lawn.start_at(&next.to_be_bytes(), 5, b"", next * 10).expect("room");
            next += 1;
        }
        for gone in next - 31..next - 4 {
            assert!(lawn.stop(&gone.to_be_bytes()).is_some());
            let (id, deadline) = ([&b"late"[..], &gone.to_be_bytes()].concat(), gone * 10 + 5);
            lawn.start_at(&id, 5, b"", deadline).expect("room");
            let mut rows = lawn.rows(Start { deadline, behind: None }, DEADLINE_MAX);
            assert_eq!(rows.next().map(|row| row.element.id), Some(&id[..]), "round {round}");
        }
        lawn.check();
    }
}
/// Brings some groups to limits that have changed. Returns whether there are more.
fn fit_groups(lawn: &mut Lawn) -> bool {
    lawn.groups_mut().is_some_and(|mut groups| groups.fit_some())
}

#[test]
fn to_set_nothing_for_a_group_makes_no_groups() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..10, 3, 0);
    let before = lawn.memory();
    lawn.set_group(b"group", GroupSettings::NONE);
    lawn.set_each_group(GroupLimits::NONE);
    assert_eq!(lawn.memory(), before);
    // Nor is anything left of a group that is not known among others.
    lawn.set_group(b"other", GroupSettings { share: 2, ..GroupSettings::NONE });
    let before = lawn.memory();
    (0..1000_u64).for_each(|id| lawn.set_group(&id.to_be_bytes(), GroupSettings::NONE));
    assert_eq!(lawn.memory(), before);
    lawn.check();
}

#[test]
fn the_longest_ttl_ends_where_deadlines_do() {
    assert_eq!(Lawn::deadline(DEADLINE_MAX, 0), Ok(DEADLINE_MAX));
    assert_eq!(Lawn::deadline(DEADLINE_MAX - 7, 7), Ok(DEADLINE_MAX));
    assert_eq!(Lawn::deadline(DEADLINE_MAX - 7, 8), Err(StartError::TooLate));
    assert_eq!(Lawn::deadline(u64::MAX, u64::MAX), Err(StartError::TooLate));
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn ttls_are_counted_whether_they_have_a_queue_or_not() {
    let mut lawn = lawn();
    assert_eq!(lawn.counts().ttls, 0);
    start_numbered(&mut lawn, 0..10, 3, 10_000);
    start_numbered(&mut lawn, 10..20, 5, 10_000);
    assert_eq!(lawn.counts().ttls, 2);
    // One more queue. Each of its late elements, in the timeline, counts as one TTL.
    start_numbered(&mut lawn, 20..2000, 10, 10_000);
    start_numbered(&mut lawn, 2000..3000, 10, 1000);
    assert_eq!((lawn.parts().shape(), lawn.counts().ttls), ((3, 1000), 1003));
    assert_eq!(
        lawn.counts_by_ttl().into_iter().collect::<Vec<_>>(),
        [(3, 10), (5, 10), (10, 2980)]
    );
}
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn defragmenting_moves_every_allocation_once_whether_it_is_interrupted_or_not() {
    let mut lawn = lawn();
    for ttl in 0..3 {
        start_numbered(&mut lawn, ttl * 30_000..(ttl + 1) * 30_000, ttl, 0);
    }
    // In the timeline.
    for id in 100_000..150_000_u64 {
        let deadline = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        lawn.start_at(&id.to_be_bytes(), 7 + id, b"", deadline).expect("room");
    }
    // In boxes.
    for id in 1_000_000..1_000_040_u64 {
        start_now(&mut lawn, &id.to_be_bytes(), 0, &[b'x'; 10_000], 0).expect("room");
    }
    for id in 2_000_000..2_020_000_u64 {
        let (id, group) = (id.to_be_bytes(), (id % 3000).to_be_bytes());
        lawn.start_in_group(5, &Element::new(&id, b"", 5), Some(&group)).expect("room");
    }
    // The table of TTLs cannot be moved, nor can the box of the groups.
    let least = lawn.memory() - size_of::<Lawn>() - 256 - 12 * 1024;
    for go_on in [true, false] {
        let mut mover = moved::Count(0);
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
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn memory_comes_back_after_a_burst() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..1, 10, 0);
    let one = lawn.memory();
    start_numbered(&mut lawn, 1..100_000, 10, 0);
    let full = lawn.memory();
    // Keep every 50th, so that no page is empty.
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
    let each = lawn.parts().queues.memory() / lawn.len();
    assert!(each < 60, "{each} bytes for each in blocks that should have been joined");
    assert_eq!(pop_all(&mut lawn, 10), (0..2000).map(|id| id * 50).collect::<Vec<_>>());
    start_numbered(&mut lawn, 0..1, 10, 0);
    while lawn.compact(16) {}
    // The rest is the table of pages: 64 bytes for each 64 KiB at the peak.
    assert!(lawn.memory() < 3 * one + full / 400, "{} bytes for one", lawn.memory());
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_small_lawn_is_small_and_a_large_one_dense() {
    let mut lawn = lawn();
    start_now(&mut lawn, b"id-of-16-bytes..", 1000, &[0; 64], 0).expect("room");
    // In tests, two slabs have a limit.
    let size = size_of::<super::full::Full>();
    let limits = rounded(size) - rounded(size - 2 * size_of::<usize>());
    let one = lawn.memory() - limits;
    assert!(one < 2450, "{one} bytes for one element");
    for id in 1..900_000_u64 {
        start_now(&mut lawn, &[&id.to_be_bytes(), &b"12345678"[..]].concat(), id % 8, &[0; 64], 0)
            .expect("room");
    }
    let each = lawn.memory() / 900_000;
    assert!(each < 122, "{each} bytes an element");
}

#[test]
fn an_entry_of_a_lease_takes_twelve_bytes_more_for_the_moments() {
    let mut lawn = lawn();
    let mut each = |count: u64| {
        start_numbered(&mut lawn, 0..count, 0, 5);
        let before = lawn.memory();
        for number in 0..count {
            lawn.lease_due(10 + number / 1000, 60_000, Token::new(Token::SERVERS + 1 + number));
        }
        (lawn.memory() - before) as u64 / count
    };
    if !super::tiny::TINY {
        let each = each(100_000);
        assert!((36..=47).contains(&each), "{each} bytes");
    }
}
