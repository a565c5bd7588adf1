//! Counts the work of a call, for tests that bound it, whatever the machine is doing.

/// Counts of work: nothing outside of tests of this crate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Work {
    /// Buckets of the index that were read.
    pub(super) buckets: usize,
    /// Looks at records.
    pub(super) records: usize,
    /// Bytes that were copied or shifted, without the id and payload of a new element.
    pub(super) moved: usize,
    /// Steps in trees of groups, groups visited, their leases and entries of logs walked, their records updated.
    pub(super) steps: usize,
}

/// Counts buckets that are read.
#[inline(always)]
pub(super) fn read_buckets(count: usize) {
    add(Work { buckets: count, ..Work::default() });
}

/// Counts a look at a record.
#[inline(always)]
pub(super) fn look_at_record() {
    add(Work { records: 1, ..Work::default() });
}

/// Counts items that are copied or shifted.
#[inline(always)]
pub(super) fn move_items<T>(count: usize) {
    add(Work { moved: count * size_of::<T>(), ..Work::default() });
}

/// Counts steps in groups.
#[inline(always)]
pub(super) fn step(count: usize) {
    add(Work { steps: count, ..Work::default() });
}

#[cfg(not(test))]
#[inline(always)]
fn add(_: Work) {}

#[cfg(test)]
pub(super) use counted::{add, of};

#[cfg(test)]
mod counted {
    use std::cell::Cell;

    use super::Work;

    thread_local! {
        static DONE: Cell<Work> =
            const { Cell::new(Work { buckets: 0, records: 0, moved: 0, steps: 0 }) };
    }

    pub(in super::super) fn add(more: Work) {
        let Work { buckets, records, moved, steps } = DONE.get();
        DONE.set(Work {
            buckets: buckets + more.buckets,
            records: records + more.records,
            moved: moved + more.moved,
            steps: steps + more.steps,
        });
    }

    /// Returns what a call returns, and the work that it did on this thread.
    pub(in super::super) fn of<T>(call: impl FnOnce() -> T) -> (T, Work) {
        DONE.set(Work::default());
        let returned = call();
        (returned, DONE.get())
    }
}
