//! Reading a dehydrator, ours or ReDe's.

use super::field::{
    BOUNDS, Corrupt, DROP, GROUPS, HOLD_DELIVERIES, KNOWN, LEASES, LIMITS, LIST, PAUSE, POLICY,
    PUBLISH, REASONS, REMEMBERED, SCHEDULES, STREAM, Source, TO_LIST, TOKENS, UNCONFIRMED, VERSION,
    VERSION_REDE, take_number,
};
use crate::policy::{End, Limits, MaxLen, Pause, Policy, Route, Rules, Trust};
use crate::schedule::{NAME_MAX, Schedule};
use lawn::{
    Aside, Bounds, DEADLINE_MAX, Element, GROUP_NAME_MAX, GroupLimits, GroupSettings, Lawn,
    REASON_MAX, Rate, Since, StartError, Token,
};

/// The content of a dehydrator: elements, rules, remembered ids and schedules.
pub type Loaded = (Lawn, Rules, Aside, Aside);

/// Reads a dehydrator of any version into an empty lawn. Fails with [`Corrupt`] if `source` does not hold a dehydrator.
pub fn load(lawn: Lawn, source: &mut impl Source, version: i32) -> Result<Loaded, Corrupt> {
    match version {
        VERSION => load_current(lawn, source),
        VERSION_REDE => {
            let lawn = load_rede(lawn, source)?;
            Ok((lawn, Rules::default(), Aside::default(), Aside::default()))
        }
        _ => Err(Corrupt::LATER),
    }
}

fn load_current(mut lawn: Lawn, source: &mut impl Source) -> Result<Loaded, Corrupt> {
    let features = source.unsigned()?;
    if features & !KNOWN != 0 {
        return Err(Corrupt::LATER);
    }
    let policy = if features & POLICY != 0 { load_policy(source)? } else { Policy::Hold };
    if matches!(policy.route(), Some(Route::List { .. })) != (features & TO_LIST != 0) {
        return Err(Corrupt("the policy and the features disagree on a list"));
    }
    let trust = match features & UNCONFIRMED {
        0 => Trust::Confirmed,
        _ if policy.sends_elsewhere() => Trust::Unconfirmed,
        _ => return Err(Corrupt("there is nothing to confirm")),
    };
    let pause = if features & PAUSE != 0 { Some(load_pause(source)?) } else { None };
    let limits = if features & LIMITS != 0 { Some(load_limits(source)?) } else { None };
    if features & GROUPS != 0 {
        load_group_settings(&mut lawn, source)?;
    }
    let mut deadline: u64 = 0;
    let mut groups = Vec::new();
    load_records(source, |rest| {
        let later = take_number(rest)?;
        deadline = deadline.checked_add(later).ok_or(Corrupt("a deadline is out of range"))?;
        let ttl = take_number(rest)?;
        if ttl > DEADLINE_MAX {
            return Err(Corrupt("a ttl is out of range"));
        }
        let deliveries = if features & LEASES != 0 { take_number(rest)? } else { 0 };
        let deliveries = u16::try_from(deliveries)
            .map_err(|_| Corrupt("a number of deliveries is out of range"))?;
        let token = match features & TOKENS {
            TOKENS if deliveries > 0 => take_token(rest)?,
            _ => None,
        };
        let since = if token.is_some() { take_since(rest)? } else { Since::UNKNOWN };
        let bounds = if features & BOUNDS != 0 { take_bounds(rest)? } else { Bounds::NONE };
        let group = if features & GROUPS != 0 { take_group(rest, &mut groups)? } else { None };
        let reason = if features & REASONS != 0 { take_reason(rest)? } else { &[] };
        let (id_length, payload_length) = (take_number(rest)?, take_number(rest)?);
        let (id, payload) = (take_bytes(rest, id_length)?, take_bytes(rest, payload_length)?);
        let element = Element { bounds, ..Element::new(id, payload, deadline) };
        start(&mut lawn, ttl, &element, group)?;
        if deliveries > 0 {
            lawn.set_deliveries(id, deliveries, token);
            if since != Since::UNKNOWN {
                lawn.set_held_since(id, since);
            }
        }
        if !reason.is_empty() {
            lawn.set_reason(id, reason);
        }
        Ok(())
    })?;
    let remembered = match features & REMEMBERED {
        0 => Aside::default(),
        _ if limits.as_ref().is_some_and(|limits| limits.remember > 0) => {
            load_remembered(&lawn, source)?
        }
        _ => return Err(Corrupt("remembered ids without REMEMBER")),
    };
    let schedules = match features & SCHEDULES {
        0 => Aside::default(),
        _ => load_schedules(&lawn, source)?,
    };
    let rules = Rules { policy, pause, trust, limits: limits.map(Box::new) };
    Ok((lawn, rules, remembered, schedules))
}

fn load_schedules(lawn: &Lawn, source: &mut impl Source) -> Result<Aside, Corrupt> {
    let mut schedules = Aside::default();
    let count = load_records(source, |rest| {
        let (name_length, length) = (take_number(rest)?, take_number(rest)?);
        let (name, record) = (take_bytes(rest, name_length)?, take_bytes(rest, length)?);
        let schedule = Schedule::decode(record).ok_or(Corrupt("a schedule is none"))?;
        if name.len() > NAME_MAX || schedules.payload(name).is_some() {
            return Err(Corrupt("the name of a schedule is too long, or occurs twice"));
        }
        let set = schedules.set(lawn, name, record, schedule.due(name));
        set.map_err(|_| Corrupt("more schedules than a dehydrator can hold"))
    })?;
    if count == 0 { Err(Corrupt("no schedules")) } else { Ok(schedules) }
}

/// Reads a number of records, and then the records, which `take` cuts from the front of strings. Returns the number.
fn load_records(
    source: &mut impl Source,
    mut take: impl FnMut(&mut &[u8]) -> Result<(), Corrupt>,
) -> Result<u64, Corrupt> {
    let count = source.unsigned()?;
    let mut left = count;
    while left > 0 {
        let chunk = source.bytes()?;
        let mut rest = &chunk[..];
        if rest.is_empty() {
            return Err(Corrupt("a string without records"));
        }
        while !rest.is_empty() {
            left = left.checked_sub(1).ok_or(Corrupt("more records than announced"))?;
            take(&mut rest)?;
        }
    }
    Ok(count)
}

/// Reads remembered ids, which must not be in the lawn.
fn load_remembered(lawn: &Lawn, source: &mut impl Source) -> Result<Aside, Corrupt> {
    let mut ids = Aside::default();
    let mut until: u64 = 0;
    let count = load_records(source, |rest| {
        until = until.wrapping_add(take_number(rest)?);
        if until > DEADLINE_MAX {
            return Err(Corrupt("a time is out of range"));
        }
        let length = take_number(rest)?;
        let id = take_bytes(rest, length)?;
        if lawn.look(id).is_some() || ids.until(id).is_some() {
            return Err(Corrupt("a remembered id occurs twice"));
        }
        ids.insert(lawn, id, until);
        Ok(())
    })?;
    if count == 0 { Err(Corrupt("no remembered ids")) } else { Ok(ids) }
}

fn load_pause(source: &mut impl Source) -> Result<Pause, Corrupt> {
    match source.unsigned()? {
        0 => Ok(Pause::UNTIL_RESUMED),
        end @ 1..=DEADLINE_MAX => Ok(Pause::until(end)),
        _ => Err(Corrupt("the end of a pause is out of range")),
    }
}

fn load_limits(source: &mut impl Source) -> Result<Limits, Corrupt> {
    let (length, held) = (number(source, LIMIT_RANGE)?, number(source, LIMIT_RANGE)?);
    let rate = load_rate(source)?.map(|(most, per)| Rate::new(most, per));
    let mut limits = Limits { length, held, rate, remember: number(source, LIMIT_RANGE)? };
    if !limits.has_any() {
        return Err(Corrupt("there is no limit"));
    }
    load_log(limits.rate.as_mut(), source)?;
    Ok(limits)
}

/// Reads when elements were given out under a rate, if there is one.
fn load_log(mut rate: Option<&mut Rate>, source: &mut impl Source) -> Result<(), Corrupt> {
    for _ in 0..source.unsigned()? {
        let (moment, count) = (source.unsigned()?, source.unsigned()?);
        let is_possible = moment <= DEADLINE_MAX && count <= DEADLINE_MAX;
        let rate = rate.as_deref_mut().filter(|_| is_possible);
        if !rate.is_some_and(|rate| rate.load(moment, count)) {
            return Err(Corrupt("the log of a rate is out of range"));
        }
    }
    Ok(())
}

/// Reads a rate: a number of elements and a number of milliseconds, or 0 and 0.
fn load_rate(source: &mut impl Source) -> Result<Option<(u64, u64)>, Corrupt> {
    match (number(source, LIMIT_RANGE)?, number(source, LIMIT_RANGE)?) {
        (0, 0) => Ok(None),
        (0, _) | (_, 0) => Err(Corrupt("a rate is out of range")),
        rate => Ok(Some(rate)),
    }
}

fn load_policy(source: &mut impl Source) -> Result<Policy, Corrupt> {
    match source.unsigned()? {
        HOLD_DELIVERIES => {
            let deliveries = u16::try_from(source.unsigned()?).ok().filter(|it| *it > 0);
            let deliveries = deliveries.ok_or(Corrupt("a limit of deliveries is out of range"))?;
            let kind = source.unsigned()?;
            Ok(Policy::HoldDeliveries { deliveries, route: load_route(kind, source)? })
        }
        kind => Ok(Policy::Send(load_route(kind, source)?)),
    }
}

fn load_route(kind: u64, source: &mut impl Source) -> Result<Route, Corrupt> {
    Ok(match kind {
        DROP => Route::Drop,
        STREAM => {
            let dest = source.bytes()?[..].into();
            let (length, approximate) = (source.unsigned()?, source.unsigned()?);
            // XADD takes a signed number.
            let maxlen = match (length, approximate) {
                (0, 0) => None,
                (1..=DEADLINE_MAX, 0 | 1) => Some(MaxLen { length, approximate: approximate == 1 }),
                _ => return Err(Corrupt("a stream's length is out of range")),
            };
            Route::Stream { dest, maxlen }
        }
        PUBLISH => Route::Publish { channel: source.bytes()?[..].into() },
        LIST => {
            let dest = source.bytes()?[..].into();
            let end = match source.unsigned()? {
                0 => End::Right,
                1 => End::Left,
                _ => return Err(Corrupt("a list has two ends")),
            };
            Route::List { dest, end }
        }
        _ => return Err(Corrupt::LATER),
    })
}

fn load_rede(mut lawn: Lawn, source: &mut impl Source) -> Result<Lawn, Corrupt> {
    let _name = source.bytes()?;
    for _ in 0..source.unsigned()? {
        let ttl = source.unsigned()?;
        // ReDe took negative TTLs, and widened them: their elements were due at once.
        let ttl = if ttl > DEADLINE_MAX { 0 } else { ttl };
        for _ in 0..source.unsigned()? {
            let deadline = source.unsigned()?;
            let id = source.bytes()?;
            let payload = source.bytes()?;
            start(&mut lawn, ttl, &Element::new(&id, &payload, deadline), None)?;
        }
    }
    Ok(lawn)
}

fn start(
    lawn: &mut Lawn,
    ttl: u64,
    new: &Element<'_>,
    group: Option<&[u8]>,
) -> Result<(), Corrupt> {
    lawn.start_in_group(ttl, new, group).map_err(|error| match error {
        StartError::Exists => Corrupt("two elements have one id"),
        StartError::TooLate => Corrupt("a deadline is out of range"),
        StartError::Full => Corrupt("more elements than a dehydrator can hold"),
    })
}

fn take_bounds(rest: &mut &[u8]) -> Result<Bounds, Corrupt> {
    let deliveries = u16::try_from(take_number(rest)?);
    let deliveries = deliveries.map_err(|_| Corrupt("a bound of deliveries is out of range"))?;
    match take_number(rest)? {
        until @ 0..=Bounds::UNTIL_MAX => Ok(Bounds { deliveries, until }),
        _ => Err(Corrupt("the end of an element's time is out of range")),
    }
}

/// Reads the number of a group. `names` has the names of the numbers before.
fn take_group<'a>(
    rest: &mut &[u8],
    names: &'a mut Vec<Vec<u8>>,
) -> Result<Option<&'a [u8]>, Corrupt> {
    let number = take_number(rest)?;
    let Some(at) = number.checked_sub(1) else { return Ok(None) };
    if at == names.len() as u64 {
        let length = take_number(rest)?;
        let name = take_bytes(rest, length)?;
        if !(1..=GROUP_NAME_MAX).contains(&name.len()) {
            return Err(NAME);
        }
        names.push(name.to_vec());
    }
    let name = usize::try_from(at).ok().and_then(|at| names.get(at));
    name.map(|name| Some(&name[..])).ok_or(Corrupt("a group's number is out of range"))
}

const NAME: Corrupt = Corrupt("the length of a group's name is out of range");

/// Reads the limits of each group, and the groups with settings of their own.
fn load_group_settings(lawn: &mut Lawn, source: &mut impl Source) -> Result<(), Corrupt> {
    lawn.set_each_group(load_group_limits(source)?);
    for _ in 0..source.unsigned()? {
        let name = source.bytes()?;
        if name.len() > GROUP_NAME_MAX {
            return Err(NAME);
        }
        let share = match u16::try_from(source.unsigned()?) {
            Ok(share @ 1..) => share,
            _ => return Err(Corrupt("a group's share is out of range")),
        };
        let limits = load_group_limits(source)?;
        let paused_until = number(source, "the end of a group's pause is out of range")?;
        let settings = GroupSettings { share, limits, paused_until };
        let is_share = settings == GroupSettings { share, ..GroupSettings::NONE };
        if settings == GroupSettings::NONE || (name.is_empty() && !is_share) {
            return Err(Corrupt("a group without settings, or with some that it cannot have"));
        }
        if lawn.group_rules().of(&name) != GroupSettings::NONE {
            return Err(Corrupt("a group's settings occur twice"));
        }
        lawn.set_group(&name, settings);
    }
    for _ in 0..source.unsigned()? {
        let name = source.bytes()?;
        if name.len() > GROUP_NAME_MAX {
            return Err(NAME);
        }
        let rate = lawn
            .group_rules()
            .limits(&name)
            .rate()
            .ok_or(Corrupt("a group has a log, but no rate"))?;
        let mut log = Rate::new(rate.0, rate.1);
        load_log(Some(&mut log), source)?;
        if log.entries().len() == 0 {
            return Err(Corrupt("a group has a log without entries"));
        }
        if let Some(mut groups) = lawn.groups_mut() {
            groups.set_log(&name, log);
        }
    }
    Ok(())
}

fn load_group_limits(source: &mut impl Source) -> Result<GroupLimits, Corrupt> {
    let (length, held) = (number(source, LIMIT_RANGE)?, number(source, LIMIT_RANGE)?);
    let (rate, per) = load_rate(source)?.unwrap_or((0, 0));
    Ok(GroupLimits { length, held, rate, per })
}

const LIMIT_RANGE: &str = "a limit is out of range";

/// Reads a number that fits in 63 bits.
fn number(source: &mut impl Source, range: &'static str) -> Result<u64, Corrupt> {
    match source.unsigned()? {
        number @ 0..=DEADLINE_MAX => Ok(number),
        _ => Err(Corrupt(range)),
    }
}

fn take_token(rest: &mut &[u8]) -> Result<Option<Token>, Corrupt> {
    match take_number(rest)? {
        0 => Ok(None),
        number => Token::new(number).map(Some).ok_or(Corrupt("a token is out of range")),
    }
}

/// Reads since when an element is held.
fn take_since(rest: &mut &[u8]) -> Result<Since, Corrupt> {
    let moment = take_number(rest)?;
    if moment > DEADLINE_MAX {
        return Err(Corrupt("a moment is out of range"));
    }
    let waited = if moment > 0 { take_number(rest)? } else { 0 };
    if waited > DEADLINE_MAX {
        return Err(Corrupt("a time is out of range"));
    }
    Ok(Since { moment, waited })
}

fn take_reason<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Corrupt> {
    let length = take_number(rest)?;
    let reason = take_bytes(rest, length)?;
    if reason.len() > REASON_MAX { Err(Corrupt("a reason is too long")) } else { Ok(reason) }
}

fn take_bytes<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], Corrupt> {
    let length = usize::try_from(length).map_err(|_| Corrupt("a string is cut off"))?;
    let (bytes, tail) = rest.split_at_checked(length).ok_or(Corrupt("a string is cut off"))?;
    *rest = tail;
    Ok(bytes)
}
