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
