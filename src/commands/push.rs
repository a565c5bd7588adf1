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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;
    use crate::server::Error;
    use lawn::{Bounds, DEADLINE_MAX};

    type Read = ([String; 3], (u64, u64), (IfExists, Option<u64>));

    fn push(args: Args<'_>) -> Result<Read> {
        let it = Push::parse(args)?;
        Ok((
            [it.key, it.element, it.id].map(text),
            (it.ttl.asked, it.ttl.ms),
            (it.if_exists, it.at),
        ))
    }

    #[test]
    fn a_push_is_its_words_and_its_options_in_any_order() {
        use IfExists::{Keep, Refuse, Replace};
        needs_all_of("k 5 e i", only!(Push::parse));
        let pushed = |ttl: (u64, u64), rest| Ok((["k", "e", "i"].map(Into::into), ttl, rest));
        let plain = (1000, 1000);
        assert_eq!(request("k 1000 e i", push), pushed(plain, (Refuse, None)));
        assert_eq!(request("k 1000 e i NX", push), pushed(plain, (Keep, None)));
        assert_eq!(request("k 1000 e i rePlace", push), pushed(plain, (Replace, None)));
        assert_eq!(request("k 1000 e i AT 0", push), pushed(plain, (Refuse, Some(0))));
        let all = pushed(plain, (Replace, Some(77)));
        assert_eq!(request("k 1000 e i REPLACE AT 77", push), all);
        assert_eq!(request("k 1000 e i at 77 replace", push), all);
        let slack = pushed((1000, 1024), (Keep, None));
        assert_eq!(request("k 1000 e i NX SLACK 100", push), slack);
        assert_eq!(request("k 1000 e i slack 100 nx", push), slack);
        assert_eq!(request("k 1000 e i SLACK 0", push), pushed(plain, (Refuse, None)));
        assert_eq!(request("k 1024 e i SLACK 9", push), pushed((1024, 1024), (Refuse, None)));
        let longest = pushed((DEADLINE_MAX, DEADLINE_MAX), (Refuse, None));
        assert_eq!(request("k 9223372036854775807 e i SLACK 0", push), longest);
    }

    #[test]
    fn bounds_follow_the_deadline_and_what_cannot_be_stored_never_comes() {
        let bounds = |words: &str, deadline| {
            let one = request(&format!("k 5 e i {words}"), |args: Args<'_>| {
                Ok(Push::parse(args)?.bounds.bounds(deadline))
            });
            let many = request(&format!("k 5 e i {words}"), |args: Args<'_>| {
                Ok(MultiPush::parse(args)?.bounds.bounds(deadline))
            });
            let generated = request(&format!("k 5 e {words}"), |args: Args<'_>| {
                Ok(parse_gidpush(args)?.3.bounds.bounds(deadline))
            });
            assert!(one == many && one == generated, "{one:?} {many:?} {generated:?}");
            one.map(|it| (it.deliveries, it.until))
        };
        assert_eq!(bounds("", 7), Ok((0, 0)));
        assert_eq!(bounds("DELIVERIES 65535", 7), Ok((65_535, 0)));
        assert_eq!(bounds("within 1 SLACK 9 deliveries 1", 7), Ok((1, 8)));
        let last = Bounds::UNTIL_MAX;
        assert_eq!(bounds("WITHIN 9223372036854775807", 7), Ok((0, last)));
    }

    #[test]
    fn a_push_names_the_group_of_its_elements() {
        let group = |words: &str| {
            let bytes = |group: Option<Str<'_>>| group.map(|it| it.bytes().to_vec());
            let one = request(&format!("k 5 e i {words}"), |it| Ok(bytes(Push::parse(it)?.group)));
            let many = request(&format!("k 5 e i 6 f j {words}"), |it| {
                Ok(bytes(MultiPush::parse(it)?.group))
            });
            let generated = request(&format!("k 5 e {words}"), |it| {
                Ok(bytes(parse_gidpush(it)?.3.group.flatten()))
            });
            assert!(one == many && one == generated, "{one:?} {many:?} {generated:?}");
            one
        };
        assert_eq!(group("SLACK 9"), Ok(None));
        assert_eq!(group("group GROUP SLACK 9"), Ok(Some(b"GROUP".to_vec())));
        let longest = "g".repeat(1024);
        assert_eq!(group(&format!("GROUP {longest}")), Ok(Some(longest.clone().into_bytes())));
        for words in ["GROUP", "GROUP a GROUP b", &format!("GROUP {longest}g")] {
            assert!(matches!(group(words), Err(Error::Refused(_))), "{words}");
        }
    }

    #[test]
    fn a_push_refuses_what_contradicts_itself_or_is_no_number() {
        refuses_each(
            "k 1.5 e i; k -1 e i; k 9223372036854775808 e i; k 9223372036854775807 e i SLACK 1; \
             k 5 e i NX NX; k 5 e i NX REPLACE; k 5 e i REPLACE NX; k 5 e i REPLACE REPLACE; \
             k 5 e i SLACK 1 SLACK 1; k 5 e i SLACK; k 5 e i SLACK x; k 5 e i SLACK 1 AT 9; \
             k 5 e i AT 9 SLACK 1; k 5 e i AT 9 SLACK 0; k 5 e i AT; k 5 e i AT x; k 5 e i AT 9 AT 9; \
             k 5 e i AT 9223372036854775808; k 5 e i AT 9 DELIVERED 1; k 5@9 e i; \
             k 5 e i DELIVERIES 0; k 5 e i DELIVERIES 65536; k 5 e i DELIVERIES x; k 5 e i DELIVERIES; \
             k 5 e i DELIVERIES 1 DELIVERIES 1; k 5 e i WITHIN; k 5 e i WITHIN 0; k 5 e i WITHIN x; \
             k 5 e i WITHIN 1 WITHIN 1; k 5 e i UNTIL 9; \
             k 5 e i more; k 5 e i NXNXNXNXNXNXNXNXNX"
                .split("; "),
            only!(Push::parse),
        );
    }

    #[test]
    fn pushes_without_ids_and_of_many_are_their_words() {
        needs_all_of("k 5 e", only!(parse_gidpush));
        let gidpush = |args: Args<'_>| {
            let (key, ttl, element, ..) = parse_gidpush(args)?;
            Ok((text(key), ttl.asked, ttl.ms, text(element)))
        };
        let at = request("k 1000 e AT 9", |args| Ok(parse_gidpush(args)?.3.at));
        assert_eq!(at, Ok(Some(9)));
        assert_eq!(request("k 1000 e", gidpush), Ok(("k".into(), 1000, 1000, "e".into())));
        assert_eq!(
            request("k 1000 e SLACK 100", gidpush),
            Ok(("k".into(), 1000, 1024, "e".into()))
        );
        refuses_each(
            &[
                "k x e",
                "k 5 e i",
                "k 5 e NX",
                "k 5 e SLACK",
                "k 5 e SLACK 1 SLACK 1",
                "k 5 e AT 9 SLACK 1",
            ],
            only!(parse_gidpush),
        );

        needs_all_of("k 5 e i", only!(MultiPush::parse));
        takes_no_more("k 5 e i 7", only!(MultiPush::parse));
        takes_no_more("k 5 e i 6 f j 7", only!(MultiPush::parse));
        refuses_each(
            "k 5 e i more; k 5 e i x f j; k NX e i; k 5 e i NX NX; k 5 e i NX REPLACE; k 5 e i SLACK; k 5 e i SLACK 1 AT 9; \
             k 5 e i AT 9 AT 9; k 5 e i AT x; k 5 e i NX 5 f j; k 5 e i AT 9 DELIVERED 1; k 5@9 e i"
                .split("; "),
            only!(MultiPush::parse),
        );
    }

    #[test]
    fn options_behind_many_hold_for_all_of_them() {
        use IfExists::{Keep, Refuse, Replace};
        let multipush = |args: Args<'_>| {
            let it = MultiPush::parse(args)?;
            let element =
                |it: &Listed<'_>| format!("{} {} {}", it.ttl.ms, text(it.element), text(it.id));
            let elements = it.elements.iter().map(element).collect::<Vec<_>>().join(", ");
            Ok((elements, it.if_exists, it.at))
        };
        let pushed = |elements: &str, if_exists, at| Ok((elements.to_owned(), if_exists, at));
        assert_eq!(request("k 5 e i", multipush), pushed("5 e i", Refuse, None));
        assert_eq!(request("k 5 e i 0 f j", multipush), pushed("5 e i, 0 f j", Refuse, None));
        assert_eq!(request("k 5 e i 0 f j nx", multipush), pushed("5 e i, 0 f j", Keep, None));
        let all = pushed("5 e i, 0 f j", Replace, Some(9));
        assert_eq!(request("k 5 e i 0 f j REPLACE AT 9", multipush), all);
        assert_eq!(request("k 5 e i 0 f j at 9 replace", multipush), all);
        let slack = pushed("1024 e i, 1024 f j", Refuse, None);
        assert_eq!(request("k 1000 e i 1020 f j SLACK 100", multipush), slack);
        // Elements and ids may equal the names of options.
        let words = pushed("5 NX AT, 5 REPLACE 9", Keep, None);
        assert_eq!(request("k 5 NX AT 5 REPLACE 9 NX", multipush), words);
    }
}
