//! The data of the view: the last replies of the server, and rates calculated from two of them.
//!
//! Times are arguments, measured from the start of the program, so that tests need not wait.

use std::collections::BTreeMap;
use std::time::Duration;

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
    /// The ONDUE policy, if the module reports it.
    pub policy: Option<Vec<u8>>,
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
}

/// Why a refresh failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// The problem, in a sentence or two.
    pub what: String,
    /// What to do about it. Empty if the user can only wait.
    pub advice: &'static str,
}

#[derive(Default)]
pub struct Dehydrator {
    pub facts: Facts,
    /// The growth per second, between the last two refreshes.
    pub net: Option<f64>,
    asked: Option<Duration>,
    /// The last walk over all keys that saw it.
    seen_by_walk: u64,
}

#[derive(Default)]
pub struct Model {
    /// For example `Redis 7.0.15`.
    pub server: String,
    /// The server's clock, in unix milliseconds.
    pub now_ms: u64,
    /// The fields of the module's section of INFO, without their prefix. Older modules have fewer.
    pub fields: BTreeMap<String, f64>,
    /// The growth of each field per second, between the last two refreshes.
    growth: BTreeMap<String, f64>,
    fields_asked: Option<Duration>,
    pub dehydrators: BTreeMap<Vec<u8>, Dehydrator>,
    /// The number of elements per TTL, for the selected dehydrator.
    pub by_ttl: Vec<(u64, u64)>,
    /// The number of completed walks over all keys.
    pub walks: u64,
    pub order: Order,
    pub selected: Option<Vec<u8>>,
    /// The dehydrators that are overdue the longest, of all databases, if their names are known: key, database,
    /// milliseconds. Older modules do not report this.
    pub worst: Vec<(Vec<u8>, u64, u64)>,
    /// The problem of the last refresh, if it failed.
    pub trouble: Option<Trouble>,
}

/// The sort order of the dehydrators: descending, but ascending by key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Order {
    #[default]
    Length,
    Due,
    GivenOut,
    Net,
    Memory,
    Key,
}

impl Order {
    pub const ALL: [Self; 6] =
        [Self::Length, Self::Due, Self::GivenOut, Self::Net, Self::Memory, Self::Key];

    pub fn next(self) -> Self {
        let place = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }
}

impl Model {
    /// Updates from the text of `INFO server dehydrator`.
    pub fn take_info(&mut self, info: &str, now: Duration) {
        let lines = info.lines().filter_map(|line| line.trim().split_once(':'));
        let all: BTreeMap<_, _> = lines.collect();
        let version = |field| all.get(field).copied();
        self.server = match (version("valkey_version"), version("redis_version")) {
            (Some(valkey), _) => format!("Valkey {valkey}"),
            (None, Some(redis)) => format!("Redis {redis}"),
            (None, None) => "a server".into(),
        };
        let time = all.get("server_time_usec").and_then(|us| us.parse::<u64>().ok());
        self.now_ms = time.unwrap_or(0) / 1000;

        let fields: BTreeMap<_, _> = all
            .iter()
            .filter_map(|(name, value)| {
                let name = name.strip_prefix("dehydrator_")?;
                Some((name.to_owned(), value.parse::<f64>().ok()?))
            })
            .collect();
        let seconds = self.fields_asked.map(|asked| now.saturating_sub(asked).as_secs_f64());
        self.growth = fields
            .iter()
            .filter_map(|(name, value)| {
                let seconds = seconds.filter(|seconds| *seconds > 0.0)?;
                Some((name.clone(), (value - self.fields.get(name)?) / seconds))
            })
            .collect();
        self.fields = fields;
        self.fields_asked = Some(now);
    }

    /// Returns the growth of a counter per second; `None` if unknown. A counter that shrinks was reset by a restart of the
    /// server.
    pub fn rate(&self, counter: &str) -> Option<f64> {
        self.growth.get(counter).copied().filter(|growth| *growth >= 0.0)
    }

    /// Returns how many elements leave per second, in any way: arrivals minus growth.
    pub fn out(&self) -> Option<f64> {
        let more = self.growth.get("elements")?;
        Some((self.rate("pushes")? - more).max(0.0))
    }

    /// Records that a walk over all keys saw this dehydrator.
    pub fn saw(&mut self, key: Vec<u8>) {
        self.dehydrators.entry(key).or_default().seen_by_walk = self.walks;
    }

    /// Ends a walk: forgets the dehydrators that it did not see.
    pub fn end_walk(&mut self) {
        let walk = self.walks;
        self.dehydrators.retain(|_, dehydrator| dehydrator.seen_by_walk == walk);
        self.walks += 1;
    }

    pub fn take_facts(&mut self, key: &[u8], facts: Facts, now: Duration) {
        let Some(dehydrator) = self.dehydrators.get_mut(key) else { return };
        if let Some(asked) = dehydrator.asked.filter(|asked| *asked < now) {
            let more = facts.length as f64 - dehydrator.facts.length as f64;
            dehydrator.net = Some(more / (now - asked).as_secs_f64());
        }
        dehydrator.facts = facts;
        dehydrator.asked = Some(now);
    }

    /// Returns the dehydrators in the chosen order.
    pub fn sorted(&self) -> Vec<(&Vec<u8>, &Dehydrator)> {
        let mut sorted: Vec<_> = self.dehydrators.iter().collect();
        let number = |dehydrator: &Dehydrator| match self.order {
            Order::Length => dehydrator.facts.length as f64,
            Order::Due => dehydrator.facts.due as f64,
            Order::GivenOut => dehydrator.facts.given_out as f64,
            Order::Net => dehydrator.net.unwrap_or(0.0),
            Order::Memory => dehydrator.facts.memory as f64,
            Order::Key => 0.0,
        };
        // They are sorted by key already, and the sort is stable.
        sorted.sort_by(|(_, a), (_, b)| number(b).total_cmp(&number(a)));
        sorted
    }

    /// Returns the place of the selected dehydrator in that order.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.sorted().iter().position(|(key, _)| *key == selected)
    }

    /// Moves the selection by `further` lines.
    pub fn select(&mut self, further: isize) {
        let last = self.dehydrators.len().saturating_sub(1);
        let place = self.place().map_or(0, |place| place.saturating_add_signed(further).min(last));
        let key = self.sorted().get(place).map(|(key, _)| (*key).clone());
        if key != self.selected {
            self.by_ttl.clear();
        }
        self.selected = key;
    }
}
