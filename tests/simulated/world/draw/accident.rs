//! Draws what happens around commands.

use super::Drawer;
use crate::judges::Bytes;
use crate::world::op::{Held, How, Numbers, Op, Options, Poll};
use crate::world::step::{Act, Command, Refusal, Step};

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

    /// Draws a key for which something is to be done later, and which has another name by then.
    pub(super) fn wander(&mut self, steps: &mut Vec<Step>) {
        let (key, mut to) = (self.key(), self.key());
        if to == key {
            to = b"elsewhere".to_vec();
        }
        let ms = self.random.pick(&[100, 600, 1000]);
        let options = Options { within: self.random.one_in(3).then_some(10), ..self.options() };
        let elements = vec![(ms, self.id())];
        let push = Op::Push { elements, is_many: false, how: How::Replace, options, size: 0 };
        let moved = match self.random.below(5) {
            0 => Op::Copy { to: to.clone(), db: 1, replace: true },
            1 => Op::Move(1),
            2 => Op::SwapDb,
            _ => Op::Rename { to: to.clone(), nx: false },
        };
        let policy = if self.random.one_in(4) { self.policy() } else { self.route() };
        steps.push(self.step_of(Op::OnDue(policy), &key));
        steps.push(self.step_of(push, &key));
        if self.random.one_in(4) {
            steps.push(self.step_of(Op::Pause { ms: Some(ms), group: None }, &key));
        }
        steps.push(self.step_of(moved, &key));
        steps.push(Step::Advance(2500));
        steps.push(Step::Compare);
    }

    /// Draws a lease that has ended, others that run up to a limit, and somebody who renews all of them.
    pub(super) fn lapse(&mut self, steps: &mut Vec<Step>) {
        let key = self.key();
        let most = 1 + self.random.below(2);
        let numbers = Numbers { held: Some(most), ..Numbers::default() };
        let group = self.group();
        let limit = match &group {
            Some(_) => Op::LimitGroup(group.clone().filter(|_| self.random.one_in(2)), numbers),
            None => Op::Limit(numbers),
        };
        let elements = (0..4).map(|_| (0, self.id())).collect();
        let options = Options { group, ..Options::default() };
        let push = Op::Push { elements, is_many: true, how: How::Replace, options, size: 0 };
        let held = (0..3).map(Held::Nth).collect();
        let [short, long] = [(1, 5), (most, 5000)].map(|it| Op::Poll(Poll::of(&key, it.0, it.1)));
        for op in [limit, push, short] {
            steps.push(self.step_of(op, &key));
        }
        steps.push(Step::Advance(20));
        for op in [long, Op::Renew(500, held), Op::Info] {
            steps.push(self.step_of(op, &key));
        }
    }

    /// Draws a PURGE or a TOUCH of a group, and what happens to the key and to the group meanwhile and afterwards.
    pub(super) fn sweep(&mut self, steps: &mut Vec<Step>, at: (&Bytes, usize)) {
        let key = at.0;
        let each = self.random.pick(&[300, 3000, 3000, 20_000]);
        steps.push(self.bulk(at, 1, each, 0));
        let op = if self.random.one_in(3) {
            Op::TouchGroup(b"g0".to_vec(), self.ttl(), self.of_group())
        } else {
            Op::Purge(b"g0".to_vec(), self.of_group())
        };
        steps.push(Step::Begin(self.command_in(op, at)));
        for _ in 0..=self.random.below(2) {
            let step = match self.random.below(8) {
                0..4 => self.bulk(at, 1, 20, 0),
                4 | 5 if self.profile.has_slots => Step::MoveSlot(key.clone()),
                4 | 5 => Step::Batch(vec![self.command_of(Op::SwapDb, key)]),
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
