//! From argument vectors to typed requests: what several verbs share. What a verb alone asks for stands beside its handler,
//! and is read before anything is opened.
//!
//! | module | noun |
//! |---|---|
//! | this file | requests of a key, an id, or ids alone |
//! | `options` | the words at the end of a command |
//! | `number` | numbers, and TTLs with their slack |
//! | `timer` | a TTL and its deadline in one word |
//! | `token` | tokens of leases |
//! | `word` | a word as the client is shown it |
//! | `testing` | what unit tests of requests share |
//!
//! What cannot be said before the clock is read, as whether now + ttl fits, is said by [`limits`](super::limits).

pub mod number;
pub mod options;
#[cfg(test)]
pub mod testing;
pub mod timer;
pub mod token;
mod word;

use crate::level;
use crate::server::string::Args;
use crate::server::{Context, Error, Str, error::Result};

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

/// Returns the argument at this place.
pub fn required<'a>(args: Args<'a>, at: usize) -> Result<Str<'a>> {
    args.get(at).ok_or(Error::Arity)
}

/// Refuses any other number of arguments behind the command's name.
pub fn has_exactly(args: Args<'_>, count: usize) -> Result<()> {
    if args.len() == count + 1 { Ok(()) } else { Err(Error::Arity) }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;

    #[test]
    fn requests_without_options_are_their_words_in_order() {
        needs_all_of("k", only!(OfKey));
        takes_no_more("k", only!(OfKey));
        assert_eq!(request("k", |args| Ok(text(OfKey::parse(args)?.key))), Ok("k".into()));

        needs_all_of("k i", only!(OfId));
        takes_no_more("k i", only!(OfId));
        let of_id = |args: Args<'_>| OfId::parse(args).map(|it| (text(it.key), text(it.id)));
        assert_eq!(request("k i", of_id), Ok(("k".into(), "i".into())));

        needs_all_of("k i", only!(OfIds));
        let of_ids = |args: Args<'_>| {
            OfIds::parse(args).map(|it| (text(it.key), it.ids().map(text).collect::<Vec<_>>()))
        };
        assert_eq!(request("k a", of_ids), Ok(("k".into(), vec!["a".into()])));
        assert_eq!(
            request("k a b a", of_ids),
            Ok(("k".into(), ["a", "b", "a"].map(Into::into).into()))
        );
    }
}
