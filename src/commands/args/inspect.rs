//! What SCAN, INFO and LATE ask for.

use crate::config;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

use super::number::number;
use super::options::Options;
use super::required;
use super::word::shown;

/// `key cursor [MATCH pattern] [COUNT n]`
pub struct Scan<'a> {
    pub key: Str<'a>,
    pub cursor: u64,
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
}

impl<'a> Scan<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        /// As HSCAN's.
        const COUNT: usize = 10;
        let word = required(args, 2)?.bytes();
        let cursor =
            number(word).map_err(|_| Error::from(format!("invalid cursor '{}'", shown(word))))?;
        let (mut pattern, mut count) = (None, None);
        let mut options = Options::new(args, 3);
        while let Some(option) = options.next() {
            match option.name() {
                b"MATCH" if pattern.is_none() => pattern = Some(options.value("MATCH")?.bytes()),
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                _ => return Err(option.unexpected()),
            }
        }
        let count = count.unwrap_or(COUNT).min(config::reply_max());
        Ok(Self { key: required(args, 1)?, cursor, pattern, count })
    }
}

/// `key [FULL]`
pub struct Info<'a> {
    pub key: Str<'a>,
    pub full: bool,
}

impl<'a> Info<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let mut full = false;
        let mut options = Options::new(args, 2);
        while let Some(option) = options.next() {
            match option.name() {
                b"FULL" if !full => full = true,
                _ => return Err(option.unexpected()),
            }
        }
        Ok(Self { key: required(args, 1)?, full })
    }
}

/// `[COUNT n]`
pub struct Late {
    pub count: usize,
}

impl Late {
    pub fn parse(args: Args<'_>) -> Result<Self> {
        const COUNT: usize = 10;
        let mut count = None;
        let mut options = Options::new(args, 1);
        while let Some(option) = options.next() {
            match option.name() {
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                _ => return Err(option.unexpected()),
            }
        }
        Ok(Self { count: count.unwrap_or(COUNT).min(config::reply_max()) })
    }
}
