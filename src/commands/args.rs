//! From argument vectors to typed requests. Every syntax error is said here, before anything is
//! opened.

use crate::config;
use crate::lawn::DEADLINE_MAX;
use crate::policy::{MaxLen, Policy};
use crate::server::string::Args;
use crate::server::{Error, OwnedStr, Str, error::Result};

/// `key`
pub struct OfKey<'a> {
    pub key: Str<'a>,
}

/// `key id`
pub struct OfId<'a> {
    pub key: Str<'a>,
    pub id: Str<'a>,
}

/// `key id [id ...]`
pub struct OfIds<'a> {
    pub key: Str<'a>,
    args: Args<'a>,
}

/// How long to put something away.
#[derive(Clone, Copy)]
pub struct Ttl<'a> {
    /// In milliseconds, with the slack worked in.
    pub ms: u64,
    /// In milliseconds, as it was asked for.
    pub asked: u64,
    /// As it was sent, if that says the same.
    sent: Option<Str<'a>>,
}

impl<'a> Ttl<'a> {
    fn parse(word: Str<'a>) -> Result<Self> {
        let ms = ttl(word)?;
        Ok(Self { ms, asked: ms, sent: Some(word) })
    }

    fn with_slack(self, slack: Option<u64>) -> Result<Self> {
        let ms = with_slack(self.asked, slack)?;
        Ok(Self { ms, sent: self.sent.filter(|_| ms == self.asked), ..self })
    }

    /// Hands it on as a string of the server's.
    pub fn with_word<T>(self, use_it: impl FnOnce(Str<'_>) -> T) -> T {
        match self.sent {
            Some(word) => use_it(word),
            None => use_it(OwnedStr::of_number(self.ms).as_str()),
        }
    }
}

/// What becomes of an id that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfThere {
    /// An error.
    Refuse,
    /// Nil, and it stays as it was.
    Keep,
    /// It goes, and element and timer start anew.
    Replace,
}

/// `key ttl element id [NX | REPLACE] [SLACK ms] [AT unix-ms [DELIVERIES n]]`
pub struct Push<'a> {
    pub key: Str<'a>,
    pub ttl: Ttl<'a>,
    pub element: Str<'a>,
    pub id: Str<'a>,
    pub if_there: IfThere,
    /// The deadline, when it is not to be `ttl` from now.
    pub at: Option<u64>,
    /// How often it was given out under a lease: the append-only file says so, with AT.
    pub deliveries: u16,
}

/// `key ttl element [SLACK ms]`
pub struct GidPush<'a> {
    pub key: Str<'a>,
    pub ttl: Ttl<'a>,
    pub element: Str<'a>,
}

/// `key ttl element id [ttl element id ...]`
pub struct MultiPush<'a> {
    pub key: Str<'a>,
    /// TTL, element, id.
    pub elements: Vec<(Ttl<'a>, Str<'a>, Str<'a>)>,
}

/// `key id element`
pub struct Update<'a> {
    pub key: Str<'a>,
    pub id: Str<'a>,
    pub element: Str<'a>,
}

/// When a deadline may be changed, as EXPIRE's options say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Always,
    /// GT: only to a later one.
    Later,
    /// LT: only to an earlier one.
    Earlier,
}

/// `key id ttl [GT | LT] [AT unix-ms]`
pub struct Touch<'a> {
    pub key: Str<'a>,
    pub id: &'a [u8],
    pub ttl: u64,
    pub condition: Condition,
    pub at: Option<u64>,
}

/// How a POLL gives out what is due.
#[derive(Clone, Copy)]
pub struct Take {
    /// As many as there are, if it is not said.
    pub count: usize,
    pub with_ids: bool,
    /// How long it stays hidden, in milliseconds, instead of going.
    pub lease: Option<u64>,
}

/// `key [COUNT n] [BLOCK ms] [LEASE ms] [WITHIDS]`
pub struct Poll<'a> {
    pub key: Str<'a>,
    /// How long to wait for something to come due, in milliseconds; 0: for ever.
    pub block: Option<u64>,
    pub take: Take,
}

/// `key ttl AT unix-ms id [id ...]`
pub struct Lease<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub deadline: u64,
    args: Args<'a>,
}

/// `key [COUNT n]`
pub struct XPoll<'a> {
    pub key: Str<'a>,
    pub count: usize,
}

/// `key cursor [MATCH pattern] [COUNT n]`
pub struct Scan<'a> {
    pub key: Str<'a>,
    pub cursor: u64,
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
}

/// `key [FULL]`
pub struct Info<'a> {
    pub key: Str<'a>,
    pub full: bool,
}

/// `key HOLD | DROP | STREAM dest [MAXLEN [~ | =] n] | PUBLISH channel`
pub struct OnDue<'a> {
    pub key: Str<'a>,
    pub policy: Policy,
}

impl<'a> OfKey<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let [key] = exactly(args)?;
        Ok(Self { key })
    }
}

impl<'a> OfId<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let [key, id] = exactly(args)?;
        Ok(Self { key, id })
    }
}

impl<'a> OfIds<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 2)?;
        Ok(Self { key: required(args, 1)?, args })
    }

    pub fn ids(&self) -> impl Iterator<Item = Str<'a>> {
        self.args.from(2)
    }
}

impl<'a> Push<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut request = Self {
            key: required(args, 1)?,
            element: required(args, 3)?,
            id: required(args, 4)?,
            ttl: Ttl::parse(required(args, 2)?)?,
            if_there: IfThere::Refuse,
            at: None,
            deliveries: 0,
        };
        let mut slack = None;
        let mut options = Options::new(args, 5);
        while let Some(option) = options.next() {
            match &option.name[..] {
                b"NX" if request.if_there == IfThere::Refuse => request.if_there = IfThere::Keep,
                b"REPLACE" if request.if_there == IfThere::Refuse => {
                    request.if_there = IfThere::Replace;
                }
                b"SLACK" if slack.is_none() => slack = Some(options.milliseconds("SLACK")?),
                b"AT" if request.at.is_none() => request.at = Some(options.deadline()?),
                b"DELIVERIES" if request.at.is_some() && request.deliveries == 0 => {
                    request.deliveries = options.deliveries()?;
                }
                _ => return Err(option.unexpected()),
            }
        }
        if request.at.is_none() {
            request.ttl = request.ttl.with_slack(slack.or_else(config::default_slack))?;
        } else if slack.is_some() {
            return Err("syntax error, SLACK does not go with AT".into());
        }
        Ok(request)
    }
}

impl<'a> GidPush<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut request = Self {
            key: required(args, 1)?,
            element: required(args, 3)?,
            ttl: Ttl::parse(required(args, 2)?)?,
        };
        let mut slack = None;
        let mut options = Options::new(args, 4);
        while let Some(option) = options.next() {
            match &option.name[..] {
                b"SLACK" if slack.is_none() => slack = Some(options.milliseconds("SLACK")?),
                _ => return Err(option.unexpected()),
            }
        }
        request.ttl = request.ttl.with_slack(slack.or_else(config::default_slack))?;
        Ok(request)
    }
}

impl<'a> MultiPush<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 4)?;
        let key = required(args, 1)?;
        let rest: Vec<_> = args.from(2).collect();
        if !rest.len().is_multiple_of(3) {
            return Err(Error::Arity);
        }
        let slack = config::default_slack();
        let element =
            |words: &[Str<'a>]| Ok((Ttl::parse(words[0])?.with_slack(slack)?, words[1], words[2]));
        let elements = rest.chunks_exact(3).map(element).collect::<Result<_>>()?;
        Ok(Self { key, elements })
    }
}

impl<'a> Update<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let [key, id, element] = exactly(args)?;
        Ok(Self { key, id, element })
    }
}

impl<'a> Touch<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut request = Self {
            key: required(args, 1)?,
            id: required(args, 2)?.bytes(),
            ttl: ttl(required(args, 3)?)?,
            condition: Condition::Always,
            at: None,
        };
        let mut options = Options::new(args, 4);
        while let Some(option) = options.next() {
            match &option.name[..] {
                b"GT" if request.condition == Condition::Always => {
                    request.condition = Condition::Later;
                }
                b"LT" if request.condition == Condition::Always => {
                    request.condition = Condition::Earlier;
                }
                b"AT" if request.at.is_none() => request.at = Some(options.deadline()?),
                _ => return Err(option.unexpected()),
            }
        }
        Ok(request)
    }
}

impl<'a> Poll<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let (mut count, mut block, mut lease, mut with_ids) = (None, None, None, false);
        let mut options = Options::new(args, 2);
        while let Some(option) = options.next() {
            match &option.name[..] {
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                b"BLOCK" if block.is_none() => {
                    block = Some(options.milliseconds("BLOCK")?);
                }
                b"LEASE" if lease.is_none() => lease = Some(options.lease()?),
                b"WITHIDS" if !with_ids => with_ids = true,
                _ => return Err(option.unexpected()),
            }
        }
        let count = count.unwrap_or(usize::MAX).min(config::reply_max());
        let take = Take { count, with_ids, lease };
        Ok(Self { key: required(args, 1)?, block, take })
    }
}

impl<'a> Lease<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 5)?;
        let (key, ttl) = (required(args, 1)?, ttl(required(args, 2)?)?);
        let mut options = Options::new(args, 3);
        match options.next() {
            Some(option) if option.name == b"AT" => {
                Ok(Self { key, ttl, deadline: options.deadline()?, args })
            }
            Some(option) => Err(option.unexpected()),
            None => Err(Error::Arity),
        }
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.from(5).map(Str::bytes)
    }
}

impl<'a> XPoll<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut count = None;
        let mut options = Options::new(args, 2);
        while let Some(option) = options.next() {
            match &option.name[..] {
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                _ => return Err(option.unexpected()),
            }
        }
        let count = count.unwrap_or(usize::MAX).min(config::reply_max());
        Ok(Self { key: required(args, 1)?, count })
    }
}

impl<'a> Scan<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        /// As HSCAN's.
        const COUNT: usize = 10;
        let word = required(args, 2)?.bytes();
        let cursor =
            number(word).map_err(|_| Error::from(format!("invalid cursor '{}'", shown(word))))?;
        let (mut pattern, mut count) = (None, None);
        let mut options = Options::new(args, 3);
        while let Some(option) = options.next() {
            match &option.name[..] {
                b"MATCH" if pattern.is_none() => pattern = Some(options.value("MATCH")?.bytes()),
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                _ => return Err(option.unexpected()),
            }
        }
        let count = count.unwrap_or(COUNT).min(config::reply_max());
        Ok(Self { key: required(args, 1)?, cursor, pattern, count })
    }
}

impl<'a> Info<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut full = false;
        let mut options = Options::new(args, 2);
        while let Some(option) = options.next() {
            match &option.name[..] {
                b"FULL" if !full => full = true,
                _ => return Err(option.unexpected()),
            }
        }
        Ok(Self { key: required(args, 1)?, full })
    }
}

impl<'a> OnDue<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        let mut options = Options::new(args, 2);
        let word = options.next().ok_or(Error::Arity)?;
        let policy = match &word.name[..] {
            b"HOLD" => Policy::Hold,
            b"DROP" => Policy::Drop,
            b"STREAM" => {
                let dest = options.value("STREAM")?.bytes();
                if dest == key.bytes() {
                    return Err("the stream must be another key".into());
                }
                let mut maxlen = None;
                while let Some(option) = options.next() {
                    match &option.name[..] {
                        b"MAXLEN" if maxlen.is_none() => maxlen = Some(options.maxlen()?),
                        _ => return Err(option.unexpected()),
                    }
                }
                Policy::Stream { dest: dest.into(), maxlen }
            }
            b"PUBLISH" => Policy::Publish { channel: options.value("PUBLISH")?.bytes().into() },
            _ => return Err(word.unexpected()),
        };
        match options.next() {
            Some(option) => Err(option.unexpected()),
            None => Ok(Self { key, policy }),
        }
    }
}

fn required<'a>(args: Args<'a>, at: usize) -> Result<Str<'a>> {
    args.get(at).ok_or(Error::Arity)
}

/// All arguments, when there are `N` behind the command's name.
fn exactly<'a, const N: usize>(args: Args<'a>) -> Result<[Str<'a>; N]> {
    let all: Vec<_> = args.from(1).take(N + 1).collect();
    all.try_into().map_err(|_| Error::Arity)
}

/// The options at the end of a command, in any order.
struct Options<'a> {
    args: Args<'a>,
    at: usize,
}

/// A word where an option should be.
struct Opt<'a> {
    word: Str<'a>,
    /// In upper case.
    name: Vec<u8>,
}

impl<'a> Options<'a> {
    fn new(args: Args<'a>, at: usize) -> Self {
        Self { args, at }
    }

    fn next(&mut self) -> Option<Opt<'a>> {
        /// No option's name is longer; a longer word need not be copied to see that.
        const LONGEST: usize = 16;
        let word = self.args.get(self.at)?;
        self.at += 1;
        let name = word.bytes().get(..LONGEST).unwrap_or(word.bytes()).to_ascii_uppercase();
        Some(Opt { word, name })
    }

    fn value(&mut self, option: &str) -> Result<Str<'a>> {
        let value = self.args.get(self.at).ok_or_else(|| format!("{option} needs a value"))?;
        self.at += 1;
        Ok(value)
    }

    fn milliseconds(&mut self, option: &str) -> Result<u64> {
        let word = self.value(option)?.bytes();
        number(word)
            .map_err(|error| error.of(option, word, "a whole number of milliseconds from 0 on"))
    }

    fn deadline(&mut self) -> Result<u64> {
        let word = self.value("AT")?.bytes();
        let wanted = "a whole number of unix milliseconds from 0 on";
        number(word).map_err(|error| error.of("AT", word, wanted))
    }

    fn deliveries(&mut self) -> Result<u16> {
        let word = self.value("DELIVERIES")?.bytes();
        let deliveries = number(word).ok().and_then(|number| u16::try_from(number).ok());
        deliveries.filter(|number| *number > 0).ok_or_else(|| {
            NotNumber::Other.of("DELIVERIES", word, "a whole number from 1 to 65535")
        })
    }

    fn maxlen(&mut self) -> Result<MaxLen> {
        let mut value = self.value("MAXLEN")?.bytes();
        let approximate = value == b"~";
        if approximate || value == b"=" {
            value = self.value("MAXLEN")?.bytes();
        }
        // A stream of no length would lose everything.
        Ok(MaxLen { length: positive("MAXLEN", value, "a whole number from 1 on")?, approximate })
    }

    fn count(&mut self) -> Result<usize> {
        let count = positive("COUNT", self.value("COUNT")?.bytes(), "a whole number from 1 on")?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn lease(&mut self) -> Result<u64> {
        // One of no time would be due again at once, and never end.
        let word = self.value("LEASE")?.bytes();
        positive("LEASE", word, "a whole number of milliseconds from 1 on")
    }
}

impl Opt<'_> {
    fn unexpected(&self) -> Error {
        format!("syntax error, unexpected '{}'", shown(self.word.bytes())).into()
    }
}

/// What a client sent, as it is shown to it: printable, and no more of it than helps.
pub fn shown(word: &[u8]) -> String {
    const SHOWN: usize = 32;
    match word.get(..SHOWN) {
        Some(start) if word.len() > SHOWN => format!("{}...", start.escape_ascii()),
        _ => word.escape_ascii().to_string(),
    }
}

/// Whether now plus this fits is known when the clock is read.
fn ttl(arg: Str<'_>) -> Result<u64> {
    number(arg.bytes()).map_err(|error| {
        let wanted = "a whole number of milliseconds from 0 on";
        error.of("ttl", arg.bytes(), wanted)
    })
}

/// Rounds a TTL up to the coarsest power-of-two step by which it is at most `slack` late, so that
/// elements which may wait a little share queues.
fn with_slack(ttl: u64, slack: Option<u64>) -> Result<u64> {
    let Some(slack) = slack else { return Ok(ttl) };
    // Rounding up to a step adds at most the step less one. Both are below 2^63.
    let step = 1 << (slack + 1).ilog2();
    let rounded = ttl.next_multiple_of(step);
    if rounded > DEADLINE_MAX {
        return Err(
            format!("ttl '{ttl}' is too large: with its slack it must fit in 63 bits").into()
        );
    }
    Ok(rounded)
}

/// Why a word is no number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NotNumber {
    /// It is one that does not fit in 63 bits.
    TooLarge,
    Other,
}

impl NotNumber {
    /// What a client is told who sent it as `name`, where `wanted` should be.
    fn of(self, name: &str, word: &[u8], wanted: &str) -> Error {
        let word = shown(word);
        match self {
            Self::TooLarge if name == "ttl" => {
                format!("ttl '{word}' is too large: now + ttl must fit in 63 bits").into()
            }
            Self::TooLarge => {
                format!("{name} '{word}' is too large: it must fit in 63 bits").into()
            }
            Self::Other => format!("{name} '{word}' is not {wanted}").into(),
        }
    }
}

/// A number from 1 on.
fn positive(name: &str, word: &[u8], wanted: &str) -> Result<u64> {
    let number =
        number(word).and_then(|number| if number > 0 { Ok(number) } else { Err(NotNumber::Other) });
    number.map_err(|error| error.of(name, word, wanted))
}

/// A decimal number up to 2^63 - 1, written as the server writes numbers: digits alone, no sign, no
/// space, no leading zero.
fn number(bytes: &[u8]) -> std::result::Result<u64, NotNumber> {
    let is_canonical = bytes == b"0" || !bytes.starts_with(b"0");
    if bytes.is_empty() || !is_canonical || !bytes.iter().all(u8::is_ascii_digit) {
        return Err(NotNumber::Other);
    }
    let number = bytes.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add((digit - b'0').into())
    });
    number.filter(|number| *number <= DEADLINE_MAX).ok_or(NotNumber::TooLarge)
}

#[cfg(test)]
mod requests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_the_server_would_write() {
        for good in [0, 1, 9, 10, 1000, DEADLINE_MAX - 1, DEADLINE_MAX] {
            assert_eq!(number(good.to_string().as_bytes()), Ok(good));
        }
        let bad = [
            "",
            " ",
            "-",
            "+1",
            "-1",
            "-0",
            " 5",
            "5 ",
            "5\n",
            "00",
            "05",
            "1.5",
            "1e3",
            "0x10",
            "ten",
            "１",
            "9223372036854775808x",
        ];
        for bad in bad {
            assert_eq!(number(bad.as_bytes()), Err(NotNumber::Other), "{bad:?}");
        }
        assert_eq!(number(b"1\0"), Err(NotNumber::Other));
        for large in
            ["9223372036854775808", "18446744073709551616", "100000000000000000000000000000"]
        {
            assert_eq!(number(large.as_bytes()), Err(NotNumber::TooLarge), "{large:?}");
        }
    }

    #[test]
    fn slack_rounds_up_never_early_and_never_later_than_it_says() {
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
