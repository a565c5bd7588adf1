//! The table of who waits for which key, and of when each key is to be looked at. It asks the server nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

use hashbrown::HashMap;

use super::unblocked::has_given_up;
use super::{Asks, Peek};
use crate::metrics::latency::Overdue;
use crate::server::Error;
use crate::server::blocked_client::{BlockedClient, Handle};
use crate::server::key::Name;

/// The order in which clients came.
pub(super) type Ticket = u64;

/// A blocked client.
pub(super) struct Blocked {
    pub(super) client: Handle,
    pub(super) ticket: Ticket,
    /// The keys that it waits for, in its own order, each once.
    pub(super) names: Vec<Rc<Name>>,
    /// When it has waited long enough, on the monotonic clock, in microseconds.
    pub(super) until_us: Option<u64>,
    pub(super) asks: Box<dyn Asks>,
}

/// A key that clients wait for.
pub(super) struct Watch {
    pub(super) line: BTreeMap<Ticket, Rc<Blocked>>,
    pub(super) peek: Peek,
    pub(super) overdue: Overdue,
    /// When it is looked at, in milliseconds since the epoch: its entry among the times.
    pub(super) look_at: Option<u64>,
    /// Whether it is among those that are ready.
    pub(super) is_ready: bool,
    /// Who is sent away, if anybody is.
    pub(super) dismissed: Option<Dismissed>,
}

/// Clients for which there is nothing to wait for any more.
#[derive(Clone)]
pub(super) struct Dismissed {
    pub(super) reason: Error,
    /// Those that came before this one.
    pub(super) before: Ticket,
}

/// Others are to be served first.
pub(super) struct NotYet;

#[derive(Default)]
pub(super) struct Watches {
    /// In the order of names, so that the backstop can go on after the last one it saw.
    pub(super) by_name: BTreeMap<Rc<Name>, Watch>,
    pub(super) by_client: HashMap<Handle, (BlockedClient, Rc<Blocked>), ahash::RandomState>,
    /// When each key is to be looked at, in milliseconds since the epoch.
    pub(super) times: BTreeSet<(u64, Rc<Name>)>,
    /// Keys in whose lines something is due, or that are dismissed: first ready, first served.
    pub(super) ready: VecDeque<Rc<Name>>,
    /// When each client has waited long enough, on the monotonic clock, in microseconds.
    pub(super) timeouts: BTreeMap<(u64, Ticket), Handle>,
    pub(super) tickets: Ticket,
    /// Nobody is served before this, on the monotonic clock, in microseconds.
    pub(super) retry_us: u64,
    /// The last name that the backstop saw, or, if that is watched no more, the one before it.
    pub(super) seen: Option<Rc<Name>>,
    /// All who came before this ticket are sent away, from the key after this one on.
    pub(super) all_dismissed: Option<(Ticket, Option<Rc<Name>>)>,
}

impl Watches {
    /// Whether somebody is to be given something or to be sent away, or something is to be given back.
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.all_dismissed.is_some() || has_given_up()
    }

    /// Has those who wait for a key, and came before this ticket, be sent away.
    pub(super) fn dismiss(&mut self, name: &Rc<Name>, reason: Error, before: Ticket) {
        self.make_ready(name);
        if let Some(watch) = self.by_name.get_mut(name) {
            watch.dismissed = Some(Dismissed { reason, before });
        }
    }

    /// Where all are sent away, sees to the next few keys.
    pub(super) fn dismiss_some(&mut self, most: usize) {
        let Some((before, after)) = self.all_dismissed.take() else { return };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.by_name.range((from, Bound::Unbounded)).take(most);
        let names: Vec<_> = names.map(|(name, _)| Rc::clone(name)).collect();
        for name in &names {
            self.dismiss(name, Error::Elsewhere, before);
        }
        if names.len() == most {
            self.all_dismissed = Some((before, names.last().cloned()));
        }
    }

    /// The next client that is sent away of those who wait for a key, if anybody is. When nobody is any more, who came
    /// later is looked after again.
    pub(super) fn next_dismissed(&mut self, name: &Rc<Name>) -> Option<(Handle, Ticket)> {
        let watch = self.by_name.get_mut(name)?;
        let before = watch.dismissed.as_ref()?.before;
        let first = watch.line.first_key_value().filter(|(ticket, _)| **ticket < before);
        let first = first.map(|(ticket, client)| (client.client, *ticket));
        if first.is_none() {
            watch.dismissed = None;
        }
        first
    }

    /// A key's name, in one place for all who wait for it.
    pub(super) fn name(&self, name: Name) -> Rc<Name> {
        let known = self.by_name.get_key_value(&name).map(|(known, _)| Rc::clone(known));
        known.unwrap_or_else(|| Rc::new(name))
    }

    /// A client joins the lines of its keys.
    pub(super) fn join(&mut self, client: BlockedClient, blocked: &Rc<Blocked>, peek: Peek) {
        for name in &blocked.names {
            let watch = self.by_name.entry(Rc::clone(name)).or_insert_with(|| Watch {
                line: BTreeMap::new(),
                peek,
                overdue: Overdue::default(),
                look_at: None,
                is_ready: false,
                dismissed: None,
            });
            watch.line.insert(blocked.ticket, Rc::clone(blocked));
        }
        let timeout = blocked.until_us.map(|until| ((until, blocked.ticket), blocked.client));
        self.timeouts.extend(timeout);
        self.by_client.insert(blocked.client, (client, Rc::clone(blocked)));
    }

    /// The keys that a client would rather be served from than from `name`, and in which something is due, as far
    /// as is noted.
    ///
    /// # Errors
    ///
    /// If it is not the first in the line of one of them.
    pub(super) fn rather(
        &self,
        blocked: &Blocked,
        name: &Name,
        now: u64,
    ) -> Result<Vec<Rc<Name>>, NotYet> {
        let mut rather = Vec::new();
        // Nearly always nothing else is due, and its other keys need not be looked at.
        let mut due = self.times.iter().take_while(|(at, _)| *at <= now);
        if self.ready.is_empty() && due.all(|(_, it)| **it == *name) {
            return Ok(rather);
        }
        for before in blocked.names.iter().take_while(|it| ***it != *name) {
            let Some(watch) = self.by_name.get(before) else { continue };
            if watch.is_ready || watch.look_at.is_some_and(|at| at <= now) {
                let first = watch.line.first_key_value().map(|(ticket, _)| *ticket);
                if first != Some(blocked.ticket) {
                    return Err(NotYet);
                }
                rather.push(Rc::clone(before));
            }
        }
        Ok(rather)
    }

    /// The key after the last one that was seen, or the first.
    pub(super) fn next(&mut self) -> Option<(Rc<Name>, Peek)> {
        let after = self.seen.as_ref().and_then(|seen| {
            self.by_name.range((Bound::Excluded(Rc::clone(seen)), Bound::Unbounded)).next()
        });
        let (name, watch) = after.or_else(|| self.by_name.first_key_value())?;
        let (name, peek) = (Rc::clone(name), watch.peek);
        self.seen = Some(Rc::clone(&name));
        Some((name, peek))
    }

    /// Puts a watched key among those that are ready.
    pub(super) fn make_ready(&mut self, name: &Rc<Name>) {
        self.look_at(name, None);
        let Some(watch) = self.by_name.get_mut(name) else { return };
        if !std::mem::replace(&mut watch.is_ready, true) {
            self.ready.push_back(Rc::clone(name));
        }
    }

    /// Says when a watched key is to be looked at.
    pub(super) fn look_at(&mut self, name: &Rc<Name>, at: Option<u64>) {
        let Some(watch) = self.by_name.get_mut(name) else { return };
        let before = std::mem::replace(&mut watch.look_at, at);
        if before != at {
            before.map(|before| self.times.remove(&(before, Rc::clone(name))));
            self.times.extend(at.map(|at| (at, Rc::clone(name))));
        }
    }

    /// Takes a client out of the lines of its keys. `None`: it is being unblocked already.
    pub(super) fn leave(&mut self, client: Handle, ticket: Ticket) -> Option<BlockedClient> {
        // Another client may be called the same by now.
        self.by_client.get(&client).filter(|(_, blocked)| blocked.ticket == ticket)?;
        let (client, blocked) = self.by_client.remove(&client)?;
        if let Some(until_us) = blocked.until_us {
            self.timeouts.remove(&(until_us, ticket));
        }
        for name in &blocked.names {
            let Some(watch) = self.by_name.get_mut(name) else { continue };
            watch.line.remove(&ticket);
            if watch.line.is_empty() {
                self.look_at(name, None);
                self.by_name.remove(name);
                // A name may be as long as a string.
                if self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, name)) {
                    self.seen = self
                        .by_name
                        .range(..Rc::clone(name))
                        .next_back()
                        .map(|(it, _)| Rc::clone(it));
                }
            }
        }
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Weak;

    use super::*;
    use crate::pending::blocked::{Outlook, Taken};
    use crate::server::{Context, Str};

    struct Nothing;

    impl Asks for Nothing {
        fn take(&self, _: &Context, _: Str<'_>) -> Option<Box<dyn Taken>> {
            None
        }

        fn held(&self, _: &Context) -> Option<Box<dyn Taken>> {
            None
        }
    }

    /// A client, which is blocked on one key. Returns the name, to see whether it is still kept.
    fn join(watches: &mut Watches, ticket: Ticket, key: &[u8]) -> Weak<Name> {
        let name = watches.name(Name { db: 0, key: key.into() });
        let weak = Rc::downgrade(&name);
        let client = BlockedClient::fake(ticket as usize);
        let (handle, names) = (client.handle(), vec![name]);
        let blocked =
            Blocked { client: handle, ticket, names, until_us: None, asks: Box::new(Nothing) };
        watches.join(client, &Rc::new(blocked), |_, _| Outlook::Next(None));
        weak
    }

    fn leaves(watches: &mut Watches, ticket: Ticket) -> bool {
        watches.leave(BlockedClient::fake(ticket as usize).handle(), ticket).is_some()
    }

    fn next(watches: &mut Watches) -> Vec<u8> {
        watches.next().map(|(name, _)| name.key.to_vec()).unwrap_or_default()
    }

    #[test]
    fn a_name_is_let_go_of_when_nobody_waits_and_the_backstop_goes_on_behind_it() {
        let mut watches = Watches::default();
        let kept: Vec<_> = (0..)
            .zip([b"a", b"b", b"c", b"d"])
            .map(|(at, key)| join(&mut watches, at, key))
            .collect();
        assert_eq!(
            [next(&mut watches), next(&mut watches), next(&mut watches)],
            [b"a", b"b", b"c"]
        );
        assert!(leaves(&mut watches, 2), "c was seen last");
        assert!(kept[2].upgrade().is_none(), "c is let go of");
        assert_eq!(next(&mut watches), b"d");
        assert!(leaves(&mut watches, 3));
        assert!(kept[3].upgrade().is_none());
        assert!(leaves(&mut watches, 1) && leaves(&mut watches, 0));
        assert!(kept.iter().all(|name| name.upgrade().is_none()));
        assert_eq!(next(&mut watches), b"");
        join(&mut watches, 4, b"e");
        assert_eq!([next(&mut watches), next(&mut watches)], [b"e", b"e"]);
        // The first of all was seen last: what comes after it is next.
        join(&mut watches, 5, b"f");
        assert_eq!([next(&mut watches), next(&mut watches)], [b"f", b"e"]);
        assert!(leaves(&mut watches, 4));
        assert_eq!(next(&mut watches), b"f");
    }
}
