//! PURGE, and the part of TOUCH that is about a group: a change of some elements. The client repeats it until nothing is left
//! to change.

use crate::data_type::Writing;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{DEADLINE_MAX, Start};

use super::args::options::Options;
use super::args::required;

/// The elements that one call changes, if the caller does not say: less than a millisecond's work.
const COUNT: usize = 1024;

/// Without AT, the moment at which a group is to come due moves on from call to call. So that a loop ends, an element stays that
/// comes due up to an eighth of the ttl earlier, of at least and at most so many milliseconds, and at most half of the ttl.
const TOLERANCE: (u64, u64) = (1000, 60_000);

/// Reads `name [COUNT n]`, up to the last word.
pub fn parse_named<'a>(mut options: Options<'a>) -> Result<(&'a [u8], usize)> {
    let group = options.group()?.map(Str::bytes);
    let Some(group) = group else {
        return Err("GROUP needs a name here: elements without a group are no group".into());
    };
    let count = match options.next() {
        Some(option) if option.name() == b"COUNT" => options.count()?,
        Some(option) if option.name() == b"AT" => {
            return Err(option.misplaced("must be before GROUP"));
        }
        Some(option) => return Err(option.unexpected_among("COUNT")),
        None => COUNT,
    };
    options.end()?;
    Ok((group, count))
}

/// Reads `key GROUP name [COUNT n]`.
fn parse_purge<'a>(args: Args<'a>) -> Result<(Str<'a>, &'a [u8], usize)> {
    required(args, 3)?;
    let mut options = Options::new(args, 2);
    let word = options.next().ok_or(Error::Arity)?;
    if word.name() != b"GROUP" {
        return Err(word.unexpected());
    }
    let (group, count) = parse_named(options)?;
    Ok((required(args, 1)?, group, count))
}

/// Runs `PURGE key GROUP name [COUNT n]`: the number of elements removed, due or not, leased or not, the first in order.
pub fn purge(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, group, count) = parse_purge(args)?;
    let mut dehydrator = Writing::open(context, key)?;
    let mut removal = dehydrator.removal(None);
    let rows = removal
        .lawn()
        .into_iter()
        .flat_map(|lawn| lawn.group_rows(Some(group), Start::FIRST, DEADLINE_MAX));
    let ids: Vec<_> = rows.take(count).map(|row| row.element.id.to_vec()).collect();
    let purged = ids.iter().filter(|id| removal.remove(id)).count();
    if removal.finish() {
        dehydrator.finish(c"dehydrator.purge");
    }
    context.reply_integer(purged as i64);
    Ok(())
}

/// Returns the earliest deadline of an element that a TOUCH leaves where it is, if its deadline is not after the new one.
pub fn stays_from(ttl: u64, at: Option<u64>, deadline: u64) -> u64 {
    match (ttl, at) {
        (_, Some(_)) => deadline,
        // What is due already.
        (0, None) => 0,
        (ttl, None) => {
            let near = (ttl / 8).clamp(TOLERANCE.0, TOLERANCE.1);
            deadline.saturating_sub(near.min(ttl / 2))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_purge_names_a_group() {
        needs_all_of("k GROUP g", only!(parse_purge));
        let purge = |args: Args<'_>| {
            let (key, group, count) = parse_purge(args)?;
            Ok((text(key), group.to_vec(), count))
        };
        assert_eq!(request("k group g", purge), Ok(("k".into(), b"g".to_vec(), 1024)));
        assert_eq!(request("k GROUP COUNT COUNT 3", purge), Ok(("k".into(), b"COUNT".to_vec(), 3)));
        refuses_each(
            "k ALL g; k PREFIX g; k GROUP g COUNT; k GROUP g COUNT 0; k GROUP g COUNT 1 COUNT 1; k GROUP g 5"
                .split("; "),
            only!(parse_purge),
        );
    }

    #[test]
    fn a_loop_of_touches_comes_to_an_end() {
        // At the moment itself, or what is due, or about the moment.
        assert_eq!(stays_from(5, Some(9), 9), 9);
        assert_eq!(stays_from(0, None, 100), 0);
        assert_eq!(stays_from(5, None, 5000), 4998);
        assert_eq!(stays_from(4000, None, 5000), 4000);
        assert_eq!(stays_from(80_000, None, 100_000), 90_000);
        assert_eq!(stays_from(8_000_000, None, 9_000_000), 8_940_000);
    }
}
