//! PULL, XACK, REM, LEASE, SETTLED: taking, removing or leasing elements by their ids.

use crate::data_type::{Ending, Writing};
use crate::metrics::counters::PULLS;
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::{Lawn, Token};

use super::args::number::{self, moment};
use super::args::{self, required};
use super::checks;

/// Runs `PULL key id`: the element, due or not, or nil.
pub fn pull(context: &CommandContext, args: Args<'_>) -> Result {
    let [key, id] = args::read(context, args, args::exactly)?;
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

/// Reads `key ttl@unix-ms@token id [id ...]`.
fn parse_lease<'a>(args: Args<'a>) -> Result<(Str<'a>, (u64, u64, Token))> {
    required(args, 3)?;
    Ok((required(args, 1)?, number::parse_lease(required(args, 2)?)?))
}

/// Runs `LEASE key ttl@unix-ms@token id [id ...]`: the number of elements leased, due or not. Leases replicate in this
/// form.
pub fn lease(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, (ttl, deadline, token)) = args::read(context, args, parse_lease)?;
    let mut dehydrator = Writing::open(context, key)?;
    checks::deadline(context, ttl, ttl, Some(deadline), dehydrator.now())?;
    checks::memory(context)?;

    let mut count = 0;
    if let Some(lawn) = dehydrator.lawn() {
        for id in args.from(3) {
            count += i64::from(lawn.lease_at(id.bytes(), ttl, deadline, Some(token)));
        }
    }
    if count > 0 {
        replicate::verbatim(context);
        dehydrator.finish(Ending::Changed, c"dehydrator.poll");
    }
    context.reply_integer(count);
    Ok(())
}

/// Runs `XACK key id [id ...]`. Removes each element that was due or given out under a lease. Replies the element or nil
/// for each id.
pub fn xack(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ids) = args::read(context, args, args::key_and_ids)?;
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
    let (key, ids) = args::read(context, args, args::key_and_ids)?;
    let mut dehydrator = Writing::open(context, key)?;

    let mut count = 0;
    if let Some(lawn) = dehydrator.lawn() {
        for id in ids {
            count += i64::from(lawn.stop(id.bytes()).is_some());
        }
    }
    if count > 0 {
        // Ids that do not exist here do not exist on a replica either.
        replicate::verbatim(context);
        dehydrator.finish(Ending::Shrunk, c"dehydrator.rem");
    }
    context.reply_integer(count);
    Ok(())
}

/// Reads `key unix-ms id [id ...]`.
fn parse_settled<'a>(args: Args<'a>) -> Result<(Str<'a>, u64)> {
    required(args, 3)?;
    Ok((required(args, 1)?, moment("moment", required(args, 2)?.bytes())?))
}

/// Runs `SETTLED key unix-ms id [id ...]`: the number of elements removed, due or not. If the key remembers ids, all
/// of them are remembered until `unix-ms`. Settled, taken and delivered elements replicate in this form.
pub fn settled(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, until) = args::read(context, args, parse_settled)?;
    let ids = args.from(3).map(Str::bytes);
    let mut dehydrator = Writing::open(context, key)?;
    let until = dehydrator.remembers_until().and(Some(until));
    // An id that does not exist is remembered too, which uses memory and frees none.
    let is_there = |id| dehydrator.look().is_some_and(|lawn| lawn.look(id).is_some());
    if until.is_some() && !ids.clone().all(is_there) {
        checks::memory(context)?;
    }

    let mut count = 0;
    if let Some(mut leaving) = dehydrator.removal(until) {
        for id in ids {
            count += i64::from(leaving.lawn.stop(id).is_some());
            leaving.remember(id);
        }
    }
    if count > 0 || until.is_some() {
        replicate::verbatim(context);
        dehydrator.finish(Ending::Shrunk, c"dehydrator.settle");
    }
    context.reply_integer(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_lease_names_its_deadline_and_its_token() {
        needs_all_of("k 5@9@7 i", only!(parse_lease));
        let lease = |args: Args<'_>| parse_lease(args).map(|(key, lease)| (text(key), lease));
        let leased = |token| Ok(("k".into(), (5, 9, token)));
        let seven = Token::new(7).expect("a token");
        assert_eq!(request("k 5@9@7 AT i", lease), leased(seven));
        assert_eq!(request("k 5@9@a@b i", lease), leased(Token::of_word(b"a@b")));
        refuses_each(
            "k 5 i; k 5@9 i; k 5@9@ i; k @9@7 i; k 5@x@7 i; k x@9@7 i; k 5 AT 9 i".split("; "),
            only!(parse_lease),
        );
    }
}
