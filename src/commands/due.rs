//! XPOLL, TTN, PTTL, LATE: due elements, next deadlines, and the dehydrators that have been overdue the longest.

use crate::clock;
use crate::config::{self, ReplyRoom};
use crate::data_type::{Dehydrator, Reading, inspect, is_stuck};
use crate::pending::overdue::{self, Oldest};
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, OwnedStr, Str, error::Result};

use super::args::options::Options;
use super::args::{self, required};

/// Reads `key [COUNT n]`.
fn parse_xpoll<'a>(args: Args<'a>) -> Result<(Str<'a>, usize)> {
    let (key, count) = (required(args, 1)?, Options::new(args, 2).only(b"COUNT", Options::count)?);
    Ok((key, count.unwrap_or(usize::MAX).min(config::reply_max())))
}

/// Runs `XPOLL key [COUNT n]`: the ids of the due elements, in order.
pub fn xpoll(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, count) = parse_xpoll(args)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let mut reply = context.reply_array_up_to(count);
    if let Some(dehydrator) = dehydrator.dehydrator() {
        let mut room = ReplyRoom::new();
        let due = dehydrator.given_out(now, count);
        for (_, element) in due.take_while(|(_, element)| room.takes(element.id.len())) {
            reply.push_bulk(element.id);
        }
    }
    Ok(())
}

/// Runs `TTN key`: milliseconds until an element can be taken, 0 if one is due, nil if there is none, or if the pause lasts
/// until RESUME.
pub fn ttn(context: &CommandContext, args: Args<'_>) -> Result {
    let [key] = args::exactly(args)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    match dehydrator.dehydrator().and_then(Dehydrator::next) {
        Some(deadline) => context.reply_integer(deadline.saturating_sub(now) as i64),
        None => context.reply_null(),
    }
    Ok(())
}

/// Runs `PTTL key id`: milliseconds to the element's deadline, 0 if it is due, -1 if it is a stuck dead letter, -2 if it
/// does not exist.
pub fn pttl(context: &CommandContext, args: Args<'_>) -> Result {
    /// As the server's PTTL replies for a key that does not exist.
    const NO_SUCH_ID: i64 = -2;
    /// As the server's PTTL replies for a key that does not expire.
    const NO_DEADLINE: i64 = -1;
    let [key, id] = args::exactly(args)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let row = dehydrator.lawn().and_then(|lawn| lawn.row(id.bytes()));
    let left = row.map(|row| match is_stuck(&row) {
        true => NO_DEADLINE,
        false => row.element.deadline.saturating_sub(now) as i64,
    });
    context.reply_integer(left.unwrap_or(NO_SUCH_ID));
    Ok(())
}

/// Runs `LATE [COUNT n]`. Replies the dehydrators of all databases whose oldest element has been due the longest, and at
/// least a second, as far as the user may read them. Each row has the key, the database, the time overdue in ms, and the number of overdue elements. The key
/// is nil until it has been found.
pub fn late(context: &CommandContext, args: Args<'_>) -> Result {
    const COUNT: usize = 10;
    let count = Options::new(args, 1).only(b"COUNT", Options::count)?;
    let count = count.unwrap_or(COUNT).min(config::reply_max());
    let db = context.selected_db();
    let oldest = overdue::oldest(overdue::NAMED_MAX);
    let oldest = oldest.into_iter().filter(|one| one.age >= overdue::OVERDUE);
    let rows: Vec<_> = oldest.filter_map(|one| row(context, one)).take(count).collect();
    context.select_db(db);

    let mut reply = context.reply_array(rows.len());
    for (age, found) in rows {
        let mut row = reply.push_array(4);
        match found {
            Some((Name { db, key }, overdue)) => {
                row.push_bulk(&*key);
                row.push_integer(db.into());
                row.push_integer(age as i64);
                row.push_integer(overdue as i64);
            }
            None => {
                row.push_null();
                row.push_null();
                row.push_integer(age as i64);
                row.push_null();
            }
        }
    }
    Ok(())
}

/// Returns the time overdue and, if the key is known, its name and the number of overdue elements. `None`: the user may not
/// read the key.
fn row(context: &CommandContext, one: Oldest) -> Option<(u64, Option<(Name, usize)>)> {
    let age = one.age;
    let Some((serial, name)) = overdue::name_of(one) else { return Some((age, None)) };
    let (now, key) = (clock::now(), OwnedStr::new(&name.key));
    let is_selected = context.select_db(name.db);
    if is_selected && !context.may_read(c"DEHYDRATOR.INFO", key.as_str()) {
        return None;
    }
    let found = is_selected.then(|| {
        inspect(context, key.as_str(), |dehydrator| {
            let is_it = dehydrator.tracking.slot.serial() == serial;
            is_it.then(|| (dehydrator.age(now), dehydrator.count_overdue(now)))
        })
    });
    let Some((exact, overdue)) = found.flatten().flatten() else {
        // It was renamed, or deleted.
        overdue::forget_name(serial);
        return Some((age, None));
    };
    Some((exact.unwrap_or(age), Some((name, overdue))))
}
