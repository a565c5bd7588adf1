//! PUSH, GIDPUSH, MPUSH: storing elements.

use crate::data_type::Writing;
use crate::metrics::counters::PUSHES;
use crate::replicate::{self, Pushed};
use crate::server::string::Args;
use crate::server::{CommandContext, OwnedStr, Str, error::Result, random_bytes};
use lawn::{Element, Lawn, StartError};

use super::args::options::{BoundOptions, IfExists, Options, PushOptions, Ttl};
use super::args::required;
use super::cancelled::{is_held, tell};
use super::{checks, defaults};

/// `key ttl element id [NX | REPLACE] [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]`
pub struct Push<'a> {
    pub key: Str<'a>,
    pub ttl: Ttl,
    pub element: Str<'a>,
    pub id: Str<'a>,
    pub if_exists: IfExists,
    /// The deadline, if it is not `ttl` from now.
    pub at: Option<u64>,
    pub bounds: BoundOptions,
    pub group: Option<Str<'a>>,
}

impl<'a> Push<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        let ttl = Ttl::parse(required(args, 2)?)?;
        let (element, id) = (required(args, 3)?, required(args, 4)?);
        let chosen = PushOptions::read(args, 5)?;
        let ttl = chosen.with_slack(ttl)?;
        let (key, group) = (required(args, 1)?, chosen.group.flatten());
        let PushOptions { if_exists, at, bounds, .. } = chosen;
        Ok(Self { key, ttl, element, id, if_exists, at, bounds, group })
    }
}

/// Runs `PUSH key ttl element id [NX | REPLACE] [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]`: OK, or
/// nil.
pub fn push(context: &CommandContext, args: Args<'_>) -> Result {
    let request = Push::parse(args)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let Push { key, ttl, element, id, if_exists, at, bounds, group } = request;
    let now = dehydrator.now();

    let deadline = checks::deadline(ttl.asked, ttl.ms, at, now)?;
    let bounds = bounds.bounds(deadline);
    let new = Pushed { key, ttl: ttl.ms, element, id, deadline, bounds, group };
    let replaces = matches!(if_exists, IfExists::Replace);
    if !replaces && dehydrator.remembers(id.bytes(), now) {
        if if_exists == IfExists::Refuse {
            return Err(checks::remembered(id.bytes()));
        }
        context.reply_null();
        return Ok(());
    }
    let (length, group) = (dehydrator.rules().limits().length, group.map(Str::bytes));
    let cancels = replaces && dehydrator.look().is_some_and(|lawn| is_held(lawn, id.bytes()));
    let is_stored = dehydrator.lawn_or_new(|lawn| match store(lawn, &new, if_exists, length)? {
        PushResult::Stored => Ok(true),
        PushResult::Kept => Ok(false),
        PushResult::BeyondLength => Err(checks::too_long(lawn, length, group)),
    })?;
    if !is_stored {
        context.reply_null();
        return Ok(());
    }
    dehydrator.forget(id.bytes());
    replicate::pushed(context, &new);
    defaults::apply(context, key, &mut dehydrator);
    PUSHES.add(1);
    dehydrator.finish(c"dehydrator.push");
    tell(context, key, cancels.then_some(id.bytes()));
    context.reply_ok();
    Ok(())
}

/// The result for one element, as MPUSH replies it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PushResult {
    /// The LENGTH limit of the dehydrator or of the group, or with REPLACE the size of a lawn, left no room.
    BeyondLength = -1,
    /// The id existed, and its element was kept.
    Kept = 0,
    Stored = 1,
}

/// Stores an element.
///
/// # Errors
///
/// If the id exists and must not, or there is no room. Then nothing has changed.
#[inline(always)]
pub(super) fn store(
    lawn: &mut Lawn,
    new: &Pushed<'_>,
    if_exists: IfExists,
    length: u64,
) -> Result<PushResult> {
    let Pushed { ttl, deadline, bounds, .. } = *new;
    let (id, group) = (new.id.bytes(), new.group.map(Str::bytes));
    let element = Element { bounds, ..Element::new(id, new.element.bytes(), deadline) };
    // Checked before: a replaced element could not be restored, and one that goes again would move its group in the round.
    let replaces = matches!(if_exists, IfExists::Replace);
    if !checks::has_room_in_group(lawn, id, group, replaces) {
        return Ok(PushResult::BeyondLength);
    }
    let is_within_length = checks::is_within_length(lawn, length);
    if !(is_within_length && checks::has_room(lawn)) && lawn.look(id).is_none() {
        let beyond = Ok(PushResult::BeyondLength);
        return if is_within_length { Err(checks::too_many_elements()) } else { beyond };
    }
    let started = match if_exists {
        IfExists::Replace => lawn.replace_in_group(ttl, &element, group),
        IfExists::Refuse | IfExists::Keep => lawn.start_in_group(ttl, &element, group),
    };
    match started {
        Ok(()) => Ok(PushResult::Stored),
        Err(StartError::Exists) if if_exists == IfExists::Keep => Ok(PushResult::Kept),
        Err(error) => Err(checks::of_start(error, id)),
    }
}

/// The key, the ttl, the element and the options.
type GidPush<'a> = (Str<'a>, Ttl, Str<'a>, PushOptions<'a>);

/// Reads `key ttl element [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]`.
fn parse_gidpush<'a>(args: Args<'a>) -> Result<GidPush<'a>> {
    let (key, element) = (required(args, 1)?, required(args, 3)?);
    let ttl = Ttl::parse(required(args, 2)?)?;
    let chosen = PushOptions::read(args, 4)?;
    if chosen.if_exists != IfExists::Refuse {
        return Err("syntax error, NX and REPLACE are not for GIDPUSH, whose ids are new".into());
    }
    Ok((key, chosen.with_slack(ttl)?, element, chosen))
}

/// Runs `GIDPUSH key ttl element [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]`: the generated id.
pub fn gidpush(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, ttl, element, chosen) = parse_gidpush(args)?;
    let PushOptions { at, bounds, group, .. } = chosen;
    let group = group.flatten();
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();

    let deadline = checks::deadline(ttl.asked, ttl.ms, at, now)?;
    let (length, bounds) = (dehydrator.rules().limits().length, bounds.bounds(deadline));
    let mut id = OwnedStr::new(generated_id().as_bytes());
    // 128 random bits are unique in practice; the check makes it a guarantee.
    while dehydrator.look().is_some_and(|lawn| lawn.look(id.bytes()).is_some()) {
        id = OwnedStr::new(generated_id().as_bytes());
    }
    let new = Pushed { key, ttl: ttl.ms, element, id: id.as_str(), deadline, bounds, group };
    let group = group.map(Str::bytes);
    dehydrator.lawn_or_new(|lawn| match store(lawn, &new, IfExists::Refuse, length)? {
        PushResult::BeyondLength => Err(checks::too_long(lawn, length, group)),
        PushResult::Stored | PushResult::Kept => Ok(()),
    })?;
    dehydrator.forget(id.bytes());
    replicate::pushed(context, &new);
    defaults::apply(context, key, &mut dehydrator);
    PUSHES.add(1);
    dehydrator.finish(c"dehydrator.push");
    context.reply_bulk(id.bytes());
    Ok(())
}

/// `key ttl element id [ttl element id ...] [NX | REPLACE] [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms] [GROUP name]`
pub struct MultiPush<'a> {
    pub key: Str<'a>,
    pub elements: Vec<Listed<'a>>,
    pub if_exists: IfExists,
    /// The deadline of all elements, if it is not their ttl from now.
    pub at: Option<u64>,
    /// Of each element.
    pub bounds: BoundOptions,
    pub group: Option<Str<'a>>,
}

/// One of the elements of an MPUSH.
#[derive(Clone, Copy)]
pub struct Listed<'a> {
    pub ttl: Ttl,
    pub element: Str<'a>,
    pub id: Str<'a>,
}

impl<'a> MultiPush<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 4)?;
        let key = required(args, 1)?;
        let mut elements = Vec::with_capacity(args.len() / 3);
        // In the place of a ttl, a word that begins with a letter is the first option.
        let is_option = |word: Str<'_>| word.bytes().first().is_some_and(u8::is_ascii_alphabetic);
        let mut at = 2;
        while let Some(word) = args.get(at).filter(|word| at == 2 || !is_option(*word)) {
            let (element, id) = (required(args, at + 1)?, required(args, at + 2)?);
            elements.push(Listed { ttl: Ttl::parse(word)?, element, id });
            at += 3;
        }
        let mut chosen = PushOptions::NONE;
        let mut options = Options::new(args, at);
        while let Some(option) = options.next() {
            if !chosen.parse(&option, &mut options)? {
                // Behind an element, an unknown word was meant for a ttl.
                if options.at() == at + 1 {
                    Ttl::parse(required(args, at)?)?;
                }
                return Err(option.unexpected());
            }
        }
        for listed in &mut elements {
            listed.ttl = chosen.with_slack(listed.ttl)?;
        }
        let (group, PushOptions { if_exists, at, bounds, .. }) = (chosen.group.flatten(), chosen);
        Ok(Self { key, elements, if_exists, at, bounds, group })
    }
}

/// Runs `MPUSH key ttl element id [ttl element id ...] [NX | REPLACE] [SLACK ms] [AT unix-ms] [DELIVERIES n] [WITHIN ms]
/// [GROUP name]`: for each 1, 0 if the id exists already, or -1 if a LENGTH limit leaves no room.
pub fn mpush(context: &CommandContext, args: Args<'_>) -> Result {
    let request = MultiPush::parse(args)?;
    let MultiPush { key, elements, if_exists, at, bounds, group } = request;
    let mut dehydrator = Writing::open(context, key)?;
    let now = dehydrator.now();

    let with_deadline = |Listed { ttl, element, id }| {
        let deadline = checks::deadline(ttl.asked, ttl.ms, at, now)?;
        let bounds = bounds.bounds(deadline);
        Ok(Pushed { key, ttl: ttl.ms, element, id, deadline, bounds, group })
    };
    let wanted: Vec<_> = elements.into_iter().map(with_deadline).collect::<Result<_>>()?;
    let replaces = if_exists == IfExists::Replace;
    let mut remembered = Vec::new();
    if !replaces {
        remembered.extend(wanted.iter().map(|it| dehydrator.remembers(it.id.bytes(), now)));
    }
    if if_exists == IfExists::Refuse
        && let Some((first, _)) = wanted.iter().zip(&remembered).find(|(_, is)| **is)
    {
        return Err(checks::remembered(first.id.bytes()));
    }
    let length = dehydrator.rules().limits().length;
    let mut held = Vec::new();
    if let Some(lawn) = dehydrator.look().filter(|_| replaces) {
        held.extend(wanted.iter().map(|new| is_held(lawn, new.id.bytes())));
    }
    let results = dehydrator
        .lawn_or_new(|lawn| store_all(lawn, &wanted, if_exists, (length, &remembered)))?;
    let mut count = 0;
    let stored = wanted.iter().zip(&results).filter(|(_, it)| **it == PushResult::Stored);
    for (new, _) in stored {
        dehydrator.forget(new.id.bytes());
        replicate::pushed(context, new);
        count += 1;
    }
    if count > 0 {
        defaults::apply(context, key, &mut dehydrator);
        PUSHES.add(count);
        dehydrator.finish(c"dehydrator.push");
        let stored = wanted.iter().zip(&results).zip(held);
        let cancelled = stored.filter(|((_, it), held)| *held && **it == PushResult::Stored);
        tell(context, key, cancelled.map(|((new, _), _)| new.id.bytes()).collect::<Vec<_>>());
    }
    let mut reply = context.reply_array(results.len());
    results.into_iter().for_each(|result| reply.push_integer(result as i64));
    Ok(())
}

/// Stores all elements or none, except those beyond a LENGTH limit. An existing or remembered id is replaced, kept or, with
/// [`IfExists::Refuse`], makes the whole command fail.
fn store_all(
    lawn: &mut Lawn,
    wanted: &[Pushed<'_>],
    if_exists: IfExists,
    (length, remembered): (u64, &[bool]),
) -> Result<Vec<PushResult>> {
    let replaces = if_exists == IfExists::Replace;
    let ids = || wanted.iter().map(|new| new.id.bytes());
    // Replaced elements could not be restored.
    if replaces && !checks::has_room_for(lawn, ids(), length) {
        return Err(checks::too_many_elements());
    }
    let mut results = Vec::with_capacity(wanted.len());
    for new in wanted {
        let result = if remembered.get(results.len()) == Some(&true) {
            Ok(PushResult::Kept)
        } else {
            store(lawn, new, if_exists, length)
        };
        match result {
            Ok(result) => results.push(result),
            // At 32 GiB.
            Err(_) if replaces => results.push(PushResult::BeyondLength),
            Err(refusal) => {
                // A refused command changes nothing.
                let stored = ids().zip(results).filter(|(_, it)| *it == PushResult::Stored);
                stored.for_each(|(id, _)| drop(lawn.stop(id)));
                return Err(refusal);
            }
        }
    }
    Ok(results)
}

/// Generates a random id: 32 hexadecimal digits.
fn generated_id() -> String {
    format!("{:032x}", u128::from_ne_bytes(random_bytes()))
}
