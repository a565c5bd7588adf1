//! Which request each line of words makes, and which words make none. What a client is told of those is for the tests
//! with servers, but for the number of words, which the server itself words.

use crate::server::fake::with_args;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

/// Reads a line, its words parted by single spaces.
pub fn request<T>(line: &str, parse: impl FnOnce(Args<'_>) -> Result<T>) -> Result<T> {
    let words: Vec<&[u8]> =
        line.split(' ').map(str::as_bytes).filter(|word| !word.is_empty()).collect();
    with_args(&words, parse)
}

/// Whether it is a request.
macro_rules! only {
    ($request:ident) => {
        |args: $crate::server::string::Args<'_>| $request::parse(args).map(|_| ())
    };
}
pub(crate) use only;

pub fn text(word: Str<'_>) -> String {
    String::from_utf8(word.bytes().to_vec()).expect("our own words")
}

/// Every start of a line that is too short to be a request is refused as such.
pub fn needs_all_of(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    let words: Vec<_> = line.split(' ').collect();
    for kept in 0..words.len() {
        let error = request(&words[..kept].join(" "), &parse).err();
        assert_eq!(error, Some(Error::Arity), "{kept} words of {line}");
    }
    assert!(request(line, &parse).is_ok(), "{line}");
}

/// Refused, and not because of the number of words.
pub fn refuses_each(lines: &[&str], parse: impl Fn(Args<'_>) -> Result) {
    for line in lines {
        let error = request(line, &parse).err();
        assert!(matches!(error, Some(Error::Refused(_))), "{line}: {error:?}");
    }
}

/// A line that is a request is none with a word more.
pub fn takes_no_more(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    assert_eq!(request(&format!("{line} more"), parse).err(), Some(Error::Arity), "{line} more");
}
