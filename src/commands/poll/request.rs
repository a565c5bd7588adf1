//! The arguments of POLL and MPOLL.

use ahash::RandomState;
use hashbrown::HashSet;

use crate::commands::args::options::Options;
use crate::commands::args::{TOKENS_OF_NOBODY, counted, token};
use crate::commands::args::{required, shown};
use crate::config;
use crate::pending::blocked::Take;
use crate::server::string::Args;
use crate::server::{Str, error::Result};
use lawn::Token;

/// Reads `key [COUNT n] [BLOCK ms] [LEASE ms [TOKEN token] | WITHIDS]`: the key, how long to wait for an element to come due,
/// in milliseconds (0: forever), and how to take it.
pub fn parse_poll(args: Args<'_>) -> Result<(Str<'_>, Option<u64>, Take<'_>)> {
    let (block, take) = parse_options(args, 2)?;
    Ok((required(args, 1)?, block, take))
}

/// Reads `numkeys key [key ...]`, then the options of POLL. The keys are at least one, all different, in the order in which
/// they are tried.
pub fn parse_mpoll(args: Args<'_>) -> Result<(Vec<Str<'_>>, Option<u64>, Take<'_>)> {
    let numkeys = parse_numkeys(args)?;
    let mut keys: Vec<_> = args.from(2).take(numkeys).collect();
    let mut seen = HashSet::with_capacity_and_hasher(numkeys, RandomState::new());
    keys.retain(|key| seen.insert(key.bytes()));
    let (block, take) = parse_options(args, 2 + numkeys)?;
    Ok((keys, block, Take { is_named: true, ..take }))
}

/// Returns the number of keys after `numkeys`. That many arguments are guaranteed present.
pub fn parse_numkeys(args: Args<'_>) -> Result<usize> {
    required(args, 2)?;
    counted("numkeys", "keys", args, 1)
}

/// Reads `[COUNT n] [BLOCK ms] [LEASE ms [TOKEN token] | WITHIDS]`, starting at argument `from`.
fn parse_options(args: Args<'_>, from: usize) -> Result<(Option<u64>, Take<'_>)> {
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
            _ => return Err(option.unexpected_among("COUNT, BLOCK or LEASE")),
        }
    }
    if with_ids && lease.is_some() {
        return Err("syntax error, WITHIDS is not for LEASE, whose reply always has ids".into());
    }
    let word = word.map(Str::bytes);
    let token = word.map(chosen).transpose()?;
    if token.is_some() && lease.is_none() {
        return Err("syntax error, TOKEN needs LEASE".into());
    }
    let count = count.unwrap_or(usize::MAX).min(config::reply_max());
    Ok((block, Take { count, with_ids, is_named: false, lease, token, word }))
}

/// Like [`token`], for the token of a new lease.
///
/// # Errors
///
/// If it looks like a token of the server: elements held under those are not found again. If it is too long: it is replied
/// with each element.
fn chosen(word: &[u8]) -> Result<Token> {
    const LONGEST: usize = 255;
    if word.len() > LONGEST {
        return Err(format!("TOKEN '{}' is longer than {LONGEST} bytes", shown(word)).into());
    }
    if TOKENS_OF_NOBODY.iter().any(|option| word.eq_ignore_ascii_case(option)) {
        return Err(format!("TOKEN '{}' is the name of an option of RELEASE", shown(word)).into());
    }
    let token = token(word)?;
    if token.is_chosen() {
        return Ok(token);
    }
    let word = shown(word);
    Err(format!("TOKEN '{word}' is one of the server's own: numbers must be below 2^62").into())
}
