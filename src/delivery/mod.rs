//! Moving elements where a policy sends them: what came due, and dead letters.
//!
//! ```text
//!   background::delivery ─▶ deliver ─▶ send: a copy of each by XADD or PUBLISH, or of all by RPUSH; and then REM of all
//!                 ├──────▶ move_dead_letters ─────▲  ▲
//!                 │  POLL that meets dead letters
//!                 └──────▶ retry, of what is stuck
//! ```
//!
//! Whatever calls out (a command of the server's, which publishes events of its own) may change anything, so each
//! element is looked at again before it is sent, and no key is open meanwhile.
//!
//! What was sent is removed, or the process ends: a panic in between would leave it in both places.
//!
//! *Dead letters.* Under a limit of deliveries an element that is due, and was given out as often, is exhausted. It goes
//! when its turn comes: when it is the first in the order of delivery. To know that takes a look at the first, and no
//! index of those that are exhausted. So both who gives elements out and who delivers them may meet it first. Whoever
//! does moves it, in the same transaction as what it does besides; so nobody is given it, and nobody has to wait until
//! somebody else has moved it.
//!
//! One that cannot go (its stream's key holds something else, memory has run out) must not keep those behind it
//! waiting: they can be taken. It is *stuck*: put aside once, as TOUCH does, behind everything that any clock comes to, and
//! tried from there again and again, of which nobody need hear. So what is first in the order is always something that can
//! be given out, or that may go; nobody walks over what is stuck, however much that is.

mod batch;
mod carrier;

use std::cell::{Cell, OnceCell};

use self::batch::{BATCH, batch_of, batch_of_held};
use self::carrier::Carrier;
use crate::clock;
use crate::data_type::{
    DEAD_LETTERS_MAX, Dehydrator, ElementCopy, REJECTED, STUCK, Writing, inspect, is_dead,
};
use crate::metrics::counters::{self, DEAD_LETTERS, RETRIES};
use crate::pending::schedule;
use crate::policy::{Policy, Route};
use crate::replicate::{self, Batch};
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::key::Name;
use crate::server::{Context, Str, log_warning};
use lawn::Token;

/// Why nothing is dropped or published while clients may not write.
pub const REFUSED: &str = "the server refuses writes now (NOREPLICAS, MISCONF)";

/// Why nothing goes where it belongs while its slot comes from another node: the stream or the list may not have come yet, and
/// could not come any more if there was another one.
const IMPORTING: &str = "the slot is being moved to this node";

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    /// To ask what is so for others than the client whose command runs: that one may be here by ASKING.
    static DETACHED: OnceCell<Context> = const { OnceCell::new() };
}

/// Returns whether the slot of a key is on its way to this node.
fn is_importing(context: &Context, key: Str<'_>) -> bool {
    context.is_cluster()
        && DETACHED.with(|detached| !detached.get_or_init(|| context.detached()).serves(key))
}

/// Why nothing goes by a policy that came by RESTORE.
const UNCONFIRMED: &str = "the policy came by RESTORE: send it again by ONDUE to confirm it";

/// Moves some of what comes first, and is due, to where the policy sends it, for as long as `go_on` says so. Returns how
/// many were moved, and, if one could not be, why.
pub fn deliver(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    go_on: impl FnMut() -> bool,
) -> (u64, Result<(), String>) {
    if policy.route() == Some(&Route::Drop) {
        // In a run, without a copy of what nobody is to have.
        if context.lets_clients_write(key) {
            return (drop_due(context, key, policy, now), Ok(()));
        }
        return (0, Err(REFUSED.to_owned()));
    }
    // Copied, because the commands that follow may call others that listen, who may do as they like.
    let collect = |dehydrator: &Dehydrator| {
        let due = dehydrator.lawn.iter_until(now).take(dehydrator.deliverable(now));
        let due = due.take_while(|(_, element)| policy.routes(element.deliveries));
        batch_of(due.map(|(ttl, element)| ElementCopy::new(element, ttl, None)))
    };
    let batch = inspect(context, key, collect).unwrap_or_default();
    let (sent, result) = send(context, key, policy, batch, now, go_on);
    (sent.len() as u64, result)
}

/// Sends copies of elements where the policy has them go, and takes those out that have gone. Returns which have, and, if
/// one could not go, why.
fn send(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    batch: Vec<ElementCopy>,
    now: u64,
    mut go_on: impl FnMut() -> bool,
) -> (Vec<ElementCopy>, Result<(), String>) {
    let Some(route) = policy.route().filter(|_| !batch.is_empty()) else {
        return (Vec::new(), Ok(()));
    };
    let mut carrier = Carrier::of(route, policy.is_limit());
    let adds = carrier.as_ref().is_some_and(|carrier| carrier.adds);
    if adds && context.is_out_of_memory() {
        return (Vec::new(), Err("OOM used memory > 'maxmemory'".to_owned()));
    }
    // A stream is written to, and refuses by itself.
    if !adds && !context.lets_clients_write(key) {
        return (Vec::new(), Err(REFUSED.to_owned()));
    }
    if adds && is_importing(context, key) {
        return (Vec::new(), Err(IMPORTING.to_owned()));
    }
    let is_confirmed = |dehydrator: &Dehydrator| dehydrator.rules().trust.is_confirmed();
    if inspect(context, key, is_confirmed) == Some(false) {
        return (Vec::new(), Err(UNCONFIRMED.to_owned()));
    }
    let is_there = |copy: &ElementCopy, dehydrator: &Dehydrator| {
        dehydrator.rules().policy == *policy
            && is_confirmed(dehydrator)
            // A client that rejects what it holds need not wait.
            && (copy.token.is_some() || !dehydrator.is_paused(now))
            && copy.is_in(&dehydrator.lawn)
            && copy.has_same_payload(&dehydrator.lawn)
    };
    let (mut sent, mut result) = (Vec::new(), Ok(()));
    let mut whole = None;
    let most = if carrier.as_ref().is_some_and(|carrier| carrier.takes_all) { BATCH } else { 1 };
    let mut left = batch.into_iter();
    while !left.as_slice().is_empty() {
        let mut load: Vec<_> = left.by_ref().take(most).collect();
        // Nobody is called between this look and the command that takes all of them.
        inspect(context, key, |dehydrator| load.retain(|copy| is_there(copy, dehydrator)))
            .unwrap_or_else(|| load.clear());
        if load.is_empty() {
            continue;
        }
        whole.get_or_insert_with(AbortOnPanic::begin);
        result = carrier.as_mut().map_or(Ok(()), |carrier| carrier.send(context, &load));
        trap::pass("sent");
        if result.is_err() {
            break;
        }
        sent.append(&mut load);
        if !go_on() {
            break;
        }
    }
    remove(context, key, policy, &sent);
    drop(whole);
    (sent, result)
}

/// Moves some of the dead letters that come first to where they go, or puts them aside if they cannot go there. Returns
/// how many come first no more.
pub fn move_dead_letters(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    go_on: impl FnMut() -> bool,
) -> u64 {
    // Who listens to what is sent may ask for elements: what is being moved is still there then.
    let Some(_guard) = MovingDeadLetters::begin() else { return 0 };
    let name = Name::of(context, key);
    // What failed a moment ago is not tried for each that comes due meanwhile.
    if schedule::is_backing_off(&name) {
        return park(context, key, policy, now);
    }
    let (moved, result) = deliver(context, key, policy, now, go_on);
    counters::count(&DEAD_LETTERS, moved);
    let Err(reason) = result else {
        if moved > 0 {
            schedule::succeeded(context, &name);
        }
        return moved;
    };
    failed(&name, &reason);
    moved + park(context, key, policy, now)
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static IS_MOVING: Cell<bool> = const { Cell::new(false) };
}

/// Dead letters are being moved, for as long as it lives.
struct MovingDeadLetters;

impl MovingDeadLetters {
    /// Begins to move them. `None` if they are being moved already.
    fn begin() -> Option<Self> {
        (!IS_MOVING.replace(true)).then_some(Self)
    }
}

impl Drop for MovingDeadLetters {
    fn drop(&mut self) {
        IS_MOVING.set(false);
    }
}

/// Notes that deliveries fail, and says so once. Returns after how many microseconds they are to be tried again.
pub fn failed(name: &Name, reason: &str) -> u64 {
    counters::count(&RETRIES, 1);
    let (is_first, wait_us) = schedule::failed(name, reason);
    if is_first {
        log_warning(&format!(
            "dehydrator: what is due in '{}' (db {}) could not be delivered, and stays until it can: {reason}",
            name.key.escape_ascii(),
            name.db,
        ));
    }
    wait_us
}

/// Puts some of the dead letters that come first behind everything else, where they stand until they can go: told once,
/// however often they are tried.
fn park(context: &Context, key: Str<'_>, policy: &Policy, now: u64) -> u64 {
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
    if dehydrator.policy() != policy {
        return 0;
    }
    let Some(lawn) = dehydrator.lawn() else { return 0 };
    let ids: Vec<Vec<u8>> = lawn
        .iter_until(now)
        .take_while(|(_, element)| policy.routes(element.deliveries))
        .take(BATCH)
        .map(|(_, element)| element.id.to_vec())
        .collect();
    let mut count = 0;
    for id in ids {
        if lawn.restart_at(&id, STUCK, STUCK) {
            replicate::touched(context, key, &id, STUCK, STUCK);
            count += 1;
        }
    }
    if count > 0 {
        dehydrator.note_timer(STUCK, STUCK);
        dehydrator.changed(c"dehydrator.touch");
    }
    count
}

/// What became of dead letters that were stuck.
pub enum Retried {
    /// None is left.
    All,
    /// There are more of them.
    Some,
    /// They cannot go yet, for this reason.
    Fails(String),
}

/// Tries again to move some of the dead letters that are stuck. Those that are none any more, because another policy was
/// said, are given back: they are due.
pub fn retry(context: &Context, key: Str<'_>, now: u64, go_on: impl FnMut() -> bool) -> Retried {
    let Some(_guard) = MovingDeadLetters::begin() else { return Retried::Some };
    let policy = inspect(context, key, |dehydrator| dehydrator.rules().policy.clone());
    let policy = policy.unwrap_or_default();
    give_back_stuck(context, key, &policy, now);
    let first = |dehydrator: &Dehydrator| {
        dehydrator.look_for_stuck();
        let dead = dehydrator.stuck().take_while(|row| is_dead(row, &policy));
        batch_of(dead.map(|row| ElementCopy::new(row.element, row.ttl, None)))
    };
    let batch = inspect(context, key, first).unwrap_or_default();
    let (moved, result) = send(context, key, &policy, batch, now, go_on);
    let moved = moved.len() as u64;
    counters::count(&DEAD_LETTERS, moved);
    if moved > 0 {
        schedule::succeeded(context, &Name::of(context, key));
    }
    if let Err(reason) = result {
        return Retried::Fails(reason);
    }
    let is_left = inspect(context, key, |dehydrator| {
        dehydrator.look_for_stuck();
        dehydrator.tracking().has_stuck()
    });
    if is_left == Some(true) { Retried::Some } else { Retried::All }
}

/// Gives some of what is stuck back that is no dead letter by this policy.
fn give_back_stuck(context: &Context, key: Str<'_>, policy: &Policy, now: u64) {
    let alive = inspect(context, key, |dehydrator| {
        let first = dehydrator.stuck().take(DEAD_LETTERS_MAX);
        let alive = first.filter(|row| !is_dead(row, policy)).take(BATCH);
        alive.map(|row| row.element.id.to_vec()).collect::<Vec<_>>()
    });
    let Some(alive) = alive.filter(|ids| !ids.is_empty()) else { return };
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return };
    let Some(lawn) = dehydrator.lawn() else { return };
    for id in alive {
        // As RENEW with a ttl of 0.
        if lawn.restart_at(&id, 0, now) {
            replicate::touched(context, key, &id, 0, now);
        }
    }
    dehydrator.changed(c"dehydrator.touch");
}

/// Moves elements that somebody holds to where dead letters go, whatever their counts, or puts them aside if they cannot go
/// there. Returns for each whether it was held under that token, and is a dead letter now.
pub fn reject(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    held: &[(Token, Str<'_>)],
    now: u64,
) -> Vec<bool> {
    let guard = MovingDeadLetters::begin();
    let name = Name::of(context, key);
    let mut rejected = vec![false; held.len()];
    let mut next = 0;
    while next < held.len() {
        let first = next;
        let batch =
            inspect(context, key, |dehydrator| batch_of_held(&dehydrator.lawn, held, &mut next));
        let Some(batch) = batch else { break };
        // Who listens to what is sent may reject more. That waits for its turn, as after what failed a moment ago.
        if guard.is_some() && !schedule::is_backing_off(&name) {
            let (sent, result) = send(context, key, policy, batch, now, || true);
            counters::count(&DEAD_LETTERS, sent.len() as u64);
            match result {
                Err(reason) => _ = failed(&name, &reason),
                Ok(()) if !sent.is_empty() => schedule::succeeded(context, &name),
                Ok(()) => {}
            }
            // In the same order, though some of these may not have been held.
            let mut sent = sent.iter().peekable();
            for ((token, id), is_rejected) in held.iter().zip(&mut rejected).take(next).skip(first)
            {
                let is_it =
                    |copy: &&ElementCopy| copy.token == Some(*token) && copy.id() == id.bytes();
                *is_rejected = sent.next_if(is_it).is_some();
            }
        }
        park_rejected(context, key, policy, now, &held[first..next], &mut rejected[first..]);
    }
    rejected
}

/// Puts those of these elements that are still held behind everything else, where dead letters stand that are stuck.
fn park_rejected(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    held: &[(Token, Str<'_>)],
    rejected: &mut [bool],
) {
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return };
    if dehydrator.policy() != policy {
        return;
    }
    let Some(lawn) = dehydrator.lawn() else { return };
    let mut any = false;
    for ((token, id), is_rejected) in held.iter().zip(rejected) {
        if !lawn.holds(id.bytes(), *token) {
            continue;
        }
        // Nobody is to hold it any more.
        for (ttl, deadline) in [(0, now), (REJECTED, STUCK)] {
            if lawn.restart_at(id.bytes(), ttl, deadline) {
                replicate::touched(context, key, id.bytes(), ttl, deadline);
            }
        }
        *is_rejected = true;
        any = true;
    }
    if any {
        dehydrator.note_timer(REJECTED, STUCK);
        dehydrator.changed(c"dehydrator.touch");
    }
}

/// Takes out what was delivered.
fn remove<'a>(context: &'a Context, key: Str<'a>, policy: &Policy, batch: &'a [ElementCopy]) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let until = dehydrator.remembers_until().filter(|_| !policy.is_limit());
    let mut removed = Batch::settled(context, key, until);
    if let Some(mut removal) = dehydrator.removal(until) {
        for copy in batch {
            let id = copy.id.as_str();
            // A listener to the stream's events may have taken it, and put another one there.
            let is_there = copy.is_in(removal.lawn) || copy.is_rejected(removal.lawn);
            if is_there && removal.settle(id.bytes()) {
                removed.push_sent(id);
            }
        }
    }
    if removed.finish() {
        if policy.delivers() && dehydrator.limits().is_some() {
            // Not before the last of them went: an entry of a stream says when that was.
            let (moment, count) = (clock::now(), batch.len() as u64);
            if dehydrator.note_given(moment, count) {
                replicate::given(context, key, moment, count);
            }
        }
        let is_dropped = policy.route() == Some(&Route::Drop);
        let event = if is_dropped { c"dehydrator.drop" } else { c"dehydrator.deliver" };
        dehydrator.shrunk(event);
    }
}

/// Takes out some of what is due, for nobody.
fn drop_due(context: &Context, key: Str<'_>, policy: &Policy, now: u64) -> u64 {
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
    // To ask whether clients may write was a call out.
    if dehydrator.policy() != policy || dehydrator.is_paused(now) {
        return 0;
    }
    let until = dehydrator.remembers_until().filter(|_| !policy.is_limit());
    let mut removed = Batch::settled(context, key, until);
    let mut count = 0;
    if let Some(mut removal) = dehydrator.removal(until) {
        let most = if policy.is_limit() {
            let first = removal.lawn.iter_until(now).take(BATCH);
            first.take_while(|(_, element)| policy.routes(element.deliveries)).count()
        } else {
            BATCH
        };
        count = removal.drain(now, most, |_, element| removed.push(element.id));
    }
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.drop");
    }
    count as u64
}
