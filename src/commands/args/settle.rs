//! What SETTLE and RENEW ask for.

use crate::lawn::Token;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

use super::number::ttl;
use super::required;
use super::token::token;

/// An element, and the token under which the client holds it.
pub struct Held<'a> {
    pub token: Token,
    pub id: Str<'a>,
}

/// `key token id [token id ...]`
pub struct Settle<'a> {
    pub key: Str<'a>,
    pub held: Vec<Held<'a>>,
}

impl<'a> Settle<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        Ok(Self { key: required(args, 1)?, held: held(args, 2)? })
    }
}

/// `key ttl token id [token id ...]`
pub struct Renew<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub held: Vec<Held<'a>>,
}

impl<'a> Renew<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 4)?;
        let ttl = ttl(required(args, 2)?)?;
        Ok(Self { key: required(args, 1)?, ttl, held: held(args, 3)? })
    }
}

fn held<'a>(args: Args<'a>, from: usize) -> Result<Vec<Held<'a>>> {
    let words: Vec<Str<'a>> = args.from(from).collect();
    let (pairs, rest) = words.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(Error::Arity);
    }
    pairs.iter().map(|[word, id]| Ok(Held { token: token(word.bytes())?, id: *id })).collect()
}
