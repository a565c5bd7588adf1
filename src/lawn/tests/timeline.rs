//! Which elements are in queues and which in the timeline.

use super::super::queues::TIMELINE;
use super::*;

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_ttl_that_comes_often_has_a_queue_and_one_of_thousands_has_none() {
    for (ttls, has_queues) in [(100, true), (20_000, false)] {
        let mut lawn = lawn();
        for id in 0..300_000_u64 {
            let ttl = 1000 + id.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ttls;
            start_numbered(&mut lawn, id..id + 1, ttl, 0);
        }
        lawn.check();
        let (queues, timeline_len) = lawn.parts().shape();
        if has_queues {
            assert!(
                queues > 90 && timeline_len < 30_000,
                "{queues} queues, {timeline_len} in none"
            );
        } else {
            assert!(
                queues < 200 && timeline_len > 290_000,
                "{queues} queues, {timeline_len} in none"
            );
        }
    }
}

/// Whatever the deadlines, no two neighbouring blocks stay nearly empty.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn the_timeline_is_dense_whatever_the_deadlines() {
    let count = 100_000_u64;
    let random = |id: u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    type Deadline<'a> = &'a dyn Fn(u64) -> u64;
    let deadlines: [(&str, Deadline<'_>, f64); 6] = [
        ("at random", &random, 15.0),
        ("ascending, behind one that is late", &|id| if id == 0 { 1 << 40 } else { id }, 12.0),
        ("descending", &|id| (1 << 40) - id, 12.0),
        ("all in one millisecond", &|id| if id == 0 { 2 } else { 1 }, 12.0),
        // Repeated halving, always of the fullest block.
        ("between the last two", &|id| (1 << 40) - ((1 << 40) >> (id % 40)) + id, 17.0),
        ("years apart", &|id| random(id) << 24, 16.0),
    ];
    for (name, deadline, most) in deadlines {
        let mut lawn = lawn();
        for id in 0..count {
            lawn.start_at(&id.to_be_bytes(), 0, b"", deadline(id)).expect("room");
        }
        lawn.check();
        let each = lawn.parts().queues.memory() as f64 / count as f64;
        assert!(each < most, "{name}: {each:.1} bytes for each element");
        // Nine of ten are removed, in another order than they were inserted.
        for id in (0..count).map(|id| id * 7919 % count).filter(|id| id % 10 != 0) {
            lawn.stop(&id.to_be_bytes()).expect("it is there");
        }
        while lawn.compact(16) {}
        lawn.check();
        let each = lawn.parts().queues.memory() as f64 / lawn.len() as f64;
        assert!(each < 40.0, "{name}: {each:.1} bytes for each of those that are left");
        let popped = pop_all(&mut lawn, DEADLINE_MAX);
        assert!(popped.windows(2).all(|two| deadline(two[0]) <= deadline(two[1])), "{name}");
        assert_eq!((popped.len() as u64, lawn.len()), (count / 10, 0));
    }
}

/// Elements between a full block and the next one share a new block.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn deadlines_that_descend_towards_a_full_block_fill_blocks() {
    // Close together, and further apart than a column can represent.
    for step in [1, 1 << 24, 1 << 36] {
        let mut lawn = lawn();
        let start = |lawn: &mut Lawn, id: u64, deadline| {
            lawn.start_at(&id.to_be_bytes(), 1 + id, b"", deadline).expect("room");
        };
        // Sixteen are in queues, all others in full blocks.
        for id in 0..16 + 64 * 128 {
            start(&mut lawn, id, id);
        }
        for id in 10_000..20_000 {
            start(&mut lawn, id, (1 << 60) - id * step);
        }
        lawn.check();
        let each = lawn.parts().queues.memory() as f64 / lawn.len() as f64;
        assert!(each < 40.0, "{each:.1} bytes for each element, {step} apart");
    }
}

/// A client that stops the last element of a full block again and again, and starts one just behind it, must not leave
/// a block for each of these.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn blocks_behind_a_full_one_do_not_stay_side_by_side_with_an_element_each() {
    let mut lawn = lawn();
    let gap = 1 << 32;
    let start = |lawn: &mut Lawn, deadline: u64| {
        lawn.start_at(&deadline.to_be_bytes(), 0, b"", deadline).expect("room");
    };
    // This one is in a queue; the others are not.
    start(&mut lawn, 1 << 62);
    (0..64).for_each(|id| start(&mut lawn, id));
    let mut full: std::collections::VecDeque<_> = (0..64).map(|at| (1 << 60) + at * gap).collect();
    full.iter().for_each(|deadline| start(&mut lawn, *deadline));
    for step in 0..10_000 {
        let last = full.pop_back().expect("there are 64");
        assert!(lawn.stop(&last.to_be_bytes()).is_some());
        full.push_front(full[0] - gap);
        start(&mut lawn, full[0]);
        start(&mut lawn, full[63] + gap / 2);
        if step % 1000 == 0 {
            lawn.check();
        }
    }
    lawn.check();
    let each = lawn.parts().queues.memory() as f64 / lawn.len() as f64;
    assert!(each < 60.0, "{each:.1} bytes for each element");
}

/// Sorting the first block again for each insertion would dominate the cost of such a lawn.
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn an_insert_that_moves_only_a_few_leaves_the_first_block_sorted() {
    let mut lawn = lawn();
    // This one is in a queue, and earlier ones are not.
    start_numbered(&mut lawn, 1000..1001, 0, 1000);
    let start = |lawn: &mut Lawn, id: u64, deadline| {
        lawn.start_at(&id.to_be_bytes(), 0, b"", deadline).expect("room");
        let queues = &lawn.parts().queues;
        let (number, ttl) = queues.earliest().expect("a queue");
        let block = queues.first_block(number, ttl).expect("a block");
        assert_eq!(number, TIMELINE);
        assert!(queues.blocks.meta(block).is_sorted, "after {id}");
        lawn.check();
    };
    // In both directions, into gaps, with ties.
    (0..15).for_each(|id| start(&mut lawn, id, id * 7 % 15 / 2));
    for id in 15..300_u64 {
        lawn.stop(&(id - 15).to_be_bytes()).expect("it is there");
        start(&mut lawn, id, id * 7 % 15 / 2);
    }
    let mut expected: Vec<_> = (285..300).collect();
    expected.sort_by_key(|id| id * 7 % 15 / 2);
    expected.push(1000);
    assert_eq!(pop_all(&mut lawn, 1000), expected);
}

/// A range that begins later or earlier by now, or that was split, would take an element out of order.
#[test]
#[should_panic(expected = "a prediction from before a change")]
fn a_prediction_is_not_used_after_a_change() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..1, 0, 5000);
    let start = |lawn: &mut Lawn, id: u64, deadline| {
        lawn.start_at(&id.to_be_bytes(), 0, b"", deadline).expect("room");
    };
    (1..10).for_each(|id| start(&mut lawn, id, 1000 + id));
    let (rank, parts) = (Rank { deadline: 1500, push: 1 << 20 }, lawn.full());
    let predicted = parts.queues.predict_range(0, rank, || {});
    assert!(predicted.is_some());
    (10..1000).for_each(|id| start(&mut lawn, id, 1000 + id));
    let parts = lawn.full();
    let handle = parts.find(&5_u64.to_be_bytes()).expect("it is there");
    parts.queues.push(&mut parts.records, handle, (0, rank), 1000, predicted);
}
#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn memory_comes_back_after_a_burst_of_ttls() {
    let mut lawn = lawn();
    for id in 0..100_000 {
        start_numbered(&mut lawn, id..id + 1, 1000 + id % 5000, 0);
    }
    assert!(lawn.parts().shape().1 > 90_000, "{:?}", lawn.parts().shape());
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
fn records_are_prefetched_a_few_at_a_time_and_once() {
    let mut lawn = lawn();
    start_numbered(&mut lawn, 0..40, 10, 0);
    let mut reads = Vec::new();
    for taken in 0..40 {
        let parts = lawn.full();
        parts.queues.refresh_heads(&mut parts.records);
        if let Some(handles) = parts.queues.handles_to_prefetch() {
            reads.push((taken, handles.iter().flatten().count()));
        }
        assert_eq!(drained(&mut lawn, 10, 1).len(), 1);
    }
    assert_eq!(reads, [(0, 16), (16, 16), (32, 8)]);
}
