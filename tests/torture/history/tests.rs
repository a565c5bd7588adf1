//! Wrong histories, made by hand: each kind of error is found.

use super::*;

/// Milliseconds, the unit of the tests. The server's clock is a second ahead.
const MS: u64 = 1000;
const AHEAD: i64 = 1_000_000;

fn event(client: usize, start: u64, end: u64, act: Act) -> Event {
    Event { client, start: start * MS, end: end * MS, act }
}

/// Returns a push within a millisecond, by a client of its own.
fn push(id: Id, start: u64, ttl: u64) -> Event {
    event(100, start, start + 1, Act::Push { id, ttl, at: None, group: 0 })
}

/// Puts the element of a push into a group.
fn into(mut push: Event, to: Group) -> Event {
    let Act::Push { group, .. } = &mut push.act else { panic!("{push:?}") };
    *group = to;
    push
}

fn poll(client: usize, start: u64, end: u64, ids: &[Id]) -> Event {
    let reply = Reply::Given(ids.to_vec());
    event(client, start, end, Act::Poll(Poll { count: ids.len(), reply, ..Poll::default() }))
}

fn with(mut event: Event, change: impl FnOnce(&mut Poll)) -> Event {
    let Act::Poll(poll) = &mut event.act else { panic!("{event:?}") };
    change(poll);
    event
}

fn sleep(client: usize, start: u64, end: u64, reply: Reply) -> Event {
    let poll = Poll { block: Some(0), lease: None, count: 1, reply };
    event(client, start, end, Act::Poll(poll))
}

fn lease(client: usize, start: u64, end: u64, id: Id, ms: u64) -> Event {
    with(poll(client, start, end, &[id]), |poll| poll.lease = Some(ms))
}

fn take(id: Id, start: u64, end: u64) -> Event {
    event(101, start, end, Act::Take { id, taken: true })
}

fn history(events: &[Event], left: &[Id]) -> History {
    let end = 100_000 * MS;
    History { clock: Clock::steady(AHEAD, 0), events: events.to_vec(), left: left.to_vec(), end }
}

fn kinds(history: &History) -> Vec<Wrong> {
    let mut kinds: Vec<_> = check(history).into_iter().map(|finding| finding.0).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[track_caller]
fn assert_found(events: &[Event], left: &[Id], expected: &[Wrong]) {
    let history = history(events, left);
    assert_eq!(kinds(&history), expected, "{:?}", check(&history));
}

#[test]
fn a_correct_history_has_no_errors() {
    let events = [
        push(1, 0, 10),
        push(2, 1, 10),
        push(3, 2, 10),
        push(4, 3, 50),
        poll(0, 20, 21, &[1, 2]),
        sleep(1, 5, 30, Reply::Given(vec![3])),
        lease(2, 60, 61, 4, 100),
        lease(3, 170, 171, 4, 100),
        take(4, 180, 181),
        event(
            1,
            200,
            300,
            Act::Poll(Poll { block: Some(100), count: 1, lease: None, reply: Reply::Nil }),
        ),
        push(5, 400, 100_000),
    ];
    assert_found(&events, &[5], &[]);
}

#[test]
fn an_early_delivery_is_found() {
    assert_found(&[push(1, 0, 100), poll(0, 50, 51, &[1])], &[], &[Wrong::Early]);
    // The reply was read late, and may have been sent in time.
    assert_found(&[push(1, 0, 100), poll(0, 50, 101, &[1])], &[], &[]);
    assert_found(
        &[push(1, 0, 100), event(0, 50, 51, Act::XPoll { ids: vec![1], all: true })],
        &[1],
        &[Wrong::Early],
    );
    let touch = event(0, 10, 11, Act::Touch { id: 1, ttl: 500, touched: true });
    let events = [push(1, 0, 100), touch, poll(0, 200, 201, &[1])];
    assert_found(&events, &[], &[Wrong::Early]);
    // An absolute deadline, by the server's clock.
    let at = event(100, 0, 1, Act::Push { id: 1, ttl: 5, at: Some(1100), group: 0 });
    assert_found(&[at.clone(), poll(0, 50, 51, &[1])], &[], &[Wrong::Early]);
    assert_found(&[at, poll(0, 100, 101, &[1])], &[], &[]);
}

#[test]
fn a_double_delivery_is_found() {
    let events = [push(1, 0, 10), poll(0, 20, 21, &[1]), poll(1, 20, 22, &[1])];
    assert_found(&events, &[], &[Wrong::Twice]);
    let events = [push(1, 0, 10), poll(0, 20, 21, &[1]), take(1, 20, 22)];
    assert_found(&events, &[], &[Wrong::Twice]);
    let events = [push(1, 0, 10), take(1, 12, 13), lease(0, 20, 21, 1, 100)];
    assert_found(&events, &[], &[Wrong::Twice]);
    let xpoll = event(0, 30, 31, Act::XPoll { ids: vec![1], all: true });
    assert_found(&[push(1, 0, 10), take(1, 12, 13), xpoll], &[], &[Wrong::Twice]);
    assert_found(&[poll(0, 20, 21, &[1])], &[], &[Wrong::Unknown]);
    assert_found(&[push(1, 0, 10), poll(0, 20, 21, &[1])], &[1], &[Wrong::Twice]);
}

#[test]
fn a_lost_element_is_found() {
    assert_found(&[push(1, 0, 10)], &[], &[Wrong::Lost]);
    assert_found(&[push(1, 0, 10), lease(0, 20, 21, 1, 10)], &[], &[Wrong::Lost]);
    // It may have been in a reply that was not read ...
    let unread = sleep(0, 0, 50, Reply::Unread);
    assert_found(&[push(1, 0, 10), unread.clone()], &[], &[]);
    // ... but not if the client was gone before it was due, or had leased it ...
    assert_found(&[push(1, 0, 100), unread.clone()], &[], &[Wrong::Lost]);
    let leased = with(unread.clone(), |poll| poll.lease = Some(10));
    assert_found(&[push(1, 0, 10), leased], &[], &[Wrong::Lost]);
    // ... and at most as many as it asked for.
    let events = [push(1, 0, 10), push(2, 0, 10), unread.clone()];
    assert_eq!(check(&history(&events, &[])).len(), 1);
    // It was observed to be gone before that client came.
    let xpoll = event(1, 20, 21, Act::XPoll { ids: vec![], all: true });
    let late = sleep(0, 30, 50, Reply::Unread);
    assert_found(&[push(1, 0, 10), late.clone()], &[], &[]);
    assert_found(&[push(1, 0, 10), xpoll, late], &[], &[Wrong::Lost]);
    // Each in the one that fits: the first reply can have had either, the second only one.
    let events = [push(1, 0, 10), push(2, 0, 40), sleep(1, 0, 20, Reply::Unread), unread];
    assert_found(&events, &[], &[]);
}

#[test]
fn a_wrong_order_is_found() {
    let pushes = [push(1, 0, 10), push(2, 5, 10)];
    let events = [&pushes[..], &[poll(0, 20, 21, &[2, 1])]].concat();
    assert_found(&events, &[], &[Wrong::OutOfOrder]);
    let events = [&pushes[..], &[poll(0, 20, 21, &[2]), poll(1, 22, 23, &[1])]].concat();
    assert_found(&events, &[], &[Wrong::OutOfOrder]);
    // Groups take turns, and each has an order of its own.
    let grouped = |first, second| vec![into(push(1, 0, 10), first), into(push(2, 5, 10), second)];
    for (first, second) in [(0, 1), (1, 0), (1, 2)] {
        let events = [grouped(first, second), vec![poll(0, 20, 21, &[2, 1])]].concat();
        assert_found(&events, &[], &[]);
    }
    let events = [grouped(1, 1), vec![poll(0, 20, 21, &[2, 1])]].concat();
    assert_found(&events, &[], &[Wrong::OutOfOrder]);
    // It is unknown which was first.
    let events = [&pushes[..], &[poll(0, 20, 23, &[2]), poll(1, 22, 23, &[1])]].concat();
    assert_found(&events, &[], &[]);
    // Both existed before the first of them was due, and then it was the other's turn.
    let asleep = |client, end, id| sleep(client, 8, end, Reply::Given(vec![id]));
    let later = sleep(1, 35, 40, Reply::Given(vec![1]));
    let events = [push(1, 0, 20), push(2, 5, 25), asleep(0, 33, 2), later];
    assert_found(&events, &[], &[Wrong::OutOfOrder]);
    // With equal deadlines, the one pushed first.
    let at =
        |id, start| event(100, start, start + 1, Act::Push { id, ttl: 0, at: Some(5), group: 0 });
    let events = [at(1, 0), at(2, 5), poll(0, 20, 21, &[2, 1])];
    assert_found(&events, &[], &[Wrong::OutOfOrder]);
    assert_found(&[at(1, 0), at(2, 5), poll(0, 20, 21, &[1, 2])], &[], &[]);
}

#[test]
fn a_broken_lease_is_found() {
    let events = [push(1, 0, 10), lease(0, 20, 21, 1, 1000), lease(1, 500, 501, 1, 1000)];
    assert_found(&events, &[1], &[Wrong::LeaseBroken]);
    let events = [push(1, 0, 10), lease(0, 20, 21, 1, 1000), poll(1, 500, 501, &[1])];
    assert_found(&events, &[], &[Wrong::LeaseBroken]);
    // A blocked client does not get it before it is due, however long it was blocked.
    let asleep = with(sleep(0, 0, 2000, Reply::Given(vec![1])), |it| it.lease = Some(1000));
    let events = [push(1, 0, 1999), asleep, poll(1, 2500, 2501, &[1])];
    assert_found(&events, &[], &[Wrong::LeaseBroken]);
    // Both were blocked when it came.
    let sleeper = |client, end| {
        with(sleep(client, 0, end, Reply::Given(vec![1])), |it| it.lease = Some(1000))
    };
    let events = [push(1, 0, 500), sleeper(0, 501), sleeper(1, 1400)];
    assert_found(&events, &[1], &[Wrong::LeaseBroken]);
    assert_found(&[push(1, 0, 500), sleeper(0, 501), sleeper(1, 1501)], &[1], &[]);
    // Given back.
    let touch = event(0, 100, 101, Act::Touch { id: 1, ttl: 0, touched: true });
    let events = [push(1, 0, 10), lease(0, 20, 21, 1, 1000), touch, poll(1, 500, 501, &[1])];
    assert_found(&events, &[], &[]);
}

#[test]
fn a_stranded_client_is_found() {
    let sleeper = sleep(0, 0, 5000, Reply::Given(vec![1]));
    assert_found(&[push(1, 0, 10), sleeper.clone()], &[], &[Wrong::Stranded]);
    assert_found(&[push(1, 0, 4500), sleeper], &[], &[]);
    // It was blocked until the end, beside an element that is still there.
    let sleeper = sleep(0, 0, 90_000, Reply::Unread);
    assert_found(&[push(1, 0, 10), sleeper.clone()], &[1], &[Wrong::Stranded]);
    assert_found(&[push(1, 0, 95_000), sleeper.clone()], &[1], &[]);
    // Its lease was over long ago.
    let events = [push(1, 0, 10), lease(1, 20, 21, 1, 100), sleeper.clone()];
    assert_found(&events, &[1], &[Wrong::Stranded]);
    let events = [push(1, 0, 10), lease(1, 20, 21, 1, 95_000), sleeper];
    assert_found(&events, &[1], &[]);
}

#[test]
fn a_client_is_stranded_by_elements_that_the_clock_makes_due() {
    let sleeper = sleep(0, 0, 60_000, Reply::Unread);
    let mut history = history(&[push(1, 0, 3_600_000), sleeper], &[1]);
    assert_eq!(kinds(&history), []);
    // An hour ahead, for five seconds: it was due.
    let hour = 3_600_000_000;
    history.clock.steps.push((10_000 * MS, 10_001 * MS, AHEAD + hour));
    history.clock.steps.push((15_000 * MS, 15_001 * MS, AHEAD));
    assert_eq!(kinds(&history), [Wrong::Stranded]);
    // For half a second, it need not be noticed.
    history.clock.steps[2] = (10_500 * MS, 10_501 * MS, AHEAD);
    assert_eq!(kinds(&history), []);
    // And deliveries meanwhile were not early.
    history.events.push(poll(1, 10_200, 10_201, &[1]));
    history.left.clear();
    assert_eq!(kinds(&history), []);
    history.clock.steps.truncate(1);
    assert_eq!(kinds(&history), [Wrong::Early]);
}

#[test]
fn empty_replies_are_found() {
    assert_found(&[sleep(0, 0, 50, Reply::Nil)], &[], &[Wrong::ForEverEnded]);
    assert_found(&[sleep(0, 0, 50, Reply::Refused)], &[], &[Wrong::ForEverEnded]);
    assert_found(&[sleep(0, 0, 50, Reply::Given(vec![]))], &[], &[Wrong::Empty]);
    let nil = |end| with(sleep(0, 0, end, Reply::Nil), |poll| poll.block = Some(100));
    assert_found(&[nil(50)], &[], &[Wrong::TimeoutEarly]);
    assert_found(&[nil(100)], &[], &[]);
    // Another client unblocked them.
    let unblock = |client, at| event(7, at, at + 1, Act::Unblock { client });
    assert_found(&[sleep(0, 0, 50, Reply::Nil), unblock(0, 49)], &[], &[]);
    assert_found(&[sleep(0, 0, 50, Reply::Nil), unblock(1, 49)], &[], &[Wrong::ForEverEnded]);
    assert_found(&[sleep(0, 0, 50, Reply::Nil), unblock(0, 60)], &[], &[Wrong::ForEverEnded]);
}

#[test]
fn an_overtaking_client_is_found() {
    let pushes = [push(1, 0, 900), push(2, 0, 950)];
    let served = |first: Id, second: Id, firsts_end| {
        [
            &pushes[..],
            &[
                sleep(0, 0, firsts_end, Reply::Given(vec![first])),
                sleep(1, 600, 1855 - firsts_end, Reply::Given(vec![second])),
            ],
        ]
        .concat()
    };
    assert_found(&served(1, 2, 901), &[], &[]);
    let mut overtaken = served(2, 1, 952);
    assert_found(&overtaken, &[], &[Wrong::Overtaken]);
    // Unless they are of different groups.
    overtaken[0] = into(overtaken[0].clone(), 1);
    assert_found(&overtaken, &[], &[]);
}
