//! PULL, XACK, REM, PURGE: taking or removing elements, by their ids or by their group.

use crate::data_type::Writing;
use crate::metrics::counters::PULLS;
use crate::replicate;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{DEADLINE_MAX, Start};

use super::args::options::Options;
use super::args::{self, required};
use super::cancelled::{is_held, tell};

/// The elements that one call changes, if the caller does not say: less than a millisecond's work.
const COUNT: usize = 1024;

/// Runs `PULL key id`: the element, due or not, or nil.
pub fn pull(context: &CommandContext, args: Args<'_>) -> Result {
    let [key, id] = args::exactly(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let until = dehydrator.remembers_until();
    let removal = dehydrator.removal(until);
    let was_held = removal.lawn().is_some_and(|lawn| is_held(lawn, id.bytes()));
    if removal.take_only(context, args, id, |element| context.reply_bulk(element.payload)) {
        PULLS.add(1);
        dehydrator.finish(c"dehydrator.pull");
        tell(context, key, was_held.then_some(id.bytes()));
    } else {
        context.reply_null();
    }
    Ok(())
}

/// Runs `XACK key id [id ...]`. Removes each element that was due or given out under a lease. Replies the element or nil
/// for each id.
pub fn xack(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ids) = args::key_and_ids(args)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();

    let mut reply = context.reply_array(ids.clone().count());
    let until = dehydrator.remembers_until();
    let mut removal = dehydrator.removal(until);
    for id in ids {
        let found = removal.lawn().and_then(|lawn| lawn.look(id.bytes()));
        let is_out = found.is_some_and(|found| found.deadline <= now || found.deliveries > 0);
        if !(is_out && removal.take(id, |element| reply.push_bulk(element.payload))) {
            reply.push_null();
        }
    }
    drop(reply);
    if removal.finish() {
        dehydrator.finish(c"dehydrator.xack");
    }
    Ok(())
}

/// Runs `REM key id [id ...]`: the number of elements removed, due or not.
pub fn rem(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ids) = args::key_and_ids(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let (mut count, mut cancelled) = (0, Vec::new());
    if let Some(lawn) = dehydrator.lawn() {
        for id in ids.map(Str::bytes) {
            if is_held(lawn, id) {
                cancelled.push(id);
            }
            count += i64::from(lawn.stop(id).is_some());
        }
    }
    if count > 0 {
        // Ids that do not exist here do not exist on a replica either.
        replicate::verbatim(context, args);
        dehydrator.finish(c"dehydrator.rem");
        tell(context, key, cancelled);
    }
    context.reply_integer(count);
    Ok(())
}

/// Reads `name [COUNT n]`, up to the last word.
pub fn parse_named<'a>(mut options: Options<'a>) -> Result<(&'a [u8], usize)> {
    let group = options.group()?.map(Str::bytes);
    let Some(group) = group else {
        return Err("GROUP needs a name here: elements without a group are no group".into());
    };
    let count = match options.next() {
        Some(option) if option.name() == b"COUNT" => options.count()?,
        Some(option) if option.name() == b"AT" => {
            return Err(option.misplaced("must be before GROUP"));
        }
        Some(option) => return Err(option.unexpected_among("COUNT")),
        None => COUNT,
    };
    options.end()?;
    Ok((group, count))
}

/// Reads `key GROUP name [COUNT n]`.
fn parse_purge<'a>(args: Args<'a>) -> Result<(Str<'a>, &'a [u8], usize)> {
    required(args, 3)?;
    let mut options = Options::new(args, 2);
    let word = options.next().ok_or(Error::Arity)?;
    if word.name() != b"GROUP" {
        return Err(word.unexpected());
    }
    let (group, count) = parse_named(options)?;
    Ok((required(args, 1)?, group, count))
}

/// Runs `PURGE key GROUP name [COUNT n]`: the number of elements removed, due or not, leased or not, the first in order.
pub fn purge(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, group, count) = parse_purge(args)?;
    let mut dehydrator = Writing::open(context, key)?;
    let mut removal = dehydrator.removal(None);
    let rows = removal
        .lawn()
        .into_iter()
        .flat_map(|lawn| lawn.group_rows(Some(group), Start::FIRST, DEADLINE_MAX));
    let ids: Vec<_> = rows.take(count).map(|row| row.element.id.to_vec()).collect();
    let mut cancelled = Vec::new();
    let mut purged = 0;
    for id in ids.iter().map(Vec::as_slice) {
        if removal.lawn().is_some_and(|lawn| is_held(lawn, id)) {
            cancelled.push(id);
        }
        purged += i64::from(removal.remove(id));
    }
    if removal.finish() {
        dehydrator.finish(c"dehydrator.purge");
        tell(context, key, cancelled);
    }
    context.reply_integer(purged);
    Ok(())
}
