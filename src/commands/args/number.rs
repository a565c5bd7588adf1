//! Numbers, and the error for a word that is not one. Tokens of leases, which are mostly numbers. A TTL and its deadline in
//! one argument, as effects replicate them: an argument costs the server some 800 instructions in the append-only file
//! alone, and its length to each replica.

use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};
use lawn::{DEADLINE_MAX, Token};

use super::required;
use super::shown;

/// Reads milliseconds. Whether now + ms fits is checked after the clock is read.
pub fn milliseconds(name: &str, word: &[u8]) -> Result<u64> {
    number(word).map_err(|error| error.of(name, word, "a whole number of milliseconds from 0 on"))
}

/// Reads a moment.
pub fn moment(name: &str, word: &[u8]) -> Result<u64> {
    let wanted = "a whole number of unix milliseconds from 0 on";
    number(word).map_err(|error| error.of(name, word, wanted))
}

/// The reason why a word is not a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotNumber {
    /// The number does not fit in 63 bits.
    TooLarge,
    Other,
}

impl NotNumber {
    /// Returns the error for a client that sent `word` as `name`, where `wanted` was expected.
    pub fn of(self, name: &str, word: &[u8], wanted: &str) -> Error {
        let word = shown(word);
        match self {
            Self::TooLarge if name == "ttl" => {
                format!("ttl '{word}' is too large: now + ttl must fit in 63 bits").into()
            }
            Self::TooLarge => {
                format!("{name} '{word}' is too large: it must fit in 63 bits").into()
            }
            Self::Other => format!("{name} '{word}' is not {wanted}").into(),
        }
    }
}

/// The words for a number of at least 1 in errors.
pub const FROM_1: &str = "a whole number from 1 on";
pub const MS_FROM_1: &str = "a whole number of milliseconds from 1 on";
pub const UNIX_MS_FROM_1: &str = "a whole number of unix milliseconds from 1 on";

/// Reads a number of at least 1.
pub fn positive(name: &str, word: &[u8], wanted: &str) -> Result<u64> {
    let number =
        number(word).and_then(|number| if number > 0 { Ok(number) } else { Err(NotNumber::Other) });
    number.map_err(|error| error.of(name, word, wanted))
}

/// Reads the number of words that follow, and checks that they are present.
pub fn counted(name: &str, nouns: &str, args: Args<'_>, at: usize) -> Result<usize> {
    let word = required(args, at)?.bytes();
    let number = positive(name, word, FROM_1)?;
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if args.from(at + 1).take(number).count() < number {
        let word = shown(word);
        return Err(format!("{name} '{word}' is greater than the number of {nouns}").into());
    }
    Ok(number)
}

/// Returns the token for a word. Any word is valid, because clients may choose their own.
pub fn token(word: &[u8]) -> Result<Token> {
    if word.is_empty() {
        return Err("TOKEN must not be empty".into());
    }
    // Tokens that the server draws, and tokens in effects, are numbers, which are used as they are.
    let number = number(word).ok().and_then(Token::new);
    Ok(number.unwrap_or_else(|| Token::of_word(word)))
}

/// Reads a decimal number up to 2^63 - 1, written as the server writes numbers: digits alone, no sign, no space, no
/// leading zero.
pub fn number(bytes: &[u8]) -> std::result::Result<u64, NotNumber> {
    let is_canonical = bytes == b"0" || !bytes.starts_with(b"0");
    if bytes.is_empty() || !is_canonical || !bytes.iter().all(u8::is_ascii_digit) {
        return Err(NotNumber::Other);
    }
    // By hand, because the standard library takes up to 300 instructions more for each number of each command.
    let mut number = 0_u64;
    for digit in bytes {
        // So the next step stays far below 2^64.
        if number > DEADLINE_MAX / 10 {
            return Err(NotNumber::TooLarge);
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    if number <= DEADLINE_MAX { Ok(number) } else { Err(NotNumber::TooLarge) }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_the_server_would_write() {
        for good in [0, 1, 9, 10, 1000, DEADLINE_MAX - 1, DEADLINE_MAX] {
            assert_eq!(number(good.to_string().as_bytes()), Ok(good));
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
            "9223372036854775808x",
        ];
        for bad in bad {
            assert_eq!(number(bad.as_bytes()), Err(NotNumber::Other), "{bad:?}");
        }
        assert_eq!(number(b"1\0"), Err(NotNumber::Other));
        for large in
            ["9223372036854775808", "18446744073709551616", "100000000000000000000000000000"]
        {
            assert_eq!(number(large.as_bytes()), Err(NotNumber::TooLarge), "{large:?}");
        }
    }
}
