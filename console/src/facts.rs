//! What the server tells of one dehydrator: the reply of `DEHYDRATOR.INFO`.

use redis::Value;

use crate::fields::{Fields, bytes, number};
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
    /// Of a group alone: how many elements it gives out in its turn.
    pub share: u64,
    pub schedules: u64,
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
    /// The one that occurs next first.
    pub schedules: Vec<Schedule>,
    /// Dead letters, if the policy names a stream or a list that the user may read.
    pub dead: Option<u64>,
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
            && self.schedules == 0
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

    /// Parses the reply of `DEHYDRATOR.INFO key [FULL | GROUP name]`, with its parts.
    pub fn parse(reply: &Value) -> Option<(Self, Parts)> {
        let fields = Fields::of(reply)?;
        let limits = |of: &str| Limits {
            length: fields.count(&format!("{of}length-limit")),
            held: fields.count(&format!("{of}held-limit")),
            rate: fields.count(&format!("{of}rate-limit")),
            per: fields.count(&format!("{of}rate-per")),
            remember: 0,
        };
        let facts = Self {
            length: fields.count("length"),
            due: fields.count("due"),
            given_out: fields.count("given-out"),
            ttls: fields.count("ttls"),
            next_deadline: fields.number("next-deadline"),
            memory: fields.count("memory"),
            policy: fields.get("policy").map_or(Some(Policy::default()), Policy::parse)?,
            failures: fields.count("failures"),
            failing_since: fields.number("failing-since"),
            last_failure: fields.bytes("last-failure"),
            paused: fields.is_set("paused"),
            paused_until: fields.number("paused-until"),
            overdue: fields.count("overdue"),
            oldest_due_ms: fields.number("oldest-due-ms"),
            oldest_held_ms: fields.number("oldest-held-ms"),
            leased: fields.count("leased"),
            given_back: fields.count("given-back"),
            running: fields.number("running"),
            limits: Limits { remember: fields.count("remember"), ..limits("") },
            each: limits("each-"),
            rate_room: fields.number("rate-room"),
            remembered: fields.count("remembered"),
            groups: fields.count("groups"),
            share: fields.count("share"),
            schedules: fields.count("schedules"),
        };
        let pairs =
            |name: &str| fields.get(name).and_then(Value::as_map_iter).into_iter().flatten();
        let groups = pairs("greatest-groups").filter_map(|(it, n)| Some((bytes(it)?, number(n)?)));
        let ttls = pairs("elements-by-ttl").filter_map(|(it, n)| Some((number(it)?, number(n)?)));
        let mut parts =
            Parts { by_ttl: ttls.collect(), groups: groups.collect(), ..Parts::default() };
        parts.by_ttl.sort_unstable();
        Some((facts, parts))
    }
}
