//! What LIMIT and GIVEN ask for.

use crate::policy::Change;
use crate::server::string::Args;
use crate::server::{Str, error::Result};

use super::number::{number, positive};
use super::options::Options;
use super::{has_exactly, required};

/// `key [LENGTH n] [HELD n] [RATE n PER ms] [REMEMBER ms]`
pub struct Limit<'a> {
    pub key: Str<'a>,
    /// `None`: the limits are asked for.
    pub change: Option<Change>,
}

impl<'a> Limit<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        let mut options = Options::new(args, 2);
        let mut change = Change::default();
        while let Some(option) = options.next() {
            match option.name() {
                b"LENGTH" if change.length.is_none() => {
                    change.length = Some(options.limit("LENGTH")?);
                }
                b"HELD" if change.held.is_none() => change.held = Some(options.limit("HELD")?),
                b"RATE" if change.rate.is_none() => {
                    let most = options.limit("RATE")?;
                    change.rate = Some((most, parse_per(most, &mut options)?));
                }
                b"REMEMBER" if change.remember.is_none() => {
                    change.remember = Some(options.milliseconds("REMEMBER")?);
                }
                _ => return Err(option.unexpected()),
            }
        }
        Ok(Self { key, change: Some(change).filter(|change| *change != Change::default()) })
    }
}

/// Reads `PER ms`, without which a rate of 0 takes the limit away.
fn parse_per(most: u64, options: &mut Options<'_>) -> Result<u64> {
    if !options.next_if(b"PER") {
        let needs = || "RATE needs PER after its value, to say in how many milliseconds".into();
        return if most == 0 { Ok(0) } else { Err(needs()) };
    }
    let word = options.value("PER")?.bytes();
    let per = positive("PER", word, "a whole number of milliseconds from 1 on")?;
    Ok(if most == 0 { 0 } else { per })
}

/// `key unix-ms n`
pub struct Given<'a> {
    pub key: Str<'a>,
    pub moment: u64,
    pub count: u64,
}

impl<'a> Given<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        has_exactly(args, 3)?;
        let moment = required(args, 2)?.bytes();
        let wanted = "a whole number of unix milliseconds from 0 on";
        let moment = number(moment).map_err(|error| error.of("moment", moment, wanted))?;
        let count = positive("n", required(args, 3)?.bytes(), "a whole number from 1 on")?;
        Ok(Self { key: required(args, 1)?, moment, count })
    }
}
