use std::rc::Weak;

use super::*;

const TAKE: Take<'_> =
    Take { count: 1, with_ids: false, is_named: false, lease: None, token: None, word: None };

fn name(key: &str) -> Name {
    Name { db: 0, key: key.as_bytes().into() }
}

/// A client of that number, blocked on these keys until `until_us`.
fn join_until(
    lines: &mut Lines,
    number: usize,
    keys: &[&str],
    until_us: Option<u64>,
) -> Rc<Sleeper> {
    let client = BlockedClient::fake(number);
    lines.join(client, keys.iter().map(|key| name(key)), until_us, &TAKE)
}

fn join(lines: &mut Lines, number: usize, keys: &[&str]) -> Rc<Sleeper> {
    join_until(lines, number, keys, None)
}

/// Joins the line of one key. Returns the name, to see whether it is freed.
fn join_one(lines: &mut Lines, number: usize, key: &str) -> Weak<Name> {
    Rc::downgrade(&join(lines, number, &[key]).names[0])
}

fn leaves(lines: &mut Lines, number: usize) -> bool {
    lines.leave_by_itself(BlockedClient::fake(number).handle).is_some()
}

fn text(name: &Name) -> String {
    String::from_utf8_lossy(&name.key).into_owned()
}

fn next(lines: &mut Lines) -> String {
    lines.next_watched().map(|name| text(&name)).unwrap_or_default()
}

/// Drains the ready keys.
fn ready(lines: &mut Lines) -> String {
    std::iter::from_fn(|| lines.next_ready().map(|name| text(&name))).collect()
}

fn note(lines: &mut Lines, key: &str, next: Option<u64>) -> Option<u64> {
    match lines.note(&name(key), || Outlook::Next(next))? {
        Outlook::Next(next) => next,
        Outlook::Delivered => unreachable!(),
    }
}

/// The ticket of the next client in the line of a key, and the keys to serve it from.
fn next_in_line(lines: &mut Lines, key: &str, now: u64) -> Option<(Ticket, String)> {
    let (sleeper, from) = lines.next_in_line(&Rc::new(name(key)), now)?;
    Some((sleeper.ticket, from.iter().map(|name| text(name)).collect()))
}

#[test]
fn a_name_is_freed_when_no_client_waits_and_the_backstop_goes_on_behind_it() {
    let lines = &mut Lines::default();
    let kept: Vec<_> =
        (0..).zip(["a", "b", "c", "d"]).map(|(at, key)| join_one(lines, at, key)).collect();
    assert_eq!([next(lines), next(lines), next(lines)], ["a", "b", "c"]);
    assert!(leaves(lines, 2), "c was seen last");
    assert!(kept[2].upgrade().is_none(), "c is let go of");
    assert_eq!(next(lines), "d");
    assert!(leaves(lines, 3));
    assert!(kept[3].upgrade().is_none());
    assert!(leaves(lines, 1) && leaves(lines, 0));
    assert!(kept.iter().all(|name| name.upgrade().is_none()));
    assert_eq!(next(lines), "");
    join(lines, 4, &["e"]);
    assert_eq!([next(lines), next(lines)], ["e", "e"]);
    // The first key was seen last: the one after it is next.
    join(lines, 5, &["f"]);
    assert_eq!([next(lines), next(lines)], ["f", "e"]);
    assert!(leaves(lines, 4));
    assert_eq!(next(lines), "f");
}

#[test]
fn keys_become_ready_when_due_each_once_and_in_turn() {
    let lines = &mut Lines::default();
    for (number, key) in ["a", "b", "c"].iter().enumerate() {
        join(lines, number, &[key]);
    }
    assert_eq!(note(lines, "b", Some(5)), Some(5), "it is to be looked at then");
    assert_eq!(note(lines, "b", Some(5)), None, "as before");
    assert_eq!(note(lines, "a", Some(7)), Some(7));
    assert_eq!(note(lines, "nobody's", Some(1)), None);
    lines.come_due(4);
    assert_eq!(lines.ready(), 0);
    lines.come_due(7);
    lines.come_due(7);
    assert_eq!(lines.ready(), 2);
    // A ready key has its visit anyway.
    assert_eq!(note(lines, "b", Some(6)), Some(6));
    assert_eq!((ready(lines), ready(lines)), ("ba".to_owned(), String::new()));
    lines.come_due(7);
    assert_eq!(ready(lines), "ba", "something is still due in both");
    note(lines, "b", None);
    note(lines, "a", None);
    lines.come_due(u64::MAX);
    assert_eq!(ready(lines), "", "they have nothing any more");
    // Its client leaves before it is visited.
    note(lines, "c", Some(1));
    lines.come_due(1);
    assert!(leaves(lines, 2));
    assert_eq!((ready(lines), next_in_line(lines, "c", 1)), ("c".to_owned(), None));
}

#[test]
fn a_postponed_visit_is_not_due_and_a_later_one_stays() {
    let lines = &mut Lines::default();
    let a = Rc::clone(&join(lines, 0, &["a"]).names[0]);
    note(lines, "a", Some(5));
    lines.postpone(&a, 4, None);
    assert!(next_in_line(lines, "a", 5).is_some(), "it was not due at 4");
    lines.postpone(&a, 5, Some(25));
    assert!(next_in_line(lines, "a", 24).is_none() && next_in_line(lines, "a", 25).is_some());
    lines.come_due(25);
    lines.postpone(&a, 25, None);
    assert!(next_in_line(lines, "a", 25).is_none(), "it is not due until it is recorded anew");
    assert_eq!(note(lines, "a", Some(5)), Some(5));
    assert!(next_in_line(lines, "a", 25).is_some());
}

#[test]
fn the_first_in_the_line_is_next_and_prefers_a_key_that_it_lists_earlier() {
    let lines = &mut Lines::default();
    join(lines, 0, &["a", "b", "c"]);
    join(lines, 1, &["c"]);
    note(lines, "c", Some(5));
    assert_eq!(next_in_line(lines, "c", 5), Some((0, "c".to_owned())), "nothing else is due");
    note(lines, "b", Some(6));
    assert_eq!(next_in_line(lines, "c", 5), Some((0, "c".to_owned())));
    assert_eq!(next_in_line(lines, "c", 6), Some((0, "bc".to_owned())));
    assert_eq!(next_in_line(lines, "b", 6), Some((0, "b".to_owned())), "not what comes behind it");
    lines.come_due(6);
    assert_eq!(next_in_line(lines, "c", 6), Some((0, "bc".to_owned())), "it is ready");
    assert!(leaves(lines, 0));
    assert_eq!(next_in_line(lines, "c", 6), Some((1, "c".to_owned())));
    assert_eq!(next_in_line(lines, "b", 6), None, "nobody waits there");
}

#[test]
fn a_client_does_not_overtake_in_the_line_of_a_key_that_it_prefers() {
    let lines = &mut Lines::default();
    join(lines, 0, &["b"]);
    join(lines, 1, &["b", "a"]);
    for key in ["a", "b"] {
        note(lines, key, Some(5));
    }
    assert_eq!(next_in_line(lines, "a", 5), None);
    lines.come_due(5);
    assert_eq!(ready(lines), "ab", "it has its turn again");
    assert_eq!(next_in_line(lines, "b", 5), Some((0, "b".to_owned())));
    assert!(leaves(lines, 0));
    assert_eq!(next_in_line(lines, "a", 5), Some((1, "ba".to_owned())));
}

/// Sends the next client away. Returns its ticket and the reason.
fn send_away(lines: &mut Lines) -> Option<(Ticket, Option<Error>)> {
    let (sleeper, reason) = lines.next_to_send_away(0)?;
    lines.leave(&sleeper).map(|_| (sleeper.ticket, reason))
}

#[test]
fn dismissed_clients_are_sent_away_in_their_order_and_later_ones_stay() {
    let lines = &mut Lines::default();
    for (number, keys) in [["a", "d"], ["b", "d"], ["c", "d"]].iter().enumerate() {
        join(lines, number, keys);
    }
    assert!(!lines.dismiss(&name("nobody's"), Error::DELIVERED));
    assert!(lines.dismiss(&name("d"), Error::DELIVERED));
    assert!(!lines.is_watched(&name("d")) && lines.is_watched(&name("a")));
    join(lines, 3, &["d"]);
    assert!(leaves(lines, 1), "it hangs up meanwhile");
    assert_eq!((lines.next_us(false), lines.len()), (Some(0), 3));
    assert_eq!(send_away(lines), Some((0, Some(Error::DELIVERED))));
    assert_eq!(send_away(lines), Some((2, Some(Error::DELIVERED))));
    assert_eq!(send_away(lines), None, "the other came later");
    assert_eq!((lines.len(), lines.watched(), lines.next_us(false)), (1, 1, None));
}

#[test]
fn all_that_wait_are_dismissed_whatever_is_due_to_them() {
    let lines = &mut Lines::default();
    for (number, keys) in [["a", "b"], ["b", "c"]].iter().enumerate() {
        join(lines, number, keys);
    }
    note(lines, "a", Some(1));
    note(lines, "b", Some(2));
    lines.come_due(1);
    assert_eq!(next(lines), "a");
    lines.dismiss_all(&Error::SLOT_MOVED);
    join(lines, 2, &["a"]);
    assert!(lines.ready() == 0 && next_in_line(lines, "a", 9).is_none());
    assert_eq!([next(lines), next(lines)], ["a", "a"]);
    for ticket in [0, 1] {
        assert_eq!(send_away(lines), Some((ticket, Some(Error::SLOT_MOVED))));
    }
    assert_eq!((send_away(lines), lines.len(), lines.watched()), (None, 1, 1));
    // The last one hangs up after it was dismissed.
    lines.dismiss_all(&Error::SLOT_MOVED);
    assert!(leaves(lines, 2) && !lines.is_idle());
    assert!(send_away(lines).is_none() && lines.is_idle() && lines.next_us(false).is_none());
}

#[test]
fn a_client_whose_timeout_is_over_is_next_and_leaves_once() {
    let lines = &mut Lines::default();
    let late = join_until(lines, 0, &["a"], Some(20));
    let early = join_until(lines, 1, &["a", "b"], Some(10));
    join(lines, 2, &["b"]);
    assert_eq!(lines.next_us(false), Some(10));
    assert!(lines.next_to_send_away(9).is_none());
    let is_next = |lines: &mut Lines, client: &Rc<Sleeper>| {
        let next = lines.next_to_send_away(30);
        next.is_some_and(|(it, reason)| Rc::ptr_eq(&it, client) && reason.is_none())
    };
    assert!(is_next(lines, &early));
    assert!(lines.leave(&early).is_some() && lines.leave(&early).is_none());
    // The server reuses the handle.
    let another = join(lines, 1, &["a"]);
    assert!(lines.leave(&early).is_none());
    assert!(lines.leave(&another).is_some());
    assert!(is_next(lines, &late));
    assert!(leaves(lines, 0) && lines.next_to_send_away(30).is_none());
    assert_eq!((lines.next_us(false), lines.next_us(true)), (None, Some(0)));
    lines.retry_at(7);
    assert!(!lines.is_time(true, 6) && lines.is_time(true, 7) && !lines.is_time(false, 7));
    assert_eq!(lines.next_us(true), Some(7));
}
