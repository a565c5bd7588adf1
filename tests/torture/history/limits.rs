//! Checks whether more was leased, or delivered in a window, than a limit allows.
//!
//! Only certain facts count: a lease certainly runs from the moment when its reply was read until it may have been
//! ended, or may have expired; an element was certainly delivered between the moment when it was requested, and
//! existed, and the moment when the reply was read.

use std::collections::BTreeMap;

use super::{
    Act, Event, Finding, Group, History, Id, Life, Moment, Poll, Reply, TOLERANCE, Wrong, group_of,
    lives,
};

/// See LIMIT.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Whether it is the limit of each group, and not that of the key.
    pub is_of_each: bool,
    pub most: Most,
}

#[derive(Clone, Copy, Debug)]
pub enum Most {
    Held(usize),
    /// The maximum number in a window of ms.
    Rate(usize, u64),
}

/// Elements that have a limit together.
type Lives<'a> = BTreeMap<Id, Life<'a>>;

/// Checks whether it was ever exceeded. The clock must not have stepped.
pub fn check_limit(history: &History, limit: Limit) -> Vec<Finding> {
    let mut scopes = BTreeMap::<Group, Lives<'_>>::new();
    for (id, life) in lives(history) {
        let group = life.push().map_or(0, |push| group_of(push.event));
        scopes.entry(if limit.is_of_each { group } else { 0 }).or_default().insert(id, life);
    }
    if limit.is_of_each {
        // Elements without a group have no limit.
        scopes.remove(&0);
    }
    let check = |(group, lives): (&Group, &Lives<'_>)| match limit.most {
        Most::Held(most) => check_held(history, *group, lives, most),
        Most::Rate(most, per) => check_rate(history, *group, lives, most, per),
    };
    scopes.iter().filter_map(check).collect()
}

fn check_held(history: &History, group: Group, lives: &Lives<'_>, most: usize) -> Option<Finding> {
    let ahead = history.clock.steps[0].2;
    let mut changes: Vec<(Moment, i32)> = Vec::new();
    for life in lives.values() {
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
    println!("group {group}: {held} were held for certain at a time");
    let is_wrong = usize::try_from(held).is_ok_and(|held| held > most);
    is_wrong.then(|| (Wrong::HeldBeyond, format!("group {group}: {held} at {moment}")))
}

fn all_of<'a>(life: &'a Life<'_>) -> impl Iterator<Item = &'a Event> {
    life.touched.iter().map(|it| it.event).chain(life.takes.iter().copied())
}

fn check_rate(
    history: &History,
    group: Group,
    lives: &Lives<'_>,
    most: usize,
    per: u64,
) -> Option<Finding> {
    // Both ends of the window have a precision of a millisecond.
    let window = per * 1000 - TOLERANCE;
    let mut given = Vec::new();
    for event in &history.events {
        let Act::Poll(Poll { reply: Reply::Given(ids), .. }) = &event.act else { continue };
        for life in ids.iter().filter_map(|id| lives.get(id)) {
            let pushed = life.push().map_or(0, |push| push.event.start);
            given.push((event.end, event.start.max(pushed)));
        }
    }
    given.sort_unstable();
    println!("group {group}: {} were delivered", given.len());
    let too_many = given.windows(most + 1).find_map(|those| {
        let first = those.iter().map(|(_, earliest)| *earliest).min()?;
        let (last, _) = those.last()?;
        let what = || format!("group {group}: {} from {first} to {last}", those.len());
        (last - first < window).then(what)
    });
    too_many.map(|what| (Wrong::TooManyInATime, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Clock, Id};

    fn event(start: Moment, end: Moment, act: Act) -> Event {
        Event { client: 1, start, end, act }
    }

    fn push(id: Id) -> Event {
        push_into(id, 0)
    }

    fn push_into(id: Id, group: Group) -> Event {
        event(0, 10, Act::Push { id, ttl: 0, at: None, group })
    }

    fn given(id: Id, start: Moment, end: Moment) -> Event {
        let reply = Reply::Given(vec![id]);
        event(start, end, Act::Poll(Poll { lease: Some(100), count: 1, reply, ..Poll::default() }))
    }

    fn wrong(events: Vec<Event>, most: Most) -> bool {
        is_wrong(events, Limit { is_of_each: false, most })
    }

    fn is_wrong(events: Vec<Event>, limit: Limit) -> bool {
        let clock = Clock::steady(1_000_000_000, 0);
        let history = History { clock, events, left: vec![], end: 1_000_000 };
        !check_limit(&history, limit).is_empty()
    }

    #[test]
    fn two_concurrent_leases_exceed_one() {
        let both = || vec![push(1), push(2), given(1, 20_000, 21_000), given(2, 30_000, 31_000)];
        assert!(wrong(both(), Most::Held(1)) && !wrong(both(), Most::Held(2)));
        let mut settled = both();
        settled.push(event(22_000, 30_500, Act::Take { id: 1, taken: true }));
        assert!(!wrong(settled, Most::Held(1)));
        let later = vec![push(1), push(2), given(1, 20_000, 21_000), given(2, 119_000, 125_000)];
        assert!(!wrong(later, Most::Held(1)));
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
        assert!(wrong(late(60_000), Most::Rate(2, 50)) && !wrong(late(60_000), Most::Rate(3, 50)));
        assert!(!wrong(late(72_000), Most::Rate(2, 50)));
        // It may have been delivered long before.
        assert!(!wrong(late(60_000), Most::Rate(2, 40)));
    }

    #[test]
    fn each_group_has_a_limit_of_its_own() {
        let each = |most| Limit { is_of_each: true, most };
        let given = [given(1, 20_000, 21_000), given(2, 30_000, 31_000)];
        let both_in = |groups: [Group; 2]| {
            let pushes = [push_into(1, groups[0]), push_into(2, groups[1])];
            [pushes, given.clone()].concat()
        };
        for most in [Most::Held(1), Most::Rate(1, 50)] {
            assert!(is_wrong(both_in([7, 7]), each(most)) && wrong(both_in([7, 7]), most));
            assert!(!is_wrong(both_in([7, 8]), each(most)) && wrong(both_in([7, 8]), most));
            // Those without a group have none.
            assert!(!is_wrong(both_in([0, 0]), each(most)));
        }
        assert!(!is_wrong(both_in([7, 7]), each(Most::Held(2))));
        assert!(!is_wrong(both_in([7, 7]), each(Most::Rate(2, 50))));
        assert!(!is_wrong(both_in([7, 7]), each(Most::Rate(1, 8))));
    }
}
