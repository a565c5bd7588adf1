//! A cron of five fields, and its next minute: found by looking at one after another.

use super::zone::Zone;

const DAY_MIN: u64 = 24 * 60;
/// Within so many days it occurs, or never: a 29th of February may be eight years away.
const DAYS: u64 = 10 * 366;
/// The last day of which the module's calendar knows, since the epoch: the end of the year 4999, about.
const LAST_DAY: u64 = 1_106_000;

/// The numbers that a field matches, as bits.
type Field = u64;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cron {
    fields: [Field; 5],
    /// A day must match both fields of days.
    is_both: bool,
    /// Its minutes and hours are times of day.
    has_times: bool,
}

fn number(text: &str) -> Option<u64> {
    const NAMES: [&str; 19] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "sun",
        "mon", "tue", "wed", "thu", "fri", "sat",
    ];
    let at = NAMES.iter().position(|name| name.eq_ignore_ascii_case(text));
    at.map(|at| if at < 12 { at as u64 + 1 } else { at as u64 - 12 }).or_else(|| text.parse().ok())
}

fn field(text: &str, least: u64, most: u64) -> Option<Field> {
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let step: usize = step.parse().ok().filter(|step| *step > 0)?;
        let [from, to] = match range.split_once('-') {
            _ if range == "*" => [least, most],
            Some((from, to)) => [number(from)?, number(to)?],
            None if part.contains('/') => [number(range)?, most],
            None => [number(range)?; 2],
        };
        if from < least || to > most || from > to {
            return None;
        }
        (from..=to).step_by(step).for_each(|number| bits |= 1 << number);
    }
    Some(bits)
}

/// Returns the month and the day of a day since the epoch.
pub fn date(day: u64) -> (u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // A calendar repeats itself after 400 years, which are 146,097 days.
    let (mut day, mut year) = (day % 146_097, 1970);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        (day, month) = (day - days, month + 1);
    }
    (month, day + 1)
}

impl Cron {
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = words[..] else { return None };
        let mut weekdays = field(weekday, 0, 7)?;
        // The 7 is a Sunday too.
        weekdays |= weekdays >> 7 & 1;
        let fields = [
            field(minute, 0, 59)?,
            field(hour, 0, 23)?,
            field(day, 1, 31)?,
            field(month, 1, 12)?,
            weekdays,
        ];
        let is_both = day.starts_with('*') || weekday.starts_with('*');
        let has_times = !minute.starts_with('*') && !hour.starts_with('*');
        Some(Self { fields, is_both, has_times })
    }

    fn is_on(&self, day: u64) -> bool {
        let [_, _, days, months, weekdays] = self.fields;
        let (month, of_month) = date(day);
        // The first of January 1970 was a Thursday.
        let [of_month, of_week] = [days >> of_month & 1 == 1, weekdays >> ((day + 4) % 7) & 1 == 1];
        let is_day = if self.is_both { of_month && of_week } else { of_month || of_week };
        months >> month & 1 == 1 && is_day
    }

    /// Returns whether it occurs at a minute that a clock on the wall shows, of whichever day.
    fn is_at(&self, shown: u64) -> bool {
        let [minutes, hours, ..] = self.fields;
        let minute = shown % DAY_MIN;
        minutes >> (minute % 60) & 1 == 1 && hours >> (minute / 60) & 1 == 1
    }

    /// Returns the first minute after one at which it occurs, in a calendar in which clocks never change.
    fn next(&self, minute: u64) -> Option<u64> {
        let first = minute + 1;
        let today = first / DAY_MIN;
        let days = (today..=today + DAYS).take_while(|day| *day < LAST_DAY);
        days.filter(|day| self.is_on(*day)).find_map(|day| {
            let start = if day == today { first } else { day * DAY_MIN };
            (start..(day + 1) * DAY_MIN).find(|minute| self.is_at(*minute))
        })
    }

    /// Returns the first minute after a moment, in a zone.
    pub fn after(&self, moment: u64, zone: &Zone) -> Option<u64> {
        let from = (moment / 60_000) as i64;
        let next = |minute: i64, ahead: i64| {
            self.next(minute.checked_add(ahead)?.try_into().ok()?).map(|it| it as i64 - ahead)
        };
        let mut minute = from;
        if !self.has_times {
            // Whenever the clock shows it.
            loop {
                minute = zone.offsets().into_iter().filter_map(|it| next(minute, it)).min()?;
                let shown = zone.shown(minute) as u64;
                if self.is_at(shown) && self.is_on(shown / DAY_MIN) {
                    return Some(minute as u64 * 60_000);
                }
            }
        }
        // When the clock shows it first, or has just passed over it.
        let mut shown = zone.shown(from);
        loop {
            shown = self.next(shown as u64)? as i64;
            let [first, last] = zone.offsets().map(|ahead| shown - ahead);
            let minute = (first..=last).find(|minute| zone.shown(*minute) >= shown)?;
            if minute > from {
                return Some(minute as u64 * 60_000);
            }
        }
    }
}
