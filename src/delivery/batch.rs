//! Batches of copies. Copied, because the commands that move elements may call others that listen, who may do as they
//! like.

use crate::data_type::ElementCopy;
use crate::server::Str;
use lawn::{Lawn, Token};

/// Elements that are delivered before their removal is told: a few, so that the time that takes is
/// within the budget too.
pub(super) const BATCH: usize = 64;
/// Bytes of elements in a batch, but for the last one: they are copied, and copied again by what takes them.
const BATCH_BYTES: usize = 64 * 1024;

/// Copies the first of these that are held, from the one at `next` on, which then is behind the last that was looked at.
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

/// Makes a batch of the first of these copies.
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
