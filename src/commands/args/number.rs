//! Numbers, and the error for a word that is not one. Tokens of leases, which are mostly numbers.

use crate::server::string::{Args, NotNumber, number};
use crate::server::{Error, error::Result};
use lawn::Token;

use super::required;
use super::shown;

/// Reads milliseconds. Whether now + ms fits is checked after the clock is read.
pub fn milliseconds(name: &str, word: &[u8]) -> Result<u64> {
    let wanted = "a whole number of milliseconds from 0 on";
    number(word).map_err(|error| not_number(error, name, word, wanted))
}

/// Reads a moment.
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

/// Returns the token for a word. Any word is valid, because clients may choose their own.
pub fn token(word: &[u8]) -> Result<Token> {
    if word.is_empty() {
        return Err("TOKEN must not be empty".into());
    }
    // Tokens that the server draws are numbers, which are used as they are.
    let number = number(word).ok().and_then(Token::new);
    Ok(number.unwrap_or_else(|| Token::of_word(word)))
}
