//! Delivering what came due, and saying that something did.
//!
//! The [`agenda`] says which dehydrators have something to do. Each is looked at in its turn, a batch at a
//! time, until the budget is spent; what is left carries on when clients have had their turn.
//!
//! ```text
//!   the agenda's timer, the tick ─▶ attend ─▶ announce: the event dehydrator.due
//!                                      └────▶ deliver: XADD or PUBLISH, and then REM
//! ```
//!
//! What one timer does goes to replicas and the append-only file as one transaction: an element is in
//! the dehydrator or in the stream, never in both or in neither. On a replica, while the server loads,
//! and while clients are paused, nothing is done; the next tick tries again.

use std::ffi::CStr;

use crate::data_type::{Dehydrator, Writing, inspect, is_on_the_agenda};
use crate::policy::{MaxLen, Policy};
use crate::replicate::Batch;
use crate::server::context::log_warning;
use crate::server::key::Name;
use crate::server::{Context, OwnedStr, Str};
use crate::statistics::{self, DELIVERIES, RETRIES};
use crate::{agenda, clock, config, lateness};

/// Elements that are delivered before their removal is told: a few, so that the time that takes is
/// within the budget too.
const BATCH: usize = 64;
/// Bytes of elements in a batch, but for the last one: they are copied, and copied again by what takes them.
const BATCH_BYTES: usize = 64 * 1024;
/// A cluster's node that does not serve a key's slot looks again after this, in microseconds: the slot is
/// being moved, and the key with it.
const ELSEWHERE_US: u64 = 1_000_000;

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
struct Parcel {
    id: OwnedStr,
    element: OwnedStr,
    deadline: u64,
}

/// Looks at all dehydrators whose time has come, until the budget is spent.
pub fn attend(context: &Context) {
    if !context.may_replicate() {
        return;
    }
    let budget = Budget::start();
    while let Some(name) = agenda::take() {
        if context.select_db(name.db) {
            attend_one(context, &name, &budget);
        }
        if budget.is_spent() {
            break;
        }
    }
    agenda::arm(context);
}

fn attend_one(context: &Context, name: &Name, budget: &Budget) {
    let key = OwnedStr::new(&name.key);
    let key = key.as_str();
    let now = clock::now();
    let found = inspect(context, key, |dehydrator| {
        let whereabouts = dehydrator.whereabouts();
        whereabouts.found();
        (dehydrator.policy.clone(), dehydrator.lawn.next_deadline(), whereabouts.serial())
    });
    let Some((policy, next, serial)) = found.filter(|(policy, ..)| is_on_the_agenda(policy)) else {
        agenda::forget(name);
        return;
    };
    let Some(deadline) = next.filter(|next| *next <= now) else {
        // It was noted without its deadline, or something was taken or put off.
        agenda::note(context, key, serial, next, policy != Policy::Hold);
        return;
    };
    if !context.serves(key) {
        agenda::wait(name, ELSEWHERE_US);
        return;
    }
    if agenda::announce(name) {
        context.notify_module(c"dehydrator.due", key);
    }
    let (delivered, result) = match &policy {
        Policy::Hold => return,
        Policy::Drop => (drop_due(context, key, now), Ok(())),
        _ => deliver(context, key, &policy, now, budget),
    };
    lateness::record(clock::now_us().saturating_sub(deadline.saturating_mul(1000)));
    statistics::count(&DELIVERIES, delivered);
    let Err(reason) = result else {
        agenda::succeeded(name);
        let next = inspect(context, key, |dehydrator| dehydrator.lawn.next_deadline());
        if next.flatten().is_some_and(|next| next <= now) {
            agenda::again(name);
        }
        return;
    };
    statistics::count(&RETRIES, 1);
    if agenda::failed(name) {
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
    let Some(command) = Command::of(policy) else { return (0, Ok(())) };
    if command.adds && context.is_out_of_memory() {
        return (0, Err("OOM used memory > 'maxmemory'".to_owned()));
    }
    // Copied, because the commands that follow may call others that listen, who may do as they like.
    let parcels = inspect(context, key, |dehydrator| collect(dehydrator, now)).unwrap_or_default();
    let (mut sent, mut result) = (0, Ok(()));
    for parcel in &parcels {
        result = command.send(context, parcel);
        if result.is_err() {
            break;
        }
        sent += 1;
        if budget.is_spent() {
            break;
        }
    }
    remove(context, key, &parcels[..sent]);
    (sent as u64, result)
}

/// The first of what is due.
fn collect(dehydrator: &Dehydrator, now: u64) -> Vec<Parcel> {
    let mut parcels = Vec::new();
    let mut bytes = 0;
    for (_, element) in dehydrator.lawn.iter_until(now).take(BATCH) {
        bytes += element.payload.len();
        parcels.push(Parcel {
            id: OwnedStr::new(element.id),
            element: OwnedStr::new(element.payload),
            deadline: element.deadline,
        });
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    parcels
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
                head.push(OwnedStr::new(b"*"));
                let fields = Some([OwnedStr::new(b"id"), OwnedStr::new(b"element")]);
                Some(Self { name: c"XADD", head, fields, adds: true })
            }
            Policy::Publish { channel } => {
                let head = vec![OwnedStr::new(channel)];
                Some(Self { name: c"PUBLISH", head, fields: None, adds: false })
            }
        }
    }

    fn send(&self, context: &Context, parcel: &Parcel) -> Result<(), String> {
        let mut words: Vec<_> = self.head.iter().map(OwnedStr::as_str).collect();
        let (id, element) = (parcel.id.as_str(), parcel.element.as_str());
        match &self.fields {
            Some([id_field, element_field]) => {
                words.extend([id_field.as_str(), id, element_field.as_str(), element]);
            }
            None => words.push(element),
        }
        context.call(self.name, &words)
    }
}

/// Takes out what was delivered.
fn remove<'a>(context: &'a Context, key: Str<'a>, parcels: &'a [Parcel]) {
    let Ok(mut dehydrator) = Writing::open(context, key) else { return };
    let mut removed = Batch::removed(context, key);
    if let Some(lawn) = dehydrator.lawn() {
        for parcel in parcels {
            let id = parcel.id.as_str();
            // Who listens to the stream's events may have put another one there.
            let found = lawn.look(id.bytes()).map(|element| element.deadline);
            if found == Some(parcel.deadline) && lawn.stop(id.bytes()).is_some() {
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
