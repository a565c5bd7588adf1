//! Parsing argument vectors into typed requests: the parts that several commands share. The request of a single command is
//! beside its handler, and is parsed before a key is opened.
//!
//! | module | contents |
//! |---|---|
//! | this file | requests with a fixed number of words, or a key and ids; numbers, and tokens of leases, which are mostly numbers; a client's word, as errors quote it |
//! | `options` | the options at the end of a command, and those of PUSH, GIDPUSH and MPUSH |
//!
//! Checks that need the clock, such as whether now + ttl fits, are in [`checks`](super::checks).

pub mod options;

use crate::server::string::{Args, NotNumber, number};
use crate::server::{Error, Str, error::Result};
use lawn::Token;

/// Reads exactly `N` arguments after the command's name.
pub fn exactly<'a, const N: usize>(args: Args<'a>) -> Result<[Str<'a>; N]> {
    let mut words = [required(args, 0)?; N];
    for (word, at) in words.iter_mut().zip(1..) {
        *word = required(args, at)?;
    }
    if args.len() == N + 1 { Ok(words) } else { Err(Error::Arity) }
}

/// Reads `key id [id ...]`.
pub fn key_and_ids<'a>(args: Args<'a>) -> Result<(Str<'a>, impl Iterator<Item = Str<'a>> + Clone)> {
    required(args, 2)?;
    Ok((required(args, 1)?, args.from(2)))
}

/// Returns the printable form of a word that a client sent, cut after 32 bytes.
pub fn shown(word: &[u8]) -> String {
    const SHOWN: usize = 32;
    match word.get(..SHOWN) {
        Some(start) if word.len() > SHOWN => format!("{}...", start.escape_ascii()),
        _ => word.escape_ascii().to_string(),
    }
}

/// Returns the argument at this index.
pub fn required<'a>(args: Args<'a>, at: usize) -> Result<Str<'a>> {
    args.get(at).ok_or(Error::Arity)
}

/// Reads milliseconds. Whether now + ms fits is checked after the clock is read.
pub fn milliseconds(name: &str, word: &[u8]) -> Result<u64> {
    let wanted = "a whole number of milliseconds from 0 on";
    number(word).map_err(|error| not_number(error, name, word, wanted))
}

pub fn moment(name: &str, word: &[u8]) -> Result<u64> {
    let wanted = "a whole number of unix milliseconds from 0 on";
    number(word).map_err(|error| not_number(error, name, word, wanted))
}

/// Returns the error for a client that sent `word` as `name`, where `wanted` was expected.
pub fn not_number(error: NotNumber, name: &str, word: &[u8], wanted: &str) -> Error {
    let word = shown(word);
    match error {
        NotNumber::TooLarge if name == "ttl" => {
            format!("ttl '{word}' is too large: now + ttl must fit in 63 bits").into()
        }
        NotNumber::TooLarge => {
            format!("{name} '{word}' is too large: it must fit in 63 bits").into()
        }
        NotNumber::Other => format!("{name} '{word}' is not {wanted}").into(),
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
    number.map_err(|error| not_number(error, name, word, wanted))
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

/// Words that no client may choose as a token: options that can follow tokens and ids.
pub const TOKENS_OF_NOBODY: [&[u8]; 3] = [b"UNCOUNTED", b"ELEMENT", b"REASON"];

/// Returns the token for a word. Any word is valid, because clients may choose their own.
pub fn token(word: &[u8]) -> Result<Token> {
    if word.is_empty() {
        return Err("TOKEN must not be empty".into());
    }
    // Tokens that the server draws are numbers, which are used as they are.
    let number = number(word).ok().and_then(Token::new);
    Ok(number.unwrap_or_else(|| Token::of_word(word)))
}
