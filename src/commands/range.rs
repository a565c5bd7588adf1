//! LOOK, RANGE: returning elements without taking them: one by its id, or many in the order of delivery.

use crate::clock;
use crate::config::{self, ReplyRoom};
use crate::data_type::{Dehydrator, Reading, end, is_stuck};
use crate::server::string::{Args, Digits};
use crate::server::{CommandContext, Str, error::Result, random_bytes};
use lawn::{DEADLINE_MAX, Element, Row, Start, Token};

use super::args::not_number;
use super::args::options::Options;
use super::args::required;
use crate::server::string::{NotNumber, number};

/// Reads `key id [FULL]`.
fn parse_look<'a>(args: Args<'a>) -> Result<(Str<'a>, &'a [u8], bool)> {
    let (key, id) = (required(args, 1)?, required(args, 2)?.bytes());
    Ok((key, id, Options::new(args, 3).only(b"FULL", |_| Ok(()))?.is_some()))
}

/// Runs `LOOK key id [FULL]`: the element, due or not, or nil; with FULL a map of
/// the fields that RANGE lists.
pub fn look(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, id, full) = parse_look(args)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    if !full {
        let found = dehydrator.lawn().and_then(|lawn| lawn.look(id));
        context.reply_bulk_or_null(found.map(|element| element.payload));
        return Ok(());
    }
    let Some(row) = dehydrator.lawn().and_then(|lawn| lawn.row(id)) else {
        context.reply_null();
        return Ok(());
    };
    let mut reply = context.reply_open_map();
    reply.bulk(b"element", row.element.payload);
    reply.integer(b"deadline", row.element.deadline);
    reply.integer(b"ttl", row.ttl);
    reply.integer(b"deliveries", u64::from(row.element.deliveries));
    let token = dehydrator.lawn().and_then(|lawn| lawn.token(&row.element));
    reply.integer(b"leased", u64::from(is_leased(&row, token, now)));
    let token = token.map(|token| Digits::new(token.number()));
    reply.bulk(b"token", token.as_ref().map(Digits::bytes));
    reply.integer(b"deliveries-limit", u64::from(row.element.bounds.deliveries));
    reply.integer(b"until", end(&row.element));
    let group = dehydrator.lawn().zip(row.element.group);
    reply.bulk(b"group", group.map(|(lawn, group)| lawn.group_name(group)));
    let since = dehydrator.lawn().and_then(|lawn| lawn.held_since(&row.element));
    reply.integer(b"held-since", since.map(|since| since.moment));
    reply.bulk(b"reason", dehydrator.lawn().and_then(|lawn| lawn.reason(id)));
    Ok(())
}

/// Returns whether the element is held under a token, its lease has not expired, and it is no dead letter.
fn is_leased(row: &Row<'_>, token: Option<Token>, now: u64) -> bool {
    token.is_some() && row.element.deadline > now && !is_stuck(row)
}

/// Where a list begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beginning {
    start: Start,
    /// The dehydrator to which the number in `start` belongs.
    serial: Option<u64>,
}

impl Beginning {
    /// The first element.
    pub const FIRST: Self = Self { start: Start::FIRST, serial: None };

    /// Returns the start in a dehydrator. A number from another one, or from this one before it was loaded, is ignored: elements
    /// with the same deadline are listed again.
    pub fn start_in(self, dehydrator: &Dehydrator) -> Start {
        let behind = self.start.behind.filter(|_| self.serial == Some(serial(dehydrator)));
        Start { behind, ..self.start }
    }
}

/// `key start end [COUNT n] [WITHELEMENTS] [WITHTOKENS] [GROUP name]`
pub struct RangeRequest<'a> {
    pub key: Str<'a>,
    /// `None`: after the last possible deadline.
    pub from: Option<Beginning>,
    /// `None`: before the first possible deadline.
    pub end: Option<u64>,
    pub count: usize,
    /// Only the elements of this group are listed.
    pub group: Option<Option<Str<'a>>>,
    pub with_elements: bool,
    pub with_tokens: bool,
}

impl<'a> RangeRequest<'a> {
    pub fn parse(args: Args<'a>) -> Result<Self> {
        required(args, 3)?;
        let from = parse_start("start", required(args, 2)?)?;
        let end = parse_end(required(args, 3)?)?;
        let (mut count, mut group) = (None, None);
        let (mut with_elements, mut with_tokens) = (false, false);
        let mut options = Options::new(args, 4);
        while let Some(option) = options.next() {
            match option.name() {
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                b"GROUP" if group.is_none() => group = Some(options.group()?),
                b"WITHELEMENTS" if !with_elements => with_elements = true,
                b"WITHTOKENS" if !with_tokens => with_tokens = true,
                _ => return Err(option.unexpected_among("COUNT")),
            }
        }
        let count = count.unwrap_or(usize::MAX).min(config::reply_max());
        let key = required(args, 1)?;
        Ok(Self { key, from, end, count, group, with_elements, with_tokens })
    }
}

/// Reads `-`, `+`, a moment, `(` and a moment, or the position that an earlier reply named. `name`: of the argument, for errors.
pub fn parse_start(name: &str, word: Str<'_>) -> Result<Option<Beginning>> {
    let at = |deadline| Some(Beginning { start: Start { deadline, behind: None }, serial: None });
    let bytes = word.bytes();
    match bytes {
        b"-" => return Ok(at(0)),
        b"+" => return Ok(at(DEADLINE_MAX)),
        _ => {}
    }
    let wanted = "-, +, a whole number of unix milliseconds, or where a list ended";
    let invalid = || not_number(NotNumber::Other, name, bytes, wanted);
    let Some(behind) = bytes.strip_prefix(b"(") else {
        return number(bytes).map(at).map_err(|_| invalid());
    };
    let mut numbers = behind.splitn(3, |byte| *byte == b'-').map(number);
    let mut next = || numbers.next().transpose().map_err(|_| invalid());
    let deadline = next()?.ok_or_else(invalid)?;
    match (next()?, next()?) {
        (None, _) => Ok((deadline < DEADLINE_MAX).then_some(deadline + 1).and_then(at)),
        (Some(number), Some(serial)) => {
            let start = Start { deadline, behind: Some(number) };
            Ok(Some(Beginning { start, serial: Some(serial) }))
        }
        (Some(_), None) => Err(invalid()),
    }
}

/// Reads `+`, `-`, a moment, or `(` and a moment.
fn parse_end(word: Str<'_>) -> Result<Option<u64>> {
    let bytes = word.bytes();
    let wanted = "-, + or a whole number of unix milliseconds";
    let invalid = |_| not_number(NotNumber::Other, "end", bytes, wanted);
    match (bytes, bytes.strip_prefix(b"(")) {
        (b"+", _) => Ok(Some(DEADLINE_MAX)),
        (b"-", _) => Ok(Some(0)),
        (_, Some(bytes)) => Ok(number(bytes).map_err(invalid)?.checked_sub(1)),
        (_, None) => Ok(Some(number(bytes).map_err(invalid)?)),
    }
}

/// Runs `RANGE key start end [COUNT n] [WITHELEMENTS] [WITHTOKENS] [GROUP name]`. Replies the position at which to
/// continue, or nil, and the elements from `start` to `end`.
pub fn range(context: &CommandContext, args: Args<'_>) -> Result {
    let RangeRequest { key, from, end, count, group, with_elements, with_tokens } =
        RangeRequest::parse(args)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let rows = dehydrator.dehydrator().zip(from).zip(end).map(|((it, from), end)| {
        let (lawn, start) = (&it.lawn, from.start_in(it));
        let all = group.is_none().then(|| lawn.rows(start, end));
        let of_group = group.map(|group| lawn.group_rows(group.map(Str::bytes), start, end));
        all.into_iter().flatten().chain(of_group.into_iter().flatten())
    });
    let size = |it: &Element<'_>| it.id.len() + if with_elements { it.payload.len() } else { 0 };
    let (shown, next) = page(dehydrator.dehydrator(), rows.into_iter().flatten(), count, size);
    let mut reply = context.reply_array(2);
    reply.push_bulk(next.as_deref().map(str::as_bytes));
    let mut list = reply.push_array(shown.len());
    for row in shown {
        let count = 5 + usize::from(with_elements) + 2 * usize::from(with_tokens);
        let mut fields = list.push_array(count);
        let token = dehydrator.lawn().and_then(|lawn| lawn.token(&row.element));
        fields.push_bulk(row.element.id);
        fields.push_integer(row.element.deadline as i64);
        fields.push_integer(row.ttl as i64);
        fields.push_integer(row.element.deliveries.into());
        fields.push_integer(is_leased(&row, token, now).into());
        if with_elements {
            fields.push_bulk(row.element.payload);
        }
        if with_tokens {
            let token = token.map(|token| Digits::new(token.number()));
            fields.push_bulk(token.as_ref().map(Digits::bytes));
            match dehydrator.lawn().and_then(|lawn| lawn.held_since(&row.element)) {
                Some(since) => fields.push_integer(since.moment as i64),
                None => fields.push_null(),
            }
        }
    }
    Ok(())
}

/// Returns as many rows as a reply has room for, at most `count`, and the position behind the last one, if there are more. `size`: of
/// an element in the reply, in bytes.
pub fn page<'a>(
    dehydrator: Option<&Dehydrator>,
    rows: impl Iterator<Item = Row<'a>>,
    count: usize,
    size: impl Fn(&Element<'a>) -> usize,
) -> (Vec<Row<'a>>, Option<String>) {
    let (mut shown, mut room): (Vec<Row<'a>>, _) = (Vec::new(), ReplyRoom::new());
    for row in rows {
        // Elements of one deadline that have no numbers are listed together.
        if (shown.len() >= count || !room.takes(size(&row.element)))
            && let Some(last) = shown.last()
            && (last.number.is_some() || last.element.deadline < row.element.deadline)
        {
            let (deadline, serial) = (last.element.deadline, dehydrator.map_or(0, serial));
            let next = match last.number {
                Some(number) => format!("({deadline}-{number}-{serial}"),
                None => format!("({deadline}"),
            };
            return (shown, Some(next));
        }
        shown.push(row);
    }
    (shown, None)
}

thread_local! {
    // Distinguishes this process from others: serials restart in each.
    static PROCESS: u64 = {
        u32::from_le_bytes(random_bytes()).into()
    };
}

/// Returns a number that distinguishes this dehydrator from all others, and from itself before it was loaded.
fn serial(dehydrator: &Dehydrator) -> u64 {
    let serial = dehydrator.tracking.slot.serial();
    PROCESS.with(|process| process.wrapping_add(serial) % (1 << 32))
}
