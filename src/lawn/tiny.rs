//! Small limits for tests.

/// Set if the feature `tiny-bounds` is on, for tests only: every limit of the structure is then so small that a few
/// dozen random operations split, join, sort and walk all of it.
pub(super) const TINY: bool = cfg!(feature = "tiny-bounds");
