//! Draws what needs many elements, or many groups.

use super::Drawer;
use crate::judges::Bytes;
use crate::world::op::{Numbers, Op, Poll};
use crate::world::step::Step;

impl Drawer<'_> {
    /// Draws what needs many elements, or many groups.
    pub(super) fn big(&mut self, steps: &mut Vec<Step>) -> bool {
        self.number += 1;
        let (key, db) = (self.key(), self.random.below(2) as usize);
        let db = if self.profile.has_slots { 0 } else { db };
        match self.random.below(24) {
            0 | 1 => self.crowd(steps, &key, db),
            2 | 3 => self.sweep(steps, &key, db),
            _ => return self.big_step(steps, key, db),
        }
        true
    }

    fn big_step(&mut self, steps: &mut Vec<Step>, key: Bytes, db: usize) -> bool {
        let number = self.number;
        let step = match self.random.below(24) {
            0..3 => {
                let groups = self.random.pick(&[0, 1, 1, 300, 3000, 3000, 6000]);
                let each = if groups < 2 {
                    self.random.pick(&[3000, 20_000])
                } else {
                    self.random.pick(&[1, 2])
                };
                Step::Bulk {
                    number,
                    key,
                    db,
                    groups,
                    each,
                    ttl: self.random.pick(&[0, 0, 0, 2000]),
                    within: None,
                }
            }
            3..5 => {
                let count = self.random.pick(&[10, 1000, 5000, 20_000]);
                Step::LeaseMany {
                    number,
                    key,
                    db,
                    count,
                    lease: self.random.pick(&[500, 3000, 60_000]),
                }
            }
            5 => {
                let op = Op::Purge(b"g0".to_vec(), self.of_group());
                Step::Begin(self.command_of(op, &key))
            }
            6 => {
                let op = Op::TouchGroup(b"g0".to_vec(), self.ttl(), self.of_group());
                Step::Begin(self.command_of(op, &key))
            }
            7 => {
                let held = self.random.pick(&[0, 1, 2, 3]);
                let op = Op::LimitGroup(None, Numbers { held: Some(held), ..Numbers::default() });
                let mut poll = self.poll();
                poll.block = Some(0);
                let poll = self.command_of(Op::Poll(poll), &key);
                Step::Batch(vec![poll, self.command_of(op, &key)])
            }
            8 | 9 if self.profile.has_slots => Step::MoveSlot(key),
            8 | 9 => Step::Batch(vec![self.command_of(Op::SwapDb, &key)]),
            10 => Step::Batch(vec![self.command_of(Op::Del(true), &key)]),
            _ => return false,
        };
        steps.push(step);
        true
    }

    /// Draws groups that are all at their limit, a change of that limit, and somebody who waits meanwhile.
    fn crowd(&mut self, steps: &mut Vec<Step>, key: &Bytes, db: usize) {
        let number = self.number;
        let groups = self.random.pick(&[1, 1, 2500, 5000]);
        let each = if groups == 1 { 20_000 } else { 3 };
        let most = 1 + self.random.below(2);
        let held = |most| Op::LimitGroup(None, Numbers { held: Some(most), ..Numbers::default() });
        let wait = |lease| {
            let (keys, count, block) = (vec![key.clone()], Some(3), Some(0));
            Op::Poll(Poll {
                keys,
                is_many: false,
                count,
                block,
                lease: Some(lease),
                token: None,
                with_ids: false,
            })
        };
        let lease = self.random.pick(&[500, 60_000]);
        let command = |it: &mut Self, op| {
            let mut command = it.command_of(op, key);
            // Of this database.
            command.client = command.client / 2 * 2 + db;
            command
        };
        steps.push(Step::Bulk { number, key: key.clone(), db, groups, each, ttl: 0, within: None });
        if groups > 1 {
            steps.push(Step::Batch(vec![command(self, held(most))]));
        }
        steps.push(Step::LeaseMany { number, key: key.clone(), db, count: 20_000, lease });
        let change = self.random.pick(&[1, 1, 2, 3]);
        let change = [command(self, wait(1000)), command(self, held(change))];
        steps.push(if self.random.one_in(2) {
            Step::Batch(vec![change[1].clone()])
        } else {
            Step::Batch(change.to_vec())
        });
        steps.push(Step::Batch(vec![command(self, Op::Ttn)]));
        steps.push(Step::Batch(vec![command(self, wait(50))]));
        if self.random.one_in(2) {
            self.number += 1;
            steps.push(Step::Advance(600));
            steps.push(Step::Bulk {
                number: self.number,
                key: key.clone(),
                db,
                groups: 3,
                each: 2,
                ttl: 0,
                within: None,
            });
            steps.push(Step::Batch(vec![command(self, wait(50))]));
        }
        steps.push(Step::Compare);
    }
}
