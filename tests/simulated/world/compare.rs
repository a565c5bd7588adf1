//! Comparisons: with everything that a server tells, and of one server with another.

use super::draw::{LIST, STREAM};
use super::op::Op;
use super::run::{LAG_US, Result, World};
use super::schedule::OfSchedules;
use super::time::{GRACE_MS, UPKEEP_MS};
use crate::judges::model::DATABASES;
use crate::judges::{Bytes, Fault, Promise};
use crate::machine::{Reply, ServerId};

impl World {
    /// Reads everything, and compares the replica and the tool's server.
    pub(super) fn compare(&mut self) -> Result {
        let still = self.keep_still()?;
        for db in 0..DATABASES {
            for key in crate::judges::reads::keys(&self.model, db) {
                if self.model.get(db, &key).is_none() {
                    continue;
                }
                let schedules = Op::OfSchedules(OfSchedules::List(Vec::new()));
                for op in [Op::Range(None, None), Op::Info, Op::Ttn, Op::Len(None), schedules] {
                    self.look(db, &key, op)?;
                }
            }
        }
        self.look(0, &b"k".to_vec(), Op::Late)?;
        self.compare_keys()?;
        if let Some(replica) = self.replica {
            self.equal(replica, Promise::Replica)?;
        }
        if let Some(tool) = &self.tool {
            self.equal(tool.server, Promise::Tool)?;
        }
        self.move_again(still)
    }

    pub(super) fn ask(&mut self, server: ServerId, db: usize, words: &[Bytes]) -> Reply {
        let db = db.to_string();
        self.machine.call(server, &[b"SELECT", db.as_bytes()]);
        let words: Vec<_> = words.iter().map(|it| &it[..]).collect();
        self.operations += 1;
        let reply = self.machine.call(server, &words);
        // It may have replied with everything.
        self.machine.take_slowest_ns(server);
        reply
    }

    pub(super) fn compare_keys(&mut self) -> Result {
        for db in 0..if self.model.is_unjudged { 0 } else { DATABASES } {
            let mut found = self.keys(db)?;
            if found != crate::judges::reads::keys(&self.model, db) {
                // One may have gone behind the reply in its pass.
                found = self.keys(db)?;
            }
            let expected = crate::judges::reads::keys(&self.model, db);
            if found != expected {
                return Err(Promise::Lost
                    .broken(format!("the keys of {db} are {found:?}, not {expected:?}")));
            }
        }
        Ok(())
    }

    /// Returns the keys of a database but for destinations, in order.
    pub(super) fn keys(&mut self, db: usize) -> std::result::Result<Vec<Bytes>, Fault> {
        let keys = self.ask(self.primary, db, &[b"KEYS".to_vec(), b"*".to_vec()]);
        self.collect(&[])?;
        let Reply::Array(keys) = keys else { return Ok(Vec::new()) };
        let text = |it| if let Reply::Bulk(it) = it { Some(it) } else { None };
        let mut keys: Vec<Bytes> = keys.into_iter().filter_map(text).collect();
        keys.retain(|key| key != STREAM && key != LIST);
        keys.sort();
        Ok(keys)
    }

    /// Compares every dehydrator on another server: by its digest, and by its rows. Who sleeps may be served in between, so a
    /// difference must last.
    pub(super) fn equal(&mut self, other: ServerId, promise: Promise) -> Result {
        for _ in 0..2 {
            if self.equal_now(other, promise).is_ok() {
                return Ok(());
            }
        }
        self.equal_now(other, promise)
    }

    fn equal_now(&mut self, other: ServerId, promise: Promise) -> Result {
        if self.is_cut
            && let Some(replica) = self.replica
        {
            self.machine.replicate(self.primary, replica, LAG_US);
            self.is_cut = false;
        }
        self.quiet()?;
        self.advance(20)?;
        // Until nothing is on its way.
        for _ in 0..100 {
            let heard = self.heard;
            self.advance(LAG_US.div_ceil(1000) + GRACE_MS)?;
            self.collect(&[])?;
            if self.heard == heard {
                break;
            }
        }
        if let Some(error) = self.machine.disobeyed(other).first() {
            return Err(promise.broken(error.as_str()));
        }
        for db in 0..DATABASES {
            for key in crate::judges::reads::keys(&self.model, db) {
                if self.model.get(db, &key).is_none() {
                    continue;
                }
                let words = Op::Range(None, None).words(&key, 0, &[], &[]);
                let (ours, theirs) =
                    (self.ask(self.primary, db, &words), self.ask(other, db, &words));
                // Where a page ends is told in numbers of the server's own.
                let rows = |reply: &Reply| {
                    if let Reply::Array(parts) = reply { parts.get(1).cloned() } else { None }
                };
                let it = self.model.get(db, &key).expect("it is there");
                // Each moves dead letters in their turns, and a turn is no part of a value.
                let now = self.now();
                let is_dead = |row: &Reply| {
                    let Reply::Array(row) = row else { return false };
                    let Some(Reply::Bulk(id)) = row.first() else { return false };
                    it.get(id)
                        .is_some_and(|entry| entry.deadline <= now && !it.is_alive(entry, now))
                };
                let (mut ours_left, mut theirs_left) = (rows(&ours), rows(&theirs));
                let mut has_dead = false;
                if promise != Promise::Replica && it.policy.holds() {
                    for left in [&mut ours_left, &mut theirs_left] {
                        if let Some(Reply::Array(rows)) = left {
                            let before = rows.len();
                            rows.retain(|row| !is_dead(row));
                            has_dead |= rows.len() < before;
                        }
                    }
                }
                if ours_left != theirs_left || ours_left.is_none() {
                    return Err(promise.broken(format!(
                        "{} of {db}: {}",
                        key.escape_ascii(),
                        difference(ours_left, theirs_left)
                    )));
                }
                let mut digests = [self.primary, other]
                    .map(|server| self.machine.digest(server, db as u32, &key));
                let waited = self.now();
                while digests[0] != digests[1]
                    && promise != Promise::Tool
                    && !has_dead
                    && self.now() < waited + 5 * UPKEEP_MS
                {
                    self.advance(UPKEEP_MS)?;
                    digests = [self.primary, other]
                        .map(|server| self.machine.digest(server, db as u32, &key));
                }
                let is_unclear =
                    self.model.get(db, &key).is_none_or(|it| it.is_unclear(self.now()));
                if digests[0] != digests[1] && promise != Promise::Tool && !has_dead && !is_unclear
                {
                    return Err(promise.broken(format!(
                        "digests of {} of {db} differ: {ours:?}",
                        key.escape_ascii()
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Returns where two lists of rows begin to differ.
fn difference(ours: Option<Reply>, theirs: Option<Reply>) -> String {
    let (Some(Reply::Array(ours)), Some(Reply::Array(theirs))) = (&ours, &theirs) else {
        return format!("{ours:?}, but {theirs:?}");
    };
    let same = ours.iter().zip(theirs).take_while(|it| it.0 == it.1).count();
    let rest = |rows: &[Reply]| rows[same..].iter().take(3).cloned().collect::<Vec<_>>();
    format!(
        "{} and {} rows, from {same} on {:?}, but {:?}",
        ours.len(),
        theirs.len(),
        rest(ours),
        rest(theirs)
    )
}
