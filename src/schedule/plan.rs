//! A plan: an interval or a cron, and its occurrences.
//!
//! A cron has the five fields and the days of Debian's: a day must match both fields of days if either begins with `*`, else
//! one of them. In a night when clocks change, a time of day that comes twice counts once, and one that is skipped comes just
//! behind. A cron whose minute or hour begins with `*` follows real time.
//!
//! To parse a cron takes 20 us, the next occurrence at most some microseconds, except for a cron that never occurs: several
//! milliseconds, once, in EVERY. Parsed plans are kept, some hundred of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::str;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::zones::zone;

/// When a schedule occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan<'a> {
    /// After so many milliseconds, again and again. Not 0.
    Interval(u64),
    Cron {
        text: &'a [u8],
        zone: &'a [u8],
    },
}

/// A cron that was parsed.
struct Parsed {
    text: Box<[u8]>,
    zone: Box<[u8]>,
    cron: Cron,
    /// Its minutes and hours are times of day.
    has_times: bool,
    clock: TimeZone,
    /// When it was parsed, in milliseconds since the epoch.
    at: u64,
}

/// Parsed plans that are kept, each in the place of its hash.
const KEPT: usize = 256;
/// How long a parsed plan is used, in milliseconds: then its zone is read again, which the system may have updated.
const KEPT_MS: u64 = 3_600_000;

thread_local! {
    // Commands and visits run on the server's main thread alone.
    static PARSED: RefCell<Vec<Option<Rc<Parsed>>>> = const { RefCell::new(Vec::new()) };
}

impl Plan<'_> {
    /// Checks a cron and its zone. The error says what is wrong.
    pub fn check(&self, now: u64) -> Result<(), String> {
        match self {
            Self::Interval(_) => Ok(()),
            Self::Cron { text, zone } => parsed(text, zone, now).map(drop),
        }
    }

    /// Returns the first occurrence after a moment, if there is one.
    pub fn after(&self, moment: u64, now: u64) -> Option<u64> {
        match self {
            Self::Interval(ms) => moment.checked_add(*ms),
            Self::Cron { text, zone } => parsed(text, zone, now).ok()?.after(moment),
        }
    }
}

impl Parsed {
    fn after(&self, moment: u64) -> Option<u64> {
        let from = Timestamp::from_millisecond(i64::try_from(moment).ok()?).ok()?;
        let next = if self.has_times {
            self.next_time(from)?
        } else {
            let from = from.to_zoned(self.clock.clone());
            self.cron.find_next_occurrence(&from, false).ok()?.timestamp()
        };
        let next = u64::try_from(next.as_millisecond()).ok()?;
        // Or a schedule would occur again and again.
        (next > moment).then_some(next)
    }

    /// Returns the first moment after `from` at which a clock on the wall shows a time of the cron first, or has just passed
    /// over it.
    fn next_time(&self, from: Timestamp) -> Option<Timestamp> {
        // A calendar in which no night is special.
        let mut wall = self.clock.to_datetime(from).to_zoned(TimeZone::UTC).ok()?;
        loop {
            wall = self.cron.find_next_occurrence(&wall, false).ok()?;
            let moment = self.clock.to_ambiguous_timestamp(wall.datetime());
            let is_skipped = matches!(moment.offset(), AmbiguousOffset::Gap { .. });
            let mut moment = moment.earlier().ok()?;
            if is_skipped {
                moment = self.clock.following(moment).next()?.timestamp();
            }
            if moment > from {
                return Some(moment);
            }
        }
    }
}

/// Returns a parsed cron. The error says what is wrong.
fn parsed(text: &[u8], zone: &[u8], now: u64) -> Result<Rc<Parsed>, String> {
    let place = hash(text, hash(zone, 0)) as usize % KEPT;
    let kept = PARSED.with_borrow(|all| all.get(place).cloned().flatten());
    if let Some(kept) = kept
        && (&kept.text[..], &kept.zone[..]) == (text, zone)
        && now.checked_sub(kept.at).is_some_and(|age| age < KEPT_MS)
    {
        return Ok(kept);
    }
    let new = Rc::new(parse(text, zone, now)?);
    PARSED.with_borrow_mut(|all| {
        all.resize(KEPT, None);
        all[place] = Some(Rc::clone(&new));
    });
    Ok(new)
}

fn parse(text: &[u8], name: &[u8], now: u64) -> Result<Parsed, String> {
    let parsed = str::from_utf8(text).ok().and_then(cron);
    let (cron, has_times) =
        parsed.ok_or("is neither a number of milliseconds nor a cron of five fields")?;
    let clock = str::from_utf8(name).ok().and_then(zone);
    let clock = clock.ok_or_else(|| format!("is for an unknown ZONE '{}'", name.escape_ascii()))?;
    Ok(Parsed { text: text.into(), zone: name.into(), cron, has_times, clock, at: now })
}

/// Parses a cron, and returns whether it has times of day. Leaves out what the library knows beside the five fields.
fn cron(text: &str) -> Option<(Cron, bool)> {
    let fields: Vec<_> = text.split_ascii_whitespace().collect();
    let [minute, hour, day, _, weekday] = fields[..] else { return None };
    let mut parts = fields.iter().flat_map(|field| field.split(','));
    if text.contains(['@', '?', '+'])
        || !text.is_ascii()
        || parts.any(|it| it.is_empty() || it.starts_with('/'))
    {
        return None;
    }
    let parser = CronParser::builder()
        // `5/20` is from 5 on.
        .sloppy_ranges(true)
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .dom_and_dow(day.starts_with('*') || weekday.starts_with('*'))
        .build();
    let has_times = !minute.starts_with('*') && !hour.starts_with('*');
    parser.parse(text).ok().map(|cron| (cron, has_times))
}

/// Hashes a name and a moment, alike on every server: FNV-1a, and then the mixing of SplitMix64, because the moments of one
/// schedule differ little.
pub fn hash(name: &[u8], moment: u64) -> u64 {
    let bytes = name.iter().copied().chain(moment.to_be_bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
