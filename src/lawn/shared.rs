//! What all lawns of a process share.

use ahash::RandomState;

use super::small::SmallMax;

/// The hash key and the limits of the small form.
pub struct Shared {
    pub(super) hasher: RandomState,
    pub(super) small_max: Box<dyn Fn() -> SmallMax + Send + Sync>,
}

impl Shared {
    /// `hasher` keys the tables of ids. A client that knows the key can choose colliding ids: draw the key at random
    /// once per process, and keep it secret. `small_max` is called whenever an element is inserted into a small lawn.
    pub fn new(
        hasher: RandomState,
        small_max: impl Fn() -> SmallMax + Send + Sync + 'static,
    ) -> Self {
        Self { hasher, small_max: Box::new(small_max) }
    }
}
