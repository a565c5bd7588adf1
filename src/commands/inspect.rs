//! LEN, SCAN, INFO: the dehydrator as a whole.

use crate::clock;
use crate::config;
use crate::data_type::{Dehydrator, NEVER, Reading};
use crate::pending::agenda;
use crate::policy::{Limits, Pause, Policy, Route, Trust};
use crate::server::key::Name;
use crate::server::reply::OpenMap;
use crate::server::string::{Args, Digits};
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{GroupLimits, GroupSettings, Lawn, Rate, Start};

use super::args::options::Options;
use super::args::{required, shown};
use super::glob;
use crate::server::string::number;

/// Reads `key [GROUP name]`.
fn parse_len<'a>(args: Args<'a>) -> Result<(Str<'a>, Option<Option<Str<'a>>>)> {
    Ok((required(args, 1)?, Options::new(args, 2).only(b"GROUP", Options::group)?))
}

/// Runs `LEN key [GROUP name]`: the number of elements, due or not.
pub fn len(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, group) = parse_len(args)?;
    let dehydrator = Reading::open(context, key)?;

    let length = dehydrator.lawn().map_or(0, |lawn| match group {
        Some(group) => lawn.group_len(group.map(Str::bytes)),
        None => lawn.len(),
    });
    context.reply_integer(length as i64);
    Ok(())
}

/// `key cursor [MATCH pattern] [COUNT n]`
pub struct ScanRequest<'a> {
    pub key: Str<'a>,
    pub cursor: u64,
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
}

impl<'a> ScanRequest<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        /// The default of HSCAN.
        const COUNT: usize = 10;
        let word = required(args, 2)?.bytes();
        let cursor =
            number(word).map_err(|_| Error::from(format!("invalid cursor '{}'", shown(word))))?;
        let (mut pattern, mut count) = (None, None);
        let mut options = Options::new(args, 3);
        while let Some(option) = options.next() {
            match option.name() {
                b"MATCH" if pattern.is_none() => pattern = Some(options.value("MATCH")?.bytes()),
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                _ => return Err(option.unexpected_among("COUNT")),
            }
        }
        let count = count.unwrap_or(COUNT).min(config::reply_max());
        Ok(Self { key: required(args, 1)?, cursor, pattern, count })
    }
}

/// Runs `SCAN key cursor [MATCH pattern] [COUNT n]`: the next cursor and some ids.
pub fn scan(context: &CommandContext, args: Args<'_>) -> Result {
    let ScanRequest { key, cursor, pattern, count } = ScanRequest::parse(args)?;
    let dehydrator = Reading::open(context, key)?;

    let mut ids = Vec::new();
    let next = dehydrator.lawn().map_or(0, |lawn| {
        lawn.scan(cursor, count, |element| {
            if pattern.is_none_or(|pattern| glob::matches(pattern, element.id)) {
                ids.push(element.id);
            }
        })
    });
    let mut reply = context.reply_array(2);
    reply.push_bulk(next.to_string().as_bytes());
    let mut list = reply.push_array(ids.len());
    ids.into_iter().for_each(|id| list.push_bulk(id));
    Ok(())
}

/// The facts that INFO shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Facts<'a> {
    Short,
    Full,
    /// Those of one group; the empty name is that of all elements without one.
    Group(&'a [u8]),
}

/// Reads `key [FULL | GROUP name]`.
fn parse_info<'a>(args: Args<'a>) -> Result<(Str<'a>, Facts<'a>)> {
    let key = required(args, 1)?;
    let mut options = Options::new(args, 2);
    if options.next_if(b"FULL") {
        options.end()?;
        return Ok((key, Facts::Full));
    }
    let group = options.only(b"GROUP", Options::group)?;
    Ok((key, group.map_or(Facts::Short, |it| Facts::Group(it.map_or(b"", Str::bytes)))))
}

/// The number of groups that INFO lists.
const GREATEST: usize = 10;

/// Runs `INFO key [FULL | GROUP name]`: a map of facts about the dehydrator, or about a group.
pub fn info(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, facts) = parse_info(args)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();
    if let Facts::Group(group) = facts {
        show_group(context, dehydrator.lawn(), group, now);
        return Ok(());
    }

    // Without a key everything is as in an empty dehydrator.
    let value = dehydrator.dehydrator();
    let count = |count: &dyn Fn(&Dehydrator) -> usize| value.map_or(0, count) as u64;
    let rules = dehydrator.rules();
    let Limits { length, held, rate, remember } = rules.limits();
    let rate = rate.as_ref();
    let pause = rules.pause.filter(|pause| pause.is_on(now));
    let failure = agenda::failure(&Name::of(context, key));
    let (given_out, leased) =
        (count(&|it| it.lawn.counts().given_out), count(&|it| it.lawn.leased()));

    let mut reply = context.reply_open_map();
    reply.integer(b"length", count(&|it| it.lawn.len()));
    reply.integer(b"due", count(&|it| it.lawn.count_due(now)));
    reply.integer(b"given-out", given_out);
    reply.integer(b"ttls", count(&|it| it.lawn.counts().ttls));
    reply.integer(b"next-deadline", value.and_then(Dehydrator::next_deadline));
    reply.integer(b"memory", count(&Dehydrator::memory));
    let is_small = value.is_none_or(|it| it.lawn.is_small());
    reply.bulk(b"encoding", if is_small { &b"small"[..] } else { b"lawn" });
    show_policy(&mut reply, &rules.policy, rules.trust);
    reply.integer(b"failures", failure.as_ref().map_or(0, |failure| u64::from(failure.count)));
    reply.integer(b"failing-since", failure.as_ref().map(|failure| failure.since));
    reply.bulk(b"last-failure", failure.as_ref().map(|failure| failure.reason.as_bytes()));
    reply.integer(b"paused", u64::from(pause.is_some()));
    reply.integer(b"paused-until", pause.and_then(Pause::end));
    reply.integer(b"length-limit", *length);
    reply.integer(b"held-limit", *held);
    let running = value.filter(|_| *held > 0).map(|it| it.lawn.running(now) as u64);
    reply.integer(b"running", running);
    reply.integer(b"rate-limit", rate.map_or(0, Rate::max));
    reply.integer(b"rate-per", rate.map_or(0, Rate::per));
    reply.integer(b"rate-room", rate.map(|rate| rate.room(now)));
    reply.integer(b"remember", *remember);
    reply.integer(b"remembered", count(&|it| it.remembered.len_at(now)));
    let each = value.map_or(GroupLimits::NONE, |it| it.lawn.group_rules().each);
    reply.integer(b"each-length-limit", each.length);
    reply.integer(b"each-held-limit", each.held);
    reply.integer(b"each-rate-limit", each.rate);
    reply.integer(b"each-rate-per", each.per);
    reply.integer(b"leased", leased);
    reply.integer(b"given-back", given_out.saturating_sub(leased));
    reply.integer(b"overdue", count(&|it| it.count_overdue(now)));
    reply.integer(b"oldest-due-ms", value.and_then(|it| it.age(now)));
    reply.integer(b"groups", count(&|it| it.lawn.group_count()));
    let oldest = value.and_then(|it| it.lawn.oldest_held());
    reply.integer(b"oldest-held-ms", oldest.map(|since| now.saturating_sub(since)));
    reply.integer(b"schedules", count(&|it| it.schedules().map_or(0, |all| all.len())));
    if facts == Facts::Full {
        let mut greatest = reply.open_map(b"greatest-groups");
        for (name, count) in value.map(|it| it.lawn.greatest_groups(GREATEST)).unwrap_or_default() {
            greatest.integer(name, count as u64);
        }
        drop(greatest);
        let mut counts = reply.open_map(b"elements-by-ttl");
        for (ttl, count) in value.map(|it| it.lawn.counts_by_ttl()).unwrap_or_default() {
            counts.integer(Digits::new(ttl).bytes(), count as u64);
        }
    }
    Ok(())
}

/// Adds a map of the words of ONDUE. It has the same fields for every policy.
fn show_policy(reply: &mut OpenMap<'_>, policy: &Policy, trust: Trust) {
    let route = policy.route();
    let (deliveries, sends) = match policy {
        Policy::Hold => (0, None),
        Policy::HoldDeliveries { deliveries, .. } => (*deliveries, None),
        Policy::Send(route) => (0, Some(route.name())),
    };
    let (dest, maxlen, end) = match route {
        None | Some(Route::Drop) => (None, None, None),
        Some(Route::Stream { dest, maxlen }) => (Some(dest), *maxlen, None),
        Some(Route::List { dest, end }) => (Some(dest), None, Some(end.name())),
        Some(Route::Publish { channel }) => (Some(channel), None, None),
    };
    let mut fields = reply.open_map(b"policy");
    fields.bulk(b"action", sends.unwrap_or(b"HOLD"));
    fields.integer(b"deliveries", u64::from(deliveries));
    fields.bulk(b"dead-letters", route.filter(|_| policy.limits_deliveries()).map(Route::name));
    fields.bulk(b"dest", dest.map(|dest| &dest[..]));
    fields.bulk(b"end", end);
    fields.integer(b"maxlen", maxlen.map_or(0, |it| it.length));
    fields.integer(b"approximate", u64::from(maxlen.is_some_and(|it| it.approximate)));
    fields.integer(b"confirmed", u64::from(trust.is_confirmed()));
}

/// Replies a map of facts about a group. Without a lawn everything is as in an empty one.
fn show_group(context: &CommandContext, lawn: Option<&Lawn>, group: &[u8], now: u64) {
    let name = Some(group).filter(|name| !name.is_empty());
    let first = lawn.and_then(|it| it.group_rows(name, Start::FIRST, NEVER).next());
    let settings = lawn.map_or(GroupSettings::NONE, |it| it.group_rules().of(group));
    let each =
        lawn.filter(|_| name.is_some()).map_or(GroupLimits::NONE, |it| it.group_rules().each);
    let limits = settings.limits.or(each);
    let pause = Pause::of_group(settings.paused_until).filter(|pause| pause.is_on(now));

    let mut reply = context.reply_open_map();
    reply.integer(b"length", lawn.map_or(0, |it| it.group_len(name)) as u64);
    reply.integer(b"next-deadline", first.map(|row| row.element.deadline));
    reply.integer(b"paused", u64::from(pause.is_some()));
    reply.integer(b"paused-until", pause.and_then(Pause::end));
    reply.integer(b"share", u64::from(settings.share));
    reply.integer(b"length-limit", limits.length);
    reply.integer(b"held-limit", limits.held);
    reply.integer(b"rate-limit", limits.rate);
    reply.integer(b"rate-per", limits.per);
}
