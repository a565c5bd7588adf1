//! SETTLE, RENEW, RELEASE, REJECT: ending or extending a lease by its token. A stale token changes nothing.

use std::ffi::CStr;

use crate::clock;
use crate::data_type::{Reading, Writing, runs};
use crate::delivery::Origin;
use crate::replicate::Timer;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, Str, error::Result};
use lawn::{Lawn, Token};

use super::args::required;
use super::args::{milliseconds, token};
use super::checks;

/// Reads `key token id [token id ...]`.
fn parse<'a>(args: Args<'a>) -> Result<(Str<'a>, HeldList<'a>)> {
    Ok((required(args, 1)?, HeldList::parse(args, 2)?))
}

/// `token id [token id ...]`, parsed in place: the ids of elements, each with the token under which the client holds it.
#[derive(Clone, Copy)]
pub struct HeldList<'a> {
    args: Args<'a>,
    from: usize,
    len: usize,
}

impl<'a> HeldList<'a> {
    fn parse(args: Args<'a>, from: usize) -> Result<Self> {
        let words = args.len().saturating_sub(from);
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

/// Reads `key ttl token id [token id ...]`.
fn parse_restart<'a>(args: Args<'a>) -> Result<(Str<'a>, u64, HeldList<'a>)> {
    required(args, 4)?;
    let ttl = milliseconds("ttl", required(args, 2)?.bytes())?;
    Ok((required(args, 1)?, ttl, HeldList::parse(args, 3)?))
}

/// Reads `key ttl token id [token id ...] [UNCOUNTED]`. Tokens and ids come in pairs, so one more word is the option.
fn parse_release<'a>(args: Args<'a>) -> Result<(Str<'a>, u64, HeldList<'a>, bool)> {
    let words = args.len().saturating_sub(3);
    let last = args.get(args.len().saturating_sub(1)).filter(|_| !words.is_multiple_of(2));
    let is_uncounted = last.is_some_and(|last| last.bytes().eq_ignore_ascii_case(b"UNCOUNTED"));
    let pairs = if is_uncounted { args.first(args.len() - 1) } else { args };
    let (key, ttl, held) = parse_restart(pairs)?;
    Ok((key, ttl, held, is_uncounted))
}

/// Runs `RENEW key ttl token id [token id ...]`: for each 1 if it is held under that token and now comes due in `ttl`
/// milliseconds, or 0. A ttl of 0 gives the element back. At the HELD limit, also that of its group, an expired lease is not
/// renewed.
pub fn renew(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ttl, held) = parse_restart(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let deadline = checks::deadline(ttl, ttl, None, dehydrator.now())?;
    restart(context, dehydrator, held, (ttl, deadline, false), c"dehydrator.renew");
    Ok(())
}

/// Runs `RELEASE key ttl token id [token id ...] [UNCOUNTED]`: for each 1 if it was held under that token and is given back, to
/// come due in `ttl` milliseconds, or 0. With UNCOUNTED its last delivery does not count.
pub fn release(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ttl, held, is_uncounted) = parse_release(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let deadline = checks::deadline(ttl, ttl, None, dehydrator.now())?;
    let timer = (GIVEN_BACK, deadline, is_uncounted);
    restart(context, dehydrator, held, timer, c"dehydrator.release");
    Ok(())
}

/// The TTL of an element that is given back, whatever its deadline.
const GIVEN_BACK: u64 = 0;

/// Restarts the timer of each element that is held under its token, with this TTL and deadline, perhaps without counting its
/// last delivery. Replies 1 or 0 for each.
fn restart(
    context: &CommandContext,
    mut dehydrator: Writing<'_>,
    held: HeldList<'_>,
    (ttl, deadline, is_uncounted): (u64, u64, bool),
    event: &'static CStr,
) {
    let mut reply = context.reply_array(held.len);
    let (now, most) = (dehydrator.now(), dehydrator.rules().limits().held);
    let mut restarts = dehydrator.restarts();
    for (token, id) in held.iter() {
        let id = id.bytes();
        let may_run = |lawn: &Lawn| {
            let Some(element) = lawn.look(id) else { return false };
            let has_room = || {
                (most == 0 || (lawn.running(now) as u64) < most)
                    && lawn.group_has_room(&element, now)
            };
            ttl == 0 || runs(element.deadline, now) || has_room()
        };
        let is_held = restarts.lawn().is_some_and(|lawn| lawn.holds(id, token) && may_run(lawn))
            && match is_uncounted {
                true => restarts.give_back_uncounted(id, deadline),
                false => restarts.restart(id, Timer { ttl, deadline }, None),
            };
        reply.push_integer(is_held.into());
    }
    drop(reply);
    if restarts.finish() {
        dehydrator.finish(event);
    }
}

/// Runs `REJECT key token id [token id ...]`: for each 1 if it was held under that token and is now a dead letter,
/// or 0.
pub fn reject(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, held) = parse(args)?;
    let now = clock::now();

    let policy = {
        let reading = Reading::open(context, key)?;
        reading.dehydrator().map(|dehydrator| dehydrator.rules().policy.clone())
    };
    let rejected = match policy {
        // Elements of a missing key are not held.
        None => vec![false; held.len],
        Some(policy) if policy.limits_deliveries() => {
            let name = &Name::of(context, key);
            let origin = Origin { context, name, key, now, until_us: u64::MAX };
            origin.reject(&policy, &held.iter().collect::<Vec<_>>())
        }
        Some(_) => return Err(checks::no_rule()),
    };
    let mut reply = context.reply_array(rejected.len());
    rejected.into_iter().for_each(|is_rejected| reply.push_integer(is_rejected.into()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;
    use crate::server::fake::with_args;
    use lawn::DEADLINE_MAX;

    #[test]
    fn what_is_held_is_named_in_pairs() {
        needs_all_of("k 7 i", only!(parse));
        takes_no_more("k 7 i", only!(parse));
        let read_restart = |args: Args<'_>| parse_restart(args).map(drop);
        needs_all_of("k 5 7 i", read_restart);
        takes_no_more("k 5 7 i", read_restart);
        let pair = |(token, id): (Token, Str<'_>)| (token.number(), text(id));
        let settle = |args: Args<'_>| {
            let (key, held) = parse(args)?;
            Ok((text(key), held.iter().map(pair).collect::<Vec<_>>()))
        };
        let mine = Token::of_word(b"mine").number();
        let held = vec![(7, "i".into()), (mine, "7".into())];
        assert_eq!(request("k 7 i mine 7", settle), Ok(("k".into(), held.clone())));
        let restart = |args: Args<'_>| {
            let (key, ms, held) = parse_restart(args)?;
            Ok((text(key), ms, held.iter().map(pair).collect::<Vec<_>>()))
        };
        assert_eq!(request("k 0 7 i mine 7", restart), Ok(("k".into(), 0, held)));
        let release = |args: Args<'_>| {
            let (key, ms, held, is_uncounted) = parse_release(args)?;
            Ok((text(key), ms, held.iter().map(pair).collect::<Vec<_>>(), is_uncounted))
        };
        let released = |held: &[(u64, &str)], is_uncounted| {
            let held = held.iter().map(|(token, id)| (*token, (*id).into())).collect();
            Ok(("k".into(), 5, held, is_uncounted))
        };
        assert_eq!(request("k 5 7 i", release), released(&[(7, "i")], false));
        assert_eq!(request("k 5 7 i uncounted", release), released(&[(7, "i")], true));
        // An id may be the option's name.
        let ids = [(7, "i"), (8, "UNCOUNTED")];
        assert_eq!(request("k 5 7 i 8 UNCOUNTED", release), released(&ids, false));
        assert_eq!(request("k 5 7 i 8 UNCOUNTED UNCOUNTED", release), released(&ids, true));
        for words in ["k 5 UNCOUNTED", "k 5 7", "k 5 7 i COUNTED"] {
            assert!(matches!(request(words, release), Err(Error::Arity)), "{words}");
        }
        refuses_each(&["k x 7 i", "k -1 7 i", "k 9223372036854775808 7 i"], read_restart);
        let empty = with_args(&[b"k", b"", b"i"], only!(parse));
        assert!(matches!(empty, Err(Error::Refused(_))));
        // A number is the token of that number, if it is in the range of tokens.
        let number = |word: &str| request(&format!("k {word} i"), settle).map(|it| it.1[0].0);
        assert_eq!(number("9223372036854775807"), Ok(DEADLINE_MAX));
        for word in ["0", "9223372036854775808", "07", "7.0"] {
            assert!(number(word).is_ok_and(|token| token > 7 && token < Token::SERVERS), "{word}");
        }
    }
}
