//! LEN, SCAN, INFO: the dehydrator as a whole.

use crate::clock;
use crate::config;
use crate::data_type::{Dehydrator, Reading};
use crate::pending::agenda::{self, Failure};
use crate::policy::{Limits, Pause, Rate, Rules};
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};

use super::args::number::number;
use super::args::options::Options;
use super::args::{self, required, shown};
use super::glob;

/// Runs `LEN key`: the number of elements, due or not.
pub fn len(context: &CommandContext, args: Args<'_>) -> Result {
    let args::OfKey { key } = args::read(context, args, args::OfKey::parse)?;
    let dehydrator = Reading::open(context, key)?;

    let length = dehydrator.lawn().map_or(0, |lawn| lawn.len());
    context.reply_integer(length as i64);
    Ok(())
}

/// `key cursor [MATCH pattern] [COUNT n]`
pub struct Scan<'a> {
    pub key: Str<'a>,
    pub cursor: u64,
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
}

impl<'a> Scan<'a> {
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
                _ => return Err(option.unexpected()),
            }
        }
        let count = count.unwrap_or(COUNT).min(config::reply_max());
        Ok(Self { key: required(args, 1)?, cursor, pattern, count })
    }
}

/// Runs `SCAN key cursor [MATCH pattern] [COUNT n]`: the next cursor and some ids.
pub fn scan(context: &CommandContext, args: Args<'_>) -> Result {
    let Scan { key, cursor, pattern, count } = args::read(context, args, Scan::parse)?;
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

/// `key [FULL]`
pub struct Info<'a> {
    pub key: Str<'a>,
    pub full: bool,
}

impl<'a> Info<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        Ok(Self { key: required(args, 1)?, full: Options::new(args, 2).only_full()? })
    }
}

/// Runs `INFO key [FULL]`: a map of facts about the dehydrator.
pub fn info(context: &CommandContext, args: Args<'_>) -> Result {
    let Info { key, full } = args::read(context, args, Info::parse)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let mut reply = context.reply_open_map();
    let lawn = dehydrator.lawn();
    let number = |number: Option<usize>| number.unwrap_or(0) as i64;
    reply.push(b"length").integer(number(lawn.map(|lawn| lawn.len())));
    reply.push(b"due").integer(number(lawn.map(|lawn| lawn.count_due(now))));
    reply.push(b"given-out").integer(number(lawn.map(|lawn| lawn.delivered())));
    reply.push(b"ttls").integer(number(lawn.map(|lawn| lawn.ttls())));
    match dehydrator.dehydrator().and_then(Dehydrator::next_deadline) {
        Some(deadline) => reply.push(b"next-deadline").integer(deadline as i64),
        None => reply.push(b"next-deadline").null(),
    }
    reply.push(b"memory").integer(number(dehydrator.dehydrator().map(Dehydrator::memory)));
    let encoding = if lawn.is_none_or(|lawn| lawn.is_small()) { "small" } else { "lawn" };
    reply.push(b"encoding").bulk(encoding.as_bytes());
    let usual = Rules::default();
    let rules = dehydrator.dehydrator().map_or(&usual, Dehydrator::rules);
    reply.push(b"policy").bulk(&rules.policy.words_with(rules.trust).join(&b' '));
    let failure = agenda::failure(&Name::of(context, key));
    reply.push(b"failures").integer(failure.as_ref().map_or(0, |failure| failure.count.into()));
    match failure {
        Some(Failure { since, reason, .. }) => {
            reply.push(b"failing-since").integer(since as i64);
            reply.push(b"last-failure").bulk(reason.as_bytes());
        }
        None => {
            reply.push(b"failing-since").null();
            reply.push(b"last-failure").null();
        }
    }
    let pause = dehydrator.dehydrator().and_then(|dehydrator| dehydrator.rules().pause);
    let pause = pause.filter(|pause| pause.is_on(now));
    reply.push(b"paused").integer(pause.is_some().into());
    match pause.and_then(Pause::end) {
        Some(end) => reply.push(b"paused-until").integer(end as i64),
        None => reply.push(b"paused-until").null(),
    }
    let none = Limits::default();
    let Limits { length, held, rate, remember } = rules.limits.as_deref().unwrap_or(&none);
    reply.push(b"length-limit").integer(*length as i64);
    reply.push(b"held-limit").integer(*held as i64);
    match lawn.filter(|_| *held > 0) {
        Some(lawn) => reply.push(b"running").integer(lawn.running(now) as i64),
        None => reply.push(b"running").null(),
    }
    reply.push(b"rate-limit").integer(rate.as_ref().map_or(0, Rate::max) as i64);
    reply.push(b"rate-per").integer(rate.as_ref().map_or(0, Rate::per) as i64);
    let room = rate.as_ref().map(|rate| rate.room(now));
    match room {
        Some(room) => reply.push(b"rate-room").integer(room as i64),
        None => reply.push(b"rate-room").null(),
    }
    reply.push(b"remember").integer(*remember as i64);
    let value = dehydrator.dehydrator();
    let remembered = value.and_then(|it| it.remembered.ids());
    reply.push(b"remembered").integer(number(remembered.map(|ids| ids.len_at(now))));
    let leased = lawn.map_or(0, |lawn| lawn.leased());
    let given_out = lawn.map_or(0, |lawn| lawn.delivered());
    reply.push(b"leased").integer(leased as i64);
    reply.push(b"given-back").integer(given_out.saturating_sub(leased) as i64);
    reply.push(b"overdue").integer(number(value.map(|it| it.count_overdue(now))));
    match value.and_then(|it| it.age(now)) {
        Some(age) => reply.push(b"oldest-due-ms").integer(age as i64),
        None => reply.push(b"oldest-due-ms").null(),
    }
    if full {
        let mut counts = reply.push(b"elements-by-ttl").open_map();
        for (ttl, count) in lawn.map(|lawn| lawn.counts_by_ttl()).unwrap_or_default() {
            counts.push(ttl.to_string().as_bytes()).integer(count as i64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_scan_begins_at_a_cursor_and_shows_ten() {
        needs_all_of("k 0", only!(Scan));
        let scan = |args: Args<'_>| {
            let it = Scan::parse(args)?;
            Ok((text(it.key), it.cursor, it.pattern.map(<[u8]>::to_vec), it.count))
        };
        assert_eq!(request("k 0", scan), Ok(("k".into(), 0, None, 10)));
        let all = Ok(("k".into(), 17, Some(b"a*".to_vec()), 3));
        assert_eq!(request("k 17 MATCH a* COUNT 3", scan), all);
        assert_eq!(request("k 17 count 3 match a*", scan), all);
        refuses_each(
            &[
                "k x",
                "k 0 MATCH",
                "k 0 MATCH a MATCH a",
                "k 0 COUNT 0",
                "k 0 COUNT 1 COUNT 1",
                "k 0 a*",
            ],
            only!(Scan),
        );
    }

    #[test]
    fn info_is_short_or_full() {
        needs_all_of("k", only!(Info));
        let info = |args: Args<'_>| Info::parse(args).map(|it| (text(it.key), it.full));
        assert_eq!(request("k", info), Ok(("k".into(), false)));
        assert_eq!(request("k full", info), Ok(("k".into(), true)));
        refuses_each(&["k FULL FULL", "k short"], only!(Info));
    }
}
