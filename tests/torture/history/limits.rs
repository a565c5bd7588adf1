//! Checks whether more was leased, or delivered in a window, than a limit allows.
//!
//! Only certain facts count: a lease certainly runs from the moment when its reply was read until it may have been
//! ended, or may have expired; an element was certainly delivered between the moment when it was requested, and
//! existed, and the moment when the reply was read.

use super::{Act, Event, Finding, History, Life, Moment, Poll, Reply, TOLERANCE, Wrong, lives};

/// See LIMIT.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Held(usize),
    /// The maximum number in a window of ms.
    Rate(usize, u64),
}

/// Checks whether it was ever exceeded. The clock must not have stepped.
pub fn check_limit(history: &History, limit: Limit) -> Vec<Finding> {
    match limit {
        Limit::Held(most) => check_held(history, most),
        Limit::Rate(most, per) => check_rate(history, most, per),
    }
}

fn check_held(history: &History, most: usize) -> Vec<Finding> {
    let ahead = history.clock.steps[0].2;
    let mut changes: Vec<(Moment, i32)> = Vec::new();
    for life in lives(history).values() {
        for it in life.touched.iter().filter(|it| it.is_lease) {
            let (deadline, _) = it.deadline.expect("a lease has one");
            let runs_out = deadline.saturating_add_signed(-ahead).saturating_sub(TOLERANCE);
            let others = all_of(life).filter(|other| !std::ptr::eq(*other, it.event));
            let ended = others.filter(|other| other.end >= it.event.start).map(|other| other.start);
            let end = ended.chain([runs_out, history.end]).min().expect("some");
            if it.event.end < end {
                changes.extend([(it.event.end, 1), (end, -1)]);
            }
        }
    }
    // If one ends as another begins, it has ended.
    changes.sort_unstable();
    let (mut held, mut worst) = (0, (0, 0));
    for (moment, change) in changes {
        held += change;
        worst = worst.max((held, moment));
    }
    let (held, moment) = worst;
    println!("{held} were held for certain at a time");
    let is_wrong = usize::try_from(held).is_ok_and(|held| held > most);
    is_wrong.then(|| (Wrong::HeldBeyond, format!("{held} at {moment}"))).into_iter().collect()
}

fn all_of<'a>(life: &'a Life<'_>) -> impl Iterator<Item = &'a Event> {
    life.touched.iter().map(|it| it.event).chain(life.takes.iter().copied())
}

fn check_rate(history: &History, most: usize, per: u64) -> Vec<Finding> {
    // Both ends of the window have a precision of a millisecond.
    let window = per * 1000 - TOLERANCE;
    let lives = lives(history);
    let mut given = Vec::new();
    for event in &history.events {
        let Act::Poll(Poll { reply: Reply::Given(ids), .. }) = &event.act else { continue };
        for id in ids {
            let pushed = lives[id].push().map_or(0, |push| push.event.start);
            given.push((event.end, event.start.max(pushed)));
        }
    }
    given.sort_unstable();
    println!("{} were delivered", given.len());
    let too_many = given.windows(most + 1).find_map(|those| {
        let first = those.iter().map(|(_, earliest)| *earliest).min()?;
        let (last, _) = those.last()?;
        (last - first < window).then(|| format!("{} from {first} to {last}", those.len()))
    });
    too_many.map(|what| (Wrong::TooManyInATime, what)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Clock, Id};

    fn event(start: Moment, end: Moment, act: Act) -> Event {
        Event { client: 1, start, end, act }
    }

    fn push(id: Id) -> Event {
        event(0, 10, Act::Push { id, ttl: 0, at: None, group: 0 })
    }

    fn given(id: Id, start: Moment, end: Moment) -> Event {
        let reply = Reply::Given(vec![id]);
        event(start, end, Act::Poll(Poll { lease: Some(100), count: 1, reply, ..Poll::default() }))
    }

    fn wrong(events: Vec<Event>, limit: Limit) -> bool {
        let clock = Clock::steady(1_000_000_000, 0);
        let history = History { clock, events, left: vec![], end: 1_000_000 };
        !check_limit(&history, limit).is_empty()
    }

    #[test]
    fn two_concurrent_leases_exceed_one() {
        let both = || vec![push(1), push(2), given(1, 20_000, 21_000), given(2, 30_000, 31_000)];
        assert!(wrong(both(), Limit::Held(1)) && !wrong(both(), Limit::Held(2)));
        let mut settled = both();
        settled.push(event(22_000, 30_500, Act::Take { id: 1, taken: true }));
        assert!(!wrong(settled, Limit::Held(1)));
        let later = vec![push(1), push(2), given(1, 20_000, 21_000), given(2, 119_000, 125_000)];
        assert!(!wrong(later, Limit::Held(1)));
    }

    #[test]
    fn three_in_a_window_exceed_two() {
        let mut three = vec![push(1), push(2), push(3)];
        three.extend([given(1, 20_000, 21_000), given(2, 30_000, 31_000)]);
        let late = |start| {
            let mut all = three.clone();
            all.push(given(3, start, start + 1_000));
            all
        };
        assert!(
            wrong(late(60_000), Limit::Rate(2, 50)) && !wrong(late(60_000), Limit::Rate(3, 50))
        );
        assert!(!wrong(late(72_000), Limit::Rate(2, 50)));
        // It may have been delivered long before.
        assert!(!wrong(late(60_000), Limit::Rate(2, 40)));
    }
}
