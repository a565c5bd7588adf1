//! Follows the reply to a POLL: each row must be one that may be given out, and nothing may be left that had to be.

use super::NEVER;
use super::dehydrator::{Dehydrator, Entry};
use super::follow::{Call, Result, int};
use super::model::{Model, id_of};
use super::room::{Room, size};
use super::{Bytes, Fault, Promise};
use crate::machine::Reply;
use crate::world::op::Poll;

impl Model {
    /// Follows the reply to a POLL or MPOLL, at once or later.
    pub fn polled(&mut self, call: &Call, poll: &Poll, reply: &Reply) -> Result {
        let now = call.now;
        let token_bytes = poll.token.as_ref().map_or(0, Vec::len);
        let mut room = Room::new();
        if poll.lease.is_some_and(|lease| now.checked_add(lease).is_none_or(|end| end > NEVER)) {
            return call.refused("ERR", reply);
        }
        let is_again = |it: &Dehydrator| {
            poll.token.is_some()
                && it.entries().any(|it| it.token == poll.token && it.deadline > now)
        };
        let again =
            poll.keys.iter().find(|key| self.get(call.db, key).is_some_and(is_again)).cloned();
        let (chosen, rows) = match reply {
            Reply::Array(parts) if poll.is_many => match &parts[..] {
                [Reply::Bulk(key), Reply::Array(rows)] if poll.keys.contains(key) => {
                    (Some(key.clone()), rows.clone())
                }
                _ => return call.differs("a key and rows", reply),
            },
            Reply::Array(rows) => (Some(poll.keys[0].clone()), rows.clone()),
            Reply::NullArray => (None, Vec::new()),
            reply => return call.differs("rows", reply),
        };
        if let Some(again) = again {
            let it = self.get(call.db, &again).expect("it is there");
            let mut held: Vec<_> = it
                .ordered()
                .into_iter()
                .filter(|it| it.token == poll.token && it.deadline > now)
                .collect();
            held.truncate(poll.count.map_or(usize::MAX, |it| it as usize));
            let held = held.into_iter().take_while(|entry| room.takes(size(entry) + token_bytes));
            let expected: Vec<_> = held.map(|entry| row(entry, poll)).collect();
            let is_it = expected == rows && chosen == Some(again);
            return if is_it {
                Ok(())
            } else {
                call.differs(&format!("what is held: {expected:?}"), reply)
            };
        }
        if rows.is_empty() {
            self.happen(call.at[1])?;
        }
        for key in &poll.keys {
            let is_chosen = chosen.as_ref() == Some(key);
            let Some(it) = self.get_mut(call.db, key) else {
                if is_chosen && !rows.is_empty() {
                    return call.differs("nothing", reply);
                }
                continue;
            };
            if !is_chosen {
                if let Some(left) = it.gives(now).filter(|_| !it.is_fitting() && it.touched <= now)
                {
                    return Err(Promise::Asleep.broken(format!(
                        "{:?} replied {reply:?} at {now} beside {left:?}",
                        call.op
                    )));
                }
                continue;
            }
            it.poll(now);
            let has_many_dead = rows.len() < 20_000 && it.count() > 1000 && it.has_many_dead(now);
            let most = poll.count.unwrap_or(u64::MAX).min(it.room(now)[0]);
            let least = poll.count.unwrap_or(u64::MAX).min(it.room(now)[1]);
            if rows.len() as u64 > most {
                return Err(Promise::Limit
                    .broken(format!("{:?} replied {reply:?}, room for {most}", call.op)));
            }
            for shown in &rows {
                // Between two rows, dead letters were moved.
                if let Some(id) = self.get(call.db, key).and_then(|it| id_of_row(it, shown)) {
                    self.happen_until_given(call, key, &id)?;
                }
                let bytes = self.give(call, poll, key, shown)? + token_bytes;
                if !room.takes(bytes) {
                    return Err(Promise::Limit.broken(format!(
                        "{:?} replied {} rows",
                        call.op,
                        rows.len()
                    )));
                }
            }
            self.happen(call.at[1])?;
            let Some(it) = self.get(call.db, key) else { return Ok(()) };
            let mut left = it.open(now).map(|open| open.1).filter(|entry| it.is_alive(entry, now));
            let owes = (rows.len() as u64) < least
                && !it.is_paused(now)
                && !it.is_fitting()
                && !has_many_dead;
            // Whose turn it is decides, and perhaps that one is too long.
            if owes
                && let Some(first) = left.next()
                && std::iter::once(first).chain(left).all(|it| room.has_for(size(it) + token_bytes))
            {
                let left = first;
                let what = format!("{:?} replied {} at {now} beside {left:?}", call.op, rows.len());
                return Err(Promise::Asleep.broken(what));
            }
            return Ok(());
        }
        Ok(())
    }

    /// Follows a row of a POLL. Returns the bytes of its strings.
    fn give(
        &mut self,
        call: &Call,
        poll: &Poll,
        key: &Bytes,
        shown: &Reply,
    ) -> std::result::Result<usize, Fault> {
        let sequence = self.number();
        let it = self
            .get_mut(call.db, key)
            .ok_or_else(|| Promise::Unknown.broken(format!("{shown:?} of no key")))?;
        let id = id_of_row(it, shown).ok_or_else(|| call.other("a row", shown))?;
        let mut entry = it.give(&id, call.now)?;
        it.touched = it.touched.max(call.now);
        if let Some(lease) = poll.lease {
            entry.token = poll.token.clone().or_else(|| match shown {
                Reply::Array(row) => row
                    .get(3)
                    .and_then(|it| if let Reply::Bulk(it) = it { Some(it.clone()) } else { None }),
                _ => None,
            });
            entry.deliveries = (entry.deliveries + 1).min(65_535);
            entry.was_due = entry.deadline.min(call.now);
            (entry.ttl, entry.deadline, entry.sequence) = (lease, call.now + lease, sequence);
        } else {
            // The effect has told until when, but where nobody listens. Somebody who slept may have been served a moment later.
            let told = it.remembered.get(&id).copied();
            it.done(&id, [call.now, call.now + 1]);
            it.remembered.extend(told.map(|told| (id.clone(), told)));
        }
        let (expected, bytes) = (row(&entry, poll), size(&entry));
        if poll.lease.is_some() {
            it.insert(entry);
        }
        self.tidy(call.db, key);
        call.is(&expected, shown).map(|()| bytes)
    }
}

/// Returns the id in a row, or that of the element in it.
fn id_of_row(it: &Dehydrator, shown: &Reply) -> Option<Bytes> {
    match shown {
        Reply::Array(row) => match row.first() {
            Some(Reply::Bulk(id)) => Some(id.clone()),
            _ => None,
        },
        Reply::Bulk(element) => Some(it.id_of(element).unwrap_or_else(|| id_of(element).to_vec())),
        _ => None,
    }
}

/// Returns the row of an element that was given out.
fn row(entry: &Entry, poll: &Poll) -> Reply {
    let (id, element) = (Reply::Bulk(entry.id.clone()), Reply::Bulk(entry.element.clone()));
    match &entry.token {
        Some(token) if poll.lease.is_some() => {
            Reply::Array(vec![id, element, int(entry.deliveries), Reply::Bulk(token.clone())])
        }
        _ if poll.with_ids => Reply::Array(vec![id, element]),
        _ => element,
    }
}
