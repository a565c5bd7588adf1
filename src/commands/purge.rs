//! PURGE, and TOUCH of a group: a change of some elements of a group. The caller repeats it until nothing is left to change.

use crate::data_type::{Ending, Writing};
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{DEADLINE_MAX, Start};

use super::args::number::milliseconds;
use super::args::options::Options;
use super::args::required;
use super::checks;
use super::restarts::Restarts;

/// The elements that one call changes, if the caller does not say: less than a millisecond's work.
const COUNT: usize = 1024;

/// Without AT, the moment at which a group is to come due moves on from call to call. So that a loop ends, an element stays that
/// comes due up to an eighth of the ttl earlier, of at least and at most so many milliseconds.
const TOLERANCE: (u64, u64) = (1000, 60_000);

/// Reads `GROUP name` at this index.
fn parse_group<'a>(options: &mut Options<'a>) -> Result<&'a [u8]> {
    let word = options.next().ok_or(Error::Arity)?;
    if word.name() != b"GROUP" {
        return Err(word.unexpected());
    }
    let name = options.group()?.map(Str::bytes);
    name.ok_or_else(|| "GROUP needs a name here: elements without a group are no group".into())
}

/// Reads `key GROUP name [COUNT n]`.
fn parse_purge<'a>(args: Args<'a>) -> Result<(Str<'a>, &'a [u8], usize)> {
    required(args, 3)?;
    let mut options = Options::new(args, 2);
    let group = parse_group(&mut options)?;
    Ok((required(args, 1)?, group, options.only(b"COUNT", Options::count)?.unwrap_or(COUNT)))
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
        dehydrator.finish(Ending::Shrunk, c"dehydrator.purge");
    }
    context.reply_integer(purged as i64);
    Ok(())
}

/// A TOUCH of a group.
struct TouchGroup<'a> {
    key: Str<'a>,
    ttl: u64,
    group: &'a [u8],
    at: Option<u64>,
    count: usize,
}

/// Returns whether the arguments of TOUCH are `key ttl GROUP …`. GROUP cannot be a ttl.
pub fn is_touch_of_group(args: Args<'_>) -> bool {
    args.get(3).is_some_and(|word| word.bytes().eq_ignore_ascii_case(b"GROUP"))
}

/// Reads `key ttl GROUP name [AT unix-ms] [COUNT n]`.
fn parse_touch<'a>(args: Args<'a>) -> Result<TouchGroup<'a>> {
    required(args, 4)?;
    let ttl = milliseconds("ttl", required(args, 2)?.bytes())?;
    let mut options = Options::new(args, 3);
    let group = parse_group(&mut options)?;
    let (mut at, mut count) = (None, None);
    while let Some(option) = options.next() {
        match option.name() {
            b"AT" if at.is_none() => at = Some(options.deadline()?),
            b"COUNT" if count.is_none() => count = Some(options.count()?),
            _ => return Err(option.unexpected()),
        }
    }
    Ok(TouchGroup { key: required(args, 1)?, ttl, group, at, count: count.unwrap_or(COUNT) })
}

/// Returns the earliest deadline of an element that stays where it is, if its deadline is not after the new one.
fn stays_from(ttl: u64, at: Option<u64>, deadline: u64) -> u64 {
    match (ttl, at) {
        (_, Some(_)) => deadline,
        // What is due already.
        (0, None) => 0,
        (ttl, None) => deadline.saturating_sub((ttl / 8).clamp(TOLERANCE.0, TOLERANCE.1)),
    }
}

/// Runs `TOUCH key ttl GROUP name [AT unix-ms] [COUNT n]`: the number of elements that got another deadline, in their order. What
/// is under a live lease is not changed.
pub fn touch(context: &CommandContext, args: Args<'_>) -> Result {
    let TouchGroup { key, ttl, group, at, count } = parse_touch(args)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();
    let deadline = checks::deadline(ttl, ttl, at, now)?;
    let mut restarts = Restarts::new(context, key, &mut dehydrator, (ttl, deadline), at);
    if let Some(lawn) = dehydrator.lawn() {
        let rows = lawn.group_at_rest(group, (stays_from(ttl, at, deadline), deadline), now);
        let ids = rows.take(count).map(|row| row.element.id.to_vec()).collect::<Vec<_>>();
        ids.iter().for_each(|id| restarts.restart(lawn, id));
    }
    let touched = restarts.finish(dehydrator);
    context.reply_integer(touched);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_purge_and_a_touch_of_many_name_a_group() {
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

        needs_all_of("k 5 GROUP g", only!(parse_touch));
        let touch = |args: Args<'_>| {
            let it = parse_touch(args)?;
            Ok((text(it.key), it.ttl, it.group.to_vec(), it.at, it.count))
        };
        let touched = |at, count| Ok(("k".into(), 5, b"g".to_vec(), at, count));
        assert_eq!(request("k 5 GROUP g", touch), touched(None, 1024));
        assert_eq!(request("k 5 group g COUNT 7 at 9", touch), touched(Some(9), 7));
        refuses_each(
            "k x GROUP g; k -1 GROUP g; k 5 GROUP g GT; k 5 GROUP g AT; k 5 GROUP g COUNT 0; k 5 GROUP g AT 9 AT 9"
                .split("; "),
            only!(parse_touch),
        );
        for (line, is_of_group) in
            [("k 5 group g", true), ("k GROUP 5 GT", false), ("k 5 IDS 1 GROUP", false)]
        {
            let found = request(line, |args| Ok(is_touch_of_group(args)));
            assert_eq!(found, Ok(is_of_group), "{line}");
        }
    }

    #[test]
    fn a_loop_of_touches_comes_to_an_end() {
        // At the moment itself, or what is due, or about the moment.
        assert_eq!(stays_from(5, Some(9), 9), 9);
        assert_eq!(stays_from(0, None, 100), 0);
        assert_eq!(stays_from(5, None, 5000), 4000);
        assert_eq!(stays_from(80_000, None, 100_000), 90_000);
        assert_eq!(stays_from(8_000_000, None, 9_000_000), 8_940_000);
    }
}
