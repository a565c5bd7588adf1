//! A schedule as bytes: in memory, in files and in effects. It is written again as a whole with each occurrence.
//!
//! ```text
//!   1   flags: 1 paused, 2 OVERLAP SKIP, 4 MISSED ALL, 8 MISSED NONE
//!   1   length of the cron, 0 for an interval
//!   1   length of the zone's name, 0 for an interval
//!   2   length of the group's name
//!   2   DELIVERIES
//!   8   each: the interval, FROM, UNTIL, TIMES, JITTER, WITHIN, the next occurrence, the last one, how late that was, the
//!       numbers of missed and of stored ones
//!       cron, zone, group, element
//! ```
//!
//! Numbers are big-endian. Anybody can bring any bytes by RESTORE, so the reader checks all that could do harm. A cron that
//! cannot be parsed just does not occur again.

use super::{Missed, Plan, Schedule, State, WORD_MAX};
use lawn::{DEADLINE_MAX, GROUP_NAME_MAX};

const PAUSED: u8 = 1;
const SKIPS_OVERLAP: u8 = 2;
const MISSED_ALL: u8 = 4;
const MISSED_NONE: u8 = 8;

impl<'a> Schedule<'a> {
    /// Returns the schedule as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (interval, text, zone) = match self.plan {
            Plan::Interval(ms) => (ms, &b""[..], &b""[..]),
            Plan::Cron { text, zone } => (0, text, zone),
        };
        let missed = match self.missed {
            Missed::One => 0,
            Missed::All => MISSED_ALL,
            Missed::None => MISSED_NONE,
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let State { next, last, late, missed: lost, stored, is_paused } = self.state;
        let mut bytes = Vec::with_capacity(95 + text.len() + zone.len() + self.element.len());
        bytes.push(missed | flag(is_paused, PAUSED) | flag(self.skips_overlap, SKIPS_OVERLAP));
        bytes.extend([text.len() as u8, zone.len() as u8]);
        bytes.extend((self.group.len() as u16).to_be_bytes());
        bytes.extend(self.deliveries.to_be_bytes());
        let options = [interval, self.from, self.until, self.times, self.jitter, self.within];
        let numbers = options.into_iter().chain([next, last, late, lost, stored]);
        numbers.for_each(|number| bytes.extend(number.to_be_bytes()));
        [text, zone, self.group, self.element].iter().for_each(|word| bytes.extend(*word));
        bytes
    }

    /// Reads a schedule. `None`: it is none.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&[flags, text, zone], rest) = bytes.split_first_chunk()?;
        let (group, rest) = rest.split_first_chunk()?;
        let (deliveries, mut rest) = rest.split_first_chunk()?;
        let mut numbers = [0; 11];
        for number in &mut numbers {
            let (bytes, tail) = rest.split_first_chunk()?;
            *number = u64::from_be_bytes(*bytes);
            rest = tail;
        }
        let group = usize::from(u16::from_be_bytes(*group));
        let [interval, from, until, times, jitter, within, next, last, late, lost, stored] =
            numbers;
        let (text, rest) = rest.split_at_checked(text.into())?;
        let (zone, rest) = rest.split_at_checked(zone.into())?;
        let (group, element) = rest.split_at_checked(group)?;
        let missed = match flags & !(PAUSED | SKIPS_OVERLAP) {
            0 => Missed::One,
            MISSED_ALL => Missed::All,
            MISSED_NONE => Missed::None,
            _ => return None,
        };
        let plan = match (interval, text) {
            (1.., b"") if zone.is_empty() => Plan::Interval(interval),
            (0, [_, ..]) if !zone.is_empty() => Plan::Cron { text, zone },
            _ => return None,
        };
        let is_in_range = numbers.iter().all(|number| *number <= DEADLINE_MAX);
        let state =
            State { next, last, late, missed: lost, stored, is_paused: flags & PAUSED != 0 };
        (is_in_range && group.len() <= GROUP_NAME_MAX).then_some(Self {
            plan,
            element,
            group,
            from,
            until,
            times,
            jitter,
            within,
            deliveries: u16::from_be_bytes(*deliveries),
            missed,
            skips_overlap: flags & SKIPS_OVERLAP != 0,
            state,
        })
    }
}

// Their lengths have one byte.
const _: () = assert!(WORD_MAX <= u8::MAX as usize && GROUP_NAME_MAX <= u16::MAX as usize);
