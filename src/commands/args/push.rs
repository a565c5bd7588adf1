//! What PUSH, GIDPUSH and MPUSH ask for.

use crate::config;
use crate::server::string::Args;
use crate::server::{Str, error::Result};
use lawn::Token;

use super::number::{ttl, with_slack};
use super::options::{Opt, Options};
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

/// `[NX | REPLACE] [SLACK ms] [AT unix-ms]`, in any order: what PUSH and MPUSH have behind their elements.
struct How {
    if_there: IfThere,
    slack: Option<u64>,
    at: Option<u64>,
}

const NX_OR_REPLACE: &str = "syntax error, NX and REPLACE exclude each other";

impl How {
    /// Reads an option. Returns `false` if it is none of these, or there already.
    fn read<'a>(&mut self, option: &Opt<'a>, options: &mut Options<'a>) -> Result<bool> {
        match option.name() {
            b"NX" if self.if_there == IfThere::Refuse => self.if_there = IfThere::Keep,
            b"REPLACE" if self.if_there == IfThere::Refuse => self.if_there = IfThere::Replace,
            b"NX" if self.if_there == IfThere::Replace => return Err(NX_OR_REPLACE.into()),
            b"REPLACE" if self.if_there == IfThere::Keep => return Err(NX_OR_REPLACE.into()),
            b"SLACK" if self.slack.is_none() => self.slack = Some(options.milliseconds("SLACK")?),
            b"AT" if self.at.is_none() => self.at = Some(options.deadline()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns whether a word is the name of one.
    fn is_one(word: Str<'_>) -> bool {
        let names: [&[u8]; 4] = [b"NX", b"REPLACE", b"SLACK", b"AT"];
        names.iter().any(|name| word.bytes().eq_ignore_ascii_case(name))
    }

    /// Works the slack into a TTL: what is said, or what the operator has set, but none where the deadline is said.
    fn with_slack(&self, ttl: Ttl) -> Result<Ttl> {
        match (self.at, self.slack) {
            (Some(_), Some(_)) => Err("syntax error, SLACK and AT exclude each other".into()),
            (Some(_), None) => Ok(ttl),
            (None, slack) => ttl.with_slack(slack.or_else(config::default_slack)),
        }
    }
}

/// `key ttl[@unix-ms] element id [NX | REPLACE] [SLACK ms] [AT unix-ms]`, and, in replication,
/// `[DELIVERIES n [TOKEN token]]`.
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
        let (element, id) = (required(args, 3)?, required(args, 4)?);
        let mut how = How { if_there: IfThere::Refuse, slack: None, at: timer.deadline };
        let (mut deliveries, mut token) = (0, None);
        let mut options = Options::new(args, 5);
        while let Some(option) = options.next() {
            match option.name() {
                b"DELIVERIES" if deliveries == 0 => deliveries = options.deliveries()?,
                b"TOKEN" if token.is_none() => token = Some(options.token()?),
                _ if how.read(&option, &mut options)? => {}
                _ => return Err(option.unexpected()),
            }
        }
        if deliveries > 0 && how.at.is_none() {
            return Err("syntax error, DELIVERIES needs AT".into());
        }
        if token.is_some() && deliveries == 0 {
            return Err("syntax error, TOKEN needs DELIVERIES".into());
        }
        let ttl = how.with_slack(timer.ttl.into())?;
        let How { if_there, at, .. } = how;
        Ok(Self { key: required(args, 1)?, ttl, element, id, if_there, at, deliveries, token })
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

/// `key ttl element id [ttl element id ...] [NX | REPLACE] [SLACK ms] [AT unix-ms]`
pub struct MultiPush<'a> {
    pub key: Str<'a>,
    pub elements: Vec<Listed<'a>>,
    pub if_there: IfThere,
    /// The deadline of all of them, when it is not to be their ttl from now.
    pub at: Option<u64>,
}

/// An element among several that are put away.
#[derive(Clone, Copy)]
pub struct Listed<'a> {
    pub ttl: Ttl,
    pub element: Str<'a>,
    pub id: Str<'a>,
}

impl<'a> MultiPush<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 4)?;
        let key = required(args, 1)?;
        let mut elements = Vec::with_capacity(args.len() / 3);
        let mut at = 2;
        // Where a ttl is to stand no option is taken for one.
        while let Some(word) = args.get(at).filter(|word| at == 2 || !How::is_one(*word)) {
            let (element, id) = (required(args, at + 1)?, required(args, at + 2)?);
            elements.push(Listed { ttl: Ttl::parse(word)?, element, id });
            at += 3;
        }
        let mut how = How { if_there: IfThere::Refuse, slack: None, at: None };
        let mut options = Options::new(args, at);
        while let Some(option) = options.next() {
            if !how.read(&option, &mut options)? {
                return Err(option.unexpected());
            }
        }
        for listed in &mut elements {
            listed.ttl = how.with_slack(listed.ttl)?;
        }
        Ok(Self { key, elements, if_there: how.if_there, at: how.at })
    }
}
