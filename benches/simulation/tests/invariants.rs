//! Invariants of the simulation behind docs/scaling.md, for any plan. No server.

use simulation::costs::Costs;
use simulation::node::Node;
use simulation::plan::{Arrivals, Machines, Plan, Retry};
use simulation::run::run;
use simulation::{MS, SECOND, US};

fn costs() -> Costs {
    Costs {
        wake: 30.0,
        request: 4.0,
        push: 1.0,
        poll: 2.0,
        poll_element: 1.0,
        settle: 1.0,
        settle_element: 0.7,
        renew: 2.0,
        woken: 5.0,
        dead: 2.0,
        client_wake: 30.0,
        client_request: 8.0,
        client_element: 1.0,
        interrupt: 5.0,
    }
}

/// Returns a plan with everything: bursts and random arrivals, an outage, retries, dead letters, leases that expire.
fn eventful() -> Plan {
    Plan {
        arrivals: vec![
            Arrivals::Burst { count: 3000, from: SECOND, within: SECOND },
            Arrivals::Steady { a_second: 700.0, from: 0, until: 6 * SECOND },
            Arrivals::Even { a_second: 300.0, from: 0, until: 6 * SECOND },
        ],
        workers: 20,
        count: 4,
        lease: 30 * MS,
        work: 5 * MS,
        one_way: 100 * US,
        machines: Machines::One,
        outage: Some((2 * SECOND, 4 * SECOND)),
        fails_after: MS,
        retry: Retry { base: 50 * MS, cap: SECOND, has_jitter: true, deliveries: 5 },
        ..Plan::new(costs())
    }
}

#[test]
fn each_element_ends_exactly_once() {
    for seed in 0..20 {
        let tally = run(&Plan { seed, ..eventful() });
        assert!(tally.pushed > 8000, "{}", tally.pushed);
        assert_eq!(tally.settled + tally.dead, tally.pushed);
        assert!(tally.dead > 0, "some became dead letters");
        assert!(tally.late > 0, "some were settled too late");
        assert_eq!(tally.deliveries, tally.lateness_us.len());
        let settled: usize = tally.seconds.iter().map(|second| second.settled).sum();
        assert_eq!(settled, tally.settled);
    }
}

#[test]
fn who_comes_too_late_settles_and_gives_back_nothing() {
    let mut node = Node::default();
    node.push(0);
    let first = node.poll(0, 1, 10, 9).held[0];
    assert!(!node.settle(10, first), "its lease is over");
    assert!(!node.renew(10, first, 50), "its lease is over");
    let second = node.poll(10, 1, 100, 9).held[0];
    assert_eq!((second.element, second.deliveries), (first.element, 2));
    assert!(node.renew(11, second, 11));
    let third = node.poll(11, 1, 100, 9).held[0];
    assert!(!node.settle(12, second), "another has it by now");
    assert!(node.settle(12, third));
    assert!(!node.settle(12, third), "it has ended");
    assert_eq!((node.settled, node.dead), (1, 0));
    assert!(node.has_ended() && node.next_deadline().is_none());
}

#[test]
fn nothing_is_given_out_early_and_nothing_twice_within_its_lease() {
    let arrivals = vec![Arrivals::Burst { count: 5000, from: SECOND, within: SECOND }];
    let plan = Plan { arrivals, workers: 50, count: 3, ..Plan::new(costs()) };
    let tally = run(&plan);
    assert_eq!(tally.deliveries, 5000);
    assert!(tally.lateness_us.iter().all(|late| *late > 0.0));
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let with = |seed| run(&Plan { seed, ..eventful() });
    assert_eq!(with(7), with(7));
    assert_ne!(with(7), with(8));
}

/// Requests that arrive at random and take the same time each wait `s r / (2 (1 - r))` on average, where `s` is that
/// time and `r` the share of time in which the node works (Pollaczek and Khinchine).
#[test]
fn one_node_and_chance_wait_as_the_theory_has_it() {
    const SERVICE_US: f64 = 10.0;
    let costs = Costs { request: SERVICE_US, ..Costs::default() };
    for load in [0.2, 0.5, 0.8, 0.9] {
        let a_second = load * 1e6 / SERVICE_US;
        let until = (2e6 / a_second * 1e9) as u64;
        let arrivals = vec![Arrivals::Steady { a_second, from: 0, until }];
        // No worker asks: the pushes alone are the load. Their elements never end, so the run ends when all have
        // arrived.
        let tally = run(&Plan { arrivals, workers: 0, ..Plan::new(costs) });
        let waited_us = tally.waited as f64 / tally.requests as f64 / US as f64;
        let expected_us = SERVICE_US * load / (2.0 * (1.0 - load));
        let error = (waited_us / expected_us - 1.0).abs();
        assert!(error < 0.05, "at {load}: {waited_us} us instead of {expected_us}");
    }
}

#[test]
fn a_node_that_is_never_idle_is_done_when_its_work_is() {
    let arrivals = vec![Arrivals::Burst { count: 10_000, from: 0, within: 0 }];
    let costs = Costs { wake: 0.0, interrupt: 0.0, client_request: 0.0, ..costs() };
    let costs = Costs { client_element: 0.0, ..costs };
    let plan = Plan { arrivals, workers: 100, count: 10, ..Plan::new(costs) };
    let tally = run(&plan);
    // 1,000 POLLs and 1,000 pipelines of ten, with the costs above.
    let expected_us = 1000.0 * (4.0 + 2.0 + 10.0) + 1000.0 * (4.0 + 1.0 + 7.0);
    let busy_us = tally.busy as f64 / US as f64;
    // At the end, workers poll once more, in vain.
    let in_vain_us = 100.0 * 4.0;
    assert!((expected_us..=expected_us + in_vain_us).contains(&busy_us), "{busy_us} us");
    let settled_us = tally.last_settle as f64 / US as f64;
    assert!((expected_us - in_vain_us..=busy_us).contains(&settled_us), "{settled_us} us");
}

#[test]
fn pauses_double_up_to_their_cap_and_jitter_shortens_them_by_half_at_most() {
    let retry = Retry { base: SECOND, cap: 10 * SECOND, has_jitter: false, deliveries: 9 };
    let pauses = [1, 2, 3, 4, 5, 60].map(|deliveries| retry.pause(deliveries, 0.3) / SECOND);
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    let retry = Retry { has_jitter: true, ..retry };
    assert_eq!(retry.pause(2, 0.0), SECOND);
    assert_eq!(retry.pause(2, 0.5), 3 * SECOND / 2);
}
