//! The ttl and the options of PUSH, MPUSH and GIDPUSH.

use crate::config;
use crate::data_type::end_within;
use crate::server::string::Args;
use crate::server::{Str, error::Result};
use lawn::{Bounds, DEADLINE_MAX};

use super::options::{Opt, Options};
use super::{MS_FROM_1, milliseconds};

/// The time until an element comes due.
#[derive(Clone, Copy)]
pub struct Ttl {
    /// In milliseconds, rounded up by the slack.
    pub ms: u64,
    /// In milliseconds, as requested.
    pub asked: u64,
}

impl Ttl {
    pub fn parse(word: Str<'_>) -> Result<Self> {
        let asked = milliseconds("ttl", word.bytes())?;
        Ok(Self { ms: asked, asked })
    }
}

/// The action for an id that exists already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfExists {
    /// Replies an error.
    Refuse,
    /// Replies nil, and keeps the existing element.
    Keep,
    /// Replaces the existing element and its timer.
    Replace,
}

/// `[NX | REPLACE] [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]`, in any order: the options of PUSH and
/// MPUSH.
pub struct PushOptions<'a> {
    pub if_exists: IfExists,
    slack: Option<u64>,
    pub at: Option<u64>,
    pub bounds: BoundOptions,
    /// `Some(None)`: an empty name.
    pub group: Option<Option<Str<'a>>>,
}

const NX_OR_REPLACE: &str = "syntax error, NX and REPLACE exclude each other";

impl<'a> PushOptions<'a> {
    pub const NONE: Self = Self {
        if_exists: IfExists::Refuse,
        slack: None,
        at: None,
        bounds: BoundOptions { deliveries: None, within: None },
        group: None,
    };

    /// Reads the options from the word at `first` on.
    pub fn read(args: Args<'a>, first: usize) -> Result<Self> {
        let (mut chosen, mut options) = (Self::NONE, Options::new(args, first));
        // Mostly it is the only option: spare it the general way.
        if args.len() == first + 2 && options.next_is(b"GROUP") {
            chosen.group = Some(options.group()?);
        }
        while let Some(option) = options.next() {
            if !chosen.parse(&option, &mut options)? {
                return Err(option.unexpected_among("SLACK, AT, DELIVERIES or WITHIN"));
            }
        }
        Ok(chosen)
    }

    /// Reads an option. Returns `false` if it is unknown or repeated.
    pub fn parse(&mut self, option: &Opt<'a>, options: &mut Options<'a>) -> Result<bool> {
        match option.name() {
            b"NX" if self.if_exists == IfExists::Refuse => self.if_exists = IfExists::Keep,
            b"REPLACE" if self.if_exists == IfExists::Refuse => self.if_exists = IfExists::Replace,
            b"NX" if self.if_exists == IfExists::Replace => return Err(NX_OR_REPLACE.into()),
            b"REPLACE" if self.if_exists == IfExists::Keep => return Err(NX_OR_REPLACE.into()),
            b"SLACK" if self.slack.is_none() => self.slack = Some(options.milliseconds("SLACK")?),
            b"AT" if self.at.is_none() => self.at = Some(options.deadline()?),
            b"GROUP" if self.group.is_none() => self.group = Some(options.group()?),
            _ => return self.bounds.parse(option, options),
        }
        Ok(true)
    }

    /// Rounds a TTL up by the given slack or the default setting: to a multiple of a power of two, the largest that adds at most the
    /// slack, so that elements with slack share queues. With AT there is no slack.
    pub fn with_slack(&self, ttl: Ttl) -> Result<Ttl> {
        let slack = match (self.at, self.slack) {
            (Some(_), Some(_)) => {
                return Err("syntax error, SLACK and AT exclude each other".into());
            }
            (Some(_), None) => None,
            (None, None) => config::DEFAULT_SLACK.limit(),
            (None, slack) => slack,
        };
        let (Some(slack), asked) = (slack, ttl.asked) else { return Ok(ttl) };
        // Rounding up to a step adds at most step - 1. Both are below 2^63.
        let step = 1 << (slack + 1).ilog2();
        let ms = asked.next_multiple_of(step);
        if ms > DEADLINE_MAX {
            return Err(format!(
                "ttl '{asked}' is too large: with its slack it must fit in 63 bits"
            )
            .into());
        }
        Ok(Ttl { ms, asked })
    }
}

/// `[DELIVERIES n] [WITHIN ms]`
#[derive(Clone, Copy)]
pub struct BoundOptions {
    deliveries: Option<u16>,
    /// An element is too late to be given out that many milliseconds after its deadline.
    within: Option<u64>,
}

impl BoundOptions {
    /// Reads an option. Returns `false` if it is unknown or repeated.
    pub fn parse<'a>(&mut self, option: &Opt<'a>, options: &mut Options<'a>) -> Result<bool> {
        match option.name() {
            b"DELIVERIES" if self.deliveries.is_none() => {
                self.deliveries = Some(options.small_number("DELIVERIES")?);
            }
            b"WITHIN" if self.within.is_none() => {
                self.within = Some(options.positive("WITHIN", MS_FROM_1)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the bounds of an element with this deadline.
    pub fn bounds(self, deadline: u64) -> Bounds {
        let until = self.within.map(|ms| end_within(deadline, ms));
        Bounds { deliveries: self.deliveries.unwrap_or(0), until: until.unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_rounds_up_and_adds_at_most_itself() {
        let with_slack = |ttl, slack| {
            let options = PushOptions { slack, ..PushOptions::NONE };
            options.with_slack(Ttl { ms: ttl, asked: ttl }).map(|rounded| rounded.ms)
        };
        assert_eq!(with_slack(1000, None), Ok(1000));
        assert_eq!(with_slack(1000, Some(0)), Ok(1000));
        assert_eq!(with_slack(1001, Some(1)), Ok(1002));
        assert_eq!(with_slack(1000, Some(100)), Ok(1024));
        assert_eq!(with_slack(0, Some(1000)), Ok(0));
        for ttl in (0..100_000).step_by(37) {
            for slack in [0, 1, 2, 3, 7, 10, 63, 64, 100, 1000, 60_000] {
                let rounded = with_slack(ttl, Some(slack)).expect("it is small");
                assert!((ttl..=ttl + slack).contains(&rounded), "{ttl} with {slack}: {rounded}");
            }
        }
        assert!(with_slack(DEADLINE_MAX, Some(1)).is_err());
        assert!(with_slack(DEADLINE_MAX, Some(DEADLINE_MAX)).is_err());
        assert_eq!(with_slack(0, Some(DEADLINE_MAX)), Ok(0));
    }
}
