//! LIMIT, GIVEN: limits of length, concurrency and rate.

use crate::data_type::{Reading, Writing};
use crate::pending::agenda;
use crate::policy::{LimitChange, Limits, Rate};
use crate::replicate;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};

use super::args::number::{moment, positive};
use super::args::options::Options;
use super::args::{self, has_exactly, required};
use super::{defaults, limits};

/// The request of a LIMIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Request<'a> {
    /// The limits of the dehydrator are asked for.
    Show,
    Change(LimitChange),
    /// The share of a group is asked for.
    ShowGroup(&'a [u8]),
    /// The group gets a share of each turn.
    Share(&'a [u8], u16),
}

/// Reads `key [LENGTH n] [HELD n] [RATE n PER ms] [REMEMBER ms]` or `key GROUP name [SHARE n]`.
fn parse<'a>(args: Args<'a>) -> Result<(Str<'a>, Request<'a>)> {
    let key = required(args, 1)?;
    let mut options = Options::new(args, 2);
    if options.next_if(b"GROUP") {
        return Ok((key, parse_group(&mut options)?));
    }
    let mut change = LimitChange::default();
    while let Some(option) = options.next() {
        match option.name() {
            b"LENGTH" if change.length.is_none() => {
                change.length = Some(options.limit("LENGTH")?);
            }
            b"HELD" if change.held.is_none() => change.held = Some(options.limit("HELD")?),
            b"RATE" if change.rate.is_none() => {
                let most = options.limit("RATE")?;
                change.rate = Some((most, parse_per(most, &mut options)?));
            }
            b"REMEMBER" if change.remember.is_none() => {
                change.remember = Some(options.milliseconds("REMEMBER")?);
            }
            _ => return Err(option.unexpected()),
        }
    }
    let is_change = change != LimitChange::default();
    Ok((key, if is_change { Request::Change(change) } else { Request::Show }))
}

/// Reads `name [SHARE n]`.
fn parse_group<'a>(options: &mut Options<'a>) -> Result<Request<'a>> {
    let group = options.group()?.map_or(&b""[..], Str::bytes);
    if !options.next_if(b"SHARE") {
        options.end()?;
        return Ok(Request::ShowGroup(group));
    }
    let share = options.small_number("SHARE")?;
    options.end()?;
    Ok(Request::Share(group, share))
}

/// Reads `PER ms`. A rate of 0 removes the limit and needs no PER.
fn parse_per(most: u64, options: &mut Options<'_>) -> Result<u64> {
    if !options.next_if(b"PER") {
        let needs = || "RATE needs PER after its value, to say in how many milliseconds".into();
        return if most == 0 { Ok(0) } else { Err(needs()) };
    }
    let word = options.value("PER")?.bytes();
    let per = positive("PER", word, "a whole number of milliseconds from 1 on")?;
    Ok(if most == 0 { 0 } else { per })
}

/// Runs `LIMIT key [LENGTH n] [HELD n] [RATE n PER ms] [REMEMBER ms]` or `LIMIT key GROUP name [SHARE n]`: OK or, where
/// nothing is set, a map of the limits or of the group's share.
pub fn limit(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, request) = args::read(context, args, parse)?;
    match request {
        Request::Show => return show(context, key),
        Request::ShowGroup(group) => return show_group(context, key, group),
        Request::Change(_) | Request::Share(..) => {}
    }
    let mut dehydrator = Writing::open(context, key)?;

    let is_changed = match request {
        Request::Change(change) => dehydrator.change_rules(|rules| rules.limit(change)),
        Request::Share(group, share) => dehydrator.set_share(group, share),
        Request::Show | Request::ShowGroup(_) => false,
    };
    if is_changed {
        if dehydrator.is_new() {
            limits::memory(context)?;
        }
        // Elements that are already due may have been held back by the old limits.
        let name = Name::of(context, key);
        agenda::reset_overdue(&name);
        replicate::verbatim(context);
        defaults::apply(context, key, &mut dehydrator);
        dehydrator.shrunk(c"dehydrator.limit");
    }
    context.reply_ok();
    Ok(())
}

fn show_group(context: &CommandContext, key: Str<'_>, group: &[u8]) -> Result {
    let dehydrator = Reading::open(context, key)?;
    let share = dehydrator.lawn().map_or(1, |lawn| lawn.share(group));
    context.reply_open_map().integer(b"share", u64::from(share));
    Ok(())
}

fn show(context: &CommandContext, key: Str<'_>) -> Result {
    let dehydrator = Reading::open(context, key)?;
    let Limits { length, held, rate, remember } = dehydrator.rules().limits();
    let mut reply = context.reply_open_map();
    reply.integer(b"length", *length);
    reply.integer(b"held", *held);
    reply.integer(b"rate", rate.as_ref().map_or(0, Rate::max));
    reply.integer(b"per", rate.as_ref().map_or(0, Rate::per));
    reply.integer(b"remember", *remember);
    Ok(())
}

/// Reads `key unix-ms n`.
fn parse_given<'a>(args: Args<'a>) -> Result<(Str<'a>, u64, u64)> {
    has_exactly(args, 3)?;
    let moment = moment("moment", required(args, 2)?.bytes())?;
    let count = positive("n", required(args, 3)?.bytes(), "a whole number from 1 on")?;
    Ok((required(args, 1)?, moment, count))
}

/// Runs `GIVEN key unix-ms n`: 1, or 0 if there is no RATE. Replicates how many elements were given out at a moment.
pub fn given(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, moment, count) = args::read(context, args, parse_given)?;
    let mut dehydrator = Writing::open(context, key)?;

    let is_noted = dehydrator.note_given(moment, count);
    if is_noted {
        replicate::verbatim(context);
        dehydrator.changed(c"dehydrator.given");
    }
    context.reply_integer(is_noted.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;
    use lawn::DEADLINE_MAX;

    #[test]
    fn limit_asks_for_limits_or_sets_those_it_names() {
        needs_all_of("k", only!(parse));
        let limit = |args: Args<'_>| match parse(args)? {
            (key, Request::Show) => Ok((text(key), None)),
            (key, Request::Change(change)) => Ok((text(key), Some(change))),
            (_, Request::ShowGroup(_) | Request::Share(..)) => Err("a group".into()),
        };
        assert_eq!(request("k", limit), Ok(("k".into(), None)));
        let change = |change| Ok(("k".into(), Some(change)));
        let none = LimitChange::default();
        assert_eq!(request("k length 5", limit), change(LimitChange { length: Some(5), ..none }));
        assert_eq!(request("k HELD 0", limit), change(LimitChange { held: Some(0), ..none }));
        assert_eq!(
            request("k rate 5 per 7", limit),
            change(LimitChange { rate: Some((5, 7)), ..none })
        );
        let no_rate = LimitChange { rate: Some((0, 0)), ..none };
        assert_eq!(
            [request("k rate 0", limit), request("k rate 0 per 5", limit)],
            [change(no_rate), change(no_rate)]
        );
        let most = DEADLINE_MAX;
        let line = format!("k remember {most} rate {most} per {most} held {most} length {most}");
        let (length, held, rate) = (Some(most), Some(most), Some((most, most)));
        assert_eq!(
            request(&line, limit),
            change(LimitChange { length, held, rate, remember: Some(most) })
        );
        refuses_each(
            "k 5; k length; k length -1; k length 1 length 1; k held x; k held 1 held 1; k rate; k rate 5; \
             k rate 5 per; k rate 5 per 0; k rate 0 per 0; k rate 5 7; k per 7; k rate 5 per 7 rate 5 per 7; \
             k remember; k remember x; k remember 1 remember 1; k length 9223372036854775808; k length 1 more"
                .split("; "),
            only!(parse),
        );

        let share = |args: Args<'_>| match parse(args)?.1 {
            Request::ShowGroup(name) => Ok((name.to_vec(), None)),
            Request::Share(name, share) => Ok((name.to_vec(), Some(share))),
            Request::Show | Request::Change(_) => Err("no group".into()),
        };
        assert_eq!(request("k group SHARE", share), Ok((b"SHARE".to_vec(), None)));
        assert_eq!(request("k GROUP g share 65535", share), Ok((b"g".to_vec(), Some(65_535))));
        refuses_each(
            "k GROUP; k GROUP g SHARE; k GROUP g SHARE 0; k GROUP g SHARE 65536; k GROUP g SHARE x; k GROUP g LENGTH 1; \
             k GROUP g SHARE 1 more; k SHARE 1; k HELD 1 GROUP g SHARE 1"
                .split("; "),
            only!(parse),
        );

        let given =
            |args: Args<'_>| parse_given(args).map(|(key, at, count)| (text(key), at, count));
        needs_all_of("k 0 1", only!(given));
        takes_no_more("k 0 1", only!(given));
        assert_eq!(request("k 5 7", given), Ok(("k".into(), 5, 7)));
        refuses_each(["k -1 1", "k 1 0", "k x 1", "k 1 x"], only!(given));
    }
}
