//! Waking blocked clients: due elements are taken for each client in turn, and the client is unblocked with them.
//!
//! [`serve`] is called at the end of a pass of the event loop. [`blocked`] holds the order of the clients.
//!
//! *In the same pass.* A key with waiting clients and a due element is ready, and is served at the end of this pass of the
//! event loop. A client whose hang-up the server reads in the same pass gets nothing, and the elements are given back: see
//! [`client`](super::client). Where the server does not tell in time who is gone, the key is served at the end of the next
//! pass: by then the server has freed the client. Ready keys are served in turn, so that none keeps the others waiting.
//!
//! *Taken when woken.* Elements are taken, and the effect is replicated, before the server is told to unblock the
//! client. So no other client's command runs in between, whichever thread has read it. A client for which nothing is
//! left keeps its place in the queue and receives no empty reply. If the client has disconnected before its reply, the
//! elements are given back.
//!
//! *Backstop.* Some changes do not pass through our commands: RENAME, COPY, MOVE, SWAPDB, RESTORE, a reload, a step of
//! the wall clock, a slot that moved to another node. The [`backstop`], which the server's cron calls, finds them.

use std::rc::Rc;

use crate::clock;
use crate::data_type::{Dehydrator, inspect};
use crate::pending::blocked::{self, Queues, Sleeper};
use crate::server::guard::trap;
use crate::server::key::Name;
use crate::server::{Context, Error, OwnedStr, Str, error::Result};

use super::client::{Outcome, give_back, unblock};
use super::taken::TakenElements;
use crate::commands::checks;

/// Clients served at the end of one pass of the event loop, at most; the rest are served after other clients have had
/// their turn. The server writes replies when the pass is over, the last one first. With fewer at a time, the first in
/// the queue gets its reply sooner, and the other processor has something to read sooner. For a hundred clients woken at
/// once the median is 0.9 ms with 24 and 1.4 ms with 64; a thousand at once cost the server at most a twentieth more.
const SERVED_MAX: usize = 24;
/// Time between retries while writes are not allowed (CLIENT PAUSE, FAILOVER, too few replicas, a failing disk), in
/// microseconds.
const RETRY_US: u64 = 20_000;

/// Unblocks the clients that wait in vain and, if `may_serve`, serves the clients of keys with due elements. `now_us`: on
/// the monotonic clock.
pub fn serve(context: &Context, may_serve: bool, now_us: u64) {
    if blocked::with(|queues| queues.is_idle()) {
        return;
    }
    send_away(context, now_us);
    let come_due = || blocked::with(|queues| queues.come_due(clock::now()));
    let waits = context.knows_late_who_is_gone();
    if !waits {
        come_due();
    }
    if may_serve && blocked::with(|queues| queues.is_time(now_us)) {
        if context.may_write() {
            if blocked::with(|queues| queues.has_returns) {
                give_back(context);
            }
            // The queues of ready keys in turn.
            let mut left = SERVED_MAX;
            for _ in 0..blocked::with(|queues| queues.ready()) {
                if left > 0
                    && let Some(name) = blocked::with(Queues::next_ready)
                {
                    let key = Served(&name);
                    left -= serve_queue(context, key.0, left);
                }
            }
        } else {
            blocked::with(|queues| queues.retry_at(now_us + RETRY_US));
        }
    }
    if waits {
        come_due();
    }
}

/// A ready key while it is served, also if that panics.
struct Served<'a>(&'a Rc<Name>);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        blocked::with(|queues| queues.served(self.0));
    }
}

/// Unblocks clients whose timeout has passed, or whose keys give nothing out any more. A client that repeated its request
/// may have been given elements over the other connection: when its time is over, it receives those.
fn send_away(context: &Context, now_us: u64) {
    for _ in 0..SERVED_MAX {
        let next = blocked::with(|queues| queues.next_to_send_away(now_us));
        let Some((sleeper, reason)) = next else { return };
        let outcome = match reason {
            Some(reason) => Outcome::SentAway(reason),
            None => {
                let held = TakenElements::of_held(context, &sleeper, clock::now());
                let held = held.filter(|_| may_still_ask(&sleeper));
                let timed_out = Outcome::TimedOut { is_named: sleeper.take().is_named };
                held.map_or(timed_out, Outcome::Given)
            }
        };
        finish(context, &sleeper, outcome);
    }
}

/// Takes a client out of its queues, and unblocks it. If the client has gone by itself, elements taken for it are given
/// back.
fn finish(context: &Context, sleeper: &Sleeper, outcome: Outcome) {
    match (blocked::with(|queues| queues.leave(sleeper)), outcome) {
        (Some(client), outcome) => unblock(context, client, outcome),
        (None, Outcome::Given(taken)) => taken.give_back(context),
        (None, _) => {}
    }
}

/// Serves the clients of a key until nothing is due or `most` are served. Returns how many were.
fn serve_queue(context: &Context, name: &Rc<Name>, most: usize) -> usize {
    let (mut served, mut may_write) = (0, None);
    while served < most {
        let now_us = clock::now_us();
        let now = now_us / 1000;
        let next = blocked::with(|queues| queues.next_in_queue(name, now));
        let Some((sleeper, others, own)) = next else { break };
        let key = sleeper.key(own);
        let asks = || context.select_db(name.db) && context.lets_clients_write(key);
        if !*may_write.get_or_insert_with(asks) {
            blocked::with(|queues| queues.postpone(name, now, Some(now + RETRY_US / 1000)));
            break;
        }
        if !may_still_ask(&sleeper) {
            finish(context, &sleeper, Outcome::SentAway(checks::no_right()));
            served += 1;
            continue;
        }
        // The client stays in the table meanwhile: taking publishes an event, and another module may then do
        // anything, such as kill the client.
        let taken = TakenElements::of_held(context, &sleeper, now).or_else(|| {
            let mut places = others.into_iter().chain([own]);
            places.find_map(|at| TakenElements::of_due(context, &sleeper, at, now_us))
        });
        let Some(taken) = taken else {
            // A change went unnoticed, or a due element cannot be taken: then the backstop tries again.
            let outlook = look(context, key);
            blocked::note_name(context, &**name, || outlook);
            blocked::with(|queues| queues.postpone(name, now, None));
            break;
        };
        trap::pass("woken");
        served += 1;
        finish(context, &sleeper, Outcome::Given(taken));
    }
    served
}

/// Returns whether a client may still run the command in which it is blocked, on all of its keys: its rights may have
/// been withdrawn since. BLPOP checks this too.
fn may_still_ask(sleeper: &Sleeper) -> bool {
    Context::may_still_run(sleeper.user.as_ref(), &sleeper.words)
}

/// Checks the keys that clients wait for, one by one, while `go_on` returns true. The next call carries on from there.
pub fn backstop(context: &Context, mut go_on: impl FnMut() -> bool) {
    for _ in 0..blocked::with(|queues| queues.watched()) {
        let Some(name) = blocked::with(Queues::next_watched) else { return };
        if context.select_db(name.db) {
            let key = OwnedStr::new(&name.key);
            if context.serves(key.as_str()) {
                let outlook = look(context, key.as_str());
                blocked::note_name(context, &*name, || outlook);
            } else {
                let is_down = context.is_cluster_down();
                let reason = if is_down { Error::CLUSTER_DOWN } else { Error::SLOT_MOVED };
                blocked::dismiss(context, &*name, reason);
            }
        }
        if !go_on() {
            return;
        }
    }
}

/// Returns what a key of the selected database offers a waiting client.
fn look(context: &Context, key: Str<'_>) -> Result<Option<u64>> {
    inspect(context, key, Dehydrator::outlook).unwrap_or(Ok(None))
}
