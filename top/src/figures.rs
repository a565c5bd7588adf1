//! The figures of a whole server: its section of INFO, and rates calculated from two of them.
//!
//! Times are arguments, measured from the start of the program, so that tests need not wait.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub struct Figures {
    /// For example `Redis 7.0.15`.
    pub server: String,
    /// The server's clock, in unix milliseconds.
    pub now_ms: u64,
    /// The fields of the module's section of INFO, without their prefix. Older modules have fewer.
    pub fields: BTreeMap<String, f64>,
    /// The growth of each field per second, between the last two refreshes.
    growth: BTreeMap<String, f64>,
    asked: Option<Duration>,
}

impl Figures {
    /// Updates from the text of `INFO server dehydrator`.
    pub fn take(&mut self, info: &str, now: Duration) {
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
        let seconds = self.asked.map(|asked| now.saturating_sub(asked).as_secs_f64());
        self.growth = fields
            .iter()
            .filter_map(|(name, value)| {
                let seconds = seconds.filter(|seconds| *seconds > 0.0)?;
                Some((name.clone(), (value - self.fields.get(name)?) / seconds))
            })
            .collect();
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
