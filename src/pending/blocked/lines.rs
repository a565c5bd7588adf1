//! The lines of blocked clients, and when each key is visited. This table calls no server function.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

use hashbrown::HashMap;

use super::super::{Take, timer};
use crate::metrics::latency::OverdueSince;
use crate::server::Error;
use crate::server::blocked_client::{BlockedClient, ClientHandle, ClientId};
use crate::server::key::Name;

/// The order of arrival.
type Ticket = u64;

/// A sleeping client, and its request.
pub struct Sleeper {
    /// The keys in the client's order, each once, all in one database.
    pub names: Vec<Rc<Name>>,
    pub take: Take,
    /// The token that the client has chosen, as it sent it.
    pub word: Option<Rc<[u8]>>,
    /// Whether the reply names the key.
    pub is_named: bool,
    /// The connection, which identifies the user.
    pub client: ClientId,
    handle: ClientHandle,
    ticket: Ticket,
    /// The timeout, on the monotonic clock, in microseconds.
    until_us: Option<u64>,
}

/// The client to serve next in the line of a key.
pub struct NextInLine {
    pub sleeper: Rc<Sleeper>,
    /// The keys to try, in the client's order: those recorded as due, and last the key itself.
    pub from: Vec<Rc<Name>>,
}

/// The clients that wait for a key.
#[derive(Default)]
struct Line {
    sleepers: BTreeMap<Ticket, Rc<Sleeper>>,
    overdue: OverdueSince,
    /// When the key is visited, in milliseconds since the epoch: its entry in [`Lines::times`].
    visit_at: Option<u64>,
    /// Whether the key is ready.
    is_ready: bool,
    /// The clients to reject, if any.
    dismissed: Option<Dismissed>,
}

/// Clients that wait in vain.
struct Dismissed {
    reason: Error,
    /// Clients with an earlier ticket than this.
    before: Ticket,
}

/// See the [folder](super).
#[derive(Default)]
pub struct Lines {
    /// In the order of names, so that the backstop carries on after the last one it saw.
    by_name: BTreeMap<Rc<Name>, Line>,
    by_client: HashMap<ClientHandle, (BlockedClient, Rc<Sleeper>), ahash::RandomState>,
    /// When each key is visited, in milliseconds since the epoch.
    times: BTreeSet<(u64, Rc<Name>)>,
    /// Keys with due elements or rejected clients, in the order in which they became ready.
    ready: VecDeque<Rc<Name>>,
    /// The timeout of each client, on the monotonic clock, in microseconds.
    timeouts: BTreeMap<(u64, Ticket), ClientHandle>,
    tickets: Ticket,
    /// No client is served before this time on the monotonic clock, in microseconds.
    retry_us: u64,
    /// The last name that the backstop saw, or the one before it if no client waits for that any more.
    seen: Option<Rc<Name>>,
    /// Rejects all clients with an earlier ticket than this, from the key after this one on.
    all_dismissed: Option<(Ticket, Option<Rc<Name>>)>,
}

/// The clients that wait.
impl Lines {
    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Returns whether no client waits.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns whether clients wait for a key.
    pub fn is_watched(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds a client at the end of the lines of its keys.
    pub(super) fn join(
        &mut self,
        client: BlockedClient,
        names: impl Iterator<Item = Name>,
        until_us: Option<u64>,
        take: Take,
        word: Option<Rc<[u8]>>,
        is_named: bool,
    ) -> Rc<Sleeper> {
        let names = names.map(|name| self.shared(name)).collect();
        let (handle, ticket) = (client.handle(), self.tickets);
        self.tickets += 1;
        let client_id = client.id();
        let sleeper = Rc::new(Sleeper {
            names,
            take,
            word,
            is_named,
            client: client_id,
            handle,
            ticket,
            until_us,
        });
        for name in &sleeper.names {
            let line = self.by_name.entry(Rc::clone(name)).or_default();
            line.sleepers.insert(ticket, Rc::clone(&sleeper));
        }
        self.timeouts.extend(until_us.map(|until_us| ((until_us, ticket), handle)));
        self.by_client.insert(handle, (client, Rc::clone(&sleeper)));
        sleeper
    }

    /// Returns a key's name, shared by all clients that wait for it.
    fn shared(&self, name: Name) -> Rc<Name> {
        let known = self.by_name.get_key_value(&name).map(|(known, _)| Rc::clone(known));
        known.unwrap_or_else(|| Rc::new(name))
    }

    /// Removes a client from its lines. `None`: it is being unblocked already.
    pub fn leave(&mut self, sleeper: &Sleeper) -> Option<BlockedClient> {
        // The server may have reused the handle.
        self.by_client.get(&sleeper.handle).filter(|(_, it)| it.ticket == sleeper.ticket)?;
        self.leave_by_itself(sleeper.handle)
    }

    /// Removes a client that disconnects or is unblocked by the server. `None`: it is being unblocked already.
    pub fn leave_by_itself(&mut self, handle: ClientHandle) -> Option<BlockedClient> {
        let (client, sleeper) = self.by_client.remove(&handle)?;
        if let Some(until_us) = sleeper.until_us {
            self.timeouts.remove(&(until_us, sleeper.ticket));
        }
        for name in &sleeper.names {
            let Some(line) = self.by_name.get_mut(name) else { continue };
            line.sleepers.remove(&sleeper.ticket);
            if line.sleepers.is_empty() {
                self.visit_at(name, None);
                self.by_name.remove(name);
                // Frees the name, which may be as long as a string.
                if self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, name)) {
                    let before = self.by_name.range(..Rc::clone(name)).next_back();
                    self.seen = before.map(|(before, _)| Rc::clone(before));
                }
            }
        }
        Some(client)
    }

    /// Returns the first client whose timeout is over at a time on the monotonic clock, in microseconds.
    pub fn timed_out(&self, now_us: u64) -> Option<Rc<Sleeper>> {
        let (_, handle) = self.timeouts.first_key_value().filter(|((at, _), _)| *at <= now_us)?;
        self.by_client.get(handle).map(|(_, sleeper)| Rc::clone(sleeper))
    }
}

/// Times.
impl Lines {
    /// Returns when there is work next, on the monotonic clock, in microseconds. `at_once`: the caller has work now.
    pub fn next_us(&self, at_once: bool) -> Option<u64> {
        let timeout = self.timeouts.first_key_value().map(|((at, _), _)| *at);
        let time = self.times.first().map(|(at, _)| timer::from_deadline(*at));
        let time = if at_once || self.has_work() { Some(0) } else { time };
        let time = time.map(|at| at.max(self.retry_us));
        timeout.into_iter().chain(time).min()
    }

    /// Returns whether a client is to be served or rejected.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.all_dismissed.is_some()
    }

    /// Returns whether [`Lines::retry_at`] postpones all work at a time on the monotonic clock.
    pub fn is_waiting(&self, now_us: u64) -> bool {
        now_us < self.retry_us
    }

    /// Postpones all work to a time on the monotonic clock, in microseconds.
    pub fn retry_at(&mut self, at_us: u64) {
        self.retry_us = at_us;
    }

    /// Records when the next element of a key comes due, or came due, in milliseconds since the epoch. Returns that
    /// time if it newly sets the key's visit. For the clock see [`OverdueSince::note`].
    pub(super) fn note(
        &mut self,
        name: &Name,
        next: Option<u64>,
        clock_us: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let (name, line) = self.by_name.get_key_value(name)?;
        let (name, before, is_ready) = (Rc::clone(name), line.visit_at, line.is_ready);
        if !is_ready {
            self.visit_at(&name, next);
        }
        self.by_name.get_mut(&name)?.overdue.note(next, clock_us);
        next.filter(|_| !is_ready && before != next)
    }

    /// Counts due elements of a key as overdue from now on.
    pub(super) fn reset_overdue(&mut self, name: &Name) {
        if let Some(line) = self.by_name.get_mut(name) {
            line.overdue = OverdueSince::since_now();
        }
    }

    /// Returns since when due elements of a key are overdue. `None`: no client waits for it.
    pub fn overdue(&self, name: &Name) -> Option<OverdueSince> {
        self.by_name.get(name).map(|line| line.overdue)
    }

    /// Sets the next visit to a key that is not ready, in milliseconds since the epoch, until it is recorded anew.
    pub fn revisit_at(&mut self, name: &Rc<Name>, at: Option<u64>) {
        if self.by_name.get(name).is_some_and(|line| !line.is_ready) {
            self.visit_at(name, at);
        }
    }

    /// Sets when a key is visited.
    fn visit_at(&mut self, name: &Rc<Name>, at: Option<u64>) {
        let Some(line) = self.by_name.get_mut(name) else { return };
        let before = std::mem::replace(&mut line.visit_at, at);
        if before != at {
            before.map(|before| self.times.remove(&(before, Rc::clone(name))));
            self.times.extend(at.map(|at| (at, Rc::clone(name))));
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
impl Lines {
    /// Returns the number of ready keys.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Makes the keys ready whose visit is due at `now`, in milliseconds since the epoch.
    pub fn come_due(&mut self, now: u64) {
        while let Some((_, name)) = self.times.first().filter(|(at, _)| *at <= now) {
            let name = Rc::clone(name);
            self.make_ready(&name);
        }
    }

    fn make_ready(&mut self, name: &Rc<Name>) {
        self.visit_at(name, None);
        let Some(line) = self.by_name.get_mut(name) else { return };
        if !std::mem::replace(&mut line.is_ready, true) {
            self.ready.push_back(Rc::clone(name));
        }
    }

    /// Removes the key that has been ready longest from the queue. It counts as ready until [`Lines::begin_line`] or
    /// [`Lines::put_back`].
    pub fn next_ready(&mut self) -> Option<Rc<Name>> {
        self.ready.pop_front()
    }

    /// Queues a key behind all that are ready.
    pub fn put_back(&mut self, name: &Rc<Name>) {
        if self.by_name.contains_key(name) {
            self.ready.push_back(Rc::clone(name));
        }
    }

    /// Marks a key as not ready, because its line is being served. Returns whether it has a line.
    pub fn begin_line(&mut self, name: &Name) -> bool {
        let line = self.by_name.get_mut(name);
        line.map(|line| line.is_ready = false).is_some()
    }

    /// Returns the next client in the line of a key. `None`: no client waits, or the first prefers another key, where
    /// others stand before it. Then this key is made ready again, behind that one.
    pub fn next_in_line(&mut self, name: &Rc<Name>, now: u64) -> Option<NextInLine> {
        let (_, first) = self.by_name.get(name)?.sleepers.first_key_value()?;
        let sleeper = Rc::clone(first);
        let from = self.keys_to_serve_from(&sleeper, name, now);
        if from.is_none() {
            self.make_ready(name);
        }
        Some(NextInLine { from: from?, sleeper })
    }

    /// Returns the keys of a [`NextInLine`]. `None`: the sleeper is not the first in the line of one of them.
    fn keys_to_serve_from(
        &self,
        sleeper: &Sleeper,
        name: &Rc<Name>,
        now: u64,
    ) -> Option<Vec<Rc<Name>>> {
        let mut keys = Vec::new();
        // Nearly always nothing else is due, and the other keys are skipped.
        let mut due = self.times.iter().take_while(|(at, _)| *at <= now);
        if !self.ready.is_empty() || due.any(|(_, it)| it != name) {
            for before in sleeper.names.iter().take_while(|it| *it != name) {
                let Some(line) = self.by_name.get(before) else { continue };
                if line.is_ready || line.visit_at.is_some_and(|at| at <= now) {
                    let (first, _) = line.sleepers.first_key_value()?;
                    if *first != sleeper.ticket {
                        return None;
                    }
                    keys.push(Rc::clone(before));
                }
            }
        }
        keys.push(Rc::clone(name));
        Some(keys)
    }
}

/// Rejected clients.
impl Lines {
    /// Rejects the clients that wait for a key now. Returns whether there are any.
    pub(super) fn dismiss(&mut self, name: &Name, reason: Error) -> bool {
        let Some((name, _)) = self.by_name.get_key_value(name) else { return false };
        let name = Rc::clone(name);
        self.dismiss_before(&name, reason, self.tickets);
        true
    }

    fn dismiss_before(&mut self, name: &Rc<Name>, reason: Error, before: Ticket) {
        self.make_ready(name);
        if let Some(line) = self.by_name.get_mut(name) {
            line.dismissed = Some(Dismissed { reason, before });
        }
    }

    /// Rejects the clients that wait now, for whatever key.
    pub(super) fn dismiss_all(&mut self) {
        self.all_dismissed = Some((self.tickets, None));
    }

    /// Returns whether [`Lines::dismiss_all`] is unfinished.
    pub fn is_dismissing(&self) -> bool {
        self.all_dismissed.is_some()
    }

    /// Continues [`Lines::dismiss_all`] with the next few keys.
    pub fn dismiss_some(&mut self, most: usize) {
        let Some((before, after)) = self.all_dismissed.take() else { return };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.by_name.range((from, Bound::Unbounded)).take(most);
        let names: Vec<_> = names.map(|(name, _)| Rc::clone(name)).collect();
        for name in &names {
            self.dismiss_before(name, Error::SLOT_MOVED, before);
        }
        if names.len() == most {
            self.all_dismissed = Some((before, names.last().cloned()));
        }
    }

    /// Removes the next rejected client of this key from its lines, and returns it with the reason. Serves later
    /// clients again when none is left.
    pub fn take_dismissed(&mut self, name: &Name) -> Option<(BlockedClient, Error)> {
        let line = self.by_name.get_mut(name)?;
        let Dismissed { reason, before } = line.dismissed.as_ref()?;
        let first = line.sleepers.first_key_value().filter(|(ticket, _)| *ticket < before);
        let Some((_, first)) = first else {
            line.dismissed = None;
            return None;
        };
        let (first, reason) = (Rc::clone(first), reason.clone());
        self.leave(&first).map(|client| (client, reason))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Weak;

    use super::*;

    const TAKE: Take = Take { count: 1, with_ids: false, lease: None, token: None };

    fn name(key: &str) -> Name {
        Name { db: 0, key: key.as_bytes().into() }
    }

    /// A client of that number, blocked on these keys until `until_us`.
    fn join_until(
        lines: &mut Lines,
        number: usize,
        keys: &[&str],
        until_us: Option<u64>,
    ) -> Rc<Sleeper> {
        let client = BlockedClient::fake(number);
        lines.join(client, keys.iter().map(|key| name(key)), until_us, TAKE, None, false)
    }

    fn join(lines: &mut Lines, number: usize, keys: &[&str]) -> Rc<Sleeper> {
        join_until(lines, number, keys, None)
    }

    /// Joins the line of one key. Returns the name, to see whether it is freed.
    fn join_one(lines: &mut Lines, number: usize, key: &str) -> Weak<Name> {
        Rc::downgrade(&join(lines, number, &[key]).names[0])
    }

    fn leaves(lines: &mut Lines, number: usize) -> bool {
        lines.leave_by_itself(BlockedClient::fake(number).handle()).is_some()
    }

    fn text(name: &Name) -> String {
        String::from_utf8_lossy(&name.key).into_owned()
    }

    fn next(lines: &mut Lines) -> String {
        lines.next_watched().map(|name| text(&name)).unwrap_or_default()
    }

    /// Drains the ready keys.
    fn ready(lines: &mut Lines) -> String {
        let names = std::iter::from_fn(|| {
            let name = lines.next_ready()?;
            lines.begin_line(&name);
            Some(text(&name))
        });
        names.collect()
    }

    fn note(lines: &mut Lines, key: &str, next: Option<u64>) -> Option<u64> {
        lines.note(&name(key), next, || 1_000_000)
    }

    /// The ticket of the next client in the line of a key, and the keys to serve it from.
    fn next_in_line(lines: &mut Lines, key: &str, now: u64) -> Option<(Ticket, String)> {
        let turn = lines.next_in_line(&Rc::new(name(key)), now)?;
        Some((turn.sleeper.ticket, turn.from.iter().map(|name| text(name)).collect()))
    }

    #[test]
    fn a_name_is_freed_when_no_client_waits_and_the_backstop_goes_on_behind_it() {
        let lines = &mut Lines::default();
        let kept: Vec<_> =
            (0..).zip(["a", "b", "c", "d"]).map(|(at, key)| join_one(lines, at, key)).collect();
        assert_eq!([next(lines), next(lines), next(lines)], ["a", "b", "c"]);
        assert!(leaves(lines, 2), "c was seen last");
        assert!(kept[2].upgrade().is_none(), "c is let go of");
        assert_eq!(next(lines), "d");
        assert!(leaves(lines, 3));
        assert!(kept[3].upgrade().is_none());
        assert!(leaves(lines, 1) && leaves(lines, 0));
        assert!(kept.iter().all(|name| name.upgrade().is_none()));
        assert_eq!(next(lines), "");
        join(lines, 4, &["e"]);
        assert_eq!([next(lines), next(lines)], ["e", "e"]);
        // The first key was seen last: the one after it is next.
        join(lines, 5, &["f"]);
        assert_eq!([next(lines), next(lines)], ["f", "e"]);
        assert!(leaves(lines, 4));
        assert_eq!(next(lines), "f");
    }

    #[test]
    fn keys_become_ready_when_due_each_once_and_in_turn() {
        let lines = &mut Lines::default();
        for (number, key) in ["a", "b", "c"].iter().enumerate() {
            join(lines, number, &[key]);
        }
        assert_eq!(note(lines, "b", Some(5)), Some(5), "it is to be looked at then");
        assert_eq!(note(lines, "b", Some(5)), None, "as before");
        assert_eq!(note(lines, "a", Some(7)), Some(7));
        assert_eq!(note(lines, "nobody's", Some(1)), None);
        lines.come_due(4);
        assert!(!lines.has_work());
        lines.come_due(7);
        lines.come_due(7);
        assert_eq!((lines.has_work(), lines.ready()), (true, 2));
        // A note on a ready key is read when it is visited.
        assert_eq!(note(lines, "b", Some(6)), None);
        assert_eq!(ready(lines), "ba");
        assert_eq!((lines.has_work(), note(lines, "b", Some(6))), (false, Some(6)));
        note(lines, "b", None);
        lines.come_due(u64::MAX);
        assert_eq!(ready(lines), "", "it has nothing any more");
        // Its client leaves before it is visited.
        note(lines, "c", Some(1));
        lines.come_due(1);
        assert!(leaves(lines, 2));
        let name = lines.next_ready().expect("it was ready");
        assert!(!lines.begin_line(&name));
        lines.put_back(&name);
        assert_eq!(lines.ready(), 0);
    }

    #[test]
    fn the_first_in_the_line_is_next_and_prefers_a_key_that_it_lists_earlier() {
        let lines = &mut Lines::default();
        join(lines, 0, &["a", "b", "c"]);
        join(lines, 1, &["c"]);
        note(lines, "c", Some(5));
        assert_eq!(next_in_line(lines, "c", 5), Some((0, "c".to_owned())), "nothing else is due");
        note(lines, "b", Some(6));
        assert_eq!(next_in_line(lines, "c", 5), Some((0, "c".to_owned())));
        assert_eq!(next_in_line(lines, "c", 6), Some((0, "bc".to_owned())));
        assert_eq!(
            next_in_line(lines, "b", 6),
            Some((0, "b".to_owned())),
            "not what comes behind it"
        );
        lines.come_due(6);
        assert_eq!(next_in_line(lines, "c", 6), Some((0, "bc".to_owned())), "it is ready");
        assert!(leaves(lines, 0));
        assert_eq!(next_in_line(lines, "c", 6), Some((1, "c".to_owned())));
        assert_eq!(next_in_line(lines, "b", 6), None, "nobody waits there");
    }

    #[test]
    fn a_client_does_not_overtake_in_the_line_of_a_key_that_it_prefers() {
        let lines = &mut Lines::default();
        join(lines, 0, &["b"]);
        join(lines, 1, &["b", "a"]);
        for key in ["a", "b"] {
            note(lines, key, Some(5));
        }
        assert_eq!(next_in_line(lines, "a", 5), None);
        assert_eq!(ready(lines), "a", "it has its turn again");
        assert_eq!(next_in_line(lines, "b", 5), Some((0, "b".to_owned())));
        assert!(leaves(lines, 0));
        assert_eq!(next_in_line(lines, "a", 5), Some((1, "ba".to_owned())));
    }

    #[test]
    fn waiting_clients_are_rejected_a_few_keys_at_a_time_and_later_ones_stay() {
        let lines = &mut Lines::default();
        for (number, key) in ["a", "b", "c"].iter().enumerate() {
            join(lines, number, &[key, "d"]);
        }
        lines.dismiss_all();
        join(lines, 3, &["a"]);
        assert!(lines.has_work() && lines.is_dismissing());
        lines.dismiss_some(1);
        assert!(lines.is_dismissing() && lines.ready() == 1, "there may be more keys");
        let a = lines.next_ready().expect("it is ready");
        let (client, reason) = lines.take_dismissed(&a).expect("one came before");
        assert!((client.handle(), reason) == (BlockedClient::fake(0).handle(), Error::SLOT_MOVED));
        assert!(lines.take_dismissed(&a).is_none(), "the other came later");
        assert_eq!(lines.len(), 3);
        assert!(lines.by_name[&a].dismissed.is_none(), "it is looked after again");
        for _ in ["b", "c", "d", "none"] {
            lines.dismiss_some(1);
        }
        assert!(!lines.is_dismissing());
        while let Some(name) = lines.next_ready() {
            while lines.take_dismissed(&name).is_some() {}
        }
        assert_eq!((lines.len(), lines.watched()), (1, 1));
    }

    #[test]
    fn a_client_whose_timeout_is_over_is_next_and_leaves_once() {
        let lines = &mut Lines::default();
        let late = join_until(lines, 0, &["a"], Some(20));
        let early = join_until(lines, 1, &["a", "b"], Some(10));
        join(lines, 2, &["b"]);
        assert_eq!(lines.next_us(false), Some(10));
        assert!(lines.timed_out(9).is_none());
        assert!(lines.timed_out(30).is_some_and(|it| Rc::ptr_eq(&it, &early)));
        assert!(lines.leave(&early).is_some() && lines.leave(&early).is_none());
        // The server reuses the handle.
        let another = join(lines, 1, &["a"]);
        assert!(lines.leave(&early).is_none());
        assert!(lines.leave(&another).is_some());
        assert!(lines.timed_out(30).is_some_and(|it| Rc::ptr_eq(&it, &late)));
        assert!(leaves(lines, 0) && lines.timed_out(30).is_none());
        assert_eq!((lines.next_us(false), lines.next_us(true)), (None, Some(0)));
        lines.retry_at(7);
        assert!(lines.is_waiting(6) && !lines.is_waiting(7));
        assert_eq!(lines.next_us(true), Some(7));
    }
}
