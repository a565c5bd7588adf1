//! The operations of the model.

use super::{Bytes, Entry};

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Policy {
    #[default]
    Hold,
    Drop,
    Stream {
        dest: &'static str,
        /// Whether the length is exact, and the length.
        maxlen: Option<(bool, u64)>,
    },
    Publish(&'static str),
    List {
        dest: &'static str,
        is_left: bool,
    },
    /// HOLD with this delivery limit, and the destination of dead letters.
    Limit(u64, Box<Policy>),
}

impl Policy {
    /// Returns the policy that moves elements: that of the dead letters, for a delivery limit.
    pub fn route(&self) -> &Policy {
        match self {
            Policy::Limit(_, route) => route,
            other => other,
        }
    }

    /// Returns whether due elements are delivered by themselves.
    pub(super) fn sends(&self, entry: &Entry) -> bool {
        match self {
            Policy::Hold => false,
            Policy::Limit(most, _) => {
                entry.deliveries >= if entry.most > 0 { entry.most } else { *most }
            }
            _ => true,
        }
    }

    /// Returns whether due elements wait to be taken otherwise.
    pub fn holds(&self) -> bool {
        matches!(self, Policy::Hold | Policy::Limit(..))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfThere {
    Refuse,
    Nx,
    Replace,
}

/// An element's own limits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bounds {
    /// The maximum number of deliveries.
    pub most: Option<u64>,
    /// How long after its deadline it can be given out.
    pub within: Option<u64>,
}

impl Bounds {
    /// Returns the maximum number of deliveries, and when the element with this deadline is too late; 0 for none.
    pub fn of(self, deadline: u64) -> (u64, u64) {
        let until = self.within.map_or(0, |within| end_within(deadline, within));
        (self.most.unwrap_or(0), until)
    }
}

/// From here on an end is stored as its distance from the deadline.
pub const DISTANCES: u64 = 1 << 47;

/// Returns an end, as it is stored: a moment or a distance.
pub fn end_within(deadline: u64, ms: u64) -> u64 {
    let end = deadline.saturating_add(ms);
    if end < DISTANCES { end } else { DISTANCES + ms.min(DISTANCES - 1) }
}

/// All operations on a dehydrator, and on the keyspace around it.
#[derive(Clone, Debug)]
pub enum Op {
    Push {
        ttl: u64,
        element: Bytes,
        id: Bytes,
        if_there: IfThere,
        slack: Option<u64>,
        at: Option<u64>,
        deliveries: Option<u64>,
        token: Option<u64>,
        bounds: Bounds,
    },
    GidPush {
        ttl: u64,
        element: Bytes,
        slack: Option<u64>,
        at: Option<u64>,
        bounds: Bounds,
    },
    /// TTLs, elements, ids.
    MPush {
        elements: Vec<(u64, Bytes, Bytes)>,
        if_there: IfThere,
        slack: Option<u64>,
        at: Option<u64>,
        bounds: Bounds,
    },
    Pull(Bytes),
    Poll {
        count: Option<u64>,
        block: Option<u64>,
        lease: Option<u64>,
        token: Option<u64>,
        with_ids: bool,
    },
    /// A POLL of several keys.
    MPoll {
        keys: Vec<&'static str>,
        poll: Box<Op>,
    },
    XPoll(Option<u64>),
    XAck(Vec<Bytes>),
    Settle(Vec<(u64, Bytes)>),
    Renew {
        ttl: u64,
        held: Vec<(u64, Bytes)>,
    },
    Release {
        ms: u64,
        held: Vec<(u64, Bytes)>,
        is_uncounted: bool,
        /// For one id only.
        element: Option<Bytes>,
        reason: Option<Bytes>,
    },
    Reject {
        held: Vec<(u64, Bytes)>,
        reason: Option<Bytes>,
    },
    Look {
        id: Bytes,
        full: bool,
    },
    Range {
        start: Moment,
        end: Moment,
        count: Option<u64>,
        with_elements: bool,
        with_tokens: bool,
    },
    /// One call from the beginning, for ids with this prefix.
    Scan {
        prefix: Option<&'static str>,
        count: Option<u64>,
    },
    Info {
        full: bool,
    },
    Help,
    Late,
    /// As a client asks for it, without side effects.
    Require {
        level: u64,
    },
    Update(Bytes, Bytes),
    Touch {
        ids: Vec<Bytes>,
        ttl: u64,
        only: Option<&'static str>,
        at: Option<u64>,
    },
    Rem(Vec<Bytes>),
    Lease {
        ttl: u64,
        token: u64,
        at: u64,
        ids: Vec<Bytes>,
    },
    OnDue(Policy),
    /// With NX.
    OnDueNew(Policy),
    /// A stream with that length, without stating whether it is exact.
    OnDueStream(&'static str, u64),
    /// A schedule that does not occur in this run: its plan, its element and its options.
    Every {
        name: Bytes,
        words: Vec<Bytes>,
    },
    Schedules(Vec<Bytes>),
    Unschedule(Vec<Bytes>),
    PauseSchedule(Bytes),
    ResumeSchedule(Bytes),
    /// For this long, or until then.
    Pause {
        ms: Option<u64>,
        at: Option<u64>,
    },
    Resume,
    Limit {
        length: Option<u64>,
        held: Option<u64>,
        rate: Option<(u64, u64)>,
        remember: Option<u64>,
    },
    /// The effect for remembered ids.
    Settled {
        until: u64,
        ids: Vec<Bytes>,
    },
    /// The effect for a rate.
    Given {
        at: u64,
        count: u64,
    },
    Ttn,
    Pttl(Bytes),
    Len,
    /// Words that no command understands.
    Nonsense(Vec<Bytes>),
    Copy {
        to: &'static str,
        db: usize,
        replace: bool,
    },
    Rename {
        to: &'static str,
        nx: bool,
    },
    Move(usize),
    SwapDb(usize, usize),
    /// DEL or UNLINK.
    Del(&'static str),
    /// It is gone within a moment.
    Expire,
    FlushDb,
    SetText,
}

/// A bound of a RANGE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// `-` and `+`
    First,
    Last,
    At(u64),
    /// Exclusive.
    Without(u64),
}
