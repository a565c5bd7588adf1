//! EFFECT: what replicas, files and tools that copy do.
//!
//! An effect happened before, on the server that sent it. So nothing refuses it that may refuse a user's command (limits,
//! remembered ids, settings), except that a tool gets `OOM`; and it decides nothing itself. It does the same to whoever
//! sends it.

use crate::data_type::Writing;
use crate::level;
use crate::metrics::counters::PUSHES;
use crate::pending::agenda;
use crate::policy::{Pause, Trust};
use crate::replicate::{self, Timer, head::Head};
use crate::schedule::{NAME_MAX, Schedule, Step};
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{Bounds, Element, GROUP_NAME_MAX, REASON_MAX, Since, StartError, Token};

use super::args::options::Options;
use super::args::{required, shown};
use super::{checks, ondue};

/// Reads `key head`. What follows depends on the head.
fn parse<'a>(args: Args<'a>) -> Result<(Str<'a>, Head)> {
    let (key, word) = (required(args, 1)?, required(args, 2)?.bytes());
    let head = Head::parse(word);
    let head = head.ok_or_else(|| format!("'{}' is not the head of an effect", shown(word)))?;
    let rest = args.len() - 3;
    let fits = match head {
        Head::Pushed { .. } => (2..=3).contains(&rest),
        Head::Given { .. } | Head::Paused { .. } => rest <= 1,
        Head::Restarted { .. } | Head::Uncounted { .. } | Head::Leased { .. } => rest > 0,
        Head::Removed { .. } | Head::Unconfirmed => rest > 0,
        Head::Reasoned => rest > 1,
        Head::Scheduled => rest == 2,
        Head::Occurred { .. } => rest == 1,
        // A later version may say more.
        Head::Needed { .. } => true,
    };
    if !fits {
        return Err(Error::Arity);
    }
    // Read again where they are used: a malformed effect is refused before its key is opened.
    match head {
        Head::Pushed { .. } => drop(group(args, 5)?),
        Head::Given { .. } | Head::Paused { .. } => drop(group(args, 3)?),
        Head::Reasoned if required(args, 3)?.bytes().len() > REASON_MAX => {
            return Err("a reason is too long".into());
        }
        Head::Unconfirmed => drop(ondue::parse_policy(key, Options::new(args, 3))?),
        Head::Scheduled => drop(schedule(args)?),
        _ => {}
    }
    Ok((key, head))
}

/// Reads the name of a group, if there is one at this place.
fn group<'a>(args: Args<'a>, at: usize) -> Result<Option<&'a [u8]>> {
    let group = args.get(at).map(Str::bytes);
    match group {
        Some(name) if name.is_empty() || name.len() > GROUP_NAME_MAX => {
            Err("the name of a group is empty or too long".into())
        }
        group => Ok(group),
    }
}

/// Reads the name of a schedule, and its record.
fn schedule<'a>(args: Args<'a>) -> Result<(&'a [u8], Schedule<'a>)> {
    let (name, record) = (required(args, 3)?.bytes(), required(args, 4)?.bytes());
    let schedule = Schedule::decode(record).filter(|_| name.len() <= NAME_MAX);
    Ok((name, schedule.ok_or("the record of a schedule is none")?))
}

/// Runs `EFFECT key head [argument ...]`: the number of elements it changed, or 1 for a change of the key.
///
/// A server that cannot read an effect from its primary or its append-only file ends: its error would reach no client.
pub fn effect(context: &CommandContext, args: Args<'_>) -> Result {
    run(context, args).inspect_err(|error| {
        // An error with a code is no reading error: the key has another type, or there is no room.
        if context.must_obey() && !matches!(error, Error::Coded(..)) {
            end(context, args, error);
        }
    })
}

fn run(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, head) = parse(args)?;
    if let Head::Needed { level } = head {
        return need(context, args, level);
    }
    // Only a tool can be refused. `remove` looks at its ids.
    if !matches!(head, Head::Restarted { .. } | Head::Uncounted { .. } | Head::Removed { .. }) {
        checks::memory(context)?;
    }
    let mut dehydrator = Writing::open(context, key)?;
    let ids = args.from(3).map(Str::bytes);
    let (count, event) = match head {
        Head::Pushed { timer, bounds, delivered, token, since } => {
            store(&mut dehydrator, args, timer, bounds, (delivered, token, since))?;
            PUSHES.add(1);
            (1, c"dehydrator.push")
        }
        Head::Restarted { timer, until } => {
            let mut restarts = dehydrator.restarts_as_told();
            let count = count(ids, |id| restarts.restart(id, timer, until));
            (count, c"dehydrator.touch")
        }
        Head::Uncounted { deadline } => {
            let mut restarts = dehydrator.restarts_as_told();
            let count = count(ids, |id| restarts.give_back_uncounted(id, deadline));
            (count, c"dehydrator.release")
        }
        Head::Reasoned => {
            let reason = required(args, 3)?.bytes();
            let ids = args.from(4).map(Str::bytes);
            let mut restarts = dehydrator.restarts_as_told();
            let count = count(ids, |id| restarts.keep_reason(id, reason));
            (count, c"dehydrator.release")
        }
        Head::Leased { timer: Timer { ttl, deadline }, token } => {
            let mut lawn = dehydrator.lawn();
            let count = count(ids, |id| {
                lawn.as_mut().is_some_and(|lawn| lawn.lease_at(id, ttl, deadline, Some(token)))
            });
            (count, c"dehydrator.poll")
        }
        Head::Removed { until } => {
            (remove(context, &mut dehydrator, ids, until)?, c"dehydrator.settle")
        }
        Head::Given { moment, count } => {
            let is_noted = dehydrator.note_given(moment, count, group(args, 3)?);
            (is_noted.into(), c"dehydrator.given")
        }
        Head::Paused { until } => {
            let is_changed = match group(args, 3)? {
                Some(name) => dehydrator.change_group(name, |it| it.paused_until = until),
                None => dehydrator.change_rules(|rules| rules.pause = Pause::of_group(until)),
            };
            (is_changed.into(), c"dehydrator.pause")
        }
        Head::Unconfirmed => {
            let policy = ondue::parse_policy(key, Options::new(args, 3))?;
            agenda::reset_overdue(&Name::of(context, key));
            let is_changed = dehydrator.change_rules(|rules| {
                (rules.policy, rules.trust) = (policy, Trust::Unconfirmed);
            });
            (is_changed.into(), c"dehydrator.ondue")
        }
        Head::Scheduled => {
            let (name, schedule) = schedule(args)?;
            dehydrator.set_schedule(name, &schedule).map_err(|it| checks::of_start(it, name))?;
            (1, c"dehydrator.every")
        }
        Head::Occurred { step } => {
            let name = required(args, 3)?.bytes();
            let occurred = dehydrator.occur(name, step);
            let is_there = occurred.map_err(|it| checks::of_start(it, name))?;
            let event = match step {
                Step::Stored { .. } => c"dehydrator.push",
                Step::Missed { .. } => c"dehydrator.missed",
            };
            (is_there.into(), event)
        }
        Head::Needed { .. } => (0, c""),
    };
    if count > 0 {
        replicate::verbatim(context, args);
        dehydrator.finish(event);
    }
    context.reply_integer(count);
    Ok(())
}

/// Replies 1 if this version of the module supports that [`level`]. If the primary or the append-only file needs a higher
/// one, the server ends.
fn need(context: &CommandContext, args: Args<'_>, level: u64) -> Result {
    let own = level::own();
    if level > own {
        let version = args.get(3).map(|word| shown(word.bytes())).unwrap_or_default();
        return Err(
            format!("it needs level {level}, of version {version}, and this is {own}").into()
        );
    }
    context.reply_integer(1);
    Ok(())
}

/// Stores an element in the place of one with the same id.
fn store(
    dehydrator: &mut Writing<'_>,
    args: Args<'_>,
    Timer { ttl, deadline }: Timer,
    bounds: Bounds,
    (delivered, token, since): (u16, Option<Token>, Since),
) -> Result {
    let (element, id) = (required(args, 3)?.bytes(), required(args, 4)?.bytes());
    let group = group(args, 5)?;
    dehydrator.lawn_or_new(|lawn| {
        let element = Element { bounds, ..Element::new(id, element, deadline) };
        let started = match lawn.start_in_group(ttl, &element, group) {
            Err(StartError::Exists) => lawn.replace_in_group(ttl, &element, group),
            started => started,
        };
        started.map_err(|error| checks::of_start(error, id))?;
        if delivered > 0 {
            lawn.set_deliveries(id, delivered, token);
            lawn.set_held_since(id, since);
        }
        Ok::<_, Error>(())
    })?;
    dehydrator.forget(id);
    dehydrator.note_timer(ttl, deadline);
    Ok(())
}

/// Changes each element that is there. Returns how many are.
fn count<'a>(ids: impl Iterator<Item = &'a [u8]>, mut change: impl FnMut(&'a [u8]) -> bool) -> i64 {
    ids.map(|id| i64::from(change(id))).sum()
}

/// Removes elements, and remembers all ids, also of those that are not there, if the key remembers ids. Returns how many
/// elements were there, or at least 1 if an id is remembered.
fn remove<'a>(
    context: &CommandContext,
    dehydrator: &mut Writing<'_>,
    ids: impl Iterator<Item = &'a [u8]> + Clone,
    until: u64,
) -> Result<i64> {
    let until = dehydrator.remembers_until().and(Some(until));
    // An id that does not exist is remembered too, which uses memory and frees none.
    let is_there = |id| dehydrator.look().is_some_and(|lawn| lawn.look(id).is_some());
    if until.is_some() && !ids.clone().all(is_there) {
        checks::memory(context)?;
    }
    let count = dehydrator.remove_as_told(ids, until);
    Ok(count.max(until.is_some().into()))
}

/// The most words of a command that the log shows.
const SHOWN_MAX: usize = 8;

#[cold]
fn end(context: &CommandContext, args: Args<'_>, error: &Error) -> ! {
    let reason = match error {
        Error::Refused(reason) => reason,
        _ => "the number of its arguments is wrong",
    };
    let words: Vec<_> = args.from(0).take(SHOWN_MAX).map(|word| shown(word.bytes())).collect();
    let rest = if args.len() > SHOWN_MAX { " ..." } else { "" };
    let command = words.join(" ");
    level::end(context, &format!("what it cannot do, {command}{rest}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fake::with_args;

    /// Not in the tables of tests with servers, because a wrong effect ends a replica.
    #[test]
    fn an_effect_has_the_words_of_its_kind() {
        let parsed = |line: &str| {
            let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
            with_args(&words, |args| parse(args).map(drop))
        };
        for (fewest, most, takes_more) in [
            ("k P5@9 e i", "k P5@9 e i g", false),
            ("k T5@9 i", "k T5@9 i j k l", true),
            ("k U9 i", "k U9 i j", true),
            ("k R why i", "k R why i j", true),
            ("k L5@9@7 i", "k L5@9@7 i j", true),
            ("k S9 i", "k S9 i j", true),
            ("k G9@1", "k G9@1 g", false),
            ("k H9", "k H9 g", false),
            ("k Q DROP", "k Q HOLD DELIVERIES 5 DROP", false),
            ("k O1@2@3@4 n", "k O1@2@3@4 n", false),
            ("k M1@2 n", "k M1@2 n", false),
            ("k N1", "k N1 0.1.0 and more", true),
        ] {
            let (fewer, _) = fewest.rsplit_once(' ').expect("words");
            assert_eq!(parsed(fewer), Err(Error::Arity), "{fewer}");
            assert!(parsed(fewest).is_ok() && parsed(most).is_ok(), "{fewest}");
            assert_eq!(parsed(&format!("{most} more")).is_ok(), takes_more, "{most}");
        }
        for line in ["k 5@9 e i", "k P5 e i", "k p5@9 e i", "k group i", "k E n r"] {
            assert!(matches!(parsed(line), Err(Error::Refused(_))), "{line}");
        }
    }
}
