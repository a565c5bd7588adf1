//! Parsing argument vectors into typed requests: the parts that several commands share. The request of a single command is
//! beside its handler, and is parsed before a key is opened.
//!
//! | module | noun |
//! |---|---|
//! | this file | requests with only a key, an id, or ids |
//! | `options` | the options at the end of a command |
//! | `number` | numbers, and TTLs with their slack |
//! | `timer` | a TTL and its deadline in one word |
//! | `token` | tokens of leases |
//! | `word` | a client's word, as errors quote it |
//! | `testing` | helpers for unit tests of requests |
//!
//! Checks that need the clock, such as whether now + ttl fits, are in [`limits`](super::limits).

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

/// Parses a command's arguments into a request.
///
/// # Errors
///
/// If the arguments are malformed. A malformed command from the primary or the append-only file comes from a later version
/// of the module. Its error would reach no client, so the server exits.
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

/// Returns the argument at this index.
pub fn required<'a>(args: Args<'a>, at: usize) -> Result<Str<'a>> {
    args.get(at).ok_or(Error::Arity)
}

/// Refuses any other number of arguments after the command's name.
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
