//! What the server tells of one dehydrator: the reply of `DEHYDRATOR.INFO`.

use redis::Value;

use crate::policy::Policy;
use crate::schedule::Schedule;

/// The reply of `DEHYDRATOR.INFO` for one dehydrator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub length: u64,
    pub due: u64,
    pub given_out: u64,
    pub ttls: u64,
    /// In unix milliseconds.
    pub next_deadline: Option<u64>,
    /// In bytes.
    pub memory: u64,
    /// What ONDUE has set.
    pub policy: Policy,
    /// How often its deliveries have failed. Older modules do not report this, nor when, nor why.
    pub failures: u64,
    /// Since when they have failed without a success, in unix milliseconds.
    pub failing_since: Option<u64>,
    pub last_failure: Option<Vec<u8>>,
    /// Whether it is paused. Older modules do not report this, nor until when.
    pub paused: bool,
    /// The end of the pause, in unix milliseconds, if it has one.
    pub paused_until: Option<u64>,
    /// Elements that have been ready for a second or longer. Older modules do not report this, nor the age.
    pub overdue: u64,
    /// How long the oldest element has been ready, in milliseconds.
    pub oldest_due_ms: Option<u64>,
    /// How long the element has been held that is held the longest, in milliseconds.
    pub oldest_held_ms: Option<u64>,
    /// Elements that are held under a token. Older modules do not report this, nor the following.
    pub leased: u64,
    pub given_back: u64,
    /// Leases that run, if HELD is set.
    pub running: Option<u64>,
    /// The numbers of LIMIT, 0 for none.
    pub limits: Limits,
    /// Those of each group. `remember` is always 0.
    pub each: Limits,
    /// Elements that RATE allows now, if it is set.
    pub rate_room: Option<u64>,
    pub remembered: u64,
    /// Groups that have elements. Older modules do not report this.
    pub groups: u64,
}

/// Bytes of elements in one reply of RANGE, about.
pub const REPLY: u64 = 128 << 10;
/// Elements in one reply of RANGE, at most.
pub const ROWS: usize = 100;

/// The contents of one dehydrator: what `FULL` adds to the reply, and its schedules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// The number of elements per TTL, by TTL.
    pub by_ttl: Vec<(u64, u64)>,
    /// The greatest groups and their numbers of elements, the greatest first. The server lists ten at most.
    pub groups: Vec<(Vec<u8>, u64)>,
    pub schedules: Schedules,
}

/// The schedules among the first elements of a dehydrator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedules {
    /// Their names, and what they are, in the order of their next occurrences.
    pub all: Vec<(Vec<u8>, Schedule)>,
    /// How many of those elements are not schedules.
    pub others: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    pub length: u64,
    pub held: u64,
    pub rate: u64,
    pub per: u64,
    pub remember: u64,
}

impl Facts {
    /// Returns how many elements wait for their time: neither due nor held. With HELD the server counts the leases that
    /// run; otherwise those that have expired are subtracted twice, as due and as held.
    pub fn waiting(&self) -> u64 {
        self.length.saturating_sub(self.due).saturating_sub(self.running.unwrap_or(self.leased))
    }

    /// Returns whether the key is missing: an empty dehydrator without settings does not exist.
    pub fn is_missing(&self) -> bool {
        self.length == 0
            && !self.paused
            && self.limits == Limits::default()
            && self.each == Limits::default()
            && self.policy == Policy::default()
    }

    /// Returns the average size of an element with its id, in bytes.
    pub fn mean_size(&self) -> u64 {
        self.memory / self.length.max(1)
    }

    /// Returns how many elements to ask for in one RANGE.
    pub fn rows_of_reply(&self) -> usize {
        let fitting = REPLY / self.mean_size().max(1);
        usize::try_from(fitting).unwrap_or(1).clamp(1, ROWS)
    }

    /// Parses the reply of `DEHYDRATOR.INFO key [FULL]`, with its parts. Skips unknown fields; missing ones are 0.
    pub fn parse(reply: &Value) -> Option<(Self, Parts)> {
        let mut facts = Self::default();
        let mut parts = Parts::default();
        let number =
            |value: &Value| redis::from_redis_value_ref::<Option<u64>>(value).ok().flatten();
        let count = |value: &Value| number(value).unwrap_or(0);
        let text =
            |value: &Value| redis::from_redis_value_ref::<Option<Vec<u8>>>(value).ok().flatten();
        for (name, value) in reply.as_map_iter()? {
            let Value::BulkString(name) = name else { continue };
            match name.as_slice() {
                b"length" => facts.length = count(value),
                b"due" => facts.due = count(value),
                b"given-out" => facts.given_out = count(value),
                b"ttls" => facts.ttls = count(value),
                b"next-deadline" => facts.next_deadline = number(value),
                b"memory" => facts.memory = count(value),
                b"policy" => facts.policy = Policy::parse(value)?,
                b"failures" => facts.failures = count(value),
                b"failing-since" => facts.failing_since = number(value),
                b"last-failure" => facts.last_failure = text(value),
                b"paused" => facts.paused = number(value) == Some(1),
                b"paused-until" => facts.paused_until = number(value),
                b"overdue" => facts.overdue = count(value),
                b"oldest-due-ms" => facts.oldest_due_ms = number(value),
                b"oldest-held-ms" => facts.oldest_held_ms = number(value),
                b"leased" => facts.leased = count(value),
                b"given-back" => facts.given_back = count(value),
                b"running" => facts.running = number(value),
                b"length-limit" => facts.limits.length = count(value),
                b"held-limit" => facts.limits.held = count(value),
                b"rate-limit" => facts.limits.rate = count(value),
                b"rate-per" => facts.limits.per = count(value),
                b"remember" => facts.limits.remember = count(value),
                b"each-length-limit" => facts.each.length = count(value),
                b"each-held-limit" => facts.each.held = count(value),
                b"each-rate-limit" => facts.each.rate = count(value),
                b"each-rate-per" => facts.each.per = count(value),
                b"rate-room" => facts.rate_room = number(value),
                b"remembered" => facts.remembered = count(value),
                b"groups" => facts.groups = count(value),
                b"greatest-groups" => {
                    let pairs = value.as_map_iter()?;
                    parts.groups =
                        pairs.filter_map(|(name, n)| Some((text(name)?, number(n)?))).collect();
                }
                b"elements-by-ttl" => {
                    let pairs = value.as_map_iter()?;
                    parts.by_ttl =
                        pairs.filter_map(|(ttl, n)| Some((number(ttl)?, number(n)?))).collect();
                    parts.by_ttl.sort_unstable();
                }
                _ => (),
            }
        }
        Some((facts, parts))
    }
}
