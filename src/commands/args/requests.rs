//! Which request each line of words makes, and which words make none. What a client is told of those is for the tests
//! with servers, but for the number of words, which the server itself words.

use super::*;
use crate::lawn::{DEADLINE_MAX, Token};
use crate::policy::{Change, End, MaxLen, Policy, Route, Trust};
use crate::server::fake::with_args;

/// Reads a line, its words parted by single spaces.
fn read<T>(line: &str, parse: impl FnOnce(Args<'_>) -> Result<T>) -> Result<T> {
    let words: Vec<&[u8]> =
        line.split(' ').map(str::as_bytes).filter(|word| !word.is_empty()).collect();
    with_args(&words, parse)
}

/// Whether it is a request.
macro_rules! only {
    ($request:ident) => {
        |args: Args<'_>| $request::parse(args).map(|_| ())
    };
}

fn text(word: Str<'_>) -> String {
    String::from_utf8(word.bytes().to_vec()).expect("our own words")
}

/// Every start of a line that is too short to be a request is refused as such.
fn needs_all_of(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    let words: Vec<_> = line.split(' ').collect();
    for kept in 0..words.len() {
        let error = read(&words[..kept].join(" "), &parse).err();
        assert_eq!(error, Some(Error::Arity), "{kept} words of {line}");
    }
    assert!(read(line, &parse).is_ok(), "{line}");
}

/// Refused, and not because of the number of words.
fn refuses(lines: &[&str], parse: impl Fn(Args<'_>) -> Result) {
    for line in lines {
        let error = read(line, &parse).err();
        assert!(matches!(error, Some(Error::Refused(_))), "{line}: {error:?}");
    }
}

/// A line that is a request is none with a word more.
fn takes_no_more(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    assert_eq!(read(&format!("{line} more"), parse).err(), Some(Error::Arity), "{line} more");
}

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

type Pushed = ([String; 3], (u64, u64), (IfThere, Option<u64>, u16));

fn push(args: Args<'_>) -> Result<Pushed> {
    let it = Push::parse(args)?;
    Ok((
        [it.key, it.element, it.id].map(text),
        (it.ttl.asked, it.ttl.ms),
        (it.if_there, it.at, it.deliveries),
    ))
}

#[test]
fn a_push_is_its_words_and_its_options_in_any_order() {
    use IfThere::{Keep, Refuse, Replace};
    needs_all_of("k 5 e i", only!(Push));
    let pushed = |ttl: (u64, u64), rest| Ok((["k", "e", "i"].map(Into::into), ttl, rest));
    let plain = (1000, 1000);
    assert_eq!(read("k 1000 e i", push), pushed(plain, (Refuse, None, 0)));
    assert_eq!(read("k 1000 e i NX", push), pushed(plain, (Keep, None, 0)));
    assert_eq!(read("k 1000 e i rePlace", push), pushed(plain, (Replace, None, 0)));
    assert_eq!(read("k 1000 e i AT 0", push), pushed(plain, (Refuse, Some(0), 0)));
    let all = pushed(plain, (Replace, Some(77), 65_535));
    assert_eq!(read("k 1000 e i REPLACE AT 77 DELIVERIES 65535", push), all);
    assert_eq!(read("k 1000 e i at 77 deliveries 65535 replace", push), all);
    assert_eq!(read("k 1000 e i DELIVERIES 65535 REPLACE AT 77", push), all);
    let slack = pushed((1000, 1024), (Keep, None, 0));
    assert_eq!(read("k 1000 e i NX SLACK 100", push), slack);
    assert_eq!(read("k 1000 e i slack 100 nx", push), slack);
    assert_eq!(read("k 1000 e i SLACK 0", push), pushed(plain, (Refuse, None, 0)));
    assert_eq!(read("k 1024 e i SLACK 9", push), pushed((1024, 1024), (Refuse, None, 0)));
    let longest = pushed((DEADLINE_MAX, DEADLINE_MAX), (Refuse, None, 0));
    assert_eq!(read("k 9223372036854775807 e i SLACK 0", push), longest);
    // As effects say it.
    assert_eq!(read("k 1000@77 e i", push), pushed(plain, (Refuse, Some(77), 0)));
    assert_eq!(read("k 1000@77 e i REPLACE DELIVERIES 65535", push), all);
    let token = |args: Args<'_>| Push::parse(args).map(|it| it.token);
    assert_eq!(read("k 5 e i AT 9 DELIVERIES 1", token), Ok(None));
    assert_eq!(read("k 5@9 e i DELIVERIES 1 TOKEN 7", token), Ok(Token::new(7)));
    assert_eq!(read("k 5 e i AT 9 DELIVERIES 1 TOKEN 7", token), Ok(Token::new(7)));
    assert_eq!(read("k 5 e i TOKEN 7 DELIVERIES 1 NX AT 9", token), Ok(Token::new(7)));
}

#[test]
fn a_push_refuses_what_contradicts_itself_or_is_no_number() {
    refuses(
        &[
            "k 1.5 e i",
            "k -1 e i",
            "k 9223372036854775808 e i",
            "k 9223372036854775807 e i SLACK 1",
            "k 5@ e i",
            "k @5 e i",
            "k @ e i",
            "k 5@9@7 e i",
            "k 5@-9 e i",
            "k 5@9223372036854775808 e i",
            "k 5@9 e i AT 9",
            "k 5@9 e i SLACK 1",
            "k 5 e i NX NX",
            "k 5 e i NX REPLACE",
            "k 5 e i REPLACE NX",
            "k 5 e i REPLACE REPLACE",
            "k 5 e i SLACK 1 SLACK 1",
            "k 5 e i SLACK",
            "k 5 e i SLACK x",
            "k 5 e i SLACK 1 AT 9",
            "k 5 e i AT 9 SLACK 1",
            "k 5 e i AT 9 SLACK 0",
            "k 5 e i AT",
            "k 5 e i AT x",
            "k 5 e i AT 9 AT 9",
            "k 5 e i AT 9223372036854775808",
            "k 5 e i DELIVERIES 1",
            "k 5 e i AT 9 DELIVERIES",
            "k 5 e i AT 9 DELIVERIES 0",
            "k 5 e i AT 9 DELIVERIES 65536",
            "k 5 e i AT 9 DELIVERIES 1 DELIVERIES 1",
            "k 5 e i AT 9 TOKEN 7",
            "k 5 e i AT 9 DELIVERIES 1 TOKEN",
            "k 5 e i AT 9 DELIVERIES 1 TOKEN 7 TOKEN 7",
            "k 5 e i more",
            "k 5 e i NXNXNXNXNXNXNXNXNX",
        ],
        only!(Push),
    );
}

#[test]
fn pushes_without_ids_and_of_many_are_their_words() {
    needs_all_of("k 5 e", only!(GidPush));
    let gidpush = |args: Args<'_>| {
        let it = GidPush::parse(args)?;
        Ok((text(it.key), it.ttl.asked, it.ttl.ms, text(it.element)))
    };
    assert_eq!(read("k 1000 e", gidpush), Ok(("k".into(), 1000, 1000, "e".into())));
    assert_eq!(read("k 1000 e SLACK 100", gidpush), Ok(("k".into(), 1000, 1024, "e".into())));
    refuses(
        &["k x e", "k 5 e i", "k 5 e NX", "k 5 e SLACK", "k 5 e SLACK 1 SLACK 1"],
        only!(GidPush),
    );

    needs_all_of("k 5 e i", only!(MultiPush));
    takes_no_more("k 5 e i", only!(MultiPush));
    takes_no_more("k 5 e i 6 f j 7", only!(MultiPush));
    refuses(
        &[
            "k 5 e i x f j",
            "k NX e i",
            "k 5 e i NX NX",
            "k 5 e i NX REPLACE",
            "k 5 e i SLACK",
            "k 5 e i SLACK 1 AT 9",
            "k 5 e i AT 9 AT 9",
            "k 5 e i AT x",
            "k 5 e i NX 5 f j",
            "k 5 e i AT 9 DELIVERIES 1",
            "k 5@9 e i",
        ],
        only!(MultiPush),
    );
}

#[test]
fn options_behind_many_hold_for_all_of_them() {
    use IfThere::{Keep, Refuse, Replace};
    let multipush = |args: Args<'_>| {
        let it = MultiPush::parse(args)?;
        let element =
            |it: &Listed<'_>| format!("{} {} {}", it.ttl.ms, text(it.element), text(it.id));
        let elements = it.elements.iter().map(element).collect::<Vec<_>>().join(", ");
        Ok((elements, it.if_there, it.at))
    };
    let pushed = |elements: &str, if_there, at| Ok((elements.to_owned(), if_there, at));
    assert_eq!(read("k 5 e i", multipush), pushed("5 e i", Refuse, None));
    assert_eq!(read("k 5 e i 0 f j", multipush), pushed("5 e i, 0 f j", Refuse, None));
    assert_eq!(read("k 5 e i 0 f j nx", multipush), pushed("5 e i, 0 f j", Keep, None));
    let all = pushed("5 e i, 0 f j", Replace, Some(9));
    assert_eq!(read("k 5 e i 0 f j REPLACE AT 9", multipush), all);
    assert_eq!(read("k 5 e i 0 f j at 9 replace", multipush), all);
    let slack = pushed("1024 e i, 1024 f j", Refuse, None);
    assert_eq!(read("k 1000 e i 1020 f j SLACK 100", multipush), slack);
    // Words of options are as good as any for elements and ids.
    let words = pushed("5 NX AT, 5 REPLACE 9", Keep, None);
    assert_eq!(read("k 5 NX AT 5 REPLACE 9 NX", multipush), words);
}

#[test]
fn a_touch_has_one_condition() {
    use Condition::{Always, Earlier, Later};
    needs_all_of("k i 5", only!(Touch));
    let touch = |args: Args<'_>| {
        let it = Touch::parse(args)?;
        let ids: Vec<_> = it.ids().map(String::from_utf8_lossy).collect();
        Ok((text(it.key), ids.join(" "), it.ttl, it.condition, it.at))
    };
    let touched = |condition, at| Ok(("k".into(), "i".to_owned(), 5, condition, at));
    assert_eq!(read("k i 5", touch), touched(Always, None));
    assert_eq!(read("k i 5 GT", touch), touched(Later, None));
    assert_eq!(read("k i 5 lt AT 9", touch), touched(Earlier, Some(9)));
    assert_eq!(read("k i 5 AT 9 GT", touch), touched(Later, Some(9)));
    assert_eq!(read("k i 5@9", touch), touched(Always, Some(9)));
    needs_all_of("k 5 IDS 1 i", only!(Touch));
    assert_eq!(read("k 5 IDS 1 i", touch), touched(Always, None));
    assert_eq!(read("k 5 ids 1 i AT 9 GT", touch), touched(Later, Some(9)));
    let many = |condition| Ok(("k".into(), "AT 9 GT".to_owned(), 5, condition, None));
    assert_eq!(read("k 5 IDS 3 AT 9 GT", touch), many(Always));
    assert_eq!(read("k 5 IDS 3 AT 9 GT LT", touch), many(Earlier));
    // An id may be any word.
    let one = Ok(("k".into(), "5".to_owned(), 7, Always, None));
    assert_eq!(read("k 5 7", touch), one);
    refuses(
        &[
            "k i x",
            "k i 5 GT GT",
            "k i 5 GT LT",
            "k i 5 LT GT",
            "k i 5 LT LT",
            "k i 5 AT",
            "k i 5 AT x",
            "k i 5 AT 9 AT 9",
            "k i 5 NX",
            "k i 5 IDS 1 j",
            "k i IDS 1 j",
            "k 5 IDS 0 i",
            "k 5 IDS x i",
            "k 5 IDS 2 i",
            "k 5 IDS 1 i j",
            "k 5 IDS 1 i GT LT",
        ],
        only!(Touch),
    );
}

#[test]
fn a_poll_says_how_many_how_long_and_for_how_long() {
    needs_all_of("k", only!(Poll));
    let poll = |args: Args<'_>| {
        let it = Poll::parse(args)?;
        Ok((text(it.key), it.block, (it.take.count, it.take.lease, it.take.with_ids)))
    };
    let token = |line: &str| read(line, |args| Ok(Poll::parse(args)?.take.token));
    assert_eq!(token("k LEASE 5"), Ok(None));
    assert_eq!(token("k TOKEN 7 LEASE 5"), Ok(Token::new(7)));
    assert_eq!(token("k LEASE 5 token mine"), Ok(Some(Token::of_word(b"mine"))));
    let polled = |block, take| Ok(("k".into(), block, take));
    assert_eq!(read("k", poll), polled(None, (usize::MAX, None, false)));
    assert_eq!(read("k COUNT 1", poll), polled(None, (1, None, false)));
    assert_eq!(read("k BLOCK 0", poll), polled(Some(0), (usize::MAX, None, false)));
    assert_eq!(read("k withids", poll), polled(None, (usize::MAX, None, true)));
    let all = polled(Some(7), (3, Some(1), true));
    assert_eq!(read("k COUNT 3 BLOCK 7 LEASE 1 WITHIDS", poll), all);
    assert_eq!(read("k WITHIDS LEASE 1 BLOCK 7 COUNT 3", poll), all);
    refuses(
        &[
            "k COUNT",
            "k COUNT 0",
            "k COUNT -1",
            "k COUNT 1 COUNT 1",
            "k BLOCK",
            "k BLOCK -1",
            "k BLOCK 0.5",
            "k BLOCK 1 BLOCK 1",
            "k LEASE",
            "k LEASE 0",
            "k LEASE x",
            "k LEASE 1 LEASE 1",
            "k WITHIDS WITHIDS",
            "k TOKEN 7",
            "k LEASE 5 TOKEN",
            "k LEASE 5 TOKEN 7 TOKEN 7",
            "k LEASE 5 TOKEN 4611686018427387904",
            "k 5",
        ],
        only!(Poll),
    );

    needs_all_of("1 k", only!(MPoll));
    let mpoll = |args: Args<'_>| {
        let it = MPoll::parse(args)?;
        let keys = it.keys.into_iter().map(text).collect::<Vec<_>>().join(" ");
        Ok((keys, it.block, (it.take.count, it.take.lease, it.take.with_ids)))
    };
    let polled = |keys: &str, block, take| Ok((keys.to_owned(), block, take));
    assert_eq!(read("1 k", mpoll), polled("k", None, (usize::MAX, None, false)));
    assert_eq!(read("3 a b a", mpoll), polled("a b", None, (usize::MAX, None, false)));
    let all = polled("b COUNT", Some(7), (3, Some(1), true));
    assert_eq!(read("2 b COUNT COUNT 3 BLOCK 7 LEASE 1 WITHIDS", mpoll), all);
    refuses(
        &["0 k", "-1 k", "01 k", "k k", "2 k", "1 k k", "9223372036854775807 k", "1 k TOKEN 7"],
        only!(MPoll),
    );

    needs_all_of("k", only!(XPoll));
    let xpoll = |args: Args<'_>| XPoll::parse(args).map(|it| (text(it.key), it.count));
    assert_eq!(read("k", xpoll), Ok(("k".into(), usize::MAX)));
    assert_eq!(read("k count 2", xpoll), Ok(("k".into(), 2)));
    refuses(&["k COUNT 1 COUNT 1", "k COUNT 0", "k WITHIDS"], only!(XPoll));
}

#[test]
fn a_lease_names_its_deadline_and_its_ids() {
    needs_all_of("k 5 AT 9 i", only!(Lease));
    let lease = |args: Args<'_>| {
        let it = Lease::parse(args)?;
        let ids: Vec<_> = it.ids().map(<[u8]>::to_vec).collect();
        Ok((text(it.key), it.ttl, it.token.map(Token::number), it.deadline, ids))
    };
    let leased = |token, ids: [&str; 2]| {
        Ok(("k".into(), 5, token, 9, ids.map(|id| id.as_bytes().to_vec()).to_vec()))
    };
    assert_eq!(read("k 5 at 9 i AT", lease), leased(None, ["i", "AT"]));
    assert_eq!(read("k 5 at 9 TOKEN 7", lease), leased(None, ["TOKEN", "7"]));
    assert_eq!(read("k 5 token 7 AT 9 i TOKEN", lease), leased(Some(7), ["i", "TOKEN"]));
    // As this version says it.
    needs_all_of("k 5@9@7 i", only!(Lease));
    assert_eq!(read("k 5@9@7 AT i", lease), leased(Some(7), ["AT", "i"]));
    let of_word = Token::of_word(b"a@b").number();
    assert_eq!(read("k 5@9@a@b AT i", lease), leased(Some(of_word), ["AT", "i"]));
    refuses(&["k 5@9 i", "k 5@9@ i", "k @9@7 i", "k 5@x@7 i", "k x@9@7 i"], only!(Lease));
    refuses(
        &["k x AT 9 i", "k 5 AT x i", "k 5 BY 9 i", "k 5 TOKEN 7 BY 9 i", "k 5 TOKEN 7 AT x i"],
        only!(Lease),
    );
    for short in ["k 5 TOKEN 7 AT 9", "k 5 TOKEN 7 AT", "k 5 TOKEN 7 AT"] {
        assert_eq!(read(short, only!(Lease)).err(), Some(Error::Arity), "{short}");
    }
}

#[test]
fn what_is_held_is_named_in_pairs() {
    needs_all_of("k 7 i", only!(Settle));
    needs_all_of("k 5 7 i", only!(Renew));
    needs_all_of("k 5 7 i", only!(Release));
    takes_no_more("k 7 i", only!(Settle));
    takes_no_more("k 5 7 i", only!(Renew));
    takes_no_more("k 5 7 i", only!(Release));
    let pair = |held: Held<'_>| (held.token.number(), text(held.id));
    let settle = |args: Args<'_>| {
        let it = Settle::parse(args)?;
        Ok((text(it.key), it.held.iter().map(pair).collect::<Vec<_>>()))
    };
    let mine = Token::of_word(b"mine").number();
    let held = vec![(7, "i".into()), (mine, "7".into())];
    assert_eq!(read("k 7 i mine 7", settle), Ok(("k".into(), held.clone())));
    let renew = |args: Args<'_>| {
        let it = Renew::parse(args)?;
        Ok((text(it.key), it.ttl, it.held.iter().map(pair).collect::<Vec<_>>()))
    };
    assert_eq!(read("k 5 7 i mine 7", renew), Ok(("k".into(), 5, held.clone())));
    refuses(&["k x 7 i", "k -1 7 i"], only!(Renew));
    let release = |args: Args<'_>| {
        let it = Release::parse(args)?;
        Ok((text(it.key), it.ms, it.held.iter().map(pair).collect::<Vec<_>>()))
    };
    assert_eq!(read("k 0 7 i mine 7", release), Ok(("k".into(), 0, held)));
    refuses(&["k x 7 i", "k -1 7 i", "k 9223372036854775808 7 i"], only!(Release));
    let empty = with_args(&[b"k", b"", b"i"], only!(Settle));
    assert!(matches!(empty, Err(Error::Refused(_))));
    // A number is the token of that number, unless it is none that there is.
    let number = |word: &str| read(&format!("k {word} i"), settle).map(|it| it.1[0].0);
    assert_eq!(number("9223372036854775807"), Ok(DEADLINE_MAX));
    for word in ["0", "9223372036854775808", "07", "7.0"] {
        assert!(number(word).is_ok_and(|token| token > 7 && token < Token::SERVERS), "{word}");
    }
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
