//! Elements taken for a blocked client. They are replied to the client or, if it has disconnected, given back.
//!
//! An element is given back as it was, with its deadline, its deliveries and its token. So all of these are kept, with a
//! copy of the element: it has left the lawn by then.

use std::rc::Rc;

use crate::data_type::{ElementCopy, Writing, inspect, restore_expiry};
use crate::metrics::lateness::LATENESS;
use crate::pending::blocked::{self, Sleeper, Take};
use crate::replicate::{self, Effect, Pushed};
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::{ClientId, Context, OwnedStr, Str, log_warning};
use lawn::{Element, Lawn, Next, Row, Token};

use super::give::{Recipient, Request, held};
use super::reply::Reply;

/// Its bytes become the server's strings only if it is given back.
type Copied = ElementCopy<Box<[u8]>>;

/// The elements taken for a client, or already held by it.
pub(super) struct TakenElements {
    sleeper: Rc<Sleeper>,
    db: i32,
    /// The place of the key in the client's request.
    at: usize,
    elements: Vec<Copied>,
    /// When the key was to expire. If its last element was taken, the key is deleted.
    expiry: Option<u64>,
    /// Set if the elements are given back if the client has disconnected.
    is_returnable: bool,
    /// A panic that drops this would lose the elements: they exist nowhere else. `None`: the client held them already.
    whole: Option<AbortOnPanic>,
}

/// The elements that a client takes from a lawn, as they were before.
struct Collector(Vec<Copied>);

impl Recipient for Collector {
    const COPIES: bool = true;

    fn copy(&mut self, next: &Next<'_>, row: Row<'_>) {
        self.0.push(ElementCopy::next(next, row));
    }

    fn give(&mut self, _element: Element<'_>, _deadline: u64) {}
}

impl TakenElements {
    /// Returns the elements that the client holds under its chosen token, if there are any: they may have been given to
    /// another connection of the client, which lost the reply. Takes nothing.
    pub(super) fn of_held(context: &Context, sleeper: &Rc<Sleeper>, now: u64) -> Option<Self> {
        let take = sleeper.take();
        take.chosen_token()?;
        sleeper.names.iter().enumerate().find_map(|(at, name)| {
            if !context.select_db(name.db) {
                return None;
            }
            let elements = inspect(context, sleeper.key(at), |dehydrator| {
                let held = held(&dehydrator.lawn, &take, now);
                held.map(|element| ElementCopy::new(element, 0, take.token)).collect::<Vec<_>>()
            })?;
            Self::new(sleeper, at, elements)
        })
    }

    /// Takes the elements of a key in the selected database that are due at `now_us`, in microseconds since the epoch, for a
    /// blocked client, and records how late the first one is. `None`: nothing is due.
    pub(super) fn of_due(
        context: &Context,
        sleeper: &Rc<Sleeper>,
        at: usize,
        now_us: u64,
    ) -> Option<Self> {
        let (key, now) = (sleeper.key(at), now_us / 1000);
        let in_queue = blocked::with(|queues| queues.overdue(&sleeper.names[at]));
        let in_queue = in_queue.unwrap_or_default();
        let dehydrator = Writing::open_at(context, key, now).ok()?;
        if !dehydrator.rules().policy.holds() {
            return None;
        }
        let (expiry, overdue) = (dehydrator.expiry(), dehydrator.overdue());
        let whole = Some(AbortOnPanic::begin());
        let take = &sleeper.take();
        let mut taken = Collector(Vec::with_capacity(take.count.min(4)));
        Request::new(context, key, now, take).take_due(dehydrator, &mut taken);
        trap::pass("taken");
        let taken = Self::new(sleeper, at, taken.0)?;
        // The dehydrator knows of pauses, and the queue when a limit left room for one more.
        let deadline = taken.elements[0].deadline;
        let late_us = overdue.unwrap_or_default().late_us(deadline, now_us);
        LATENESS.record(late_us.min(in_queue.late_us(deadline, now_us)), 1);
        Some(Self { expiry, is_returnable: true, whole, ..taken })
    }

    fn new(sleeper: &Rc<Sleeper>, at: usize, elements: Vec<Copied>) -> Option<Self> {
        let (sleeper, db) = (Rc::clone(sleeper), sleeper.names[at].db);
        let it =
            Self { sleeper, db, at, elements, expiry: None, is_returnable: false, whole: None };
        (!it.elements.is_empty()).then_some(it)
    }

    fn key(&self) -> Str<'_> {
        self.sleeper.key(self.at)
    }

    /// Returns whether they were taken for this client.
    pub(super) fn is_for(&self, client: ClientId) -> bool {
        self.sleeper.connection == client
    }

    /// Returns whether taking the elements started their leases: the client did not hold them before.
    fn begins_leases(&self) -> bool {
        self.sleeper.take().lease.is_some() && self.whole.is_some()
    }

    /// Returns the number of deliveries, including the one to this client.
    fn deliveries_as_given(&self, copy: &Copied) -> u16 {
        copy.deliveries.saturating_add(self.begins_leases().into())
    }

    /// Returns the database, the key and the token under which the client held the elements already. `None`: they were
    /// taken for it.
    pub(super) fn held(&self) -> Option<(i32, Str<'_>, Option<Token>)> {
        self.whole.is_none().then(|| (self.db, self.key(), self.sleeper.take().token))
    }

    /// Replies the elements to the client.
    pub(super) fn reply(&self, context: &Context) {
        let (key, take) = (self.key(), self.sleeper.take());
        let take = Take { count: self.elements.len(), ..take };
        let mut reply = Reply::new(context, key, &take);
        for copy in &self.elements {
            let deliveries = self.deliveries_as_given(copy);
            reply.push(&Element { deliveries, ..copy.element() });
        }
    }

    /// Records that a database was emptied, or all were (`None`). Elements taken from it are still replied, but not given back.
    pub(super) fn flushed(&mut self, db: Option<i32>) {
        self.is_returnable &= db.is_some_and(|db| db != self.db);
    }

    /// Records that the elements held in a key under a token were sent over another connection.
    pub(super) fn resent(&mut self, db: i32, key: Str<'_>, token: Option<Token>) {
        let is_same = db == self.db && token == self.sleeper.take().token;
        self.is_returnable &= !(is_same && key.bytes() == self.key().bytes());
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
        if !self.is_returnable {
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
        let key = self.key();
        let Ok(mut dehydrator) = Writing::open(context, key) else { return };
        let Some((lawn, token)) = dehydrator.lawn().zip(self.sleeper.take().token) else { return };
        let mut any = false;
        for copy in &self.elements {
            let (id, deliveries) = (&copy.id, self.deliveries_as_given(copy));
            // A client with the token may have changed or released the element meanwhile, or another may hold it.
            let is_held = lawn.holds(id, token)
                && lawn.look(id).is_some_and(|element| element.deliveries == deliveries);
            if !is_held || !lawn.restart_at(id, copy.ttl, copy.deadline) {
                continue;
            }
            lawn.set_deliveries(id, copy.deliveries, copy.token);
            lawn.set_held_since(id, copy.since.unwrap_or_default());
            if let Some(element) = lawn.look(id) {
                replicate_given_back(context, key, copy, (element.payload, lawn.reason(id)));
                any = true;
            }
        }
        if any {
            dehydrator.finish(c"dehydrator.push");
        }
    }

    /// Inserts the removed elements again.
    fn put_back(&self, context: &Context) {
        let key = self.key();
        let Ok(mut dehydrator) = Writing::open(context, key) else { return };
        let mut given_back = Vec::new();
        let put = dehydrator.lawn_or_new(|lawn: &mut Lawn| {
            for copy in &self.elements {
                // An id that was pushed meanwhile is another element.
                let group = copy.group.as_deref();
                if lawn.start_in_group(copy.ttl, &copy.element(), group).is_ok() {
                    lawn.set_deliveries(&copy.id, copy.deliveries, copy.token);
                    lawn.set_held_since(&copy.id, copy.since.unwrap_or_default());
                    if let Some(reason) = &copy.reason {
                        lawn.set_reason(&copy.id, reason);
                    }
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
                dehydrator.forget(&copy.id);
                let parts = (&copy.payload[..], copy.reason.as_deref());
                replicate_given_back(context, key, copy, parts);
            }
            dehydrator.finish(c"dehydrator.push");
            expiry.into_iter().for_each(|at| restore_expiry(context, key, at));
        }
    }
}

/// Replicates that an element was given back as it was, except for its payload and its reason, which may have changed.
fn replicate_given_back(
    context: &Context,
    key: Str<'_>,
    copy: &Copied,
    (payload, reason): (&[u8], Option<&[u8]>),
) {
    let ElementCopy { ttl, deadline, deliveries, bounds, token, since, .. } = *copy;
    let (id, element) = (OwnedStr::new(&copy.id), OwnedStr::new(payload));
    let (id, element) = (id.as_str(), element.as_str());
    let group = copy.group.as_deref().map(OwnedStr::new);
    let group = group.as_ref().map(OwnedStr::as_str);
    let pushed = Pushed { key, ttl, element, id, deadline, bounds, group };
    replicate::given_back(context, &pushed, deliveries, (token, since));
    if let Some(reason) = reason {
        Effect::reason(key, reason, &copy.id).replicate(context);
    }
}
