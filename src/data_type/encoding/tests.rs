//! Round trips of valid payloads, and refusals of invalid ones.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::fields::{Field, Fields};
use super::field::*;
use super::save::CHUNK_BYTES;
use super::*;
use crate::policy::{LimitChange, Limits, Rules};
use crate::schedule::{NAME_MAX, Plan, Schedule, State};
use lawn::{Aside, Bounds, DEADLINE_MAX, Element, Lawn, Shared, Since, SmallMax, Token};

pub fn empty() -> Lawn {
    let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
    Lawn::new(Arc::new(Shared::new(hasher, || SmallMax::USUAL)))
}

pub(super) fn saved(lawn: &Lawn) -> Fields {
    saved_with(lawn, &Rules::default(), &Aside::default())
}

pub(super) fn saved_with(lawn: &Lawn, rules: &Rules, remembered: &Aside) -> Fields {
    let mut fields = Fields::default();
    save((lawn, remembered, None), rules, 1, &mut fields);
    fields
}

pub(super) fn chunk(bytes: &[u8]) -> Field {
    Field::Bytes(bytes.into())
}

pub(super) fn numbers(numbers: &[u64]) -> Vec<Field> {
    numbers.iter().copied().map(Field::Unsigned).collect()
}

/// Asserts that no shorter start of a payload is loaded.
pub(super) fn needs_all_of(fields: &Fields) {
    for kept in 0..fields.0.len() {
        let start = fields.0.iter().take(kept).cloned();
        assert!(load_of(start).is_err(), "{kept} fields of {:?}", fields.0);
    }
}

type Content = (u64, Vec<u8>, Vec<u8>, u64, u16, Bounds);

pub(super) fn content(lawn: &Lawn) -> Vec<Content> {
    let row = |(ttl, it): (u64, Element<'_>)| {
        (ttl, it.id.to_vec(), it.payload.to_vec(), it.deadline, it.deliveries, it.bounds)
    };
    lawn.iter().map(row).collect()
}

pub fn load_of(fields: impl IntoIterator<Item = Field>) -> Result<Lawn, Corrupt> {
    let mut fields = Fields(fields.into_iter().collect());
    load(empty(), &mut fields, VERSION).map(|(lawn, ..)| lawn)
}

pub(super) fn some_lawn() -> Lawn {
    let mut lawn = empty();
    for number in 0..5000_u64 {
        let payload = vec![7; number as usize % 300];
        let deadline = number * 7919 % 1000 + (number % 7) * 1_000_000;
        lawn.start_at(&number.to_be_bytes(), number % 11, &payload, deadline).expect("room");
    }
    lawn.start_at(b"", DEADLINE_MAX, &[0; 100_000], DEADLINE_MAX).expect("room");
    lawn.start_at(b"\0\r\n\xff", 0, b"", 0).expect("room");
    for number in 0..9_u16 {
        let bounds = Bounds { deliveries: number % 2, until: u64::from(number / 2) * 1000 };
        lawn.start(5, &Element { bounds, ..Element::new(&[number as u8], b"bounded", 77) })
            .expect("room");
    }
    for number in 0..50_u64 {
        for _ in 0..=number {
            assert!(lawn.lease_at(&number.to_be_bytes(), 77, 5000, None));
        }
    }
    lawn
}

#[test]
fn a_saved_dehydrator_is_loaded_in_the_same_order() {
    let lawn = some_lawn();
    let loaded = load_of(saved(&lawn).0).expect("our own payload");
    loaded.check();
    assert_eq!(content(&loaded), content(&lawn));
    // Elements with equal deadlines keep their order again.
    let again = load_of(saved(&loaded).0).expect("our own payload");
    assert_eq!(content(&again), content(&lawn));
}

#[test]
fn an_empty_dehydrator_is_two_numbers() {
    let fields = saved(&empty()).0;
    assert_eq!(fields, [Field::Unsigned(0), Field::Unsigned(0)]);
    assert!(load_of(fields).expect("our own payload").is_empty());
}

#[test]
fn elements_are_written_in_strings_of_some_tens_of_kilobytes() {
    let length = |field| match field {
        Field::Bytes(bytes) => Some(bytes.len()),
        Field::Unsigned(_) => None,
    };
    let chunks = |lawn: &Lawn| saved(lawn).0.into_iter().filter_map(length).collect::<Vec<_>>();
    let mut lawn = empty();
    // Deadline, TTL and length of the id have a byte each, the length of the payload has three.
    let rest = CHUNK_BYTES - (1 + 1 + 1 + 3 + 1);
    lawn.start_at(b"a", 0, &vec![0; rest], 0).expect("room");
    lawn.start_at(b"b", 0, &vec![0; rest - 1], 0).expect("room");
    lawn.start_at(b"c", 0, b"", 0).expect("room");
    assert_eq!(chunks(&lawn), [CHUNK_BYTES, CHUNK_BYTES - 1 + 5]);
    for id in 0..2000_u64 {
        lawn.start_at(&id.to_be_bytes(), 0, &[0; 100], 0).expect("room");
    }
    let chunks = chunks(&lawn);
    let (last, full) = chunks.split_last().expect("a chunk");
    assert!(full.len() > 5 && *last < 32 * 1024, "{chunks:?}");
    let sizes = 32 * 1024..32 * 1024 + 200;
    assert!(full.iter().all(|length| sizes.contains(length)), "{chunks:?}");
}

/// Rules with REMEMBER.
fn remembering() -> Rules {
    let change = LimitChange { remember: Some(1000), ..LimitChange::default() };
    Rules { limits: Some(Box::new(Limits::default().changed(change))), ..Rules::default() }
}

#[test]
fn remembered_ids_are_written_behind_the_elements() {
    let mut lawn = empty();
    lawn.start_at(b"here", 0, b"", 5).expect("room");
    let mut ids = Aside::default();
    let saved = |ids: &Aside| saved_with(&lawn, &remembering(), ids).0;
    let load_of =
        |fields: &[Field]| load(empty(), &mut Fields(fields.iter().cloned().collect()), VERSION);
    assert_eq!(saved(&ids)[0], Field::Unsigned(LIMITS), "nothing is remembered");
    // The last one lies before the others.
    for (id, until) in [(&b"a"[..], 300), (b"", 301), (&[7; 5000], DEADLINE_MAX), (b"z", 9)] {
        ids.insert(&lawn, id, until);
    }
    let fields: Vec<_> = saved(&ids).into();
    assert_eq!(fields[0], Field::Unsigned(LIMITS | REMEMBERED));
    let at = fields.len() - 2;
    assert_eq!(fields[at], Field::Unsigned(4));
    let Field::Bytes(bytes) = &fields[at + 1] else { panic!("ids") };
    assert_eq!(bytes[..8], [9, 1, b'z', 0xa3, 2, 1, b'a', 1]);
    let (_, rules, loaded, _) = load_of(&fields).expect("our own payload");
    assert_eq!(rules, remembering());
    loaded.check();
    assert!(loaded.iter().eq(ids.iter()));
    // A moment before the one before.
    let back = [[5, 1, b'a'], [0xff, 0xff, 0xff]].concat();
    let back = [&back[..], &[0xff; 6], &[1, 1, b'b']].concat();
    let mut changed = fields.clone();
    changed[at] = Field::Unsigned(2);
    changed[at + 1] = Field::Bytes(back);
    let loaded = load_of(&changed).expect("5 and 4").2;
    assert_eq!([&b"a"[..], b"b"].map(|id| loaded.until(id)), [Some(5), Some(4)]);

    let refuses = |what: &str, count: u64, chunks: &[&[u8]]| {
        let chunks: Vec<_> = chunks.iter().map(|bytes| chunk(bytes)).collect();
        let fields = [&fields[..at], &numbers(&[count]), &chunks].concat();
        assert!(load_of(&fields).is_err(), "{what}");
    };
    refuses("none", 0, &[]);
    refuses("more than there are", 2, &[&[5, 1, b'a']]);
    refuses("fewer than there are", 1, &[&[5, 1, b'a', 0, 1, b'b']]);
    refuses("an absurd number", u64::MAX, &[&[5, 1, b'a']]);
    refuses("an empty chunk", 1, &[&[]]);
    refuses("an id twice", 2, &[&[5, 1, b'a', 1, 1, b'a']]);
    refuses("an id of the lawn", 1, &[&[5, 4, b'h', b'e', b'r', b'e']]);
    refuses("an id that is cut off", 1, &[&[5, 2, b'a']]);
    refuses("a moment past all", 1, &[&[[0xff; 9].as_slice(), &[1, 1, b'a']].concat()]);
    let mut unruled = fields.clone();
    unruled[0] = Field::Unsigned(REMEMBERED);
    unruled.drain(1..7);
    assert!(load_of(&unruled).is_err(), "nobody has said that they are remembered");
}

#[test]
fn ids_of_a_payload_take_a_small_multiple_of_its_length_whatever_their_times() {
    let untils: [fn(u64) -> u64; 5] = [
        |number| number,
        |_| 5,
        |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 31,
        |number| (1 << 40) - number,
        |number| (1 << 40) - (number << 13),
    ];
    for until in untils {
        let count = 100_000_u64;
        let (mut bytes, mut last) = (Vec::new(), 0);
        for number in 0..count {
            put_number(&mut bytes, until(number).wrapping_sub(last));
            put_number(&mut bytes, 3);
            bytes.extend(&number.to_be_bytes()[5..]);
            last = until(number);
        }
        let length = bytes.len();
        // As of a dehydrator that remembers other ids.
        let mut ids = Aside::default();
        ids.insert(&empty(), b"other", 1);
        let mut fields = saved_with(&empty(), &remembering(), &ids);
        fields.0.truncate(fields.0.len() - 2);
        fields.0.extend([Field::Unsigned(count), Field::Bytes(bytes)]);
        let (_, _, loaded, _) = load(empty(), &mut fields, VERSION).expect("it is well-formed");
        assert_eq!(loaded.len(), count as usize);
        let factor = loaded.memory() as f64 / length as f64;
        println!("{factor:.1} times");
        // Pages of a few slots waste more.
        let most = if cfg!(feature = "tiny-bounds") { 20.0 } else { 12.0 };
        assert!(factor <= most, "{factor} times");
    }
}

#[test]
fn a_feature_tells_older_readers_of_stuck_dead_letters() {
    let features = |ttl, deliveries| {
        let mut lawn = empty();
        lawn.start_at(b"first", 300, b"p", 5).expect("room");
        lawn.start_at(b"last", ttl, b"p", DEADLINE_MAX).expect("room");
        lawn.set_deliveries(b"first", 1, None);
        lawn.set_deliveries(b"last", deliveries, None);
        let mut fields = saved(&lawn);
        let features = fields.0[0].clone();
        let (loaded, ..) = load(empty(), &mut fields, VERSION).expect("our own payload");
        assert!(loaded.iter().eq(lawn.iter()));
        features
    };
    for (ttl, deliveries, stuck) in [
        (DEADLINE_MAX, 1, STUCK),
        (DEADLINE_MAX - 1, 1, STUCK),
        // An element pushed with this deadline and never delivered is no dead letter.
        (DEADLINE_MAX, 0, 0),
        (DEADLINE_MAX - 2, 1, 0),
    ] {
        assert_eq!(features(ttl, deliveries), Field::Unsigned(LEASES | stuck), "{ttl}");
    }
}

#[test]
fn deliveries_are_written_only_if_an_element_was_delivered() {
    let mut lawn = empty();
    lawn.start_at(b"i", 300, b"p", 5).expect("room");
    lawn.start_at(b"j", 0, b"", 7).expect("room");
    let header = |features| [Field::Unsigned(features), Field::Unsigned(2)];
    let plain = chunk(&[5, 0xac, 2, 1, 1, b'i', b'p', 2, 0, 1, 0, b'j']);
    assert_eq!(saved(&lawn).0, [&header(0)[..], &[plain]].concat());
    assert!(lawn.set_deliveries(b"j", 200, None));
    let leased = chunk(&[5, 0xac, 2, 0, 1, 1, b'i', b'p', 2, 0, 0xc8, 1, 1, 0, b'j']);
    let fields = [&header(LEASES)[..], &[leased]].concat();
    assert_eq!(saved(&lawn).0, fields);
    let loaded = load_of(fields).expect("our own payload");
    assert_eq!((content(&loaded), loaded.counts().given_out), (content(&lawn), 1));

    // Tokens are written for delivered elements only, and only if one has a token.
    assert!(lawn.set_deliveries(b"j", 200, Token::new(300)));
    let held = chunk(&[5, 0xac, 2, 0, 1, 1, b'i', b'p', 2, 0, 0xc8, 1, 0xac, 2, 0, 1, 0, b'j']);
    let fields = [&header(LEASES | TOKENS)[..], &[held]].concat();
    assert_eq!(saved(&lawn).0, fields);
    let known = Since { moment: 1000, waited: 300 };
    assert!(lawn.set_held_since(b"j", known));
    let since = |lawn: &Lawn| lawn.look(b"j").and_then(|element| lawn.held_since(&element));
    let again = load_of(saved(&lawn).0).expect("our own payload");
    assert_eq!([since(&lawn), since(&again)], [Some(known); 2]);
    let loaded = load_of(fields).expect("our own payload");
    assert_eq!(since(&loaded), None);
    assert!(loaded.holds(b"j", Token::new(300).expect("a token")));
    let number = |bytes: &[u8]| {
        let since = if bytes == [0] { &[][..] } else { &[7, 0] };
        let element = chunk(&[&[5, 0, 1][..], bytes, since, &[1, 0, b'i']].concat());
        load_of([numbers(&[LEASES | TOKENS, 1]), vec![element]].concat())
    };
    assert!(number(&[0]).is_ok_and(|lawn| lawn.leased() == 0));
    let mut most = [0xff; 9];
    most[8] = 0x7f;
    assert!(number(&most).is_ok_and(|lawn| lawn.leased() > 0));
    let more = [&[0x80; 9][..], &[1]].concat();
    assert_eq!(number(&more).err(), Some(Corrupt("a token is out of range")));

    let one = |bytes| load_of([Field::Unsigned(LEASES), Field::Unsigned(1), chunk(bytes)]);
    let most = one(&[5, 0, 0xff, 0xff, 3, 1, 0, b'i']).expect("the most that is counted");
    assert_eq!(content(&most)[0].4, u16::MAX);
    let error = one(&[5, 0, 0x80, 0x80, 4, 1, 0, b'i']).err();
    assert_eq!(error, Some(Corrupt("a number of deliveries is out of range")));
}

#[test]
fn reasons_are_written_only_if_an_element_has_one() {
    let mut lawn = empty();
    lawn.start_at(b"i", 3, b"p", 5).expect("room");
    lawn.start_at(b"j", 0, b"", 7).expect("room");
    assert!(lawn.set_reason(b"i", b"why"));
    let record = [&[5, 3, 3][..], b"why", &[1, 1], b"ip", &[2, 0, 0, 1, 0], b"j"].concat();
    let fields = [Field::Unsigned(REASONS), Field::Unsigned(2), chunk(&record)];
    assert_eq!(saved(&lawn).0, fields);
    let loaded = load_of(fields).expect("our own payload");
    assert_eq!((loaded.reason(b"i"), loaded.reason(b"j")), (Some(&b"why"[..]), None));
    let of_length = |length: usize| {
        let mut record = vec![5, 3];
        put_number(&mut record, length as u64);
        record.extend(vec![b'x'; length]);
        record.extend([1, 0, b'i']);
        load_of([Field::Unsigned(REASONS), Field::Unsigned(1), chunk(&record)])
    };
    assert!(of_length(4096).is_ok_and(|lawn| lawn.reason(b"i").is_some_and(|it| it.len() == 4096)));
    assert_eq!(of_length(4097).err(), Some(Corrupt("a reason is too long")));
    assert!(lawn.set_reason(b"i", b""));
    assert_eq!(saved(&lawn).0[0], Field::Unsigned(0));
}

#[test]
fn bounds_are_written_only_if_an_element_has_some() {
    let mut lawn = empty();
    let most = Bounds { deliveries: u16::MAX, until: Bounds::UNTIL_MAX };
    let bounded = |bounds| Element { bounds, ..Element::new(b"i", b"p", 5) };
    lawn.start(3, &bounded(Bounds { deliveries: 1, until: 300 })).expect("room");
    lawn.start_at(b"j", 0, b"", 7).expect("room");
    let header = |features| [Field::Unsigned(features), Field::Unsigned(2)];
    let records = chunk(&[5, 3, 1, 0xac, 2, 1, 1, b'i', b'p', 2, 0, 0, 0, 1, 0, b'j']);
    let fields = [&header(BOUNDS)[..], &[records]].concat();
    assert_eq!(saved(&lawn).0, fields);
    assert_eq!(content(&load_of(fields).expect("our own payload")), content(&lawn));
    assert!(lawn.stop(b"i").is_some());
    assert_eq!(saved(&lawn).0[0], Field::Unsigned(0));
    lawn.start(3, &bounded(most)).expect("room");
    let loaded = load_of(saved(&lawn).0).expect("our own payload");
    assert_eq!(loaded.look(b"i").map(|it| it.bounds), Some(most));

    let one = |bytes: &[u8]| load_of([Field::Unsigned(BOUNDS), Field::Unsigned(1), chunk(bytes)]);
    let refused = |bytes: &[u8], why| assert_eq!(one(bytes).err(), Some(Corrupt(why)));
    assert!(one(&[5, 0, 0, 0, 1, 0, b'i']).is_ok_and(|lawn| !lawn.has_bounds()));
    refused(&[5, 0, 0x80, 0x80, 4, 0, 1, 0, b'i'], "a bound of deliveries is out of range");
    let until = [5, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1, 0, b'i'];
    refused(&until, "the end of an element's time is out of range");
}

#[test]
fn invalid_elements_are_refused() {
    let of = |count, bytes: &[u8]| load_of([numbers(&[0, count]), vec![chunk(bytes)]].concat());
    let one = |bytes: &[u8]| of(1, bytes).map(drop);
    assert_eq!(one(&[5, 3, 1, 1, b'i', b'p']), Ok(()));
    let refused = |bytes: &[u8], why| assert_eq!(one(bytes), Err(Corrupt(why)), "{bytes:?}");
    refused(&[], "a string without records");
    refused(&[5, 3, 1, 1, b'i'], "a string is cut off");
    refused(&[5, 3, 1], "a number is cut off");
    refused(&[5, 3, 1, 1, b'i', b'p', 0], "more records than announced");
    refused(&[5, 3, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, b'i', b'p'], "a string is cut off");
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    refused(&[&most[..], &[1, 3, 1, 1, b'i', b'p']].concat(), "a deadline is out of range");
    refused(&[&[5], &most[..], &[1, 1, 1, b'i', b'p']].concat(), "a ttl is out of range");
    refused(&[&most[..], &[2, 3, 1, 1, b'i', b'p']].concat(), "a number has more than 64 bits");
    refused(&[&most[..], &most, &[1]].concat(), "a number has more than 64 bits");

    let twice = [5, 3, 1, 1, b'i', b'p', 0, 3, 1, 1, b'i', b'q'];
    assert_eq!(of(2, &twice).err(), Some(Corrupt("two elements have one id")));
    assert!(load_of(numbers(&[1 << 32, 0])).is_err_and(|error| error.0.contains("later version")));
    assert!(load(empty(), &mut Fields::default(), VERSION + 1).is_err());
}

#[test]
fn rede_s_encoding_is_read() {
    let element = |deadline, id: &str, payload: &str| {
        [numbers(&[deadline]), vec![chunk(id.as_bytes()), chunk(payload.as_bytes())]].concat()
    };
    let fields = [
        vec![chunk(b"name")],
        numbers(&[3, 1000, 2]),
        element(70, "a", "first"),
        element(90, "b", "second"),
        numbers(&[-5_i64 as u64, 1]),
        element(80, "c", "third"),
        numbers(&[DEADLINE_MAX, 1]),
        element(DEADLINE_MAX, "d", "last"),
    ]
    .concat();
    let load = |kept| {
        let fields = fields.iter().take(kept).cloned().collect();
        load(empty(), &mut Fields(fields), VERSION_REDE).map(|(lawn, ..)| lawn)
    };
    let found = content(&load(fields.len()).expect("ReDe's payload"));
    let element =
        |ttl, id: &str, payload: &str, at| (ttl, id.into(), payload.into(), at, 0, Bounds::NONE);
    assert_eq!(
        found,
        [
            element(1000, "a", "first", 70),
            element(0, "c", "third", 80),
            element(1000, "b", "second", 90),
            element(DEADLINE_MAX, "d", "last", DEADLINE_MAX),
        ]
    );
    for kept in 0..fields.len() {
        assert!(load(kept).is_err(), "{kept} fields");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused_but_never_panic(
        numbers in prop::collection::vec(prop_oneof![0_u64..4, any::<u64>()], 2),
        chunks in prop::collection::vec(
            prop::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..60), 0..4,
        ),
    ) {
        for version in [VERSION, VERSION_REDE] {
            let numbers = numbers.iter().map(|number| Field::Unsigned(*number));
            let chunks = chunks.iter().map(|chunk| Field::Bytes(chunk.clone()));
            let mut fields = Fields(numbers.chain(chunks).collect());
            if let Ok((lawn, ..)) = load(empty(), &mut fields, version) {
                lawn.check();
            }
        }
    }
}

#[test]
fn schedules_are_saved_and_loaded_and_invalid_ones_are_refused() {
    let record = |next| {
        let state = State { next, ..State::default() };
        let plan = Plan::Cron { text: b"* * * * *", zone: b"UTC" };
        Schedule { state, ..Schedule::every(plan, b"element") }.encode()
    };
    let mut schedules = Aside::default();
    for (name, next) in [(&b"b"[..], 60_000), (b"a", 120_000), (&[7; NAME_MAX], 0)] {
        let record = record(next);
        let due = Schedule::decode(&record).expect("our own").due(name);
        schedules.set(&empty(), name, &record, due).expect("room");
    }
    let parts = (&empty(), &Aside::default(), Some(&schedules));
    let mut fields = Fields::default();
    save(parts, &Rules::default(), 1, &mut fields);
    let (.., loaded) = load(empty(), &mut fields, VERSION).expect("our own payload");
    loaded.check();
    assert!(loaded.payloads().eq(schedules.payloads()));
    assert_eq!(loaded.next(), Some(60_000));

    let one = |name: &[u8], record: &[u8]| {
        let mut chunk = Vec::new();
        [name.len(), record.len()].iter().for_each(|it| put_number(&mut chunk, *it as u64));
        [&chunk[..], name, record].concat()
    };
    let lie = |count, chunk: Vec<u8>| {
        let numbers = [SCHEDULES, 0, count].map(Field::Unsigned);
        load_of(numbers.into_iter().chain([Field::Bytes(chunk)])).err()
    };
    let good = one(b"a", &record(5));
    assert_eq!(lie(1, good.clone()), None);
    assert_eq!(lie(0, good.clone()), Some(Corrupt("no schedules")));
    let twice = Some(Corrupt("the name of a schedule is too long, or occurs twice"));
    assert_eq!(lie(2, good.repeat(2)), twice);
    assert_eq!(lie(1, one(&[7; NAME_MAX + 1], &record(5))), twice);
    assert_eq!(lie(1, one(b"a", &record(5)[..9])), Some(Corrupt("a schedule is none")));
    assert_eq!(lie(1, good[..9].to_vec()), Some(Corrupt("a string is cut off")));
}
