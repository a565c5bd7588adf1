//! The model of EVERY, SCHEDULES, UNSCHEDULE, and of PAUSE and RESUME of a schedule. None occurs in a run.

use redis::Value;

use super::{Bytes, Dehydrator, Expect, Op, REFUSED, int};

impl Dehydrator {
    /// Returns the reply to one of these. `None`: it is another operation.
    pub(super) fn schedule(&mut self, op: &Op) -> Option<Expect> {
        let all = &mut self.schedules;
        Some(match op {
            Op::Every { name, words } => {
                let words = plain(words);
                let before = all.get(name).cloned();
                let is_paused = before.as_ref().is_some_and(|(_, is_paused)| *is_paused);
                let is_new = before.is_none_or(|(before, _)| before != words);
                all.insert(name.clone(), (words, is_paused));
                int(is_new.into())
            }
            Op::Unschedule(names) => {
                int(names.iter().filter(|name| all.remove(*name).is_some()).count() as u64)
            }
            Op::PauseSchedule(name) => match all.get_mut(name) {
                Some((_, is_paused)) => {
                    *is_paused = true;
                    Expect::Is(Value::Okay)
                }
                None => REFUSED,
            },
            Op::ResumeSchedule(name) => {
                let paused = all.get_mut(name).map(|(_, is_paused)| std::mem::take(is_paused));
                int(paused.unwrap_or(false).into())
            }
            Op::Schedules(_) => Expect::Shown(Box::new(self.clone())),
            _ => return None,
        })
    }
}

/// Returns the words without options that are the defaults.
fn plain(words: &[Bytes]) -> Vec<Bytes> {
    let defaults: [[&[u8]; 2]; 3] =
        [[b"MISSED", b"ONE"], [b"OVERLAP", b"ALLOW"], [b"ZONE", b"UTC"]];
    let is_default =
        |pair: &[Bytes]| defaults.iter().any(|it| it[0] == pair[0] && it[1] == pair[1]);
    let options = words[2..].chunks(2).filter(|pair| !is_default(pair)).flatten();
    words[..2].iter().chain(options).cloned().collect()
}
