//! The room of a reply, in bytes.

use super::entry::Entry;

/// The setting `reply-max-bytes`, as it is by default.
const REPLY_BYTES: usize = 4 << 20;
/// What each element takes besides its strings.
const FRAME_BYTES: usize = 64;

/// The bytes that are left of a reply. Its first element has room whatever its size.
pub struct Room {
    bytes: usize,
    is_first: bool,
}

impl Room {
    pub fn new() -> Self {
        Self { bytes: REPLY_BYTES, is_first: true }
    }

    /// Returns whether there is room for an element with so many bytes of strings.
    pub fn has_for(&self, bytes: usize) -> bool {
        self.is_first || bytes + FRAME_BYTES <= self.bytes
    }

    /// Returns whether there is room, and uses it up if so.
    pub fn takes(&mut self, bytes: usize) -> bool {
        let takes = self.has_for(bytes);
        if takes {
            let bytes = self.bytes.saturating_sub(bytes + FRAME_BYTES);
            *self = Self { bytes, is_first: false };
        }
        takes
    }
}

/// Returns the bytes of an element in a reply.
pub fn size(entry: &Entry) -> usize {
    entry.id.len() + entry.element.len()
}
