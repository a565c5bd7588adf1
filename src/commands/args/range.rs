//! What RANGE and LOOK ask for.

use crate::config;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};
use lawn::{DEADLINE_MAX, Start};

use super::number::number;
use super::options::Options;
use super::required;
use super::word::shown;

/// Where a RANGE begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beginning {
    pub start: Start,
    /// Of which dehydrator the number in `start` is.
    pub serial: Option<u64>,
}

/// `key start end [COUNT n] [WITHELEMENTS] [WITHTOKENS]`
pub struct Range<'a> {
    pub key: Str<'a>,
    /// `None`: nothing is that late.
    pub from: Option<Beginning>,
    /// `None`: nothing is that early.
    pub end: Option<u64>,
    pub count: usize,
    pub with_elements: bool,
    pub with_tokens: bool,
}

impl<'a> Range<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let from = from(required(args, 2)?)?;
        let end = end(required(args, 3)?)?;
        let (mut count, mut with_elements, mut with_tokens) = (None, false, false);
        let mut options = Options::new(args, 4);
        while let Some(option) = options.next() {
            match option.name() {
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                b"WITHELEMENTS" if !with_elements => with_elements = true,
                b"WITHTOKENS" if !with_tokens => with_tokens = true,
                _ => return Err(option.unexpected()),
            }
        }
        let count = count.unwrap_or(usize::MAX).min(config::reply_max());
        Ok(Self { key: required(args, 1)?, from, end, count, with_elements, with_tokens })
    }
}

/// Reads `-`, `+`, a moment, `(` and a moment, or where an earlier RANGE ended.
fn from(word: Str<'_>) -> Result<Option<Beginning>> {
    let at = |deadline| Some(Beginning { start: Start { deadline, behind: None }, serial: None });
    let bytes = word.bytes();
    match bytes {
        b"-" => return Ok(at(0)),
        b"+" => return Ok(at(DEADLINE_MAX)),
        _ => {}
    }
    let invalid = || refusal("start", bytes);
    let Some(behind) = bytes.strip_prefix(b"(") else {
        return number(bytes).map(at).map_err(|_| invalid());
    };
    let mut numbers = behind.splitn(3, |byte| *byte == b'-').map(number);
    let mut next = || numbers.next().transpose().map_err(|_| invalid());
    let deadline = next()?.ok_or_else(invalid)?;
    match (next()?, next()?) {
        (None, _) => Ok((deadline < DEADLINE_MAX).then_some(deadline + 1).and_then(at)),
        (Some(number), Some(serial)) => {
            let start = Start { deadline, behind: Some(number) };
            Ok(Some(Beginning { start, serial: Some(serial) }))
        }
        (Some(_), None) => Err(invalid()),
    }
}

/// Reads `+`, `-`, a moment, or `(` and a moment.
fn end(word: Str<'_>) -> Result<Option<u64>> {
    let bytes = word.bytes();
    let invalid = |_| refusal("end", bytes);
    match (bytes, bytes.strip_prefix(b"(")) {
        (b"+", _) => Ok(Some(DEADLINE_MAX)),
        (b"-", _) => Ok(Some(0)),
        (_, Some(bytes)) => Ok(number(bytes).map_err(invalid)?.checked_sub(1)),
        (_, None) => Ok(Some(number(bytes).map_err(invalid)?)),
    }
}

fn refusal(name: &str, word: &[u8]) -> Error {
    let wanted = if name == "start" {
        "-, +, a whole number of unix milliseconds, or where a RANGE ended"
    } else {
        "-, + or a whole number of unix milliseconds"
    };
    format!("{name} '{}' is not {wanted}", shown(word)).into()
}

/// `key id [FULL]`
pub struct Look<'a> {
    pub key: Str<'a>,
    pub id: &'a [u8],
    pub full: bool,
}

impl<'a> Look<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut request =
            Self { key: required(args, 1)?, id: required(args, 2)?.bytes(), full: false };
        let mut options = Options::new(args, 3);
        while let Some(option) = options.next() {
            match option.name() {
                b"FULL" if !request.full => request.full = true,
                _ => return Err(option.unexpected()),
            }
        }
        Ok(request)
    }
}
