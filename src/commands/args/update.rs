//! What UPDATE and TOUCH ask for.

use crate::server::string::Args;
use crate::server::{Str, error::Result};

use super::options::Options;
use super::timer::Timer;
use super::{has_exactly, required};

/// `key id element`
pub struct Update<'a> {
    pub key: Str<'a>,
    pub id: Str<'a>,
    pub element: Str<'a>,
}

impl<'a> Update<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        has_exactly(args, 3)?;
        Ok(Self { key: required(args, 1)?, id: required(args, 2)?, element: required(args, 3)? })
    }
}

/// When a deadline may be changed, as EXPIRE's options say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Always,
    /// GT: only to a later one.
    Later,
    /// LT: only to an earlier one.
    Earlier,
}

/// `key id ttl[@unix-ms] [GT | LT] [AT unix-ms]`
pub struct Touch<'a> {
    pub key: Str<'a>,
    pub id: &'a [u8],
    pub ttl: u64,
    pub condition: Condition,
    pub at: Option<u64>,
}

impl<'a> Touch<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let timer = Timer::parse(required(args, 3)?)?;
        let mut request = Self {
            key: required(args, 1)?,
            id: required(args, 2)?.bytes(),
            ttl: timer.ttl,
            condition: Condition::Always,
            at: timer.deadline,
        };
        let mut options = Options::new(args, 4);
        while let Some(option) = options.next() {
            match option.name() {
                b"GT" if request.condition == Condition::Always => {
                    request.condition = Condition::Later;
                }
                b"LT" if request.condition == Condition::Always => {
                    request.condition = Condition::Earlier;
                }
                b"AT" if request.at.is_none() => request.at = Some(options.deadline()?),
                _ => return Err(option.unexpected()),
            }
        }
        Ok(request)
    }
}
