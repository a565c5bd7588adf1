//! A schedule of the packages, which waits in a dehydrator for its next occurrence. The element has three parts, separated by
//! newlines: its state and its plan, in JSON, and the payload of its jobs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The end of the names of keys with schedules.
const SUFFIX: &[u8] = b":schedules";
/// Bytes of a line of JSON, at most: a list shows many.
const LINE: usize = 16 << 10;

/// Its moments are in unix milliseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct State {
    /// The next occurrence; `None` if it has ended.
    pub next: Option<u64>,
    /// The occurrence whose job was put last.
    pub last: Option<u64>,
    /// By how many milliseconds that was late.
    pub late: u64,
    /// Occurrences without a job.
    pub missed: u64,
    pub paused: bool,
    pub ended: bool,
    /// Since when it has been left out of Sidekiq's file.
    #[serde(skip_serializing)]
    pub gone: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Plan {
    cron: Option<String>,
    zone: Option<String>,
    ms: Option<u64>,
    /// Those of Celery's beat. The day of the week stands before that of the month.
    crontab: Option<[Field; 5]>,
    /// An event, a latitude and a longitude.
    solar: Option<(String, f64, f64)>,
    /// A class of the application, and how that shows the schedule.
    class: Option<String>,
    shown: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Number(u64),
    Text(String),
    Many(Vec<Field>),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Many(some) => {
                let texts: Vec<_> = some.iter().map(Self::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl Plan {
    /// Returns when it occurs; `None` if that is not told in exactly one way.
    fn when(self) -> Option<String> {
        let Self { cron, zone, ms, crontab, solar, class, shown } = self;
        // Sidekiq's can have their zones at their ends.
        let is_whole = |cron: &String| zone.is_none() && cron.split_whitespace().count() > 5;
        let zone_or = |other| zone.as_deref().unwrap_or(other);
        let mut told = [
            cron.map(|it| if is_whole(&it) { it } else { format!("{it} {}", zone_or("UTC")) }),
            ms.map(|ms| format!("every {}", interval(ms))),
            crontab.map(|[minute, hour, weekday, day, month]| {
                format!("{minute} {hour} {day} {month} {weekday} {}", zone_or("local"))
            }),
            solar.map(|(event, latitude, longitude)| format!("{event} at {latitude}, {longitude}")),
            class.map(|class| shown.unwrap_or(class)),
        ]
        .into_iter()
        .flatten();
        let when = told.next()?;
        told.next().is_none().then_some(when)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// For example `0 9 * * 1-5 Europe/Berlin` or `every 90 s`. The text is not escaped.
    pub when: String,
    #[serde(flatten)]
    pub state: State,
    /// The place of the payload in the element.
    pub payload_at: usize,
}

impl Schedule {
    /// Returns whether the elements of this key can be schedules.
    pub fn is_in(key: &[u8]) -> bool {
        key.ends_with(SUFFIX)
    }

    /// Parses an element; returns `None` if it is not a schedule. Skips the fields of later versions.
    pub fn parse(element: &[u8]) -> Option<Self> {
        let mut parts = element.splitn(3, |byte| *byte == b'\n');
        let mut state: State = object(parts.next()?)?;
        let plan: Plan = object(parts.next()?)?;
        let payload_at = element.len() - parts.next()?.len();
        let when = plan.when()?;
        state.ended |= state.gone.is_some();
        (state.next.is_some() || state.ended).then_some(Self { when, state, payload_at })
    }
}

/// Parses a JSON object. The library would also accept an array of its values.
fn object<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    let is_object = line.len() <= LINE && line.starts_with(b"{");
    is_object.then(|| serde_json::from_slice(line).ok())?
}

/// Formats milliseconds in the greatest unit that needs no fraction.
fn interval(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    let unit = units.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}
