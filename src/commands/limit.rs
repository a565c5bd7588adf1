//! How much a key holds and gives out at the most: LIMIT, GIVEN.

use crate::data_type::{Reading, Writing};
use crate::pending::{blocked, schedule};
use crate::policy::{Limits, Rate};
use crate::replicate;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};

use super::{args, defaults, limits};

/// Runs `LIMIT key [LENGTH n] [HELD n] [RATE n PER ms] [REMEMBER ms]`: OK, or, without options, a map of the limits that
/// hold.
pub fn limit(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Limit { key, change } = args::read(context, args, args::Limit::parse)?;
    let Some(change) = change else { return show(context, key) };
    let mut dehydrator = Writing::open(context, key)?;

    if dehydrator.set_limits(change) {
        if dehydrator.is_new() {
            limits::memory(context)?;
        }
        // What is due by now may not have been allowed to go before.
        let name = Name::of(context, key);
        schedule::begin(&name);
        blocked::begin(&name);
        replicate::verbatim(context);
        defaults::apply(context, key, &mut dehydrator);
        dehydrator.shrunk(c"dehydrator.limit");
    }
    context.reply_ok();
    Ok(())
}

fn show(context: &CommandContext, key: Str<'_>) -> Result {
    let dehydrator = Reading::open(context, key)?;
    let limits = dehydrator.dehydrator().and_then(|it| it.rules.limits.as_deref());
    let none = Limits::default();
    let Limits { length, held, rate, remember } = limits.unwrap_or(&none);
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut reply = context.reply_open_map();
    reply.push(b"length").integer(number(*length));
    reply.push(b"held").integer(number(*held));
    reply.push(b"rate").integer(number(rate.as_ref().map_or(0, Rate::most)));
    reply.push(b"per").integer(number(rate.as_ref().map_or(0, Rate::per)));
    reply.push(b"remember").integer(number(*remember));
    Ok(())
}

/// Runs `GIVEN key unix-ms n`: 1, or 0 if there is no RATE. The form in which replicas and the append-only file are told how
/// much was given out when.
pub fn given(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Given { key, moment, count } = args::read(context, args, args::Given::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let is_noted = dehydrator.limits().is_some() && dehydrator.note_given(moment, count);
    if is_noted {
        replicate::verbatim(context);
        dehydrator.changed(c"dehydrator.given");
    }
    context.reply_integer(is_noted.into());
    Ok(())
}
