//! Which request each line of words makes, and which words make none. What a client is told of those is for the tests
//! with servers, but for the number of words, which the server itself words.

use super::*;
use crate::server::fake::with_args;

/// Reads a line, its words parted by single spaces.
fn read<T>(line: &str, parse: impl FnOnce(Args<'_>) -> Result<T>) -> Result<T> {
    let words: Vec<&[u8]> =
        line.split(' ').map(str::as_bytes).filter(|word| !word.is_empty()).collect();
    with_args(&words, parse)
}

/// Whether it is a request.
macro_rules! only {
    ($request:ident) => {
        |args: Args<'_>| $request::parse(args).map(|_| ())
    };
}

mod look;
mod push;
mod rules;
mod take;

fn text(word: Str<'_>) -> String {
    String::from_utf8(word.bytes().to_vec()).expect("our own words")
}

/// Every start of a line that is too short to be a request is refused as such.
fn needs_all_of(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    let words: Vec<_> = line.split(' ').collect();
    for kept in 0..words.len() {
        let error = read(&words[..kept].join(" "), &parse).err();
        assert_eq!(error, Some(Error::Arity), "{kept} words of {line}");
    }
    assert!(read(line, &parse).is_ok(), "{line}");
}

/// Refused, and not because of the number of words.
fn refuses(lines: &[&str], parse: impl Fn(Args<'_>) -> Result) {
    for line in lines {
        let error = read(line, &parse).err();
        assert!(matches!(error, Some(Error::Refused(_))), "{line}: {error:?}");
    }
}

/// A line that is a request is none with a word more.
fn takes_no_more(line: &str, parse: impl Fn(Args<'_>) -> Result) {
    assert_eq!(read(&format!("{line} more"), parse).err(), Some(Error::Arity), "{line} more");
}
