//! Changing what was put away: UPDATE its element, TOUCH its timer.

use crate::data_type::{Writing, runs};
use crate::replicate;
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};
use lawn::UpdateError;

use super::args::{self, Condition};
use super::{limits, refusal};

/// Runs `UPDATE key id element`: the old element. The deadline stays.
pub fn update(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Update { key, id, element } = args::read(context, args, args::Update::parse)?;
    let mut dehydrator = Writing::open(context, key)?;

    let lawn = dehydrator.lawn().ok_or(UpdateError::Missing);
    let old = lawn.and_then(|lawn| lawn.update(id.bytes(), element.bytes()));
    let old = old.map_err(|error| refusal::of_update(error, id.bytes()))?;
    context.reply_bulk(old.element().payload);
    drop(old);
    replicate::as_sent(context, args, c"DEHYDRATOR.UPDATE");
    dehydrator.changed(c"dehydrator.update");
    Ok(())
}

/// Runs `TOUCH key <id ttl | ttl IDS numids id [id ...]> [GT | LT] [AT unix-ms]`: how many there are for which the condition
/// holds.
pub fn touch(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, args::Touch::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let args::Touch { key, ttl, condition, at, .. } = request;
    let now = dehydrator.now();

    let deadline = limits::deadline(context, ttl, ttl, at, now)?;
    let holds = |current: u64| match condition {
        Condition::Always => true,
        Condition::Later => deadline > current,
        Condition::Earlier => deadline < current,
    };
    // In an effect a ttl of 0 gives back what is held. A client that says when it is due asks for no such thing.
    let keeps_held = ttl == 0 && at.is_some() && !context.is_replaying();
    // Where HELD counts the leases that run, one that has run out does not run again by this: it ends.
    let ends_over = dehydrator.held_limit() > 0 && deadline > now && !context.is_replaying();
    let mut count = 0;
    for id in request.ids() {
        let Some(lawn) = dehydrator.lawn() else { break };
        let Some(element) = lawn.look(id).filter(|element| holds(element.deadline)) else {
            continue;
        };
        let is_held = lawn.token(&element).is_some();
        let ttl = match ttl {
            _ if is_held && ends_over && !runs(element.deadline, now) => 0,
            0 if is_held && keeps_held => QUEUE_OF_HELD,
            ttl => ttl,
        };
        if !lawn.restart_at(id, ttl, deadline) {
            continue;
        }
        replicate::touched(context, key, id, ttl, deadline);
        dehydrator.note_timer(ttl, deadline);
        count += 1;
    }
    if count > 0 {
        dehydrator.changed(c"dehydrator.touch");
    }
    context.reply_integer(count);
    Ok(())
}

/// The TTL by which the queue is named of what is held and stays so, where a client has said 0.
const QUEUE_OF_HELD: u64 = 1;
