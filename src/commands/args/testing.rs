//! Helpers for tests of parsing: which request a line of words makes, and which lines are refused. The texts of errors are
//! tested with servers, except for arity errors, whose text is the server's.

use crate::server::fake::with_args;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

/// Parses a line of words separated by single spaces.
pub fn request<T>(line: &str, parse: impl FnOnce(Args<'_>) -> Result<T>) -> Result<T> {
    let words: Vec<&[u8]> =
        line.split(' ').map(str::as_bytes).filter(|word| !word.is_empty()).collect();
    with_args(&words, parse)
}

/// Parses a request and drops it.
macro_rules! only {
    ($parse:path) => {
        |args: $crate::server::string::Args<'_>| $parse(args).map(|_| ())
    };
}
pub(crate) use only;

pub fn text(word: Str<'_>) -> String {
    String::from_utf8(word.bytes().to_vec()).expect("our own words")
}

/// Asserts that every shorter start of a line is an arity error.
pub fn needs_all_of(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    let words: Vec<_> = line.split(' ').collect();
    for kept in 0..words.len() {
        let error = request(&words[..kept].join(" "), &parse).err();
        assert_eq!(error, Some(Error::Arity), "{kept} words of {line}");
    }
    assert!(request(line, &parse).is_ok(), "{line}");
}

/// Asserts that each line is refused, and not for its arity.
pub fn refuses_each(
    lines: impl IntoIterator<Item: AsRef<str>>,
    parse: impl Fn(Args<'_>) -> Result,
) {
    for line in lines {
        let line = line.as_ref();
        let error = request(line, &parse).err();
        assert!(matches!(error, Some(Error::Refused(_))), "{line}: {error:?}");
    }
}

/// Asserts that one more word is an arity error.
pub fn takes_no_more(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    assert_eq!(request(&format!("{line} more"), parse).err(), Some(Error::Arity), "{line} more");
}
