//! The model of the keyspace: databases of dehydrators and of other values.

use std::collections::{BTreeMap, VecDeque};

use super::Bytes;
use super::dehydrator::Dehydrator;
use super::heard::{Heard, Sent};

#[derive(Clone, Debug)]
pub enum Kept {
    Dehydrator(Box<Dehydrator>),
    Other,
}

impl Kept {
    pub(super) fn dehydrator_mut(&mut self) -> Option<&mut Dehydrator> {
        if let Self::Dehydrator(it) = self { Some(it) } else { None }
    }
}

pub const DATABASES: usize = 2;

#[derive(Clone, Debug)]
pub struct Model {
    pub dbs: Vec<BTreeMap<Bytes, Kept>>,
    sequence: u64,
    /// Counts down with each element that is put first among those with its deadline.
    firsts: u64,
    /// What has happened by itself, and was not followed yet.
    pub heard: VecDeque<Heard>,
    /// What has arrived at destinations, and has not left yet.
    pub arrived: Vec<Sent>,
    /// Dead letters by REJECT, which have not arrived yet.
    pub rejected: Vec<Sent>,
    /// The server's memory is full.
    pub is_full: bool,
    /// The library is of before PURGE and TOUCH of a group had a COUNT: they change all, and reply at their end.
    pub is_stepwise: bool,
    /// Nothing is followed, to measure what the judges take.
    pub is_unjudged: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            dbs: vec![BTreeMap::new(); DATABASES],
            sequence: 1 << 48,
            firsts: 1 << 48,
            heard: VecDeque::new(),
            arrived: Vec::new(),
            rejected: Vec::new(),
            is_full: false,
            is_stepwise: false,
            is_unjudged: false,
        }
    }
}

impl Model {
    pub fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub fn first_number(&mut self) -> u64 {
        self.firsts -= 1;
        self.firsts
    }

    pub fn get(&self, db: usize, key: &[u8]) -> Option<&Dehydrator> {
        match self.dbs[db].get(key) {
            Some(Kept::Dehydrator(it)) => Some(it),
            _ => None,
        }
    }

    pub fn get_mut(&mut self, db: usize, key: &[u8]) -> Option<&mut Dehydrator> {
        self.dbs[db].get_mut(key)?.dehydrator_mut()
    }

    pub fn all(&self) -> impl Iterator<Item = (usize, &Bytes, &Dehydrator)> {
        let kept =
            self.dbs.iter().enumerate().flat_map(|(db, keys)| keys.iter().map(move |it| (db, it)));
        kept.filter_map(|(db, (key, kept))| match kept {
            Kept::Dehydrator(it) => Some((db, key, &**it)),
            Kept::Other => None,
        })
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Dehydrator> {
        self.dbs.iter_mut().flat_map(|keys| keys.values_mut()).filter_map(Kept::dehydrator_mut)
    }

    /// Removes a dehydrator of which nothing is left.
    pub(super) fn tidy(&mut self, db: usize, key: &[u8]) {
        if self.get(db, key).is_some_and(Dehydrator::is_nothing) {
            self.dbs[db].remove(key);
        }
    }
}

/// Returns the id in an element that the world has written: it is behind the second bar.
pub fn id_of(element: &[u8]) -> &[u8] {
    element.splitn(3, |byte| *byte == b'|').nth(2).unwrap_or_default()
}
