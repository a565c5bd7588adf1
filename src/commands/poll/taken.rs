//! Elements taken for a blocked client. They are replied to the client or, if it has disconnected, given back.
//!
//! An element is given back as it was, with its deadline, its deliveries and its token. So all of these are kept, with a
//! copy of the element: it has left the lawn by then.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::clock;
use crate::data_type::{ElementCopy, Writing, inspect, restore_expiry};
use crate::pending::Take;
use crate::pending::blocked::Sleeper;
use crate::replicate::{self, Pushed};
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::{Context, OwnedStr, Str, log_warning};
use lawn::{Element, Lawn};

use super::give::{held, take_due_noting};
use super::resends::{InFlight, note_resend};

/// The elements taken for a client, or already held by it.
pub(super) struct TakenElements {
    db: i32,
    key: OwnedStr,
    take: Take,
    /// The token that the client chose.
    word: Option<Rc<[u8]>>,
    elements: Vec<ElementCopy>,
    /// Whether the reply names the key.
    is_named: bool,
    /// Whether the database was emptied since.
    is_flushed: bool,
    /// When the key was to expire. If its last element was taken, the key is deleted.
    expiry: Option<u64>,
    /// `None`: the client held the elements already, so they are not given back.
    in_flight: Option<InFlight>,
}

/// Returns a copy with the likely former state of an element that came due while others were taken.
fn copy_of_unknown(element: Element<'_>, is_leased: bool, now: u64) -> ElementCopy {
    let deadline = if is_leased { now } else { element.deadline };
    let deliveries = element.deliveries - u16::from(is_leased);
    ElementCopy::new(Element { deadline, deliveries, ..element }, 0, None)
}

/// Returns the number of deliveries, including the one to this client.
fn deliveries_as_given(copy: &ElementCopy, is_leased: bool) -> u16 {
    copy.deliveries.saturating_add(is_leased.into())
}

impl TakenElements {
    /// Takes the due elements of a key in the selected database for a blocked client. `None`: nothing is due.
    pub(super) fn take(context: &Context, sleeper: &Sleeper, key: Str<'_>) -> Option<Self> {
        Self::of_held(context, sleeper).or_else(|| Self::of_due(context, sleeper, key))
    }

    /// Returns the elements that the client holds under its chosen token, if there are any: they may have been given to
    /// another connection of the client, which lost the reply. Takes nothing.
    pub(super) fn of_held(context: &Context, sleeper: &Sleeper) -> Option<Self> {
        let (now, take) = (clock::now(), sleeper.take);
        take.chosen_token()?;
        sleeper.names.iter().filter(|name| context.select_db(name.db)).find_map(|name| {
            let key = OwnedStr::new(&name.key);
            let elements = inspect(context, key.as_str(), |dehydrator| {
                let held = held(&dehydrator.lawn, take, now);
                held.map(|element| ElementCopy::new(element, 0, take.token)).collect::<Vec<_>>()
            });
            let elements = elements.filter(|elements| !elements.is_empty())?;
            Some(Self::new(context, sleeper, key, elements))
        })
    }

    /// Takes the due elements of a key. `None`: nothing is due.
    fn of_due(context: &Context, sleeper: &Sleeper, name: Str<'_>) -> Option<Self> {
        let (take, now) = (sleeper.take, clock::now());
        let is_leased = take.lease.is_some();
        let mut befores = inspect(context, name, |dehydrator| {
            let count = if dehydrator.rules().policy.holds() { take.count } else { 0 };
            let before = |(ttl, element): (u64, Element<'_>)| {
                // The payload is copied when it is given.
                let token = dehydrator.lawn.token(&element);
                ElementCopy::new(Element { payload: &[], ..element }, ttl, token)
            };
            dehydrator.given_out(now, count).map(before).collect::<VecDeque<_>>()
        })?;
        befores.front()?;
        let dehydrator = Writing::open_at(context, name, now).ok()?;
        let expiry = dehydrator.expiry();
        let whole = AbortOnPanic::begin();
        let mut elements = Vec::new();
        let give = |element: Element<'_>| {
            // Nearly always the first. But moving dead letters calls out, and a listener may push elements that are
            // due.
            let is_it = |before: &ElementCopy| {
                before.id() == element.id
                    && deliveries_as_given(before, is_leased) == element.deliveries
            };
            let known = befores.iter().position(is_it).and_then(|at| befores.remove(at));
            elements.push(match known {
                Some(before) => ElementCopy { payload: OwnedStr::new(element.payload), ..before },
                None => copy_of_unknown(element, is_leased, now),
            });
        };
        // The lateness is recorded when the client is woken.
        take_due_noting(context, dehydrator, name, now, take, give, |_| {});
        trap::pass("taken");
        // The key may have expired in between.
        elements.first()?;
        let taken = Self::new(context, sleeper, OwnedStr::new(name.bytes()), elements);
        let in_flight = Some(InFlight::new(name.bytes(), take.chosen_token(), whole));
        Some(Self { expiry, in_flight, ..taken })
    }

    fn new(
        context: &Context,
        sleeper: &Sleeper,
        key: OwnedStr,
        elements: Vec<ElementCopy>,
    ) -> Self {
        let Sleeper { take, word, is_named, .. } = sleeper;
        let (db, word) = (context.selected_db(), word.clone());
        Self {
            db,
            key,
            take: *take,
            word,
            elements,
            is_named: *is_named,
            is_flushed: false,
            expiry: None,
            in_flight: None,
        }
    }
}

impl TakenElements {
    /// Returns whether taking the elements started their leases: the client did not hold them before.
    fn begins_leases(&self) -> bool {
        self.take.lease.is_some() && self.in_flight.is_some()
    }

    /// Returns when the first element came due, in milliseconds since the epoch.
    pub(super) fn deadline(&self) -> u64 {
        self.elements.first().map_or(0, |element| element.deadline)
    }

    /// Replies the elements to the client.
    pub(super) fn reply(&self, context: &Context) {
        if self.in_flight.is_none() {
            note_resend(self.key.as_str(), self.take.token);
        }
        let mut reply = if self.is_named {
            context.reply_named_array_up_to(self.key.as_str().bytes(), self.elements.len())
        } else {
            context.reply_array(self.elements.len())
        };
        let token = self.take.token_form(self.word.as_deref());
        for copy in &self.elements {
            let (id, payload, deadline) = (copy.id(), copy.payload(), copy.deadline);
            let deliveries = deliveries_as_given(copy, self.begins_leases());
            let element = Element { id, payload, deadline, deliveries };
            self.take.reply(&mut reply, &element, &token);
        }
    }

    /// Records that a database was emptied, or all were (`None`). Elements taken from it are still replied, but not given back.
    pub(super) fn flushed(&mut self, db: Option<i32>) {
        self.is_flushed |= db.is_none_or(|db| db == self.db);
    }

    /// Records that two databases were swapped.
    pub(super) fn swapped(&mut self, first: i32, second: i32) {
        self.db = match self.db {
            db if db == first => second,
            db if db == second => first,
            db => db,
        };
    }

    /// Gives the elements back, because the client has disconnected. Each has its deadline again, and comes after other
    /// elements with the same deadline.
    pub(super) fn give_back(&self, context: &Context) {
        let Some(in_flight) = &self.in_flight else { return };
        if in_flight.was_resent() || self.is_flushed {
            return;
        }
        if context.is_read_only() || !context.select_db(self.db) {
            log_warning(
                "dehydrator: a client hung up as this server became a replica: what it was given is lost, or hidden \
                 until its lease runs out",
            );
            return;
        }
        if self.begins_leases() {
            self.end_leases(context);
        } else {
            self.put_back(context);
        }
    }

    /// Undoes the leases: no client has received them.
    fn end_leases(&self, context: &Context) {
        let key = self.key.as_str();
        let Ok(mut dehydrator) = Writing::open(context, key) else { return };
        let Some((lawn, token)) = dehydrator.lawn().zip(self.take.token) else { return };
        let mut any = false;
        for copy in &self.elements {
            let (id, deliveries) = (copy.id(), deliveries_as_given(copy, true));
            // A client with the token may have changed or released the element meanwhile, or another may hold it.
            let is_held = lawn.holds(id, token)
                && lawn.look(id).is_some_and(|element| element.deliveries == deliveries);
            if !is_held || !lawn.restart_at(id, copy.ttl, copy.deadline) {
                continue;
            }
            lawn.set_deliveries(id, copy.deliveries, copy.token);
            if let Some(element) = lawn.look(id) {
                let payload = OwnedStr::new(element.payload);
                replicate_given_back(context, key, copy, payload.as_str(), true);
                any = true;
            }
        }
        if any {
            dehydrator.changed(c"dehydrator.push");
        }
    }

    /// Inserts the removed elements again.
    fn put_back(&self, context: &Context) {
        let key = self.key.as_str();
        let Ok(mut dehydrator) = Writing::open(context, key) else { return };
        let mut given_back = Vec::new();
        let put = dehydrator.lawn_or_new(|lawn: &mut Lawn| {
            for copy in &self.elements {
                // An id that was pushed meanwhile is another element.
                if lawn.start_at(copy.id(), copy.ttl, copy.payload(), copy.deadline).is_ok() {
                    lawn.set_deliveries(copy.id(), copy.deliveries, copy.token);
                    given_back.push(copy);
                }
            }
            if given_back.is_empty() { Err(()) } else { Ok(()) }
        });
        // If others have pushed to the key since, it is a new one with an expiry of its own.
        let expiry = self.expiry.filter(|_| dehydrator.is_new());
        if expiry.is_some_and(|at| at <= dehydrator.now()) {
            return;
        }
        if put.is_ok() {
            for copy in given_back {
                dehydrator.forget(copy.id());
                replicate_given_back(context, key, copy, copy.payload.as_str(), false);
            }
            dehydrator.changed(c"dehydrator.push");
            expiry.into_iter().for_each(|at| restore_expiry(context, key, at));
        }
    }
}

/// Replicates that an element was given back as it was, except for its payload, which may have changed.
/// `replaces`: the element was leased, and is still in the lawn.
fn replicate_given_back(
    context: &Context,
    key: Str<'_>,
    copy: &ElementCopy,
    payload: Str<'_>,
    replaces: bool,
) {
    let ElementCopy { ttl, deadline, deliveries, token, .. } = *copy;
    let pushed = Pushed { key, ttl, element: payload, id: copy.id.as_str(), deadline };
    replicate::given_back(context, &pushed, replaces, deliveries, token);
}
