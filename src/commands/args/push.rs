//! What PUSH, GIDPUSH and MPUSH ask for.

use crate::config;
use crate::lawn::Token;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

use super::number::{ttl, with_slack};
use super::options::Options;
use super::required;
use super::timer::Timer;

/// How long to put something away.
#[derive(Clone, Copy)]
pub struct Ttl {
    /// In milliseconds, with the slack worked in.
    pub ms: u64,
    /// In milliseconds, as it was asked for.
    pub asked: u64,
}

impl Ttl {
    fn parse(word: Str<'_>) -> Result<Self> {
        ttl(word).map(Self::from)
    }

    fn with_slack(self, slack: Option<u64>) -> Result<Self> {
        Ok(Self { ms: with_slack(self.asked, slack)?, ..self })
    }
}

impl From<u64> for Ttl {
    fn from(asked: u64) -> Self {
        Self { ms: asked, asked }
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

/// `key ttl[@unix-ms] element id [NX | REPLACE] [SLACK ms] [AT unix-ms [DELIVERIES n [TOKEN token]]]`
pub struct Push<'a> {
    pub key: Str<'a>,
    pub ttl: Ttl,
    pub element: Str<'a>,
    pub id: Str<'a>,
    pub if_there: IfThere,
    /// The deadline, when it is not to be `ttl` from now.
    pub at: Option<u64>,
    /// How often it was given out under a lease: the append-only file says so, with AT.
    pub deliveries: u16,
    /// Under which token.
    pub token: Option<Token>,
}

impl<'a> Push<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let timer = Timer::parse(required(args, 2)?)?;
        let mut request = Self {
            key: required(args, 1)?,
            element: required(args, 3)?,
            id: required(args, 4)?,
            ttl: timer.ttl.into(),
            if_there: IfThere::Refuse,
            at: timer.deadline,
            deliveries: 0,
            token: None,
        };
        let mut slack = None;
        let mut options = Options::new(args, 5);
        while let Some(option) = options.next() {
            match option.name() {
                b"NX" if request.if_there == IfThere::Refuse => request.if_there = IfThere::Keep,
                b"REPLACE" if request.if_there == IfThere::Refuse => {
                    request.if_there = IfThere::Replace;
                }
                b"SLACK" if slack.is_none() => slack = Some(options.milliseconds("SLACK")?),
                b"AT" if request.at.is_none() => request.at = Some(options.deadline()?),
                b"DELIVERIES" if request.at.is_some() && request.deliveries == 0 => {
                    request.deliveries = options.deliveries()?;
                }
                b"TOKEN" if request.deliveries > 0 && request.token.is_none() => {
                    request.token = Some(options.token()?);
                }
                _ => return Err(option.unexpected()),
            }
        }
        if request.at.is_none() {
            request.ttl = request.ttl.with_slack(slack.or_else(config::default_slack))?;
        } else if slack.is_some() {
            return Err("syntax error, SLACK and AT exclude each other".into());
        }
        Ok(request)
    }
}

/// `key ttl element [SLACK ms]`
pub struct GidPush<'a> {
    pub key: Str<'a>,
    pub ttl: Ttl,
    pub element: Str<'a>,
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
            match option.name() {
                b"SLACK" if slack.is_none() => slack = Some(options.milliseconds("SLACK")?),
                _ => return Err(option.unexpected()),
            }
        }
        request.ttl = request.ttl.with_slack(slack.or_else(config::default_slack))?;
        Ok(request)
    }
}

/// `key ttl element id [ttl element id ...]`
pub struct MultiPush<'a> {
    pub key: Str<'a>,
    /// TTL, element, id.
    pub elements: Vec<(Ttl, Str<'a>, Str<'a>)>,
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
