//! What ONDUE asks for.

use crate::policy::{Policy, Route};
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

use super::options::{Opt, Options};
use super::required;

/// `key HOLD [DELIVERIES n route] | route`
pub struct OnDue<'a> {
    pub key: Str<'a>,
    pub policy: Policy,
}

impl<'a> OnDue<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        let mut options = Options::new(args, 2);
        let word = options.next().ok_or(Error::Arity)?;
        let policy = if word.name == b"HOLD" {
            match options.next() {
                None => Policy::Hold,
                Some(option) if option.name == b"DELIVERIES" => {
                    let deliveries = options.deliveries()?;
                    let route = options.next().ok_or(
                        "DELIVERIES needs DROP, STREAM or PUBLISH behind its value: where dead letters go",
                    )?;
                    Policy::Limit { deliveries, route: parse_route(key, &route, &mut options)? }
                }
                Some(option) => return Err(option.unexpected()),
            }
        } else {
            Policy::Send(parse_route(key, &word, &mut options)?)
        };
        match options.next() {
            Some(option) => Err(option.unexpected()),
            None => Ok(Self { key, policy }),
        }
    }
}

/// `DROP | STREAM dest [MAXLEN [~ | =] n] | PUBLISH channel`, of which the first word is read.
fn parse_route<'a>(key: Str<'a>, word: &Opt<'a>, options: &mut Options<'a>) -> Result<Route> {
    match &word.name[..] {
        b"DROP" => Ok(Route::Drop),
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
            Ok(Route::Stream { dest: dest.into(), maxlen })
        }
        b"PUBLISH" => Ok(Route::Publish { channel: options.value("PUBLISH")?.bytes().into() }),
        _ => Err(word.unexpected()),
    }
}
