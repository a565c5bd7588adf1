//! The model of commands on whole keys.

use redis::Value;

use super::{Expect, Kept, Op, REFUSED, World, int};

impl World {
    /// Applies a command on a whole key, and returns the expected reply.
    pub(super) fn keyspace(&mut self, db: usize, key: &'static str, op: &Op) -> Option<Expect> {
        Some(match op {
            Op::Nonsense(_) => REFUSED,
            Op::Copy { to, db: there, .. } if *to == key && *there == db => REFUSED,
            Op::Copy { to, db: there, replace } => {
                let is_free = *replace || !self.dbs[*there].contains_key(to);
                let copy = self.dbs[db].get(key).cloned().filter(|_| is_free);
                let count = copy.is_some().into();
                copy.map(|copy| self.dbs[*there].insert(to, copy));
                int(count)
            }
            Op::Rename { .. } if !self.dbs[db].contains_key(key) => REFUSED,
            Op::Rename { to, nx: true } if self.dbs[db].contains_key(to) => int(0),
            Op::Rename { to, nx } => {
                let kept = self.dbs[db].remove(key).expect("it is there");
                self.dbs[db].insert(to, kept);
                if *nx { int(1) } else { Expect::Is(Value::Okay) }
            }
            Op::Move(there) if *there == db => REFUSED,
            Op::Move(there) => {
                let is_free = !self.dbs[*there].contains_key(key);
                let moved = self.dbs[db].contains_key(key) && is_free;
                if moved {
                    let kept = self.dbs[db].remove(key).expect("it is there");
                    self.dbs[*there].insert(key, kept);
                }
                int(moved.into())
            }
            Op::SwapDb(one, other) => {
                self.dbs.swap(*one, *other);
                Expect::Is(Value::Okay)
            }
            Op::Del(_) | Op::Expire => int(self.dbs[db].remove(key).is_some().into()),
            Op::FlushDb => {
                self.dbs[db].clear();
                Expect::Is(Value::Okay)
            }
            Op::Help | Op::Late => Expect::Shown(Box::default()),
            // No level is that high.
            Op::Require { level: u64::MAX } => REFUSED,
            Op::Require { .. } => Expect::Is(Value::Int(1)),
            Op::SetText => {
                self.dbs[db].insert(key, Kept::Text);
                Expect::Is(Value::Okay)
            }
            _ => return None,
        })
    }
}
