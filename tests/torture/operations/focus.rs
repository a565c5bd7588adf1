//! Draws operations on one dehydrator whose groups are often at their limits, which is rare among all operations.

use super::Torture;
use crate::model::{Bounds, Bytes, GRAIN, IfThere, Op, Policy};

/// The database and the key.
pub(super) const FOCUS: (usize, &str) = (0, "c");

impl Torture {
    pub(super) fn op_of_focus(&mut self) -> Op {
        let (db, key) = FOCUS;
        match self.random.below(100) {
            0..35 => self.push_into_group(),
            35..68 => {
                let lease = (!self.random.one_in(4)).then(|| GRAIN * (1 + self.random.below(3)));
                let token = lease.and_then(|_| self.token());
                let count = Some(1 + self.random.below(6));
                let with_ids = lease.is_none() && self.random.one_in(2);
                Op::Poll { count, block: None, lease, token, with_ids }
            }
            68..74 => Op::Settle(self.held(db, key)),
            74..78 => {
                let ms = self.random.pick(&[0, 0, GRAIN]);
                Op::Release { ms, held: self.held(db, key), is_uncounted: false }
            }
            78..81 => Op::Renew { ttl: GRAIN, held: self.held(db, key) },
            81..83 => Op::Rem(self.ids()),
            83..88 => self.limit_groups(),
            88..91 => self.pause_group(),
            91..94 => Op::Resume(Some(self.group_name())),
            94 => Op::Resume(None),
            95 if self.random.one_in(2) => {
                let policy = if self.random.one_in(2) { Policy::Hold } else { self.policy() };
                Op::OnDue(policy)
            }
            _ => self.op(db, key),
        }
    }

    /// Pushes elements that are due, or will soon be.
    fn push_into_group(&mut self) -> Op {
        let group = Some(self.group_name());
        let (if_there, slack) = (IfThere::Nx, None);
        let at = self.random.one_in(6).then(|| self.deadline());
        let mut elements: Vec<(u64, Bytes, Bytes)> = Vec::new();
        for _ in 0..=self.random.below(4) {
            let ttl = GRAIN * self.random.pick(&[0, 0, 1, 2]);
            elements.push((ttl, self.element(), self.id()));
        }
        Op::MPush { elements, if_there, slack, at, bounds: Bounds::default(), group }
    }
}
