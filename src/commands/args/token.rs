//! Tokens of leases, as clients write them.

use crate::server::error::Result;
use lawn::Token;

use super::number::number;

/// Returns the token for a word. Any word is valid, because clients may choose their own.
pub fn token(word: &[u8]) -> Result<Token> {
    if word.is_empty() {
        return Err("TOKEN must not be empty".into());
    }
    // Tokens that the server draws, and tokens in effects, are numbers, which are used as they are.
    let number = number(word).ok().and_then(Token::new);
    Ok(number.unwrap_or_else(|| Token::of_word(word)))
}

/// Like [`token`], for the token of a new lease.
///
/// # Errors
///
/// If it looks like a token of the server: elements held under those are not found again. If it is too long: it is replied
/// with each element.
pub fn chosen(word: &[u8]) -> Result<Token> {
    const LONGEST: usize = 255;
    if word.len() > LONGEST {
        return Err(format!("TOKEN '{}' is longer than {LONGEST} bytes", super::shown(word)).into());
    }
    let token = token(word)?;
    if token.is_chosen() {
        return Ok(token);
    }
    let word = super::shown(word);
    Err(format!("TOKEN '{word}' is one of the server's own: numbers must be below 2^62").into())
}
