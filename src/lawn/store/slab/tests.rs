use super::class::EXACT;
use super::*;

impl Unit for u64 {
    const BITS: u32 = 15;

    fn set_free(&mut self, next: u32) {
        *self = 1 << 63 | u64::from(next);
    }

    fn free(&self) -> Option<u32> {
        (self >> 63 == 1).then_some(*self as u32)
    }
}

#[test]
fn widths_are_rounded_up_by_an_eighth_at_most_and_classes_are_dense() {
    let mut last = (0, 1);
    for width in 1..=WIDEST {
        let (class, rounded) = class_of(width);
        assert!(rounded >= width && rounded * 8 <= width * 9 + 7, "{width} becomes {rounded}");
        assert!(class == last.0 || class == last.0 + 1, "class {class} after {}", last.0);
        assert_eq!(class == last.0, rounded == last.1, "{width}: class and width differ");
        assert_eq!(class_of(rounded), (class, rounded), "rounding is not idempotent");
        last = (class, rounded);
    }
    assert_eq!(last, (EXACT + 23, WIDEST));
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn a_page_goes_with_its_last_slot() {
    let mut slab = Slab::<u64>::new();
    let handles: Vec<_> = (0..100_000).map(|_| slab.insert(13).expect("room")).collect();
    let full = slab.memory();
    assert!(full < 100_000 * 13 * 8 * 103 / 100, "{full} bytes");
    for handle in &handles[1..] {
        slab.remove(*handle);
    }
    slab.check();
    assert!(slab.memory() < 384 * 1024, "{} bytes for one slot", slab.memory());
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn pages_left_sparse_are_emptied_into_each_other_without_losing_a_slot() {
    let mut slab = Slab::<u64>::new();
    let handles: Vec<_> = (0..100_000).map(|_| slab.insert(4).expect("room")).collect();
    let mut kept = Vec::new();
    for (value, handle) in handles.into_iter().enumerate() {
        slab.get_mut(handle)[..4].fill(value as u64);
        if value % 16 == 3 {
            kept.push((value as u64, handle));
        } else {
            slab.remove(handle);
        }
    }
    let before = slab.memory();
    let mut moves = 0;
    while let Some(handle) = slab.sparse_slot() {
        let target = slab.relocate(handle).expect("room");
        let entry = kept.iter_mut().find(|entry| entry.1 == handle).expect("a live slot");
        entry.1 = target;
        moves += 1;
        if moves % 64 == 0 {
            slab.check();
        }
    }
    slab.check();
    assert!(moves <= kept.len(), "{moves} moves of {} slots", kept.len());
    for (value, handle) in &kept {
        assert_eq!(slab.get(*handle)[..4], [*value; 4]);
    }
    assert!(slab.memory() * 6 < before, "{} of {before} bytes are left", slab.memory());
}

#[test]
#[cfg_attr(feature = "tiny-bounds", ignore = "of the real bounds")]
fn the_last_page_shrinks_too() {
    let mut slab = Slab::<u64>::new();
    let handles: Vec<_> = (0..200).map(|_| slab.insert(4).expect("room")).collect();
    for handle in &handles[5..] {
        slab.remove(*handle);
    }
    while let Some(handle) = slab.sparse_slot() {
        slab.relocate(handle).expect("room");
    }
    slab.check();
    assert_eq!(slab.len(), 5);
    assert!(slab.memory() < 1024, "{} bytes for five slots", slab.memory());
}

#[test]
#[should_panic(expected = "a slot is freed twice")]
fn a_slot_cannot_be_freed_twice() {
    let mut slab = Slab::<u64>::new();
    let [first, _] = [(); 2].map(|()| slab.insert(3).expect("room"));
    slab.remove(first);
    slab.remove(first);
}
