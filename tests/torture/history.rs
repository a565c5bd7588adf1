//! The observations of clients, and a check whether they are possible.
//!
//! A history records the requests of each client, their times, and the replies. The server executed a request at an
//! unknown moment between request and reply. So only observations that are wrong for every such moment are errors.
//!
//! Each id is pushed once, so that every observation of an id is about one element.

mod limits;
mod waiting;

use std::collections::BTreeMap;

pub use limits::{Limit, Most, check_limit};
use waiting::{check_line, check_sleepers};

/// Microseconds since the run began, by a clock that never steps.
pub type Moment = u64;
pub type Id = u64;
/// The number of a group; 0: none.
pub type Group = u64;

/// The error in comparing two clocks.
pub const TOLERANCE: u64 = 2_000;
/// How long a due element may wait beside a blocked client.
pub const STRANDED: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub enum Act {
    /// A push, with a ttl in ms, or a deadline in unix ms, into a group.
    Push {
        id: Id,
        ttl: u64,
        at: Option<u64>,
        group: Group,
    },
    Poll(Poll),
    /// PULL, REM, or XACK of one id; whether it existed, and was taken.
    Take {
        id: Id,
        taken: bool,
    },
    /// Due elements, and whether these are all.
    XPoll {
        ids: Vec<Id>,
        all: bool,
    },
    /// Whether it existed.
    Touch {
        id: Id,
        ttl: u64,
        touched: bool,
    },
    /// CLIENT UNBLOCK of another client, which was blocked.
    Unblock {
        client: usize,
    },
}

#[derive(Clone, Default, Debug)]
pub struct Poll {
    /// In ms.
    pub block: Option<u64>,
    /// In ms.
    pub lease: Option<u64>,
    /// The maximum number.
    pub count: usize,
    pub reply: Reply,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Reply {
    /// Not read: the client hung up, or was killed.
    #[default]
    Unread,
    Given(Vec<Id>),
    Nil,
    /// UNBLOCKED.
    Refused,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub client: usize,
    pub start: Moment,
    /// When the reply was read, or the client was gone.
    pub end: Moment,
    pub act: Act,
}

/// The server's wall clock: its difference from ours, in microseconds.
pub struct Clock {
    /// The periods of steps, and the difference in each.
    pub steps: Vec<(Moment, Moment, i64)>,
    /// The error of the difference, in microseconds.
    pub error: u64,
}

/// All observations of a run.
pub struct History {
    pub clock: Clock,
    pub events: Vec<Event>,
    /// The elements left at the end.
    pub left: Vec<Id>,
    /// When they were read.
    pub end: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    /// Delivered before its deadline.
    Early,
    /// Delivered again while it was leased.
    LeaseBroken,
    /// Delivered again after it was taken.
    Twice,
    /// Delivered, and never pushed.
    Unknown,
    /// Pushed, and neither delivered nor left.
    Lost,
    /// Delivered before one that was first.
    OutOfOrder,
    /// A client stayed blocked although an element was due.
    Stranded,
    /// A client that waits forever got nil.
    ForEverEnded,
    /// An empty reply to a client that waits for elements.
    Empty,
    /// Nil before the timeout.
    TimeoutEarly,
    /// A later client was served earlier.
    Overtaken,
    /// More leases ran at a time than the key, or its groups, allow.
    HeldBeyond,
    /// More was delivered in a window than the key, or its groups, allow.
    TooManyInATime,
}

/// The kind of error, and the reason.
pub type Finding = (Wrong, String);

impl Clock {
    pub fn steady(ahead: i64, error: u64) -> Self {
        Self { steps: vec![(0, 0, ahead)], error }
    }

    /// Returns whether earlier readings were lower.
    fn is_steady(&self) -> bool {
        self.steps.len() == 1
    }

    /// Returns the possible offsets between two moments, and their periods.
    fn offsets(&self, from: Moment, to: Moment) -> impl Iterator<Item = (Moment, Moment, i64)> {
        let ends = self.steps.iter().skip(1).map(|step| step.1).chain([Moment::MAX]);
        let segments = self.steps.iter().zip(ends);
        segments.filter_map(move |((start, _, ahead), end)| {
            let (start, end) = (from.max(*start), to.min(end));
            (start <= end).then_some((start, end, *ahead))
        })
    }

    /// Returns the latest time that it may have shown, in unix microseconds.
    fn latest(&self, from: Moment, to: Moment) -> u64 {
        let times = self.offsets(from, to).map(|(_, end, ahead)| end.saturating_add_signed(ahead));
        times.max().expect("a clock shows something") + self.error
    }

    fn earliest(&self, from: Moment, to: Moment) -> u64 {
        let times =
            self.offsets(from, to).map(|(start, _, ahead)| start.saturating_add_signed(ahead));
        times.min().expect("a clock shows something") - self.error
    }

    /// Returns the longest period in which a deadline, in unix microseconds, had certainly passed.
    fn longest_due(&self, deadline: u64, from: Moment, to: Moment) -> u64 {
        let (mut longest, mut since) = (0, None);
        for (at, (_, certain, ahead)) in self.steps.iter().enumerate() {
            let next = self.steps.get(at + 1).map_or(Moment::MAX, |step| step.0);
            let (start, end) = (from.max(*certain), to.min(next));
            if start >= end {
                continue;
            }
            let due = start.max(deadline.saturating_add_signed(-ahead));
            // It was due before the step already, or it was not.
            let began = if due > start { due } else { *since.get_or_insert(start) };
            longest = longest.max(end.saturating_sub(began));
            since = (due < end).then_some(began);
        }
        longest
    }
}

/// An event that set a deadline, or took the element.
struct Touched<'a> {
    event: &'a Event,
    /// The earliest and the latest possible deadline, in unix microseconds. `None`: it was taken.
    deadline: Option<(u64, u64)>,
    is_lease: bool,
}

impl Touched<'_> {
    fn is_push(&self) -> bool {
        matches!(self.event.act, Act::Push { .. })
    }
}

/// Returns the group of a push.
fn group_of(push: &Event) -> Group {
    if let Act::Push { group, .. } = push.act { group } else { panic!("{push:?}") }
}

/// The life of one element.
#[derive(Default)]
struct Life<'a> {
    /// In the order of their replies, the push first.
    touched: Vec<Touched<'a>>,
    takes: Vec<&'a Event>,
    /// Its deliveries by polls, and its positions in their replies.
    given: Vec<(&'a Event, usize)>,
    seen: Vec<&'a Event>,
}

impl<'a> Life<'a> {
    fn push(&self) -> Option<&Touched<'a>> {
        self.touched.iter().find(|it| it.is_push())
    }

    /// Returns the events that may have set the deadline last before a moment.
    fn in_force(&self, event: &Event) -> Vec<&Touched<'a>> {
        let before = |it: &&Touched<'_>| {
            it.event.start <= event.end && !std::ptr::eq(it.event, event) && it.deadline.is_some()
        };
        let all: Vec<_> = self.touched.iter().filter(before).collect();
        // Nothing came before the push.
        let is_behind = |one: &Touched<'_>, other: &Touched<'_>| {
            other.event.start > one.event.end || (one.is_push() && !other.is_push())
        };
        let is_over = |it: &&Touched<'_>| {
            all.iter().any(|other| is_behind(it, other) && other.event.end < event.start)
        };
        all.iter().copied().filter(|it| !is_over(it)).collect()
    }

    /// Returns whether only its push ever set its deadline.
    fn is_plain(&self) -> bool {
        self.touched.iter().filter(|it| it.deadline.is_some()).count() == 1
    }
}

/// Checks everything.
pub fn check(history: &History) -> Vec<Finding> {
    let lives = lives(history);
    let mut findings = Vec::new();
    for (id, life) in &lives {
        check_life(history, *id, life, &mut findings);
    }
    check_lost(history, &lives, &mut findings);
    check_order(history, &lives, &mut findings);
    check_sleepers(history, &lives, &mut findings);
    if history.clock.is_steady() {
        check_line(history, &lives, &mut findings);
    }
    findings
}

fn lives(history: &History) -> BTreeMap<Id, Life<'_>> {
    let clock = &history.clock;
    let mut lives: BTreeMap<Id, Life<'_>> = BTreeMap::new();
    let mut events: Vec<_> = history.events.iter().collect();
    events.sort_by_key(|event| event.end);
    let from_now = |from: u64, to: u64, ms: u64| {
        // The server counts whole milliseconds.
        Some((from / 1000 * 1000 + ms * 1000, to / 1000 * 1000 + ms * 1000))
    };
    for event in events {
        let (earliest, latest) =
            (clock.earliest(event.start, event.end), clock.latest(event.start, event.end));
        match &event.act {
            Act::Push { id, ttl, at, .. } => {
                let deadline = match at {
                    Some(at) => Some((at * 1000, at * 1000)),
                    None => from_now(earliest, latest, *ttl),
                };
                let touched = Touched { event, deadline, is_lease: false };
                lives.entry(*id).or_default().touched.insert(0, touched);
            }
            Act::Touch { id, ttl, touched: true } => {
                let deadline = from_now(earliest, latest, *ttl);
                let touched = Touched { event, deadline, is_lease: false };
                lives.entry(*id).or_default().touched.push(touched);
            }
            Act::Take { id, taken: true } => {
                let life = lives.entry(*id).or_default();
                life.takes.push(event);
                life.touched.push(Touched { event, deadline: None, is_lease: false });
            }
            Act::Poll(Poll { reply: Reply::Given(ids), lease, .. }) => {
                for (at, id) in ids.iter().enumerate() {
                    let life = lives.entry(*id).or_default();
                    let deadline = lease.and_then(|lease| from_now(earliest, latest, lease));
                    life.given.push((event, at));
                    life.touched.push(Touched { event, deadline, is_lease: lease.is_some() });
                    if lease.is_none() {
                        life.takes.push(event);
                    }
                }
            }
            Act::XPoll { ids, .. } => {
                for id in ids {
                    lives.entry(*id).or_default().seen.push(event);
                }
            }
            _ => {}
        }
    }
    // A blocked client did not get it before it was due, however long it had been blocked.
    for life in lives.values_mut() {
        for at in 0..life.touched.len() {
            let event = life.touched[at].event;
            let Act::Poll(Poll { lease: Some(lease), .. }) = event.act else { continue };
            let due = life.in_force(event).iter().filter_map(|it| it.deadline).min();
            let latest = clock.latest(event.start, event.end);
            let earliest = clock.earliest(event.start, event.end);
            let given = due.map_or(earliest, |(due, _)| due.max(earliest)).min(latest);
            life.touched[at].deadline = from_now(given, latest, lease);
        }
    }
    lives
}

/// Checks for early, twice, unknown, and broken leases.
fn check_life(history: &History, id: Id, life: &Life<'_>, findings: &mut Vec<Finding>) {
    let mut find = |wrong, event: &Event| {
        let so_far = life.touched.iter().filter(|it| it.event.start <= event.start);
        let so_far: Vec<_> = so_far.map(|it| (it.event, it.deadline)).collect();
        findings.push((wrong, format!("{id}: {event:?}, after {so_far:?}")));
    };
    if life.push().is_none() {
        let event = life.given.first().map(|it| it.0).or(life.takes.first().copied());
        if let Some(event) = event.or(life.seen.first().copied()) {
            find(Wrong::Unknown, event);
        }
        return;
    }
    let given = life.given.iter().map(|(event, _)| *event);
    for event in given.chain(life.seen.iter().copied()) {
        let in_force = life.in_force(event);
        let latest = history.clock.latest(event.start, event.end) + TOLERANCE;
        let is_early = |it: &&Touched<'_>| it.deadline.is_some_and(|(from, _)| from > latest);
        if !in_force.is_empty() && in_force.iter().all(is_early) {
            let is_lease = in_force.iter().any(|it| it.is_lease);
            find(if is_lease { Wrong::LeaseBroken } else { Wrong::Early }, event);
        }
        let is_gone = |take: &&Event| !std::ptr::eq(*take, event) && take.end < event.start;
        if life.takes.iter().any(is_gone) {
            find(Wrong::Twice, event);
        }
    }
    check_chain(history, life, &mut find);
    let was_taken = |take: &&&Event| take.end < history.end;
    if let Some(take) = life.takes.iter().find(was_taken).filter(|_| history.left.contains(&id)) {
        find(Wrong::Twice, take);
    }
    for again in life.takes.iter().skip(1) {
        find(Wrong::Twice, again);
    }
}

/// Regardless of how long the clients that got it were blocked: the second got it at least a lease after the first, the
/// third another lease later, in whatever order.
fn check_chain(history: &History, life: &Life<'_>, find: &mut impl FnMut(Wrong, &Event)) {
    let is_touched = life.touched.iter().any(|it| matches!(it.event.act, Act::Touch { .. }));
    let is_known = !is_touched && history.clock.is_steady();
    let push = life.push().and_then(|push| push.deadline);
    let Some((mut earliest, _)) = push.filter(|_| is_known) else { return };
    let leases = life.given.iter().filter_map(|(event, _)| match event.act {
        Act::Poll(Poll { lease, .. }) => lease,
        _ => None,
    });
    let shortest = leases.min().unwrap_or(0) * 1000;
    let mut given: Vec<_> = life.given.iter().map(|(event, _)| *event).collect();
    given.sort_by_key(|event| event.end);
    for event in given.into_iter().skip(1) {
        earliest += shortest;
        if history.clock.latest(event.start, event.end) + TOLERANCE < earliest {
            find(Wrong::LeaseBroken, event);
        }
    }
}

/// Checks for lost elements. One that is neither taken nor left may have been in a reply that was not read: at most as
/// many as it could have, and only elements that were due before its client was gone.
fn check_lost(history: &History, lives: &BTreeMap<Id, Life<'_>>, findings: &mut Vec<Finding>) {
    let mut places = Vec::new();
    for event in &history.events {
        if let Act::Poll(Poll { reply: Reply::Unread, lease: None, count, .. }) = &event.act {
            let count = (*count).min(lives.len());
            places.extend(std::iter::repeat_n(event, count));
        }
    }
    let is_missing = |(id, life): &(&Id, &Life<'_>)| {
        life.takes.is_empty() && life.push().is_some() && !history.left.contains(id)
    };
    let missing: Vec<_> = lives.iter().filter(is_missing).collect();
    // When somebody observed that it did not exist any more.
    let gone_by = |id: Id, life: &Life<'_>| {
        let (_, due) = life.push().filter(|_| life.is_plain())?.deadline?;
        let was_gone = |event: &&Event| match &event.act {
            Act::XPoll { ids, all: true } => {
                !ids.contains(&id) && history.clock.earliest(event.start, event.end) >= due + 1000
            }
            _ => false,
        };
        history.events.iter().filter(was_gone).map(|event| event.end).min()
    };
    let gone: Vec<_> = missing.iter().map(|(id, life)| gone_by(**id, life)).collect();
    let fits = |life: &Life<'_>, place: &Event| {
        let gone = history.clock.latest(place.start, place.end) + TOLERANCE;
        let in_force = life.in_force(place);
        in_force.iter().filter_map(|it| it.deadline).any(|(from, _)| from <= gone)
    };
    // The assignment of elements to replies; to make room, one that is assigned moves to another reply, if one fits.
    fn seat(
        who: usize,
        fits: &dyn Fn(usize, usize) -> bool,
        seats: &mut [Option<usize>],
        tried: &mut [bool],
    ) -> bool {
        for place in 0..seats.len() {
            if tried[place] || !fits(who, place) {
                continue;
            }
            tried[place] = true;
            if seats[place].is_none_or(|other| seat(other, fits, seats, tried)) {
                seats[place] = Some(who);
                return true;
            }
        }
        false
    }
    let mut seats = vec![None; places.len()];
    for (who, (id, life)) in missing.iter().enumerate() {
        let mut tried = vec![false; places.len()];
        let fits = |who: usize, place: usize| {
            gone[who].is_none_or(|gone| places[place].start <= gone)
                && fits(missing[who].1, places[place])
        };
        if !seat(who, &fits, &mut seats, &mut tried) {
            let push = life.push().map(|push| push.event);
            findings.push((Wrong::Lost, format!("{id}: {push:?}")));
        }
    }
}

/// Checks the order: of two elements of a group with unchanged deadlines, the one that is first is not delivered later.
fn check_order(history: &History, lives: &BTreeMap<Id, Life<'_>>, findings: &mut Vec<Finding>) {
    struct Turn<'a> {
        id: Id,
        deadline: (u64, u64),
        push: &'a Event,
        given: (&'a Event, usize),
    }
    let turns = lives.iter().filter(|(_, life)| life.is_plain()).filter_map(|(id, life)| {
        let push = life.push()?;
        let given = *life.given.first()?;
        Some(Turn { id: *id, deadline: push.deadline?, push: push.event, given })
    });
    let mut turns: Vec<_> = turns.collect();
    turns.sort_by_key(|turn| turn.given.0.end);
    for (at, second) in turns.iter().enumerate() {
        // Everything that was delivered before it, within a window: more would take too long.
        for first in
            turns[..at].iter().rev().take(500).chain(&turns[at + 1..(at + 50).min(turns.len())])
        {
            let is_later = if std::ptr::eq(first.given.0, second.given.0) {
                second.given.1 > first.given.1
            } else {
                second.given.0.start > first.given.0.end
            };
            // It existed, and its deadline was earlier, or the same and it was pushed earlier.
            let pushed = history.clock.latest(second.push.start, second.push.end) + TOLERANCE;
            let was_there = second.push.end < first.given.0.start
                || (history.clock.is_steady() && pushed < first.deadline.0)
                || std::ptr::eq(first.given.0, second.given.0);
            let is_tie = second.deadline == first.deadline
                && second.deadline.0 == second.deadline.1
                && second.push.end < first.push.start;
            let is_earlier = second.deadline.1 < first.deadline.0 || is_tie;
            let is_of_group = group_of(second.push) == group_of(first.push);
            if is_of_group && is_later && was_there && is_earlier {
                let turn = |it: &Turn<'_>| {
                    let (from, to) = it.deadline;
                    format!(
                        "{}, pushed {}..{}, due {from}..{to}",
                        it.id, it.push.start, it.push.end
                    )
                };
                let (first, given) = (turn(first), &second.given.0);
                let what = format!("{first}, before {}: {given:?}", turn(second));
                findings.push((Wrong::OutOfOrder, what));
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
