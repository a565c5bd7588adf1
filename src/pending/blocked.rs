//! Blocked clients: those that sleep until something comes due.
//!
//! A client that blocks joins the line of its key, or of each of its keys. Nothing is asked of keys that nobody watches: there is
//! no list of all keys, only a table of watched ones, with the next deadline of each, which every write
//! to the key notes here ([`note`]). When the earliest has come, the clients in that line are served,
//! first come, first served, for as long as something is due; the others sleep on.
//!
//! ```text
//!   POLL … BLOCK ─▶ block ─┐                                   note ◀─ PUSH, TOUCH
//!                          ▼                                     │
//!        watches: (db, key) ─▶ [ client, client, … ]  times ◀────┘
//!                                    │                  │ the time has come
//!                                    ▼                  ▼
//!        the server ─▶ on_reply ◀── serve: take for the first in the line, then for the next
//! ```
//!
//! *One pass later.* A key in whose line something is due is ready. It is served at the end of the next pass of
//! the event loop: by then the server has freed the clients of which it read, when the element came due, that
//! they have hung up. Keys that are ready are served in turn, so that none keeps the others waiting.
//!
//! *Taken when woken.* What a client gets is taken, and its effect replicated, before the server is told
//! to unblock the client. So nobody else's command comes between, whichever thread has read it, and a
//! client for which nothing is left keeps its place in the line: it is never told that there is nothing.
//! If the client has gone when the server comes to reply, what was taken is given back.
//!
//! *Several keys.* A client stands in the lines of all its keys with one ticket, and leaves them all when it is
//! served. What wakes it is one key; it is given what the first of its keys has. If others stand before it in the
//! line of a key that it would rather be served from, that line comes first: nobody passes anybody, and who has
//! the lowest ticket of all never waits for another. A write to a key looks at that key's line alone.
//!
//! How long a client waits is seen to here as well, on the monotonic clock: the server's own timeout of a
//! blocked client must not meet a waking, or its reply is lost (Redis 7.0) or the server dies (7.2).
//!
//! What reaches a key by other ways than our commands (RENAME, COPY, MOVE, SWAPDB, RESTORE, a reload), a
//! wall clock that stepped, and a key whose slot another node serves now, are found by the [`backstop`],
//! which the server's cron calls.
//!
//! This module knows no command and no dehydrator: how to look at a key, and how to serve a client, are
//! handed to it as values.

mod unblocked;
mod watches;

use std::cell::RefCell;
use std::rc::Rc;

use unblocked::{Outcome, Unblocked, take_back, unblock};
use watches::{Blocked, Watches};

use super::timer;
use crate::clock;
use crate::metrics::latency;
use crate::metrics::latency::Overdue;
use crate::server::blocked_client::{BlockedClient, Handle};
use crate::server::guard::trap;
use crate::server::key::Name;
use crate::server::{CommandContext, Context, Error, OwnedStr, Str};

/// Clients that are served at the end of one pass of the event loop; the rest are served when other
/// clients have had their turn.
const SERVED_MAX: usize = 64;
/// While nothing may be written (CLIENT PAUSE, FAILOVER, too few replicas, a disk that fails), this long
/// until the next look, in microseconds.
const RETRY_US: u64 = 20_000;

/// What there is to wait for in a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// When the next element comes due, or did, in milliseconds since the epoch. `None`: there is none.
    Next(Option<u64>),
    /// What comes due is delivered: there is nothing to wait for.
    Delivered,
}

/// Looks at a key of the selected database.
pub type Peek = fn(&Context, Str<'_>) -> Outlook;

/// What a client has asked for.
pub trait Asks {
    /// Takes what is due in a key of the selected database. `None`: nothing is.
    fn take(&self, context: &Context, key: Str<'_>) -> Option<Box<dyn Taken>>;

    /// What was given to it before, over another connection, and may not have arrived.
    fn held(&self, context: &Context) -> Option<Box<dyn Taken>>;
}

/// What was taken for a client.
pub trait Taken {
    /// When the first of it came due, in milliseconds since the epoch.
    fn deadline(&self) -> u64;

    /// Replies it to the client.
    fn reply(&self, context: &Context);

    /// Puts it back where it was, because the client has gone.
    fn give_back(&self, context: &Context);
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static WATCHES: RefCell<Watches> = RefCell::default();
}

/// How many clients are blocked.
pub fn len() -> usize {
    // Also in the report of a crash, which may have happened in the middle of a change.
    WATCHES.with(|watches| watches.try_borrow().map_or(0, |watches| watches.by_client.len()))
}

/// Whether clients wait for a key, so that another has to join the line.
pub fn is_watched(context: &Context, key: Str<'_>) -> bool {
    WATCHES.with_borrow(|watches| {
        !watches.by_name.is_empty() && watches.by_name.contains_key(&Name::of(context, key))
    })
}

/// Blocks the client of this command until something is due in one of `keys`, which are all different, or for `timeout` milliseconds (0:
/// for ever), when it is replied nil. With each key goes when its next element comes due, or did. Returns whether it
/// is blocked: Valkey refuses to block some clients, such as one that has subscribed by RESP3.
pub fn block(
    context: &CommandContext,
    keys: &[(Str<'_>, Option<u64>)],
    timeout: u64,
    peek: Peek,
    asks: Box<dyn Asks>,
) -> bool {
    let Some(client) = BlockedClient::block::<Unblocked>(context) else { return false };
    let until_us =
        (timeout > 0).then(|| clock::monotonic_us().saturating_add(timeout.saturating_mul(1000)));
    let blocked = WATCHES.with_borrow_mut(|watches| {
        let names = keys.iter().map(|(key, _)| watches.name(Name::of(context, *key))).collect();
        let ticket = watches.tickets;
        watches.tickets += 1;
        let blocked = Rc::new(Blocked { client: client.handle(), ticket, names, until_us, asks });
        watches.join(client, &blocked, peek);
        blocked
    });
    // How long passes take is measured while anybody is blocked.
    timer::listen();
    if let Some(until_us) = until_us {
        timer::at(context, until_us);
    }
    for (name, (_, next)) in blocked.names.iter().zip(keys) {
        note_name(context, name, *next);
    }
    true
}

/// Notes what there is to wait for in a key, after it was changed. Nobody asks for that, nor for the key's name, while
/// no client is blocked.
pub fn note(context: &Context, key: Str<'_>, outlook: impl FnOnce() -> Outlook) {
    if WATCHES.with_borrow(|watches| !watches.by_name.is_empty()) {
        note_outlook(context, &Name::of(context, key), outlook());
    }
}

/// Says that a pause is over: what is overdue could not be given out before.
pub fn begin(name: &Name) {
    WATCHES.with_borrow_mut(|watches| {
        if let Some(watch) = watches.by_name.get_mut(name) {
            watch.overdue = Overdue::since_now();
        }
    });
}

fn note_outlook(context: &Context, name: &Name, outlook: Outlook) {
    match outlook {
        Outlook::Next(next) => note_name(context, name, next),
        Outlook::Delivered => dismiss(context, name, Error::Delivered),
    }
}

fn note_name(context: &Context, name: &Name, next: Option<u64>) {
    let noted = WATCHES.with_borrow_mut(|watches| {
        let Some((name, watch)) = watches.by_name.get_key_value(name) else { return false };
        let (name, before, is_ready) = (Rc::clone(name), watch.look_at, watch.is_ready);
        if !is_ready {
            watches.look_at(&name, next);
        }
        let watch = watches.by_name.get_mut(&name).expect("it is watched");
        watch.overdue.note(next);
        !is_ready && before != next
    });
    if let Some(next) = next.filter(|_| noted) {
        timer::at_deadline(context, next);
    }
}

/// Has all who wait for a key be sent away, a few at a time from the end of this pass or the next one on: Redis 7.0
/// forgets to reply to a client that CLIENT UNBLOCK meets when it is being unblocked.
fn dismiss(context: &Context, name: &Name, reason: Error) {
    let is_watched = WATCHES.with_borrow_mut(|watches| {
        let Some((name, _)) = watches.by_name.get_key_value(name) else { return false };
        let (name, before) = (Rc::clone(name), watches.tickets);
        watches.dismiss(&name, reason, before);
        true
    });
    if is_watched {
        timer::soon(context);
    }
}

/// Has everybody be sent away: this server has become a replica.
pub fn dismiss_all(context: &Context) {
    WATCHES.with_borrow_mut(|watches| watches.all_dismissed = Some((watches.tickets, None)));
    timer::soon(context);
}

/// Looks at watched keys, one after the other, while `go_on` says so; the next call carries on.
pub fn backstop(context: &Context, mut go_on: impl FnMut() -> bool) {
    let count = WATCHES.with_borrow(|watches| watches.by_name.len());
    for _ in 0..count {
        let Some((name, peek)) = WATCHES.with_borrow_mut(Watches::next) else { return };
        if context.select_db(name.db) {
            let key = OwnedStr::new(&name.key);
            if context.serves(key.as_str()) {
                note_outlook(context, &name, peek(context, key.as_str()));
            } else {
                dismiss(context, &name, Error::Elsewhere);
            }
        }
        if !go_on() {
            return;
        }
    }
}

/// When there is something to do next, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    WATCHES.with_borrow(|watches| {
        let timeout = watches.timeouts.first_key_value().map(|((at, _), _)| *at);
        let at_once = watches.has_work();
        let time = watches.times.first().map(|(at, _)| timer::from_deadline(*at));
        let time = if at_once { Some(0) } else { time };
        let time = time.map(|at| at.max(watches.retry_us));
        timeout.into_iter().chain(time).min()
    })
}

/// Whether somebody is to be given something, so that it matters who has gone.
pub fn is_ready() -> bool {
    WATCHES.with_borrow(|watches| !watches.ready.is_empty())
}

/// Unblocks those who have waited long enough, and, where `may_serve`, serves those whose keys are ready. What is
/// due by now is ready from here on.
pub fn serve(context: &Context, may_serve: bool) {
    time_out(context);
    let now_us = clock::monotonic_us();
    let is_time = |watches: &Watches| watches.has_work() && watches.retry_us <= now_us;
    if may_serve && WATCHES.with_borrow(is_time) {
        WATCHES.with_borrow_mut(|watches| watches.dismiss_some(SERVED_MAX));
        if context.may_write() {
            take_back(context);
            serve_ready(context);
        } else if !dismiss_ready(context) {
            // Who is dismissed takes nothing. The others wait.
            WATCHES.with_borrow_mut(|watches| watches.retry_us = now_us + RETRY_US);
        }
    }
    let now = clock::now();
    WATCHES.with_borrow_mut(|watches| {
        while let Some((_, name)) = watches.times.first().filter(|(at, _)| *at <= now) {
            let name = Rc::clone(name);
            watches.make_ready(&name);
        }
    });
}

/// Serves the lines of keys that are ready, in turn.
fn serve_ready(context: &Context) {
    let ready = WATCHES.with_borrow(|watches| watches.ready.len());
    let mut served = 0;
    for _ in 0..ready {
        if served >= SERVED_MAX {
            return;
        }
        let Some(name) = WATCHES.with_borrow_mut(|watches| watches.ready.pop_front()) else {
            return;
        };
        let sent_away = send_away(context, &name, SERVED_MAX - served);
        served += sent_away;
        if sent_away == 0 {
            served += serve_line(context, &name, SERVED_MAX - served);
        }
    }
}

/// Sends some of the clients away that are dismissed, where nobody can be served. Returns whether there may be more.
fn dismiss_ready(context: &Context) -> bool {
    let ready = WATCHES.with_borrow(|watches| watches.ready.len());
    let mut sent_away = 0;
    for _ in 0..ready {
        let Some(name) = WATCHES.with_borrow_mut(|watches| watches.ready.pop_front()) else {
            return false;
        };
        let before = sent_away;
        sent_away += send_away(context, &name, SERVED_MAX - sent_away);
        if sent_away == before {
            WATCHES.with_borrow_mut(|watches| watches.ready.push_back(name));
        }
        if sent_away >= SERVED_MAX {
            return true;
        }
    }
    WATCHES.with_borrow(|watches| watches.all_dismissed.is_some())
}

/// Serves those who wait for a key, which is ready no more, until nothing is due or so many are served. Returns
/// how many were.
fn serve_line(context: &Context, name: &Rc<Name>, most: usize) -> usize {
    let now = clock::now();
    let peek = WATCHES.with_borrow_mut(|watches| {
        let watch = watches.by_name.get_mut(name)?;
        watch.is_ready = false;
        Some(watch.peek)
    });
    let Some(peek) = peek else { return 0 };
    let key = OwnedStr::new(&name.key);
    let key = key.as_str();
    let outlook = if context.select_db(name.db) { peek(context, key) } else { Outlook::Next(None) };
    note_outlook(context, name, outlook);
    if !matches!(outlook, Outlook::Next(Some(next)) if next <= now) {
        return 0;
    }
    let mut served = 0;
    if !context.lets_clients_write(key) {
        look_at(name, Some(now + RETRY_US / 1000));
        return 0;
    }
    while served < most {
        // The client stays in the table meanwhile: to take calls out, by an event, and another module
        // may do as it likes then, such as to kill the client.
        let first = WATCHES.with_borrow(|watches| {
            let (_, first) = watches.by_name.get(name)?.line.first_key_value()?;
            Some((Rc::clone(first), watches.rather(first, name, now)))
        });
        let Some((first, rather)) = first else { return served };
        let Ok(rather) = rather else {
            // When those who come before it there have been served, it is its turn.
            WATCHES.with_borrow_mut(|watches| watches.make_ready(name));
            return served;
        };
        let from = rather.iter().chain([name]).find_map(|from| take_from(context, &first, from));
        let Some((taken, overdue)) = from else { break };
        trap::pass("woken");
        served += 1;
        latency::record(overdue.late_us(taken.deadline()));
        match WATCHES.with_borrow_mut(|watches| watches.leave(first.client, first.ticket)) {
            Some(client) => unblock(context, client, Outcome::Taken(taken)),
            None => taken.give_back(context),
        }
    }
    if served == 0 {
        // It was due, and could not be taken: the backstop looks again.
        look_at(name, None);
    }
    served
}

/// Takes what is due in one of its keys for a client. With it goes since when that has been overdue.
fn take_from(
    context: &Context,
    blocked: &Blocked,
    from: &Rc<Name>,
) -> Option<(Box<dyn Taken>, Overdue)> {
    let overdue = WATCHES.with_borrow(|watches| Some(watches.by_name.get(from)?.overdue))?;
    let taken = blocked.asks.take(context, OwnedStr::new(&from.key).as_str())?;
    Some((taken, overdue))
}

/// Looks at a key then, in milliseconds since the epoch, unless it is noted anew.
fn look_at(name: &Rc<Name>, at: Option<u64>) {
    WATCHES.with_borrow_mut(|watches| {
        if watches.by_name.get(name).is_some_and(|watch| !watch.is_ready) {
            watches.look_at(name, at);
        }
    });
}

/// Unblocks those who have waited long enough. One whose words were sent twice may wait while what it asks for was given to
/// the other connection: it is told that.
fn time_out(context: &Context) {
    let now_us = clock::monotonic_us();
    for _ in 0..SERVED_MAX {
        let timed_out = WATCHES.with_borrow(|watches| {
            let ((at_us, ticket), client) = watches.timeouts.first_key_value()?;
            (*at_us <= now_us).then_some((*client, *ticket))
        });
        let Some((client, ticket)) = timed_out else { return };
        let blocked =
            WATCHES.with_borrow(|watches| Some(Rc::clone(&watches.by_client.get(&client)?.1)));
        let held = blocked.and_then(|blocked| {
            let db = blocked.names.first()?.db;
            context.select_db(db).then(|| blocked.asks.held(context)).flatten()
        });
        if let Some(client) = WATCHES.with_borrow_mut(|watches| watches.leave(client, ticket)) {
            unblock(context, client, held.map_or(Outcome::TimedOut, Outcome::Taken));
        }
    }
}

/// Unblocks some of those who wait for a key that is ready, if they are dismissed, and has it stay ready then. Returns
/// how many.
fn send_away(context: &Context, name: &Rc<Name>, most: usize) -> usize {
    let watch = |watches: &Watches| watches.by_name.get(name)?.dismissed.clone();
    let Some(dismissed) = WATCHES.with_borrow(watch) else { return 0 };
    let mut count = 0;
    while count < most
        && let Some((client, ticket)) =
            WATCHES.with_borrow_mut(|watches| watches.next_dismissed(name))
    {
        let left = WATCHES.with_borrow_mut(|watches| watches.leave(client, ticket));
        let Some(client) = left else { return count };
        unblock(context, client, Outcome::SentAway(dismissed.reason.clone()));
        count += 1;
    }
    WATCHES.with_borrow_mut(|watches| {
        if count > 0 && watches.by_name.contains_key(name) {
            watches.ready.push_back(Rc::clone(name));
        }
    });
    count
}

/// Takes a client that goes by itself out of the lines. `None`: it is being unblocked already.
fn leave(client: Handle) -> Option<BlockedClient> {
    WATCHES.with_borrow_mut(|watches| {
        let ticket = watches.by_client.get(&client)?.1.ticket;
        watches.leave(client, ticket)
    })
}
