//! A TTL and its deadline in one argument, as effects replicate them.
//!
//! An argument costs the server some 800 instructions in the append-only file alone, and its length to each replica.

use crate::server::{Str, error::Result};
use lawn::Token;

use super::number::{milliseconds, number, token};

/// Separates the numbers.
const SIGN: u8 = b'@';

/// `ttl`, or `ttl@unix-ms`.
pub struct TimerWord {
    /// In milliseconds.
    pub ttl: u64,
    /// In milliseconds since the epoch, if present.
    pub deadline: Option<u64>,
}

impl TimerWord {
    pub fn parse(word: Str<'_>) -> Result<Self> {
        let (ttl, rest) = cut(word.bytes());
        let deadline = rest.map(|rest| deadline(word, rest)).transpose()?;
        Ok(Self { ttl: milliseconds("ttl", ttl)?, deadline })
    }
}

/// Reads `ttl@unix-ms@token`.
pub fn parse_lease(word: Str<'_>) -> Result<(u64, u64, Token)> {
    let (ttl, rest) = cut(word.bytes());
    let ttl = milliseconds("ttl", ttl)?;
    let (at, rest) = rest.map_or((&[][..], None), cut);
    let token = token(rest.ok_or("LEASE needs ttl@unix-ms@token")?)?;
    Ok((ttl, deadline(word, at)?, token))
}

/// Splits a word at the first sign, if there is one.
fn cut(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    let sign = word.iter().position(|byte| *byte == SIGN);
    sign.map_or((word, None), |at| (&word[..at], Some(&word[at + 1..])))
}

fn deadline(word: Str<'_>, at: &[u8]) -> Result<u64> {
    let wanted = "a whole number of milliseconds, '@', and a whole number of unix milliseconds";
    number(at).map_err(|error| error.of("ttl", word.bytes(), wanted))
}
