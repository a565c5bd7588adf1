//! From argument vectors to typed requests. Every syntax error is said here, before anything is
//! opened.

use crate::lawn::DEADLINE_MAX;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

/// `key`
pub struct OfKey<'a> {
    pub key: Str<'a>,
}

/// `key id`
pub struct OfId<'a> {
    pub key: Str<'a>,
    pub id: &'a [u8],
}

/// `key id [id ...]`
pub struct OfIds<'a> {
    pub key: Str<'a>,
    args: Args<'a>,
}

/// `key ttl element id [AT unix-ms]`
pub struct Push<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub element: &'a [u8],
    pub id: &'a [u8],
    /// The deadline, when it is not to be `ttl` from now.
    pub at: Option<u64>,
}

/// `key ttl element`
pub struct GidPush<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub element: &'a [u8],
}

/// `key id element`
pub struct Update<'a> {
    pub key: Str<'a>,
    pub id: &'a [u8],
    pub element: &'a [u8],
}

impl<'a> OfKey<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        no_options(args, 2)?;
        Ok(Self { key })
    }
}

impl<'a> OfId<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let [key, id] = exactly(args)?;
        Ok(Self { key, id: id.bytes() })
    }
}

impl<'a> OfIds<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 2)?;
        Ok(Self { key: required(args, 1)?, args })
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.args.from(2).map(Str::bytes)
    }
}

impl<'a> Push<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut request = Self {
            key: required(args, 1)?,
            element: required(args, 3)?.bytes(),
            id: required(args, 4)?.bytes(),
            ttl: ttl(required(args, 2)?)?,
            at: None,
        };
        let mut options = args.from(5);
        while let Some(option) = options.next() {
            if option.bytes().eq_ignore_ascii_case(b"AT") && request.at.is_none() {
                let value = options.next().ok_or("AT needs a time in unix milliseconds")?;
                let at = number(value.bytes()).ok_or(
                    "AT is not a whole number of unix milliseconds from 0 to 9223372036854775807",
                )?;
                request.at = Some(at);
            } else {
                return Err(unexpected(option));
            }
        }
        Ok(request)
    }
}

impl<'a> GidPush<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let request = Self {
            key: required(args, 1)?,
            element: required(args, 3)?.bytes(),
            ttl: ttl(required(args, 2)?)?,
        };
        no_options(args, 4)?;
        Ok(request)
    }
}

impl<'a> Update<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let [key, id, element] = exactly(args)?;
        Ok(Self { key, id: id.bytes(), element: element.bytes() })
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

/// Where a command's options would stand, and there are none yet.
fn no_options(args: Args<'_>, from: usize) -> Result {
    args.from(from).next().map_or(Ok(()), |option| Err(unexpected(option)))
}

fn unexpected(option: Str<'_>) -> Error {
    /// No more of what a client sent is sent back to it.
    const SHOWN: usize = 32;
    let bytes = option.bytes();
    let shown = &bytes[..bytes.len().min(SHOWN)];
    format!("syntax error, unexpected '{}'", shown.escape_ascii()).into()
}

/// Whether now plus this fits is known when the clock is read.
fn ttl(arg: Str<'_>) -> Result<u64> {
    number(arg.bytes()).ok_or_else(|| {
        "ttl is not a whole number of milliseconds from 0 to 9223372036854775807".into()
    })
}

/// A decimal number up to 2^63 - 1, written as the server writes numbers: digits alone, no sign, no
/// space, no leading zero.
fn number(bytes: &[u8]) -> Option<u64> {
    let is_canonical = bytes == b"0" || !bytes.starts_with(b"0");
    if bytes.is_empty() || !is_canonical {
        return None;
    }
    let number = bytes.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })?;
    (number <= DEADLINE_MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_the_server_would_write() {
        for good in [0, 1, 9, 10, 1000, DEADLINE_MAX - 1, DEADLINE_MAX] {
            assert_eq!(number(good.to_string().as_bytes()), Some(good));
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
            "9223372036854775808",
            "18446744073709551616",
            "100000000000000000000000000000",
        ];
        for bad in bad {
            assert_eq!(number(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(number(b"1\0"), None);
    }
}
