//! Blocked clients, queued per key.
//!
//! A client that blocks joins the line of each of its keys. Only keys with waiting clients have a line. The line
//! records when the key's next element comes due, and every write to the key updates that ([`note`]). At that time the
//! key becomes ready. This folder wakes nobody: [`commands::poll`](crate::commands::poll) asks it for the next client,
//! takes the due elements and unblocks the client.
//!
//! ```text
//!   POLL … BLOCK ─▶ join                                       note ◀─ PUSH, TOUCH
//!                    ▼                                           │
//!         lines: (db, key) ─▶ [ client, client, … ]    times ◀───┘
//!                                  │                     │ the time has come
//!                                  ▼                     ▼
//!   commands::poll ◀── the first in its line ◀── ready: [ key, key, … ]
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `lines` | the queue of clients of each key, in order of arrival |
//!
//! *Several keys.* A client stands in the lines of all its keys with one ticket, and leaves them all when it is served.
//! One key wakes it; it gets elements of the first of its keys that has any. If others stand before it in the line of a
//! key that it lists earlier, that line goes first: nobody is overtaken, and the client with the lowest ticket never
//! waits for another. A write to a key looks at that key's line alone.
//!
//! *Timeouts* are kept here too, on the monotonic clock. If the server's own timeout of a blocked client coincided with
//! its waking, its reply would be lost (Redis 7.0), or the server would crash (7.2).

mod lines;

use std::cell::RefCell;

use super::timer;
use crate::clock;
use crate::server::blocked_client::BlockedClient;
use crate::server::key::Name;
use crate::server::passes;
use crate::server::{Context, Error, Str};

pub use lines::{Lines, Outlook, Sleeper, Take};

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static LINES: RefCell<Lines> = RefCell::default();
}

/// Reads or changes the lines. The closure must not call back into this module.
pub fn with<T>(look: impl FnOnce(&mut Lines) -> T) -> T {
    LINES.with_borrow_mut(look)
}

/// Returns the number of blocked clients.
pub fn len() -> usize {
    // A crash report reads this too, perhaps in the middle of a change.
    LINES.with(|lines| lines.try_borrow().map_or(0, |lines| lines.len()))
}

/// Returns whether clients wait for a key, so that another client has to queue behind them.
pub fn is_watched(context: &Context, key: Str<'_>) -> bool {
    with(|lines| !lines.is_empty() && lines.is_watched(&Name::of(context, key)))
}

/// Queues a client that was just blocked for `keys`, which are all different, each with the time at which its next
/// element comes due. The client waits for `timeout` milliseconds (0: forever).
pub fn join(
    context: &Context,
    client: BlockedClient,
    keys: &[(Str<'_>, Option<u64>)],
    timeout: u64,
    take: &Take<'_>,
) {
    let until_us =
        (timeout > 0).then(|| clock::monotonic_us().saturating_add(timeout.saturating_mul(1000)));
    let names = keys.iter().map(|(key, _)| Name::of(context, *key));
    let sleeper = with(|lines| lines.join(client, names, until_us, take));
    // Passes are measured while a client is blocked.
    passes::listen();
    if let Some(until_us) = until_us {
        timer::at(context, until_us);
    }
    for (name, (_, next)) in sleeper.names.iter().zip(keys) {
        note_name(context, name, || Outlook::Next(*next));
    }
}

/// Records when a key can serve clients, after a change. Evaluates `outlook` only if a client waits for the key, and
/// builds the key's name only if any client is blocked.
pub fn note(context: &Context, key: Str<'_>, outlook: impl FnOnce() -> Outlook) {
    if with(|lines| !lines.is_empty()) {
        note_name(context, &Name::of(context, key), outlook);
    }
}

/// Records when a key can serve clients, as just read from it. The closure must not call out.
pub fn note_name(context: &Context, name: &Name, outlook: impl FnOnce() -> Outlook) {
    match with(|lines| lines.note(name, outlook)) {
        Some(Outlook::Next(Some(next))) => timer::at_deadline(context, next),
        Some(Outlook::Delivered) => dismiss(context, name, Error::DELIVERED),
        _ => {}
    }
}

/// Dismisses all clients that wait for a key, a few at a time from the end of this pass or the next one on: Redis 7.0
/// sends no reply to a client that CLIENT UNBLOCK meets while it is being unblocked.
pub fn dismiss(context: &Context, name: &Name, reason: Error) {
    if with(|lines| lines.dismiss(name, reason)) {
        timer::soon(context);
    }
}

/// Dismisses all blocked clients: this server has become a replica.
pub fn dismiss_all(context: &Context) {
    with(|lines| lines.dismiss_all(&Error::SLOT_MOVED));
    timer::soon(context);
}
