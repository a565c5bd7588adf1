//! What SETTLE, RENEW and RELEASE ask for.

use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};
use lawn::Token;

use super::number::{back_off, number, ttl};
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
    pub held: HeldList<'a>,
}

impl<'a> Settle<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        Ok(Self { key: required(args, 1)?, held: HeldList::parse(args, 2)? })
    }
}

/// `key unix-ms id [id ...]`
pub struct Settled<'a> {
    pub key: Str<'a>,
    /// Until when the ids are remembered.
    pub until: u64,
    args: Args<'a>,
}

impl<'a> Settled<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let until = required(args, 2)?.bytes();
        let wanted = "a whole number of unix milliseconds from 0 on";
        let until = number(until).map_err(|error| error.of("moment", until, wanted))?;
        Ok(Self { key: required(args, 1)?, until, args })
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.from(3).map(Str::bytes)
    }
}

/// `key ttl token id [token id ...]`
pub struct Renew<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub held: HeldList<'a>,
}

impl<'a> Renew<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 4)?;
        let ttl = ttl(required(args, 2)?)?;
        Ok(Self { key: required(args, 1)?, ttl, held: HeldList::parse(args, 3)? })
    }
}

/// `key ms token id [token id ...]`
pub struct Release<'a> {
    pub key: Str<'a>,
    pub ms: u64,
    pub held: HeldList<'a>,
}

impl<'a> Release<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 4)?;
        let ms = back_off(required(args, 2)?)?;
        Ok(Self { key: required(args, 1)?, ms, held: HeldList::parse(args, 3)? })
    }
}

/// `token id [token id ...]`, read where they stand.
#[derive(Clone, Copy)]
pub struct HeldList<'a> {
    args: Args<'a>,
    from: usize,
    len: usize,
}

impl<'a> HeldList<'a> {
    fn parse(args: Args<'a>, from: usize) -> Result<Self> {
        let words = args.len().saturating_sub(from);
        if words == 0 || !words.is_multiple_of(2) {
            return Err(Error::Arity);
        }
        let list = Self { args, from, len: words / 2 };
        // A refused command changes nothing, so all of it is looked at first.
        (0..list.len).try_for_each(|at| list.get(at).map(drop))?;
        Ok(list)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn iter(self) -> impl Iterator<Item = Held<'a>> {
        (0..self.len).filter_map(move |at| self.get(at).ok())
    }

    fn get(&self, at: usize) -> Result<Held<'a>> {
        let word = required(self.args, self.from + 2 * at)?;
        let id = required(self.args, self.from + 2 * at + 1)?;
        Ok(Held { token: token(word.bytes())?, id })
    }
}
