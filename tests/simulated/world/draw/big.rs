//! Draws what needs many elements, or many groups.

use super::Drawer;
use super::theme::each_held;
use crate::judges::Bytes;
use crate::world::op::{Op, Poll};
use crate::world::step::Step;

impl Drawer<'_> {
    /// Draws what needs many elements, or many groups. Returns whether that is what was drawn.
    pub(super) fn big(&mut self, steps: &mut Vec<Step>) -> bool {
        let (key, db) = (self.key(), self.random.below(2) as usize);
        let at = (&key, if self.profile.has_slots { 0 } else { db });
        let step = match self.random.below(24) {
            0 | 1 => {
                self.crowd(steps, at);
                return true;
            }
            2 | 3 => {
                self.sweep(steps, at);
                return true;
            }
            _ => match self.random.below(24) {
                0..3 => {
                    let groups = self.random.pick(&[0, 1, 1, 300, 3000, 3000, 6000]);
                    let each = self.random.pick(if groups < 2 { &[3000, 20_000] } else { &[1, 2] });
                    let ttl = self.random.pick(&[0, 0, 0, 2000]);
                    self.bulk(at, groups, each, ttl)
                }
                3..5 => {
                    let count = self.random.pick(&[10, 1000, 5000, 20_000]);
                    let lease = self.random.pick(&[500, 3000, 60_000]);
                    self.step_in(Op::Poll(Poll::of(&key, count, lease)), at)
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
                    let op = each_held(self.random.pick(&[0, 1, 2, 3]));
                    let poll = Op::Poll(Poll { block: Some(0), ..self.poll() });
                    Step::Batch(vec![self.command_of(poll, &key), self.command_of(op, &key)])
                }
                8 | 9 if self.profile.has_slots => Step::MoveSlot(key),
                8 | 9 => Step::Batch(vec![self.command_of(Op::SwapDb, &key)]),
                10 => Step::Batch(vec![self.command_of(Op::Del(true), &key)]),
                _ => return false,
            },
        };
        steps.push(step);
        true
    }

    /// Pushes so many elements into each of so many groups.
    pub(super) fn bulk(
        &mut self,
        (key, db): (&Bytes, usize),
        groups: usize,
        each: usize,
        ttl: u64,
    ) -> Step {
        self.number += 1;
        Step::Bulk { number: self.number, key: key.clone(), db, groups, each, ttl }
    }

    /// Draws groups that are all at their limit, a change of that limit, and somebody who waits meanwhile.
    fn crowd(&mut self, steps: &mut Vec<Step>, at: (&Bytes, usize)) {
        let groups = self.random.pick(&[1, 1, 2500, 5000]);
        let each = if groups == 1 { 20_000 } else { 3 };
        let most = 1 + self.random.below(2);
        let wait = |lease| Op::Poll(Poll { block: Some(0), ..Poll::of(at.0, 3, lease) });
        steps.push(self.bulk(at, groups, each, 0));
        if groups > 1 {
            steps.push(self.step_in(each_held(most), at));
        }
        let lease = self.random.pick(&[500, 60_000]);
        steps.push(self.step_in(Op::Poll(Poll::of(at.0, 20_000, lease)), at));
        let change = self.random.pick(&[1, 1, 2, 3]);
        let waiting = self.command_in(wait(1000), at);
        let change = self.command_in(each_held(change), at);
        let is_alone = self.random.one_in(2);
        steps.push(Step::Batch(if is_alone { vec![change] } else { vec![waiting, change] }));
        steps.extend([Op::Ttn, wait(50)].map(|op| self.step_in(op, at)));
        if self.random.one_in(2) {
            steps.push(Step::Advance(600));
            steps.push(self.bulk(at, 3, 2, 0));
            steps.push(self.step_in(wait(50), at));
        }
        steps.push(Step::Compare);
    }
}
