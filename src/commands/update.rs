//! UPDATE, TOUCH: replacing an element, restarting its timer.

use std::ops::Range;

use ahash::RandomState;
use hashbrown::HashSet;

use crate::data_type::{Ending, Writing};
use crate::replicate;
use crate::server::string::Args;
use crate::server::{CommandContext, Str, error::Result};
use lawn::UpdateError;

use super::args::number::{counted, milliseconds};
use super::args::options::Options;
use super::args::{self, required};
use super::restarts::Restarts;
use super::{checks, purge};

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
    dehydrator.finish(Ending::Changed, c"dehydrator.update");
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

/// `key <id ttl | ttl IDS numids id [id ...]> [GT | LT] [AT unix-ms]`
pub struct Touch<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub condition: Condition,
    pub at: Option<u64>,
    args: Args<'a>,
    /// The arguments that are ids.
    ids: Range<usize>,
}

const GT_OR_LT: &str = "syntax error, GT and LT exclude each other";

impl<'a> Touch<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        // IDS cannot be a ttl.
        let is_list = required(args, 3)?.bytes().eq_ignore_ascii_case(b"IDS");
        let (timer, ids) = if is_list { (2, 5..5 + parse_numids(args)?) } else { (3, 2..3) };
        let ttl = milliseconds("ttl", required(args, timer)?.bytes())?;
        let mut options = Options::new(args, if is_list { ids.end } else { 4 });
        let mut request = Self {
            key: required(args, 1)?,
            ttl,
            condition: Condition::Always,
            at: None,
            args,
            ids,
        };
        while let Some(option) = options.next() {
            match option.name() {
                b"GT" if request.condition == Condition::Always => {
                    request.condition = Condition::Later;
                }
                b"LT" if request.condition == Condition::Always => {
                    request.condition = Condition::Earlier;
                }
                b"GT" if request.condition == Condition::Earlier => return Err(GT_OR_LT.into()),
                b"LT" if request.condition == Condition::Later => return Err(GT_OR_LT.into()),
                b"AT" if request.at.is_none() => request.at = Some(options.deadline()?),
                _ => return Err(option.unexpected_among("AT")),
            }
        }
        Ok(request)
    }

    pub fn ids(&self) -> impl Iterator<Item = &'a [u8]> {
        let args = self.args;
        self.ids.clone().map(move |at| args.get(at).map_or(&[][..], Str::bytes))
    }
}

/// Returns the number of ids after `IDS numids`. That many arguments are guaranteed present.
fn parse_numids(args: Args<'_>) -> Result<usize> {
    required(args, 5)?;
    counted("numids", "ids", args, 4)
}

/// Runs `TOUCH key <id ttl | ttl IDS numids id [id ...]> [GT | LT] [AT unix-ms]`: the number of elements
/// whose deadline was set.
pub fn touch(context: &CommandContext, args: Args<'_>) -> Result {
    if purge::is_touch_of_group(args) {
        return purge::touch(context, args);
    }
    let request = Touch::parse(args)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let Touch { key, ttl, condition, at, .. } = request;
    let now = dehydrator.now();

    let deadline = checks::deadline(ttl, ttl, at, now)?;
    let holds = |current: u64| match condition {
        Condition::Always => true,
        Condition::Later => deadline > current,
        Condition::Earlier => deadline < current,
    };
    let mut restarts = Restarts::new(context, key, &mut dehydrator, (ttl, deadline), at);
    let mut seen = HashSet::with_hasher(RandomState::new());
    for id in request.ids().filter(|id| request.ids.len() == 1 || seen.insert(*id)) {
        let Some(lawn) = dehydrator.lawn() else { break };
        if lawn.look(id).is_some_and(|element| holds(element.deadline)) {
            restarts.restart(lawn, id);
        }
    }
    context.reply_integer(restarts.finish(dehydrator));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_touch_has_one_condition() {
        use Condition::{Always, Earlier, Later};
        needs_all_of("k i 5", only!(Touch::parse));
        let touch = |args: Args<'_>| {
            let it = Touch::parse(args)?;
            let ids: Vec<_> = it.ids().map(String::from_utf8_lossy).collect();
            Ok((text(it.key), ids.join(" "), it.ttl, it.condition, it.at))
        };
        let touched = |condition, at| Ok(("k".into(), "i".to_owned(), 5, condition, at));
        assert_eq!(request("k i 5", touch), touched(Always, None));
        assert_eq!(request("k i 5 GT", touch), touched(Later, None));
        assert_eq!(request("k i 5 lt AT 9", touch), touched(Earlier, Some(9)));
        assert_eq!(request("k i 5 AT 9 GT", touch), touched(Later, Some(9)));
        needs_all_of("k 5 IDS 1 i", only!(Touch::parse));
        assert_eq!(request("k 5 IDS 1 i", touch), touched(Always, None));
        assert_eq!(request("k 5 ids 1 i AT 9 GT", touch), touched(Later, Some(9)));
        let many = |condition| Ok(("k".into(), "AT 9 GT".to_owned(), 5, condition, None));
        assert_eq!(request("k 5 IDS 3 AT 9 GT", touch), many(Always));
        assert_eq!(request("k 5 IDS 3 AT 9 GT LT", touch), many(Earlier));
        // An id may be any word.
        let one = Ok(("k".into(), "5".to_owned(), 7, Always, None));
        assert_eq!(request("k 5 7", touch), one);
        refuses_each(
            "k i x; k i 5@9; k i 0 UNCOUNTED; k i 5 GT GT; k i 5 GT LT; k i 5 LT GT; k i 5 LT LT; k i 5 AT; k i 5 AT x; k i 5 AT 9 AT 9; \
             k i 5 NX; k i 5 IDS 1 j; k i IDS 1 j; k 5 IDS 0 i; k 5 IDS x i; k 5 IDS 2 i; k 5 IDS 1 i j; \
             k 5 IDS 1 i GT LT"
                .split("; "),
            only!(Touch::parse),
        );
    }
}
