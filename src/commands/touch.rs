//! TOUCH, UPDATE: restarting timers, replacing an element.

use std::ops::Range;

use ahash::RandomState;
use hashbrown::HashSet;

use crate::data_type::{Restarts, Writing, ends_lease, postponed};
use crate::replicate::{self, Timer};
use crate::server::string::{Args, number};
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::UpdateError;

use super::args::options::Options;
use super::args::{self, required};
use super::args::{counted, milliseconds};
use super::cancelled::tell;
use super::{checks, take};

/// Runs `UPDATE key id element`: the old element. The deadline does not change.
pub fn update(context: &CommandContext, args: Args<'_>) -> Result {
    let [key, id, element] = args::exactly(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let lawn = dehydrator.lawn().ok_or(UpdateError::Missing);
    let old = lawn.and_then(|lawn| lawn.update(id.bytes(), element.bytes()));
    let old = old.map_err(|error| checks::of_update(error, id.bytes()))?;
    context.reply_bulk(old.element().payload);
    drop(old);
    replicate::as_sent(context, args, c"DEHYDRATOR.UPDATE");
    dehydrator.finish(c"dehydrator.update");
    Ok(())
}

/// The condition for changing a deadline, as in EXPIRE's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Always,
    /// GT: only to a later one.
    Later,
    /// LT: only to an earlier one.
    Earlier,
}

/// The elements that a TOUCH names.
#[derive(Clone)]
pub enum Which<'a> {
    /// The arguments that are ids.
    Ids(Range<usize>),
    /// At most `count` of a group.
    Group { name: &'a [u8], count: usize },
}

/// `key ttl [GT | LT] [AT unix-ms] <id | IDS n id [id ...] | GROUP name [COUNT n]>`
pub struct Touch<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub condition: Condition,
    pub at: Option<u64>,
    pub which: Which<'a>,
    args: Args<'a>,
}

const GT_OR_LT: &str = "syntax error, GT and LT exclude each other";

impl<'a> Touch<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let ttl = parse_ttl(args)?;
        let (mut condition, mut at) = (Condition::Always, None);
        let mut options = Options::new(args, 3);
        let which = loop {
            // One last word is an id, even if it is the name of an option.
            if options.at() + 1 == args.len() {
                break Which::Ids(options.at()..args.len());
            }
            let option = options.next().ok_or(Error::Arity)?;
            match option.name() {
                b"GT" if condition == Condition::Always => condition = Condition::Later,
                b"LT" if condition == Condition::Always => condition = Condition::Earlier,
                b"GT" if condition == Condition::Earlier => return Err(GT_OR_LT.into()),
                b"LT" if condition == Condition::Later => return Err(GT_OR_LT.into()),
                b"AT" if at.is_none() => at = Some(options.deadline()?),
                b"IDS" => break parse_ids(args, options)?,
                b"GROUP" if condition == Condition::Always => {
                    let (name, count) = take::parse_named(options)?;
                    break Which::Group { name, count };
                }
                b"GROUP" => return Err("syntax error, GT and LT are not for a GROUP".into()),
                b"COUNT" => return Err(option.misplaced("needs GROUP and a name before it")),
                _ => return Err(option.unexpected_among("AT, or IDS before several ids")),
            }
        };
        Ok(Self { key: required(args, 1)?, ttl, condition, at, which, args })
    }

    /// Returns these arguments.
    pub fn ids(&self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let args = self.args;
        range.map(move |at| args.get(at).map_or(&[][..], Str::bytes))
    }
}

/// Reads the ttl. Fails if it is no number. If the next word is one, the client most likely sent the id first.
fn parse_ttl(args: Args<'_>) -> Result<u64> {
    let ttl = milliseconds("ttl", required(args, 2)?.bytes());
    ttl.map_err(|error| match error {
        Error::Refused(reason) if number(required(args, 3).map_or(b"", Str::bytes)).is_ok() => {
            format!("{reason}: the ttl is before the id").into()
        }
        error => error,
    })
}

/// Reads `n id [id ...]`, up to the last word.
fn parse_ids<'a>(args: Args<'a>, options: Options<'a>) -> Result<Which<'a>> {
    let first = options.at() + 1;
    required(args, first)?;
    let end = first + counted("IDS", "ids", args, options.at())?;
    match Options::new(args, end).next() {
        Some(option) if matches!(option.name(), b"GT" | b"LT" | b"AT") => {
            Err(option.misplaced("must be before IDS"))
        }
        Some(option) => Err(option.unexpected()),
        None => Ok(Which::Ids(first..end)),
    }
}

/// Runs `TOUCH key ttl [GT | LT] [AT unix-ms] <id | IDS n id [id ...] | GROUP name [COUNT n]>`: the number of elements whose
/// deadline was set.
pub fn touch<'a>(context: &CommandContext, args: Args<'a>) -> Result {
    let request = Touch::parse(args)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let Touch { ttl, condition, at, .. } = request;
    let now = dehydrator.now();

    let deadline = checks::deadline(ttl, ttl, at, now)?;
    let has_limit = dehydrator.rules().limits().held > 0;
    let change =
        Change { timer: Timer { ttl, deadline }, condition, is_at: at.is_some(), has_limit };
    let mut cancelled = Vec::new();
    let count: i64 = match &request.which {
        Which::Ids(ids) => {
            // Only a list can name an id twice.
            let mut seen = None;
            let mut is_new = |id: &&'a [u8]| {
                let seen = seen.get_or_insert_with(|| HashSet::with_hasher(RandomState::new()));
                seen.insert(*id)
            };
            let is_single = ids.len() == 1;
            let ids = request.ids(ids.clone()).filter(|id| is_single || is_new(id));
            change.make(&mut dehydrator, now, ids, &mut cancelled)
        }
        // Elements under a live lease, and those with about this deadline, stay.
        Which::Group { name, count } => {
            let near = (stays_from(ttl, at, deadline), deadline);
            let rows =
                dehydrator.look().into_iter().flat_map(|it| it.group_at_rest(name, near, now));
            let ids: Vec<_> = rows.take(*count).map(|row| row.element.id.to_vec()).collect();
            change.make(&mut dehydrator, now, ids.iter().map(Vec::as_slice), &mut cancelled)
        }
    };
    if count > 0 {
        dehydrator.finish(c"dehydrator.touch");
        tell(context, request.key, cancelled.iter().map(Vec::as_slice));
    }
    context.reply_integer(count);
    Ok(())
}

/// Without AT, the moment at which a group is to come due moves on from call to call. So that a loop ends, an element stays that
/// comes due up to an eighth of the ttl earlier, of at least and at most so many milliseconds, and at most half of the ttl.
const TOLERANCE: (u64, u64) = (1000, 60_000);

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

/// The change that a TOUCH makes to each element.
struct Change {
    timer: Timer,
    condition: Condition,
    /// Set if the client named the deadline by AT.
    is_at: bool,
    /// Set if a limit of live leases holds for all elements.
    has_limit: bool,
}

impl Change {
    /// Restarts the timers of these elements. Adds the ids of those whose lease that ends to `cancelled`. Returns how many there were.
    fn make<'i>(
        &self,
        dehydrator: &mut Writing<'_>,
        now: u64,
        ids: impl Iterator<Item = &'i [u8]>,
        cancelled: &mut Vec<Vec<u8>>,
    ) -> i64 {
        let mut restarts = dehydrator.restarts();
        let count = ids.map(|id| i64::from(self.make_one(&mut restarts, now, id, cancelled))).sum();
        restarts.finish();
        count
    }

    fn make_one(
        &self,
        restarts: &mut Restarts<'_>,
        now: u64,
        id: &[u8],
        cancelled: &mut Vec<Vec<u8>>,
    ) -> bool {
        /// The TTL of a held element that stays held, though the client sent 0.
        const QUEUE_OF_HELD: u64 = 1;
        let Timer { ttl, deadline } = self.timer;
        let Some(lawn) = restarts.lawn() else { return false };
        let Some(element) = lawn.look(id) else { return false };
        let holds = match self.condition {
            Condition::Always => true,
            Condition::Later => deadline > element.deadline,
            Condition::Earlier => deadline < element.deadline,
        };
        if !holds {
            return false;
        }
        let is_held = lawn.token(&element).is_some();
        let until = if is_held { None } else { postponed(&element, deadline) };
        let ttl = match ttl {
            _ if ends_lease(lawn, &element, deadline, now, self.has_limit) => 0,
            // A ttl of 0 gives back a held element. A client that sets the deadline by AT does not ask for that.
            0 if is_held && self.is_at => QUEUE_OF_HELD,
            ttl => ttl,
        };
        if is_held && ttl == 0 {
            cancelled.push(id.to_vec());
        }
        restarts.restart(id, Timer { ttl, deadline }, until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
