//! The reply of a POLL or an MPOLL.

use crate::data_type::Writing;
use crate::metrics::lateness::LatenessBatch;
use crate::pending::blocked::Take;
use crate::server::reply::Array;
use crate::server::string::Digits;
use crate::server::{Context, Str};
use lawn::{Element, Lawn};

use super::give::{Recipient, Request, held};

/// A reply, which begins with its first element.
pub(super) struct Reply<'a> {
    context: &'a Context,
    key: Str<'a>,
    take: &'a Take<'a>,
    token: TokenForm<'a>,
    rows: Option<Array<'a>>,
}

/// A token in a reply.
enum TokenForm<'a> {
    /// As the client wrote it.
    Chosen(&'a [u8]),
    /// In digits, as a string: languages whose only numbers are doubles would round it.
    Drawn(Digits),
}

impl<'a> Reply<'a> {
    /// Returns a reply with elements of a key.
    pub(super) fn new(context: &'a Context, key: Str<'a>, take: &'a Take<'a>) -> Self {
        let token = match (take.word, take.token) {
            (None, Some(token)) => TokenForm::Drawn(Digits::new(token.number())),
            (word, _) => TokenForm::Chosen(word.unwrap_or_default()),
        };
        Self { context, key, take, token, rows: None }
    }

    /// Adds an element in the requested form, with the token of its lease.
    #[inline]
    pub(super) fn push(&mut self, element: &Element<'_>) {
        let Element { id, payload, deliveries, .. } = *element;
        let Take { lease, with_ids, is_named, count, .. } = *self.take;
        if self.rows.is_none() {
            if is_named {
                self.context.begin_array(2);
                self.context.reply_bulk(self.key.bytes());
            }
            self.rows = Some(self.context.reply_array_up_to(count));
        }
        let Some(rows) = &mut self.rows else { return };
        if lease.is_some() {
            let mut row = rows.push_array(4);
            row.push_bulk(id);
            row.push_bulk(payload);
            row.push_integer(deliveries.into());
            row.push_bulk(match &self.token {
                TokenForm::Chosen(word) => word,
                TokenForm::Drawn(digits) => digits.bytes(),
            });
        } else if with_ids {
            let mut pair = rows.push_array(2);
            pair.push_bulk(id);
            pair.push_bulk(payload);
        } else {
            rows.push_bulk(payload);
        }
    }

    /// Returns whether it has no element.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_none()
    }
}

/// A reply to a client that did not wait: the lateness of each element is recorded.
struct Measured<'r, 'a> {
    reply: &'r mut Reply<'a>,
    lateness: LatenessBatch,
}

impl Recipient for Measured<'_, '_> {
    fn give(&mut self, element: Element<'_>, deadline: u64) {
        self.lateness.note(deadline);
        self.reply.push(&element);
    }
}

/// Replies that there is nothing: an empty array to POLL, nil to MPOLL, which has no key to name.
pub(super) fn reply_nothing(context: &Context, is_named: bool) {
    if is_named {
        context.reply_null_array();
    } else {
        context.begin_array(0);
    }
}

/// Takes due elements of a key and replies them. Returns whether there were any; else no reply has begun.
#[inline(always)]
pub(super) fn reply_due<'a>(
    context: &'a Context,
    dehydrator: Writing<'a>,
    key: Str<'a>,
    now: u64,
    take: &'a Take<'a>,
) -> bool {
    let mut reply = Reply::new(context, key, take);
    let lateness = LatenessBatch::begin(dehydrator.overdue(), now);
    let mut measured = Measured { reply: &mut reply, lateness };
    Request::new(context, key, now, take).take_due(dehydrator, &mut measured);
    drop(measured);
    !reply.is_empty()
}

/// Replies the elements that the client holds in a key under its chosen token, if there are any.
pub(super) fn reply_held(
    context: &Context,
    key: Str<'_>,
    lawn: &Lawn,
    take: &Take<'_>,
    now: u64,
) -> bool {
    let mut reply = Reply::new(context, key, take);
    held(lawn, take, now).for_each(|element| reply.push(&element));
    !reply.is_empty()
}
