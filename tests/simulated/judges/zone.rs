//! What a clock on the wall shows: zones with the rules by which their clocks have changed since 2008.

use super::cron::date;

const DAY_MIN: i64 = 24 * 60;

/// When clocks change in a year: the month, its how-manieth Sunday or 0 for the last, and the minutes after that day has begun in
/// Greenwich.
type Change = (u64, u64, i64);

/// A zone: minutes ahead of Greenwich, and for how many less before and after its summer, which begins and ends then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    summer: i64,
    /// How much less it is in winter.
    less: i64,
    changes: Option<[Change; 2]>,
}

impl Zone {
    pub fn of(name: &[u8]) -> Option<Self> {
        let fixed = |ahead| Self { summer: ahead, less: 0, changes: None };
        Some(match name {
            b"UTC" => fixed(0),
            b"Etc/GMT-14" => fixed(14 * 60),
            b"Etc/GMT+12" => fixed(-12 * 60),
            b"Asia/Kolkata" => fixed(5 * 60 + 30),
            b"Europe/Berlin" => {
                Self { summer: 120, less: 60, changes: Some([(3, 0, 60), (10, 0, 60)]) }
            }
            b"America/New_York" => {
                Self { summer: -240, less: 60, changes: Some([(3, 2, 420), (11, 1, 360)]) }
            }
            b"Australia/Lord_Howe" => {
                Self { summer: 660, less: 30, changes: Some([(10, 1, -510), (4, 1, -540)]) }
            }
            _ => return None,
        })
    }

    /// Returns the minutes that its clocks may be ahead by, the most first.
    pub fn offsets(&self) -> [i64; 2] {
        [self.summer, self.summer - self.less]
    }

    /// Returns what its clocks show, in minutes since the epoch.
    pub fn shown(&self, minute: i64) -> i64 {
        let is_summer = self.changes.is_none_or(|[begin, end]| {
            let [begun, ended] = [begin, end].map(|change| is_behind(minute, change));
            if begin.0 < end.0 { begun && !ended } else { begun || !ended }
        });
        minute + if is_summer { self.summer } else { self.summer - self.less }
    }
}

/// Returns whether clocks have changed in this year by then.
fn is_behind(minute: i64, (month, which, at): Change) -> bool {
    // No clock changes about the turn of the year.
    if let (now @ (1 | 12), _) = date((minute / DAY_MIN) as u64) {
        return now == 12;
    }
    let day = ((minute - at) / DAY_MIN) as u64;
    let (of_year, of_month) = date(day);
    // The first of January 1970 was a Thursday.
    let is_sunday = |it: &u64| (day - of_month + it + 4).is_multiple_of(7);
    let mut sundays = (1..=31).filter(is_sunday);
    let sunday = if which > 0 { sundays.nth(which as usize - 1) } else { sundays.next_back() };
    of_year > month || of_year == month && sunday.is_some_and(|it| of_month >= it)
}
