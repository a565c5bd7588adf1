//! Blocked clients: who sleeps until something comes due in which key, and whose turn it is.
//!
//! A client that blocks joins the line of its key, or of each of its keys. Only keys that somebody waits for have a line,
//! and with it stands when the next element of the key comes due: every write to the key notes that here ([`note`]). When
//! that time has come the key is ready. This folder wakes nobody: it tells
//! [`commands::poll`](crate::commands::poll) whose turn it is, which takes what is due and unblocks the client.
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
//! *Several keys.* A client stands in the lines of all its keys with one ticket, and leaves them all when it is
//! served. What wakes it is one key; it is given what the first of its keys has. If others stand before it in the
//! line of a key that it would rather be served from, that line comes first: nobody passes anybody, and who has
//! the lowest ticket of all never waits for another. A write to a key looks at that key's line alone.
//!
//! *Timeouts* stand here as well, on the monotonic clock: the server's own timeout of a blocked client must not meet a
//! waking, or its reply is lost (Redis 7.0) or the server dies (7.2).

mod lines;

use std::cell::RefCell;
use std::rc::Rc;

use super::{Take, timer};
use crate::clock;
use crate::server::blocked_client::BlockedClient;
use crate::server::key::Name;
use crate::server::{Context, Error, Str};

pub use lines::{Lines, Sleeper, Turn};

/// Says when a client that waits for a key could be given something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// When the next element comes due, or did, in milliseconds since the epoch. `None`: there is none.
    Next(Option<u64>),
    /// Never: what comes due is delivered elsewhere.
    Delivered,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static LINES: RefCell<Lines> = RefCell::default();
}

/// Looks at the lines, or changes them. The closure must call nothing that may come back here.
pub fn with<T>(look: impl FnOnce(&mut Lines) -> T) -> T {
    LINES.with_borrow_mut(look)
}

/// Returns how many clients are blocked.
pub fn len() -> usize {
    // Also in the report of a crash, which may have happened in the middle of a change.
    LINES.with(|lines| lines.try_borrow().map_or(0, |lines| lines.len()))
}

/// Returns whether clients wait for a key, so that another has to join the line.
pub fn is_watched(context: &Context, key: Str<'_>) -> bool {
    with(|lines| !lines.is_empty() && lines.is_watched(&Name::of(context, key)))
}

/// Returns whether somebody is to be given something, so that it matters who has gone.
pub fn is_ready() -> bool {
    with(|lines| lines.ready() > 0)
}

/// Puts a client, which has just been blocked, at the end of the lines of `keys`, which are all different. With each key
/// goes when its next element comes due, or did. It waits for `timeout` milliseconds (0: for ever). `word`: the token that it has chosen. `is_named`: it is told
/// from which key it is served.
pub fn join(
    context: &Context,
    client: BlockedClient,
    keys: &[(Str<'_>, Option<u64>)],
    timeout: u64,
    take: Take,
    word: Option<Str<'_>>,
    is_named: bool,
) {
    let until_us =
        (timeout > 0).then(|| clock::monotonic_us().saturating_add(timeout.saturating_mul(1000)));
    let word = word.map(|word| Rc::from(word.bytes()));
    let names = keys.iter().map(|(key, _)| Name::of(context, *key));
    let sleeper = with(|lines| lines.join(client, names, until_us, take, word, is_named));
    // How long passes take is measured while anybody is blocked.
    timer::listen();
    if let Some(until_us) = until_us {
        timer::at(context, until_us);
    }
    for (name, (_, next)) in sleeper.names.iter().zip(keys) {
        note_name(context, name, Outlook::Next(*next));
    }
}

/// Notes when something can be given out in a key, after it was changed. Nobody asks for that while no client waits for the
/// key, nor for the key's name while no client is blocked at all.
pub fn note(context: &Context, key: Str<'_>, outlook: impl FnOnce() -> Outlook) {
    if with(|lines| lines.is_empty()) {
        return;
    }
    let name = Name::of(context, key);
    if with(|lines| lines.is_watched(&name)) {
        note_name(context, &name, outlook());
    }
}

/// Notes when something can be given out in a key, as it was just looked at.
pub fn note_name(context: &Context, name: &Name, outlook: Outlook) {
    match outlook {
        Outlook::Next(next) => {
            if let Some(next) = with(|lines| lines.note(name, next, clock::now_us)) {
                timer::at_deadline(context, next);
            }
        }
        Outlook::Delivered => dismiss(context, name, Error::Delivered),
    }
}

/// Notes that a pause is over: what is overdue could not be given out before.
pub fn begin(name: &Name) {
    with(|lines| lines.begin(name));
}

/// Has all who wait for a key be sent away, a few at a time from the end of this pass or the next one on: Redis 7.0
/// forgets to reply to a client that CLIENT UNBLOCK meets when it is being unblocked.
pub fn dismiss(context: &Context, name: &Name, reason: Error) {
    if with(|lines| lines.dismiss(name, reason)) {
        timer::soon(context);
    }
}

/// Has everybody be sent away: this server has become a replica.
pub fn dismiss_all(context: &Context) {
    with(Lines::dismiss_all);
    timer::soon(context);
}
