//! The options at the end of a command, and their values; those of PUSH, MPUSH and GIDPUSH, with the ttl.

use crate::config;
use crate::data_type::end_within;
use crate::policy::MaxLen;
use crate::server::string::{Args, NotNumber, number};
use crate::server::{Error, Str, error::Result};
use lawn::{Bounds, DEADLINE_MAX, GROUP_NAME_MAX, REASON_MAX};

use super::{FROM_1, MS_FROM_1, milliseconds, moment, not_number, positive, shown};

/// The options at the end of a command, in any order.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    args: Args<'a>,
    first: usize,
    /// The index of the next word.
    at: usize,
}

/// A word where an option should be.
pub struct Opt<'a> {
    /// The options from this word on.
    options: Options<'a>,
    word: Str<'a>,
    upper: [u8; NAME_MAX],
    len: usize,
}

/// No option's name is this long; a longer word is not an option.
const NAME_MAX: usize = 16;

impl<'a> Options<'a> {
    pub fn new(args: Args<'a>, at: usize) -> Self {
        Self { args, first: at, at }
    }

    /// Returns the index of the next word.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn next(&mut self) -> Option<Opt<'a>> {
        let (options, word) = (*self, self.args.get(self.at)?);
        self.at += 1;
        let bytes = word.bytes();
        let len = bytes.len().min(NAME_MAX);
        let mut upper = [0; NAME_MAX];
        upper[..len].copy_from_slice(&bytes[..len]);
        upper.make_ascii_uppercase();
        Some(Opt { options, word, upper, len })
    }

    /// Returns whether the next word is `name`, and skips it if so.
    pub fn next_if(&mut self, name: &[u8]) -> bool {
        let is = self.args.get(self.at).is_some_and(|word| word.bytes().eq_ignore_ascii_case(name));
        self.at += usize::from(is);
        is
    }

    /// Does what [`Options::next_if`] does, for a word in upper case alone.
    #[inline(always)]
    pub fn next_is(&mut self, name: &[u8]) -> bool {
        let is = self.args.get(self.at).is_some_and(|word| word.bytes() == name);
        self.at += usize::from(is);
        is
    }

    /// Refuses any remaining word.
    pub fn end(&mut self) -> Result<()> {
        self.next().map_or(Ok(()), |option| Err(option.unexpected()))
    }

    /// Reads this option and its value, if it is there, and refuses anything else.
    pub fn only<T>(
        mut self,
        name: &[u8],
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let value = self.next_if(name).then(|| read(&mut self)).transpose()?;
        match self.next() {
            Some(option) if value.is_none() => {
                Err(option.unexpected_among(&String::from_utf8_lossy(name)))
            }
            Some(option) => Err(option.unexpected()),
            None => Ok(value),
        }
    }

    pub fn value(&mut self, option: &str) -> Result<Str<'a>> {
        let value = self.args.get(self.at).ok_or_else(|| format!("{option} needs a value"))?;
        self.at += 1;
        Ok(value)
    }

    /// Reads a number of at least 1.
    pub fn positive(&mut self, option: &str, wanted: &str) -> Result<u64> {
        positive(option, self.value(option)?.bytes(), wanted)
    }

    pub fn milliseconds(&mut self, option: &str) -> Result<u64> {
        milliseconds(option, self.value(option)?.bytes())
    }

    /// Reads a limit. 0 means no limit.
    pub fn limit(&mut self, option: &str) -> Result<u64> {
        let word = self.value(option)?.bytes();
        number(word).map_err(|error| not_number(error, option, word, "a whole number from 0 on"))
    }

    /// Reads a deadline. The greatest number means "never", like the one before it, which is the latest deadline that an
    /// element can have: see [`STUCK`](crate::data_type::STUCK). Replicas read the same word, so they agree.
    pub fn deadline(&mut self) -> Result<u64> {
        let at = moment("AT", self.value("AT")?.bytes())?;
        Ok(at.min(DEADLINE_MAX - 1))
    }

    /// Reads a number that fits in 16 bits: of deliveries, or a share.
    pub fn small_number(&mut self, option: &str) -> Result<u16> {
        let word = self.value(option)?.bytes();
        let small = number(word).ok().and_then(|number| u16::try_from(number).ok());
        small.filter(|number| *number > 0).ok_or_else(|| {
            not_number(NotNumber::Other, option, word, "a whole number from 1 to 65535")
        })
    }

    /// Reads the name of a group. `None`, for an empty name: the group of all elements without one.
    #[inline(always)]
    pub fn group(&mut self) -> Result<Option<Str<'a>>> {
        match self.args.get(self.at) {
            Some(name) if name.bytes().len() <= GROUP_NAME_MAX => {
                self.at += 1;
                Ok(Some(name).filter(|name| !name.bytes().is_empty()))
            }
            name => Err(no_group_name(name.is_some())),
        }
    }

    /// Reads why something failed.
    pub fn reason(&mut self) -> Result<Str<'a>> {
        let reason = self.value("REASON")?;
        if reason.bytes().len() > REASON_MAX {
            return Err(format!("a REASON has at most {REASON_MAX} bytes").into());
        }
        Ok(reason)
    }

    pub fn maxlen(&mut self) -> Result<MaxLen> {
        let mut value = self.value("MAXLEN")?.bytes();
        let approximate = value == b"~";
        if approximate || value == b"=" {
            value = self.value("MAXLEN")?.bytes();
        }
        // A stream with a maximum length of 0 would lose everything.
        Ok(MaxLen { length: positive("MAXLEN", value, FROM_1)?, approximate })
    }

    pub fn count(&mut self) -> Result<usize> {
        let count = self.positive("COUNT", FROM_1)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub fn lease(&mut self) -> Result<u64> {
        // A lease of 0 ms would be due again at once, and a client would never stop receiving it.
        self.positive("LEASE", MS_FROM_1)
    }
}

#[cold]
fn no_group_name(is_long: bool) -> Error {
    if is_long {
        return format!("the name of a GROUP has at most {GROUP_NAME_MAX} bytes").into();
    }
    "GROUP needs a value".into()
}

impl<'a> Opt<'a> {
    /// Returns the word in upper case.
    pub fn name(&self) -> &[u8] {
        &self.upper[..self.len]
    }

    /// Returns the error for the word: it is not an option here, or was given before.
    pub fn unexpected(&self) -> Error {
        let word = shown(self.word.bytes());
        let is_same = |at| {
            let before = self.options.args.get(at).map(Str::bytes);
            before.is_some_and(|before| before.eq_ignore_ascii_case(self.word.bytes()))
        };
        if word.starts_with(|it: char| it.is_ascii_alphabetic())
            && (self.options.first..self.options.at).any(is_same)
        {
            return format!("syntax error, '{word}' is given twice").into();
        }
        format!("syntax error, unexpected '{word}'").into()
    }

    /// Returns the error for the word, where `options` are possible. A number most likely lacks the name of one of them.
    pub fn unexpected_among(&self, options: &str) -> Error {
        let word = self.word.bytes();
        if !word.first().is_some_and(u8::is_ascii_digit) {
            return self.unexpected();
        }
        let word = shown(word);
        format!("syntax error, unexpected '{word}': the name of an option is missing: {options}")
            .into()
    }

    /// Returns the error for the word, which is only possible after others.
    pub fn misplaced(&self, place: &str) -> Error {
        format!("syntax error, {} {place}", String::from_utf8_lossy(self.name())).into()
    }
}

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
