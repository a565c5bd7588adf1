//! Draws what happens around commands.

use super::Drawer;
use crate::judges::Bytes;
use crate::world::accident::{Act, Refusal};
use crate::world::op::{How, Op, Options};
use crate::world::step::{Command, Step};

impl Drawer<'_> {
    /// Draws commands, of which some are refused.
    pub(super) fn refused(&mut self) -> Step {
        let refusal = self.random.pick(&[Refusal::Full, Refusal::Rights]);
        let many = 1 + self.random.below(3);
        let ops: Vec<_> = (0..many).map(|_| self.write()).collect();
        Step::Refused(refusal, ops.into_iter().map(|op| self.command(op)).collect())
    }

    /// Draws a write that never blocks.
    fn prompt_write(&mut self) -> Command {
        let mut op = self.write();
        if let Op::Poll(poll) = &mut op {
            poll.block = None;
        }
        let mut command = self.command(op);
        command.in_multi = false;
        command
    }

    pub(super) fn paused_writes(&mut self) -> Step {
        let ms = self.random.pick(&[2, 30, 250, 1200]);
        Step::PauseWrites(ms, self.prompt_write())
    }

    pub(super) fn cut_file(&mut self) -> Step {
        let thousandths = self.random.below(1000);
        Step::CutFile(self.prompt_write(), thousandths)
    }

    /// Draws a command, and what another module does at its event.
    pub(super) fn listened(&mut self) -> Step {
        let op = match self.random.below(10) {
            0..4 => self.push(),
            4..8 => {
                let mut poll = self.poll();
                (poll.block, poll.is_many) = (None, false);
                poll.keys.truncate(1);
                Op::Poll(poll)
            }
            8 => Op::Settle(self.held()),
            _ => Op::Rem(self.ids()),
        };
        let mut command = self.command(op);
        command.in_multi = false;
        if let Op::Poll(poll) = &command.op {
            command.key = poll.keys[0].clone();
        }
        let act = match self.random.below(4) {
            0 => Act::Delete,
            1 => Act::Overwrite,
            2 => Act::Flush,
            _ => Act::Push(self.id()),
        };
        Step::Listen(command, act)
    }

    /// Draws a PURGE or a TOUCH of a group, and what happens to the key and to the group meanwhile and afterwards.
    pub(super) fn sweep(&mut self, steps: &mut Vec<Step>, key: &Bytes, db: usize) {
        let bulk = |it: &mut Self, each| {
            it.number += 1;
            let (number, key) = (it.number, key.clone());
            Step::Bulk { number, key, db, groups: 1, each, ttl: 0 }
        };
        let each = self.random.pick(&[300, 3000, 20_000]);
        steps.push(bulk(self, each));
        let op = if self.random.one_in(3) {
            Op::TouchGroup(b"g0".to_vec(), self.ttl(), self.of_group())
        } else {
            Op::Purge(b"g0".to_vec(), self.of_group())
        };
        let mut sweep = self.command_of(op, key);
        sweep.client = sweep.client / 2 * 2 + db;
        steps.push(Step::Begin(sweep));
        for _ in 0..=self.random.below(2) {
            let step = match self.random.below(8) {
                0..4 => bulk(self, 20),
                4 => Step::MoveSlot(key.clone()),
                5 if !self.profile.has_slots => Step::Batch(vec![self.command_of(Op::SwapDb, key)]),
                6 => {
                    let del = self.command_of(Op::Del(true), key);
                    let options = Options { group: Some(b"g0".to_vec()), ..Options::default() };
                    let elements = vec![(0, self.id())];
                    let op = Op::Push { elements, is_many: false, how: How::Nx, options, size: 0 };
                    let push = self.command_of(op, key);
                    steps.push(Step::Batch(vec![del]));
                    Step::Batch(vec![push])
                }
                _ => Step::Advance(1 + self.random.below(4)),
            };
            steps.push(step);
        }
        steps.push(Step::Compare);
    }
}
