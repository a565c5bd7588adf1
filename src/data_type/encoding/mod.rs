//! How a dehydrator looks in an RDB file, a full sync and a DUMP.
//!
//! Version 1, ours. All elements in order of delivery, in strings of some tens of kilobytes each, so
//! that a million elements are a few thousand fields:
//!
//! ```text
//!   unsigned   features: bits, 1: leases, 2: a policy, 4: a pause, 8: tokens, 16: the policy is not confirmed;
//!              one that a reader does not know makes it refuse. A new one raises the level: see level.rs
//!   with feature 2:
//!     unsigned   policy: 1 DROP, 2 STREAM, 3 PUBLISH, 4 HOLD DELIVERIES, and for
//!       STREAM     string: the stream; unsigned: MAXLEN, 0 if none; unsigned: 1 if that is `~`, or 0
//!       PUBLISH    string: the channel
//!       HOLD DELIVERIES
//!                  unsigned: how many; then 1, 2 or 3, as above
//!   with feature 4:
//!     unsigned   when the pause ends, ms since the epoch; 0: when it is resumed
//!   unsigned   number of elements
//!   string*    elements, one behind the other, until the number is reached:
//!                deadline, ms since the epoch, less that of the element before   LEB128
//!                ttl, ms                                                        LEB128
//!                with feature 1: how often it was given out under a lease        LEB128
//!                with feature 8, if it was: the token of the lease, 0 if none    LEB128
//!                length of the id, length of the payload                        LEB128
//!                id, payload
//! ```
//!
//! Deadlines never decrease in that order, so the differences are small and never negative. Ties keep
//! their order because they are pushed again in it.
//!
//! Version 0, ReDe's. Read, never written:
//!
//! ```text
//!   string     name
//!   unsigned   number of queues, and for each
//!     unsigned   ttl, a signed 32-bit number
//!     unsigned   number of elements, and for each, in FIFO order
//!       unsigned   deadline, ms since the epoch
//!       string     id
//!       string     element
//! ```
//!
//! A payload is data from outside (RESTORE takes any bytes): everything in it is checked, and nothing
//! is allocated on the word of a count.

use std::ops::Deref;

use crate::lawn::{DEADLINE_MAX, Lawn, StartError, Token};
use crate::policy::{MaxLen, Pause, Policy, Route, Rules, Trust};

/// A payload that cannot be what a server wrote, or ends too early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt(pub &'static str);

impl Corrupt {
    /// It is none: a later version of the module wrote it.
    pub const LATER: Self = Self("written by a later version of the module");
}

/// Where fields come from: an RDB, a replica's full sync, RESTORE.
pub trait Source {
    /// The bytes of a string field.
    type Bytes: Deref<Target = [u8]>;

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the next field is no number, or there is none.
    fn unsigned(&mut self) -> Result<u64, Corrupt>;

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the next field is no string, or there is none.
    fn bytes(&mut self) -> Result<Self::Bytes, Corrupt>;
}

/// Where fields go.
pub trait Sink {
    fn unsigned(&mut self, number: u64);
    fn bytes(&mut self, bytes: &[u8]);
}

/// The encoding that is written.
pub const VERSION: i32 = 1;
/// ReDe's encoding.
const VERSION_REDE: i32 = 0;

/// A feature: elements know how often they were given out under a lease.
const LEASES: u64 = 1;
/// A feature: what becomes of what comes due is not HOLD.
const POLICY: u64 = 2;
/// A feature: nothing is given out or delivered for a while.
const PAUSE: u64 = 4;
/// A feature: elements that were given out know under which token.
const TOKENS: u64 = 8;
/// A feature: the policy came by RESTORE, and nothing goes by it until it is confirmed.
const UNCONFIRMED: u64 = 16;

const DROP: u64 = 1;
const STREAM: u64 = 2;
const PUBLISH: u64 = 3;
const LIMIT: u64 = 4;

/// A string is written when it has grown to this size. The server compresses each by itself, and
/// holds one in memory while it loads.
const CHUNK_BYTES: usize = 32 * 1024;

/// Writes a dehydrator, in the newest version.
pub fn save(lawn: &Lawn, rules: &Rules, sink: &mut impl Sink) {
    let Rules { policy, pause, trust } = rules;
    // What needs no new feature stays readable for what does not know it.
    let leases = if lawn.delivered() > 0 { LEASES } else { 0 };
    let tokens = if lawn.has_tokens() { TOKENS } else { 0 };
    let paused = if pause.is_some() { PAUSE } else { 0 };
    let ruled = if *policy == Policy::Hold { 0 } else { POLICY };
    let unconfirmed = if trust.is_confirmed() { 0 } else { UNCONFIRMED };
    let features = leases | tokens | paused | ruled | unconfirmed;
    sink.unsigned(features);
    save_policy(policy, sink);
    if let Some(pause) = pause {
        sink.unsigned(pause.end().unwrap_or(0));
    }
    sink.unsigned(lawn.len() as u64);
    let mut chunk = Vec::new();
    let mut last = 0;
    for (ttl, element) in lawn.iter() {
        put_number(&mut chunk, element.deadline - last);
        put_number(&mut chunk, ttl);
        if features & LEASES != 0 {
            put_number(&mut chunk, element.deliveries.into());
        }
        if features & TOKENS != 0 && element.deliveries > 0 {
            put_number(&mut chunk, lawn.token(&element).map_or(0, Token::number));
        }
        put_number(&mut chunk, element.id.len() as u64);
        put_number(&mut chunk, element.payload.len() as u64);
        chunk.extend_from_slice(element.id);
        chunk.extend_from_slice(element.payload);
        last = element.deadline;
        if chunk.len() >= CHUNK_BYTES {
            sink.bytes(&chunk);
            chunk.clear();
        }
    }
    if !chunk.is_empty() {
        sink.bytes(&chunk);
    }
}

/// Writes a policy. For HOLD that is nothing.
fn save_policy(policy: &Policy, sink: &mut impl Sink) {
    match policy {
        Policy::Hold => {}
        Policy::Limit { deliveries, route } => {
            sink.unsigned(LIMIT);
            sink.unsigned((*deliveries).into());
            save_route(route, sink);
        }
        Policy::Send(route) => save_route(route, sink),
    }
}

fn save_route(route: &Route, sink: &mut impl Sink) {
    match route {
        Route::Drop => sink.unsigned(DROP),
        Route::Stream { dest, maxlen } => {
            sink.unsigned(STREAM);
            sink.bytes(dest);
            sink.unsigned(maxlen.map_or(0, |maxlen| maxlen.length));
            sink.unsigned(maxlen.is_some_and(|maxlen| maxlen.approximate).into());
        }
        Route::Publish { channel } => {
            sink.unsigned(PUBLISH);
            sink.bytes(channel);
        }
    }
}

/// Reads a dehydrator of any version into an empty lawn.
///
/// # Errors
///
/// [`Corrupt`] if that is not what `source` holds.
pub fn load(lawn: Lawn, source: &mut impl Source, version: i32) -> Result<(Lawn, Rules), Corrupt> {
    match version {
        VERSION => load_current(lawn, source),
        VERSION_REDE => Ok((load_rede(lawn, source)?, Rules::default())),
        _ => Err(Corrupt::LATER),
    }
}

fn load_current(mut lawn: Lawn, source: &mut impl Source) -> Result<(Lawn, Rules), Corrupt> {
    let features = source.unsigned()?;
    if features & !(LEASES | POLICY | PAUSE | TOKENS | UNCONFIRMED) != 0 {
        return Err(Corrupt::LATER);
    }
    let policy = if features & POLICY != 0 { load_policy(source)? } else { Policy::Hold };
    let trust = match features & UNCONFIRMED {
        0 => Trust::Confirmed,
        _ if policy.sends_elsewhere() => Trust::Unconfirmed,
        _ => return Err(Corrupt("there is nothing to confirm")),
    };
    let pause = if features & PAUSE != 0 { Some(load_pause(source)?) } else { None };
    let mut left = source.unsigned()?;
    let mut deadline: u64 = 0;
    while left > 0 {
        let chunk = source.bytes()?;
        let mut rest = &chunk[..];
        if rest.is_empty() {
            return Err(Corrupt("a chunk without elements"));
        }
        while !rest.is_empty() {
            left = left.checked_sub(1).ok_or(Corrupt("more elements than announced"))?;
            let later = take_number(&mut rest)?;
            deadline = deadline.checked_add(later).ok_or(Corrupt("a deadline is out of range"))?;
            let ttl = take_number(&mut rest)?;
            if ttl > DEADLINE_MAX {
                return Err(Corrupt("a ttl is out of range"));
            }
            let deliveries = if features & LEASES != 0 { take_number(&mut rest)? } else { 0 };
            let deliveries = u16::try_from(deliveries)
                .map_err(|_| Corrupt("a number of deliveries is out of range"))?;
            let token = match features & TOKENS {
                TOKENS if deliveries > 0 => take_token(&mut rest)?,
                _ => None,
            };
            let id_length = take_number(&mut rest)?;
            let payload_length = take_number(&mut rest)?;
            let id = take_bytes(&mut rest, id_length)?;
            let payload = take_bytes(&mut rest, payload_length)?;
            start(&mut lawn, id, ttl, payload, deadline)?;
            if deliveries > 0 {
                lawn.set_deliveries(id, deliveries, token);
            }
        }
    }
    Ok((lawn, Rules { policy, pause, trust }))
}

fn load_pause(source: &mut impl Source) -> Result<Pause, Corrupt> {
    match source.unsigned()? {
        0 => Ok(Pause::UNTIL_RESUMED),
        end @ 1..=DEADLINE_MAX => Ok(Pause::until(end)),
        _ => Err(Corrupt("the end of a pause is out of range")),
    }
}

fn load_policy(source: &mut impl Source) -> Result<Policy, Corrupt> {
    match source.unsigned()? {
        LIMIT => {
            let deliveries = u16::try_from(source.unsigned()?).ok().filter(|it| *it > 0);
            let deliveries = deliveries.ok_or(Corrupt("a limit of deliveries is out of range"))?;
            let kind = source.unsigned()?;
            Ok(Policy::Limit { deliveries, route: load_route(kind, source)? })
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
            // As XADD has it, which takes a signed number.
            let maxlen = match (length, approximate) {
                (0, 0) => None,
                (1..=DEADLINE_MAX, 0 | 1) => Some(MaxLen { length, approximate: approximate == 1 }),
                _ => return Err(Corrupt("a stream's length is out of range")),
            };
            Route::Stream { dest, maxlen }
        }
        PUBLISH => Route::Publish { channel: source.bytes()?[..].into() },
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
            start(&mut lawn, &id, ttl, &payload, deadline)?;
        }
    }
    Ok(lawn)
}

fn start(
    lawn: &mut Lawn,
    id: &[u8],
    ttl: u64,
    payload: &[u8],
    deadline: u64,
) -> Result<(), Corrupt> {
    lawn.start_at(id, ttl, payload, deadline).map_err(|error| match error {
        StartError::Exists => Corrupt("two elements have one id"),
        StartError::TooLate => Corrupt("a deadline is out of range"),
        StartError::Full => Corrupt("more elements than a dehydrator can hold"),
    })
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Result<u64, Corrupt> {
    let mut number: u64 = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or(Corrupt("a number is cut off"))?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Corrupt("a number has more than 64 bits"))
}

fn take_token(rest: &mut &[u8]) -> Result<Option<Token>, Corrupt> {
    match take_number(rest)? {
        0 => Ok(None),
        number => Token::new(number).map(Some).ok_or(Corrupt("a token is out of range")),
    }
}

fn take_bytes<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], Corrupt> {
    let length = usize::try_from(length).map_err(|_| Corrupt("a string is cut off"))?;
    let (bytes, tail) = rest.split_at_checked(length).ok_or(Corrupt("a string is cut off"))?;
    *rest = tail;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::fields::{Field, Fields};
    use super::*;
    use crate::lawn::{Element, Shared, SmallMax};

    fn empty() -> Lawn {
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        Lawn::new(Arc::new(Shared::new(hasher, || SmallMax::USUAL)))
    }

    fn saved(lawn: &Lawn) -> Fields {
        let mut fields = Fields::default();
        save(lawn, &Rules::default(), &mut fields);
        fields
    }

    type Content = (u64, Vec<u8>, Vec<u8>, u64, u16);

    fn content(lawn: &Lawn) -> Vec<Content> {
        let row = |(ttl, it): (u64, Element<'_>)| {
            (ttl, it.id.to_vec(), it.payload.to_vec(), it.deadline, it.deliveries)
        };
        lawn.iter().map(row).collect()
    }

    fn load_of(fields: impl IntoIterator<Item = Field>) -> Result<Lawn, Corrupt> {
        let mut fields = Fields(fields.into_iter().collect());
        load(empty(), &mut fields, VERSION).map(|(lawn, _)| lawn)
    }

    fn some_lawn() -> Lawn {
        let mut lawn = empty();
        for number in 0..5000_u64 {
            let payload = vec![7; number as usize % 300];
            let deadline = number * 7919 % 1000 + (number % 7) * 1_000_000;
            lawn.start_at(&number.to_be_bytes(), number % 11, &payload, deadline).expect("room");
        }
        lawn.start_at(b"", DEADLINE_MAX, &[0; 100_000], DEADLINE_MAX).expect("room");
        lawn.start_at(b"\0\r\n\xff", 0, b"", 0).expect("room");
        for number in 0..50_u64 {
            for _ in 0..=number {
                assert!(lawn.lease_at(&number.to_be_bytes(), 77, 5000, None));
            }
        }
        lawn
    }

    #[test]
    fn what_is_saved_is_loaded_in_the_same_order() {
        let lawn = some_lawn();
        let loaded = load_of(saved(&lawn).0).expect("our own words");
        loaded.check();
        assert_eq!(content(&loaded), content(&lawn));
        // Ties keep their order once more.
        let again = load_of(saved(&loaded).0).expect("our own words");
        assert_eq!(content(&again), content(&lawn));
    }

    #[test]
    fn an_empty_dehydrator_is_two_numbers() {
        let fields = saved(&empty()).0;
        assert_eq!(fields, [Field::Unsigned(0), Field::Unsigned(0)]);
        assert!(load_of(fields).expect("our own words").is_empty());
    }

    #[test]
    fn elements_are_written_in_strings_of_some_tens_of_kilobytes() {
        let chunks = |lawn: &Lawn| -> Vec<usize> {
            let lengths = saved(lawn).0.into_iter().filter_map(|field| match field {
                Field::Bytes(bytes) => Some(bytes.len()),
                Field::Unsigned(_) => None,
            });
            lengths.collect()
        };
        let mut lawn = empty();
        // Deadline, TTL and length of the id have a byte each, the length of the payload has three.
        let rest = CHUNK_BYTES - (1 + 1 + 1 + 3 + 1);
        lawn.start_at(b"a", 0, &vec![0; rest], 0).expect("room");
        lawn.start_at(b"b", 0, &vec![0; rest - 1], 0).expect("room");
        lawn.start_at(b"c", 0, b"", 0).expect("room");
        assert_eq!(chunks(&lawn), [CHUNK_BYTES, CHUNK_BYTES - 1 + 5]);
        for id in 0..2000_u64 {
            lawn.start_at(&id.to_be_bytes(), 0, &[0; 100], 0).expect("room");
        }
        let chunks = chunks(&lawn);
        let (last, full) = chunks.split_last().expect("a chunk");
        assert!(full.len() > 5 && *last < 32 * 1024, "{chunks:?}");
        let sizes = 32 * 1024..32 * 1024 + 200;
        assert!(full.iter().all(|length| sizes.contains(length)), "{chunks:?}");
    }

    #[test]
    fn how_often_an_element_was_given_out_is_written_only_if_one_was() {
        let mut lawn = empty();
        lawn.start_at(b"i", 300, b"p", 5).expect("room");
        lawn.start_at(b"j", 0, b"", 7).expect("room");
        let header = |features| [Field::Unsigned(features), Field::Unsigned(2)];
        let chunk = |bytes: &[u8]| Field::Bytes(bytes.into());
        let plain = chunk(&[5, 0xac, 2, 1, 1, b'i', b'p', 2, 0, 1, 0, b'j']);
        assert_eq!(saved(&lawn).0, [&header(0)[..], &[plain]].concat());
        assert!(lawn.set_deliveries(b"j", 200, None));
        let leased = chunk(&[5, 0xac, 2, 0, 1, 1, b'i', b'p', 2, 0, 0xc8, 1, 1, 0, b'j']);
        let fields = [&header(LEASES)[..], &[leased]].concat();
        assert_eq!(saved(&lawn).0, fields);
        let loaded = load_of(fields).expect("our own words");
        assert_eq!((content(&loaded), loaded.delivered()), (content(&lawn), 1));

        // As little is written of tokens: of what was given out, and only if one has a token.
        assert!(lawn.set_deliveries(b"j", 200, Token::new(300)));
        let held = chunk(&[5, 0xac, 2, 0, 1, 1, b'i', b'p', 2, 0, 0xc8, 1, 0xac, 2, 1, 0, b'j']);
        let fields = [&header(LEASES | TOKENS)[..], &[held]].concat();
        assert_eq!(saved(&lawn).0, fields);
        let loaded = load_of(fields).expect("our own words");
        assert!(loaded.holds(b"j", Token::new(300).expect("a token")));
        let number = |bytes: &[u8]| {
            let element = [&[5, 0, 1][..], bytes, &[1, 0, b'i']].concat();
            load_of([Field::Unsigned(LEASES | TOKENS), Field::Unsigned(1), chunk(&element)])
        };
        assert!(number(&[0]).is_ok_and(|lawn| !lawn.has_tokens()));
        let mut most = [0xff; 9];
        most[8] = 0x7f;
        assert!(number(&most).is_ok_and(|lawn| lawn.has_tokens()));
        let more = [&[0x80; 9][..], &[1]].concat();
        assert_eq!(number(&more).err(), Some(Corrupt("a token is out of range")));

        let one = |bytes| load_of([Field::Unsigned(LEASES), Field::Unsigned(1), chunk(bytes)]);
        let most = one(&[5, 0, 0xff, 0xff, 3, 1, 0, b'i']).expect("the most that is counted");
        assert_eq!(content(&most)[0].4, u16::MAX);
        let error = one(&[5, 0, 0x80, 0x80, 4, 1, 0, b'i']).err();
        assert_eq!(error, Some(Corrupt("a number of deliveries is out of range")));
    }

    #[test]
    fn numbers_of_every_length_are_read_as_they_were_written() {
        for number in (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, 3 << bits >> 1]) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            assert_eq!(bytes.len(), (64 - number.leading_zeros()).div_ceil(7).max(1) as usize);
            bytes.push(7);
            let mut rest = &bytes[..];
            assert_eq!((take_number(&mut rest), rest), (Ok(number), &[7][..]));
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let fields = saved(&some_lawn()).0;
        for kept in 0..fields.len() {
            assert!(load_of(fields.iter().take(kept).cloned()).is_err(), "{kept} fields");
        }
    }

    #[test]
    fn lies_are_refused() {
        let header = [Field::Unsigned(0), Field::Unsigned(1)];
        let chunk = |bytes: &[u8]| {
            load_of(header.iter().cloned().chain([Field::Bytes(bytes.to_vec())])).map(|_| ())
        };
        assert_eq!(chunk(&[5, 3, 1, 1, b'i', b'p']), Ok(()));
        let refused = |bytes: &[u8], why| assert_eq!(chunk(bytes), Err(Corrupt(why)), "{bytes:?}");
        refused(&[], "a chunk without elements");
        refused(&[5, 3, 1, 1, b'i'], "a string is cut off");
        refused(&[5, 3, 1], "a number is cut off");
        refused(&[5, 3, 1, 1, b'i', b'p', 0], "more elements than announced");
        refused(&[5, 3, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, b'i', b'p'], "a string is cut off");
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        refused(&[&most[..], &[1, 3, 1, 1, b'i', b'p']].concat(), "a deadline is out of range");
        refused(&[&[5], &most[..], &[1, 1, 1, b'i', b'p']].concat(), "a ttl is out of range");
        refused(&[&most[..], &[2, 3, 1, 1, b'i', b'p']].concat(), "a number has more than 64 bits");
        refused(&[&most[..], &most, &[1]].concat(), "a number has more than 64 bits");

        let twice = [5, 3, 1, 1, b'i', b'p', 0, 3, 1, 1, b'i', b'q'];
        let fields = [Field::Unsigned(0), Field::Unsigned(2), Field::Bytes(twice.to_vec())];
        assert_eq!(load_of(fields).err(), Some(Corrupt("two elements have one id")));
        let fields = [Field::Unsigned(32), Field::Unsigned(0)];
        assert!(load_of(fields).is_err_and(|error| error.0.contains("later version")));
        assert!(load(empty(), &mut Fields::default(), VERSION + 1).is_err());
    }

    #[test]
    fn a_policy_is_saved_and_loaded_and_lies_about_it_are_refused() {
        let maxlen = |length, approximate| Some(MaxLen { length, approximate });
        let stream = |maxlen| Route::Stream { dest: b"d\0st"[..].into(), maxlen };
        let routes = [
            Route::Drop,
            stream(None),
            stream(maxlen(1, false)),
            stream(maxlen(DEADLINE_MAX, true)),
            Route::Publish { channel: b""[..].into() },
        ];
        let limit = |route: &Route, deliveries| Policy::Limit { deliveries, route: route.clone() };
        let limits = routes.iter().flat_map(|route| [limit(route, 1), limit(route, u16::MAX)]);
        let sends = routes.iter().map(|route| Policy::Send(route.clone()));
        for policy in limits.chain(sends).chain([Policy::Hold]) {
            let mut lawn = empty();
            lawn.start_at(b"i", 5, b"p", 5).expect("room");
            let pause = [None, Some(Pause::until(77)), Some(Pause::UNTIL_RESUMED)];
            let trusts: &[_] = match policy.sends_elsewhere() {
                true => &[Trust::Confirmed, Trust::Unconfirmed],
                false => &[Trust::Confirmed],
            };
            for (pause, trust) in
                pause.iter().flat_map(|it| trusts.iter().map(|trust| (*it, *trust)))
            {
                let rules = Rules { policy: policy.clone(), pause, trust };
                let mut fields = Fields::default();
                save(&lawn, &rules, &mut fields);
                for kept in 0..fields.0.len() {
                    let fields = fields.0.iter().take(kept).cloned();
                    assert!(load_of(fields).is_err(), "{kept} fields of {rules:?}");
                }
                let (loaded, found) = load(empty(), &mut fields, VERSION).expect("our own words");
                assert_eq!((content(&loaded), found), (content(&lawn), rules));
            }
        }
        for nowhere in [&[16, 0][..], &[18, 1, 0], &[18, 4, 1, 1, 0]] {
            let error = load_of(nowhere.iter().map(|number| Field::Unsigned(*number))).err();
            assert_eq!(error, Some(Corrupt("there is nothing to confirm")), "{nowhere:?}");
        }
        // To the file it is one whether it has been said or not.
        let route = stream(None);
        let [told, untold] = [Trust::Unconfirmed, Trust::Untold].map(|trust| {
            let mut fields = Fields::default();
            let rules = Rules { policy: Policy::Send(route.clone()), pause: None, trust };
            save(&empty(), &rules, &mut fields);
            fields.0
        });
        assert_eq!(told, untold);
        let lie = |numbers: &[u64]| {
            let dest = Field::Bytes(b"dest".into());
            let numbers: Vec<_> = numbers.iter().map(|number| Field::Unsigned(*number)).collect();
            load_of([&numbers[..2], &[dest], &numbers[2..]].concat()).err()
        };
        let length = Some(Corrupt("a stream's length is out of range"));
        assert_eq!(lie(&[2, 2, 0, 1, 0]), length);
        assert_eq!(lie(&[2, 2, 5, 2, 0]), length);
        assert_eq!(lie(&[2, 2, DEADLINE_MAX + 1, 0, 0]), length);
        assert_eq!(lie(&[2, 2, 5, 1, 0]), None);
        assert!(lie(&[2, 0, 0]).is_some_and(|error| error.0.contains("later version")));
        assert!(lie(&[2, 5, 0]).is_some_and(|error| error.0.contains("later version")));
        let limited = |numbers: &[u64]| {
            let numbers = [&[2, 4], numbers].concat();
            load_of(numbers.into_iter().map(Field::Unsigned)).err()
        };
        let paused = |end| load_of([4, end, 0].map(Field::Unsigned)).err();
        assert_eq!([0, 1, DEADLINE_MAX].map(paused), [None, None, None]);
        let late = Some(Corrupt("the end of a pause is out of range"));
        assert_eq!(paused(DEADLINE_MAX + 1), late);
        let range = Some(Corrupt("a limit of deliveries is out of range"));
        assert_eq!(limited(&[1, 1, 0]), None);
        assert_eq!(limited(&[0, 1, 0]), range);
        assert_eq!(limited(&[65_536, 1, 0]), range);
        assert!(limited(&[1, 4, 1, 1, 0]).is_some_and(|error| error.0.contains("later version")));
    }

    #[test]
    fn rede_s_encoding_is_read() {
        let text = |text: &str| Field::Bytes(text.into());
        let fields = [
            text("name"),
            Field::Unsigned(3),
            Field::Unsigned(1000),
            Field::Unsigned(2),
            Field::Unsigned(70),
            text("a"),
            text("first"),
            Field::Unsigned(90),
            text("b"),
            text("second"),
            Field::Unsigned(-5_i64 as u64),
            Field::Unsigned(1),
            Field::Unsigned(80),
            text("c"),
            text("third"),
            Field::Unsigned(DEADLINE_MAX),
            Field::Unsigned(1),
            Field::Unsigned(DEADLINE_MAX),
            text("d"),
            text("last"),
        ];
        let load = |kept| {
            let fields = fields.iter().take(kept).cloned().collect();
            load(empty(), &mut Fields(fields), VERSION_REDE).map(|(lawn, _)| lawn)
        };
        let found = content(&load(fields.len()).expect("ReDe's words"));
        let element = |ttl, id: &str, payload: &str, at| (ttl, id.into(), payload.into(), at, 0);
        assert_eq!(
            found,
            [
                element(1000, "a", "first", 70),
                element(0, "c", "third", 80),
                element(1000, "b", "second", 90),
                element(DEADLINE_MAX, "d", "last", DEADLINE_MAX),
            ]
        );
        for kept in 0..fields.len() {
            assert!(load(kept).is_err(), "{kept} fields");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_or_refused_but_never_panic(
            numbers in prop::collection::vec(prop_oneof![0_u64..4, any::<u64>()], 2),
            chunks in prop::collection::vec(
                prop::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..60), 0..4,
            ),
        ) {
            for version in [VERSION, VERSION_REDE] {
                let numbers = numbers.iter().map(|number| Field::Unsigned(*number));
                let chunks = chunks.iter().map(|chunk| Field::Bytes(chunk.clone()));
                let mut fields = Fields(numbers.chain(chunks).collect());
                if let Ok((lawn, _)) = load(empty(), &mut fields, version) {
                    lawn.check();
                }
            }
        }
    }
}
