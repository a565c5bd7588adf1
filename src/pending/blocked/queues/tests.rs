use std::rc::Weak;

use super::*;

const TAKE: Take<'_> =
    Take { count: 1, with_ids: false, is_named: false, lease: None, token: None, word: None };

fn name(key: &str) -> Name {
    Name { db: 0, key: key.as_bytes().into() }
}

/// A client of that number, blocked on these keys until `until_us`.
fn join_until(
    queues: &mut Queues,
    number: usize,
    keys: &[&str],
    until_us: Option<u64>,
) -> Rc<Sleeper> {
    let client = BlockedClient::fake(number);
    queues.join(client, keys.iter().map(|key| name(key)), Vec::new(), until_us, &TAKE)
}

fn join(queues: &mut Queues, number: usize, keys: &[&str]) -> Rc<Sleeper> {
    join_until(queues, number, keys, None)
}

/// Joins the queue of one key. Returns the name, to see whether it is freed.
fn join_one(queues: &mut Queues, number: usize, key: &str) -> Weak<Name> {
    Rc::downgrade(&join(queues, number, &[key]).names[0])
}

fn leaves(queues: &mut Queues, number: usize) -> bool {
    queues.leave_by_itself(BlockedClient::fake(number).handle).is_some()
}

fn text(name: &Name) -> String {
    String::from_utf8_lossy(&name.key).into_owned()
}

fn next(queues: &mut Queues) -> String {
    queues.next_watched().map(|name| text(&name)).unwrap_or_default()
}

/// Drains the ready keys.
fn ready(queues: &mut Queues) -> String {
    let next = |queues: &mut Queues| queues.next_ready().inspect(|name| queues.served(name));
    std::iter::from_fn(|| next(queues).map(|name| text(&name))).collect()
}

fn note(queues: &mut Queues, key: &str, next: Option<u64>) -> Option<u64> {
    queues.note(&name(key), || Ok(next))?.expect("it is not delivered")
}

/// The ticket of the next client in the queue of a key, and the keys to serve it from.
fn next_in_queue(queues: &mut Queues, key: &str, now: u64) -> Option<(Ticket, String)> {
    let (sleeper, others, own) = queues.next_in_queue(&Rc::new(name(key)), now)?;
    let places = others.into_iter().chain([own]);
    Some((sleeper.ticket, places.map(|at| text(&sleeper.names[at])).collect()))
}

#[test]
fn a_name_is_freed_when_no_client_waits_and_the_backstop_goes_on_behind_it() {
    let queues = &mut Queues::default();
    let kept: Vec<_> =
        (0..).zip(["a", "b", "c", "d"]).map(|(at, key)| join_one(queues, at, key)).collect();
    assert_eq!([next(queues), next(queues), next(queues)], ["a", "b", "c"]);
    assert!(leaves(queues, 2), "c was seen last");
    assert!(kept[2].upgrade().is_none(), "c is let go of");
    assert_eq!(next(queues), "d");
    assert!(leaves(queues, 3));
    assert!(kept[3].upgrade().is_none());
    assert!(leaves(queues, 1) && leaves(queues, 0));
    assert!(kept.iter().all(|name| name.upgrade().is_none()));
    assert_eq!(next(queues), "");
    join(queues, 4, &["e"]);
    assert_eq!([next(queues), next(queues)], ["e", "e"]);
    // The first key was seen last: the one after it is next.
    join(queues, 5, &["f"]);
    assert_eq!([next(queues), next(queues)], ["f", "e"]);
    assert!(leaves(queues, 4));
    assert_eq!(next(queues), "f");
}

#[test]
fn keys_become_ready_when_due_each_once_and_in_turn() {
    let queues = &mut Queues::default();
    for (number, key) in ["a", "b", "c"].iter().enumerate() {
        join(queues, number, &[key]);
    }
    assert_eq!(note(queues, "b", Some(5)), Some(5), "it is to be looked at then");
    assert_eq!(note(queues, "b", Some(5)), None, "as before");
    assert_eq!(note(queues, "a", Some(7)), Some(7));
    assert_eq!(note(queues, "nobody's", Some(1)), None);
    queues.come_due(4);
    assert_eq!(queues.ready(), 0);
    queues.come_due(7);
    queues.come_due(7);
    assert_eq!(queues.ready(), 2);
    // A ready key has its visit anyway.
    assert_eq!(note(queues, "b", Some(6)), Some(6));
    assert_eq!((ready(queues), ready(queues)), ("ba".to_owned(), String::new()));
    queues.come_due(7);
    let b = queues.next_ready().expect("b");
    note(queues, "b", Some(3));
    queues.come_due(7);
    assert_eq!(ready(queues), "a", "the other is being served");
    queues.served(&b);
    queues.come_due(7);
    assert_eq!(ready(queues), "ba", "something is still due in both");
    note(queues, "b", None);
    note(queues, "a", None);
    queues.come_due(u64::MAX);
    assert_eq!(ready(queues), "", "they have nothing any more");
    // Its client leaves before it is visited.
    note(queues, "c", Some(1));
    queues.come_due(1);
    assert!(leaves(queues, 2));
    assert_eq!((ready(queues), next_in_queue(queues, "c", 1)), ("c".to_owned(), None));
}

#[test]
fn a_postponed_visit_is_not_due_and_a_later_one_stays() {
    let queues = &mut Queues::default();
    let a = Rc::clone(&join(queues, 0, &["a"]).names[0]);
    note(queues, "a", Some(5));
    queues.postpone(&a, 4, None);
    assert!(next_in_queue(queues, "a", 5).is_some(), "it was not due at 4");
    queues.postpone(&a, 5, Some(25));
    assert!(next_in_queue(queues, "a", 24).is_none() && next_in_queue(queues, "a", 25).is_some());
    queues.come_due(25);
    queues.postpone(&a, 25, None);
    assert!(next_in_queue(queues, "a", 25).is_none(), "it is not due until it is recorded anew");
    assert_eq!(note(queues, "a", Some(5)), Some(5));
    assert!(next_in_queue(queues, "a", 25).is_some());
}

#[test]
fn the_first_in_the_queue_is_next_and_prefers_a_key_that_it_lists_earlier() {
    let queues = &mut Queues::default();
    join(queues, 0, &["a", "b", "c"]);
    join(queues, 1, &["c"]);
    note(queues, "c", Some(5));
    assert_eq!(next_in_queue(queues, "c", 5), Some((0, "c".to_owned())), "nothing else is due");
    note(queues, "b", Some(6));
    assert_eq!(next_in_queue(queues, "c", 5), Some((0, "c".to_owned())));
    assert_eq!(next_in_queue(queues, "c", 6), Some((0, "bc".to_owned())));
    assert_eq!(
        next_in_queue(queues, "b", 6),
        Some((0, "b".to_owned())),
        "not what comes behind it"
    );
    queues.come_due(6);
    assert_eq!(next_in_queue(queues, "c", 6), Some((0, "bc".to_owned())), "it is ready");
    assert!(leaves(queues, 0));
    assert_eq!(next_in_queue(queues, "c", 6), Some((1, "c".to_owned())));
    assert_eq!(next_in_queue(queues, "b", 6), None, "nobody waits there");
}

#[test]
fn a_client_does_not_overtake_in_the_queue_of_a_key_that_it_prefers() {
    let queues = &mut Queues::default();
    join(queues, 0, &["b"]);
    join(queues, 1, &["b", "a"]);
    for key in ["a", "b"] {
        note(queues, key, Some(5));
    }
    assert_eq!(next_in_queue(queues, "a", 5), None);
    queues.come_due(5);
    assert_eq!(ready(queues), "ab", "it has its turn again");
    assert_eq!(next_in_queue(queues, "b", 5), Some((0, "b".to_owned())));
    assert!(leaves(queues, 0));
    assert_eq!(next_in_queue(queues, "a", 5), Some((1, "ba".to_owned())));
}

/// Sends the next client away. Returns its ticket and the reason.
fn send_away(queues: &mut Queues) -> Option<(Ticket, Option<Error>)> {
    let (sleeper, reason) = queues.next_to_send_away(0)?;
    queues.leave(&sleeper).map(|_| (sleeper.ticket, reason))
}

#[test]
fn dismissed_clients_are_sent_away_in_their_order_and_later_ones_stay() {
    let queues = &mut Queues::default();
    for (number, keys) in [["a", "d"], ["b", "d"], ["c", "d"]].iter().enumerate() {
        join(queues, number, keys);
    }
    assert!(!queues.dismiss(&name("nobody's"), Error::DELIVERED));
    assert!(queues.dismiss(&name("d"), Error::DELIVERED));
    assert!(!queues.is_watched(&name("d")) && queues.is_watched(&name("a")));
    join(queues, 3, &["d"]);
    assert!(leaves(queues, 1), "it hangs up meanwhile");
    assert_eq!((queues.next_us(), queues.len()), (Some(0), 3));
    assert_eq!(send_away(queues), Some((0, Some(Error::DELIVERED))));
    assert_eq!(send_away(queues), Some((2, Some(Error::DELIVERED))));
    assert_eq!(send_away(queues), None, "the other came later");
    assert_eq!((queues.len(), queues.watched(), queues.next_us()), (1, 1, None));
}

#[test]
fn all_that_wait_are_dismissed_whatever_is_due_to_them() {
    let queues = &mut Queues::default();
    for (number, keys) in [["a", "b"], ["b", "c"]].iter().enumerate() {
        join(queues, number, keys);
    }
    note(queues, "a", Some(1));
    note(queues, "b", Some(2));
    queues.come_due(1);
    assert_eq!(next(queues), "a");
    queues.dismiss_all(&Error::SLOT_MOVED);
    join(queues, 2, &["a"]);
    assert!(queues.ready() == 0 && next_in_queue(queues, "a", 9).is_none());
    assert_eq!([next(queues), next(queues)], ["a", "a"]);
    for ticket in [0, 1] {
        assert_eq!(send_away(queues), Some((ticket, Some(Error::SLOT_MOVED))));
    }
    assert_eq!((send_away(queues), queues.len(), queues.watched()), (None, 1, 1));
    // The last one hangs up after it was dismissed.
    queues.dismiss_all(&Error::SLOT_MOVED);
    assert!(leaves(queues, 2) && !queues.is_idle());
    assert!(send_away(queues).is_none() && queues.is_idle() && queues.next_us().is_none());
}

#[test]
fn a_client_whose_timeout_is_over_is_next_and_leaves_once() {
    let queues = &mut Queues::default();
    let late = join_until(queues, 0, &["a"], Some(20));
    let early = join_until(queues, 1, &["a", "b"], Some(10));
    join(queues, 2, &["b"]);
    assert_eq!(queues.next_us(), Some(10));
    assert!(queues.next_to_send_away(9).is_none());
    let is_next = |queues: &mut Queues, client: &Rc<Sleeper>| {
        let next = queues.next_to_send_away(30);
        next.is_some_and(|(it, reason)| Rc::ptr_eq(&it, client) && reason.is_none())
    };
    assert!(is_next(queues, &early));
    assert!(queues.leave(&early).is_some() && queues.leave(&early).is_none());
    // The server reuses the handle.
    let another = join(queues, 1, &["a"]);
    assert!(queues.leave(&early).is_none());
    assert!(queues.leave(&another).is_some());
    assert!(is_next(queues, &late));
    assert!(leaves(queues, 0) && queues.next_to_send_away(30).is_none());
    assert_eq!((queues.next_us(), queues.is_time(7)), (None, false));
    queues.has_returns = true;
    assert_eq!(queues.next_us(), Some(0));
    queues.retry_at(7);
    assert!(!queues.is_time(6) && queues.is_time(7) && !queues.is_idle());
    assert_eq!(queues.next_us(), Some(7));
}
