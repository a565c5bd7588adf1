//! Plans beside another implementation, steps beside the clock, and records.

use std::process::Command;

use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

fn cron<'a>(text: &'a str, zone: &'a str) -> Plan<'a> {
    Plan::Cron { text: text.as_bytes(), zone: zone.as_bytes() }
}

fn every(plan: Plan<'_>) -> Schedule<'_> {
    Schedule::every(plan, b"element")
}

/// The file was made by another implementation of Debian's rules: `integrations/node/tests/data/occurrences.py`.
#[test]
fn crons_occur_as_those_of_debian() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/integrations/node/tests/data/occurrences.tsv.gz");
    let unpacked = Command::new("gzip").args(["-dc", path]).output().expect("gzip");
    assert!(unpacked.status.success(), "{path}");
    let file = String::from_utf8(unpacked.stdout).expect("text");
    let (mut agree, mut different) = (0, Vec::new());
    for line in file.lines() {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap_or_default();
        let (text, zone) = (cell(), cell());
        let plan = cron(text, zone);
        plan.check(0).unwrap_or_else(|error| panic!("{line}: it {error}"));
        let from = cell().parse::<u64>().expect("seconds") * 1000;
        let minutes = cell().split_whitespace().map(|it| it.parse().expect("minutes"));
        let minutes: Vec<u64> = minutes.collect();
        let found: Vec<_> = moments(&every(plan), from, minutes.len().max(1))
            .into_iter()
            .map(|moment| (moment - from).div_ceil(MINUTE))
            .collect();
        if found == minutes { agree += 1 } else { different.push(line) }
    }
    assert_eq!((agree, different), (2000, Vec::new()));
}

/// Returns the first occurrences after a moment.
fn moments(schedule: &Schedule<'_>, from: u64, count: usize) -> Vec<u64> {
    let mut moment = from;
    let next = |_| {
        moment = Some(schedule.after(moment, 0)).filter(|next| *next > 0)?;
        Some(moment)
    };
    (0..count).map_while(next).collect()
}

#[test]
fn what_is_no_cron_or_no_zone_is_refused() {
    let crons = "; * * * *; * * * * * *; @daily; 60 * * * *; * 24 * * *; * * 0 * *; * * * 13 *; * * * * 8; \
                 5-3 * * * *; */0 * * * *; /5 * * * *; 1,,2 * * * *; * * * JANUARY *; * * * * FOO; \
                 *-5 * * * *; ? * * * *; * * * * +MON; L * * * *; * * 1#1 * *; * * * * 1#6; -1 * * * *; \
                 1.5 * * * *; * * * * \u{df}";
    for text in crons.split("; ") {
        assert!(cron(text, "UTC").check(0).is_err(), "{text}");
    }
    for zone in
        " Europe/Berlino ../../etc/passwd /etc/passwd Europe Europe//Berlin UTC\0".split(' ')
    {
        assert!(cron("* * * * *", zone).check(0).is_err(), "{zone}");
    }
    // The system names its files so, and the bundled zones have names in any case.
    assert!(cron("30 2 * * 1-5", "europe/berlin").check(0).is_ok());
    assert!(cron("30 2 * * 1-5", "Europe/Berlin").check(0).is_ok());
}

#[test]
fn a_plan_that_never_occurs_has_no_first_occurrence() {
    assert_eq!(every(cron("0 0 31 2 *", "UTC")).first(5), 0);
    assert_eq!(Schedule { until: DAY - 1, ..every(cron("0 0 * * *", "UTC")) }.first(5), 0);
    assert_eq!(Schedule { until: DAY, ..every(cron("0 0 * * *", "UTC")) }.first(5), DAY);
    assert_eq!(Schedule { until: 9, ..every(Plan::Interval(5)) }.first(5), 0);
    // The calendar ends in the year 9999, and whole numbers somewhat later.
    let (from, until) = (1 << 48, DEADLINE_MAX);
    assert_eq!(Schedule { from, until, ..every(cron("0 0 * * *", "UTC")) }.first(5), 0);
    assert_eq!(Schedule { until, ..every(Plan::Interval(DEADLINE_MAX)) }.first(5), 0);
}

#[test]
fn an_interval_is_counted_from_now_or_from_its_first_moment() {
    let plain = every(Plan::Interval(10));
    let from = |from| Schedule { from, ..plain };
    assert_eq!((plain.first(7), plain.after(17, 0)), (17, 27));
    assert_eq!([25, 7, 8, 1].map(|it| from(it).first(8)), [25, 17, 8, 11]);
    assert_eq!(every(Plan::Interval(NEVER)).first(7), 0);
    let noon = every(cron("0 12 * * *", "UTC"));
    assert_eq!(noon.first(DAY / 2), DAY / 2, "not before now");
    assert_eq!(Schedule { from: DAY, ..noon }.first(5), DAY + DAY / 2);
}

/// Runs all steps at `now`. Returns the moments that were stored, and by how much each was late.
fn run(schedule: &mut Schedule<'_>, now: u64, overlaps: bool) -> Vec<(u64, u64)> {
    let mut stored = Vec::new();
    while let Some(step) = schedule.step(b"name", now, overlaps) {
        schedule.apply(step);
        if let Step::Stored { moment, late, .. } = step {
            stored.push((moment, late));
        }
    }
    stored
}
#[test]
fn jitter_postpones_each_occurrence_by_its_own_time_and_never_advances_it() {
    let mut it = Schedule { jitter: 99, missed: Missed::All, ..every(Plan::Interval(1000)) };
    let moments = 1..=1000_u64;
    let later: Vec<_> = moments.map(|at| it.stored_at(b"name", at * 1000) - at * 1000).collect();
    assert!(later.iter().all(|it| *it < 100), "{later:?}");
    assert!((0..10).all(|tenth| later.iter().any(|it| it / 10 == tenth)), "{later:?}");
    assert_ne!(it.stored_at(b"name", 1000), it.stored_at(b"eman", 1000));
    it.state.next = 1000;
    let due = it.due(b"name");
    assert_eq!(it.step(b"name", due - 1, false), None);
    let stored = it.step(b"name", due, false);
    let expected = Step::Stored { moment: 1000, deadline: due, late: 0, next: 2000 };
    assert_eq!(stored, Some(expected));
}
#[test]
fn a_pause_passes_over_what_occurs_in_it() {
    let state = State { next: 1000, is_paused: true, ..State::default() };
    let mut it = Schedule { state, ..every(Plan::Interval(100)) };
    assert_eq!(run(&mut it, 5000, false), []);
    assert_eq!([999, 1000, 1099, 1100].map(|now| it.resumed(now)), [1000, 1100, 1100, 1200]);
    let daily = Schedule { state, ..every(cron("0 0 * * *", "UTC")) };
    assert_eq!(daily.resumed(DAY), 2 * DAY);
}

#[test]
fn a_record_is_read_as_it_was_written_and_nothing_else_is() {
    let state = State { next: 5, last: 4, late: 3, missed: 2, stored: 1, is_paused: true };
    let full = Schedule {
        element: b"e\0\xff",
        group: b"group",
        from: 1,
        until: 2,
        times: 3,
        jitter: 4,
        within: 5,
        deliveries: 6,
        missed: Missed::None,
        skips_overlap: true,
        state,
        ..every(cron("* * * * *", "UTC"))
    };
    let all =
        [full, every(Plan::Interval(1)), Schedule { missed: Missed::All, element: b"", ..full }];
    for schedule in all {
        let bytes = schedule.encode();
        assert_eq!(Schedule::decode(&bytes), Some(schedule));
        let words = bytes.len() - schedule.element.len();
        (0..words).for_each(|cut| assert_eq!(Schedule::decode(&bytes[..cut]), None, "{cut}"));
    }
    let with = |at: usize, byte| {
        let mut bytes = full.encode();
        bytes[at] = byte;
        Schedule::decode(&bytes).is_some()
    };
    assert!(!with(0, 12) && !with(0, 16) && !with(1, 0) && !with(2, 0) && !with(3, 255));
    // Each of the numbers is below 2^63, and only an interval has no cron.
    assert!((1..11).all(|number| !with(7 + number * 8, 128)) && !with(14, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Beside a list of all occurrences that are due, whatever the clock does.
    #[test]
    fn steps_do_what_a_walk_over_all_occurrences_does(
        (ms, jitter, until, times) in (1_u64..5000, 0_u64..90_000, 0_u64..300_000, 0_u64..40),
        (missed, skips_overlap, is_cron) in (0..3_usize, any::<bool>(), prop::bool::weighted(0.2)),
        nows in prop::collection::vec((0_u64..400_000, any::<bool>()), 1..8),
    ) {
        let missed = [Missed::One, Missed::All, Missed::None][missed];
        let plan = if is_cron { cron("* * * * *", "UTC") } else { Plan::Interval(ms) };
        let plain = Schedule { jitter, until, times, missed, skips_overlap, ..every(plan) };
        let next = plain.first(0);
        let mut it = Schedule { state: State { next, ..State::default() }, ..plain };
        let mut model = it.state;
        for (now, overlaps) in nows {
            let overlaps = overlaps && skips_overlap;
            let mut due = Vec::new();
            while model.next > 0 && it.stored_at(b"name", model.next) <= now {
                due.push(model.next);
                model.next = it.after(model.next, 0);
            }
            let mut stored = due.clone();
            stored.retain(|moment| !overlaps && match missed {
                Missed::All => true,
                // Those whose time is not over have only waited for the ones before them.
                _ if moment + jitter >= now => true,
                Missed::One => due.last() == Some(moment),
                Missed::None => due.last() == Some(moment) && now - it.stored_at(b"name", *moment) <= 60_000,
            });
            let room = if times == 0 { usize::MAX } else { (times - model.stored) as usize };
            let is_over = times > 0 && stored.len() >= room && !stored.is_empty();
            model.missed += due.len() as u64 - stored.len() as u64;
            let stored = &stored[..stored.len().min(room)];
            model.stored += stored.len() as u64;
            model.next = if is_over { 0 } else { model.next };
            let late = |moment: u64| (moment, now - it.stored_at(b"name", moment));
            let expected: Vec<_> = stored.iter().map(|moment| late(*moment)).collect();
            (model.last, model.late) = expected.last().copied().unwrap_or((model.last, model.late));
            prop_assert_eq!(run(&mut it, now, overlaps), expected);
            prop_assert_eq!(it.state, model);
        }
    }
}
