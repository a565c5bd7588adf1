//! Restarting the timers of elements, as TOUCH does.

use crate::data_type::{Ending, Writing, ends_lease, postponed, set_until};
use crate::replicate::Batch;
use crate::server::{CommandContext, Str};
use lawn::Lawn;

/// Timers that are restarted with one TTL and one deadline, and the effect that says so.
pub struct Restarts<'a> {
    batch: Batch<'a>,
    ttl: u64,
    deadline: u64,
    now: u64,
    /// Set if a held element stays held, though the ttl is 0.
    keeps_held: bool,
    /// Set if a limit of live leases holds for all elements.
    has_limit: bool,
    count: i64,
}

impl<'a> Restarts<'a> {
    /// Begins. `at`: the deadline that the client named.
    pub fn new(
        context: &'a CommandContext,
        key: Str<'a>,
        dehydrator: &mut Writing<'_>,
        (ttl, deadline): (u64, u64),
        at: Option<u64>,
    ) -> Self {
        // A ttl of 0 gives back a held element. A client that sets the deadline by AT does not ask for that.
        let keeps_held = ttl == 0 && at.is_some();
        let (now, has_limit) = (dehydrator.now(), dehydrator.rules().limits().held > 0);
        let batch = Batch::restarts(context, key);
        Self { batch, ttl, deadline, now, keeps_held, has_limit, count: 0 }
    }

    /// Restarts the timer of an element, if it is there and `holds` returns so for its deadline.
    pub fn restart_if(&mut self, lawn: &mut Lawn, id: &[u8], holds: impl Fn(u64) -> bool) {
        let Self { ttl, deadline, now, keeps_held, has_limit, .. } = *self;
        let Some(element) = lawn.look(id).filter(|it| holds(it.deadline)) else { return };
        let is_held = lawn.token(&element).is_some();
        let until = if is_held { None } else { postponed(&element, deadline) };
        let ends = ends_lease(lawn, &element, deadline, now, has_limit);
        let ttl = match ttl {
            _ if ends => 0,
            0 if is_held && keeps_held => QUEUE_OF_HELD,
            ttl => ttl,
        };
        if lawn.restart_at(id, ttl, deadline) {
            let until = until.and_then(|until| set_until(lawn, id, until));
            self.batch.restarted(id, ttl, deadline, until);
            self.count += 1;
        }
    }

    /// Replicates the rest, and closes the key. Returns the number of elements.
    pub fn finish(self, dehydrator: Writing<'_>) -> i64 {
        if self.batch.finish() {
            dehydrator.finish(Ending::Changed, c"dehydrator.touch");
        }
        self.count
    }
}

/// The TTL used for a held element when a client sends 0, so that the element stays held.
const QUEUE_OF_HELD: u64 = 1;
