//! One element, as it stands: LOOK.

use crate::clock;
use crate::data_type::{Reading, is_stuck};
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};
use lawn::Row;

use super::args;

/// Runs `LOOK key id [FULL]`: the element, due or not, or nil; with FULL a map of what RANGE tells of it.
pub fn look(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Look { key, id, full } = args::read(context, args, args::Look::parse)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    if !full {
        match dehydrator.lawn().and_then(|lawn| lawn.look(id)) {
            Some(element) => context.reply_bulk(element.payload),
            None => context.reply_null(),
        }
        return Ok(());
    }
    let Some(row) = dehydrator.lawn().and_then(|lawn| lawn.row(id)) else {
        context.reply_null();
        return Ok(());
    };
    let mut reply = context.reply_open_map();
    reply.push(b"element").bulk(row.element.payload);
    reply.push(b"deadline").integer(row.element.deadline as i64);
    reply.push(b"ttl").integer(row.ttl as i64);
    reply.push(b"deliveries").integer(row.element.deliveries.into());
    reply.push(b"leased").integer(is_leased(&row, now).into());
    match dehydrator.lawn().and_then(|lawn| lawn.token(&row.element)) {
        Some(token) => reply.push(b"token").bulk(token.number().to_string().as_bytes()),
        None => reply.push(b"token").null(),
    }
    Ok(())
}

/// Returns whether it was given out, is not due again yet, and is no dead letter.
pub(super) fn is_leased(row: &Row<'_>, now: u64) -> bool {
    row.element.deliveries > 0 && row.element.deadline > now && !is_stuck(row)
}
