//! The model of the keyspace: databases of dehydrators and of other values.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::dehydrator::Dehydrator;
use super::schedule::Heard;
use super::{Bytes, Fault, Promise};

#[derive(Clone, Debug)]
pub enum Kept {
    Dehydrator(Box<Dehydrator>),
    Other,
}

/// An element that arrived at a destination.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The database; `None` for a channel, which is in none.
    pub db: Option<usize>,
    pub to: Bytes,
    pub element: Bytes,
    /// Its id, if the destination is told.
    pub id: Option<Bytes>,
    /// The number of its effect, if it has one.
    pub at: u64,
}

pub const DATABASES: usize = 2;

#[derive(Clone, Debug)]
pub struct Model {
    pub dbs: Vec<BTreeMap<Bytes, Kept>>,
    sequence: u64,
    /// Counts down with each element that is put first among those with its deadline.
    firsts: u64,
    /// What arrived, and was not accounted for yet.
    pub sent: Vec<Sent>,
    /// Dead letters by REJECT, which have not arrived yet.
    pub rejected: Vec<Sent>,
    /// A key may stay for a while of which nothing is left.
    pub lingers: bool,
    /// When the last pause ended of keys that are gone: of some, the module does not know it yet.
    pub gone: HashMap<(usize, Bytes), u64>,
    /// What leaves without a trace has left before each command.
    pub drops_early: bool,
    /// Commands run before what else happens in their pass.
    pub is_lazy: bool,
    /// What schedules have done, and was not followed yet.
    pub heard: VecDeque<Heard>,
    /// Somebody who slept was woken, and was not followed yet.
    pub is_waking: bool,
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
            sent: Vec::new(),
            rejected: Vec::new(),
            lingers: false,
            gone: HashMap::new(),
            drops_early: false,
            is_lazy: false,
            heard: VecDeque::new(),
            is_waking: false,
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
        match self.dbs[db].get_mut(key) {
            Some(Kept::Dehydrator(it)) => Some(it),
            _ => None,
        }
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
        self.dbs.iter_mut().flat_map(|keys| keys.values_mut()).filter_map(|kept| match kept {
            Kept::Dehydrator(it) => Some(&mut **it),
            Kept::Other => None,
        })
    }

    /// Removes dehydrators that are deleted because nothing is left.
    pub fn tidy(&mut self) {
        for (db, keys) in self.dbs.iter_mut().enumerate() {
            keys.retain(|key, kept| {
                let Kept::Dehydrator(it) = kept else { return true };
                if it.is_nothing() {
                    self.gone.insert((db, key.clone()), it.ended);
                }
                !it.is_nothing()
            });
        }
    }

    /// Lets everything happen that leaves no trace until `now`. Returns whether an empty key may stay for a while, because only
    /// a pause that is over has kept it.
    pub fn pass(&mut self, now: u64) -> bool {
        let mut lingers = std::mem::take(&mut self.lingers);
        self.all_mut().for_each(|it| {
            let ended = it.end_pauses(now);
            it.drop_silently(now);
            lingers |= ended && it.is_nothing();
        });
        self.tidy();
        lingers
    }

    /// Accounts for what has arrived at destinations, as far as it may have left by now. Returns the first thing that may not.
    pub fn absorb(&mut self, now: u64) -> Result<(), Fault> {
        if self.sent.is_empty() || self.is_unjudged {
            self.sent.clear();
            return Ok(());
        }
        let mut last = Ok(());
        let mut sent = std::mem::take(&mut self.sent);
        loop {
            let before = sent.len();
            sent.retain(|it| match self.accept(it, now) {
                Ok(()) => false,
                Err(fault) => {
                    last = Err(fault);
                    true
                }
            });
            if sent.len() == before {
                break;
            }
        }
        let is_rest = !sent.is_empty();
        self.sent = sent;
        if is_rest { last } else { Ok(()) }
    }

    /// Does so as far as effects before this one tell.
    pub(super) fn absorb_before(&mut self, now: u64, at: u64) {
        let (before, later) = std::mem::take(&mut self.sent).into_iter().partition(|it| it.at < at);
        self.sent = before;
        self.absorb(now).ok();
        self.sent.extend::<Vec<_>>(later);
    }

    fn accept(&mut self, sent: &Sent, now: u64) -> Result<(), Fault> {
        let is_it = |it: &Sent| {
            let is_id = sent.id.is_none() || it.id == sent.id;
            it.db == sent.db && it.to == sent.to && it.element == sent.element && is_id
        };
        if let Some(at) = self.rejected.iter().position(is_it) {
            self.rejected.remove(at);
            return Ok(());
        }
        let mut last = None;
        let dbs =
            self.dbs.iter_mut().enumerate().filter(|(db, _)| sent.db.is_none_or(|it| it == *db));
        for (key, kept) in dbs.flat_map(|(_, keys)| keys) {
            let Kept::Dehydrator(it) = kept else { continue };
            let goes_there = it.policy.route().destination() == Some(&sent.to);
            let is_id = |id: &Bytes| goes_there && sent.id.as_ref().is_none_or(|it| it == id);
            for id in it.ids_of(&sent.element).into_iter().filter(is_id) {
                let Err(fault) = it.send(&id, now) else { return Ok(()) };
                let (to, from) = (sent.to.escape_ascii(), key.escape_ascii());
                last = Some(fault.promise.broken(format!("to {to} from {from}: {}", fault.what)));
            }
        }
        Err(last
            .unwrap_or_else(|| Promise::Unknown.broken(format!("{sent:?} was in no dehydrator"))))
    }
}

/// Returns the id in an element that the world has written: it is behind the second bar.
pub fn id_of(element: &[u8]) -> &[u8] {
    element.splitn(3, |byte| *byte == b'|').nth(2).unwrap_or_default()
}
