//! The hierarchical wheel with ids and elements of any length, which a server needs.
//!
//! [`Named`](crate::named::Named) knows the lengths of ids and elements at compile time: its ids are in the table, and
//! its elements in the nodes. Our Lawn does not know them, so they must be stored elsewhere. Here that is one
//! allocation for both, found through a table of hashes, as a careful program would do it.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;
use hashbrown::HashTable;

use super::hierarchy::Hierarchy;
use crate::lists::Lists;
use crate::named::Scheme;
use crate::store::{Id, Payload, Store};

/// An id and an element, one after the other.
struct Item {
    id_length: u32,
    bytes: Box<[u8]>,
}

impl Item {
    fn new(id: &[u8], payload: &[u8]) -> Self {
        Self { id_length: id.len() as u32, bytes: [id, payload].concat().into() }
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at(self.id_length as usize)
    }
}

type Nodes = Lists<<Hierarchy as Scheme>::Extra, Option<Item>>;

pub struct AnyLength {
    wheel: Hierarchy,
    nodes: Nodes,
    /// Hash and node.
    table: HashTable<(u32, u32)>,
    hasher: RandomState,
}

/// Spreads a hash: hashbrown takes its tag from the top bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

fn id_of(nodes: &Nodes, node: u32) -> &[u8] {
    nodes.get(node).item.as_ref().expect("a timer has an id").parts().0
}

impl AnyLength {
    fn hash(&self, id: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id);
        hasher.finish() as u32
    }

    fn find(&self, id: &[u8]) -> Option<u32> {
        let hash = self.hash(id);
        let is_it = |entry: &(u32, u32)| entry.0 == hash && id_of(&self.nodes, entry.1) == id;
        self.table.find(spread(hash), is_it).map(|entry| entry.1)
    }

    /// Removes a timer that is in no list from the table, and frees its node.
    fn take(&mut self, node: u32) -> Item {
        let hash = self.hash(id_of(&self.nodes, node));
        let entry = self.table.find_entry(spread(hash), |entry| entry.1 == node);
        entry.expect("a timer's id is in the table").remove();
        let item = self.nodes.get_mut(node).item.take().expect("a timer has an id");
        self.nodes.free(node);
        item
    }
}

impl Store for AnyLength {
    const NAME: &'static str = "hierarchy-any";
    const LABEL: &'static str = "7 hierarchical wheel, ids and elements of any length";

    fn new(now: u64) -> Self {
        Self {
            wheel: Hierarchy::new(now),
            nodes: Lists::new(Hierarchy::LISTS),
            table: HashTable::new(),
            hasher: RandomState::new(),
        }
    }

    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        assert!(self.find(id).is_none(), "an id is started twice");
        let node = self.nodes.add(now + ttl, Some(Item::new(id, payload)));
        let hash = self.hash(id);
        self.table.insert_unique(spread(hash), (hash, node), |entry| spread(entry.0));
        self.wheel.file(&mut self.nodes, node, ttl);
    }

    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool {
        let Some(node) = self.find(id) else { return false };
        self.wheel.unfile(&mut self.nodes, node);
        self.nodes.get_mut(node).deadline = now + ttl;
        self.wheel.file(&mut self.nodes, node, ttl);
        true
    }

    fn stop(&mut self, id: &Id) -> Option<Payload> {
        let hash = self.hash(id);
        let is_it = |entry: &(u32, u32)| entry.0 == hash && id_of(&self.nodes, entry.1) == id;
        let ((_, node), _) = self.table.find_entry(spread(hash), is_it).ok()?.remove();
        self.wheel.unfile(&mut self.nodes, node);
        let item = self.nodes.get_mut(node).item.take()?;
        self.nodes.free(node);
        Some(item.parts().1.try_into().expect("64 bytes"))
    }

    fn expire(&mut self, now: u64, sink: &mut impl FnMut(&Id, &Payload)) {
        while let Some(node) = self.wheel.pop(&mut self.nodes, now) {
            let item = self.take(node);
            let (id, payload) = item.parts();
            sink(id.try_into().expect("16 bytes"), payload.try_into().expect("64 bytes"));
        }
    }

    fn rearm(&mut self, now: u64, ttl: &mut impl FnMut() -> u64) -> usize {
        let mut count = 0;
        while let Some(node) = self.wheel.pop(&mut self.nodes, now) {
            let ttl = ttl();
            self.nodes.get_mut(node).deadline = now + ttl;
            self.wheel.file(&mut self.nodes, node, ttl);
            count += 1;
        }
        count
    }
}
