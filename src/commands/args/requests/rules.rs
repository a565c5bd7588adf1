//! ONDUE, PAUSE, LIMIT.

use super::*;
use crate::policy::{Change, End, MaxLen, Policy, Route, Trust};
use lawn::DEADLINE_MAX;

#[test]
fn limit_asks_for_limits_or_sets_those_it_names() {
    needs_all_of("k", only!(Limit));
    let limit = |args: Args<'_>| Limit::parse(args).map(|it| (text(it.key), it.change));
    assert_eq!(read("k", limit), Ok(("k".into(), None)));
    let change = |change| Ok(("k".into(), Some(change)));
    let none = Change::default();
    assert_eq!(read("k length 5", limit), change(Change { length: Some(5), ..none }));
    assert_eq!(read("k HELD 0", limit), change(Change { held: Some(0), ..none }));
    assert_eq!(read("k rate 5 per 7", limit), change(Change { rate: Some((5, 7)), ..none }));
    let no_rate = Change { rate: Some((0, 0)), ..none };
    assert_eq!(
        [read("k rate 0", limit), read("k rate 0 per 5", limit)],
        [change(no_rate), change(no_rate)]
    );
    let most = DEADLINE_MAX;
    let line = format!("k remember {most} rate {most} per {most} held {most} length {most}");
    let (length, held, rate) = (Some(most), Some(most), Some((most, most)));
    assert_eq!(read(&line, limit), change(Change { length, held, rate, remember: Some(most) }));
    refuses(
        &[
            "k 5",
            "k length",
            "k length -1",
            "k length 1 length 1",
            "k held x",
            "k held 1 held 1",
            "k rate",
            "k rate 5",
            "k rate 5 per",
            "k rate 5 per 0",
            "k rate 0 per 0",
            "k rate 5 7",
            "k per 7",
            "k rate 5 per 7 rate 5 per 7",
            "k remember",
            "k remember x",
            "k remember 1 remember 1",
            "k length 9223372036854775808",
            "k length 1 more",
        ],
        only!(Limit),
    );

    needs_all_of("k 0 1", only!(Given));
    takes_no_more("k 0 1", only!(Given));
    let given = |args: Args<'_>| Given::parse(args).map(|it| (text(it.key), it.moment, it.count));
    assert_eq!(read("k 5 7", given), Ok(("k".into(), 5, 7)));
    refuses(&["k -1 1", "k 1 0", "k x 1", "k 1 x"], only!(Given));
}

#[test]
fn a_pause_is_for_good_for_a_while_or_until_a_moment() {
    needs_all_of("k", only!(Pause));
    let pause = |args: Args<'_>| Pause::parse(args).map(|it| (text(it.key), it.end));
    assert_eq!(read("k", pause), Ok(("k".into(), PauseEnd::Never)));
    assert_eq!(read("k 1", pause), Ok(("k".into(), PauseEnd::After(1))));
    assert_eq!(read("k at 9", pause), Ok(("k".into(), PauseEnd::At(9))));
    refuses(
        &[
            "k 0",
            "k -1",
            "k x",
            "k 9223372036854775808",
            "k AT",
            "k AT 0",
            "k AT x",
            "k AT 9 9",
            "k 9 AT 9",
            "k 9 9",
        ],
        only!(Pause),
    );
}

#[test]
fn ondue_takes_the_words_of_every_policy_and_no_others() {
    needs_all_of("k HOLD", only!(OnDue));
    let on_due = |args: Args<'_>| OnDue::parse(args).map(|it| (text(it.key), it.policy));
    assert_eq!(read("k hold", on_due), Ok(("k".into(), Policy::Hold)));
    let stream = |maxlen| Route::Stream { dest: b"d"[..].into(), maxlen };
    let maxlen = |length, approximate| stream(Some(MaxLen { length, approximate }));
    let list = |end| Route::List { dest: b"d"[..].into(), end };
    for (words, route) in [
        ("drop", Route::Drop),
        ("STREAM d", stream(None)),
        ("stream d maxlen 1", maxlen(1, false)),
        ("STREAM d MAXLEN = 5", maxlen(5, false)),
        ("STREAM d MAXLEN ~ 9223372036854775807", maxlen(DEADLINE_MAX, true)),
        ("LIST d", list(End::Right)),
        ("list d right", list(End::Right)),
        ("LIST d left", list(End::Left)),
        ("PUBLISH k", Route::Publish { channel: b"k"[..].into() }),
    ] {
        let policy = Policy::Send(route.clone());
        assert_eq!(read(&format!("k {words}"), on_due), Ok(("k".into(), policy)), "{words}");
        for deliveries in [1, u16::MAX] {
            let line = format!("k hold deliveries {deliveries} {words}");
            let policy = Policy::Limit { deliveries, route: route.clone() };
            assert_eq!(read(&line, on_due), Ok(("k".into(), policy)), "{line}");
        }
    }
    let trust = |line: &str| read(line, |args| Ok(OnDue::parse(args)?.trust));
    assert_eq!(trust("k STREAM unconfirmed"), Ok(Trust::Confirmed));
    for words in [
        "STREAM d",
        "STREAM d MAXLEN ~ 5",
        "PUBLISH c",
        "LIST d",
        "LIST d LEFT",
        "HOLD DELIVERIES 5 STREAM d",
    ] {
        assert_eq!(trust(&format!("k {words}")), Ok(Trust::Confirmed), "{words}");
        assert_eq!(trust(&format!("k {words} unconfirmed")), Ok(Trust::Unconfirmed), "{words}");
    }
    refuses(
        &[
            "k HOLD UNCONFIRMED",
            "k DROP UNCONFIRMED",
            "k HOLD DELIVERIES 5 DROP UNCONFIRMED",
            "k STREAM d UNCONFIRMED MAXLEN 5",
            "k STREAM d UNCONFIRMED UNCONFIRMED",
            "k NONE",
            "k HOLD DROP",
            "k HOLD 5",
            "k HOLD DELIVERIES",
            "k HOLD DELIVERIES 5",
            "k HOLD DELIVERIES 0 DROP",
            "k HOLD DELIVERIES 65536 DROP",
            "k HOLD DELIVERIES x DROP",
            "k HOLD DELIVERIES 5 HOLD",
            "k HOLD DELIVERIES 5 DROP more",
            "k HOLD DELIVERIES 5 STREAM",
            "k HOLD DELIVERIES 5 STREAM k",
            "k HOLD DELIVERIES 5 DELIVERIES 5 DROP",
            "k HOLD DROP DELIVERIES 5",
            "k DROP DELIVERIES 5",
            "k DELIVERIES 5 DROP",
            "k STREAM",
            "k STREAM k",
            "k STREAM d e",
            "k STREAM d MAXLEN",
            "k STREAM d MAXLEN 0",
            "k STREAM d MAXLEN ~",
            "k STREAM d MAXLEN =",
            "k STREAM d MAXLEN ~ = 5",
            "k STREAM d MAXLEN 9223372036854775808",
            "k STREAM d MAXLEN 5 MAXLEN 5",
            "k LIST",
            "k LIST k",
            "k LIST d middle",
            "k LIST d LEFT RIGHT",
            "k LIST d LEFT LEFT",
            "k LIST d MAXLEN 5",
            "k HOLD DELIVERIES 5 LIST",
            "k HOLD DELIVERIES 5 LIST k",
            "k PUBLISH",
            "k PUBLISH c d",
        ],
        only!(OnDue),
    );
}

/// As replication and the append-only file say them.
#[test]
fn a_policy_s_own_words_ask_for_it() {
    let maxlen = |length, approximate| Some(MaxLen { length, approximate });
    let stream = |maxlen| Route::Stream { dest: b"d\0\xff"[..].into(), maxlen };
    let routes = [
        Route::Drop,
        stream(None),
        stream(maxlen(1, false)),
        stream(maxlen(DEADLINE_MAX, true)),
        Route::Publish { channel: b"STREAM"[..].into() },
        Route::List { dest: b"left"[..].into(), end: End::Right },
        Route::List { dest: b"d\0\xff"[..].into(), end: End::Left },
    ];
    let limit = |route: &Route| Policy::Limit { deliveries: 7, route: route.clone() };
    let limits = routes.iter().map(limit);
    let sends = routes.iter().map(|route| Policy::Send(route.clone()));
    for policy in limits.chain(sends).chain([Policy::Hold]) {
        let words = policy.words();
        let words: Vec<&[u8]> =
            [&b"k"[..]].into_iter().chain(words.iter().map(AsRef::as_ref)).collect();
        assert_eq!(with_args(&words, |args| OnDue::parse(args).map(|it| it.policy)), Ok(policy));
    }
}
