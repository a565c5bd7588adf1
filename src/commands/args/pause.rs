//! What PAUSE asks for.

use crate::server::string::Args;
use crate::server::{Str, error::Result};

use super::number::positive;
use super::options::Options;
use super::required;

/// When a pause ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PauseEnd {
    /// When somebody ends it.
    Never,
    /// After so many milliseconds.
    After(u64),
    /// Then, in milliseconds since the epoch.
    At(u64),
}

/// `key [ms | AT unix-ms]`
pub struct Pause<'a> {
    pub key: Str<'a>,
    pub end: PauseEnd,
}

impl<'a> Pause<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        let mut options = Options::new(args, 2);
        let end = match (options.next(), args.get(2)) {
            (Some(option), _) if option.name() == b"AT" => {
                let word = options.value("AT")?.bytes();
                let wanted = "a whole number of unix milliseconds from 1 on";
                PauseEnd::At(positive("AT", word, wanted)?)
            }
            (Some(_), Some(word)) => {
                let wanted = "a whole number of milliseconds from 1 on";
                PauseEnd::After(positive("PAUSE", word.bytes(), wanted)?)
            }
            _ => PauseEnd::Never,
        };
        match options.next() {
            Some(option) => Err(option.unexpected()),
            None => Ok(Self { key, end }),
        }
    }
}
