//! PUSH, GIDPUSH, MPUSH, TOUCH.

use super::*;
use lawn::{DEADLINE_MAX, Token};

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
