//! What ONDUE asks for.

use crate::policy::{End, Policy, Route, Trust};
use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};

use super::options::{Opt, Options};
use super::required;

/// `key HOLD [DELIVERIES n route] | route`, in replication with `UNCONFIRMED` behind a route to elsewhere.
pub struct OnDue<'a> {
    pub key: Str<'a>,
    pub policy: Policy,
    pub trust: Trust,
}

impl<'a> OnDue<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        let mut options = Options::new(args, 2);
        let word = options.next().ok_or(Error::Arity)?;
        let policy = if word.name() == b"HOLD" {
            match options.next() {
                None => Policy::Hold,
                Some(option) if option.name() == b"DELIVERIES" => {
                    let deliveries = options.deliveries()?;
                    let route = options.next().ok_or(
                        "DELIVERIES needs DROP, STREAM, LIST or PUBLISH after its value, to say where dead letters go",
                    )?;
                    Policy::Limit { deliveries, route: parse_route(key, &route, &mut options)? }
                }
                Some(option) => return Err(option.unexpected()),
            }
        } else {
            Policy::Send(parse_route(key, &word, &mut options)?)
        };
        let trust = match options.next() {
            Some(option) if option.name() == b"UNCONFIRMED" && policy.sends_elsewhere() => {
                Trust::Unconfirmed
            }
            Some(option) => return Err(option.unexpected()),
            None => Trust::Confirmed,
        };
        match options.next() {
            Some(option) => Err(option.unexpected()),
            None => Ok(Self { key, policy, trust }),
        }
    }
}

/// Reads `DROP | STREAM dest [MAXLEN [~ | =] n] | LIST dest [LEFT | RIGHT] | PUBLISH channel`, of which the first word is read.
fn parse_route<'a>(key: Str<'a>, word: &Opt<'a>, options: &mut Options<'a>) -> Result<Route> {
    match word.name() {
        b"DROP" => Ok(Route::Drop),
        b"STREAM" => {
            let dest = parse_dest(key, "STREAM", options)?;
            let maxlen = options.next_if(b"MAXLEN").then(|| options.maxlen()).transpose()?;
            Ok(Route::Stream { dest: dest.into(), maxlen })
        }
        b"LIST" => {
            let dest = parse_dest(key, "LIST", options)?.into();
            let is_left = options.next_if(b"LEFT");
            if !is_left {
                options.next_if(b"RIGHT");
            }
            Ok(Route::List { dest, end: if is_left { End::Left } else { End::Right } })
        }
        b"PUBLISH" => Ok(Route::Publish { channel: options.value("PUBLISH")?.bytes().into() }),
        _ => Err(word.unexpected()),
    }
}

/// Reads the key behind that word, which is another one.
fn parse_dest<'a>(key: Str<'a>, word: &str, options: &mut Options<'a>) -> Result<&'a [u8]> {
    let dest = options.value(word)?.bytes();
    if dest == key.bytes() {
        return Err(format!("{word} must not be the dehydrator's own key").into());
    }
    Ok(dest)
}
