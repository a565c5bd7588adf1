//! Taking elements by their ids: PULL, XACK, REM, LEASE.

use crate::data_type::Writing;
use crate::lawn::Lawn;
use crate::metrics::counters::{self, PULLS};
use crate::replicate::{self, Batch};
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::args;
use super::limits;

/// Runs `PULL key id`: the element, due or not, or nil.
pub fn pull(context: &CommandContext, args: Args<'_>) -> Result {
    let name = args.get(0);
    let args::OfId { key, id } = args::read(context, args, args::OfId::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let Some(taken) = dehydrator.lawn().and_then(|lawn| lawn.stop(id.bytes())) else {
        context.reply_null();
        return Ok(());
    };
    context.reply_bulk(taken.element().payload);
    drop(taken);
    replicate::removed(context, name, key, id);
    counters::count(&PULLS, 1);
    dehydrator.shrunk(c"dehydrator.pull");
    Ok(())
}

/// Runs `LEASE key ttl@unix-ms@token id [id ...]`: how many there were, which are leased now, due or not. The form in
/// which leases replicate.
pub fn lease(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, args::Lease::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let args::Lease { ttl, token, deadline, .. } = request;
    limits::deadline(context, ttl, ttl, Some(deadline), dehydrator.now())?;

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
    let mut removed = Batch::removed(context, request.key);
    let mut lawn = dehydrator.lawn();
    for sent in request.ids() {
        let id = sent.bytes();
        let is_out = |lawn: &&mut Lawn| {
            lawn.look(id).is_some_and(|found| found.deadline <= now || found.deliveries > 0)
        };
        match lawn.as_deref_mut().filter(is_out).and_then(|lawn| lawn.stop(id)) {
            Some(taken) => {
                reply.push_bulk(taken.element().payload);
                removed.push_sent(sent);
            }
            None => reply.push_null(),
        }
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
