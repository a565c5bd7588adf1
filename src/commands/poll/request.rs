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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_poll_takes_a_count_a_timeout_and_a_lease() {
        needs_all_of("k", only!(parse_poll));
        let poll = |args: Args<'_>| {
            let (key, block, take) = parse_poll(args)?;
            Ok((text(key), block, (take.count, take.lease, take.with_ids)))
        };
        let token = |line: &str| request(line, |args| Ok(parse_poll(args)?.2.token));
        assert_eq!(token("k LEASE 5"), Ok(None));
        assert_eq!(token("k TOKEN 7 LEASE 5"), Ok(Token::new(7)));
        assert_eq!(token("k LEASE 5 token mine"), Ok(Some(Token::of_word(b"mine"))));
        let polled = |block, take| Ok(("k".into(), block, take));
        assert_eq!(request("k", poll), polled(None, (usize::MAX, None, false)));
        assert_eq!(request("k COUNT 1", poll), polled(None, (1, None, false)));
        assert_eq!(request("k BLOCK 0", poll), polled(Some(0), (usize::MAX, None, false)));
        assert_eq!(request("k withids", poll), polled(None, (usize::MAX, None, true)));
        let all = polled(Some(7), (3, Some(1), false));
        assert_eq!(request("k COUNT 3 BLOCK 7 LEASE 1", poll), all);
        assert_eq!(request("k LEASE 1 BLOCK 7 COUNT 3", poll), all);
        refuses_each(
            "k COUNT; k COUNT 0; k COUNT -1; k COUNT 1 COUNT 1; k BLOCK; k BLOCK -1; k BLOCK 0.5; \
             k BLOCK 1 BLOCK 1; k LEASE; k LEASE 0; k LEASE x; k LEASE 1 LEASE 1; k WITHIDS WITHIDS; k TOKEN 7; \
             k LEASE 5 TOKEN; k LEASE 5 TOKEN 7 TOKEN 7; k LEASE 5 TOKEN 4611686018427387904; k LEASE 5 TOKEN Reason; k 5; \
             k LEASE 5 WITHIDS; k WITHIDS LEASE 5 TOKEN 7"
                .split("; "),
            only!(parse_poll),
        );
    }

    #[test]
    fn an_mpoll_lists_its_keys_and_takes_the_options_of_poll() {
        needs_all_of("1 k", only!(parse_mpoll));
        let mpoll = |args: Args<'_>| {
            let (keys, block, take) = parse_mpoll(args)?;
            let keys = keys.into_iter().map(text).collect::<Vec<_>>().join(" ");
            Ok((keys, block, (take.count, take.lease, take.with_ids)))
        };
        let polled = |keys: &str, block, take| Ok((keys.to_owned(), block, take));
        assert_eq!(request("1 k", mpoll), polled("k", None, (usize::MAX, None, false)));
        assert_eq!(request("3 a b a", mpoll), polled("a b", None, (usize::MAX, None, false)));
        let all = polled("b COUNT", Some(7), (3, Some(1), false));
        assert_eq!(request("2 b COUNT COUNT 3 BLOCK 7 LEASE 1", mpoll), all);
        refuses_each(
            "0 k; -1 k; 01 k; k k; 2 k; 1 k k; 9223372036854775807 k; 1 k TOKEN 7".split("; "),
            only!(parse_mpoll),
        );
    }
}
