//! Draws directed runs: each is about one thing.

use super::{Drawer, STREAM};
use crate::judges::Bytes;
use crate::judges::dehydrator::Policy;
use crate::world::op::{Numbers, Op, Poll};
use crate::world::random::Random;
use crate::world::step::{Step, Theme};

impl Theme {
    pub const ALL: [Self; 4] = [Self::Crowd, Self::Dead, Self::Slots, Self::Walk];

    pub fn draw(random: &mut Random) -> Self {
        // That one takes as long as many others.
        if random.one_in(20) { Self::Walk } else { random.pick(&Self::ALL[..3]) }
    }
}

/// How long what nobody is to get back is leased, in milliseconds.
const LONG_MS: u64 = 60_000;

impl Drawer<'_> {
    pub(super) fn of_theme(&mut self, theme: Theme) -> Vec<Step> {
        let key = self.key();
        let mut steps = match theme {
            Theme::Crowd => self.crowded(&key),
            Theme::Dead => self.dead(&key),
            Theme::Slots => self.slots(&key),
            Theme::Walk => self.walk(&key),
        };
        // Its end compares enough.
        if theme != Theme::Walk {
            steps.push(Step::Compare);
        }
        steps
    }

    /// Draws a change of what each group may hold, those who wait for it, before or behind them, and what they ask for then.
    fn change(&mut self, steps: &mut Vec<Step>, key: &Bytes, most: u64, counts: &[u64]) {
        let change = self.command_in(each_held(most), (key, 0));
        if counts == [1] {
            // In one pass, before anything else looks.
            let mut batch = vec![change];
            for _ in 0..3 {
                batch.push(self.command_in(poll(key, 1, None), (key, 0)));
            }
            return steps.push(Step::Batch(batch));
        }
        let mut batch = Vec::new();
        for _ in 0..1 + self.random.below(2) {
            let count = self.random.pick(counts);
            batch.push(self.command_in(poll(key, count, Some(0)), (key, 0)));
        }
        let mut change = Some(change);
        if self.random.one_in(2) {
            batch.extend(change.take());
        }
        steps.push(Step::Batch(batch));
        steps.extend(change.map(|it| Step::Batch(vec![it])));
        for _ in 0..2 + self.random.below(6) {
            let step = match self.random.below(6) {
                0 => Step::Advance(self.random.pick(&[1, 5, 600])),
                1 => self.step_of(Op::Ttn, key),
                _ => {
                    let count = self.random.pick(counts);
                    self.step_of(poll(key, count, None), key)
                }
            };
            steps.push(step);
        }
    }

    /// Draws groups that hold an element, of which some hold two. Which leases come first, and which of them end first, decides
    /// in what order the groups have room again. Then all of them are full, and have more to give out.
    fn fill(&mut self, steps: &mut Vec<Step>, key: &Bytes, short_ms: u64) {
        let groups = self.random.pick(&[2500, 4000, 5000]);
        let part = 1 + self.random.below(groups - 1);
        let rest_ms = self.random.pick(&[LONG_MS / 2, 2 * LONG_MS]);
        let mut part_ms = [short_ms, LONG_MS];
        if self.random.one_in(2) {
            part_ms.reverse();
        }
        steps.push(self.bulk((key, 0), groups as usize, 1, 0));
        steps.push(self.step_of(Op::Poll(Poll::of(key, part, part_ms[0])), key));
        steps.push(self.step_of(Op::Poll(Poll::of(key, groups - part, rest_ms)), key));
        steps.push(self.bulk((key, 0), part as usize, 1, 0));
        steps.push(self.step_of(Op::Poll(Poll::of(key, part, part_ms[1])), key));
        // Those that hold two wait for both.
        steps.push(self.step_of(each_held(1), key));
        for _ in 0..self.random.below(5) {
            steps.push(self.step_of(poll(key, 1, None), key));
        }
        steps.push(Step::Advance(600));
        steps.push(self.bulk((key, 0), groups as usize, 1, 0));
    }

    /// Draws groups that are all full, and changes that give room to some of them.
    fn crowded(&mut self, key: &Bytes) -> Vec<Step> {
        let most = 1 + self.random.below(2);
        let mut steps = vec![self.step_of(each_held(most), key)];
        self.fill(&mut steps, key, LONG_MS / 4 * 3);
        for at in 0..1 + self.random.below(3) {
            let most = if at == 0 { 2 } else { self.random.pick(&[0, 1, 2, 3]) };
            self.change(&mut steps, key, most, &[1, 3, 7, 300]);
        }
        steps
    }

    /// Draws groups that are full. Of some of them the first is what may be given to nobody any more.
    fn dead(&mut self, key: &Bytes) -> Vec<Step> {
        let policy = Policy::Limit(1, Box::new(Policy::Stream(STREAM.to_vec())));
        let mut steps = vec![self.step_of(Op::OnDue(policy), key)];
        steps.push(self.step_of(each_held(2), key));
        self.fill(&mut steps, key, 500);
        for _ in 0..2 {
            let most = self.random.pick(&[2, 2, 3, 0]);
            self.change(&mut steps, key, most, &[1]);
        }
        steps
    }

    fn slots(&mut self, key: &Bytes) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            if self.random.one_in(2) {
                self.sweep(&mut steps, (key, 0));
                continue;
            }
            let each = self.random.pick(&[3000, 20_000]);
            steps.push(self.bulk((key, 0), 1, each, 0));
            steps.push(Step::Begin(self.command_in(Op::Purge(b"g0".to_vec(), None), (key, 0))));
            steps.push(Step::MoveSlot(key.clone()));
        }
        steps
    }

    fn walk(&mut self, key: &Bytes) -> Vec<Step> {
        // A limit, under which what is held is kept apart. Its leases end before the others are due.
        let limit = self.step_of(each_held(1 << 20), key);
        let mut steps = vec![limit, self.bulk((key, 0), 1, 40_000, 0)];
        for _ in 0..2 {
            steps.push(self.step_of(Op::Poll(Poll::of(key, 20_000, 500)), key));
        }
        steps.push(self.bulk((key, 0), 1, 160_000, 10 * LONG_MS));
        steps.push(Step::Advance(600));
        let ttl = self.random.pick(&[1, 10]);
        let op = Op::TouchGroup(b"g0".to_vec(), ttl, Some(20_000));
        for _ in 0..2 {
            steps.push(Step::Begin(self.command_in(op.clone(), (key, 0))));
        }
        steps
    }
}

/// Returns a change of what each group may hold.
pub(super) fn each_held(most: u64) -> Op {
    Op::LimitGroup(None, Numbers { held: Some(most), ..Numbers::default() })
}

fn poll(key: &Bytes, count: u64, block: Option<u64>) -> Op {
    Op::Poll(Poll { block, ..Poll::of(key, count, LONG_MS) })
}
