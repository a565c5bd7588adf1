//! What POLL, MPOLL, XPOLL and LEASE ask for.

use ahash::RandomState;
use hashbrown::HashSet;

use crate::config;
use crate::pending::Take;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};
use lawn::Token;

use super::number::counted;
use super::options::Options;
use super::required;
use super::timer::Timer;
use super::token::chosen;

/// `key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]`
pub struct Poll<'a> {
    pub key: Str<'a>,
    /// How long to wait for something to come due, in milliseconds; 0: for ever.
    pub block: Option<u64>,
    pub take: Take,
    /// The token, as the client wrote it that has chosen it.
    pub word: Option<Str<'a>>,
}

impl<'a> Poll<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let (block, take, word) = how(args, 2)?;
        Ok(Self { key: required(args, 1)?, block, take, word })
    }
}

/// `numkeys key [key ...]`, and what POLL has behind its key.
pub struct MPoll<'a> {
    /// At least one, all different, in the order in which they are asked.
    pub keys: Vec<Str<'a>>,
    pub block: Option<u64>,
    pub take: Take,
    pub word: Option<Str<'a>>,
}

impl<'a> MPoll<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let numkeys = numkeys(args)?;
        let mut keys: Vec<_> = args.from(2).take(numkeys).collect();
        let mut seen = HashSet::with_capacity_and_hasher(numkeys, RandomState::new());
        keys.retain(|key| seen.insert(key.bytes()));
        let (block, take, word) = how(args, 2 + numkeys)?;
        Ok(Self { keys, block, take, word })
    }
}

/// Returns how many keys follow behind `numkeys`. They are there.
pub fn numkeys(args: Args<'_>) -> Result<usize> {
    required(args, 2)?;
    counted("numkeys", "keys", args, 1)
}

/// Reads `[COUNT n] [BLOCK ms] [LEASE ms [TOKEN token]] [WITHIDS]`, from this argument on.
fn how(args: Args<'_>, from: usize) -> Result<(Option<u64>, Take, Option<Str<'_>>)> {
    let (mut count, mut block, mut with_ids) = (None, None, false);
    let (mut lease, mut word) = (None, None);
    let mut options = Options::new(args, from);
    while let Some(option) = options.next() {
        match option.name() {
            b"COUNT" if count.is_none() => count = Some(options.count()?),
            b"BLOCK" if block.is_none() => block = Some(options.milliseconds("BLOCK")?),
            b"LEASE" if lease.is_none() => lease = Some(options.lease()?),
            b"TOKEN" if word.is_none() => word = Some(options.value("TOKEN")?),
            b"WITHIDS" if !with_ids => with_ids = true,
            _ => return Err(option.unexpected()),
        }
    }
    let token = word.map(|word| chosen(word.bytes())).transpose()?;
    if token.is_some() && lease.is_none() {
        return Err("syntax error, TOKEN needs LEASE".into());
    }
    let count = count.unwrap_or(usize::MAX).min(config::reply_max());
    Ok((block, Take { count, with_ids, lease, token }, word))
}

/// `key ttl@unix-ms@token id [id ...]`, or, as earlier versions said it, `key ttl [TOKEN token] AT unix-ms id [id ...]`
pub struct Lease<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub token: Option<Token>,
    pub deadline: u64,
    args: Args<'a>,
    /// Where the ids begin.
    from: usize,
}

impl<'a> Lease<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let key = required(args, 1)?;
        let Timer { ttl, deadline, mut token } = Timer::parse_lease(required(args, 2)?)?;
        if let Some(deadline) = deadline {
            return Ok(Self { key, ttl, token, deadline, args, from: 3 });
        }
        required(args, 5)?;
        let mut from = 5;
        let mut options = Options::new(args, 3);
        let mut option = options.next().ok_or(Error::Arity)?;
        // Before AT, behind which any word is an id.
        if option.name() == b"TOKEN" {
            (token, from) = (Some(options.token()?), 7);
            required(args, from)?;
            option = options.next().ok_or(Error::Arity)?;
        }
        if option.name() != b"AT" {
            return Err(option.unexpected());
        }
        Ok(Self { key, ttl, token, deadline: options.deadline()?, args, from })
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.from(self.from).map(Str::bytes)
    }
}

/// `key [COUNT n]`
pub struct XPoll<'a> {
    pub key: Str<'a>,
    pub count: usize,
}

impl<'a> XPoll<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut count = None;
        let mut options = Options::new(args, 2);
        while let Some(option) = options.next() {
            match option.name() {
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                _ => return Err(option.unexpected()),
            }
        }
        let count = count.unwrap_or(usize::MAX).min(config::reply_max());
        Ok(Self { key: required(args, 1)?, count })
    }
}
