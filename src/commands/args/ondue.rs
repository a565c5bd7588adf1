//! What ONDUE asks for.

use crate::policy::Policy;
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

use super::options::Options;
use super::required;

/// `key HOLD | DROP | STREAM dest [MAXLEN [~ | =] n] | PUBLISH channel`
pub struct OnDue<'a> {
    pub key: Str<'a>,
    pub policy: Policy,
}

impl<'a> OnDue<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        let mut options = Options::new(args, 2);
        let word = options.next().ok_or(Error::Arity)?;
        let policy = match &word.name[..] {
            b"HOLD" => Policy::Hold,
            b"DROP" => Policy::Drop,
            b"STREAM" => {
                let dest = options.value("STREAM")?.bytes();
                if dest == key.bytes() {
                    return Err("the stream must be another key".into());
                }
                let mut maxlen = None;
                while let Some(option) = options.next() {
                    match &option.name[..] {
                        b"MAXLEN" if maxlen.is_none() => maxlen = Some(options.maxlen()?),
                        _ => return Err(option.unexpected()),
                    }
                }
                Policy::Stream { dest: dest.into(), maxlen }
            }
            b"PUBLISH" => Policy::Publish { channel: options.value("PUBLISH")?.bytes().into() },
            _ => return Err(word.unexpected()),
        };
        match options.next() {
            Some(option) => Err(option.unexpected()),
            None => Ok(Self { key, policy }),
        }
    }
}
