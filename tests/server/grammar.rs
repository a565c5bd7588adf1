//! The arguments of commands, in tables: lines that are refused, lines that mean the same, and replies to words that could be
//! options.

use redis::Connection;

use harness::{Ask, Server};

/// Lines that are refused, by command. `LONG` stands for a word of 5,000 bytes.
const REFUSED: &[(&str, &str)] = &[
    (
        "PUSH",
        "k 1.5 e i; k -1 e i; k 9223372036854775808 e i; k 9223372036854775807 e i SLACK 1; k 5 e i NX NX; k 5 e i NX REPLACE; \
         k 5 e i REPLACE NX; k 5 e i REPLACE REPLACE; k 5 e i SLACK 1 SLACK 1; k 5 e i SLACK; k 5 e i SLACK x; \
         k 5 e i SLACK 1 AT 9; k 5 e i AT 9 SLACK 1; k 5 e i AT 9 SLACK 0; k 5 e i AT; k 5 e i AT x; k 5 e i AT 9 AT 9; \
         k 5 e i AT 9223372036854775808; k 5 e i AT 9 DELIVERED 1; k 5@9 e i; k 5 e i DELIVERIES 0; k 5 e i DELIVERIES 65536; \
         k 5 e i DELIVERIES x; k 5 e i DELIVERIES; k 5 e i DELIVERIES 1 DELIVERIES 1; k 5 e i WITHIN; k 5 e i WITHIN 0; \
         k 5 e i WITHIN x; k 5 e i WITHIN 1 WITHIN 1; k 5 e i UNTIL 9; k 5 e i more; k 5 e i NXNXNXNXNXNXNXNXNX; k 5 e i GROUP; \
         k 5 e i GROUP a GROUP b; k 5 e i GROUP LONG",
    ),
    (
        "GIDPUSH",
        "k x e; k 5 e i; k 5 e NX; k 5 e SLACK; k 5 e SLACK 1 SLACK 1; k 5 e AT 9 SLACK 1; k 5 e GROUP; k 5 e GROUP a GROUP b; \
         k 5 e GROUP LONG",
    ),
    (
        "MPUSH",
        "k 5 e i more; k 5 e i x f j; k NX e i; k 5 e i NX NX; k 5 e i NX REPLACE; k 5 e i SLACK; k 5 e i SLACK 1 AT 9; \
         k 5 e i AT 9 AT 9; k 5 e i AT x; k 5 e i NX 5 f j; k 5 e i AT 9 DELIVERED 1; k 5@9 e i; k 5 e i 7; k 5 e i 6 f j 7; \
         k 5 e i 6 f j GROUP; k 5 e i GROUP a GROUP b; k 5 e i GROUP LONG",
    ),
    (
        "POLL",
        "k COUNT; k COUNT 0; k COUNT -1; k COUNT 1 COUNT 1; k BLOCK; k BLOCK -1; k BLOCK 0.5; k BLOCK 1 BLOCK 1; k LEASE; k LEASE 0; \
         k LEASE x; k LEASE 1 LEASE 1; k WITHIDS WITHIDS; k TOKEN 7; k LEASE 5 TOKEN; k LEASE 5 TOKEN 7 TOKEN 7; \
         k LEASE 5 TOKEN 4611686018427387904; k LEASE 5 TOKEN Reason; k 5; k LEASE 5 WITHIDS; k WITHIDS LEASE 5 TOKEN 7",
    ),
    ("MPOLL", "0 k; -1 k; 01 k; k k; 2 k; 1 k k; 9223372036854775807 k; 1 k TOKEN 7"),
    ("SETTLE", "k x i 7"),
    ("RENEW", "k x 7 i; k -1 7 i; k 9223372036854775808 7 i; k 5 7; k 5 7 i more"),
    (
        "RELEASE",
        "k 5 7 i UNCOUNTED 8 j; k 5 7 i UNCOUNTED UNCOUNTED; k 5 7 i REASON; k 5 7 i ELEMENT; k 5 7 i REASON a REASON b; \
         k 5 7 i 8 j ELEMENT e; k 5 7 i ELEMENT e 8 j; k 5 7 i COUNTED; k 5 UNCOUNTED; k 5 7 i REASON LONG",
    ),
    (
        "REJECT",
        "k 7 i REASON a more; k 7 i REASON a 8 j; k 7 i ELEMENT; k 7 i 8 j ELEMENT e; k 7 i REASON a UNCOUNTED; k 7 i REASON LONG",
    ),
    (
        "TOUCH",
        "k i x; k i 5; k i 5 GT; k 5@9 i; k 0 UNCOUNTED i; k 5 GT GT i; k 5 GT LT i; k 5 LT GT i; k 5 LT LT i; k 5 AT x i; \
         k 5 AT 9 AT 9 i; k 5 NX i; k 5 i j; k 5 i GT; k 5 i AT 9; k i IDS 1 j; k 5 IDS 0 i; k 5 IDS x i; k 5 IDS 2 i; \
         k 5 IDS 1 i j; k 5 IDS 1 i GT; k 5 COUNT 5 i; k x GROUP g; k -1 GROUP g; k 5 GT GROUP g; k 5 GROUP g GT; \
         k 5 GROUP g AT; k 5 GROUP g COUNT; k 5 GROUP g COUNT 0; k 5 AT 9 AT 9 GROUP g; k 5 GROUP g AT 9; \
         k 5 COUNT 7 GROUP g; k 5 GROUP g COUNT 7 AT 9",
    ),
    (
        "LIMIT",
        "k; k 5; k length; k length -1; k length 1 length 1; k held x; k held 1 held 1; k rate; k rate 5; k rate 5 per; \
         k rate 5 per 0; k rate 0 per 0; k rate 5 7; k per 7; k rate 5 per 7 rate 5 per 7; k remember; k remember x; \
         k remember 1 remember 1; k length 9223372036854775808; k length 1 more; k GROUP; k GROUP g; k GROUP SHARE; k EACH; \
         k GROUP g RATE 1; k GROUP g RATE 1 PER 0; k EACH RATE 1; k GROUP g SHARE; k GROUP g SHARE 0; k GROUP g SHARE 65536; \
         k GROUP g SHARE x; k GROUP g LENGTH; k GROUP g LENGTH -1; k GROUP g REMEMBER 1; k GROUP g SHARE 1 SHARE 1; \
         k GROUP g HELD 1 HELD 1; k GROUP g SHARE 1 more; k SHARE 1; k HELD 1 GROUP g; k EACH SHARE 1; k EACH GROUP g; \
         k EACH EACH; k GROUP g EACH; k EACH REMEMBER 1; k HELD 1 EACH",
    ),
    (
        "ONDUE",
        "k NX NX HOLD; k HOLD NX; k STREAM d NX; k HOLD UNCONFIRMED; k DROP UNCONFIRMED; k HOLD DELIVERIES 5 DROP UNCONFIRMED; \
         k STREAM d UNCONFIRMED; k NONE; k HOLD DROP; k HOLD 5; k HOLD DELIVERIES; k HOLD DELIVERIES 5; \
         k HOLD DELIVERIES 0 DROP; k HOLD DELIVERIES 65536 DROP; k HOLD DELIVERIES x DROP; k HOLD DELIVERIES 5 HOLD; \
         k HOLD DELIVERIES 5 DROP more; k HOLD DELIVERIES 5 STREAM; k HOLD DELIVERIES 5 STREAM k; \
         k HOLD DELIVERIES 5 DELIVERIES 5 DROP; k HOLD DROP DELIVERIES 5; k DROP DELIVERIES 5; k DELIVERIES 5 DROP; k STREAM; \
         k STREAM k; k STREAM d e; k STREAM d MAXLEN; k STREAM d MAXLEN 0; k STREAM d MAXLEN ~; k STREAM d MAXLEN =; \
         k STREAM d MAXLEN ~ = 5; k STREAM d MAXLEN 9223372036854775808; k STREAM d MAXLEN 5 MAXLEN 5; k LIST; k LIST k; \
         k LIST d middle; k LIST d LEFT RIGHT; k LIST d LEFT LEFT; k LIST d MAXLEN 5; k HOLD DELIVERIES 5 LIST; \
         k HOLD DELIVERIES 5 LIST k; k PUBLISH; k PUBLISH c d; k NX",
    ),
    (
        "SCHEDULES",
        "k FROM x; k FROM name other; k FROM - 5; k FROM - COUNT; k FROM - COUNT 0; k FROM - FROM -",
    ),
    (
        "EVERY",
        "k 0 e n; k 5 e n ZONE UTC; k 5 e n x; k 5 e n FROM; k 5 e n FROM 0; k 5 e n UNTIL 0; k 5 e n TIMES 0; k 5 e n MISSED; \
         k 5 e n MISSED two; k 5 e n OVERLAP no; k 5 e n JITTER 0; k 5 e n DELIVERIES 0; k 5 e n WITHIN 0; \
         k 5 e n TIMES 1 TIMES 1; k 5 e n FROM 1700000000; k 5 e n UNTIL 1700000000; k LONG e n; k @daily e n; \
         k @daily e n ZONE LONG; k 5 e LONG",
    ),
    (
        "PAUSE",
        "k 5; k x; k FOR; k FOR 0; k FOR -1; k FOR x; k FOR 9223372036854775808; k AT; k AT 0; k AT x; k AT 9 9; k FOR 9 AT 9; \
         k AT 9 FOR 9; k FOR 9 FOR 9; k AT 9 AT 9; k GROUP; k GROUP g GROUP g; k GROUP g 9; k FOR 9 GROUP g 9; k SCHEDULE; \
         k SCHEDULE s GROUP g; k FOR 9 SCHEDULE s; k SCHEDULE s AT 9",
    ),
    ("RESUME", "k g; k GROUP; k GROUP g h; k SCHEDULE; k SCHEDULE s t"),
    (
        "RANGE",
        "k x +; k -1 +; k 9223372036854775808 +; k ( +; k (- +; k (7- +; k (7-1 +; k (7-1- +; k (7-1-1-1 +; k (x-1-1 +; \
         k 7-1-1 +; k - x; k - (; k - (x; k - (7-1-1; k - 9223372036854775808; k - + COUNT; k - + COUNT 0; \
         k - + COUNT 1 COUNT 1; k - + WITHELEMENTS WITHELEMENTS; k - + WITHIDS",
    ),
    ("LOOK", "k i FULL FULL; k i short"),
    ("SCAN", "k x; k 0 MATCH; k 0 MATCH a MATCH a; k 0 COUNT 0; k 0 COUNT 1 COUNT 1; k 0 a*"),
    ("INFO", "k FULL FULL; k short; k GROUP; k GROUP g FULL; k FULL GROUP g"),
    (
        "REVIVE",
        "k 1-0; k COUNT; k COUNT 0; k COUNT 1 COUNT 1; k FROM; k IDS 0; k IDS 2 1-0; k IDS 1 1-0 2-0; k FROM 1-0 IDS 1 1-0; \
         k COUNT 1 IDS 1 1-0; k ELEMENT e; k ELEMENT e IDS 2 1-0 2-0; k IDS 1 1-0 ELEMENT e",
    ),
    (
        "PURGE",
        "k ALL g; k PREFIX g; k GROUP g COUNT; k GROUP g COUNT 0; k GROUP g COUNT 1 COUNT 1; k GROUP g 5",
    ),
    ("XPOLL", "k COUNT 1 COUNT 1; k COUNT 0; k WITHIDS"),
];

#[test]
fn what_is_no_request_is_refused_and_makes_no_key() {
    let (_server, mut client) = Server::with_client(&[]);
    let long = "x".repeat(5000);
    for (verb, lines) in REFUSED {
        for line in lines.split("; ") {
            let error = client.refused(&format!("DEHYDRATOR.{verb} {line}").replace("LONG", &long));
            assert!(error.starts_with("ERR "), "{verb} {line}: {error}");
        }
    }
    assert!(!client.exists("k"));
    let empty = redis::cmd("DEHYDRATOR.SETTLE").arg("k").arg("").arg("i").query::<i64>(&mut client);
    assert!(empty.is_err_and(|error| error.to_string().contains("TOKEN must not be empty")));
}

/// Puts elements under `k`, all due in the year 2128: their ids are names of options, and one of the groups is called so.
fn fill(client: &mut Connection) {
    client.ask("DEL k");
    for id in ["i", "j", "GT", "AT", "IDS", "GROUP", "COUNT", "7", "FULL"] {
        client.ask(&format!("DEHYDRATOR.PUSH k 600000 element {id} AT 5000000000000"));
    }
    for group in ["g", "COUNT", "FULL", "AT"] {
        for id in ["1", "2"] {
            let line = format!("PUSH k 600000 element {group}{id} AT 5000000000000 GROUP {group}");
            client.ask(&format!("DEHYDRATOR.{line}"));
        }
    }
    client.ask("DEHYDRATOR.EVERY k 600000 element s FROM 4102444800000");
    // Held under the tokens 7 and 8.
    client.ask("DEHYDRATOR.EFFECT k L600000@5000000000000@7 i");
    client.ask("DEHYDRATOR.EFFECT k L600000@5000000000000@8 GROUP");
}

/// A line, and one or several whose meaning is the same. Names of options are read in any case and order, and stand for
/// themselves in the places of names.
const ALIKE: &[(&str, &str)] = &[
    ("PUSH k 600000 n i at 6000000000000 rePlace", "PUSH k 600000 n i REPLACE AT 6000000000000"),
    ("PUSH k 600000 n i at 6000000000000 nx", "LEN k; LEN none"),
    (
        "PUSH k 5 n x within 1 AT 6000000000000 deliveries 1 group GROUP",
        "PUSH k 5 n x GROUP GROUP DELIVERIES 1 AT 6000000000000 WITHIN 1",
    ),
    (
        "PUSH k 5 n x AT 6000000000000 WITHIN 9223372036854775807",
        "PUSH k 5 n x AT 6000000000000 WITHIN 140737488355327",
    ),
    (
        "MPUSH k 5 n x 6 m y at 6000000000000 group g deliveries 65535",
        "PUSH k 5 n x AT 6000000000000 GROUP g DELIVERIES 65535; PUSH k 6 m y AT 6000000000000 GROUP g DELIVERIES 65535",
    ),
    (
        "MPUSH k 5 NX a 5 REPLACE b nx at 6000000000000",
        "PUSH k 5 NX a AT 6000000000000; PUSH k 5 REPLACE b AT 6000000000000",
    ),
    ("PUSH k 5 n x AT 9; PUSH k 5 n y AT 9; POLL k block 7 count 1", "PUSH k 5 n y AT 9"),
    ("PUSH k 5 n x AT 9; POLL k withids", "LEN k; LEN none"),
    ("PUSH k 5 n x AT 9; MPOLL 3 k none k count 3", "LEN k; LEN none"),
    ("MPOLL 2 none COUNT COUNT 3 WITHIDS", "MPOLL 1 none"),
    ("TOUCH k 5 AT 6000000000000 gt i", "TOUCH k 5 AT 6000000000000 i"),
    ("TOUCH k 5 lt AT 6000000000000 i", "LEN k; TTN k; LEN none"),
    ("TOUCH k 5 at 4102444800000 LT i", "TOUCH k 5 AT 4102444800000 IDS 1 i"),
    (
        "TOUCH k 5 AT 6000000000000 ids 3 AT 7 GT",
        "TOUCH k 5 AT 6000000000000 AT; TOUCH k 5 AT 6000000000000 7; TOUCH k 5 AT 6000000000000 GT",
    ),
    (
        "TOUCH k 5 AT 6000000000000 GT IDS 2 IDS GROUP",
        "TOUCH k 5 AT 6000000000000 IDS; TOUCH k 5 AT 6000000000000 GT GROUP",
    ),
    ("TOUCH k 5 AT 6000000000000 COUNT", "TOUCH k 5 AT 6000000000000 IDS 1 COUNT"),
    ("TOUCH k 5 at 6000000000000 group COUNT", "TOUCH k 5 AT 6000000000000 IDS 2 COUNT1 COUNT2"),
    ("TOUCH k 5 AT 6000000000000 GROUP g count 1", "TOUCH k 5 AT 6000000000000 g1"),
    ("PURGE k group COUNT count 1", "REM k COUNT1"),
    (
        "LIMIT k length 5 held 0 rate 5 per 7 remember 9",
        "LIMIT k REMEMBER 9; LIMIT k RATE 5 PER 7; LIMIT k LENGTH 5",
    ),
    (
        "LIMIT k LENGTH 5 RATE 7 PER 8; LIMIT k RATE 0 LENGTH 0 HELD 6",
        "LIMIT k HELD 6 REMEMBER 9; LIMIT k REMEMBER 0",
    ),
    ("LIMIT k rate 0 per 5", "LIMIT k RATE 0"),
    ("LIMIT k group SHARE SHARE 2", "LIMIT k GROUP SHARE share 2"),
    (
        "LIMIT k GROUP EACH HELD 3 SHARE 65535 LENGTH 0",
        "LIMIT k GROUP EACH SHARE 65535; LIMIT k GROUP EACH HELD 3",
    ),
    (
        "LIMIT k EACH length 7 held 1 RATE 5 PER 7",
        "LIMIT k each RATE 5 PER 7; LIMIT k EACH HELD 1; LIMIT k EACH LENGTH 7",
    ),
    ("LIMIT k GROUP g RATE 5 PER 7 HELD 2", "LIMIT k GROUP g HELD 2; LIMIT k GROUP g rate 5 per 7"),
    ("ONDUE k drop", "ONDUE k NX DROP"),
    ("ONDUE k stream d maxlen 5", "ONDUE k STREAM d MAXLEN = 5"),
    ("ONDUE k list d right", "ONDUE k LIST d"),
    ("ONDUE k nx hold deliveries 65535 list d left", "ONDUE k HOLD DELIVERIES 65535 LIST d LEFT"),
    ("PAUSE k at 4102444800000 group AT", "PAUSE k GROUP AT AT 4102444800000"),
    ("PAUSE k", "PAUSE k GROUP g; PAUSE k; RESUME k group g"),
    ("PAUSE k schedule s", "PAUSE k SCHEDULE s; RESUME k schedule s; PAUSE k SCHEDULE s"),
    (
        "EVERY k 600000 e n FROM 4102444800000 UNTIL 4102444800001 TIMES 3 MISSED ALL OVERLAP SKIP JITTER 4 DELIVERIES 5 WITHIN 6 GROUP g",
        "EVERY k 600000 e n group g within 6 deliveries 5 jitter 4 overlap skip missed all times 3 until 4102444800001 from 4102444800000",
    ),
    ("RANGE k - + withelements count 3", "RANGE k - + COUNT 3 WITHELEMENTS"),
    ("RANGE k (4999999999999 +", "RANGE k 5000000000000 (5000000000001"),
    ("RANGE k + -", "RANGE k (5000000000000 +"),
    ("RANGE k 0 (0", "RANGE k (9223372036854775807 +"),
    ("LOOK k FULL full", "LOOK k FULL FULL"),
    ("LOOK k full", "LOOK k none"),
    ("SCAN k 0 count 3 match a*", "SCAN k 0 MATCH a* COUNT 3"),
    ("INFO k group FULL", "INFO k GROUP FULL"),
    ("XPOLL k count 2", "XPOLL k COUNT 2"),
    ("SCHEDULES k from - count 3", "SCHEDULES k FROM - COUNT 3"),
    // A number is the token of that number, without anything before or behind.
    ("SETTLE k 7 i 8 GROUP", "REM k i GROUP; LEN none"),
    ("SETTLE k 07 i 7.0 i 7 GROUP", "TTN k; LEN k"),
];

#[test]
fn lines_that_mean_the_same_do_the_same() {
    let (_server, mut client) = Server::with_client(&[]);
    for (line, others) in ALIKE {
        let mut run = |lines: &str| {
            fill(&mut client);
            let replies: Vec<_> =
                lines.split("; ").map(|line| client.ask(&format!("DEHYDRATOR.{line}"))).collect();
            (replies, client.digest("k"))
        };
        let ((one, left), (other, right)) = (run(line), run(others));
        assert_eq!(left, right, "{line}");
        if one.len() == 1 && other.len() == 1 {
            assert_eq!(one, other, "{line}");
        }
    }
}

#[test]
fn an_id_an_element_and_a_reason_may_be_called_as_an_option_is() {
    let (_server, mut client) = Server::with_client(&[]);
    for (line, reply, deliveries, element, reason) in [
        ("RELEASE k 5 7 i 8 GROUP", [1, 1], 1, "element", None),
        ("RELEASE k 5 7 i 9 UNCOUNTED", [1, 0], 1, "element", None),
        ("RELEASE k 5 7 i 9 UNCOUNTED uncounted", [1, 0], 0, "element", None),
        (
            "RELEASE k 5 7 i REASON ELEMENT uncounted element REASON",
            [1, -1],
            0,
            "REASON",
            Some("ELEMENT"),
        ),
        ("RELEASE k 5 7 i element ELEMENT REASON reason", [1, -1], 1, "ELEMENT", Some("reason")),
    ] {
        fill(&mut client);
        let replies: Vec<i64> =
            harness::cmd(&format!("DEHYDRATOR.{line}")).query(&mut client).expect("numbers");
        let expected: Vec<_> = reply.into_iter().filter(|it| *it >= 0).collect();
        assert_eq!(replies, expected, "{line}");
        type Facts = std::collections::HashMap<String, redis::Value>;
        let facts: Facts =
            harness::cmd("DEHYDRATOR.LOOK k i FULL").query(&mut client).expect("a map");
        assert_eq!(facts["deliveries"], redis::Value::Int(deliveries), "{line}");
        assert_eq!(facts["element"], harness::text(element), "{line}");
        assert_eq!(facts["reason"], reason.map_or(redis::Value::Nil, harness::text), "{line}");
    }
}
