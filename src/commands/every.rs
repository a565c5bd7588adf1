//! EVERY, SCHEDULES, UNSCHEDULE: elements that the server stores again and again.

use crate::clock;
use crate::config::{self, ReplyRoom};
use crate::data_type::{Dehydrator, Reading, Writing};
use crate::replicate::{self, Effect};
use crate::schedule::{Missed, NAME_MAX, Plan, Schedule, State, WORD_MAX};
use crate::server::reply::{Array, OpenMap};
use crate::server::string::{Args, number};
use crate::server::{CommandContext, Error, Str, error::Result};

use super::args::options::Options;
use super::args::{FROM_1, MS_FROM_1, UNIX_MS_FROM_1};
use super::args::{key_and_ids, required, shown};
use super::range::{Beginning, page, parse_start};
use super::{checks, defaults};
use lawn::Lawn;

const NEVER: &str = "the schedule never occurs: not from now on, or not before its end";
/// The time zone of a cron without ZONE.
const UTC: &[u8] = b"UTC";

/// Reads `key plan element name [ZONE zone] [FROM unix-ms] [UNTIL unix-ms] [TIMES n] [MISSED <ONE | ALL | NONE>]
/// [OVERLAP <ALLOW | SKIP>] [JITTER ms] [DELIVERIES n] [WITHIN ms] [GROUP name]`.
fn parse<'a>(args: Args<'a>) -> Result<(Str<'a>, &'a [u8], Schedule<'a>)> {
    let (key, plan) = (required(args, 1)?, required(args, 2)?.bytes());
    let (element, name) = (required(args, 3)?.bytes(), required(args, 4)?.bytes());
    if name.len() > NAME_MAX {
        return Err(format!("the name of a schedule has at most {NAME_MAX} bytes").into());
    }
    let mut it = Schedule::every(Plan::Interval(1), element);
    let (mut zone, mut missed, mut overlap) = (None, None, None);
    let mut options = Options::new(args, 5);
    while let Some(option) = options.next() {
        match option.name() {
            b"ZONE" if zone.is_none() => zone = Some(options.value("ZONE")?.bytes()),
            b"MISSED" if missed.is_none() => missed = Some(parse_missed(&mut options)?),
            b"OVERLAP" if overlap.is_none() => overlap = Some(parse_overlap(&mut options)?),
            b"FROM" if it.from == 0 => it.from = options.positive("FROM", UNIX_MS_FROM_1)?,
            b"UNTIL" if it.until == 0 => it.until = options.positive("UNTIL", UNIX_MS_FROM_1)?,
            b"TIMES" if it.times == 0 => it.times = options.positive("TIMES", FROM_1)?,
            b"JITTER" if it.jitter == 0 => it.jitter = options.positive("JITTER", MS_FROM_1)?,
            b"WITHIN" if it.within == 0 => it.within = options.positive("WITHIN", MS_FROM_1)?,
            b"DELIVERIES" if it.deliveries == 0 => {
                it.deliveries = options.small_number("DELIVERIES")?;
            }
            b"GROUP" if it.group.is_empty() => {
                it.group = options.group()?.map_or(b"", Str::bytes);
            }
            _ => return Err(option.unexpected()),
        }
    }
    checks::moment("FROM", it.from)?;
    checks::moment("UNTIL", it.until)?;
    let (missed, skips_overlap) = (missed.unwrap_or_default(), overlap.unwrap_or(false));
    let schedule = Schedule { plan: parse_plan(plan, zone)?, missed, skips_overlap, ..it };
    Ok((key, name, schedule))
}

/// Returns the plan of a word: a number, or else a cron.
fn parse_plan<'a>(word: &'a [u8], zone: Option<&'a [u8]>) -> Result<Plan<'a>> {
    match number(word) {
        Ok(0) => Err("plan '0' is not a whole number of milliseconds from 1 on".into()),
        Ok(_) if zone.is_some() => Err("syntax error, ZONE is for a cron".into()),
        Ok(ms) => Ok(Plan::Interval(ms)),
        Err(_) if word.len().max(zone.unwrap_or_default().len()) > WORD_MAX => {
            Err(format!("a plan and a ZONE have at most {WORD_MAX} bytes each").into())
        }
        Err(_) => Ok(Plan::Cron { text: word, zone: zone.unwrap_or(UTC) }),
    }
}

fn parse_missed(options: &mut Options<'_>) -> Result<Missed> {
    let word = options.value("MISSED")?.bytes();
    let all = [Missed::One, Missed::All, Missed::None];
    let missed = all.into_iter().find(|it| word.eq_ignore_ascii_case(it.name()));
    missed.ok_or_else(|| format!("MISSED '{}' is not ONE, ALL or NONE", shown(word)).into())
}

/// Reads whether occurrences that overlap the last one are skipped.
fn parse_overlap(options: &mut Options<'_>) -> Result<bool> {
    let word = options.value("OVERLAP")?.bytes();
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    if !is(b"SKIP") && !is(b"ALLOW") {
        return Err(format!("OVERLAP '{}' is not ALLOW or SKIP", shown(word)).into());
    }
    Ok(is(b"SKIP"))
}

/// Runs `EVERY key plan element name [option ...]`: 1, or 0 if there is the same schedule already.
pub fn every(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, name, mut schedule) = parse(args)?;
    let now = clock::now();
    if let Err(reason) = schedule.plan.check(now) {
        return Err(format!("plan '{}' {reason}", shown(required(args, 2)?.bytes())).into());
    }
    // Costs several milliseconds if it never does.
    if schedule.first(0) == 0 {
        return Err(NEVER.into());
    }
    let mut dehydrator = Writing::open_at(context, key, now)?;
    let before = dehydrator.existing().and_then(|it| it.schedule(name));
    if before.is_some_and(|it| Schedule { state: State::default(), ..it } == schedule) {
        context.reply_integer(0);
        return Ok(());
    }
    // Another element or option does not move its occurrences.
    let next = match before.filter(|it| it.occurs_as(&schedule) && it.state.next > 0) {
        Some(before) => schedule.unless_over(before.state.next),
        None => schedule.first(now),
    };
    if next == 0 {
        return Err(NEVER.into());
    }
    let has_room = before.is_some()
        || config::MAX_ELEMENTS.limit().is_none_or(|max| {
            let schedules = dehydrator.existing().and_then(Dehydrator::schedules);
            let schedules = schedules.map_or(0, |it| it.len());
            (dehydrator.look().map_or(0, Lawn::len) + schedules) < max as usize
        });
    if !has_room {
        return Err(checks::too_many_elements());
    }
    let state = before.map_or(State::default(), |it| it.state);
    schedule.state = State { next, stored: 0, ..state };
    dehydrator.set_schedule(name, &schedule).map_err(|error| checks::of_start(error, name))?;
    Effect::scheduled(key, name, &schedule).replicate(context);
    defaults::apply(context, key, &mut dehydrator);
    dehydrator.finish(c"dehydrator.every");
    context.reply_integer(1);
    Ok(())
}

/// Runs `UNSCHEDULE key name [name ...]`: the number of schedules removed.
pub fn unschedule(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, names) = key_and_ids(args)?;
    let mut dehydrator = Writing::open(context, key)?;
    let removed = names.filter(|name| dehydrator.remove_schedule(name.bytes())).count();
    if removed > 0 {
        replicate::verbatim(context, args);
        dehydrator.finish(c"dehydrator.unschedule");
    }
    context.reply_integer(removed as i64);
    Ok(())
}

/// Sets whether a schedule is paused. Returns whether that is a change. Fails if it is to be paused and is not there.
pub fn pause(context: &CommandContext, key: Str<'_>, name: &[u8], is_paused: bool) -> Result<bool> {
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    let Some(before) = dehydrator.existing().and_then(|it| it.schedule(name)) else {
        return if is_paused { Err(checks::no_such_schedule(name)) } else { Ok(false) };
    };
    if before.state.is_paused == is_paused {
        return Ok(false);
    }
    let next = if is_paused { before.state.next } else { before.resumed(now) };
    let record = Schedule { state: State { is_paused, next, ..before.state }, ..before }.encode();
    let schedule = Schedule::decode(&record).ok_or(Error::Arity)?;
    dehydrator.set_schedule(name, &schedule).map_err(|error| checks::of_start(error, name))?;
    Effect::scheduled(key, name, &schedule).replicate(context);
    let event = if is_paused { c"dehydrator.pause" } else { c"dehydrator.resume" };
    dehydrator.finish(event);
    Ok(true)
}

/// Where a list begins, and how long it may be.
type Page = (Option<Beginning>, usize);

/// Reads `key FROM position [COUNT n]`. `None`: there are no words, or names. One last word is a name, whatever it is.
fn parse_from(args: Args<'_>) -> Result<Option<Page>> {
    let mut options = Options::new(args, 2);
    if args.len() < 4 || !options.next_if(b"FROM") {
        return Ok(None);
    }
    let from = parse_start("FROM", options.value("FROM")?)?;
    let count = Options::new(args, options.at()).only(b"COUNT", Options::count)?;
    Ok(Some((from, count.unwrap_or(usize::MAX).min(config::reply_max()))))
}

/// Runs `SCHEDULES key [name [name ...] | FROM position [COUNT n]]`: for each schedule a map, by their occurrences; or for each name,
/// nil if there is none. With FROM the position at which to continue, or nil, and some schedules from a position on.
pub fn schedules(context: &CommandContext, args: Args<'_>) -> Result {
    let key = required(args, 1)?;
    let from = parse_from(args)?;
    let dehydrator = Reading::open(context, key)?;
    let value = dehydrator.dehydrator();
    if args.len() == 2 || from.is_some() {
        let (begin, count) = from.unwrap_or((Some(Beginning::FIRST), usize::MAX));
        let rows = value.zip(begin).map(|(it, begin)| it.schedule_rows(begin.start_in(it)));
        let most = if from.is_some() { usize::MAX } else { config::reply_max() };
        let rows = rows.into_iter().flatten().take(most);
        let (rows, next) = page(value, rows, count, |it| it.id.len() + it.payload.len() + FRAME);
        let rows = rows.iter().map(|row| row.element);
        let rows = rows.filter_map(|it| Some((it.id, Schedule::decode(it.payload)?)));
        let rows: Vec<_> = rows.collect();
        let mut reply = from.is_some().then(|| context.reply_array(2));
        let mut list = match &mut reply {
            Some(reply) => {
                reply.push_bulk(next.as_deref().map(str::as_bytes));
                reply.push_array(rows.len())
            }
            None => context.reply_array(rows.len()),
        };
        rows.iter().for_each(|(name, it)| show(&mut list, name, it));
        return Ok(());
    }
    let mut room = ReplyRoom::new();
    let mut takes = |name: &[u8], it: &Schedule<'_>| {
        room.takes(name.len() + it.element.len() + it.group.len() + FRAME)
    };
    let names = args.from(2).map(Str::bytes).take(config::reply_max());
    let found = names.map(|name| (name, value.and_then(|it| it.schedule(name))));
    let found = found.take_while(|(name, it)| it.as_ref().is_none_or(|it| takes(name, it)));
    let found: Vec<_> = found.collect();
    let mut reply = context.reply_array(found.len());
    for (name, schedule) in found {
        match schedule {
            Some(schedule) => show(&mut reply, name, &schedule),
            None => reply.push_null(),
        }
    }
    Ok(())
}

/// The bytes of the names and numbers of a row, about.
const FRAME: usize = 400;

fn show(reply: &mut Array<'_>, name: &[u8], schedule: &Schedule<'_>) {
    let State { next, last, late, missed, stored, is_paused } = schedule.state;
    let some = |number: u64| Some(number).filter(|number| *number > 0);
    let mut map: OpenMap<'_> = reply.push_open_map();
    map.bulk(b"name", name);
    match schedule.plan {
        Plan::Interval(ms) => {
            map.bulk(b"plan", ms.to_string().as_bytes());
            map.bulk(b"zone", None);
        }
        Plan::Cron { text, zone } => {
            map.bulk(b"plan", text);
            map.bulk(b"zone", zone);
        }
    }
    map.bulk(b"element", schedule.element);
    // What occurs next once it goes on is not known before.
    map.integer(b"next", some(if is_paused { 0 } else { next }));
    map.integer(b"next-stored-at", some(next).filter(|_| !is_paused).map(|_| schedule.due(name)));
    map.integer(b"last", some(last));
    map.integer(b"late", some(last).map(|_| late));
    map.integer(b"stored", stored);
    map.integer(b"missed", missed);
    map.integer(b"paused", u64::from(is_paused));
    map.integer(b"from", some(schedule.from));
    map.integer(b"until", some(schedule.until));
    map.integer(b"times", some(schedule.times));
    map.bulk(b"if-missed", schedule.missed.name());
    map.bulk(b"if-overlap", if schedule.skips_overlap { &b"SKIP"[..] } else { b"ALLOW" });
    map.integer(b"jitter", schedule.jitter);
    map.integer(b"deliveries-limit", u64::from(schedule.deliveries));
    map.integer(b"within", some(schedule.within));
    map.bulk(b"group", Some(schedule.group).filter(|group| !group.is_empty()));
}
