//! A scheme of timers with a table of ids beside it, as an application that addresses its timers by name would combine
//! them.

use ahash::RandomState;
use hashbrown::HashMap;

use crate::lists::Lists;
use crate::store::{Id, Payload, Store};

/// A way to keep timers in order. Nodes are the scheme's handles.
pub trait Scheme {
    const NAME: &'static str;
    const LABEL: &'static str;
    const MAX_TTL: u64 = u64::MAX;
    const IN_ORDER: bool = true;
    /// The number of lists that it begins with.
    const LISTS: usize = 0;
    /// The scheme's data for a timer.
    type Extra: Copy + Default;

    fn new(now: u64) -> Self;

    /// Inserts a timer, whose deadline is set, into the order.
    fn file<T>(&mut self, lists: &mut Lists<Self::Extra, T>, node: u32, ttl: u64);

    /// Removes a timer from the order.
    fn unfile<T>(&mut self, lists: &mut Lists<Self::Extra, T>, node: u32) {
        lists.unlink(node);
    }

    /// Removes and returns the next due timer. At `None`, the scheme has advanced its own time to `now`; until then it
    /// is called repeatedly with the same `now`.
    fn pop<T>(&mut self, lists: &mut Lists<Self::Extra, T>, now: u64) -> Option<u32>;
}

/// The scheme, its nodes, and the table.
pub struct Named<S: Scheme> {
    scheme: S,
    lists: Lists<S::Extra, (Id, Payload)>,
    table: HashMap<Id, u32, RandomState>,
}

impl<S: Scheme> Store for Named<S> {
    const NAME: &'static str = S::NAME;
    const LABEL: &'static str = S::LABEL;
    const MAX_TTL: u64 = S::MAX_TTL;
    const IN_ORDER: bool = S::IN_ORDER;

    fn new(now: u64) -> Self {
        let table = HashMap::with_hasher(RandomState::new());
        Self { scheme: S::new(now), lists: Lists::new(S::LISTS), table }
    }

    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        let node = self.lists.add(now + ttl, (*id, *payload));
        let before = self.table.insert(*id, node);
        assert!(before.is_none(), "an id is started twice");
        self.scheme.file(&mut self.lists, node, ttl);
    }

    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool {
        let Some(&node) = self.table.get(id) else { return false };
        self.scheme.unfile(&mut self.lists, node);
        self.lists.get_mut(node).deadline = now + ttl;
        self.scheme.file(&mut self.lists, node, ttl);
        true
    }

    fn stop(&mut self, id: &Id) -> Option<Payload> {
        let node = self.table.remove(id)?;
        self.scheme.unfile(&mut self.lists, node);
        let (_, payload) = self.lists.get(node).item;
        self.lists.free(node);
        Some(payload)
    }

    fn expire(&mut self, now: u64, sink: &mut impl FnMut(&Id, &Payload)) {
        while let Some(node) = self.scheme.pop(&mut self.lists, now) {
            let (id, payload) = &self.lists.get(node).item;
            self.table.remove(id).expect("a timer's id is in the table");
            sink(id, payload);
            self.lists.free(node);
        }
    }

    fn rearm(&mut self, now: u64, ttl: &mut impl FnMut() -> u64) -> usize {
        let mut count = 0;
        while let Some(node) = self.scheme.pop(&mut self.lists, now) {
            let ttl = ttl();
            self.lists.get_mut(node).deadline = now + ttl;
            self.scheme.file(&mut self.lists, node, ttl);
            count += 1;
        }
        count
    }
}
