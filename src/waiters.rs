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
//! What reaches a key by other ways than our commands (RENAME, COPY, MOVE, SWAPDB, RESTORE, a reload) is
//! found by the [`backstop`], which the server's cron calls: until then, some 100 ms, the timer is late.
//!
//! This module knows no command and no dehydrator: how to look at a key, and how to serve a client, are
//! handed to it as values.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use hashbrown::HashMap;
use redis_module::raw::{
    self, RedisModuleBlockedClient, RedisModuleCtx, RedisModuleString, RedisModuleTimerID,
};

use crate::clock;
use crate::server::guard::guard;
use crate::server::key::Name;
use crate::server::{Context, OwnedStr, Str, api};

/// Clients that one firing wakes at most; the rest are woken when other clients have had their turn.
const WOKEN_MAX: usize = 64;
/// A client that takes more elements than this is thought to take all there are.
const MANY: usize = 16;
/// A timer is armed no further ahead, in milliseconds: the server adds it to its clock, in microseconds.
const AHEAD_MAX: u64 = 3_600_000;
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

/// A client asleep.
struct Waiter {
    client: NonNull<RedisModuleBlockedClient>,
    /// As many elements as it will take.
    takes: usize,
    serve: Serve,
}

/// A key that clients wait for.
struct Watch {
    waiters: VecDeque<Waiter>,
    peek: Peek,
    timer: Option<Timer>,
}

impl Watch {
    /// How many elements must be due for as many clients to be woken as may be. Behind one that takes
    /// many nobody is woken: what it leaves is seen when it has taken.
    fn wanted(&self) -> usize {
        let mut wanted = 0;
        for waiter in self.waiters.iter().take(WOKEN_MAX) {
            if waiter.takes > MANY {
                return wanted + 1;
            }
            wanted += waiter.takes;
        }
        wanted
    }
}

/// A timer that will fire at `at`, in milliseconds since the epoch, or a little later.
struct Timer {
    id: RedisModuleTimerID,
    at: u64,
}

/// A client that is being woken.
struct Woken {
    name: Rc<Name>,
    serve: Serve,
    served: Cell<bool>,
}

#[derive(Default)]
struct Watches {
    by_name: HashMap<Rc<Name>, Watch, ahash::RandomState>,
    /// Which key each client waits for.
    by_client: HashMap<NonNull<RedisModuleBlockedClient>, Rc<Name>, ahash::RandomState>,
    /// Where the backstop goes on.
    turn: usize,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static WATCHES: RefCell<Watches> = RefCell::default();
}

/// How many clients are asleep.
pub fn len() -> usize {
    WATCHES.with_borrow(|watches| watches.by_client.len())
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
    timeout: i64,
    takes: usize,
    next: Option<u64>,
    peek: Peek,
    serve: Serve,
) {
    // SAFETY: the context is that of a command that may block.
    let client = unsafe {
        let client = api!(RedisModule_BlockClient(
            context.as_ptr(),
            Some(on_reply),
            Some(on_timeout),
            Some(on_free),
            timeout
        ));
        api!(RedisModule_SetDisconnectCallback(client, Some(on_disconnect)));
        NonNull::new(client).expect("the server blocks the client")
    };
    let name = Rc::new(name_of(context, key));
    WATCHES.with_borrow_mut(|watches| {
        let watch = watches.by_name.entry(Rc::clone(&name)).or_insert_with(|| Watch {
            waiters: VecDeque::new(),
            peek,
            timer: None,
        });
        watch.waiters.push_back(Waiter { client, takes, serve });
        watches.by_client.insert(client, Rc::clone(&name));
    });
    arm(context, &name, next);
}

/// Says when the next element of a key comes due, after something was put into it.
pub fn note(context: &Context, key: Str<'_>, next: Option<u64>) {
    if is_watched(context, key) {
        arm(context, &name_of(context, key), next);
    }
}

/// Looks at watched keys, some at each call, while `go_on` says so.
pub fn backstop(context: &Context, mut go_on: impl FnMut() -> bool) {
    let names: Vec<_> = WATCHES.with_borrow_mut(|watches| {
        let count = watches.by_name.len();
        let first = if count == 0 { 0 } else { watches.turn % count };
        let names = watches.by_name.keys().cycle().skip(first).take(count).cloned();
        names.collect()
    });
    for name in names {
        let peek = WATCHES.with_borrow_mut(|watches| {
            watches.turn += 1;
            watches.by_name.get(&name).map(|watch| watch.peek)
        });
        let Some(peek) = peek else { continue };
        if context.select_db(name.db) {
            let next = peek(context, OwnedStr::new(&name.key).as_str(), 0).next;
            arm(context, &name, next);
        }
        if !go_on() {
            return;
        }
    }
}

fn name_of(context: &Context, key: Str<'_>) -> Name {
    Name { db: context.selected_db(), key: key.bytes().into() }
}

/// Sees to it that the timer of a watched key fires at `next`, or before.
fn arm(context: &Context, name: &Name, next: Option<u64>) {
    let Some(next) = next else { return };
    let now = clock::now();
    let at = next.clamp(now, now + AHEAD_MAX);
    WATCHES.with_borrow_mut(|watches| {
        let Some((name, watch)) = watches.by_name.get_key_value_mut(name) else { return };
        if watch.timer.as_ref().is_some_and(|timer| timer.at <= at) {
            return;
        }
        if let Some(timer) = watch.timer.take() {
            disarm(context, timer);
        }
        let data = Rc::into_raw(Rc::clone(name)).cast_mut().cast::<c_void>();
        // SAFETY: the context is live. The data is given back when the timer fires or is stopped.
        let id = unsafe {
            api!(RedisModule_CreateTimer(context.as_ptr(), (at - now) as i64, Some(on_timer), data))
        };
        watch.timer = Some(Timer { id, at });
    });
}

fn disarm(context: &Context, timer: Timer) {
    let mut data = ptr::null_mut();
    // SAFETY: the context is live. A timer that was still there gives its data back, which `arm` made
    // of an `Rc`.
    unsafe {
        let status = api!(RedisModule_StopTimer(context.as_ptr(), timer.id, &mut data));
        if status == raw::REDISMODULE_OK as c_int {
            drop(Rc::from_raw(data.cast::<Name>()));
        }
    }
}

/// Takes a client out. Returns whether it was asleep; if not, it is being woken already.
fn forget(context: &Context, client: NonNull<RedisModuleBlockedClient>) -> bool {
    WATCHES.with_borrow_mut(|watches| {
        let Some(name) = watches.by_client.remove(&client) else { return false };
        let Some(watch) = watches.by_name.get_mut(&name) else { return false };
        watch.waiters.retain(|waiter| waiter.client != client);
        if watch.waiters.is_empty() {
            watches.remove(context, &name);
        }
        true
    })
}

impl Watches {
    /// Stops watching a key.
    fn remove(&mut self, context: &Context, name: &Name) {
        let timer = self.by_name.remove(name).and_then(|watch| watch.timer);
        if let Some(timer) = timer {
            disarm(context, timer);
        }
    }
}

/// Wakes as many clients as there are elements for.
fn wake(context: &Context, name: &Rc<Name>) {
    let limits = WATCHES.with_borrow_mut(|watches| {
        let watch = watches.by_name.get_mut(name)?;
        watch.timer = None;
        Some((watch.peek, watch.wanted()))
    });
    let Some((peek, limit)) = limits else { return };
    if !context.may_replicate() {
        return arm(context, name, Some(clock::now() + RETRY));
    }
    if !context.select_db(name.db) {
        return;
    }
    let Peeked { mut due, next } = peek(context, OwnedStr::new(&name.key).as_str(), limit);

    let woken: Vec<_> = WATCHES.with_borrow_mut(|watches| {
        let Some(watch) = watches.by_name.get_mut(name) else { return Vec::new() };
        let mut woken = Vec::new();
        while due > 0 && woken.len() < WOKEN_MAX {
            let Some(waiter) = watch.waiters.pop_front() else { break };
            due -= waiter.takes.min(due);
            watches.by_client.remove(&waiter.client);
            woken.push(waiter);
        }
        if watch.waiters.is_empty() {
            watches.remove(context, name);
        }
        woken
    });
    for Waiter { client, serve, .. } in woken {
        let woken = Woken { name: Rc::clone(name), serve, served: Cell::new(false) };
        let data = Box::into_raw(Box::new(woken)).cast::<c_void>();
        // SAFETY: the client is blocked, and unblocked once: it has just left the table.
        unsafe { api!(RedisModule_UnblockClient(client.as_ptr(), data)) };
    }
    // Those who sleep on are looked at again when the woken ones have taken what they were woken for.
    arm(context, name, next);
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
        woken.served.set(true);
        guard((), || {
            // A failover may have begun since it was woken: to replicate now would kill the server.
            if context.may_replicate() {
                (woken.serve)(&context);
            }
        });
        if !context.has_replied() {
            context.reply_null_array();
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_timeout(
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
        if !woken.served.get() {
            // It hung up when it had been woken: what it was woken for is the next one's.
            arm(&context, &woken.name, Some(0));
        }
    });
}
