//! POLL, MPOLL, LEASE, and what is held.

use super::*;
use lawn::{DEADLINE_MAX, Token};

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
