//! The table of who waits for which key, and of when each key is to be looked at. It asks the server nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

use hashbrown::HashMap;

use super::super::{Take, timer};
use crate::metrics::latency::OverdueSince;
use crate::server::Error;
use crate::server::blocked_client::{BlockedClient, ClientHandle, ClientId};
use crate::server::key::Name;

/// The order in which clients came.
type Ticket = u64;

/// A client that is asleep: what it waits for, and how it has asked.
pub struct Sleeper {
    /// The keys that it waits for, in its own order, each once. All are in one database.
    pub names: Vec<Rc<Name>>,
    pub take: Take,
    /// The token that it has chosen, as it wrote it.
    pub word: Option<Rc<[u8]>>,
    /// Whether it is told from which key it is served.
    pub is_named: bool,
    /// Its connection, by which its user is found.
    pub client: ClientId,
    handle: ClientHandle,
    ticket: Ticket,
    /// When it has waited long enough, on the monotonic clock, in microseconds.
    until_us: Option<u64>,
}

/// Whose turn it is in the line of a key.
pub struct Turn {
    pub sleeper: Rc<Sleeper>,
    /// The keys to serve it from, the one it would rather have before the others. The last is the key itself; before it are
    /// those in which something is due too, as far as is noted.
    pub from: Vec<Rc<Name>>,
}

/// Those who wait for a key.
#[derive(Default)]
struct Line {
    sleepers: BTreeMap<Ticket, Rc<Sleeper>>,
    overdue: OverdueSince,
    /// When the key is looked at, in milliseconds since the epoch: its entry among the times.
    look_at: Option<u64>,
    /// Whether it is among those that are ready.
    is_ready: bool,
    /// Who is sent away, if anybody is.
    dismissed: Option<Dismissed>,
}

/// Clients for which there is nothing to wait for any more.
struct Dismissed {
    reason: Error,
    /// Those that came before this one.
    before: Ticket,
}

/// See the [folder](super).
#[derive(Default)]
pub struct Lines {
    /// In the order of names, so that the backstop can go on after the last one it saw.
    by_name: BTreeMap<Rc<Name>, Line>,
    by_client: HashMap<ClientHandle, (BlockedClient, Rc<Sleeper>), ahash::RandomState>,
    /// When each key is to be looked at, in milliseconds since the epoch.
    times: BTreeSet<(u64, Rc<Name>)>,
    /// Keys in whose lines something is due, or that are dismissed: first ready, first served.
    ready: VecDeque<Rc<Name>>,
    /// When each client has waited long enough, on the monotonic clock, in microseconds.
    timeouts: BTreeMap<(u64, Ticket), ClientHandle>,
    tickets: Ticket,
    /// Nobody is served before this, on the monotonic clock, in microseconds.
    retry_us: u64,
    /// The last name that the backstop saw, or, if nobody waits for that any more, the one before it.
    seen: Option<Rc<Name>>,
    /// All who came before this ticket are sent away, from the key after this one on.
    all_dismissed: Option<(Ticket, Option<Rc<Name>>)>,
}

/// Who waits.
impl Lines {
    /// Returns how many clients wait.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Returns whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns whether clients wait for a key.
    pub fn is_watched(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    /// Puts a client at the end of the lines of its keys.
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

    /// Returns a key's name, in one place for all who wait for it.
    fn shared(&self, name: Name) -> Rc<Name> {
        let known = self.by_name.get_key_value(&name).map(|(known, _)| Rc::clone(known));
        known.unwrap_or_else(|| Rc::new(name))
    }

    /// Takes a client out of the lines of its keys. `None`: it is being unblocked already.
    pub fn leave(&mut self, sleeper: &Sleeper) -> Option<BlockedClient> {
        // Another client may be called the same by now.
        self.by_client.get(&sleeper.handle).filter(|(_, it)| it.ticket == sleeper.ticket)?;
        self.leave_by_itself(sleeper.handle)
    }

    /// Takes a client that goes by itself out of the lines of its keys. `None`: it is being unblocked already.
    pub fn leave_by_itself(&mut self, handle: ClientHandle) -> Option<BlockedClient> {
        let (client, sleeper) = self.by_client.remove(&handle)?;
        if let Some(until_us) = sleeper.until_us {
            self.timeouts.remove(&(until_us, sleeper.ticket));
        }
        for name in &sleeper.names {
            let Some(line) = self.by_name.get_mut(name) else { continue };
            line.sleepers.remove(&sleeper.ticket);
            if line.sleepers.is_empty() {
                self.look_at(name, None);
                self.by_name.remove(name);
                // A name may be as long as a string.
                if self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, name)) {
                    let before = self.by_name.range(..Rc::clone(name)).next_back();
                    self.seen = before.map(|(before, _)| Rc::clone(before));
                }
            }
        }
        Some(client)
    }

    /// Returns the first client that has waited long enough at a time on the monotonic clock, in microseconds.
    pub fn timed_out(&self, now_us: u64) -> Option<Rc<Sleeper>> {
        let (_, handle) = self.timeouts.first_key_value().filter(|((at, _), _)| *at <= now_us)?;
        self.by_client.get(handle).map(|(_, sleeper)| Rc::clone(sleeper))
    }
}

/// When there is something to do.
impl Lines {
    /// Returns when there is something to do next, on the monotonic clock, in microseconds. `at_once`: there is something
    /// beside what is known here.
    pub fn next_us(&self, at_once: bool) -> Option<u64> {
        let timeout = self.timeouts.first_key_value().map(|((at, _), _)| *at);
        let time = self.times.first().map(|(at, _)| timer::from_deadline(*at));
        let time = if at_once || self.has_work() { Some(0) } else { time };
        let time = time.map(|at| at.max(self.retry_us));
        timeout.into_iter().chain(time).min()
    }

    /// Returns whether somebody is to be given something, or to be sent away.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.all_dismissed.is_some()
    }

    /// Returns whether nothing is done yet at a time on the monotonic clock, see [`Lines::retry_at`].
    pub fn is_waiting(&self, now_us: u64) -> bool {
        now_us < self.retry_us
    }

    /// Has nothing be done before a time on the monotonic clock, in microseconds.
    pub fn retry_at(&mut self, at_us: u64) {
        self.retry_us = at_us;
    }

    /// Notes when the next element of a key comes due, or did, in milliseconds since the epoch. Returns that if the key is
    /// to be looked at then, and was not before. For the clock see [`OverdueSince::note`].
    pub(super) fn note(
        &mut self,
        name: &Name,
        next: Option<u64>,
        clock_us: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let (name, line) = self.by_name.get_key_value(name)?;
        let (name, before, is_ready) = (Rc::clone(name), line.look_at, line.is_ready);
        if !is_ready {
            self.look_at(&name, next);
        }
        self.by_name.get_mut(&name)?.overdue.note(next, clock_us);
        next.filter(|_| !is_ready && before != next)
    }

    /// Notes that what is overdue in a key could not be given out before.
    pub(super) fn begin(&mut self, name: &Name) {
        if let Some(line) = self.by_name.get_mut(name) {
            line.overdue = OverdueSince::since_now();
        }
    }

    /// Returns since when what is due in a key has been overdue. `None`: nobody waits for it.
    pub fn overdue(&self, name: &Name) -> Option<OverdueSince> {
        self.by_name.get(name).map(|line| line.overdue)
    }

    /// Looks at a key that is not ready at another time, in milliseconds since the epoch, unless it is noted anew.
    pub fn look_again_at(&mut self, name: &Rc<Name>, at: Option<u64>) {
        if self.by_name.get(name).is_some_and(|line| !line.is_ready) {
            self.look_at(name, at);
        }
    }

    /// Sets when a key is to be looked at.
    fn look_at(&mut self, name: &Rc<Name>, at: Option<u64>) {
        let Some(line) = self.by_name.get_mut(name) else { return };
        let before = std::mem::replace(&mut line.look_at, at);
        if before != at {
            before.map(|before| self.times.remove(&(before, Rc::clone(name))));
            self.times.extend(at.map(|at| (at, Rc::clone(name))));
        }
    }

    /// Returns the key after the last one that this returned, or the first: each has its turn.
    pub fn next_watched(&mut self) -> Option<Rc<Name>> {
        let after = self.seen.as_ref().and_then(|seen| {
            self.by_name.range((Bound::Excluded(Rc::clone(seen)), Bound::Unbounded)).next()
        });
        let (name, _) = after.or_else(|| self.by_name.first_key_value())?;
        self.seen = Some(Rc::clone(name));
        self.seen.clone()
    }

    /// Returns for how many keys somebody waits.
    pub fn watched(&self) -> usize {
        self.by_name.len()
    }
}

/// Keys that are ready, and whose turn it is there.
impl Lines {
    /// Returns how many keys are ready.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Has those keys be ready that are to be looked at by now, in milliseconds since the epoch.
    pub fn come_due(&mut self, now: u64) {
        while let Some((_, name)) = self.times.first().filter(|(at, _)| *at <= now) {
            let name = Rc::clone(name);
            self.make_ready(&name);
        }
    }

    fn make_ready(&mut self, name: &Rc<Name>) {
        self.look_at(name, None);
        let Some(line) = self.by_name.get_mut(name) else { return };
        if !std::mem::replace(&mut line.is_ready, true) {
            self.ready.push_back(Rc::clone(name));
        }
    }

    /// Takes the key that has been ready for the longest out of its place. It is still ready until it is
    /// [begun](Lines::begin_line) with or put [back](Lines::put_back).
    pub fn next_ready(&mut self) -> Option<Rc<Name>> {
        self.ready.pop_front()
    }

    /// Puts a key behind all that are ready.
    pub fn put_back(&mut self, name: &Rc<Name>) {
        if self.by_name.contains_key(name) {
            self.ready.push_back(Rc::clone(name));
        }
    }

    /// Has a key be ready no more, as its line is being served. Returns whether there is one.
    pub fn begin_line(&mut self, name: &Name) -> bool {
        let line = self.by_name.get_mut(name);
        line.map(|line| line.is_ready = false).is_some()
    }

    /// Returns whose turn it is in the line of a key. `None`: nobody waits, or the first in the line would rather be served
    /// from another key, in whose line others come before it. Then this key is ready again: when those have been served, it
    /// is its turn.
    pub fn turn(&mut self, name: &Rc<Name>, now: u64) -> Option<Turn> {
        let (_, first) = self.by_name.get(name)?.sleepers.first_key_value()?;
        let sleeper = Rc::clone(first);
        let from = self.keys_to_serve_from(&sleeper, name, now);
        if from.is_none() {
            self.make_ready(name);
        }
        Some(Turn { from: from?, sleeper })
    }

    /// Works out a [`Turn`]. `None`: the sleeper is not the first in the line of one of them.
    fn keys_to_serve_from(
        &self,
        sleeper: &Sleeper,
        name: &Rc<Name>,
        now: u64,
    ) -> Option<Vec<Rc<Name>>> {
        let mut keys = Vec::new();
        // Nearly always nothing else is due, and its other keys need not be looked at.
        let mut due = self.times.iter().take_while(|(at, _)| *at <= now);
        if !self.ready.is_empty() || due.any(|(_, it)| it != name) {
            for before in sleeper.names.iter().take_while(|it| *it != name) {
                let Some(line) = self.by_name.get(before) else { continue };
                if line.is_ready || line.look_at.is_some_and(|at| at <= now) {
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

/// Those who are sent away.
impl Lines {
    /// Has all be sent away who wait for a key by now. Returns whether anybody does.
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

    /// Has all be sent away who wait by now, for whatever key.
    pub(super) fn dismiss_all(&mut self) {
        self.all_dismissed = Some((self.tickets, None));
    }

    /// Returns whether keys are left of [`Lines::dismiss_all`].
    pub fn is_dismissing(&self) -> bool {
        self.all_dismissed.is_some()
    }

    /// Sees to the next few keys, where all are sent away.
    pub fn dismiss_some(&mut self, most: usize) {
        let Some((before, after)) = self.all_dismissed.take() else { return };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.by_name.range((from, Bound::Unbounded)).take(most);
        let names: Vec<_> = names.map(|(name, _)| Rc::clone(name)).collect();
        for name in &names {
            self.dismiss_before(name, Error::SlotMoved, before);
        }
        if names.len() == most {
            self.all_dismissed = Some((before, names.last().cloned()));
        }
    }

    /// Takes the next client that is sent away out of its lines: one of those who wait for this key, if anybody is. It is to
    /// be told why. When nobody is sent away any more, who came later is looked after again.
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

    /// A client of that number, which is blocked on these keys until then.
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

    /// The same, of one key. Returns the name, to see whether it is still kept.
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

    /// The keys that are ready, which are so no more.
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

    /// Whose turn it is in the line of a key, and the keys to serve it from.
    fn turn(lines: &mut Lines, key: &str, now: u64) -> Option<(Ticket, String)> {
        let turn = lines.turn(&Rc::new(name(key)), now)?;
        Some((turn.sleeper.ticket, turn.from.iter().map(|name| text(name)).collect()))
    }

    #[test]
    fn a_name_is_let_go_of_when_nobody_waits_and_the_backstop_goes_on_behind_it() {
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
        // The first of all was seen last: what comes after it is next.
        join(lines, 5, &["f"]);
        assert_eq!([next(lines), next(lines)], ["f", "e"]);
        assert!(leaves(lines, 4));
        assert_eq!(next(lines), "f");
    }

    #[test]
    fn keys_are_ready_when_their_time_has_come_each_once_and_in_turn() {
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
        // What is noted of a key that is ready is seen when it is its turn.
        assert_eq!(note(lines, "b", Some(6)), None);
        assert_eq!(ready(lines), "ba");
        assert_eq!((lines.has_work(), note(lines, "b", Some(6))), (false, Some(6)));
        note(lines, "b", None);
        lines.come_due(u64::MAX);
        assert_eq!(ready(lines), "", "it has nothing any more");
        // Nobody waits for it when it is its turn.
        note(lines, "c", Some(1));
        lines.come_due(1);
        assert!(leaves(lines, 2));
        let name = lines.next_ready().expect("it was ready");
        assert!(!lines.begin_line(&name));
        lines.put_back(&name);
        assert_eq!(lines.ready(), 0);
    }

    #[test]
    fn the_first_in_the_line_has_its_turn_and_would_rather_have_a_key_before() {
        let lines = &mut Lines::default();
        join(lines, 0, &["a", "b", "c"]);
        join(lines, 1, &["c"]);
        note(lines, "c", Some(5));
        assert_eq!(turn(lines, "c", 5), Some((0, "c".to_owned())), "nothing else is due");
        note(lines, "b", Some(6));
        assert_eq!(turn(lines, "c", 5), Some((0, "c".to_owned())));
        assert_eq!(turn(lines, "c", 6), Some((0, "bc".to_owned())));
        assert_eq!(turn(lines, "b", 6), Some((0, "b".to_owned())), "not what comes behind it");
        lines.come_due(6);
        assert_eq!(turn(lines, "c", 6), Some((0, "bc".to_owned())), "it is ready");
        assert!(leaves(lines, 0));
        assert_eq!(turn(lines, "c", 6), Some((1, "c".to_owned())));
        assert_eq!(turn(lines, "b", 6), None, "nobody waits there");
    }

    #[test]
    fn nobody_passes_those_who_came_before_in_the_line_of_the_key_it_would_rather_have() {
        let lines = &mut Lines::default();
        join(lines, 0, &["b"]);
        join(lines, 1, &["b", "a"]);
        for key in ["a", "b"] {
            note(lines, key, Some(5));
        }
        assert_eq!(turn(lines, "a", 5), None);
        assert_eq!(ready(lines), "a", "it has its turn again");
        assert_eq!(turn(lines, "b", 5), Some((0, "b".to_owned())));
        assert!(leaves(lines, 0));
        assert_eq!(turn(lines, "a", 5), Some((1, "ba".to_owned())));
    }

    #[test]
    fn who_came_before_is_sent_away_a_few_keys_at_a_time_and_who_comes_later_stays() {
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
        assert!((client.handle(), reason) == (BlockedClient::fake(0).handle(), Error::SlotMoved));
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
    fn one_that_has_waited_long_enough_is_the_next_and_leaves_once() {
        let lines = &mut Lines::default();
        let late = join_until(lines, 0, &["a"], Some(20));
        let early = join_until(lines, 1, &["a", "b"], Some(10));
        join(lines, 2, &["b"]);
        assert_eq!(lines.next_us(false), Some(10));
        assert!(lines.timed_out(9).is_none());
        assert!(lines.timed_out(30).is_some_and(|it| Rc::ptr_eq(&it, &early)));
        assert!(lines.leave(&early).is_some() && lines.leave(&early).is_none());
        // The server calls another client so.
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
