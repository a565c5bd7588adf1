//! Taking elements by their ids: PULL, XACK, REM, LEASE, SETTLED.

use crate::data_type::Writing;
use crate::metrics::counters::{self, PULLS};
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{Lawn, Token};

use super::args::number::moment;
use super::args::options::Options;
use super::args::timer::Timer;
use super::args::{self, required};
use super::limits;

/// Runs `PULL key id`: the element, due or not, or nil.
pub fn pull(context: &CommandContext, args: Args<'_>) -> Result {
    let args::OfId { key, id } = args::read(context, args, args::OfId::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let until = dehydrator.remembers_until();
    let mut leaving = dehydrator.leaving(until);
    let Some(taken) = leaving.as_mut().and_then(|leaving| leaving.lawn.stop(id.bytes())) else {
        context.reply_null();
        return Ok(());
    };
    context.reply_bulk(taken.element().payload);
    drop(taken);
    if until.is_some() {
        leaving.into_iter().for_each(|mut leaving| leaving.left(id.bytes()));
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

/// `key ttl@unix-ms@token id [id ...]`, or, as earlier versions said it, `key ttl [TOKEN token] AT unix-ms id [id ...]`
pub struct Lease<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub token: Option<Token>,
    pub deadline: u64,
    args: Args<'a>,
    /// Where the ids begin.
    from: usize,
}

impl<'a> Lease<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let key = required(args, 1)?;
        let Timer { ttl, deadline, mut token } = Timer::parse_lease(required(args, 2)?)?;
        if let Some(deadline) = deadline {
            return Ok(Self { key, ttl, token, deadline, args, from: 3 });
        }
        required(args, 5)?;
        let mut from = 5;
        let mut options = Options::new(args, 3);
        let mut option = options.next().ok_or(Error::Arity)?;
        // Before AT, behind which any word is an id.
        if option.name() == b"TOKEN" {
            (token, from) = (Some(options.token()?), 7);
            required(args, from)?;
            option = options.next().ok_or(Error::Arity)?;
        }
        if option.name() != b"AT" {
            return Err(option.unexpected());
        }
        Ok(Self { key, ttl, token, deadline: options.deadline()?, args, from })
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.from(self.from).map(Str::bytes)
    }
}

/// Runs `LEASE key ttl@unix-ms@token id [id ...]`: how many there were, which are leased now, due or not. The form in
/// which leases replicate.
pub fn lease(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, Lease::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let Lease { ttl, token, deadline, .. } = request;
    limits::deadline(context, ttl, ttl, Some(deadline), dehydrator.now())?;
    limits::memory(context)?;

    let mut count = 0;
    if let Some(lawn) = dehydrator.lawn() {
        for id in request.ids() {
            count += i64::from(lawn.lease_at(id, ttl, deadline, token));
        }
    }
    if count > 0 {
        replicate::verbatim(context);
        dehydrator.changed(c"dehydrator.poll");
    }
    context.reply_integer(count);
    Ok(())
}

/// Runs `XACK key id [id ...]`: for each id the element if it was due or had been given out under a lease, which goes,
/// or nil.
pub fn xack(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, args::OfIds::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let now = dehydrator.now();

    let mut reply = context.reply_array(request.ids().count());
    let until = dehydrator.remembers_until();
    let mut removed = Batch::settled(context, request.key, until);
    let mut leaving = dehydrator.leaving(until);
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
        leaving.left(id);
        removed.push_sent(sent);
    }
    drop(reply);
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.xack");
    }
    Ok(())
}

/// Runs `REM key id [id ...]`: how many were there, due or not, and are gone.
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
        // Those that are not there are not there on a replica either.
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

/// Runs `SETTLED key unix-ms id [id ...]`: how many were there, due or not, and are gone; all are remembered until then, if
/// the key remembers ids. The form in which it replicates that elements were settled, taken or delivered.
pub fn settled(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, Settled::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let until = dehydrator.remembers_until().map(|_| request.until);
    // An id that is not there is remembered too, which takes memory and gives none back.
    let is_there = |id| dehydrator.look().is_some_and(|lawn| lawn.look(id).is_some());
    if until.is_some() && !request.ids().all(is_there) {
        limits::memory(context)?;
    }

    let mut count = 0;
    if let Some(mut leaving) = dehydrator.leaving(until) {
        for id in request.ids() {
            count += i64::from(leaving.lawn.stop(id).is_some());
            leaving.left(id);
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
    fn a_lease_names_its_deadline_and_its_ids() {
        needs_all_of("k 5 AT 9 i", only!(Lease));
        let lease = |args: Args<'_>| {
            let it = Lease::parse(args)?;
            let ids: Vec<_> = it.ids().map(<[u8]>::to_vec).collect();
            Ok((text(it.key), it.ttl, it.token.map(Token::number), it.deadline, ids))
        };
        let leased = |token, ids: [&str; 2]| {
            Ok(("k".into(), 5, token, 9, ids.map(|id| id.as_bytes().to_vec()).to_vec()))
        };
        assert_eq!(request("k 5 at 9 i AT", lease), leased(None, ["i", "AT"]));
        assert_eq!(request("k 5 at 9 TOKEN 7", lease), leased(None, ["TOKEN", "7"]));
        assert_eq!(request("k 5 token 7 AT 9 i TOKEN", lease), leased(Some(7), ["i", "TOKEN"]));
        // As this version says it.
        needs_all_of("k 5@9@7 i", only!(Lease));
        assert_eq!(request("k 5@9@7 AT i", lease), leased(Some(7), ["AT", "i"]));
        let of_word = Token::of_word(b"a@b").number();
        assert_eq!(request("k 5@9@a@b AT i", lease), leased(Some(of_word), ["AT", "i"]));
        refuses_each(&["k 5@9 i", "k 5@9@ i", "k @9@7 i", "k 5@x@7 i", "k x@9@7 i"], only!(Lease));
        refuses_each(
            &["k x AT 9 i", "k 5 AT x i", "k 5 BY 9 i", "k 5 TOKEN 7 BY 9 i", "k 5 TOKEN 7 AT x i"],
            only!(Lease),
        );
        for short in ["k 5 TOKEN 7 AT 9", "k 5 TOKEN 7 AT", "k 5 TOKEN 7 AT"] {
            assert_eq!(request(short, only!(Lease)).err(), Some(Error::Arity), "{short}");
        }
    }
}
