//! From argument vectors to typed requests. Every syntax error is said here, before anything is
//! opened.
//!
//! | module | noun |
//! |---|---|
//! | `push`, `take`, `settle`, `update`, `range`, `inspect`, `ondue`, `pause`, `limit`, `require` | the requests of each family of verbs |
//! | `options` | the words at the end of a command |
//! | `number` | numbers, and TTLs with their slack |
//! | `timer` | a TTL and its deadline in one word |
//! | `token` | tokens of leases |
//! | `word` | a word as the client is shown it |
//! | `requests` | unit tests of the requests |
//!
//! The families use `options` and `number`, and not each other. What cannot be said before the clock is read,
//! as whether now + ttl fits, is said by [`limits`](super::limits).

mod inspect;
mod limit;
mod number;
mod ondue;
mod options;
mod pause;
mod push;
mod range;
#[cfg(test)]
mod requests;
mod require;
mod settle;
mod take;
mod timer;
mod token;
mod update;
mod word;

use crate::level;
use crate::server::string::Args;
use crate::server::{Context, Error, Str, error::Result};

pub use inspect::{Info, Late, Scan};
pub use limit::{Given, Limit};
pub use ondue::OnDue;
pub use pause::{Pause, PauseEnd};
pub use push::{GidPush, IfThere, Listed, MultiPush, Push};
pub use range::{Look, Range};
pub use require::Require;
pub use settle::{Held, HeldList, Release, Renew, Settle, Settled};
pub use take::{Lease, MPoll, Poll, XPoll, numkeys};
pub use update::{Condition, Touch, Update};
pub use word::shown;

/// Makes a request of a command's arguments.
///
/// # Errors
///
/// What is wrong with them. One that this server's primary sent, or that stands in its append-only file, is then of a
/// later version of the module: nobody would read the error, so the server ends.
pub fn read<'a, T>(
    context: &Context,
    args: Args<'a>,
    parse: impl FnOnce(Args<'a>) -> Result<T>,
) -> Result<T> {
    parse(args).inspect_err(|error| {
        if context.must_obey() {
            end(context, args, error);
        }
    })
}

#[cold]
fn end(context: &Context, args: Args<'_>, error: &Error) {
    let name = args.get(0).map(|name| shown(name.bytes())).unwrap_or_default();
    let reason = match error {
        Error::Refused(reason) => reason,
        _ => "the number of its arguments",
    };
    level::end(context, &format!("it holds a {name} that this version does not know: {reason}"))
}

/// `key`
pub struct OfKey<'a> {
    pub key: Str<'a>,
}

impl<'a> OfKey<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        has_exactly(args, 1)?;
        Ok(Self { key: required(args, 1)? })
    }
}

/// `key id`
pub struct OfId<'a> {
    pub key: Str<'a>,
    pub id: Str<'a>,
}

impl<'a> OfId<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        has_exactly(args, 2)?;
        Ok(Self { key: required(args, 1)?, id: required(args, 2)? })
    }
}

/// `key id [id ...]`
pub struct OfIds<'a> {
    pub key: Str<'a>,
    args: Args<'a>,
}

impl<'a> OfIds<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 2)?;
        Ok(Self { key: required(args, 1)?, args })
    }

    pub fn ids(&self) -> impl Iterator<Item = Str<'a>> {
        self.args.from(2)
    }
}

fn required<'a>(args: Args<'a>, at: usize) -> Result<Str<'a>> {
    args.get(at).ok_or(Error::Arity)
}

/// Refuses any other number of arguments behind the command's name.
fn has_exactly(args: Args<'_>, count: usize) -> Result<()> {
    if args.len() == count + 1 { Ok(()) } else { Err(Error::Arity) }
}
