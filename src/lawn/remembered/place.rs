//! Where a remembered id lies: a chunk, and a unit in it.

use super::super::store::Handle;
use super::chunk::{CHUNK_BYTES, UNIT};

/// How many bits of a handle name a unit in its chunk. All others name the chunk.
const UNIT_BITS: u32 = 10;
const _: () = assert!(CHUNK_BYTES / UNIT <= 1 << UNIT_BITS);

/// How many chunks there can be: 16 GiB of them.
pub(super) const CHUNKS_MAX: usize = (1 << (32 - UNIT_BITS)) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) chunk: u32,
    pub(super) unit: u32,
}

impl Place {
    /// Returns the handle by which the index knows it.
    pub(super) fn handle(self) -> Handle {
        // The last chunk's number is not used, so there is room for one more.
        let bits = (self.chunk << UNIT_BITS | self.unit) + 1;
        Handle::from_bits(bits).expect("it is not zero")
    }

    /// Returns the place that has that handle.
    pub(super) fn of(handle: Handle) -> Self {
        let bits = Handle::to_bits(Some(handle)) - 1;
        Self { chunk: bits >> UNIT_BITS, unit: bits & ((1 << UNIT_BITS) - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_its_handle() {
        for chunk in [0, 1, CHUNKS_MAX as u32 - 1] {
            for unit in [0, 1, (1 << UNIT_BITS) - 1] {
                let place = Place { chunk, unit };
                assert_eq!(Place::of(place.handle()), place);
            }
        }
    }
}
