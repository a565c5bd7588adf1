//! Changing what was put away: UPDATE its element, TOUCH its timer.

use crate::data_type::Writing;
use crate::lawn::UpdateError;
use crate::replicate;
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::args::{self, Condition};
use super::{limits, refusal};

/// Runs `UPDATE key id element`: the old element. The deadline stays.
pub fn update(context: &CommandContext, args: Args<'_>) -> Result {
    let name = args.get(0);
    let args::Update { key, id, element } = args::read(context, args, args::Update::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let lawn = dehydrator.lawn().ok_or(UpdateError::Missing);
    let old = lawn.and_then(|lawn| lawn.update(id.bytes(), element.bytes()));
    let old = old.map_err(|error| refusal::of_update(error, id.bytes()))?;
    context.reply_bulk(old.element().payload);
    drop(old);
    replicate::updated(context, name, key, id, element);
    dehydrator.changed(c"dehydrator.update");
    Ok(())
}

/// Runs `TOUCH key id ttl [GT | LT] [AT unix-ms]`: 1, or 0 if there is no such id or the condition does not hold.
pub fn touch(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Touch { key, id, ttl, condition, at } =
        args::read(context, args, args::Touch::parse)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();

    let deadline = limits::deadline(context, ttl, ttl, at, now)?;
    let holds = |current: u64| match condition {
        Condition::Always => true,
        Condition::Later => deadline > current,
        Condition::Earlier => deadline < current,
    };
    let touched = dehydrator.lawn().is_some_and(|lawn| {
        lawn.look(id).is_some_and(|element| holds(element.deadline))
            && lawn.restart_at(id, ttl, deadline)
    });
    if touched {
        if at.is_some() {
            // It says so in absolute terms, and does on a replica what it did here.
            replicate::verbatim(context);
        } else {
            replicate::touched(context, key, id, ttl, deadline);
        }
        dehydrator.note_timer(ttl, deadline);
        dehydrator.changed(c"dehydrator.touch");
    }
    context.reply_integer(touched.into());
    Ok(())
}
