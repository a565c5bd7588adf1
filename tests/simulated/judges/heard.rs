//! Follows what happens by itself, as the effects tell, in the order of their numbers: elements leave for destinations, or
//! because they have expired; pauses end; schedules occur.

use super::dehydrator::{Dehydrator, Entry, Policy};
use super::follow::{Call, Result};
use super::model::Model;
use super::schedule::Occurred;
use super::{Bytes, Promise};
use crate::machine::Reply;
use crate::world::op::Op;

/// How long ago the module may have looked whether an element has expired that arrives now, in milliseconds.
const PASS_MS: u64 = 10;

/// An effect: its number among all that happened, and when that was.
#[derive(Clone, Debug)]
pub struct Heard {
    pub at: u64,
    pub now: u64,
    pub db: usize,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// An element arrived at a destination.
    Sent(Sent),
    /// Elements of a key were removed, by a command or by itself, and are remembered until then, if that is told.
    Removed {
        key: Bytes,
        until: Option<u64>,
        ids: Vec<Bytes>,
    },
    /// Elements of a key were leased, until that moment.
    Leased {
        key: Bytes,
        end: u64,
        ids: Vec<Bytes>,
    },
    /// A pause has ended, of a group or of the whole key.
    Resumed {
        key: Bytes,
        group: Option<Bytes>,
    },
    Occurred(Occurred),
}

/// An element at a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The database; `None` for a channel, which is in none.
    pub db: Option<usize>,
    pub to: Bytes,
    pub element: Bytes,
    /// Its id, if the destination is told.
    pub id: Option<Bytes>,
}

impl Sent {
    fn is(&self, other: &Self) -> bool {
        let is_id = self.id.is_none() || self.id == other.id;
        (self.db, &self.to, &self.element) == (other.db, &other.to, &other.element) && is_id
    }
}

impl Model {
    /// Follows what has happened by itself before the event with this number.
    pub fn happen(&mut self, at: u64) -> Result {
        while self.heard.front().is_some_and(|it| it.at < at) {
            let Heard { now, db, what, .. } = self.heard.pop_front().expect("there is one");
            match what {
                _ if self.is_unjudged => {}
                What::Leased { .. } => {}
                What::Sent(sent) => {
                    let rejected = self.rejected.iter().position(|it| sent.is(it));
                    match rejected {
                        Some(at) => drop(self.rejected.remove(at)),
                        None => self.arrived.push(sent),
                    }
                }
                What::Removed { key, until, ids } => self.removed((db, &key), until, &ids, now)?,
                What::Resumed { key, group } => {
                    if let Some(it) = self.get_mut(db, &key) {
                        it.ends_pause(group.as_ref(), now)?;
                    }
                    self.tidy(db, &key);
                }
                What::Occurred(occurred) => self.occurred(now, db, &occurred)?,
            }
        }
        Ok(())
    }

    /// Returns the effect of a POLL on an element.
    fn effect_on(&self, call: &Call, key: &Bytes, id: &Bytes) -> Option<&Heard> {
        let gives = |it: &&Heard| match &it.what {
            What::Leased { key: of, ids, .. } | What::Removed { key: of, ids, .. } => {
                it.db == call.db && of == key && ids.contains(id)
            }
            _ => false,
        };
        self.heard.iter().take_while(|it| it.at < call.at[1]).find(gives)
    }

    /// Follows what has happened by itself before a POLL gave out an element.
    pub(super) fn happen_until_given(&mut self, call: &Call, key: &Bytes, id: &Bytes) -> Result {
        let given = self.effect_on(call, key, id).map(|it| it.at);
        given.map_or(Ok(()), |at| self.happen(at))
    }

    /// Returns when a POLL has begun its leases.
    pub fn polled_at(&self, call: &Call, reply: &Reply) -> Option<u64> {
        let Op::Poll(poll) = &call.op else { return None };
        let rows = match reply {
            Reply::Array(parts) if poll.is_many => parts.get(1)?,
            rows => rows,
        };
        let Reply::Array(rows) = rows else { return None };
        let Reply::Array(row) = rows.first()? else { return None };
        let Reply::Bulk(id) = row.first()? else { return None };
        let effects = poll.keys.iter().find_map(|key| self.effect_on(call, key, id));
        if let What::Leased { end, .. } = effects?.what {
            end.checked_sub(poll.lease?)
        } else {
            None
        }
    }

    /// Follows that elements were removed. Those that no command has removed have left by themselves.
    fn removed(
        &mut self,
        (db, key): (usize, &Bytes),
        until: Option<u64>,
        ids: &[Bytes],
        now: u64,
    ) -> Result {
        for id in ids {
            let sent = self.get(db, key).and_then(|it| it.sent(db, id));
            let arrived = sent.and_then(|sent| self.arrived.iter().position(|it| it.is(&sent)));
            arrived.into_iter().for_each(|at| drop(self.arrived.remove(at)));
            let Some(it) = self.get_mut(db, key) else { break };
            let begun = now - PASS_MS;
            if arrived.is_some() && it.get(id).is_some_and(|entry| it.expires(entry, begun)) {
                return Err(Promise::End.broken(format!("{:?} arrived at {now}", it.get(id))));
            }
            if arrived.is_some() || it.leaves_silently(id, now) {
                it.send(id, now)?;
            }
            if let Some(until) = until {
                it.remembered.insert(id.clone(), [until; 2]);
            }
        }
        self.tidy(db, key);
        Ok(())
    }

    /// Follows that all has been heard: what has arrived has left.
    pub fn heard_all(&mut self) -> Result {
        self.happen(u64::MAX)?;
        let arrived = std::mem::take(&mut self.arrived);
        for sent in arrived.into_iter().filter(|_| !self.is_unjudged) {
            let Some(at) = self.rejected.iter().position(|it| sent.is(it)) else {
                return Err(Promise::Unknown.broken(format!("{sent:?} was in no dehydrator")));
            };
            self.rejected.remove(at);
        }
        Ok(())
    }
}

impl Dehydrator {
    /// Returns an element as it arrives at the destination of the policy, if there is one.
    pub(super) fn sent(&self, db: usize, id: &[u8]) -> Option<Sent> {
        let (entry, route) = (self.get(id)?, self.policy.route());
        let db = (!matches!(route, Policy::Publish(_))).then_some(db);
        let (to, element) = (route.destination()?.clone(), entry.element.clone());
        Some(Sent { db, to, element, id: Some(entry.id.clone()) })
    }

    /// Returns whether an element leaves now by itself, and arrives nowhere.
    fn leaves_silently(&self, id: &[u8], now: u64) -> bool {
        let Some(entry) = self.get(id).filter(|_| !self.is_paused(now)) else { return false };
        let drops = *self.policy.route() == Policy::Drop;
        drops && self.policy.sends(entry) && entry.deadline <= now || self.expires(entry, now)
    }

    /// Returns whether an element has expired, and is no dead letter for that.
    fn expires(&self, entry: &Entry, now: u64) -> bool {
        let is_dead = matches!(&self.policy, Policy::Limit(_, to) if **to != Policy::Drop);
        entry.is_late(now) && !is_dead
    }
}
