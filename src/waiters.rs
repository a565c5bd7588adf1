//! Clients asleep until something is due.
//!
//! A client that blocks is put behind those that wait for the same key. Nothing is asked of keys that
//! nobody watches: there is no list of all keys, only a table of watched ones. For each of these the
//! server has one timer, armed at the key's next deadline, and moved when an earlier element arrives
//! ([`note`]). When it fires, as many clients are woken as there are elements for, first come, first
//! served; the others sleep on.
//!
//! ```text
//!   POLL … BLOCK ─▶ sleep ─┐                                   note ◀─ PUSH, TOUCH
//!                          ▼                                     │
//!        watches: (db, key) ─▶ [ client, client, … ]  timer ◀────┘
//!                                    │                  │ fires: how much is due?
//!                                    ▼                  │
//!        the server ─▶ on_reply: serve it  ◀── wake ────┘
//! ```
//!
//! Waking takes nothing. The woken client itself takes what is due, in the server's reply callback,
//! where it is known to be there still. The server runs that before it reads any other client's
//! command, so nobody comes between. A client that hung up just then swallows nothing: what it was woken
//! for is still there, and the next one is woken.
//!
//! How long a client waits is seen to here as well, by the same timer: the server's own timeout of a
//! blocked client must not meet a waking, or its reply is lost (Redis 7.0) or the server dies (7.2).
//!
//! What reaches a key by other ways than our commands (RENAME, COPY, MOVE, SWAPDB, RESTORE, a reload), a
//! wall clock that jumped, and a key whose slot another node serves now, are found by the [`backstop`],
//! which the server's cron calls: until then, some 100 ms, the timer is late.
//!
//! This module knows no command and no dehydrator: how to look at a key, and how to serve a client, are
//! handed to it as values.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ops::Bound;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use hashbrown::HashMap;
use redis_module::raw::{self, RedisModuleBlockedClient, RedisModuleCtx, RedisModuleString};

use crate::alarm::Alarm;
use crate::server::guard::guard;
use crate::server::key::Name;
use crate::server::{Context, Error, OwnedStr, Str, api};
use crate::{clock, lateness};

/// Clients that one firing wakes at most; the rest are woken when other clients have had their turn.
const WOKEN_MAX: usize = 64;
/// A client that takes more elements than this is thought to take all there are.
const MANY: usize = 16;
/// While nothing may be replicated (CLIENT PAUSE, FAILOVER), this long until the next look, in
/// milliseconds.
const RETRY: u64 = 20;

/// What there is in a key.
#[derive(Clone, Copy, Default)]
pub struct Peeked {
    /// Elements that are due, counted up to a limit.
    pub due: usize,
    /// When the next element comes due, or did.
    pub next: Option<u64>,
}

/// Looks at a key of the selected database, counting no more than so many elements.
pub type Peek = fn(&Context, Str<'_>, usize) -> Peeked;
/// Takes what is due and replies it.
pub type Serve = Box<dyn Fn(&Context)>;

/// The order in which clients came.
type Ticket = u64;

/// A client asleep.
struct Waiter {
    client: NonNull<RedisModuleBlockedClient>,
    /// As many elements as it will take.
    takes: usize,
    /// When it has waited long enough, in milliseconds since the epoch.
    until: Option<u64>,
    serve: Serve,
}

/// A key that clients wait for.
struct Watch {
    waiters: BTreeMap<Ticket, Waiter>,
    /// Who has waited long enough first.
    timeouts: BTreeSet<(u64, Ticket)>,
    peek: Peek,
    timer: Option<Alarm>,
}

impl Watch {
    /// How many elements must be due for as many clients to be woken as may be. Behind one that takes
    /// many nobody is woken: what it leaves is seen when it has taken.
    fn wanted(&self) -> usize {
        let mut wanted = 0;
        for waiter in self.waiters.values().take(WOKEN_MAX) {
            if waiter.takes > MANY {
                return wanted + 1;
            }
            wanted += waiter.takes;
        }
        wanted
    }

    /// Those who have waited long enough, and as many others as there are elements for.
    fn rise(&mut self, now: u64, mut due: usize) -> Vec<(Waiter, Outcome)> {
        let mut risen = Vec::new();
        while risen.len() < WOKEN_MAX && self.timeouts.first().is_some_and(|(at, _)| *at <= now) {
            let (_, ticket) = self.timeouts.pop_first().expect("there is a first");
            let waiter = self.waiters.remove(&ticket).expect("who times out is asleep");
            risen.push((waiter, Outcome::Nothing));
        }
        while due > 0 && risen.len() < WOKEN_MAX {
            let Some((ticket, waiter)) = self.waiters.pop_first() else { break };
            self.timeouts.remove(&(waiter.until.unwrap_or(0), ticket));
            due -= waiter.takes.min(due);
            risen.push((waiter, Outcome::Due));
        }
        risen
    }
}

/// Why a client is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Something is due.
    Due,
    /// It has waited long enough.
    Nothing,
    /// Another node of the cluster serves the key's slot.
    Elsewhere,
}

/// A client that is being woken.
struct Woken {
    name: Rc<Name>,
    serve: Serve,
    outcome: Outcome,
    replied: Cell<bool>,
}

#[derive(Default)]
struct Watches {
    /// In the order of names, so that the backstop can go on behind the last one it saw.
    by_name: BTreeMap<Rc<Name>, Watch>,
    /// Which key each client waits for, and where in the line it stands.
    by_client: HashMap<NonNull<RedisModuleBlockedClient>, (Rc<Name>, Ticket), ahash::RandomState>,
    tickets: Ticket,
    /// The last name that the backstop saw.
    seen: Option<Rc<Name>>,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static WATCHES: RefCell<Watches> = RefCell::default();
}

/// How many clients are asleep.
pub fn len() -> usize {
    // Also in the report of a crash, which may have happened in the middle of a change.
    WATCHES.with(|watches| watches.try_borrow().map_or(0, |watches| watches.by_client.len()))
}

/// Whether clients are asleep on a key, so that another has to stand behind them.
pub fn is_watched(context: &Context, key: Str<'_>) -> bool {
    WATCHES.with_borrow(|watches| {
        !watches.by_name.is_empty() && watches.by_name.contains_key(&name_of(context, key))
    })
}

/// Puts the client of this command to sleep, until something is due in `key`, or for `timeout`
/// milliseconds (0: for ever), when it is replied nil.
pub fn sleep(
    context: &Context,
    key: Str<'_>,
    timeout: u64,
    takes: usize,
    next: Option<u64>,
    peek: Peek,
    serve: Serve,
) {
    /// For the server it has none. The callback is what CLIENT UNBLOCK asks for.
    const NO_TIMEOUT: i64 = 0;
    // SAFETY: the context is that of a command that may block.
    let client = unsafe {
        let client = api!(RedisModule_BlockClient(
            context.as_ptr(),
            Some(on_reply),
            Some(on_unblock),
            Some(on_free),
            NO_TIMEOUT
        ));
        api!(RedisModule_SetDisconnectCallback(client, Some(on_disconnect)));
        NonNull::new(client).expect("the server blocks the client")
    };
    let until = (timeout > 0).then(|| clock::now().saturating_add(timeout));
    let name = Rc::new(name_of(context, key));
    WATCHES.with_borrow_mut(|watches| {
        let ticket = watches.tickets;
        watches.tickets += 1;
        let watch = watches.by_name.entry(Rc::clone(&name)).or_insert_with(|| Watch {
            waiters: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            peek,
            timer: None,
        });
        watch.waiters.insert(ticket, Waiter { client, takes, until, serve });
        watch.timeouts.extend(until.map(|until| (until, ticket)));
        watches.by_client.insert(client, (Rc::clone(&name), ticket));
    });
    arm(context, &name, next);
}

/// Says when the next element of a key comes due, after something was put into it.
pub fn note(context: &Context, key: Str<'_>, next: Option<u64>) {
    if WATCHES.with_borrow(|watches| !watches.by_name.is_empty()) {
        arm(context, &name_of(context, key), next);
    }
}

/// Looks at watched keys, one after the other, while `go_on` says so; the next call carries on.
pub fn backstop(context: &Context, mut go_on: impl FnMut() -> bool) {
    let count = WATCHES.with_borrow(|watches| watches.by_name.len());
    for _ in 0..count {
        let Some((name, peek)) = WATCHES.with_borrow_mut(Watches::next) else { return };
        if context.select_db(name.db) {
            let key = OwnedStr::new(&name.key);
            if context.serves(key.as_str()) {
                arm(context, &name, peek(context, key.as_str(), 0).next);
            } else {
                send_away(context, &name);
            }
        }
        if !go_on() {
            return;
        }
    }
}

fn name_of(context: &Context, key: Str<'_>) -> Name {
    Name { db: context.selected_db(), key: key.bytes().into() }
}

/// Sees to it that the timer of a watched key fires at `next`, or when the next client has waited long
/// enough, and not much later.
fn arm(context: &Context, name: &Name, next: Option<u64>) {
    WATCHES.with_borrow_mut(|watches| {
        let Some((name, _)) = watches.by_name.get_key_value(name) else { return };
        let name = Rc::clone(name);
        let Some(watch) = watches.by_name.get_mut(&name) else { return };
        let timeout = watch.timeouts.first().map(|(until, _)| *until);
        let Some(at) = next.into_iter().chain(timeout).min() else { return };
        if watch.timer.as_ref().is_some_and(|timer| timer.is_in_time_for(at)) {
            return;
        }
        if let Some(timer) = watch.timer.take() {
            disarm(context, timer);
        }
        let data = Rc::into_raw(name).cast_mut().cast::<c_void>();
        watch.timer = Some(Alarm::set(context, at, on_timer, data));
    });
}

fn disarm(context: &Context, timer: Alarm) {
    if let Some(data) = timer.stop(context) {
        // SAFETY: `arm` made the data of an `Rc`, and nobody else gets it back.
        drop(unsafe { Rc::from_raw(data.cast::<Name>()) });
    }
}

/// Takes a client out. Returns whether it was asleep; if not, it is being woken already.
fn forget(context: &Context, client: NonNull<RedisModuleBlockedClient>) -> bool {
    WATCHES.with_borrow_mut(|watches| {
        let Some((name, ticket)) = watches.by_client.remove(&client) else { return false };
        if let Some(watch) = watches.by_name.get_mut(&name) {
            let waiter = watch.waiters.remove(&ticket);
            let until = waiter.and_then(|waiter| waiter.until);
            watch.timeouts.remove(&(until.unwrap_or(0), ticket));
        }
        watches.remove_if_empty(context, &name);
        true
    })
}

impl Watches {
    /// The key behind the last one that was seen, or the first.
    fn next(&mut self) -> Option<(Rc<Name>, Peek)> {
        let behind = self.seen.as_ref().and_then(|seen| {
            self.by_name.range((Bound::Excluded(Rc::clone(seen)), Bound::Unbounded)).next()
        });
        let (name, watch) = behind.or_else(|| self.by_name.first_key_value())?;
        let (name, peek) = (Rc::clone(name), watch.peek);
        self.seen = Some(Rc::clone(&name));
        Some((name, peek))
    }

    /// Stops watching a key that nobody waits for.
    fn remove_if_empty(&mut self, context: &Context, name: &Rc<Name>) {
        if self.by_name.get(name).is_some_and(|watch| watch.waiters.is_empty()) {
            let timer = self.by_name.remove(name).and_then(|watch| watch.timer);
            if let Some(timer) = timer {
                disarm(context, timer);
            }
        }
    }
}

/// Wakes those who have waited long enough, and as many others as there are elements for.
fn wake(context: &Context, name: &Rc<Name>) {
    let limits = WATCHES.with_borrow_mut(|watches| {
        let watch = watches.by_name.get_mut(name)?;
        watch.timer = None;
        Some((watch.peek, watch.wanted()))
    });
    let Some((peek, limit)) = limits else { return };
    let now = clock::now();
    // Nil may be replied at any time; to take what is due, something must be replicated.
    let peeked = if !context.may_write() {
        Peeked { due: 0, next: Some(now + RETRY) }
    } else if context.select_db(name.db) {
        peek(context, OwnedStr::new(&name.key).as_str(), limit)
    } else {
        Peeked::default()
    };
    if peeked.due > 0
        && let Some(deadline) = peeked.next
    {
        lateness::record(clock::now_us().saturating_sub(deadline.saturating_mul(1000)));
    }
    let risen = WATCHES.with_borrow_mut(|watches| {
        let watch = watches.by_name.get_mut(name);
        let risen = watch.map(|watch| watch.rise(now, peeked.due)).unwrap_or_default();
        for (waiter, _) in &risen {
            watches.by_client.remove(&waiter.client);
        }
        watches.remove_if_empty(context, name);
        risen
    });
    for (waiter, outcome) in risen {
        unblock(name, waiter, outcome);
    }
    // Those who sleep on are looked at again when the woken ones have taken what they were woken for.
    arm(context, name, peeked.next);
}

/// Wakes all who wait for a key that is another node's now.
fn send_away(context: &Context, name: &Rc<Name>) {
    let waiters = WATCHES.with_borrow_mut(|watches| {
        let watch = watches.by_name.get_mut(name);
        let waiters = watch.map(|watch| std::mem::take(&mut watch.waiters)).unwrap_or_default();
        for waiter in waiters.values() {
            watches.by_client.remove(&waiter.client);
        }
        watches.remove_if_empty(context, name);
        waiters
    });
    for waiter in waiters.into_values() {
        unblock(name, waiter, Outcome::Elsewhere);
    }
}

/// Has the server call [`on_reply`] for a client that has just left the table.
fn unblock(name: &Rc<Name>, waiter: Waiter, outcome: Outcome) {
    let Waiter { client, serve, .. } = waiter;
    let woken = Woken { name: Rc::clone(name), serve, outcome, replied: Cell::new(false) };
    let data = Box::into_raw(Box::new(woken)).cast::<c_void>();
    // SAFETY: the client is blocked, and unblocked once: it has just left the table.
    unsafe { api!(RedisModule_UnblockClient(client.as_ptr(), data)) };
}

// The server calls what follows. It hands each callback what the signature says, live for the call:
// that is the promise which every `SAFETY` below leans on.

unsafe extern "C" fn on_timer(context: *mut RedisModuleCtx, data: *mut c_void) {
    guard((), || {
        // SAFETY: the server's promise; the data is what `arm` made of an `Rc`, given back.
        let (context, name) =
            unsafe { (Context::from_raw(context), Rc::from_raw(data.cast::<Name>())) };
        wake(&context, &name);
    });
}

unsafe extern "C" fn on_reply(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard((), || {
        // SAFETY: the server's promise; the data is the box that `wake` handed over.
        let (context, woken) = unsafe {
            let data = api!(RedisModule_GetBlockedClientPrivateData(context));
            (Context::from_raw(context), &*data.cast::<Woken>())
        };
        woken.replied.set(true);
        match woken.outcome {
            // A failover may have begun since it was woken: to replicate now would kill the server.
            Outcome::Due if context.may_write() => guard((), || (woken.serve)(&context)),
            Outcome::Elsewhere => context.reply_error(&Error::Elsewhere),
            Outcome::Due | Outcome::Nothing => {}
        }
        if !context.has_replied() {
            context.reply_null_array();
        }
    });
    raw::REDISMODULE_OK as c_int
}

/// CLIENT UNBLOCK.
unsafe extern "C" fn on_unblock(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard((), || {
        // SAFETY: the server's promise.
        let (context, client) = unsafe {
            let client = api!(RedisModule_GetBlockedClientHandle(context));
            (Context::from_raw(context), client)
        };
        context.reply_null_array();
        leave(&context, client);
    });
    raw::REDISMODULE_OK as c_int
}

/// Also called when the client is killed or unblocked, and when this server becomes a replica.
unsafe extern "C" fn on_disconnect(
    context: *mut RedisModuleCtx,
    client: *mut RedisModuleBlockedClient,
) {
    guard((), || {
        // SAFETY: the server's promise.
        leave(&unsafe { Context::from_raw(context) }, client);
    });
}

/// Forgets a client that goes by itself, and has the server free what it knows of it.
fn leave(context: &Context, client: *mut RedisModuleBlockedClient) {
    let Some(client) = NonNull::new(client) else { return };
    if forget(context, client) {
        // SAFETY: the client is blocked, and unblocked once: it has just left the table.
        unsafe { api!(RedisModule_UnblockClient(client.as_ptr(), ptr::null_mut())) };
    }
}

unsafe extern "C" fn on_free(context: *mut RedisModuleCtx, data: *mut c_void) {
    guard((), || {
        let Some(data) = NonNull::new(data.cast::<Woken>()) else { return };
        // SAFETY: the server's promise; the data is the box that `wake` handed over, given back.
        let (context, woken) =
            unsafe { (Context::from_raw(context), Box::from_raw(data.as_ptr())) };
        if !woken.replied.get() {
            // It hung up when it had been woken: what it was woken for is the next one's.
            arm(&context, &woken.name, Some(0));
        }
    });
}
