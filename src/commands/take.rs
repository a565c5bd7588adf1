//! PULL, XACK, REM: taking or removing elements by their ids.

use crate::data_type::{Ending, Writing};
use crate::metrics::counters::PULLS;
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};
use lawn::Lawn;

use super::args;

/// Runs `PULL key id`: the element, due or not, or nil.
pub fn pull(context: &CommandContext, args: Args<'_>) -> Result {
    let [key, id] = args::exactly(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let until = dehydrator.remembers_until();
    let mut leaving = dehydrator.removal(until);
    let Some(taken) = leaving.as_mut().and_then(|leaving| leaving.lawn.stop(id.bytes())) else {
        context.reply_null();
        return Ok(());
    };
    context.reply_bulk(taken.element().payload);
    drop(taken);
    if until.is_some() {
        leaving.into_iter().for_each(|mut leaving| leaving.remember(id.bytes()));
        let mut removed = Batch::settled(context, key, until);
        removed.push_sent(id);
        removed.finish();
    } else {
        replicate::as_sent(context, args, c"DEHYDRATOR.REM");
    }
    PULLS.add(1);
    dehydrator.finish(Ending::Shrunk, c"dehydrator.pull");
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
    let mut removed = Batch::settled(context, key, until);
    let mut leaving = dehydrator.removal(until);
    for sent in ids {
        let id = sent.bytes();
        let is_out = |lawn: &&mut Lawn| {
            lawn.look(id).is_some_and(|found| found.deadline <= now || found.deliveries > 0)
        };
        let out = leaving.as_mut().filter(|leaving| is_out(&leaving.lawn));
        let Some(leaving) = out else {
            reply.push_null();
            continue;
        };
        if let Some(taken) = leaving.lawn.stop(id) {
            reply.push_bulk(taken.element().payload);
        }
        leaving.remember(id);
        removed.push_sent(sent);
    }
    drop(reply);
    if removed.finish() {
        dehydrator.finish(Ending::Shrunk, c"dehydrator.xack");
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
        dehydrator.finish(Ending::Shrunk, c"dehydrator.rem");
    }
    context.reply_integer(count);
    Ok(())
}
