//! Requests of a few words, and those that look.

use super::*;
use lawn::DEADLINE_MAX;

#[test]
fn requests_without_options_are_their_words_in_order() {
    needs_all_of("k", only!(OfKey));
    takes_no_more("k", only!(OfKey));
    assert_eq!(read("k", |args| Ok(text(OfKey::parse(args)?.key))), Ok("k".into()));

    needs_all_of("k i", only!(OfId));
    takes_no_more("k i", only!(OfId));
    let of_id = |args: Args<'_>| OfId::parse(args).map(|it| (text(it.key), text(it.id)));
    assert_eq!(read("k i", of_id), Ok(("k".into(), "i".into())));

    needs_all_of("k i", only!(OfIds));
    let of_ids = |args: Args<'_>| {
        OfIds::parse(args).map(|it| (text(it.key), it.ids().map(text).collect::<Vec<_>>()))
    };
    assert_eq!(read("k a", of_ids), Ok(("k".into(), vec!["a".into()])));
    assert_eq!(read("k a b a", of_ids), Ok(("k".into(), ["a", "b", "a"].map(Into::into).into())));

    needs_all_of("k i e", only!(Update));
    takes_no_more("k i e", only!(Update));
    let update =
        |args: Args<'_>| Update::parse(args).map(|it| [it.key, it.id, it.element].map(text));
    assert_eq!(read("k i e", update), Ok(["k", "i", "e"].map(Into::into)));
}

#[test]
fn a_range_is_between_two_moments_or_from_where_one_ended() {
    needs_all_of("k - +", only!(Range));
    let range = |args: Args<'_>| {
        let it = Range::parse(args)?;
        let from = it.from.map(|from| (from.start.deadline, from.start.behind, from.serial));
        Ok((from, it.end, it.count, it.with_elements))
    };
    let all = |from, end| Ok((from, end, usize::MAX, false));
    let at = |deadline| Some((deadline, None, None));
    assert_eq!(read("k - +", range), all(at(0), Some(DEADLINE_MAX)));
    assert_eq!(read("k + -", range), all(at(DEADLINE_MAX), Some(0)));
    assert_eq!(read("k 7 9", range), all(at(7), Some(9)));
    assert_eq!(read("k (7 (9", range), all(at(8), Some(8)));
    assert_eq!(read("k 7 (0", range), all(at(7), None));
    assert_eq!(read("k (9223372036854775806 9", range), all(at(DEADLINE_MAX), Some(9)));
    assert_eq!(read("k (9223372036854775807 9", range), all(None, Some(9)));
    assert_eq!(read("k (7-0-5 9", range), all(Some((7, Some(0), Some(5))), Some(9)));
    let options = Ok((at(7), Some(9), 3, true));
    assert_eq!(read("k 7 9 COUNT 3 WITHELEMENTS", range), options);
    assert_eq!(read("k 7 9 withelements count 3", range), options);
    refuses(
        &[
            "k x +",
            "k -1 +",
            "k 9223372036854775808 +",
            "k ( +",
            "k (- +",
            "k (7- +",
            "k (7-1 +",
            "k (7-1- +",
            "k (7-1-1-1 +",
            "k (x-1-1 +",
            "k 7-1-1 +",
            "k - x",
            "k - (",
            "k - (x",
            "k - (7-1-1",
            "k - 9223372036854775808",
            "k - + COUNT",
            "k - + COUNT 0",
            "k - + COUNT 1 COUNT 1",
            "k - + WITHELEMENTS WITHELEMENTS",
            "k - + WITHIDS",
        ],
        only!(Range),
    );
}

#[test]
fn a_look_is_short_or_full() {
    needs_all_of("k i", only!(Look));
    let look = |args: Args<'_>| Look::parse(args).map(|it| (it.id.to_vec(), it.full));
    assert_eq!(read("k full", look), Ok((b"full".to_vec(), false)));
    assert_eq!(read("k i full", look), Ok((b"i".to_vec(), true)));
    refuses(&["k i FULL FULL", "k i short"], only!(Look));
}

#[test]
fn a_scan_begins_at_a_cursor_and_shows_ten() {
    needs_all_of("k 0", only!(Scan));
    let scan = |args: Args<'_>| {
        let it = Scan::parse(args)?;
        Ok((text(it.key), it.cursor, it.pattern.map(<[u8]>::to_vec), it.count))
    };
    assert_eq!(read("k 0", scan), Ok(("k".into(), 0, None, 10)));
    let all = Ok(("k".into(), 17, Some(b"a*".to_vec()), 3));
    assert_eq!(read("k 17 MATCH a* COUNT 3", scan), all);
    assert_eq!(read("k 17 count 3 match a*", scan), all);
    refuses(
        &[
            "k x",
            "k 0 MATCH",
            "k 0 MATCH a MATCH a",
            "k 0 COUNT 0",
            "k 0 COUNT 1 COUNT 1",
            "k 0 a*",
        ],
        only!(Scan),
    );
}

#[test]
fn what_a_later_version_adds_to_require_is_let_pass() {
    needs_all_of("2", only!(Require));
    let require = |args: Args<'_>| Require::parse(args).map(|it| (it.level, it.version));
    assert_eq!(read("2", require), Ok((2, String::new())));
    assert_eq!(read("3 0.3.0 and more", require), Ok((3, "0.3.0".into())));
    refuses(&["0", "-1", "x", "2x"], only!(Require));
}

#[test]
fn info_is_short_or_full() {
    needs_all_of("k", only!(Info));
    let info = |args: Args<'_>| Info::parse(args).map(|it| (text(it.key), it.full));
    assert_eq!(read("k", info), Ok(("k".into(), false)));
    assert_eq!(read("k full", info), Ok(("k".into(), true)));
    refuses(&["k FULL FULL", "k short"], only!(Info));
}
