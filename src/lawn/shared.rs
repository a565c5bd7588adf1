//! What lawns have in common.

use ahash::RandomState;

use super::small::SmallMax;

/// What lawns share: the key of the hash, and how far the small form goes.
pub struct Shared {
    pub(super) hasher: RandomState,
    pub(super) small_max: Box<dyn Fn() -> SmallMax + Send + Sync>,
}

impl Shared {
    /// Makes what lawns share. `hasher` keys the tables of ids: who knows it can choose ids that collide, so draw it at
    /// random once a process, and keep it secret. `small_max` is asked whenever something is put into a small lawn.
    pub fn new(
        hasher: RandomState,
        small_max: impl Fn() -> SmallMax + Send + Sync + 'static,
    ) -> Self {
        Self { hasher, small_max: Box::new(small_max) }
    }
}
