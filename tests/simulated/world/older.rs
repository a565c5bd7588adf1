//! The words of the module before PURGE and TOUCH of a group had a COUNT, so that its libraries can be judged too: whatever was
//! found in them must be found again.

use super::op::Op;
use super::schedule::Back;
use super::step::Step;
use crate::judges::Bytes;

/// Returns whether an older library has this command.
pub fn has(op: &Op) -> bool {
    match op {
        Op::OfSchedules(_) | Op::Revive(_) | Op::OnDueNx(_) => false,
        // What came back uncounted went behind others.
        Op::Release(_, _, back) | Op::Reject(_, back) => *back == Back::default(),
        _ => true,
    }
}

/// Returns whether an older library can run this step.
pub fn can_run(step: &Step) -> bool {
    match step {
        Step::Begin(command)
        | Step::PauseWrites(_, command)
        | Step::Listen(command, _)
        | Step::CutFile(command, _) => has(&command.op),
        Step::Refused(_, commands) => commands.iter().all(|it| has(&it.op)),
        Step::Schedules { .. } => false,
        _ => true,
    }
}

/// Puts the words of a command in the order that they had.
pub fn reorder(op: &Op, words: &mut Vec<Bytes>) {
    match op {
        Op::Purge(..) => words.truncate(4),
        Op::TouchGroup(..) => {
            words.truncate(5);
            words[2..].rotate_left(1);
        }
        Op::Touch { ids, .. } => {
            // The id and then the ttl, or the ttl and IDS; options last.
            let ttl = words.remove(2);
            let named = ids.len() + if ids.len() == 1 { 0 } else { 2 };
            let options: Vec<_> = words.drain(2..words.len() - named).collect();
            words.insert(if ids.len() == 1 { 3 } else { 2 }, ttl);
            words.extend(options);
        }
        Op::Pause { ms: Some(_), .. } => drop(words.remove(2)),
        _ => {}
    }
}

/// Returns an effect as it is written now: a lease, or what was settled.
pub fn told(words: &[Bytes]) -> Vec<Bytes> {
    let mut words = words.to_vec();
    let letter = match &words[0][..] {
        b"DEHYDRATOR.LEASE" => b'L',
        b"DEHYDRATOR.SETTLED" => b'S',
        _ => return words,
    };
    words[0] = b"DEHYDRATOR.EFFECT".to_vec();
    words[2].insert(0, letter);
    words
}
