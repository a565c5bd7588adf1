//! Delivering what came due, and saying that something did.
//!
//! The [`schedule`] says which dehydrators have something to do. They are looked at one after the other, a batch at a
//! time, until the budget is spent; what is left carries on when clients have had their turn.
//!
//! ```text
//!   the end of a pass, the tick ─▶ run ─▶ announce: the event dehydrator.due
//!                                     └────▶ deliver: XADD or PUBLISH, and then REM
//! ```
//!
//! Whatever calls out (an event, a command of the server's, which publishes events of its own) may change
//! anything, so each key is looked at again after it, and each element before it is sent.
//!
//! What is done at the end of one pass goes to replicas and the append-only file as one transaction: an element is in
//! the dehydrator or in the stream, never in both or in neither. On a replica, while the server loads,
//! and while clients are paused, nothing is done; the next tick tries again.

use std::ffi::CStr;

use crate::data_type::{Dehydrator, Writing, inspect, is_scheduled};
use crate::lawn::Lawn;
use crate::metrics::counters::{self, DELIVERIES, RETRIES};
use crate::metrics::latency;
use crate::pending::schedule;
use crate::pending::schedule::Serial;
use crate::policy::{MaxLen, Policy};
use crate::replicate::Batch;
use crate::server::context::log_warning;
use crate::server::key::Name;
use crate::server::{Context, OwnedStr, Str};
use crate::{clock, config};

/// Elements that are delivered before their removal is told: a few, so that the time that takes is
/// within the budget too.
const BATCH: usize = 64;
/// Bytes of elements in a batch, but for the last one: they are copied, and copied again by what takes them.
const BATCH_BYTES: usize = 64 * 1024;
/// A cluster's node that does not serve a key's slot looks again after this, in microseconds: the slot is
/// being moved, and the key with it.
const ELSEWHERE_US: u64 = 1_000_000;

/// Why nothing is dropped or published while clients may not write.
const REFUSED: &str = "the server refuses writes now (NOREPLICAS, MISCONF)";

/// What may be spent in one go.
struct Budget {
    ends_us: u64,
}

impl Budget {
    fn start() -> Self {
        Self { ends_us: clock::monotonic_us() + config::tick_budget_us() }
    }

    fn is_spent(&self) -> bool {
        clock::monotonic_us() >= self.ends_us
    }
}

/// What an element is delivered as.
struct Delivery {
    id: OwnedStr,
    element: OwnedStr,
    deadline: u64,
}

/// Looks at all dehydrators whose time has come, until the budget is spent.
pub fn run(context: &Context) {
    if !context.may_replicate() {
        return;
    }
    let budget = Budget::start();
    while let Some(name) = schedule::take() {
        if context.select_db(name.db) {
            deliver_from(context, &name, &budget);
        }
        if budget.is_spent() {
            break;
        }
    }
}

/// What there is to do in a key.
enum Task {
    /// Nothing, and never will be by itself.
    None,
    /// Nothing until then.
    Later(Serial, Option<u64>, bool),
    Due {
        deadline: u64,
        policy: Policy,
    },
}

/// Looks at a key. Whatever calls out may change it: then it must be looked at again.
fn look(context: &Context, key: Str<'_>, now: u64) -> Task {
    inspect(context, key, |dehydrator| {
        dehydrator.tracking().track();
        if !is_scheduled(&dehydrator.policy) {
            return Task::None;
        }
        let policy = dehydrator.policy.clone();
        match dehydrator.lawn.next_deadline() {
            Some(deadline) if deadline <= now => Task::Due { deadline, policy },
            next => Task::Later(dehydrator.tracking().serial(), next, policy != Policy::Hold),
        }
    })
    .unwrap_or(Task::None)
}

fn deliver_from(context: &Context, name: &Name, budget: &Budget) {
    let key = OwnedStr::new(&name.key);
    let key = key.as_str();
    let now = clock::now();
    match look(context, key, now) {
        Task::None => return schedule::forget(name),
        Task::Later(serial, next, delivers) => {
            // It was noted without its deadline, or something was taken or put off.
            return schedule::note(context, key, serial, next, delivers);
        }
        Task::Due { .. } => {}
    }
    if !context.serves(key) {
        schedule::wait(name, ELSEWHERE_US);
        return;
    }
    if schedule::announce(name) {
        context.notify_module(c"dehydrator.due", key);
    }
    let Task::Due { deadline, policy } = look(context, key, now) else {
        return schedule::again(name);
    };
    let late_us = schedule::late_us(name, deadline);
    let (delivered, result) = match &policy {
        Policy::Hold => return,
        Policy::Drop if context.lets_clients_write(key) => (drop_due(context, key, now), Ok(())),
        Policy::Drop => (0, Err(REFUSED.to_owned())),
        _ => deliver(context, key, &policy, now, budget),
    };
    if delivered > 0 {
        latency::record(late_us);
    }
    counters::count(&DELIVERIES, delivered);
    let Err(reason) = result else {
        schedule::succeeded(name);
        schedule::again(name);
        return;
    };
    counters::count(&RETRIES, 1);
    if schedule::failed(name, &reason) {
        log_warning(&format!(
            "dehydrator: what is due in '{}' (db {}) could not be delivered, and stays until it can: {reason}",
            name.key.escape_ascii(),
            name.db,
        ));
    }
}

/// Moves some of what is due to where it belongs. Returns how many, and why not another one.
fn deliver(
    context: &Context,
    key: Str<'_>,
    policy: &Policy,
    now: u64,
    budget: &Budget,
) -> (u64, Result<(), String>) {
    let Some(mut command) = Command::of(policy) else { return (0, Ok(())) };
    if command.adds && context.is_out_of_memory() {
        return (0, Err("OOM used memory > 'maxmemory'".to_owned()));
    }
    // A stream is written to, and refuses by itself.
    if !command.adds && !context.lets_clients_write(key) {
        return (0, Err(REFUSED.to_owned()));
    }
    // Copied, because the commands that follow may call others that listen, who may do as they like.
    let batch = inspect(context, key, |dehydrator| collect(dehydrator, now)).unwrap_or_default();
    let (mut sent, mut result) = (Vec::new(), Ok(()));
    for delivery in batch {
        let is_there = inspect(context, key, |dehydrator| {
            dehydrator.policy == *policy && delivery.is_in(&dehydrator.lawn)
        });
        if is_there != Some(true) {
            continue;
        }
        result = command.send(context, &delivery);
        if result.is_err() {
            break;
        }
        sent.push(delivery);
        if budget.is_spent() {
            break;
        }
    }
    remove(context, key, &sent);
    (sent.len() as u64, result)
}

impl Delivery {
    /// Whether the element that was copied is still there, and waits for the same time.
    fn is_in(&self, lawn: &Lawn) -> bool {
        let found = lawn.look(self.id.as_str().bytes());
        found.is_some_and(|element| element.deadline == self.deadline)
    }
}

/// The first of what is due.
fn collect(dehydrator: &Dehydrator, now: u64) -> Vec<Delivery> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for (_, element) in dehydrator.lawn.iter_until(now).take(BATCH) {
        bytes += element.payload.len();
        batch.push(Delivery {
            id: OwnedStr::new(element.id),
            element: OwnedStr::new(element.payload),
            deadline: element.deadline,
        });
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    batch
}

/// The command of the server's that moves an element.
struct Command {
    name: &'static CStr,
    /// The words before the id, or before the element if that is all that is sent.
    head: Vec<OwnedStr>,
    /// The names of a stream's fields.
    fields: Option<[OwnedStr; 2]>,
    /// Whether it adds data, which a server without memory does not take.
    adds: bool,
    /// Whether the stream's last id is later than the clock, so that the server makes the next one.
    is_ahead: bool,
}

impl Command {
    /// `None` if nothing is sent.
    fn of(policy: &Policy) -> Option<Self> {
        match policy {
            Policy::Hold | Policy::Drop => None,
            Policy::Stream { dest, maxlen } => {
                let mut head = vec![OwnedStr::new(dest)];
                let trim = maxlen.map(MaxLen::words).into_iter().flatten();
                head.extend(trim.map(|word| OwnedStr::new(&word)));
                let fields = Some([OwnedStr::new(b"id"), OwnedStr::new(b"element")]);
                Some(Self { name: c"XADD", head, fields, adds: true, is_ahead: false })
            }
            Policy::Publish { channel } => {
                let head = vec![OwnedStr::new(channel)];
                Some(Self { name: c"PUBLISH", head, fields: None, adds: false, is_ahead: false })
            }
        }
    }

    fn send(&mut self, context: &Context, delivery: &Delivery) -> Result<(), String> {
        let Some([id_field, element_field]) = &self.fields else {
            let words = self.head.iter().map(OwnedStr::as_str).chain([delivery.element.as_str()]);
            return context.call(self.name, &words.collect::<Vec<_>>());
        };
        let fields = [id_field, &delivery.id, element_field, &delivery.element];
        let add = |id: &OwnedStr| {
            let words = self.head.iter().chain([id]).chain(fields).map(OwnedStr::as_str);
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
fn remove<'a>(context: &'a Context, key: Str<'a>, batch: &'a [Delivery]) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let mut removed = Batch::removed(context, key);
    if let Some(lawn) = dehydrator.lawn() {
        for delivery in batch {
            let id = delivery.id.as_str();
            // A listener to the stream's events may have taken it, and put another one there.
            if delivery.is_in(lawn) && lawn.stop(id.bytes()).is_some() {
                removed.push_sent(id);
            }
        }
    }
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.deliver");
    }
}

/// Takes out some of what is due, for nobody.
fn drop_due(context: &Context, key: Str<'_>, now: u64) -> u64 {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return 0 };
    let mut removed = Batch::removed(context, key);
    let mut count = 0;
    if let Some(lawn) = dehydrator.lawn() {
        while count < BATCH as u64
            && let Some(taken) = lawn.pop_due(now)
        {
            removed.push(taken.element().id);
            count += 1;
        }
    }
    if removed.finish() {
        dehydrator.shrunk(c"dehydrator.drop");
    }
    count
}
