//! SETTLE, RENEW, RELEASE, REJECT: ending or extending a lease by its token. A stale token changes nothing.

use std::ffi::CStr;

use ahash::RandomState;
use hashbrown::HashSet;

use crate::clock;
use crate::data_type::{Reading, Writing, runs};
use crate::delivery::Origin;
use crate::replicate::Timer;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{Lawn, Token};

use super::args::options::Options;
use super::args::{TOKENS_OF_NOBODY, milliseconds, required, token};
use super::checks;

/// Reads `key token id [token id ...]`.
fn parse<'a>(args: Args<'a>) -> Result<(Str<'a>, HeldList<'a>)> {
    Ok((required(args, 1)?, HeldList::parse(args, 2, args.len())?))
}

/// `token id [token id ...]`, parsed in place: the ids of elements, each with the token under which the client holds it.
#[derive(Clone, Copy)]
pub struct HeldList<'a> {
    args: Args<'a>,
    from: usize,
    len: usize,
}

impl<'a> HeldList<'a> {
    /// Reads the words from `from` up to `end`.
    fn parse(args: Args<'a>, from: usize, end: usize) -> Result<Self> {
        let words = end.saturating_sub(from);
        if words == 0 || !words.is_multiple_of(2) {
            return Err(Error::Arity);
        }
        let list = Self { args, from, len: words / 2 };
        // A refused command changes nothing, so all tokens are checked first.
        for at in 0..list.len {
            list.get(at)?;
        }
        Ok(list)
    }

    pub fn iter(self) -> impl Iterator<Item = (Token, Str<'a>)> {
        (0..self.len).filter_map(move |at| self.get(at).ok())
    }

    fn get(&self, at: usize) -> Result<(Token, Str<'a>)> {
        let word = required(self.args, self.from + 2 * at)?;
        let id = required(self.args, self.from + 2 * at + 1)?;
        Ok((token(word.bytes())?, id))
    }
}

/// Runs `SETTLE key token id [token id ...]`: for each 1 if it was held under that token and is removed, or 0.
pub fn settle(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, held) = parse(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let mut reply = context.reply_array(held.len);
    let until = dehydrator.remembers_until();
    let mut removal = dehydrator.removal(until);
    for (token, id) in held.iter() {
        reply.push_integer(removal.settle(id, token).into());
    }
    drop(reply);
    if removal.finish() {
        dehydrator.finish(c"dehydrator.settle");
    }
    Ok(())
}

/// Reads `key ttl token id [token id ...]`, up to the word at `end`.
fn parse_restart<'a>(args: Args<'a>, end: usize) -> Result<(Str<'a>, u64, HeldList<'a>)> {
    required(args, 4)?;
    let ttl = milliseconds("ttl", required(args, 2)?.bytes())?;
    Ok((required(args, 1)?, ttl, HeldList::parse(args, 3, end)?))
}

/// The options behind the tokens and ids of RELEASE and REJECT.
#[derive(Clone, Copy, Default)]
struct HeldOptions<'a> {
    is_uncounted: bool,
    element: Option<Str<'a>>,
    reason: Option<Str<'a>>,
}

impl<'a> HeldOptions<'a> {
    /// Returns the index of the first option, among `known`, behind the pairs that begin at `from`: a word in the place of a
    /// token. No token of a client is called so: see [`TOKENS_OF_NOBODY`].
    fn begin(args: Args<'a>, from: usize, known: &[&[u8]]) -> usize {
        let is_option = |at: &usize| {
            let word = args.get(*at).map_or(&[][..], Str::bytes);
            known.iter().any(|name| word.eq_ignore_ascii_case(name))
        };
        (from + 2..args.len()).step_by(2).find(is_option).unwrap_or(args.len())
    }

    fn parse(args: Args<'a>, at: usize, known: &[&[u8]], held: HeldList<'a>) -> Result<Self> {
        let mut it = Self::default();
        let mut options = Options::new(args, at);
        while let Some(option) = options.next() {
            match option.name() {
                name if !known.contains(&name) => return Err(option.unexpected()),
                b"UNCOUNTED" if !it.is_uncounted => it.is_uncounted = true,
                b"ELEMENT" if it.element.is_none() => it.element = Some(options.value("ELEMENT")?),
                b"REASON" if it.reason.is_none() => it.reason = Some(options.reason()?),
                _ => return Err(option.unexpected()),
            }
        }
        if it.element.is_some() && held.len > 1 {
            return Err("syntax error, ELEMENT is for one id".into());
        }
        Ok(it)
    }
}

/// Reads `key ttl token id [token id ...] [UNCOUNTED] [ELEMENT element] [REASON text]`.
fn parse_release<'a>(args: Args<'a>) -> Result<(Str<'a>, u64, HeldList<'a>, HeldOptions<'a>)> {
    let end = HeldOptions::begin(args, 3, &TOKENS_OF_NOBODY);
    let (key, ttl, held) = parse_restart(args, end)?;
    let options = HeldOptions::parse(args, end, &TOKENS_OF_NOBODY, held)?;
    Ok((key, ttl, held, options))
}

/// Reads `key token id [token id ...] [ELEMENT element] [REASON text]`.
fn parse_reject<'a>(args: Args<'a>) -> Result<(Str<'a>, HeldList<'a>, HeldOptions<'a>)> {
    let known = [&b"ELEMENT"[..], b"REASON"];
    let end = HeldOptions::begin(args, 2, &known);
    let held = HeldList::parse(args, 2, end)?;
    let options = HeldOptions::parse(args, end, &known, held)?;
    Ok((required(args, 1)?, held, options))
}

/// Runs `RENEW key ttl token id [token id ...]`: for each 1 if it is held under that token and now comes due in `ttl`
/// milliseconds, or 0. A ttl of 0 gives the element back. At the HELD limit, also that of its group, an expired lease is not
/// renewed.
pub fn renew(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ttl, held) = parse_restart(args, args.len())?;
    let mut dehydrator = Writing::open(context, key)?;

    let deadline = checks::deadline(ttl, ttl, None, dehydrator.now())?;
    let timer = Timer { ttl, deadline };
    restart(context, dehydrator, held, timer, HeldOptions::default(), c"dehydrator.renew");
    Ok(())
}

/// Runs `RELEASE key ttl token id [token id ...] [UNCOUNTED] [ELEMENT element] [REASON text]`: for each 1 if it was held under
/// that token and is given back, to come due in `ttl` milliseconds, or 0. With UNCOUNTED its last delivery does not count, and
/// with a ttl of 0 it has its old place among the others. ELEMENT replaces it, and REASON is kept with it.
pub fn release(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ttl, held, options) = parse_release(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let deadline = checks::deadline(ttl, ttl, None, dehydrator.now())?;
    replace(context, &mut dehydrator, held, options)?;
    let timer = Timer { ttl: GIVEN_BACK, deadline };
    let event = c"dehydrator.release";
    if options.is_uncounted {
        give_back_uncounted(context, dehydrator, held, (ttl, deadline), options.reason, event);
    } else {
        restart(context, dehydrator, held, timer, options, event);
    }
    Ok(())
}

/// Replaces an element that is about to be given back or rejected, if ELEMENT says so and it is held under its token.
/// Returns whether it is another one now. Fails if there is no room for the new one. Then nothing has changed.
fn replace(
    context: &CommandContext,
    dehydrator: &mut Writing<'_>,
    held: HeldList<'_>,
    options: HeldOptions<'_>,
) -> Result<bool> {
    let Some((element, (token, id))) = options.element.zip(held.iter().next()) else {
        return Ok(false);
    };
    let (id, element) = (id.bytes(), element.bytes());
    let held = dehydrator.look().filter(|lawn| lawn.holds(id, token));
    let Some(old) = held.and_then(|lawn| lawn.look(id)) else { return Ok(false) };
    if old.payload == element {
        return Ok(false);
    }
    if element.len() > old.payload.len() {
        checks::memory(context)?;
    }
    let mut restarts = dehydrator.restarts();
    let replaced = restarts.update(id, element);
    restarts.finish();
    replaced.map(|()| true).map_err(|error| checks::of_update(error, id))
}

/// The TTL of an element that is given back, whatever its deadline.
const GIVEN_BACK: u64 = 0;

/// Restarts the timer of each element that is held under its token, with this TTL and deadline. Keeps the reason with those. Replies
/// 1 or 0 for each.
fn restart(
    context: &CommandContext,
    mut dehydrator: Writing<'_>,
    held: HeldList<'_>,
    timer: Timer,
    options: HeldOptions<'_>,
    event: &'static CStr,
) {
    let mut reply = context.reply_array(held.len);
    let (now, most) = (dehydrator.now(), dehydrator.rules().limits().held);
    let reason = kept(context, options.reason);
    let mut restarts = dehydrator.restarts();
    for (token, id) in held.iter() {
        let id = id.bytes();
        let may_run = |lawn: &Lawn| {
            let Some(element) = lawn.look(id) else { return false };
            let has_room = || {
                (most == 0 || (lawn.running(now) as u64) < most)
                    && lawn.group_has_room(&element, now)
            };
            timer.ttl == 0 || runs(element.deadline, now) || has_room()
        };
        let is_held = restarts.lawn().is_some_and(|lawn| lawn.holds(id, token) && may_run(lawn))
            && restarts.restart(id, timer, None);
        if is_held && let Some(reason) = reason {
            restarts.keep_reason(id, reason.bytes());
        }
        reply.push_integer(is_held.into());
    }
    drop(reply);
    if restarts.finish() {
        dehydrator.finish(event);
    }
}

/// Gives back each element that is held under its token, uncounted: with a ttl of 0 where it was among the others. Keeps the
/// reason with those. Replies 1 or 0 for each.
fn give_back_uncounted(
    context: &CommandContext,
    mut dehydrator: Writing<'_>,
    held: HeldList<'_>,
    (ttl, deadline): (u64, u64),
    reason: Option<Str<'_>>,
    event: &'static CStr,
) {
    let reason = kept(context, reason);
    let now = dehydrator.now();
    let mut restarts = dehydrator.restarts();
    let mut given = vec![false; held.len];
    // One that is listed twice is given back once.
    let mut seen = HashSet::with_hasher(RandomState::default());
    let firsts: Vec<_> = held
        .iter()
        .enumerate()
        .filter(|(_, (token, id))| seen.insert((token.number(), id.bytes())))
        .collect();
    // Each goes in front of all with its deadline, so the last one goes first.
    for (at, (token, id)) in firsts.into_iter().rev() {
        let (id, is_given) = (id.bytes(), &mut given[at]);
        let Some(lawn) = restarts.lawn().filter(|lawn| lawn.holds(id, token)) else { continue };
        let since = lawn.look(id).and_then(|element| lawn.held_since(&element));
        let old = since.map(|since| since.due().min(now)).filter(|_| ttl == 0);
        *is_given = restarts.give_back_uncounted(id, old.unwrap_or(deadline));
        if let Some(reason) = reason {
            restarts.keep_reason(id, reason.bytes());
        }
    }
    let any = restarts.finish();
    let mut reply = context.reply_array(given.len());
    given.into_iter().for_each(|is_given| reply.push_integer(is_given.into()));
    drop(reply);
    if any {
        dehydrator.finish(event);
    }
}

/// Returns the reason to keep. None is kept if there is no memory for it: the element is given back all the same.
fn kept<'a>(context: &CommandContext, reason: Option<Str<'a>>) -> Option<Str<'a>> {
    reason.filter(|_| checks::memory(context).is_ok())
}

/// Runs `REJECT key token id [token id ...] [ELEMENT element] [REASON text]`: for each 1 if it was held under that token and is now
/// a dead letter, or 0. ELEMENT replaces it before.
pub fn reject(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, held, options) = parse_reject(args)?;
    let now = clock::now();

    let policy = {
        let reading = Reading::open(context, key)?;
        reading.dehydrator().map(|dehydrator| dehydrator.rules().policy.clone())
    };
    let rejected = match policy {
        // Elements of a missing key are not held.
        None => vec![false; held.len],
        Some(policy) if policy.limits_deliveries() => {
            if options.element.is_some() {
                let mut dehydrator = Writing::open_at(context, key, now)?;
                if replace(context, &mut dehydrator, held, options)? {
                    dehydrator.finish(c"dehydrator.update");
                }
            }
            let name = &Name::of(context, key);
            let origin = Origin { context, name, key, now, until_us: u64::MAX };
            let reason = kept(context, options.reason).map(Str::bytes);
            origin.reject(&policy, &held.iter().collect::<Vec<_>>(), reason)
        }
        Some(_) => return Err(checks::no_rule()),
    };
    let mut reply = context.reply_array(rejected.len());
    rejected.into_iter().for_each(|is_rejected| reply.push_integer(is_rejected.into()));
    Ok(())
}
