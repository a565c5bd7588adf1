//! Round trips of schedules, and refusals of invalid ones.

use super::super::fields::{Field, Fields};
use super::field::*;
use super::tests::{empty, load_of};
use super::*;
use crate::policy::Rules;
use crate::schedule::{NAME_MAX, Plan, Schedule, State};
use lawn::Aside;

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
