//! Moving elements where a policy sends them: what came due, and dead letters.
//!
//! ```text
//!   background::delivery ─▶ deliver ─▶ send: a copy of each by XADD or PUBLISH, or of all by RPUSH; and then REM of all
//!                 ├──────▶ retire ─────▲  ▲
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

use std::cell::Cell;
use std::ffi::CStr;

use crate::clock;
use crate::data_type::{Dehydrator, STUCK, Writing, inspect};
use crate::lawn::{Element, Lawn};
use crate::metrics::counters::{self, DEAD_LETTERS, RETRIES};
use crate::pending::{schedule, timer};
use crate::policy::{End, MaxLen, Policy, Route};
use crate::replicate::{self, Batch};
use crate::server::guard::{Whole, trap};
use crate::server::key::Name;
use crate::server::{Context, OwnedStr, Str, log};

/// Elements that are delivered before their removal is told: a few, so that the time that takes is
/// within the budget too.
const BATCH: usize = 64;
/// Bytes of elements in a batch, but for the last one: they are copied, and copied again by what takes them.
const BATCH_BYTES: usize = 64 * 1024;

/// Why nothing is dropped or published while clients may not write.
pub const REFUSED: &str = "the server refuses writes now (NOREPLICAS, MISCONF)";

/// Why nothing goes by a policy that came by RESTORE.
const UNCONFIRMED: &str = "the policy came by RESTORE: send it again by ONDUE to confirm it";

/// What an element is delivered as.
struct Delivery {
    id: OwnedStr,
    element: OwnedStr,
    deadline: u64,
    deliveries: u16,
}

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
        let due = dehydrator.lawn.iter_until(now).map(|(_, element)| element);
        let due = due.take(dehydrator.deliverable(now));
        batch_of(due.take_while(|element| policy.sends(element.deliveries)))
    };
    let batch = inspect(context, key, collect).unwrap_or_default();
    send(context, key, policy, batch, now, go_on)
}

/// Sends copies of elements where the policy has them go, and takes those out that have gone. Returns how many have, and,
/// if one could not go, why.
fn send(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    batch: Vec<Delivery>,
    now: u64,
    mut go_on: impl FnMut() -> bool,
) -> (u64, Result<(), String>) {
    let Some(route) = policy.route().filter(|_| !batch.is_empty()) else { return (0, Ok(())) };
    let mut carrier = Carrier::of(route, policy.limits());
    let adds = carrier.as_ref().is_some_and(|carrier| carrier.adds);
    if adds && context.is_out_of_memory() {
        return (0, Err("OOM used memory > 'maxmemory'".to_owned()));
    }
    // A stream is written to, and refuses by itself.
    if !adds && !context.lets_clients_write(key) {
        return (0, Err(REFUSED.to_owned()));
    }
    let is_confirmed = |dehydrator: &Dehydrator| dehydrator.rules.trust.is_confirmed();
    if inspect(context, key, is_confirmed) == Some(false) {
        return (0, Err(UNCONFIRMED.to_owned()));
    }
    let is_there = |delivery: &Delivery, dehydrator: &Dehydrator| {
        dehydrator.rules.policy == *policy
            && is_confirmed(dehydrator)
            && !dehydrator.is_paused(now)
            && delivery.is_in(&dehydrator.lawn)
    };
    let (mut sent, mut result) = (Vec::new(), Ok(()));
    let mut whole = None;
    let most = if carrier.as_ref().is_some_and(|carrier| carrier.takes_all) { BATCH } else { 1 };
    let mut left = batch.into_iter();
    while !left.as_slice().is_empty() {
        let mut load: Vec<_> = left.by_ref().take(most).collect();
        // Nobody is called between this look and the command that takes all of them.
        inspect(context, key, |dehydrator| load.retain(|delivery| is_there(delivery, dehydrator)))
            .unwrap_or_else(|| load.clear());
        if load.is_empty() {
            continue;
        }
        whole.get_or_insert_with(Whole::begin);
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
    remove(context, key, policy, &sent, now);
    drop(whole);
    (sent.len() as u64, result)
}

/// Moves some of the dead letters that come first to where they go, or puts them aside if they cannot go there. Returns
/// how many come first no more.
pub fn retire(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    go_on: impl FnMut() -> bool,
) -> u64 {
    // Who listens to what is sent may ask for elements: what is being moved is still there then.
    let Some(_guard) = Retiring::begin() else { return 0 };
    let name = Name::of(context, key);
    // What failed a moment ago is not tried for each that comes due meanwhile.
    if schedule::waits(&name) {
        return put_aside(context, key, policy, now);
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
    moved + put_aside(context, key, policy, now)
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static RETIRES: Cell<bool> = const { Cell::new(false) };
}

/// Dead letters are being moved, for as long as it lives.
struct Retiring;

impl Retiring {
    /// Begins to move them. `None` if they are being moved already.
    fn begin() -> Option<Self> {
        (!RETIRES.replace(true)).then_some(Self)
    }
}

impl Drop for Retiring {
    fn drop(&mut self) {
        RETIRES.set(false);
    }
}

/// Notes that deliveries fail, and says so once. Returns after how many microseconds they are to be tried again.
pub fn failed(name: &Name, reason: &str) -> u64 {
    counters::count(&RETRIES, 1);
    let (is_first, wait_us) = schedule::failed(name, reason);
    if is_first {
        log::warning(&format!(
            "dehydrator: what is due in '{}' (db {}) could not be delivered, and stays until it can: {reason}",
            name.key.escape_ascii(),
            name.db,
        ));
    }
    wait_us
}

/// Puts some of the dead letters that come first behind everything else, where they stand until they can go: told once,
/// however often they are tried.
fn put_aside(context: &Context, key: Str<'_>, policy: &Policy, now: u64) -> u64 {
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
    if dehydrator.policy() != policy {
        return 0;
    }
    let Some(lawn) = dehydrator.lawn() else { return 0 };
    let ids: Vec<Vec<u8>> = lawn
        .iter_until(now)
        .take_while(|(_, element)| policy.sends(element.deliveries))
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
    let Some(_guard) = Retiring::begin() else { return Retried::Some };
    let policy = inspect(context, key, |dehydrator| dehydrator.rules.policy.clone());
    let policy = policy.unwrap_or_default();
    give_back_stuck(context, key, &policy, now);
    let first = |dehydrator: &Dehydrator| {
        dehydrator.look_for_stuck();
        let rows = dehydrator.stuck().map(|row| row.element);
        batch_of(rows.take_while(|element| policy.limits() && policy.sends(element.deliveries)))
    };
    let batch = inspect(context, key, first).unwrap_or_default();
    let (moved, result) = send(context, key, &policy, batch, now, go_on);
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
    let is_dead = |deliveries| policy.limits() && policy.sends(deliveries);
    let alive = inspect(context, key, |dehydrator| {
        let first = dehydrator.stuck().take(BATCH).filter(|row| !is_dead(row.element.deliveries));
        first.map(|row| row.element.id.to_vec()).collect::<Vec<_>>()
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

impl Delivery {
    /// Returns whether the element that was copied is still there, and waits for the same time.
    fn is_in(&self, lawn: &Lawn) -> bool {
        lawn.look(self.id.as_str().bytes()).is_some_and(|element| {
            element.deadline == self.deadline && element.deliveries == self.deliveries
        })
    }
}

/// Copies of the first of these elements.
fn batch_of<'a>(elements: impl Iterator<Item = Element<'a>>) -> Vec<Delivery> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for element in elements.take(BATCH) {
        bytes += element.payload.len();
        batch.push(Delivery {
            id: OwnedStr::new(element.id),
            element: OwnedStr::new(element.payload),
            deadline: element.deadline,
            deliveries: element.deliveries,
        });
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    batch
}

/// The command of the server's that moves elements.
struct Carrier {
    name: &'static CStr,
    /// The words before the id, or before the element if that is all that is sent.
    head: Vec<OwnedStr>,
    /// The names of a stream's fields.
    fields: Option<FieldNames>,
    /// Whether it moves a batch at once.
    takes_all: bool,
    /// Whether it adds data, which a server without memory does not take.
    adds: bool,
    /// Whether the stream's last id is later than the clock, so that the server makes the next one.
    is_ahead: bool,
}

/// The names of the fields of a stream's entry.
struct FieldNames {
    id: OwnedStr,
    element: OwnedStr,
    /// Of a dead letter's.
    deliveries: Option<OwnedStr>,
}

impl Carrier {
    /// Makes the command. `None` if nothing is sent.
    fn of(route: &Route, is_dead: bool) -> Option<Self> {
        let plain = |name, key: &[u8]| Self {
            name,
            head: vec![OwnedStr::new(key)],
            fields: None,
            takes_all: false,
            adds: false,
            is_ahead: false,
        };
        match route {
            Route::Drop => None,
            Route::Stream { dest, maxlen } => {
                let mut carrier = Self { adds: true, ..plain(c"XADD", dest) };
                let trim = maxlen.map(MaxLen::words).into_iter().flatten();
                carrier.head.extend(trim.map(|word| OwnedStr::new(&word)));
                carrier.fields = Some(FieldNames {
                    id: OwnedStr::new(b"id"),
                    element: OwnedStr::new(b"element"),
                    deliveries: is_dead.then(|| OwnedStr::new(b"deliveries")),
                });
                Some(carrier)
            }
            Route::List { dest, end } => {
                let name = match end {
                    End::Right => c"RPUSH",
                    End::Left => c"LPUSH",
                };
                Some(Self { takes_all: true, adds: true, ..plain(name, dest) })
            }
            Route::Publish { channel } => Some(plain(c"PUBLISH", channel)),
        }
    }

    /// Sends copies of these elements, in order.
    fn send(&mut self, context: &Context, load: &[Delivery]) -> Result<(), String> {
        let result = if self.fields.is_some() {
            load.iter().try_for_each(|delivery| self.add(context, delivery))
        } else {
            let elements = load.iter().map(|delivery| &delivery.element);
            let words = self.head.iter().chain(elements).map(OwnedStr::as_str);
            context.call(self.name, &words.collect::<Vec<_>>())
        };
        // After a command the server looks by itself for who waits for the key.
        if self.adds && context.command().is_none() {
            timer::once_more();
        }
        result
    }

    /// Adds one to the stream.
    fn add(&mut self, context: &Context, delivery: &Delivery) -> Result<(), String> {
        let Some(fields) = &self.fields else { return Ok(()) };
        let deliveries = OwnedStr::of_number(delivery.deliveries.into());
        let mut pairs = vec![&fields.id, &delivery.id, &fields.element, &delivery.element];
        pairs.extend(fields.deliveries.iter().flat_map(|name| [name, &deliveries]));
        let add = |id: &OwnedStr| {
            let pairs = pairs.iter().copied().map(OwnedStr::as_str);
            let words = self.head.iter().chain([id]).map(OwnedStr::as_str).chain(pairs);
            context.call(self.name, &words.collect::<Vec<_>>())
        };
        // The id says when the element was delivered. The server's own `*` may say what time it was when the
        // server last looked, which can be before the deadline (Redis 8, Valkey 8).
        if !self.is_ahead {
            let result = add(&OwnedStr::new(format!("{}-*", clock::now()).as_bytes()));
            match result {
                Err(reason) if reason.contains("equal or smaller") => self.is_ahead = true,
                result => return result,
            }
        }
        add(&OwnedStr::new(b"*"))
    }
}

/// Takes out what was delivered.
fn remove<'a>(
    context: &'a Context,
    key: Str<'a>,
    policy: &Policy,
    batch: &'a [Delivery],
    now: u64,
) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let until = dehydrator.remembers_until().filter(|_| !policy.limits());
    let mut removed = Batch::settled(context, key, until);
    if let Some(mut leaving) = dehydrator.leaving(until) {
        for delivery in batch {
            let id = delivery.id.as_str();
            // A listener to the stream's events may have taken it, and put another one there.
            if delivery.is_in(leaving.lawn) && leaving.settle(id.bytes()) {
                removed.push_sent(id);
            }
        }
    }
    if removed.finish() {
        if policy.delivers() && dehydrator.limits().is_some() {
            let count = batch.len() as u64;
            if dehydrator.note_given(now, count) {
                replicate::given(context, key, now, count);
            }
        }
        dehydrator.shrunk(c"dehydrator.deliver");
    }
}

/// Takes out some of what is due, for nobody.
fn drop_due(context: &Context, key: Str<'_>, policy: &Policy, now: u64) -> u64 {
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return 0 };
    // To ask whether clients may write was a call out.
    if dehydrator.policy() != policy || dehydrator.is_paused(now) {
        return 0;
    }
    let until = dehydrator.remembers_until().filter(|_| !policy.limits());
    let mut removed = Batch::settled(context, key, until);
    let mut count = 0;
    if let Some(mut leaving) = dehydrator.leaving(until) {
        let most = if policy.limits() {
            let first = leaving.lawn.iter_until(now).take(BATCH);
            first.take_while(|(_, element)| policy.sends(element.deliveries)).count()
        } else {
            BATCH
        };
        count = leaving.drain(now, most, |_, element| removed.push(element.id));
    }
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.drop");
    }
    count as u64
}
