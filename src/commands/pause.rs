//! An operator's pause: PAUSE, RESUME.

use crate::data_type::Writing;
use crate::pending::{blocked, schedule};
use crate::policy::Pause;
use crate::replicate::Effect;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::{args, defaults, limits};

/// Runs `PAUSE key [ms | AT unix-ms]`: OK. Until RESUME, or for so long, nothing is given out or delivered.
pub fn pause(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Pause { key, end } = args::read(context, args, args::Pause::parse)?;
    let mut dehydrator = Writing::open(context, key)?;
    let pause = match end {
        args::PauseEnd::Never => Pause::UNTIL_RESUMED,
        args::PauseEnd::After(ms) => Pause::until(limits::pause(ms, dehydrator.now())?),
        args::PauseEnd::At(at) => Pause::until(limits::pause_until(context, at, dehydrator.now())?),
    };

    if dehydrator.set_pause(Some(pause)) {
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
    let args::OfKey { key } = args::read(context, args, args::OfKey::parse)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    let was_paused = dehydrator.is_paused(now);

    if dehydrator.set_pause(None) {
        let name = Name::of(context, key);
        schedule::begin(&name);
        blocked::begin(&name);
        Effect::resumed(key).replicate(context);
        dehydrator.shrunk(c"dehydrator.resume");
    }
    context.reply_integer(was_paused.into());
    Ok(())
}
