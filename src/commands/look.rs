//! LOOK: returning one element without taking it.

use crate::clock;
use crate::data_type::{Reading, is_stuck};
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::Row;

use super::args::options::Options;
use super::args::{self, required};

/// `key id [FULL]`
pub struct Look<'a> {
    pub key: Str<'a>,
    pub id: &'a [u8],
    pub full: bool,
}

impl<'a> Look<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let (key, id) = (required(args, 1)?, required(args, 2)?.bytes());
        Ok(Self { key, id, full: Options::new(args, 3).only_full()? })
    }
}

/// Runs `LOOK key id [FULL]`: the element, due or not, or nil; with FULL a map of
/// the fields that RANGE lists.
pub fn look(context: &CommandContext, args: Args<'_>) -> Result {
    let Look { key, id, full } = args::read(context, args, Look::parse)?;
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

/// Returns whether the element was given out, is not due again yet, and is no dead letter.
pub(super) fn is_leased(row: &Row<'_>, now: u64) -> bool {
    row.element.deliveries > 0 && row.element.deadline > now && !is_stuck(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_look_is_short_or_full() {
        needs_all_of("k i", only!(Look));
        let look = |args: Args<'_>| Look::parse(args).map(|it| (it.id.to_vec(), it.full));
        assert_eq!(request("k full", look), Ok((b"full".to_vec(), false)));
        assert_eq!(request("k i full", look), Ok((b"i".to_vec(), true)));
        refuses_each(&["k i FULL FULL", "k i short"], only!(Look));
    }
}
