//! What UPDATE and TOUCH ask for.

use std::ops::Range;

use crate::server::string::Args;
use crate::server::{Str, error::Result};

use super::number::counted;
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

/// `key <id ttl | ttl IDS numids id [id ...]> [GT | LT] [AT unix-ms]`; in replication `key id ttl@unix-ms`.
pub struct Touch<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub condition: Condition,
    pub at: Option<u64>,
    args: Args<'a>,
    /// Where the ids stand.
    ids: Range<usize>,
}

const GT_OR_LT: &str = "syntax error, GT and LT exclude each other";

impl<'a> Touch<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        // No ttl looks like this word.
        let is_list = required(args, 3)?.bytes().eq_ignore_ascii_case(b"IDS");
        let (timer, ids) = if is_list { (2, 5..5 + numids(args)?) } else { (3, 2..3) };
        let timer = Timer::parse(required(args, timer)?)?;
        let mut options = Options::new(args, if is_list { ids.end } else { 4 });
        let mut request = Self {
            key: required(args, 1)?,
            ttl: timer.ttl,
            condition: Condition::Always,
            at: timer.deadline,
            args,
            ids,
        };
        while let Some(option) = options.next() {
            match option.name() {
                b"GT" if request.condition == Condition::Always => {
                    request.condition = Condition::Later;
                }
                b"LT" if request.condition == Condition::Always => {
                    request.condition = Condition::Earlier;
                }
                b"GT" if request.condition == Condition::Earlier => return Err(GT_OR_LT.into()),
                b"LT" if request.condition == Condition::Later => return Err(GT_OR_LT.into()),
                b"AT" if request.at.is_none() => request.at = Some(options.deadline()?),
                _ => return Err(option.unexpected()),
            }
        }
        Ok(request)
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        let args = self.args;
        self.ids.clone().map(move |at| args.get(at).map_or(&[][..], Str::bytes))
    }
}

/// Returns how many ids follow behind `IDS numids`. They are there.
fn numids(args: Args<'_>) -> Result<usize> {
    required(args, 5)?;
    counted("numids", "ids", args, 4)
}
