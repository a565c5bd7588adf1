//! Draws profiles and steps.
//!
//! | module | contents |
//! |---|---|
//! | this file | the steps of a history |
//! | `profile` | what a run is about |
//! | `op` | operations and their arguments |
//! | `accident` | what happens around commands |
//! | `schedule` | schedules, and dead letters that come back |
//! | `big` | many elements, many groups |
//! | `theme` | runs about one thing |

mod accident;
mod big;
mod op;
mod profile;
mod schedule;
mod theme;

use super::op::Op;
use super::random::Random;
use super::step::{Command, Profile, Reload, Step};
use crate::judges::Bytes;

pub const CLIENTS: usize = 6;
pub const STREAM: &[u8] = b"stream";
pub const LIST: &[u8] = b"list";
pub const CHANNEL: &[u8] = b"channel";

pub struct Drawer<'a> {
    profile: &'a Profile,
    random: Random,
    number: usize,
}

impl<'a> Drawer<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        Self { profile, random: Random::new(profile.seed ^ 0x5eed), number: 0 }
    }

    pub fn steps(&mut self) -> Vec<Step> {
        if let Some(theme) = self.profile.theme {
            return self.of_theme(theme);
        }
        let many = if self.profile.is_big { 30 } else { 60 + self.random.below(900) };
        let mut steps = Vec::new();
        while (steps.len() as u64) < many {
            self.step(&mut steps);
        }
        steps.push(Step::Compare);
        steps
    }

    pub(super) fn command(&mut self, op: Op) -> Command {
        self.number += 1;
        let client = self.random.below(CLIENTS as u64) as usize;
        let in_multi = self.random.one_in(8) && !matches!(op, Op::Purge(..) | Op::TouchGroup(..));
        let key = self.key();
        Command { number: self.number, client, key, op, in_multi }
    }

    fn step(&mut self, steps: &mut Vec<Step>) {
        if self.profile.is_big && self.big(steps) {
            return;
        }
        let profile = self.profile;
        if profile.has_policies && profile.has_keyspace && self.random.one_in(60) {
            return self.wander(steps);
        }
        if profile.has_limits && self.random.one_in(80) {
            return self.lapse(steps);
        }
        if self.has_schedules() && self.random.one_in(5) {
            let is_many = self.random.one_in(if profile.is_big { 10 } else { 400 });
            steps.push(if is_many { self.many_schedules() } else { self.time_of_schedules() });
            return;
        }
        let step = match self.random.below(100) {
            0..50 => {
                let op = self.write();
                Step::Batch(vec![self.command(op)])
            }
            50..60 => {
                let many = 2 + self.random.below(3);
                let ops: Vec<_> = (0..many).map(|_| self.write()).collect();
                Step::Batch(ops.into_iter().map(|op| self.command(op)).collect())
            }
            60..74 => {
                let op = self.read();
                Step::Batch(vec![self.command(op)])
            }
            74..78 if profile.has_keyspace => {
                let op = self.of_keyspace();
                Step::Batch(vec![self.command(op)])
            }
            78..80 if profile.has_sleepers => {
                Step::HangUp(self.random.below(CLIENTS as u64) as usize)
            }
            80 if profile.has_reloads => {
                Step::Reload(self.random.pick(&[Reload::Rdb, Reload::Aof, Reload::RewrittenAof]))
            }
            81 if profile.has_replica => Step::Cut,
            82 if profile.has_replica && self.random.one_in(3) => Step::Promote,
            83 if profile.has_clock => {
                Step::StepWall(self.random.pick(&[-5000, -100, 100, 3000, 60_000]))
            }
            84 => Step::Compare,
            // Full memory parks dead letters, which the model does not know.
            85 | 86 if profile.has_accidents && !profile.has_policies => self.refused(),
            87 if profile.has_accidents => self.paused_writes(),
            88 if profile.has_slots => Step::MoveSlot(self.key()),
            89 if profile.has_reloads => self.cut_file(),
            // Its command has the only event.
            90 | 91 if profile.has_listener && !profile.has_policies && !profile.has_sleepers => {
                self.listened()
            }
            _ => Step::Advance(self.random.pick(&[1, 2, 5, 20, 60, 200, 600, 600, 1100, 2500])),
        };
        steps.push(step);
    }

    pub(super) fn command_of(&mut self, op: Op, key: &Bytes) -> Command {
        let mut command = self.command(op);
        (command.key, command.in_multi) = (key.clone(), false);
        command
    }

    /// Draws a command of a client of this database.
    pub(super) fn command_in(&mut self, op: Op, (key, db): (&Bytes, usize)) -> Command {
        let mut command = self.command_of(op, key);
        command.client = command.client / 2 * 2 + db;
        command
    }

    /// Draws a command of a client of this database, alone.
    pub(super) fn step_in(&mut self, op: Op, at: (&Bytes, usize)) -> Step {
        Step::Batch(vec![self.command_in(op, at)])
    }

    pub(super) fn step_of(&mut self, op: Op, key: &Bytes) -> Step {
        self.step_in(op, (key, 0))
    }
}
