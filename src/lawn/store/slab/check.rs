//! The check of a slab, for tests.

use super::{Class, NIL, Slab, Unit, class_of};

impl<T: Unit> Slab<T> {
    /// Panics unless counts, chains and lists agree.
    pub fn check(&self) {
        let mut seen = vec![Class::EMPTY; self.classes.len()];
        let mut vacant = 0;
        let mut with_room = 0;
        assert_eq!(self.infos.len(), self.pages.len());
        for (number, info) in (0..).zip(self.infos.iter()) {
            let units = &self.pages[number as usize];
            if info.width == 0 {
                assert!(units.is_empty(), "a vacant page has memory");
                vacant += 1;
                continue;
            }
            let width = usize::from(info.width);
            assert_eq!(class_of(width), (usize::from(info.class), width), "page {number}");
            assert!(info.filled <= info.capacity && info.filled as usize <= units.len());
            let slots = (0..info.filled).step_by(width);
            let free = slots.filter(|unit| units[*unit as usize].free().is_some());
            let free: std::collections::BTreeSet<_> = free.collect();
            let filled = info.filled as usize / width;
            assert_eq!(usize::from(info.live) + free.len(), filled, "page {number}: slots in use");
            if number != self.draining {
                let next = |unit: &u32| units[*unit as usize].free().expect("a free slot");
                let known = |unit: u32| (unit != NIL).then_some(unit);
                let chain = std::iter::successors(known(info.free), |unit| known(next(unit)));
                let chain: Vec<_> = chain.take(free.len() + 1).collect();
                assert_eq!(chain.len(), free.len(), "page {number}: the chain of free slots");
                assert!(chain.iter().all(|unit| free.contains(unit)));
            }
            let class = &mut seen[usize::from(info.class)];
            class.pages += 1;
            class.live += u32::from(info.live);
            class.slots += info.capacity / u32::from(info.width);
            let is_listed = info.has_room() && number != self.draining;
            assert_eq!(is_listed, info.is_linked, "page {number} is in the wrong list");
            with_room += usize::from(is_listed);
        }
        for (number, (class, seen)) in self.classes.iter().zip(&seen).enumerate() {
            let is_marked = self.sparse[number / 64] >> (number % 64) & 1 == 1;
            assert!(is_marked || !T::ALL_MOVE || !class.is_sparse(), "class {number} is sparse");
            if class.partial != NIL {
                let width = usize::from(self.info(class.partial).width);
                let mut updated = *class;
                updated
                    .update_sparse_below::<T>(width, self.pages[class.partial as usize].capacity());
                assert_eq!(class.sparse_below, updated.sparse_below, "the bound of class {number}");
            }
            let counts = |class: &Class| (class.pages, class.live, class.slots);
            assert_eq!(counts(class), counts(seen));
            with_room -= self.list(class.partial).count();
        }
        assert_eq!(with_room, 0, "a page with room is in no list");
        assert_eq!(self.list(self.vacant).count(), vacant, "vacant pages");
    }
}
