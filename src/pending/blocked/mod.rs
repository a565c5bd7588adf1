//! Blocked clients, queued per key.
//!
//! A client that blocks joins the queue of each of its keys. Only keys with waiting clients have a queue. The queue
//! records when the key's next element comes due, and every write to the key updates that ([`note`]). At that time the
//! key becomes ready. This folder wakes nobody: [`commands::poll`](crate::commands::poll) asks it for the next client,
//! takes the due elements and unblocks the client.
//!
//! ```text
//!   POLL … BLOCK ─▶ join                                       note ◀─ PUSH, TOUCH
//!                    ▼                                           │
//!         queues: (db, key) ─▶ [ client, client, … ]    times ◀───┘
//!                                  │                     │ the time has come
//!                                  ▼                     ▼
//!   commands::poll ◀── the first in its queue ◀── ready: [ key, key, … ]
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `queues` | the queue of clients of each key, in order of arrival |
//!
//! *Several keys.* A client stands in the queues of all its keys with one ticket, and leaves them all when it is served.
//! One key wakes it; it gets elements of the first of its keys that has any. If others stand before it in the queue of a
//! key that it lists earlier, that queue goes first: nobody is overtaken, and the client with the lowest ticket never
//! waits for another. A write to a key looks at that key's queue alone.
//!
//! *Timeouts* are kept here too, on the monotonic clock. If the server's own timeout of a blocked client coincided with
//! its waking, its reply would be lost (Redis 7.0), or the server would crash (7.2).

mod queues;

use std::cell::RefCell;

use super::timer;
use crate::clock;
use crate::server::blocked_client::BlockedClient;
use crate::server::key::Name;
use crate::server::passes;
use crate::server::{Context, Error, OwnedStr, Str, error::Result};

pub use queues::{Named, Queues, Sleeper, Take};

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static QUEUES: RefCell<Queues> = RefCell::default();
}

/// Reads or changes the queues. The closure must not call back into this module.
pub fn with<T>(look: impl FnOnce(&mut Queues) -> T) -> T {
    QUEUES.with_borrow_mut(look)
}

/// Returns the number of blocked clients.
pub fn len() -> usize {
    // A crash report reads this too, perhaps in the middle of a change.
    QUEUES.with(|queues| queues.try_borrow().map_or(0, |queues| queues.len()))
}

/// Returns whether clients wait for a key, so that another client has to queue behind them.
pub fn is_watched(context: &Context, key: Str<'_>) -> bool {
    with(|queues| queues.watched() > 0 && queues.is_watched(&(context.selected_db(), key.bytes())))
}

/// Queues a client that was just blocked in this command for `keys`, which are all different, each with the time at which its next
/// element comes due. The client waits for `timeout` milliseconds (0: forever).
pub fn join(
    context: &Context,
    client: BlockedClient,
    command: Option<Str<'_>>,
    keys: &[(Str<'_>, Option<u64>)],
    timeout: u64,
    take: &Take<'_>,
) {
    let until_us =
        (timeout > 0).then(|| clock::monotonic_us().saturating_add(timeout.saturating_mul(1000)));
    let names = keys.iter().map(|(key, _)| Name::of(context, *key));
    let count = take.is_named.then(|| OwnedStr::of_number(keys.len() as u64));
    let command = command.map(Str::retain).into_iter().chain(count);
    let words = command.chain(keys.iter().map(|(key, _)| key.retain())).collect();
    let sleeper = with(|queues| queues.join(client, names, words, until_us, take));
    // Passes are measured while a client is blocked.
    passes::listen();
    if let Some(until_us) = until_us {
        timer::at(context, until_us);
    }
    for (name, (_, next)) in sleeper.names.iter().zip(keys) {
        note_name(context, &**name, || Ok(*next));
    }
}

/// Records when a key can serve clients, after a change: when its next element comes due, or came due, in milliseconds since
/// the epoch, `None` if there is none; or why it never can. Evaluates `outlook` only if a client waits for the key.
pub fn note(context: &Context, key: Str<'_>, outlook: impl FnOnce() -> Result<Option<u64>>) {
    if with(|queues| queues.watched() > 0) {
        note_name(context, &(context.selected_db(), key.bytes()), outlook);
    }
}

/// Records when a key can serve clients, as just read from it. The closure must not call out.
pub fn note_name(
    context: &Context,
    name: &dyn Named,
    outlook: impl FnOnce() -> Result<Option<u64>>,
) {
    match with(|queues| queues.note(name, outlook)) {
        Some(Ok(Some(next))) => timer::at_deadline(context, next),
        Some(Err(reason)) => dismiss(context, name, reason),
        _ => {}
    }
}

/// Dismisses all clients that wait for a key, a few at a time from the end of this pass or the next one on: Redis 7.0
/// sends no reply to a client that CLIENT UNBLOCK meets while it is being unblocked.
pub fn dismiss(context: &Context, name: &dyn Named, reason: Error) {
    if with(|queues| queues.dismiss(name, reason)) {
        timer::soon(context);
    }
}

/// Dismisses all blocked clients, for a reason.
pub fn dismiss_all(context: &Context, reason: &Error) {
    with(|queues| queues.dismiss_all(reason));
    timer::soon(context);
}
