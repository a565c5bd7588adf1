//! A schedule, as SCHEDULES shows it, and when it occurs.

use redis::Value;

use crate::fields::Fields;

/// The module's own code: what is upcoming here is what the server will store, if both have the same zones.
#[path = "../../src/schedule"]
#[allow(dead_code)]
mod module {
    mod plan;
    mod zones;

    pub use plan::Plan;
}

use module::Plan;

/// Its moments are in unix milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    pub name: Vec<u8>,
    /// A number of milliseconds, or a cron.
    pub plan: Vec<u8>,
    /// The time zone of a cron.
    pub zone: Option<Vec<u8>>,
    pub element: Vec<u8>,
    /// The next occurrence; `None` if it is paused or has ended.
    pub next: Option<u64>,
    /// The occurrence that was stored last.
    pub last: Option<u64>,
    /// By how many milliseconds that was late.
    pub late: Option<u64>,
    pub stored: u64,
    pub missed: u64,
    pub is_paused: bool,
    pub until: Option<u64>,
    pub times: Option<u64>,
    /// Of each element, as in PUSH.
    pub deliveries: u64,
    pub within: Option<u64>,
    pub group: Option<Vec<u8>>,
}

impl Schedule {
    /// Parses a map of SCHEDULES.
    pub fn parse(reply: &Value) -> Option<Self> {
        let fields = Fields::of(reply)?;
        Some(Self {
            name: fields.bytes("name")?,
            plan: fields.bytes("plan")?,
            zone: fields.bytes("zone"),
            element: fields.bytes("element")?,
            next: fields.number("next"),
            last: fields.number("last"),
            late: fields.number("late"),
            stored: fields.count("stored"),
            missed: fields.count("missed"),
            is_paused: fields.is_set("paused"),
            until: fields.number("until"),
            times: fields.number("times"),
            deliveries: fields.count("deliveries-limit"),
            within: fields.number("within"),
            group: fields.bytes("group"),
        })
    }

    pub fn has_ended(&self) -> bool {
        self.next.is_none() && !self.is_paused
    }

    /// Returns its times, for example `every 90 s` or `0 9 * * 1-5`. The text is not escaped.
    pub fn when(&self) -> String {
        match self.interval() {
            Some(ms) => format!("every {}", interval(ms)),
            None => String::from_utf8_lossy(&self.plan).into_owned(),
        }
    }

    fn interval(&self) -> Option<u64> {
        std::str::from_utf8(&self.plan).ok()?.parse().ok()
    }

    /// Returns the next occurrences, at most `count`.
    pub fn upcoming(&self, count: usize, now: u64) -> Vec<u64> {
        let plan = match self.interval() {
            Some(ms) => Plan::Interval(ms),
            None => Plan::Cron { text: &self.plan, zone: self.zone.as_deref().unwrap_or(b"UTC") },
        };
        let left = self.times.map_or(u64::MAX, |times| times.saturating_sub(self.stored));
        let all = std::iter::successors(self.next, |moment| plan.after(*moment, now));
        let all = all.take_while(|moment| self.until.is_none_or(|until| *moment <= until));
        all.take(count.min(usize::try_from(left).unwrap_or(count))).collect()
    }
}

/// Formats milliseconds in the greatest unit that needs no fraction.
fn interval(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    let unit = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upcoming_occurrences_are_those_of_the_plan_up_to_its_end() {
        let schedule = |plan: &str, zone: Option<&str>, next: u64| Schedule {
            plan: plan.into(),
            zone: zone.map(Into::into),
            next: Some(next),
            ..Schedule::default()
        };
        let every = schedule("90000", None, 5);
        assert_eq!(
            (every.when(), every.upcoming(3, 0)),
            ("every 90 s".into(), vec![5, 90_005, 180_005])
        );
        let ending = Schedule { until: Some(90_004), ..every.clone() };
        assert_eq!(ending.upcoming(3, 0), [5]);
        let counted = Schedule { times: Some(7), stored: 5, ..every.clone() };
        assert_eq!(counted.upcoming(3, 0), [5, 90_005]);
        assert!(Schedule { next: None, ..every }.upcoming(3, 0).is_empty());
        // 9:00 in Berlin, the Friday before the clocks change and the Monday after it.
        let friday = 1_774_598_400_000;
        let cron = schedule("0 9 * * 1-5", Some("Europe/Berlin"), friday);
        assert_eq!(cron.upcoming(2, 0), [friday, friday + 71 * 3_600_000]);
        // A plan of a later version occurs at least once.
        assert_eq!(schedule("@later", None, 5).upcoming(3, 0), [5]);
    }
}
