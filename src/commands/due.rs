//! XPOLL, TTN, PTTL: due elements and next deadlines.

use crate::clock;
use crate::config;
use crate::data_type::{Dehydrator, Reading, is_stuck};
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};

use super::args::options::Options;
use super::args::{self, required};

/// Reads `key [COUNT n]`.
fn parse_xpoll<'a>(args: Args<'a>) -> Result<(Str<'a>, usize)> {
    let (key, count) = (required(args, 1)?, Options::new(args, 2).only_count()?);
    Ok((key, count.unwrap_or(usize::MAX).min(config::reply_max())))
}

/// Runs `XPOLL key [COUNT n]`: the ids of the due elements, in order.
pub fn xpoll(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, count) = args::read(context, args, parse_xpoll)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let mut reply = context.reply_array_up_to(count);
    if let Some(dehydrator) = dehydrator.dehydrator() {
        for (_, element) in dehydrator.given_out(now, count) {
            reply.push_bulk(element.id);
        }
    }
    Ok(())
}

/// Runs `TTN key`: milliseconds until an element can be taken, 0 if one is due, nil if there is none, or if the pause lasts
/// until RESUME.
pub fn ttn(context: &CommandContext, args: Args<'_>) -> Result {
    let key = args::read(context, args, args::key)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    match dehydrator.dehydrator().and_then(Dehydrator::next) {
        Some(deadline) => context.reply_integer(deadline.saturating_sub(now) as i64),
        None => context.reply_null(),
    }
    Ok(())
}

/// Runs `PTTL key id`: milliseconds to the element's deadline, 0 if it is due, -1 if it is a stuck dead letter, -2 if it
/// does not exist.
pub fn pttl(context: &CommandContext, args: Args<'_>) -> Result {
    /// As the server's PTTL replies for a key that does not exist.
    const NO_SUCH_ID: i64 = -2;
    /// As the server's PTTL replies for a key that does not expire.
    const NO_DEADLINE: i64 = -1;
    let (key, id) = args::read(context, args, args::key_and_id)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let row = dehydrator.lawn().and_then(|lawn| lawn.row(id.bytes()));
    let left = row.map(|row| match is_stuck(&row) {
        true => NO_DEADLINE,
        false => row.element.deadline.saturating_sub(now) as i64,
    });
    context.reply_integer(left.unwrap_or(NO_SUCH_ID));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn an_xpoll_takes_a_count() {
        needs_all_of("k", only!(parse_xpoll));
        let xpoll = |args: Args<'_>| parse_xpoll(args).map(|(key, count)| (text(key), count));
        assert_eq!(request("k", xpoll), Ok(("k".into(), usize::MAX)));
        assert_eq!(request("k count 2", xpoll), Ok(("k".into(), 2)));
        refuses_each(["k COUNT 1 COUNT 1", "k COUNT 0", "k WITHIDS"], |args| {
            parse_xpoll(args).map(drop)
        });
    }
}
