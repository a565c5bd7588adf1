//! Random operations on a lawn.

use proptest::prelude::*;

use super::super::*;

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// With this deadline, and bounds, or with that of the TTL.
    Start {
        id: u16,
        ttl: u64,
        length: usize,
        deadline: Option<u64>,
    },
    /// Many elements with one TTL, to fill blocks and pages of a queue.
    Burst {
        first: u16,
        count: u16,
        ttl: u64,
    },
    /// Many elements with deadlines across a span, unordered, with distinct TTLs or none: the load of the timeline. A
    /// span of 1 or 2 makes more ties than fit into a block.
    Spread {
        first: u16,
        count: u16,
        from: u64,
        span: u64,
        ttl: u64,
    },
    /// Restarts many elements across a span.
    RestartSpread {
        first: u16,
        count: u16,
        span: u64,
    },
    Stop {
        id: u16,
    },
    Settle {
        id: u16,
    },
    StopMany {
        first: u16,
        step: u16,
        count: u16,
    },
    Update {
        id: u16,
        length: usize,
    },
    PopDue {
        most: usize,
    },
    Clock {
        by: i64,
    },
    Compact {
        moves: usize,
    },
    Defrag {
        steps: usize,
    },
    Replace {
        id: u16,
        ttl: u64,
        length: usize,
    },
    Restart {
        id: u16,
        ttl: u64,
    },
    /// Puts an element first among those with its deadline: this many milliseconds before now.
    PutFirst {
        id: u16,
        before: u64,
    },
    /// Sets why an element was given back; nothing for a length of 0.
    Reason {
        id: u16,
        length: usize,
    },
    Deliveries {
        id: u16,
        deliveries: u16,
    },
    LeaseDue {
        most: usize,
        ttl: u64,
    },
    Lease {
        id: u16,
        ttl: u64,
    },
    Drain {
        most: usize,
    },
    /// Takes out due elements, until the receiver panics at one of them.
    Panic {
        most: usize,
        at: usize,
    },
    /// Goes on with a clone.
    Clone,
    /// Limits the pages of records to so many more than there are, or no longer.
    Pages {
        more: Option<usize>,
    },
    Until {
        id: u16,
        until: u64,
    },
    /// Sets since when an element is held.
    Since {
        id: u16,
        moment: u64,
        waited: u64,
    },
    /// Sets what holds for a group, the first of which is that of all elements without one.
    Group {
        group: u16,
        share: u16,
        limits: GroupLimits,
        /// Milliseconds from now. 0: it is not paused.
        pause: u64,
    },
    /// Sets the limits of each group.
    Each {
        limits: GroupLimits,
    },
    /// Changes which limits hold.
    Enforce {
        enforced: Enforced,
    },
    /// Records what a group gave out elsewhere.
    Given {
        group: u16,
        count: u64,
    },
    /// Ends the turn of the group whose turn it is.
    Pass,
    /// Takes or leases what is next, decided before.
    Next {
        ttl: u64,
    },
    /// Forgets what groups gave out too long ago to count.
    Forget,
    /// Changes the limits of the small form.
    SmallMax {
        max: SmallMax,
    },
    /// One call of a scan, which starts over at its end.
    Scan {
        count: usize,
    },
}

/// Often so low that a few operations change the form, often so high that the lawn stays small.
pub(super) fn small_max() -> impl Strategy<Value = SmallMax> {
    let elements = prop_oneof![2 => 0_usize..5, 2 => Just(32_usize), 1 => Just(1000_usize)];
    let bytes = prop_oneof![1 => 0_usize..300, 2 => Just(4096_usize), 1 => Just(1_usize << 20)];
    (elements, bytes).prop_map(|(elements, bytes)| SmallMax { elements, bytes })
}

/// From few ids, so that they repeat.
pub(super) fn id() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0_u16..40, 1 => 0_u16..2000]
}

pub(super) fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => prop::sample::select(vec![0_u64, 1, 2, 5, 10]),
        2 => 0_u64..2000,
        1 => any::<u64>(),
        1 => prop::sample::select(vec![DEADLINE_MAX, DEADLINE_MAX - 1000, 1 << 62, u64::MAX]),
    ]
}

pub(super) fn deadline() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 900_u64..1200,
        1 => any::<u64>(),
        1 => prop::sample::select(vec![0_u64, 1, DEADLINE_MAX, DEADLINE_MAX - 1, DEADLINE_MAX + 1]),
    ]
}

/// The milliseconds of a lease. Some end later than possible.
fn lease() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 1_u64..50, 1 => Just(DEADLINE_MAX)]
}

/// Limits of what is held and of what is given out in a time.
fn limits() -> impl Strategy<Value = GroupLimits> {
    let held = prop_oneof![4 => Just(0_u64), 2 => 1_u64..5, 1 => Just(u64::MAX)];
    let rate = prop_oneof![3 => Just(0_u64), 2 => 1_u64..5];
    let per = prop_oneof![4 => 1_u64..40, 1 => 2000_u64..9000];
    (held, rate, per).prop_map(|(held, rate, per)| GroupLimits {
        length: 0,
        held,
        rate,
        per: if rate > 0 { per } else { 0 },
    })
}

/// Milliseconds. Some spans exceed the 32 bits of a column.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 1_u64..4, 4 => 1_u64..300, 1 => prop::sample::select(vec![1 << 33, 1 << 45])]
}

/// Returns a pseudo-random number below `span`.
pub(super) fn spread(number: u16, span: u64) -> u64 {
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) % span
}

pub(super) fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0_usize..100, 1 => 100_usize..3000, 1 => 8000_usize..20_000]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        11 => (id(), ttl(), length(), prop::option::weighted(0.3, deadline())).prop_map(
            |(id, ttl, length, deadline)| Op::Start { id, ttl, length, deadline }
        ),
        1 => (id(), 1_u16..120, prop::sample::select(vec![0_u64, 5, 10]))
            .prop_map(|(first, count, ttl)| Op::Burst { first, count, ttl }),
        2 => (id(), 1_u16..250, 900_u64..1200, span(), prop_oneof![Just(0_u64), ttl()])
            .prop_map(|(first, count, from, span, ttl)| Op::Spread { first, count, from, span, ttl }),
        1 => (id(), 1_u16..250, span())
            .prop_map(|(first, count, span)| Op::RestartSpread { first, count, span }),
        4 => id().prop_map(|id| Op::Stop { id }),
        4 => id().prop_map(|id| Op::Settle { id }),
        1 => (id(), 1_u16..4, 1_u16..120)
            .prop_map(|(first, step, count)| Op::StopMany { first, step, count }),
        2 => (id(), length()).prop_map(|(id, length)| Op::Update { id, length }),
        3 => prop_oneof![Just(1_usize), 0_usize..20, Just(usize::MAX)].prop_map(|most| Op::PopDue { most }),
        3 => prop_oneof![8 => -3_i64..4, 1 => -200_i64..200, 1 => any::<i64>()].prop_map(|by| Op::Clock { by }),
        1 => (1_usize..40).prop_map(|moves| Op::Compact { moves }),
        1 => (1_usize..5).prop_map(|steps| Op::Defrag { steps }),
        3 => (id(), ttl(), length()).prop_map(|(id, ttl, length)| Op::Replace { id, ttl, length }),
        3 => (id(), ttl()).prop_map(|(id, ttl)| Op::Restart { id, ttl }),
        3 => (id(), 0_u64..12).prop_map(|(id, before)| Op::PutFirst { id, before }),
        2 => (id(), 0_usize..60).prop_map(|(id, length)| Op::Reason { id, length }),
        1 => (id(), prop_oneof![4 => 0_u16..3, 1 => Just(u16::MAX)])
            .prop_map(|(id, deliveries)| Op::Deliveries { id, deliveries }),
        3 => (0_usize..20, lease()).prop_map(|(most, ttl)| Op::LeaseDue { most, ttl }),
        2 => (id(), lease()).prop_map(|(id, ttl)| Op::Lease { id, ttl }),
        2 => prop_oneof![0_usize..20, Just(usize::MAX)].prop_map(|most| Op::Drain { most }),
        1 => (0_usize..40, 0_usize..30).prop_map(|(most, at)| Op::Panic { most, at }),
        1 => Just(Op::Clone),
        1 => prop::option::weighted(0.5, 0_usize..3).prop_map(|more| Op::Pages { more }),
        2 => (id(), deadline()).prop_map(|(id, until)| Op::Until { id, until }),
        2 => (id(), deadline(), deadline())
            .prop_map(|(id, moment, waited)| Op::Since { id, moment, waited }),
        2 => (any::<u16>(), 1_u16..4, limits(), prop_oneof![4 => Just(0_u64), 1 => 1_u64..20]).prop_map(
            |(group, share, limits, pause)| Op::Group { group, share, limits, pause }
        ),
        1 => limits().prop_map(|limits| Op::Each { limits }),
        1 => (any::<u16>(), 1_u64..3).prop_map(|(group, count)| Op::Given { group, count }),
        1 => Just(Op::Forget),
        1 => Just(Op::Pass),
        3 => prop_oneof![Just(0_u64), lease()].prop_map(|ttl| Op::Next { ttl }),
        1 => (prop::bool::weighted(0.7), prop::bool::weighted(0.7))
            .prop_map(|(held, rate)| Op::Enforce { enforced: Enforced { held, rate } }),
        1 => small_max().prop_map(|max| Op::SmallMax { max }),
        3 => (1_usize..20).prop_map(|count| Op::Scan { count }),
    ]
}

pub(super) fn name(id: u16) -> Vec<u8> {
    // Binary ids of various lengths from 0 on, all different.
    match id {
        0 => Vec::new(),
        _ => {
            // Around what a comparison reads at once, and what a length of one byte counts. Few are long: the oracle hashes
            // them often.
            let times = match id % 61 {
                long @ 0..4 => [63, 64, 65, 200][usize::from(long)],
                short => 1 + usize::from(short % 9),
            };
            id.to_be_bytes().repeat(times)
        }
    }
}

/// Returns the name of a group: a short one, a long one, and none for 0.
pub(super) fn groups_name(group: u16) -> Vec<u8> {
    match group {
        0 => Vec::new(),
        1 => vec![7; GROUP_NAME_MAX],
        _ => group.to_be_bytes().repeat(1 + usize::from(group % 5)),
    }
}

/// Returns one of `groups` groups, or none.
pub(super) fn group(seed: u64, id: u16, groups: u16) -> Option<Vec<u8>> {
    let group = (seed / 3 + u64::from(id)) % (u64::from(groups) + 1);
    Some(groups_name(group as u16)).filter(|name| !name.is_empty())
}

pub(super) fn payload(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (seed ^ i) as u8).collect()
}

/// Often none, often moments near those of [`deadline`].
pub(super) fn bounds(seed: u64) -> Bounds {
    let until = match seed % 5 {
        0 => 950 + seed * 7 % 300,
        1 => Bounds::UNTIL_MAX,
        2 => 1,
        _ => 0,
    };
    Bounds { deliveries: (seed % 3 * 7 % 5) as u16, until }
}

/// From few tokens, so that they repeat; sometimes none, sometimes one of the server's.
pub(super) fn token(seed: u64) -> Option<Token> {
    if seed % 7 == 6 { Some(Token::drawn(seed)) } else { Token::new(seed % 4) }
}
