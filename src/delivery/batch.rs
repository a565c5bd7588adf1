//! Batches of copied elements. Copied, because the commands that move elements publish events, and a listener may change
//! anything.

use crate::data_type::ElementCopy;
use crate::server::Str;
use lawn::{Lawn, Token};

/// Elements delivered before their removal is replicated, at most: few, so that the removal stays within the time budget
/// too.
pub(super) const BATCH: usize = 64;
/// A batch is complete at this many bytes of elements: they are copied, and the receiving command copies them again.
const BATCH_BYTES: usize = 64 * 1024;

/// Copies the first of the listed elements that are held, starting at `next`. Moves `next` past the last one checked.
pub(super) fn batch_of_held(
    lawn: &Lawn,
    held: &[(Token, Str<'_>)],
    next: &mut usize,
) -> Vec<ElementCopy> {
    // An id may be listed twice.
    let mut ids = Vec::new();
    let (held, at) = (&held[*next..], next);
    batch_of(held.iter().filter_map(|(token, id)| {
        *at += 1;
        let id = id.bytes();
        let is_new = lawn.holds(id, *token) && !ids.contains(&id);
        let row = is_new.then(|| lawn.row(id)).flatten()?;
        ids.push(id);
        Some(ElementCopy::new(row.element, row.ttl, Some(*token)))
    }))
}

/// Collects the first of these copies into a batch.
pub(super) fn batch_of(copies: impl Iterator<Item = ElementCopy>) -> Vec<ElementCopy> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for copy in copies.take(BATCH) {
        bytes += copy.payload.bytes().len();
        batch.push(copy);
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    batch
}
