//! Bounds that tests can reach.

/// With the feature `tiny-bounds`, for tests alone, every bound of the structure is so small that a
/// few dozen random operations split, join, sort and walk all of it.
pub(super) const TINY: bool = cfg!(feature = "tiny-bounds");
