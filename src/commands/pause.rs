//! PAUSE, RESUME.

use crate::data_type::Writing;
use crate::pending::agenda;
use crate::policy::Pause;
use crate::replicate::Effect;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::Lawn;

use super::args::number::positive;
use super::args::options::Options;
use super::args::{self, required};
use super::{defaults, limits};

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

/// Reads `key [ms | AT unix-ms]`.
fn parse<'a>(args: Args<'a>) -> Result<(Str<'a>, PauseEnd)> {
    let key = required(args, 1)?;
    let mut options = Options::new(args, 2);
    let end = match (options.next(), args.get(2)) {
        (Some(option), _) if option.name() == b"AT" => {
            let word = options.value("AT")?.bytes();
            let wanted = "a whole number of unix milliseconds from 1 on";
            PauseEnd::At(positive("AT", word, wanted)?)
        }
        (Some(_), Some(word)) => {
            let wanted = "a whole number of milliseconds from 1 on";
            PauseEnd::After(positive("PAUSE", word.bytes(), wanted)?)
        }
        _ => PauseEnd::Never,
    };
    options.end()?;
    Ok((key, end))
}

/// Runs `PAUSE key [ms | AT unix-ms]`: OK. Nothing is given out or delivered until that time, or
/// until RESUME.
pub fn pause(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, end) = args::read(context, args, parse)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    let pause = match end {
        PauseEnd::Never => Pause::UNTIL_RESUMED,
        PauseEnd::After(ms) => Pause::until(
            Lawn::deadline(ms, now)
                .map_err(|_| format!("PAUSE '{ms}' is too large: now + ms must fit in 63 bits"))?,
        ),
        PauseEnd::At(at) => {
            limits::moment(context, at)?;
            if at <= now && !context.is_replaying() {
                return Err(format!("AT '{at}' has passed: the server's time is {now}").into());
            }
            Pause::until(at)
        }
    };

    if dehydrator.change_rules(|rules| rules.pause = Some(pause)) {
        if dehydrator.is_new() {
            limits::memory(context)?;
        }
        Effect::paused(key, pause).replicate(context);
        defaults::apply(context, key, &mut dehydrator);
        dehydrator.changed(c"dehydrator.pause");
    }
    context.reply_ok();
    Ok(())
}

/// Runs `RESUME key`: 1, or 0 if it was not paused.
pub fn resume(context: &CommandContext, args: Args<'_>) -> Result {
    let key = args::read(context, args, args::key)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    let was_paused = dehydrator.rules().is_paused(now);

    if dehydrator.change_rules(|rules| rules.pause = None) {
        let name = Name::of(context, key);
        agenda::reset_overdue(&name);
        Effect::resumed(key).replicate(context);
        dehydrator.shrunk(c"dehydrator.resume");
    }
    context.reply_integer(was_paused.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_pause_is_for_good_for_a_while_or_until_a_moment() {
        needs_all_of("k", only!(parse));
        let pause = |args: Args<'_>| parse(args).map(|(key, end)| (text(key), end));
        assert_eq!(request("k", pause), Ok(("k".into(), PauseEnd::Never)));
        assert_eq!(request("k 1", pause), Ok(("k".into(), PauseEnd::After(1))));
        assert_eq!(request("k at 9", pause), Ok(("k".into(), PauseEnd::At(9))));
        refuses_each(
            "k 0; k -1; k x; k 9223372036854775808; k AT; k AT 0; k AT x; k AT 9 9; k 9 AT 9; k 9 9"
                .split("; "),
            only!(parse),
        );
    }
}
