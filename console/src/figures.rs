//! The figures of a whole server: its section of INFO, and rates calculated from two of them.
//!
//! Times are arguments, measured from the start of the program, so that tests need not wait.

use std::collections::BTreeMap;
use std::time::Duration;

/// Rates are calculated over at least this time: over a few milliseconds, one element would be a peak.
pub const SPAN: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Figures {
    /// For example `Redis 7.0.15`.
    pub server: String,
    /// The server's clock, in unix milliseconds.
    pub now_ms: u64,
    /// The fields of the module's section of INFO, without their prefix. Older modules have fewer.
    pub fields: BTreeMap<String, f64>,
    /// The growth of each field per second.
    growth: BTreeMap<String, f64>,
    asked: Option<Duration>,
    /// The fields from which the growth is counted, and their time.
    before: Option<(Duration, BTreeMap<String, f64>)>,
}

impl Figures {
    /// Updates from the text of `INFO server dehydrator`, which was asked for at `now`. Ignores what was overtaken.
    pub fn take(&mut self, info: &str, now: Duration) {
        if self.asked.is_some_and(|asked| asked > now) {
            return;
        }
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
        let seconds = self.before.as_ref().map(|(since, _)| now.saturating_sub(*since));
        if seconds.is_none_or(|seconds| seconds >= SPAN) {
            let before = self.before.replace((now, fields.clone()));
            self.growth = match (before, seconds) {
                (Some((_, before)), Some(seconds)) => growth(&before, &fields, seconds),
                _ => BTreeMap::new(),
            };
        }
        self.fields = fields;
        self.asked = Some(now);
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
}

/// Returns the growth of each field per second.
fn growth(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    time: Duration,
) -> BTreeMap<String, f64> {
    let of = |name: &String, value: &f64| {
        Some((name.clone(), (value - before.get(name)?) / time.as_secs_f64()))
    };
    after.iter().filter_map(|(name, value)| of(name, value)).collect()
}
