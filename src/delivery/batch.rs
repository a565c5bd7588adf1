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
    let (mut batch, mut bytes) = (Vec::<ElementCopy>::new(), 0);
    while *next < held.len() && batch.len() < BATCH && bytes < BATCH_BYTES {
        let (token, id) = held[*next];
        *next += 1;
        let is_twice = || batch.iter().any(|other| other.id() == id.bytes());
        if lawn.holds(id.bytes(), token)
            && !is_twice()
            && let Some(row) = lawn.row(id.bytes())
        {
            bytes += row.element.payload.len();
            batch.push(ElementCopy::new(row.element, row.ttl, Some(token)));
        }
    }
    batch
}

/// Collects the first of these copies into a batch.
pub(super) fn batch_of(copies: impl Iterator<Item = ElementCopy>) -> Vec<ElementCopy> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for copy in copies.take(BATCH) {
        bytes += copy.payload().len();
        batch.push(copy);
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    batch
}
