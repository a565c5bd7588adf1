//! Follows commands on whole keys.

use super::Fault;
use super::follow::{Call, int, ok};
use super::model::{Kept, Model};
use crate::machine::Reply;
use crate::world::op::Op;

impl Model {
    /// Follows a command on a whole key. Returns whether it is one.
    pub(super) fn keyspace(
        &mut self,
        call: &Call,
        reply: &Reply,
    ) -> std::result::Result<bool, Fault> {
        let (db, key) = (call.db, &call.key);
        let mut moved = None;
        match &call.op {
            Op::Copy { to, db: there, .. } if to == key && *there == db => {
                call.refused("ERR", reply)?
            }
            Op::Copy { to, db: there, replace } => {
                let is_free = *replace || !self.dbs[*there].contains_key(to);
                let copy = self.dbs[db].get(key).cloned().filter(|_| is_free);
                call.is(&int(copy.is_some().into()), reply)?;
                moved = copy.map(|copy| (*there, to.clone(), copy));
            }
            Op::Rename { .. } if !self.dbs[db].contains_key(key) => call.refused("ERR", reply)?,
            Op::Rename { to, nx: true } if self.dbs[db].contains_key(to) => {
                call.is(&int(0), reply)?
            }
            Op::Rename { to, nx } => {
                call.is(&if *nx { int(1) } else { ok() }, reply)?;
                moved = self.dbs[db].remove(key).map(|kept| (db, to.clone(), kept));
            }
            Op::Move(there) if *there == db => call.refused("ERR", reply)?,
            Op::Move(there) => {
                let is_free = !self.dbs[*there].contains_key(key);
                moved = if is_free {
                    self.dbs[db].remove(key).map(|kept| (*there, key.clone(), kept))
                } else {
                    None
                };
                call.is(&int(moved.is_some().into()), reply)?;
            }
            Op::SwapDb => {
                call.is(&ok(), reply)?;
                self.dbs.swap(0, 1);
                // The module hears of it at the next tick.
                self.all_mut().for_each(|it| it.moved(call.now));
            }
            Op::Del(_) => {
                let is_there = self.dbs[db].remove(key).is_some();
                // A PURGE that takes steps may have left something.
                if !self.is_stepwise {
                    call.is(&int(is_there.into()), reply)?;
                }
            }
            Op::FlushDb => {
                call.is(&ok(), reply)?;
                self.dbs[db].clear();
            }
            Op::Set => {
                call.is(&ok(), reply)?;
                self.dbs[db].insert(key.clone(), Kept::Other);
            }
            _ => return Ok(false),
        }
        if let Some((db, key, mut kept)) = moved {
            if let Kept::Dehydrator(it) = &mut kept {
                it.moved(call.now);
                it.restart_turns();
            }
            self.dbs[db].insert(key, kept);
        }
        Ok(true)
    }
}
