//! The queues of blocked clients, and when each key is visited. This table calls no server function.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::ops::Bound;
use std::rc::Rc;

use hashbrown::HashMap;

use super::super::timer;
use crate::clock;
use crate::metrics::lateness::OverdueSince;
use crate::server::blocked_client::{BlockedClient, ClientHandle, ClientId};
use crate::server::key::Name;
use crate::server::{Error, OwnedStr, Str, error::Result};
use lawn::Token;

/// How a POLL or an MPOLL takes and replies due elements. A blocked client keeps it while it sleeps.
#[derive(Clone, Copy)]
pub struct Take<'a> {
    /// At most this many elements; unlimited unless COUNT is given.
    pub count: usize,
    pub with_ids: bool,
    /// Set if the reply names the key, as MPOLL's does.
    pub is_named: bool,
    /// The length of the lease, in milliseconds. `None` removes the elements.
    pub lease: Option<u64>,
    /// The token of the lease: chosen by the client, or drawn.
    pub token: Option<Token>,
    /// The chosen token, as the client wrote it.
    pub word: Option<&'a [u8]>,
}

impl Take<'_> {
    /// Returns the token if the client has chosen it. The client may hold elements under it already.
    pub fn chosen_token(&self) -> Option<Token> {
        self.token.filter(|token| token.is_chosen())
    }

    /// Returns the options without the word, which lasts no longer than the command.
    pub fn without_word(&self) -> Take<'static> {
        let Self { count, with_ids, is_named, lease, token, .. } = *self;
        Take { count, with_ids, is_named, lease, token, word: None }
    }
}

/// A key's database and name, to look for its queue. A write to a key copies no name for that.
pub trait Named {
    fn parts(&self) -> (i32, &[u8]);
}

impl Named for Name {
    fn parts(&self) -> (i32, &[u8]) {
        (self.db, &self.key)
    }
}

impl Named for (i32, &[u8]) {
    fn parts(&self) -> (i32, &[u8]) {
        *self
    }
}

impl<'a> Borrow<dyn Named + 'a> for Rc<Name> {
    fn borrow(&self) -> &(dyn Named + 'a) {
        &**self
    }
}

impl Ord for dyn Named + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for dyn Named + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Named + '_ {}

/// The order of arrival.
type Ticket = u64;

/// A sleeping client, and its request.
pub struct Sleeper {
    /// The keys in the client's order, each once, all in one database.
    pub names: Vec<Rc<Name>>,
    /// The command without its options. The keys come last.
    pub words: Vec<OwnedStr>,
    pub connection: ClientId,
    /// The name of the client's user, if it has one.
    pub user: Option<OwnedStr>,
    take: Take<'static>,
    /// The token that the client has chosen, as it sent it.
    word: Option<Box<[u8]>>,
    /// `None`: it waits no more.
    client: RefCell<Option<BlockedClient>>,
    ticket: Ticket,
    /// The timeout, on the monotonic clock, in microseconds.
    until_us: Option<u64>,
}

impl Sleeper {
    /// Returns the key of `names[at]`.
    pub fn key(&self, at: usize) -> Str<'_> {
        self.words[self.words.len() - self.names.len() + at].as_str()
    }

    /// Returns the options of the request.
    pub fn take(&self) -> Take<'_> {
        Take { word: self.word.as_deref(), ..self.take }
    }
}

/// Clients in the order of arrival.
type Sleepers = BTreeMap<Ticket, Rc<Sleeper>>;

/// The clients that wait for a key.
struct Queue {
    name: Rc<Name>,
    sleepers: Sleepers,
    /// Since when elements could be given out.
    overdue: OverdueSince,
    /// When the key is ready, in milliseconds since the epoch: when its next element comes due, as far as is known, unless
    /// that was postponed.
    ready_at: Option<u64>,
    /// Set if the key is in [`Queues::ready`], or is being served. Otherwise it is in [`Queues::times`], if it has a time.
    is_ready: bool,
}

impl Queue {
    fn new(name: &Rc<Name>) -> Self {
        let (name, sleepers, overdue) = (Rc::clone(name), Sleepers::new(), Default::default());
        Self { name, sleepers, overdue, ready_at: None, is_ready: false }
    }

    /// Sets when the key is ready, also in [`Queues::times`].
    fn set_ready_at(&mut self, at: Option<u64>, times: &mut BTreeSet<(u64, Rc<Name>)>) {
        let before = mem::replace(&mut self.ready_at, at);
        if before != at && !self.is_ready {
            before.map(|before| times.remove(&(before, Rc::clone(&self.name))));
            times.extend(at.map(|at| (at, Rc::clone(&self.name))));
        }
    }

    /// Returns whether an element is due at `now`, as far as is known.
    fn is_due(&self, now: u64) -> bool {
        matches!(self.ready_at, Some(at) if at <= now)
    }
}

/// See the [folder](super).
#[derive(Default)]
pub struct Queues {
    /// In the order of names, so that the backstop carries on after the last one it saw.
    by_name: BTreeMap<Rc<Name>, Queue>,
    by_client: HashMap<ClientHandle, Rc<Sleeper>, ahash::RandomState>,
    /// When each key that is not ready is visited, in milliseconds since the epoch.
    times: BTreeSet<(u64, Rc<Name>)>,
    /// Keys with due elements, in the order in which they became ready.
    ready: VecDeque<Rc<Name>>,
    /// The timeout of each client, on the monotonic clock, in microseconds.
    timeouts: BTreeMap<(u64, Ticket), Rc<Sleeper>>,
    /// The queues of keys for which clients wait in vain, and why. The queues are taken out of `by_name`, so later clients of
    /// the same key wait in a new one.
    dismissed: VecDeque<(Error, Sleepers)>,
    /// Set while elements of disconnected clients are to be given back, as the next work.
    pub has_returns: bool,
    tickets: Ticket,
    /// No client is served before this time on the monotonic clock, in microseconds.
    retry_us: u64,
    /// The last name that the backstop saw, or the one before it if no client waits for that any more.
    seen: Option<Rc<Name>>,
}

/// The clients that wait.
impl Queues {
    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Returns whether there is nothing to do for any client, now or later.
    pub fn is_idle(&self) -> bool {
        self.by_client.is_empty()
            && self.ready.is_empty()
            && self.dismissed.is_empty()
            && !self.has_returns
    }

    /// Returns whether clients wait for a key.
    pub fn is_watched(&self, name: &dyn Named) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds a client at the end of the queues of its keys.
    pub(super) fn join(
        &mut self,
        mut client: BlockedClient,
        names: impl Iterator<Item = Name>,
        words: Vec<OwnedStr>,
        until_us: Option<u64>,
        take: &Take<'_>,
    ) -> Rc<Sleeper> {
        let (handle, ticket) = (client.handle, self.tickets);
        self.tickets += 1;
        let sleeper = Rc::new(Sleeper {
            names: names.map(|name| self.shared(name)).collect(),
            words,
            connection: client.id,
            user: client.user.take(),
            take: take.without_word(),
            word: take.word.map(Box::from),
            client: RefCell::new(Some(client)),
            ticket,
            until_us,
        });
        for name in &sleeper.names {
            let queue = self.by_name.entry(Rc::clone(name)).or_insert_with(|| Queue::new(name));
            queue.sleepers.insert(ticket, Rc::clone(&sleeper));
        }
        self.timeouts.extend(until_us.map(|until_us| ((until_us, ticket), Rc::clone(&sleeper))));
        self.by_client.insert(handle, Rc::clone(&sleeper));
        sleeper
    }

    /// Returns a key's name, shared by all clients that wait for it.
    fn shared(&self, name: Name) -> Rc<Name> {
        let known = self.by_name.get_key_value(&name).map(|(known, _)| Rc::clone(known));
        known.unwrap_or_else(|| Rc::new(name))
    }

    /// Returns whether the reply to a client names the key. `None`: it does not wait.
    pub fn is_named(&self, handle: ClientHandle) -> Option<bool> {
        Some(self.by_client.get(&handle)?.take.is_named)
    }

    /// Removes a client that disconnects or is unblocked by the server. `None`: it is being unblocked already.
    pub fn leave_by_itself(&mut self, handle: ClientHandle) -> Option<BlockedClient> {
        let sleeper = self.by_client.get(&handle).cloned()?;
        self.leave(&sleeper)
    }

    /// Removes a client from its queues. `None`: it is being unblocked already.
    pub fn leave(&mut self, sleeper: &Sleeper) -> Option<BlockedClient> {
        // From now on the server may reuse the handle.
        let client = sleeper.client.take()?;
        self.by_client.remove(&client.handle);
        if let Some(until_us) = sleeper.until_us {
            self.timeouts.remove(&(until_us, sleeper.ticket));
        }
        for name in &sleeper.names {
            let Some(queue) = self.by_name.get_mut(name) else { continue };
            queue.sleepers.remove(&sleeper.ticket);
            if queue.sleepers.is_empty() {
                self.remove_queue(name);
            }
        }
        Some(client)
    }

    /// Removes the queue of a key, and frees the name, which may be as long as a string. Returns the clients.
    fn remove_queue(&mut self, name: &Rc<Name>) -> Option<Sleepers> {
        let mut queue = self.by_name.remove(name)?;
        queue.set_ready_at(None, &mut self.times);
        if matches!(&self.seen, Some(seen) if Rc::ptr_eq(seen, name)) {
            let before = self.by_name.range(..Rc::clone(name)).next_back();
            self.seen = before.map(|(before, _)| Rc::clone(before));
        }
        Some(queue.sleepers)
    }

    /// Dismisses the clients that wait for a key now. Returns whether there are any.
    pub(super) fn dismiss(&mut self, name: &dyn Named, reason: Error) -> bool {
        let name = self.by_name.get_key_value(name).map(|(name, _)| Rc::clone(name));
        let Some(sleepers) = name.and_then(|name| self.remove_queue(&name)) else { return false };
        self.dismissed.push_back((reason, sleepers));
        true
    }

    /// Dismisses the clients that wait now, for whatever key. O(keys).
    pub(super) fn dismiss_all(&mut self, reason: &Error) {
        self.times.clear();
        self.ready.clear();
        self.seen = None;
        let queues = mem::take(&mut self.by_name).into_values();
        self.dismissed.extend(queues.map(|queue| (reason.clone(), queue.sleepers)));
    }

    /// Returns the next client that is to be sent away, for a reason or because its timeout is over at a time on the
    /// monotonic clock, in microseconds.
    pub fn next_to_send_away(&mut self, now_us: u64) -> Option<(Rc<Sleeper>, Option<Error>)> {
        let timeout = self.timeouts.first_key_value().filter(|((at, _), _)| *at <= now_us);
        if let Some((_, sleeper)) = timeout {
            return Some((Rc::clone(sleeper), None));
        }
        while let Some((reason, sleepers)) = self.dismissed.front_mut() {
            while let Some((_, sleeper)) = sleepers.pop_first() {
                // It may have left by itself since.
                if sleeper.client.borrow().is_some() {
                    return Some((sleeper, Some(reason.clone())));
                }
            }
            self.dismissed.pop_front();
        }
        None
    }
}

/// Times.
impl Queues {
    /// Returns when there is work next, on the monotonic clock, in microseconds.
    pub fn next_us(&self) -> Option<u64> {
        let timeout = self.timeouts.first_key_value().map(|((at, _), _)| *at);
        let timeout = if self.dismissed.is_empty() { timeout } else { Some(0) };
        let time = match self.times.first() {
            _ if self.has_returns || !self.ready.is_empty() => Some(0),
            first => first.map(|(at, _)| timer::from_deadline(*at)),
        };
        timeout.into_iter().chain(time.map(|at| at.max(self.retry_us))).min()
    }

    /// Returns whether clients are to be served at a time on the monotonic clock, in microseconds.
    pub fn is_time(&self, now_us: u64) -> bool {
        (self.has_returns || !self.ready.is_empty()) && self.retry_us <= now_us
    }

    /// Postpones serving to a time on the monotonic clock, in microseconds.
    pub fn retry_at(&mut self, at_us: u64) {
        self.retry_us = at_us;
    }

    /// Records when the clients of a key can be served, if there are any. Returns what is news of that.
    pub(super) fn note(
        &mut self,
        name: &dyn Named,
        outlook: impl FnOnce() -> Result<Option<u64>>,
    ) -> Option<Result<Option<u64>>> {
        let queue = self.by_name.get_mut(name)?;
        let outlook = outlook();
        if let Ok(next) = outlook {
            queue.overdue.note(next, clock::now_us);
            if queue.ready_at == next {
                return None;
            }
            queue.set_ready_at(next, &mut self.times);
        }
        Some(outlook)
    }

    /// Returns since when due elements of a key could be given out. `None`: no client waits for it.
    pub fn overdue(&self, name: &Name) -> Option<OverdueSince> {
        Some(self.by_name.get(name)?.overdue)
    }

    /// Postpones the visit to a key in which something seems to be due at `now` until `at`, both in milliseconds since
    /// the epoch. `None`: until it is recorded anew, which the backstop does.
    pub fn postpone(&mut self, name: &Rc<Name>, now: u64, at: Option<u64>) {
        if let Some(queue) = self.by_name.get_mut(name).filter(|queue| queue.is_due(now)) {
            queue.set_ready_at(at, &mut self.times);
        }
    }

    /// Returns the next key in turn, beginning again after the last.
    pub fn next_watched(&mut self) -> Option<Rc<Name>> {
        let after = self.seen.as_ref().and_then(|seen| {
            self.by_name.range((Bound::Excluded(Rc::clone(seen)), Bound::Unbounded)).next()
        });
        let (name, _) = after.or_else(|| self.by_name.first_key_value())?;
        self.seen = Some(Rc::clone(name));
        self.seen.clone()
    }

    /// Returns the number of keys with waiting clients.
    pub fn watched(&self) -> usize {
        self.by_name.len()
    }
}

/// Ready keys, and the next client of each.
impl Queues {
    /// Returns the number of ready keys.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Makes the keys ready whose visit is due at `now`, in milliseconds since the epoch.
    pub fn come_due(&mut self, now: u64) {
        while let Some((at, _)) = self.times.first()
            && *at <= now
            && let Some((_, name)) = self.times.pop_first()
        {
            if let Some(queue) = self.by_name.get_mut(&name) {
                queue.is_ready = true;
                self.ready.push_back(name);
            }
        }
    }

    /// Removes the key that has been ready longest from the ready ones. [`Queues::served`] must follow.
    pub fn next_ready(&mut self) -> Option<Rc<Name>> {
        self.ready.pop_front()
    }

    /// Records that a key that was ready has been served. If something is due, it is ready again at the next
    /// [`Queues::come_due`].
    pub fn served(&mut self, name: &Rc<Name>) {
        if let Some(queue) = self.by_name.get_mut(name)
            && mem::take(&mut queue.is_ready)
        {
            self.times.extend(queue.ready_at.map(|at| (at, Rc::clone(name))));
        }
    }

    /// Returns the next client to serve in the queue of a key, and the places in its request of the keys from which to serve
    /// it: those before this key in which something is due at `now`, and the key itself. `None`: no client waits, nothing is due, or the first
    /// prefers another key, where others stand before it, and has to wait for that one.
    pub fn next_in_queue(
        &mut self,
        name: &Rc<Name>,
        now: u64,
    ) -> Option<(Rc<Sleeper>, Vec<usize>, usize)> {
        let queue = self.by_name.get(name)?;
        let sleeper = Rc::clone(queue.sleepers.first_key_value()?.1);
        // What the client before was given may be held under the token of this one.
        if !queue.is_due(now) && sleeper.take.chosen_token().is_none() {
            return None;
        }
        let own = sleeper.names.iter().position(|it| it == name)?;
        let mut others = Vec::new();
        // Nearly always nothing else is due, and the other keys are skipped.
        let mut due = self.times.iter().take_while(|(at, _)| *at <= now);
        let is_other_due = !self.ready.is_empty() || due.any(|(_, it)| it != name);
        for before in (0..own).take_while(|_| is_other_due) {
            let queue = self.by_name.get(&sleeper.names[before]);
            let Some(queue) = queue.filter(|queue| queue.is_due(now)) else { continue };
            let (first, _) = queue.sleepers.first_key_value()?;
            if *first != sleeper.ticket {
                return None;
            }
            others.push(before);
        }
        Some((sleeper, others, own))
    }
}

#[cfg(test)]
mod tests;
