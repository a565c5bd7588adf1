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

/// The request of a LIMIT.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;
    use lawn::DEADLINE_MAX;

    #[test]
    fn limit_sets_the_limits_that_it_names() {
        let limit = |args: Args<'_>| match parse(args)? {
            (key, it) if it.scope == Scope::Key => Ok((text(key), it.change)),
            _ => Err("a group".into()),
        };
        let change = |change| Ok(("k".into(), change));
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
            "k; k 5; k length; k length -1; k length 1 length 1; k held x; k held 1 held 1; k rate; k rate 5; \
             k rate 5 per; k rate 5 per 0; k rate 0 per 0; k rate 5 7; k per 7; k rate 5 per 7 rate 5 per 7; \
             k remember; k remember x; k remember 1 remember 1; k length 9223372036854775808; k length 1 more"
                .split("; "),
            only!(parse),
        );

        let of_group = |args: Args<'_>| {
            let (_, Request { scope, change, share }) = parse(args)?;
            let name = match scope {
                Scope::Key => "key".into(),
                Scope::EachGroup => "each".into(),
                Scope::Group(name) => format!("group {}", name.escape_ascii()),
            };
            Ok((name, share, change.length, change.held, change.rate))
        };
        let group = |name: &str, share, length, held| Ok((name.into(), share, length, held, None));
        let named_share = group("group SHARE", Some(2), None, None);
        assert_eq!(request("k group SHARE SHARE 2", of_group), named_share);
        let share = group("group g", Some(65_535), None, None);
        assert_eq!(request("k GROUP g share 65535", of_group), share);
        let all = group("group EACH", Some(2), Some(0), Some(3));
        assert_eq!(request("k GROUP EACH HELD 3 SHARE 2 LENGTH 0", of_group), all);
        let rate = |name: &str, rate| Ok((name.into(), None, None, None, Some(rate)));
        assert_eq!(request("k EACH RATE 5 PER 7", of_group), rate("each", (5, 7)));
        assert_eq!(request("k GROUP g RATE 0", of_group), rate("group g", (0, 0)));
        let each = group("each", None, Some(7), Some(1));
        assert_eq!(request("k EACH length 7 held 1", of_group), each);
        refuses_each(
            "k GROUP; k GROUP g; k GROUP SHARE; k EACH; k GROUP g RATE 1; k GROUP g RATE 1 PER 0; k EACH RATE 1; k GROUP g SHARE; k GROUP g SHARE 0; \
             k GROUP g SHARE 65536; k GROUP g SHARE x; k GROUP g LENGTH; k GROUP g LENGTH -1; k GROUP g REMEMBER 1; k GROUP g SHARE 1 SHARE 1; k GROUP g HELD 1 HELD 1; \
             k GROUP g SHARE 1 more; k SHARE 1; k HELD 1 GROUP g; k EACH SHARE 1; k EACH GROUP g; k EACH EACH; \
             k GROUP g EACH; k EACH REMEMBER 1; k HELD 1 EACH"
                .split("; "),
            only!(parse),
        );
    }
}
