//! Comparisons of a lawn and an oracle after each operation.

use std::collections::HashMap;

use super::super::lease::end_of_second;
use super::super::*;
use super::model::Oracle;

/// Compares whose turn it is, the groups, and what they have.
pub(super) fn check_turns(lawn: &mut Lawn, oracle: &mut Oracle, now: u64, seed: u64) {
    // Turns go on from one change to the next without a look, too.
    if !seed.is_multiple_of(3) {
        // To look moves no group.
        let next =
            oracle.turns.clone().next(&oracle.elements, now).map(|at| &oracle.elements[at].0[..]);
        assert_eq!(lawn.next_in_turn(now).map(|row| row.element.id), next, "whose turn it is");
        lawn.check();
    }
    let mut counted = std::mem::take(&mut oracle.counted);
    let found = lawn.groups_mut().map_or(Vec::new(), |mut it| it.take_counted()).into_iter();
    let mut found: Vec<_> = found.flat_map(|(name, count)| vec![name; count as usize]).collect();
    counted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, counted, "what was counted under limits of rate");
    let turns = &oracle.turns;
    assert_eq!(
        lawn.groups().map_or(Vec::new(), |it| it.all_logs(now)),
        turns.logs(now),
        "what groups gave out"
    );
    assert_eq!(lawn.has_groups(), turns.is_used());
    assert_eq!(lawn.group_rules().each, turns.each);
    let settings = turns.settings.iter().map(|(name, settings)| (&name[..], *settings));
    assert!(lawn.group_rules().iter().eq(settings));
    let mut groups = std::collections::BTreeMap::<&[u8], Vec<_>>::new();
    for (ttl, id, _, deadline) in oracle.ordered() {
        groups.entry(turns.group(id)).or_default().push((ttl, id, deadline));
    }
    let others = groups.remove(&b""[..]).unwrap_or_default();
    assert_eq!((lawn.group_count(), lawn.group_len(None)), (groups.len(), others.len()));
    let (from, end) = (now.saturating_add_signed(seed as i64 % 30 - 15), now.saturating_add(9));
    let check = |name: Option<&[u8]>, all: &[(u64, &[u8], u64)]| {
        assert_eq!(lawn.group_len(name), all.len(), "{name:?}");
        let start = Start { deadline: from, behind: None };
        let shown = lawn.group_rows(name, start, end);
        let shown: Vec<_> = shown.map(|it| (it.ttl, it.element.id, it.element.deadline)).collect();
        let expected = all.iter().filter(|it| (from..=end).contains(&it.2));
        assert!(expected.eq(&shown), "{shown:?} of {name:?}");
    };
    check(None, &others);
    check(Some(b"none"), &[]);
    for (name, all) in &groups {
        check(Some(name), all);
        assert_eq!(lawn.group_rules().of(name), turns.settings(name));
    }
    for (name, all) in &groups {
        let mut found: Vec<_> = lawn
            .group_at_rest(name, (now.saturating_sub(2), now), from)
            .map(|row| row.element.id)
            .collect();
        let held = |id: &[u8]| turns.is_held(id);
        let rests = all.iter().filter(|it| {
            !(now.saturating_sub(2)..=now).contains(&it.2) && (it.2 <= from || !held(it.1))
        });
        let mut rests: Vec<_> = rests.map(|it| it.1).collect();
        found.sort_unstable();
        rests.sort_unstable();
        assert_eq!(found, rests);
        let first = lawn.look(all[0].1).expect("it is there");
        let live = all.iter().filter(|it| it.2 > from && held(it.1)).count();
        let has_room = turns.held_max(name).is_none_or(|max| (live as u64) < max);
        assert_eq!(lawn.group_has_room(&first, from), has_room);
    }
    let mut greatest: Vec<_> = groups.iter().map(|(name, all)| (*name, all.len())).collect();
    greatest.sort_by_key(|(name, length)| (usize::MAX - length, *name));
    let found = lawn.greatest_groups(seed as usize % 5);
    // Groups that have a setting or a log exist without elements.
    if groups.len() + turns.settings.len() + turns.logs.len() < 8 {
        greatest.truncate(seed as usize % 5);
        assert_eq!(found, greatest);
    }
    assert!(
        found.iter().all(|it| greatest.contains(it))
            && found.is_sorted_by_key(|it| usize::MAX - it.1)
    );
}

/// Compares the number of live leases, and when all but some have expired.
pub(super) fn check_running(lawn: &Lawn, oracle: &Oracle, now: u64) {
    let held = oracle.ordered().into_iter().filter(|it| oracle.tokens.contains_key(it.1));
    let ends: Vec<_> = held.map(|it| it.3).filter(|at| *at > now && *at < DEADLINE_MAX).collect();
    assert_eq!(lawn.running(now), ends.len(), "at {now}");
    for left in [0, 1, 3, ends.len().saturating_sub(1), ends.len()] {
        let end = ends.iter().rev().nth(left).copied();
        assert_eq!(lawn.end_of_all_but(left, now), end, "all but {left} at {now}");
    }
}

/// Compares rows from a deadline on, and from behind one of these rows.
pub(super) fn check_rows(lawn: &Lawn, oracle: &Oracle, deadline: u64, seed: u64) {
    let all = oracle.ordered();
    let from = all.partition_point(|element| element.3 < deadline);
    let start = Start { deadline, behind: None };
    let rows: Vec<_> = lawn.rows(start, DEADLINE_MAX).collect();
    let shown = |rows: &[Row<'_>]| -> Vec<_> {
        rows.iter().map(|row| (row.ttl, row.element.id.to_vec(), row.element.deadline)).collect()
    };
    let expected: Vec<_> =
        all[from..].iter().map(|(ttl, id, _, at)| (*ttl, id.to_vec(), *at)).collect();
    assert_eq!(shown(&rows), expected, "from {deadline} on");
    let Some(at) = (seed as usize * 7919).checked_rem(rows.len()) else { return };
    let Row { element, number, .. } = rows[at];
    // A small lawn cannot resume between elements with the same deadline.
    if number.is_some() {
        let start = Start { deadline: element.deadline, behind: number };
        assert_eq!(lawn.rows(start, DEADLINE_MAX).collect::<Vec<_>>(), rows[at + 1..]);
    }
    let before = rows.iter().take_while(|row| row.element.deadline <= element.deadline);
    assert_eq!(
        shown(&lawn.rows(Start { deadline, behind: None }, element.deadline).collect::<Vec<_>>()),
        expected[..before.count()]
    );
    assert_eq!(lawn.row(element.id), Some(rows[at]));
}

/// Compares since when each element is held, and the first of these moments, to a second.
pub(super) fn check_since(lawn: &Lawn, oracle: &Oracle) {
    let mut oldest: Option<u64> = None;
    for (id, since) in &oracle.since {
        let element = lawn.look(id).expect("it is there");
        let known = Some(*since).filter(|since| since.moment > 0);
        assert_eq!(lawn.held_since(&element), known, "since when {id:?} is held");
        if element.deadline < DEADLINE_MAX && since.moment > 0 {
            let end = end_of_second(since.moment);
            oldest = Some(oldest.map_or(end, |oldest| oldest.min(end)));
        }
    }
    assert_eq!(lawn.oldest_held(), oldest);
}

/// Returns the token of each element that is held.
pub(super) fn tokens(lawn: &Lawn) -> HashMap<Vec<u8>, Token> {
    let token = |(_, it): (u64, Element<'_>)| Some((it.id.to_vec(), lawn.token(&it)?));
    lawn.iter().filter_map(token).collect()
}

/// Returns the reason of each element that has one.
pub(super) fn reasons(lawn: &Lawn) -> HashMap<Vec<u8>, Vec<u8>> {
    let reason = |(_, it): (u64, Element<'_>)| Some((it.id.to_vec(), lawn.reason(it.id)?.to_vec()));
    lawn.iter().filter_map(reason).collect()
}

pub(super) fn content(lawn: &Lawn) -> Vec<(u64, &[u8], &[u8], u64)> {
    lawn.iter().map(|(ttl, element)| (ttl, element.id, element.payload, element.deadline)).collect()
}
