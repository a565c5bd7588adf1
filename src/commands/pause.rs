//! PAUSE, RESUME: of a key, a group or a schedule.

use crate::data_type::Writing;
use crate::pending::agenda;
use crate::policy::Pause;
use crate::replicate::Effect;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::{DEADLINE_MAX, Lawn};

use super::args::options::Options;
use super::args::required;
use super::args::{MS_FROM_1, UNIX_MS_FROM_1};
use super::{checks, defaults, every};

/// When a pause ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PauseEnd {
    /// When RESUME ends it.
    Never,
    /// After this many milliseconds.
    After(u64),
    /// At this moment, in milliseconds since the epoch.
    At(u64),
}

/// The thing that is paused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paused<'a> {
    Key,
    Group(&'a [u8]),
    Schedule(&'a [u8]),
}

/// The key, the end of the pause, and what is paused.
type Request<'a> = (Str<'a>, PauseEnd, Paused<'a>);

/// Reads `key [FOR ms | AT unix-ms] [GROUP name | SCHEDULE name]`.
fn parse<'a>(args: Args<'a>) -> Result<Request<'a>> {
    let key = required(args, 1)?;
    let mut options = Options::new(args, 2);
    let (mut end, mut paused) = (PauseEnd::Never, Paused::Key);
    while let Some(option) = options.next() {
        match option.name() {
            b"FOR" if end == PauseEnd::Never => {
                end = PauseEnd::After(options.positive("FOR", MS_FROM_1)?);
            }
            b"AT" if end == PauseEnd::Never => {
                end = PauseEnd::At(options.positive("AT", UNIX_MS_FROM_1)?);
            }
            b"FOR" if matches!(end, PauseEnd::At(_)) => return Err(FOR_OR_AT.into()),
            b"AT" if matches!(end, PauseEnd::After(_)) => return Err(FOR_OR_AT.into()),
            b"GROUP" if paused == Paused::Key => paused = Paused::Group(named(&mut options)?),
            b"SCHEDULE" if paused == Paused::Key => {
                paused = Paused::Schedule(options.value("SCHEDULE")?.bytes());
            }
            _ => return Err(option.unexpected_among("FOR or AT")),
        }
    }
    if matches!(paused, Paused::Schedule(_)) && end != PauseEnd::Never {
        return Err("a SCHEDULE is paused until RESUME: neither FOR nor AT".into());
    }
    Ok((key, end, paused))
}

const FOR_OR_AT: &str = "syntax error, FOR and AT exclude each other";

/// Reads the name of a group. The elements without a group cannot be paused.
fn named<'a>(options: &mut Options<'a>) -> Result<&'a [u8]> {
    let group = options.group()?.map(Str::bytes);
    group.ok_or_else(|| "elements without a group have no pause of their own".into())
}

/// Runs `PAUSE key [FOR ms | AT unix-ms] [GROUP name | SCHEDULE name]`: OK. Nothing is given out or delivered, or nothing of the
/// group, until that time, or until RESUME. Or the schedule does not occur.
pub fn pause(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, end, paused) = parse(args)?;
    let group = match paused {
        Paused::Key => None,
        Paused::Group(group) => Some(group),
        Paused::Schedule(name) => {
            every::pause(context, key, name, true)?;
            context.reply_ok();
            return Ok(());
        }
    };
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    let pause = match end {
        PauseEnd::Never => Pause::UNTIL_RESUMED,
        PauseEnd::After(ms) => Pause::until(
            Lawn::deadline(ms, now)
                .map_err(|_| format!("FOR '{ms}' is too large: now + ms must fit in 63 bits"))?,
        ),
        PauseEnd::At(at) => {
            checks::moment("AT", at)?;
            if at <= now {
                return Err(format!("AT '{at}' has passed: the server's time is {now}").into());
            }
            // The last moment of all stands for "until RESUME" in an effect.
            Pause::until(at.min(DEADLINE_MAX - 1))
        }
    };

    let is_changed = match group {
        None => dehydrator.change_rules(|rules| rules.pause = Some(pause)),
        Some(group) => {
            let paused_until = pause.group_end();
            let settings = checks::settings(context, &dehydrator, group, |it| {
                it.paused_until = paused_until;
            })?;
            dehydrator.change_group(group, |it| *it = settings)
        }
    };
    if is_changed {
        if dehydrator.is_new() {
            checks::memory(context)?;
        }
        Effect::paused(key, pause, group).replicate(context);
        defaults::apply(context, key, &mut dehydrator);
        dehydrator.finish(c"dehydrator.pause");
    }
    context.reply_ok();
    Ok(())
}

/// Reads `key [GROUP name | SCHEDULE name]`.
fn parse_resume<'a>(args: Args<'a>) -> Result<(Str<'a>, Paused<'a>)> {
    let (key, mut options) = (required(args, 1)?, Options::new(args, 2));
    if options.next_if(b"SCHEDULE") {
        let name = options.value("SCHEDULE")?.bytes();
        options.end()?;
        return Ok((key, Paused::Schedule(name)));
    }
    let group = options.only(b"GROUP", named)?;
    Ok((key, group.map_or(Paused::Key, Paused::Group)))
}

/// Runs `RESUME key [GROUP name | SCHEDULE name]`: 1, or 0 if it was not paused.
pub fn resume(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, paused) = parse_resume(args)?;
    let group = match paused {
        Paused::Key => None,
        Paused::Group(group) => Some(group),
        Paused::Schedule(name) => {
            context.reply_integer(every::pause(context, key, name, false)?.into());
            return Ok(());
        }
    };
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    let was_paused = match group {
        None => dehydrator.rules().is_paused(now),
        Some(group) => {
            dehydrator.look().is_some_and(|lawn| lawn.group_rules().of(group).paused_until > now)
        }
    };

    let is_changed = match group {
        None => dehydrator.change_rules(|rules| rules.pause = None),
        Some(group) => dehydrator.change_group(group, |it| it.paused_until = 0),
    };
    if is_changed {
        let name = Name::of(context, key);
        agenda::reset_overdue(&name);
        Effect::resumed(key, group).replicate(context);
        dehydrator.finish(c"dehydrator.resume");
    }
    context.reply_integer(was_paused.into());
    Ok(())
}
