//! Round trips of policies, limits and what is set for groups.

use super::field::*;
use super::tests::*;
use super::*;
use crate::policy::{self, LimitChange, Limits, Pause, Policy, Route, Rules, Trust};
use lawn::{Aside, DEADLINE_MAX, Element, GroupLimits, GroupSettings};

#[test]
fn a_policy_is_saved_and_loaded_and_an_invalid_one_is_refused() {
    for policy in policy::of_every_kind() {
        let mut lawn = empty();
        lawn.start_at(b"i", 5, b"p", 5).expect("room");
        let pause = [None, Some(Pause::until(77)), Some(Pause::UNTIL_RESUMED)];
        let trusts: &[_] = match policy.sends_elsewhere() {
            true => &[Trust::Confirmed, Trust::Unconfirmed],
            false => &[Trust::Confirmed],
        };
        for (pause, trust) in pause.iter().flat_map(|it| trusts.iter().map(|trust| (*it, *trust))) {
            let rules = Rules { policy: policy.clone(), pause, trust, limits: None };
            let mut fields = saved_with(&lawn, &rules, &Aside::default());
            needs_all_of(&fields);
            let (loaded, found, ..) = load(empty(), &mut fields, VERSION).expect("our own payload");
            assert_eq!((content(&loaded), found), (content(&lawn), rules));
        }
    }
    for nowhere in [&[16, 0][..], &[18, 1, 0], &[18, 4, 1, 1, 0]] {
        let error = load_of(numbers(nowhere)).err();
        assert_eq!(error, Some(Corrupt("there is nothing to confirm")), "{nowhere:?}");
    }
    // The file does not tell an unreported policy from an unconfirmed one.
    let route = Route::Stream { dest: b"dest"[..].into(), maxlen: None };
    let [told, untold] = [Trust::Unconfirmed, Trust::Unannounced].map(|trust| {
        let rules = Rules { policy: Policy::Send(route.clone()), pause: None, trust, limits: None };
        saved_with(&empty(), &rules, &Aside::default()).0
    });
    assert_eq!(told, untold);
    let lie = |route: &[u64]| {
        load_of([numbers(&route[..2]), vec![chunk(b"dest")], numbers(&route[2..])].concat()).err()
    };
    for length in [[0, 1], [5, 2], [DEADLINE_MAX + 1, 0]] {
        let error = lie(&[2, 2, length[0], length[1], 0]);
        assert_eq!(error, Some(Corrupt("a stream's length is out of range")));
    }
    assert_eq!(lie(&[2, 2, 5, 1, 0]), None);
    assert!(lie(&[2, 0, 0]).is_some_and(|error| error.0.contains("later version")));
    assert!(lie(&[2, 6, 0]).is_some_and(|error| error.0.contains("later version")));
    // An older reader refuses a list by its feature.
    assert_eq!(lie(&[34, 5, 1, 0]), None);
    assert_eq!(lie(&[34, 5, 2, 0]), Some(Corrupt("a list has two ends")));
    let disagree = Some(Corrupt("the policy and the features disagree on a list"));
    assert_eq!(lie(&[2, 5, 0, 0]), disagree);
    assert_eq!(lie(&[34, 2, 5, 1, 0]), disagree);
    let limited = |route: &[u64]| load_of(numbers(&[&[2, 4], route].concat())).err();
    let paused = |end| load_of(numbers(&[4, end, 0])).err();
    assert_eq!([0, 1, DEADLINE_MAX].map(paused), [None, None, None]);
    let late = Some(Corrupt("the end of a pause is out of range"));
    assert_eq!(paused(DEADLINE_MAX + 1), late);
    assert_eq!(limited(&[1, 1, 0]), None);
    let range = [0, 65_536].map(|limit| limited(&[limit, 1, 0]));
    assert_eq!(range, [(); 2].map(|()| Some(Corrupt("a limit of deliveries is out of range"))));
    assert!(limited(&[1, 4, 1, 1, 0]).is_some_and(|error| error.0.contains("later version")));
}

#[test]
fn limits_are_saved_and_loaded_and_invalid_ones_are_refused() {
    let limits = |change| Limits::default().changed(change);
    let mut given = limits(LimitChange { rate: Some((5, 2048)), ..LimitChange::default() });
    let rate = given.rate.as_mut().expect("a rate");
    [(1000, 1), (1001, 1), (3000, 3)].into_iter().for_each(|(at, count)| rate.record(at, count));
    let all =
        LimitChange { length: Some(1), held: Some(DEADLINE_MAX), remember: Some(7), rate: None };
    for limits in [limits(all), given.clone(), given.changed(all)] {
        let rules = Rules { limits: Some(limits.into()), ..Rules::default() };
        let mut fields = saved_with(&some_lawn(), &rules, &Aside::default());
        needs_all_of(&fields);
        let (loaded, found, ..) = load(empty(), &mut fields, VERSION).expect("our own payload");
        assert_eq!((content(&loaded), found), (content(&some_lawn()), rules));
    }
    let lie = |limits: &[u64]| load_of(numbers(&[&[64], limits, &[0]].concat())).err();
    assert_eq!(lie(&[1, 0, 0, 0, 0, 0]), None);
    assert_eq!(lie(&[0, 0, 1, 1, 0, 1, 5, 1]), None);
    assert_eq!(lie(&[0, 0, 0, 0, 0, 0]), Some(Corrupt("there is no limit")));
    let range = Some(Corrupt("a limit is out of range"));
    assert_eq!(lie(&[DEADLINE_MAX + 1, 0, 0, 0, 0, 0]), range);
    assert_eq!(lie(&[0, 0, 0, 0, DEADLINE_MAX + 1, 0]), range);
    let rate = Some(Corrupt("a rate is out of range"));
    assert_eq!([lie(&[0, 0, 1, 0, 0, 0]), lie(&[1, 0, 0, 1, 0, 0])], [rate.clone(), rate]);
    let log = Some(Corrupt("the log of a rate is out of range"));
    let lies = [
        &[1, 0, 0, 0, 0, 1, 5, 1][..],
        &[0, 0, 1, 1, 0, 1, 5, 0],
        &[0, 0, 1, 1, 0, 1, DEADLINE_MAX + 1, 1],
        &[0, 0, 1, 1, 0, 1, 5, DEADLINE_MAX + 1],
        &[0, 0, 1, 1, 0, 2, 5, 1, 4, 1],
    ];
    lies.into_iter().for_each(|numbers| assert_eq!(lie(numbers), log, "{numbers:?}"));
}

#[test]
fn settings_of_groups_are_saved_and_loaded_and_invalid_ones_are_refused() {
    let of = |share, length, held, paused_until| GroupSettings {
        share,
        limits: GroupLimits { length, held, ..GroupLimits::NONE },
        paused_until,
    };
    let mut lawn = empty();
    let most = DEADLINE_MAX;
    lawn.set_each_group(GroupLimits { length: most, held: 2, rate: most, per: most });
    lawn.set_group(b"", of(65_535, 0, 0, 0));
    lawn.set_group(&[b'n'; 1024], of(1, 3, 0, 5));
    lawn.set_group(b"a", of(2, 0, 4, DEADLINE_MAX));
    lawn.start_in_group(5, &Element::new(b"id", b"", 7), Some(b"b")).expect("room");
    let mut groups = lawn.groups_mut().expect("groups");
    assert!(groups.record(b"gone", 7, 3) && groups.record(b"b", 1 << 50, 1));
    let fields = saved(&lawn);
    let loaded = load_of(fields.0.iter().cloned()).expect("our own payload");
    assert_eq!(loaded.group_rules().each, lawn.group_rules().each);
    assert!(loaded.group_rules().iter().eq(lawn.group_rules().iter()));
    let logs: Vec<_> =
        loaded.groups().expect("groups").all_logs(0).into_iter().map(|it| it.0.to_vec()).collect();
    assert_eq!(logs, [&b"b"[..], b"gone"]);
    assert_eq!(saved(&loaded).0, fields.0);
    needs_all_of(&fields);
    let lie_of_log = |each: [u64; 4], groups: &[(&[u8], [u64; 4])], log: &[(&[u8], &[u64])]| {
        let mut fields = numbers(&[&[GROUPS], &each[..], &[groups.len() as u64]].concat());
        for (name, [share, length, held, paused_until]) in groups {
            fields.push(chunk(name));
            fields.extend(numbers(&[*share, *length, *held, 0, 0, *paused_until]));
        }
        fields.extend(numbers(&[log.len() as u64]));
        for (name, of_log) in log {
            fields.push(chunk(name));
            fields.extend(numbers(of_log));
        }
        fields.extend(numbers(&[0]));
        load_of(fields).err()
    };
    let lie = |each: [u64; 2], groups: &[(&[u8], [u64; 4])]| {
        lie_of_log([each[0], each[1], 0, 0], groups, &[])
    };
    let log = |each, name: &[u8], numbers: &[u64]| lie_of_log(each, &[], &[(name, numbers)]);
    assert_eq!(log([0, 0, 1, 5], b"a", &[1, 7, 2]), None);
    let unlimited = [log([0, 0, 0, 0], b"a", &[1, 7, 2]), log([0, 0, 1, 5], b"", &[1, 7, 2])];
    assert_eq!(unlimited, [(); 2].map(|()| Some(Corrupt("a group has a log, but no rate"))));
    let lies = [log([0, 0, 1, 5], b"a", &[1, 7, 0]), log([0, 0, 1, 5], b"a", &[2, 7, 1, 6, 1])];
    assert_eq!(lies, [(); 2].map(|()| Some(Corrupt("the log of a rate is out of range"))));
    assert_eq!(log([0, 0, 1, 5], b"a", &[0]), Some(Corrupt("a group has a log without entries")));
    let rates = [[0, 0, 1, 0], [0, 0, 0, 1]].map(|each| lie_of_log(each, &[], &[]));
    assert_eq!(rates, [(); 2].map(|()| Some(Corrupt("a rate is out of range"))));
    assert_eq!(lie([0, 1], &[(b"a", [1, 0, 0, 1]), (b"", [2, 0, 0, 0])]), None);
    let limit = Some(Corrupt("a limit is out of range"));
    assert_eq!(lie([DEADLINE_MAX + 1, 0], &[]), limit);
    assert_eq!(lie([0, DEADLINE_MAX + 1], &[]), limit);
    assert_eq!(lie([0, 0], &[(b"a", [1, DEADLINE_MAX + 1, 0, 0])]), limit);
    let share = Some(Corrupt("a group's share is out of range"));
    assert_eq!([0, 65_536].map(|it| lie([0, 0], &[(b"a", [it, 1, 0, 0])])), [share.clone(), share]);
    let end = lie([0, 0], &[(b"a", [1, 0, 0, DEADLINE_MAX + 1])]);
    assert_eq!(end, Some(Corrupt("the end of a group's pause is out of range")));
    let length = lie([0, 0], &[(&[b'n'; 1025], [2, 0, 0, 0])]);
    assert_eq!(length, Some(Corrupt("the length of a group's name is out of range")));
    let impossible = Some(Corrupt("a group without settings, or with some that it cannot have"));
    for (name, numbers) in [
        (&b"a"[..], [1, 0, 0, 0]),
        (b"", [1, 0, 0, 0]),
        (b"", [2, 1, 0, 0]),
        (b"", [2, 0, 1, 0]),
        (b"", [1, 0, 0, 1]),
    ] {
        assert_eq!(lie([0, 0], &[(name, numbers)]), impossible, "{name:?} {numbers:?}");
    }
    let twice = lie([0, 0], &[(b"a", [2, 0, 0, 0]), (b"a", [2, 0, 0, 0])]);
    assert_eq!(twice, Some(Corrupt("a group's settings occur twice")));
}
