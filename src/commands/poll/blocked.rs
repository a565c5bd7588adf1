//! POLL and MPOLL for a client that is blocked: what is taken for it, and given back if it has gone.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use crate::clock;
use crate::data_type::{Writing, inspect, restore_expiry};
use crate::lawn::{Element, Lawn, Token};
use crate::pending::blocked::{Asks, Taken};
use crate::replicate::{self, Pushed};
use crate::server::guard::{Whole, trap};
use crate::server::{Context, OwnedStr, Str, log};

use super::give::{held, take_due};
use crate::commands::args::Take;

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
    /// What was held before is not given back.
    on_its_way: Option<OnItsWay>,
}

/// An element as it is replied, and as it was before it was taken.
struct Copied {
    id: Box<[u8]>,
    payload: Box<[u8]>,
    deliveries: u16,
    before: Before,
}

/// What an element that is given back is to be again.
#[derive(Clone, Copy, Default)]
struct Before {
    ttl: u64,
    deadline: u64,
    deliveries: u16,
    token: Option<Token>,
}

impl Before {
    /// Of an element that came to be due while others were taken.
    fn of_unknown(element: &Element<'_>, take: Take, now: u64) -> Self {
        let is_leased = take.lease.is_some();
        Self {
            ttl: 0,
            deadline: if is_leased { now } else { element.deadline },
            deliveries: element.deliveries - u16::from(is_leased),
            token: None,
        }
    }
}

impl Copied {
    fn new(element: Element<'_>, before: Before) -> Self {
        let Element { id, payload, deliveries, .. } = element;
        Self { id: id.into(), payload: payload.into(), deliveries, before }
    }

    fn element(&self) -> Element<'_> {
        let Self { id, payload, deliveries, before } = self;
        Element { id, payload, deadline: before.deadline, deliveries: *deliveries }
    }
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    /// Tokens that clients have chosen, under which something is on its way to a blocked client: to how many, and
    /// whether it was given to the client over another connection meanwhile.
    static ON_THEIR_WAY: RefCell<BTreeMap<Token, (usize, bool)>> = const { RefCell::new(BTreeMap::new()) };
}

/// Something is on its way to a client for as long as this lives.
struct OnItsWay {
    /// The token of the client's own choice under which it is.
    token: Option<Token>,
    /// A panic that drops it would lose what is nowhere else.
    _whole: Whole,
}

impl OnItsWay {
    fn new(token: Option<Token>, whole: Whole) -> Self {
        let token = token.filter(|token| token.is_chosen());
        if let Some(token) = token {
            ON_THEIR_WAY.with_borrow_mut(|it| it.entry(token).or_default().0 += 1);
        }
        Self { token, _whole: whole }
    }

    /// Whether the client has it by another connection.
    fn is_claimed(&self) -> bool {
        let claimed = |token| ON_THEIR_WAY.with_borrow(|it| it.get(&token).is_some_and(|it| it.1));
        self.token.is_some_and(claimed)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let Some(token) = self.token else { return };
        // When the process ends, the table may have gone before.
        let _ = ON_THEIR_WAY.try_with(|it| {
            let mut it = it.borrow_mut();
            if let Some((count, _)) = it.get_mut(&token) {
                *count -= 1;
                if *count == 0 {
                    it.remove(&token);
                }
            }
        });
    }
}

/// Says that a client was told what it holds under a token of its own choice: what is on its way to it over another
/// connection is not given back if that has been cut.
pub(super) fn claim(token: Option<Token>) {
    if let Some(token) = token {
        ON_THEIR_WAY.with_borrow_mut(|it| {
            if let Some((_, claimed)) = it.get_mut(&token) {
                *claimed = true;
            }
        });
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
                let copied = |element: Element<'_>| {
                    let before = Before { deadline: element.deadline, ..Before::default() };
                    Copied::new(element, before)
                };
                held.map(copied).collect::<Vec<_>>()
            });
            let elements = elements.filter(|elements| !elements.is_empty())?;
            Some(self.taken(context, key, elements))
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
        // What is given back is to be what it was.
        let befores = inspect(context, name, |dehydrator| {
            let count = if dehydrator.rules.policy.holds() { take.count } else { 0 };
            let due = dehydrator.given_out(now, count);
            let before = |(ttl, element): (u64, Element<'_>)| {
                let Element { id, deadline, deliveries, .. } = element;
                let token = dehydrator.lawn.token(&element);
                (Box::from(id), Before { ttl, deadline, deliveries, token })
            };
            due.map(before).collect::<VecDeque<(Box<[u8]>, Before)>>()
        })?;
        befores.front()?;
        let dehydrator = Writing::open_at(context, name, now).ok()?;
        let expiry = dehydrator.expiry();
        let whole = Whole::begin();
        let mut befores = befores;
        let mut elements = Vec::new();
        take_due(context, dehydrator, name, now, take, |element| {
            // Nearly always it is the first. Where dead letters are passed over events call out, and another may come.
            let known = befores.iter().position(|(id, _)| **id == *element.id);
            let known = known.and_then(|at| befores.remove(at)).map(|(_, before)| before);
            let before = known.unwrap_or_else(|| Before::of_unknown(&element, take, now));
            elements.push(Copied::new(element, before));
        });
        trap::pass("taken");
        // The key may have expired in between.
        elements.first()?;
        let taken = self.taken(context, OwnedStr::new(name.bytes()), elements);
        let on_its_way = Some(OnItsWay::new(take.token, whole));
        Some(ForBlocked { expiry, on_its_way, ..taken })
    }

    fn taken(&self, context: &Context, key: OwnedStr, elements: Vec<Copied>) -> ForBlocked {
        let (Self { take, is_named, .. }, db) = (self, context.selected_db());
        let (take, is_named) = (*take, *is_named);
        ForBlocked { db, key, take, elements, is_named, expiry: None, on_its_way: None }
    }
}

impl Taken for ForBlocked {
    fn deadline(&self) -> u64 {
        self.elements.first().map_or(0, |element| element.before.deadline)
    }

    fn reply(&self, context: &Context) {
        if self.on_its_way.is_none() {
            claim(self.take.token);
        }
        let mut reply = if self.is_named {
            context.reply_named_array_up_to(self.key.as_str().bytes(), self.elements.len())
        } else {
            context.reply_array(self.elements.len())
        };
        for element in &self.elements {
            self.take.reply(&mut reply, &element.element());
        }
    }

    /// What was taken or leased is what it was before, with its deadline: it comes after what else is due at that time.
    fn give_back(&self, context: &Context) {
        let Some(on_its_way) = &self.on_its_way else { return };
        if on_its_way.is_claimed() {
            return;
        }
        if context.is_read_only() || !context.select_db(self.db) {
            log::warning(
                "dehydrator: a client hung up as this server became a replica: what it was given is lost, or hidden \
                 until its lease runs out",
            );
            return;
        }
        if self.take.lease.is_some() {
            self.end_leases(context);
        } else {
            self.put_back(context);
        }
    }
}

impl ForBlocked {
    /// Nobody has heard of the leases: they have not been.
    fn end_leases(&self, context: &Context) {
        let key = self.key.as_str();
        let Ok(mut dehydrator) = Writing::open(context, key) else { return };
        let Some((lawn, token)) = dehydrator.lawn().zip(self.take.token) else { return };
        let mut any = false;
        for copied in &self.elements {
            let Copied { id, deliveries, before, .. } = copied;
            // Who has the token may have changed it, or given it back, meanwhile; or another lease has begun.
            let is_held = lawn.holds(id, token)
                && lawn.look(id).is_some_and(|element| element.deliveries == *deliveries);
            if !is_held || !lawn.restart_at(id, before.ttl, before.deadline) {
                continue;
            }
            lawn.set_deliveries(id, before.deliveries, before.token);
            if let Some(element) = lawn.look(id) {
                replicate_given_back(context, key, &element, *before, true);
                any = true;
            }
        }
        if any {
            dehydrator.changed(c"dehydrator.push");
        }
    }

    fn put_back(&self, context: &Context) {
        let key = self.key.as_str();
        let Ok(mut dehydrator) = Writing::open(context, key) else { return };
        let mut given_back = Vec::new();
        let put = dehydrator.lawn_or_new(|lawn: &mut Lawn| {
            for copied in &self.elements {
                let Copied { id, payload, before, .. } = copied;
                // An id that was pushed meanwhile is another element.
                if lawn.start_at(id, before.ttl, payload, before.deadline).is_ok() {
                    lawn.set_deliveries(id, before.deliveries, before.token);
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
            for copied in given_back {
                replicate_given_back(context, key, &copied.element(), copied.before, false);
            }
            dehydrator.changed(c"dehydrator.push");
            expiry.into_iter().for_each(|at| restore_expiry(context, key, at));
        }
    }
}

fn replicate_given_back(
    context: &Context,
    key: Str<'_>,
    element: &Element<'_>,
    before: Before,
    replaces: bool,
) {
    let [id, payload] = [element.id, element.payload].map(OwnedStr::new);
    let [id, element] = [&id, &payload].map(OwnedStr::as_str);
    let pushed = Pushed { key, ttl: before.ttl, element, id, deadline: before.deadline };
    replicate::given_back(context, &pushed, replaces, before.deliveries, before.token);
}
