//! LIMIT: limits of length, concurrency and rate.

use crate::data_type::Writing;
use crate::pending::agenda;
use crate::policy::LimitChange;
use crate::replicate;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::GroupLimits;

use super::args::MS_FROM_1;
use super::args::options::Options;
use super::args::required;
use super::{checks, defaults};

/// The elements that limits apply to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope<'a> {
    /// All together.
    Key,
    /// Those of each group that has no limit of its own.
    EachGroup,
    /// Those of one group.
    Group(&'a [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request<'a> {
    scope: Scope<'a>,
    change: LimitChange,
    /// The share of a turn that the group gets.
    share: Option<u16>,
}

/// Reads `key [EACH | GROUP name] <LENGTH n | HELD n | RATE n PER ms | REMEMBER ms | SHARE n> [...]`. Only a key has a REMEMBER,
/// and only a group a SHARE.
fn parse<'a>(args: Args<'a>) -> Result<(Str<'a>, Request<'a>)> {
    let key = required(args, 1)?;
    let mut options = Options::new(args, 2);
    let scope = if options.next_if(b"EACH") {
        Scope::EachGroup
    } else if options.next_if(b"GROUP") {
        Scope::Group(options.group()?.map_or(&b""[..], Str::bytes))
    } else {
        Scope::Key
    };
    let is_key = scope == Scope::Key;
    let (mut change, mut share) = (LimitChange::default(), None);
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
            b"REMEMBER" if is_key && change.remember.is_none() => {
                change.remember = Some(options.milliseconds("REMEMBER")?);
            }
            b"SHARE" if matches!(scope, Scope::Group(_)) && share.is_none() => {
                share = Some(options.small_number("SHARE")?);
            }
            b"EACH" | b"GROUP" if is_key => {
                return Err(option.misplaced("must follow the key, before the limits"));
            }
            b"SHARE" if share.is_none() => return Err(option.misplaced("needs GROUP before it")),
            b"REMEMBER" if !is_key => return Err(option.misplaced("is for a key, not for groups")),
            b"PER" => return Err(option.misplaced("needs RATE before it")),
            _ => return Err(option.unexpected_among("LENGTH, HELD, RATE or REMEMBER")),
        }
    }
    if change == LimitChange::default() && share.is_none() {
        let own = match scope {
            Scope::Key => " or REMEMBER",
            Scope::EachGroup => "",
            Scope::Group(_) => " or SHARE",
        };
        return Err(
            format!("syntax error, LIMIT needs LENGTH, HELD, RATE{own}: INFO shows them").into()
        );
    }
    if scope == Scope::Group(b"") && change != LimitChange::default() {
        return Err("elements without a group can have a SHARE, but no limit".into());
    }
    Ok((key, Request { scope, change, share }))
}

/// Reads `PER ms`. A rate of 0 removes the limit and needs no PER.
fn parse_per(most: u64, options: &mut Options<'_>) -> Result<u64> {
    if !options.next_if(b"PER") {
        let needs = || "RATE needs PER after its value, to say in how many milliseconds".into();
        return if most == 0 { Ok(0) } else { Err(needs()) };
    }
    let per = options.positive("PER", MS_FROM_1)?;
    Ok(if most == 0 { 0 } else { per })
}

/// Runs `LIMIT key [EACH | GROUP name] <LENGTH n | HELD n | RATE n PER ms | REMEMBER ms | SHARE n> [...]`: OK.
pub fn limit(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, request) = parse(args)?;
    let Request { scope, change, share } = request;
    let mut dehydrator = Writing::open(context, key)?;

    let change_group = |limits: &mut GroupLimits| {
        limits.length = change.length.unwrap_or(limits.length);
        limits.held = change.held.unwrap_or(limits.held);
        (limits.rate, limits.per) = change.rate.unwrap_or((limits.rate, limits.per));
    };
    let is_changed = match scope {
        Scope::Key => dehydrator.change_rules(|rules| rules.limit(change)),
        Scope::EachGroup => {
            let mut limits =
                dehydrator.look().map_or(GroupLimits::NONE, |lawn| lawn.group_rules().each);
            let has_none = limits == GroupLimits::NONE;
            change_group(&mut limits);
            if has_none && limits != GroupLimits::NONE {
                checks::memory(context)?;
            }
            dehydrator.change_each_group(|it| *it = limits)
        }
        Scope::Group(group) => {
            let settings = checks::settings(context, &dehydrator, group, |settings| {
                settings.share = share.unwrap_or(settings.share);
                change_group(&mut settings.limits);
            })?;
            dehydrator.change_group(group, |it| *it = settings)
        }
    };
    if is_changed {
        if dehydrator.is_new() {
            checks::memory(context)?;
        }
        // Elements that are already due may have been held back by the old limits.
        let name = Name::of(context, key);
        agenda::reset_overdue(&name);
        replicate::verbatim(context, args);
        defaults::apply(context, key, &mut dehydrator);
        dehydrator.finish(c"dehydrator.limit");
    }
    context.reply_ok();
    Ok(())
}
