//! PULL, XACK, REM, LEASE, SETTLED: taking, removing or leasing elements by their ids.

use crate::data_type::Writing;
use crate::metrics::counters::{self, PULLS};
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::{Lawn, Token};

use super::args::number::moment;
use super::args::{self, required, timer};
use super::limits;

/// Runs `PULL key id`: the element, due or not, or nil.
pub fn pull(context: &CommandContext, args: Args<'_>) -> Result {
    let args::OfId { key, id } = args::read(context, args, args::OfId::parse)?;
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
    counters::count(&PULLS, 1);
    dehydrator.shrunk(c"dehydrator.pull");
    Ok(())
}

/// `key ttl@unix-ms@token id [id ...]`
pub struct Lease<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub deadline: u64,
    pub token: Token,
    args: Args<'a>,
}

impl<'a> Lease<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let (ttl, deadline, token) = timer::parse_lease(required(args, 2)?)?;
        Ok(Self { key: required(args, 1)?, ttl, deadline, token, args })
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.from(3).map(Str::bytes)
    }
}

/// Runs `LEASE key ttl@unix-ms@token id [id ...]`: the number of elements leased, due or not. Leases replicate in this
/// form.
pub fn lease(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, Lease::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let Lease { ttl, token, deadline, .. } = request;
    limits::deadline(context, ttl, ttl, Some(deadline), dehydrator.now())?;
    limits::memory(context)?;

    let mut count = 0;
    if let Some(lawn) = dehydrator.lawn() {
        for id in request.ids() {
            count += i64::from(lawn.lease_at(id, ttl, deadline, Some(token)));
        }
    }
    if count > 0 {
        replicate::verbatim(context);
        dehydrator.changed(c"dehydrator.poll");
    }
    context.reply_integer(count);
    Ok(())
}

/// Runs `XACK key id [id ...]`. Removes each element that was due or given out under a lease. Replies the element or nil
/// for each id.
pub fn xack(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, args::OfIds::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let now = dehydrator.now();

    let mut reply = context.reply_array(request.ids().count());
    let until = dehydrator.remembers_until();
    let mut removed = Batch::settled(context, request.key, until);
    let mut leaving = dehydrator.removal(until);
    for sent in request.ids() {
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
        dehydrator.shrunk(c"dehydrator.xack");
    }
    Ok(())
}

/// Runs `REM key id [id ...]`: the number of elements removed, due or not.
pub fn rem(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, args::OfIds::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;

    let mut count = 0;
    if let Some(lawn) = dehydrator.lawn() {
        for id in request.ids() {
            count += i64::from(lawn.stop(id.bytes()).is_some());
        }
    }
    if count > 0 {
        // Ids that do not exist here do not exist on a replica either.
        replicate::verbatim(context);
        dehydrator.shrunk(c"dehydrator.rem");
    }
    context.reply_integer(count);
    Ok(())
}

/// `key unix-ms id [id ...]`
pub struct Settled<'a> {
    pub key: Str<'a>,
    /// Until when the ids are remembered.
    pub until: u64,
    args: Args<'a>,
}

impl<'a> Settled<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let until = moment("moment", required(args, 2)?.bytes())?;
        Ok(Self { key: required(args, 1)?, until, args })
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.from(3).map(Str::bytes)
    }
}

/// Runs `SETTLED key unix-ms id [id ...]`: the number of elements removed, due or not. If the key remembers ids, all
/// of them are remembered until `unix-ms`. Settled, taken and delivered elements replicate in this form.
pub fn settled(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, Settled::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let until = dehydrator.remembers_until().map(|_| request.until);
    // An id that does not exist is remembered too, which uses memory and frees none.
    let is_there = |id| dehydrator.look().is_some_and(|lawn| lawn.look(id).is_some());
    if until.is_some() && !request.ids().all(is_there) {
        limits::memory(context)?;
    }

    let mut count = 0;
    if let Some(mut leaving) = dehydrator.removal(until) {
        for id in request.ids() {
            count += i64::from(leaving.lawn.stop(id).is_some());
            leaving.remember(id);
        }
    }
    if count > 0 || until.is_some() {
        replicate::verbatim(context);
        dehydrator.shrunk(c"dehydrator.settle");
    }
    context.reply_integer(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_lease_names_its_deadline_its_token_and_its_ids() {
        needs_all_of("k 5@9@7 i", only!(Lease));
        let lease = |args: Args<'_>| {
            let it = Lease::parse(args)?;
            let ids: Vec<_> = it.ids().map(String::from_utf8_lossy).collect();
            Ok((text(it.key), it.ttl, it.deadline, it.token, ids.join(" ")))
        };
        let leased = |token, ids: &str| Ok(("k".into(), 5, 9, token, ids.to_owned()));
        let seven = Token::new(7).expect("a token");
        assert_eq!(request("k 5@9@7 AT i", lease), leased(seven, "AT i"));
        assert_eq!(request("k 5@9@a@b i", lease), leased(Token::of_word(b"a@b"), "i"));
        refuses_each(
            &["k 5 i", "k 5@9 i", "k 5@9@ i", "k @9@7 i", "k 5@x@7 i", "k x@9@7 i", "k 5 AT 9 i"],
            only!(Lease),
        );
    }
}
