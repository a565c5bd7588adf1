//! PULL, XACK, REM: taking or removing elements by their ids.

use crate::data_type::Writing;
use crate::metrics::counters::PULLS;
use crate::replicate;
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::args;

/// Runs `PULL key id`: the element, due or not, or nil.
pub fn pull(context: &CommandContext, args: Args<'_>) -> Result {
    let [key, id] = args::exactly(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let until = dehydrator.remembers_until();
    let removal = dehydrator.removal(until);
    if removal.take_only(context, args, id, |element| context.reply_bulk(element.payload)) {
        PULLS.add(1);
        dehydrator.finish(c"dehydrator.pull");
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

    let mut count = 0;
    if let Some(lawn) = dehydrator.lawn() {
        for id in ids {
            count += i64::from(lawn.stop(id.bytes()).is_some());
        }
    }
    if count > 0 {
        // Ids that do not exist here do not exist on a replica either.
        replicate::verbatim(context, args);
        dehydrator.finish(c"dehydrator.rem");
    }
    context.reply_integer(count);
    Ok(())
}
