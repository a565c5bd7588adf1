//! POLL and MPOLL for a client that is blocked: what is taken for it, and given back if it has gone.

use crate::clock;
use crate::data_type::{Writing, inspect, restore_expiry};
use crate::lawn::Element;
use crate::pending::blocked::{Asks, Taken};
use crate::replicate::{self, Pushed};
use crate::server::context::log_warning;
use crate::server::{Context, OwnedStr, Str};

use super::args::Take;
use super::give::{held, take_due};

/// What a client has asked for before it fell asleep.
pub struct Asker {
    take: Take,
    /// Whether it is told which key it is served from.
    is_named: bool,
    /// The keys in which something may be held under the token that the client has chosen, if it has.
    may_hold: Vec<Box<[u8]>>,
}

/// What was taken, copied: it is replied when the lawn may be another one.
struct ForBlocked {
    db: i32,
    key: OwnedStr,
    take: Take,
    elements: Vec<Copied>,
    /// Whether it is replied from which key that is.
    is_named: bool,
    /// When the key was to expire. It went with its last element.
    expiry: Option<u64>,
}

/// An element, and the TTL that names its queue.
struct Copied {
    id: Box<[u8]>,
    payload: Box<[u8]>,
    deadline: u64,
    deliveries: u16,
    ttl: u64,
}

impl Copied {
    fn new(element: Element<'_>, ttl: u64) -> Self {
        let Element { id, payload, deadline, deliveries } = element;
        Self { id: id.into(), payload: payload.into(), deadline, deliveries, ttl }
    }

    fn element(&self) -> Element<'_> {
        let Self { id, payload, deadline, deliveries, .. } = self;
        Element { id, payload, deadline: *deadline, deliveries: *deliveries }
    }
}

impl Asks for Asker {
    fn take(&self, context: &Context, key: Str<'_>) -> Option<Box<dyn Taken>> {
        self.held(context).or_else(|| Some(Box::new(self.due(context, key)?)))
    }

    /// Another connection of the client's may have been given something for it, which nobody has heard of.
    fn held(&self, context: &Context) -> Option<Box<dyn Taken>> {
        let now = clock::now();
        let held = self.may_hold.iter().find_map(|key| {
            let key = OwnedStr::new(key);
            let elements = inspect(context, key.as_str(), |dehydrator| {
                let held = held(&dehydrator.lawn, self.take, now);
                held.map(|element| Copied::new(element, 0)).collect::<Vec<_>>()
            });
            let elements = elements.filter(|elements| !elements.is_empty())?;
            Some(self.taken(context, key, elements, None))
        })?;
        Some(Box::new(held))
    }
}

impl Asker {
    pub fn new<'a>(take: Take, is_named: bool, keys: impl Iterator<Item = Str<'a>>) -> Self {
        let keys = keys.filter(|_| take.token.is_some_and(|token| token.is_chosen()));
        Self { take, is_named, may_hold: keys.map(|key| key.bytes().into()).collect() }
    }

    fn due(&self, context: &Context, name: Str<'_>) -> Option<ForBlocked> {
        let (take, now) = (self.take, clock::now());
        // What is given back needs its TTL, which is not said of an element that is taken out.
        let ttls = inspect(context, name, |dehydrator| {
            let count = if dehydrator.rules.policy.holds() { take.count } else { 0 };
            let due = dehydrator.given_out(now, count);
            due.map(|(ttl, element)| (ttl, element.deadline)).collect::<Vec<_>>()
        })?;
        ttls.first()?;
        let dehydrator = Writing::open_at(context, name, now).ok()?;
        let expiry = dehydrator.expiry();
        let mut ttls = ttls.into_iter();
        let mut elements = Vec::new();
        take_due(context, dehydrator, name, now, take, |element| {
            let (ttl, deadline) = ttls.next().unwrap_or_default();
            // Under a lease the deadline is that of the lease by now.
            elements.push(Copied::new(Element { deadline, ..element }, ttl));
        });
        // The key may have expired in between.
        elements.first()?;
        Some(self.taken(context, OwnedStr::new(name.bytes()), elements, expiry))
    }

    fn taken(
        &self,
        context: &Context,
        key: OwnedStr,
        elements: Vec<Copied>,
        expiry: Option<u64>,
    ) -> ForBlocked {
        let Self { take, is_named, .. } = *self;
        ForBlocked { db: context.selected_db(), key, take, elements, is_named, expiry }
    }
}

impl Taken for ForBlocked {
    fn deadline(&self) -> u64 {
        self.elements.first().map_or(0, |element| element.deadline)
    }

    fn reply(&self, context: &Context) {
        let mut reply = if self.is_named {
            context.reply_named_open_array(self.key.as_str().bytes())
        } else {
            context.reply_open_array()
        };
        for element in &self.elements {
            self.take.reply(&mut reply, &element.element());
        }
    }

    /// A lease runs out by itself. What was taken for good is put away again, with its deadline: it comes
    /// after what else is due at that time.
    fn give_back(&self, context: &Context) {
        if self.take.lease.is_some() {
            return;
        }
        if context.is_read_only() || !context.select_db(self.db) {
            log_warning(
                "dehydrator: a client hung up as this server became a replica: what it was given is lost",
            );
            return;
        }
        let Ok(mut dehydrator) = Writing::open(context, self.key.as_str()) else { return };
        let mut given_back = Vec::new();
        let put = dehydrator.lawn_or_new(|lawn| {
            for copied in &self.elements {
                let Copied { id, payload, deadline, deliveries, ttl } = copied;
                // An id that was pushed meanwhile is another element.
                if lawn.start_at(id, *ttl, payload, *deadline).is_ok() {
                    // Whoever held it holds it no more.
                    lawn.set_deliveries(id, *deliveries, None);
                    given_back.push(copied);
                }
            }
            if given_back.is_empty() { Err(()) } else { Ok(()) }
        });
        // What came to be in the key since has an expiry of its own.
        let expiry = self.expiry.filter(|_| dehydrator.is_new());
        if expiry.is_some_and(|at| at <= dehydrator.now()) {
            return;
        }
        if put.is_ok() {
            given_back.iter().for_each(|copied| copied.replicate(context, self.key.as_str()));
            dehydrator.changed(c"dehydrator.push");
            expiry.into_iter().for_each(|at| restore_expiry(context, self.key.as_str(), at));
        }
    }
}

impl Copied {
    fn replicate(&self, context: &Context, key: Str<'_>) {
        let [id, element] = [&self.id, &self.payload].map(|bytes| OwnedStr::new(bytes));
        let (ttl, deadline) = (OwnedStr::of_number(self.ttl), self.deadline);
        let [id, element, ttl] = [&id, &element, &ttl].map(OwnedStr::as_str);
        let pushed = Pushed { key, ttl, element, id, deadline };
        replicate::given_back(context, &pushed, self.deliveries);
    }
}
