//! What a lawn takes, gives back, and where it is moved.

use super::*;

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn defragmenting_moves_every_allocation_once_whether_it_is_interrupted_or_not() {
    /// Bytes, as an allocator sets them aside.
    struct Count(usize);
    impl Mover for Count {
        fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T> {
            self.0 += rounded(items.capacity() * size_of::<T>());
            items
        }

        fn relocate_box<T>(&mut self, item: Box<T>) -> Box<T> {
            self.0 += rounded(size_of::<T>());
            item
        }
    }
    let mut lawn = lawn();
    for ttl in 0..3 {
        start_numbered(&mut lawn, ttl * 30_000..(ttl + 1) * 30_000, ttl, 0);
    }
    // These are in the timeline.
    for id in 100_000..150_000_u64 {
        let deadline = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        lawn.start_at(&id.to_be_bytes(), 7 + id, b"", deadline).expect("room");
    }
    // These have allocations of their own.
    for id in 1_000_000..1_000_040_u64 {
        lawn.start(&id.to_be_bytes(), 0, &[b'x'; 10_000], 0).expect("room");
    }
    // The table of TTLs cannot be moved, nor can the directory of blocks.
    let least = lawn.memory() - size_of::<Lawn>() - 256 - 8 * 1024;
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
    assert!(lawn.memory() < 2100, "{} bytes for one element", lawn.memory());
    for id in 1..900_000_u64 {
        lawn.start(&[&id.to_be_bytes(), &b"12345678"[..]].concat(), id % 8, &[0; 64], 0)
            .expect("room");
    }
    let each = lawn.memory() / 900_000;
    assert!(each < 122, "{each} bytes an element");
}
