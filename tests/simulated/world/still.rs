//! Keeps schedules still while servers are compared: two would never be looked at in the same moment.

use super::op::Op;
use super::run::{Result, World};
use super::schedule::OfSchedules;
use crate::judges::{Bytes, Fault};

/// Schedules that are paused: the database, the key and the name.
type Still = Vec<(usize, Bytes, Bytes)>;

/// How long a comparison takes at most, in milliseconds.
const COMPARED_MS: u64 = 10_000;

impl World {
    /// Pauses what may occur meanwhile.
    pub(super) fn keep_still(&mut self) -> std::result::Result<Still, Fault> {
        let near = self.now() + COMPARED_MS;
        let still = self.occur_before(near);
        for (db, key, name) in &still {
            self.tell(*db, key, OfSchedules::Pause(name.clone()))?;
        }
        Ok(still)
    }

    /// Lets them go on.
    pub(super) fn move_again(&mut self, still: Still) -> Result {
        still
            .into_iter()
            .try_for_each(|(db, key, name)| self.tell(db, &key, OfSchedules::Resume(name)))
    }

    /// Removes all schedules.
    pub(super) fn unschedule(&mut self) -> Result {
        let all = self.model.all().map(|(db, key, it)| (db, key.clone(), it.schedules()));
        let all: Vec<_> = all.filter(|it| !it.2.is_empty()).collect();
        all.into_iter()
            .try_for_each(|(db, key, names)| self.tell(db, &key, OfSchedules::Remove(names)))
    }

    fn occur_before(&self, moment: u64) -> Still {
        let all = self.model.all();
        all.flat_map(|(db, key, it)| {
            it.occur_before(moment).into_iter().map(move |name| (db, key.clone(), name))
        })
        .collect()
    }

    fn tell(&mut self, db: usize, key: &Bytes, op: OfSchedules) -> Result {
        self.look(db, key, Op::OfSchedules(op))
    }
}
