//! Putting elements away: PUSH, GIDPUSH, MPUSH.

use std::collections::BTreeSet;

use crate::data_type::Writing;
use crate::metrics::counters::{self, PUSHES};
use crate::replicate::{self, Pushed};
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Error, OwnedStr, Str, error::Result, random};
use lawn::{Lawn, StartError};

use super::args::{self, IfThere, Listed};
use super::{defaults, limits, refusal};

/// Runs `PUSH key ttl element id [NX | REPLACE] [SLACK ms] [AT unix-ms]`: OK, or nil. In replication `DELIVERIES n` and
/// `TOKEN token` go with AT.
pub fn push(context: &CommandContext, args: Args<'_>) -> Result {
    let request = args::read(context, args, args::Push::parse)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let args::Push { key, ttl, element, id, if_there, at, deliveries, token } = request;
    let now = dehydrator.now();

    let deadline = limits::deadline(context, ttl.asked, ttl.ms, at, now)?;
    if if_there != IfThere::Replace && refuses(context, &mut dehydrator, id) {
        if if_there == IfThere::Refuse {
            return Err(refusal::remembered(id.bytes()));
        }
        context.reply_null();
        return Ok(());
    }
    let length = dehydrator.length_limit();
    let started = dehydrator.lawn_or_new(|lawn| {
        let (id, payload) = (id.bytes(), element.bytes());
        let before = lawn.len();
        let started = match if_there {
            IfThere::Replace => lawn.replace_at(id, ttl.ms, payload, deadline),
            IfThere::Refuse | IfThere::Keep => lawn.start_at(id, ttl.ms, payload, deadline),
        };
        match started {
            Err(StartError::Exists) if if_there == IfThere::Keep => return Ok(false),
            started => started.map_err(|error| refusal::of_start(error, id))?,
        }
        if lawn.len() > before {
            take_back_beyond(context, lawn, id, length)?;
        }
        if deliveries > 0 {
            lawn.set_deliveries(id, deliveries, token);
        }
        Ok::<_, Error>(true)
    })?;
    if !started {
        context.reply_null();
        return Ok(());
    }
    dehydrator.forget(id.bytes());
    if at.is_some() {
        replicate::as_sent(context, args, c"DEHYDRATOR.PUSH");
        dehydrator.note_timer(ttl.ms, deadline);
    } else {
        let pushed = Pushed { key, ttl: ttl.ms, element, id, deadline };
        replicate::pushed(context, &pushed, if_there == IfThere::Replace);
    }
    defaults::apply(context, key, &mut dehydrator);
    counters::count(&PUSHES, 1);
    if if_there == IfThere::Replace {
        dehydrator.changed(c"dehydrator.push");
    } else {
        dehydrator.grown(c"dehydrator.push");
    }
    context.reply_ok();
    Ok(())
}

/// Takes back the last one that was started, if it is one too many.
#[inline(always)]
fn take_back_beyond(context: &Context, lawn: &mut Lawn, id: &[u8], length: u64) -> Result {
    let refusal = if !limits::is_within_length(context, lawn, length) {
        limits::too_long(length)
    } else if !limits::has_room(context, lawn) {
        limits::full()
    } else {
        return Ok(());
    };
    drop(lawn.stop(id));
    Err(refusal)
}

/// Returns whether the dehydrator remembers an id, and so does not take it. What comes from the primary was taken.
#[inline]
fn refuses(context: &Context, dehydrator: &mut Writing<'_>, id: Str<'_>) -> bool {
    dehydrator.remembers(id.bytes()) && !context.is_replaying()
}

/// Runs `GIDPUSH key ttl element [SLACK ms]`: the id, which nobody else has.
pub fn gidpush(context: &CommandContext, args: Args<'_>) -> Result {
    let args::GidPush { key, ttl, element } = args::read(context, args, args::GidPush::parse)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();

    let deadline = limits::deadline(context, ttl.asked, ttl.ms, None, now)?;
    let length = dehydrator.length_limit();
    let mut id = generated_id();
    let start = |lawn: &mut Lawn| {
        // One of 128 random bits is never there yet; but what is promised is that it is not.
        while lawn.look(&id).is_some() {
            id = generated_id();
        }
        let started = lawn.start_at(&id, ttl.ms, element.bytes(), deadline);
        started.map_err(|error| refusal::of_start(error, &id))?;
        take_back_beyond(context, lawn, &id, length)
    };
    dehydrator.lawn_or_new(start)?;
    dehydrator.forget(&id);
    let name = OwnedStr::new(&id);
    let pushed = Pushed { key, ttl: ttl.ms, element, id: name.as_str(), deadline };
    replicate::pushed(context, &pushed, false);
    defaults::apply(context, key, &mut dehydrator);
    counters::count(&PUSHES, 1);
    dehydrator.grown(c"dehydrator.push");
    context.reply_bulk(&id);
    Ok(())
}

/// Runs `MPUSH key ttl element id [ttl element id ...] [NX | REPLACE] [SLACK ms] [AT unix-ms]`: for each 1, 0 where the
/// id was there already, or -1 where LIMIT's LENGTH leaves no room.
pub fn mpush(context: &CommandContext, args: Args<'_>) -> Result {
    let args::MultiPush { key, elements, if_there, at } =
        args::read(context, args, args::MultiPush::parse)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();

    let deadline = |it: &Listed<'_>| limits::deadline(context, it.ttl.asked, it.ttl.ms, at, now);
    let deadlines: Vec<_> = elements.iter().map(deadline).collect::<Result<_>>()?;
    // Few have any, and then one for each.
    let mut remembered = Vec::new();
    if if_there != IfThere::Replace && dehydrator.has_past() {
        remembered.extend(elements.iter().map(|it| refuses(context, &mut dehydrator, it.id)));
    }
    if if_there == IfThere::Refuse
        && let Some((first, _)) = elements.iter().zip(&remembered).find(|(_, is)| **is)
    {
        return Err(refusal::remembered(first.id.bytes()));
    }
    let wanted = || elements.iter().zip(&deadlines).map(|(listed, deadline)| (*listed, *deadline));
    let length = dehydrator.length_limit();
    let started = dehydrator.lawn_or_new(|lawn| match if_there {
        IfThere::Replace => replace_all(context, lawn, wanted(), length),
        IfThere::Refuse | IfThere::Keep => {
            start_all(context, lawn, wanted(), if_there, (length, &remembered))
        }
    })?;
    let mut count = 0;
    let put = wanted().zip(&started.each).filter(|(_, became)| **became == Became::Put);
    for ((listed, deadline), _) in put {
        let Listed { ttl, element, id } = listed;
        dehydrator.forget(id.bytes());
        let pushed = Pushed { key, ttl: ttl.ms, element, id, deadline };
        replicate::pushed(context, &pushed, if_there == IfThere::Replace);
        dehydrator.note_timer(ttl.ms, deadline);
        count += 1;
    }
    if count > 0 {
        defaults::apply(context, key, &mut dehydrator);
        counters::count(&PUSHES, count);
        match if_there {
            IfThere::Replace => dehydrator.changed(c"dehydrator.push"),
            IfThere::Refuse | IfThere::Keep => dehydrator.grown(c"dehydrator.push"),
        }
    }
    if let Some(refusal) = started.refusal {
        return Err(refusal);
    }
    let mut reply = context.reply_array(started.each.len());
    started.each.into_iter().for_each(|became| reply.push_integer(became as i64));
    Ok(())
}

/// What became of one of several elements that were to be put away, as it is replied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Became {
    /// There was no room for it.
    Refused = -1,
    /// The id was there, and stays as it was.
    Kept = 0,
    Put = 1,
}

/// What became of several elements that were to be put away.
struct Started {
    each: Vec<Became>,
    /// Why those behind them were not.
    refusal: Option<Error>,
}

/// Puts all of them away, or none, but for those beyond the limit of the length. An id that is there, or is remembered, stays
/// as it was, or has them all refused.
fn start_all<'a>(
    context: &Context,
    lawn: &mut Lawn,
    wanted: impl Iterator<Item = (Listed<'a>, u64)> + Clone,
    if_there: IfThere,
    (length, remembered): (u64, &[bool]),
) -> Result<Started> {
    let mut each = Vec::with_capacity(wanted.size_hint().0);
    for (Listed { ttl, element, id }, deadline) in wanted.clone() {
        if remembered.get(each.len()) == Some(&true) {
            each.push(Became::Kept);
            continue;
        }
        let refusal = match lawn.start_at(id.bytes(), ttl.ms, element.bytes(), deadline) {
            Ok(()) if !limits::is_within_length(context, lawn, length) => {
                drop(lawn.stop(id.bytes()));
                each.push(Became::Refused);
                continue;
            }
            Ok(()) if limits::has_room(context, lawn) => None,
            Ok(()) => {
                drop(lawn.stop(id.bytes()));
                Some(limits::full())
            }
            Err(StartError::Exists) if if_there == IfThere::Keep => {
                each.push(Became::Kept);
                continue;
            }
            Err(error) => Some(refusal::of_start(error, id.bytes())),
        };
        if let Some(refusal) = refusal {
            // A refused command changes nothing.
            let done = wanted.zip(&each).filter(|(_, became)| **became == Became::Put);
            done.for_each(|((listed, _), _)| drop(lawn.stop(listed.id.bytes())));
            return Err(refusal);
        }
        each.push(Became::Put);
    }
    Ok(Started { each, refusal: None })
}

/// Puts all of them away, over what is there: or none, but for those beyond the limit of the length, and but that a lawn may turn out to hold as much as a lawn can. Then those
/// before have taken the place of others, which are gone.
fn replace_all<'a>(
    context: &Context,
    lawn: &mut Lawn,
    wanted: impl Iterator<Item = (Listed<'a>, u64)> + Clone,
    length: u64,
) -> Result<Started> {
    let further = wanted.clone().map(|(listed, _)| listed.id.bytes());
    let further = further.filter(|id| lawn.look(id).is_none());
    // Of those, no more are put away than there is room for.
    let room = length.saturating_sub(lawn.len() as u64);
    let room = if length == 0 { usize::MAX } else { usize::try_from(room).unwrap_or(usize::MAX) };
    let further = further.collect::<BTreeSet<_>>().into_iter().take(room);
    if !limits::has_room_for(context, lawn, further) {
        return Err(limits::full());
    }
    let mut each = Vec::with_capacity(wanted.size_hint().0);
    for (Listed { ttl, element, id }, deadline) in wanted {
        if length > 0
            && lawn.len() as u64 >= length
            && !context.is_replaying()
            && lawn.look(id.bytes()).is_none()
        {
            each.push(Became::Refused);
            continue;
        }
        if let Err(error) = lawn.replace_at(id.bytes(), ttl.ms, element.bytes(), deadline) {
            let refusal = refusal::of_start(error, id.bytes());
            return if !each.contains(&Became::Put) {
                Err(refusal)
            } else {
                Ok(Started { each, refusal: Some(refusal) })
            };
        }
        each.push(Became::Put);
    }
    Ok(Started { each, refusal: None })
}

/// Makes an id of random bits: 32 hexadecimal digits.
fn generated_id() -> [u8; 32] {
    let bits: [u8; 16] = random::bytes();
    let mut id = [0; 32];
    for (digits, byte) in id.chunks_exact_mut(2).zip(bits) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    id
}
