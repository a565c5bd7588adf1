//! LATE: the dehydrators that have been overdue the longest.

use crate::clock;
use crate::config;
use crate::data_type::inspect;
use crate::pending::overdue::{self, Oldest};
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, OwnedStr, error::Result};

use super::args;
use super::args::options::Options;

/// Runs `LATE [COUNT n]`. Replies the dehydrators of all databases whose oldest element has been due the longest, and at
/// least a second. Each row has the key, the database, the time overdue in ms, and the number of overdue elements. The key
/// is nil until it has been found.
pub fn late(context: &CommandContext, args: Args<'_>) -> Result {
    const COUNT: usize = 10;
    let count = args::read(context, args, |args| Options::new(args, 1).only_count())?;
    let count = count.unwrap_or(COUNT).min(config::reply_max());
    let db = context.selected_db();
    let oldest = overdue::oldest(count.min(overdue::NAMED_MAX));
    let oldest = oldest.into_iter().filter(|one| one.age >= overdue::OVERDUE);
    let rows: Vec<_> = oldest.map(|one| row(context, one)).collect();
    context.select_db(db);

    let mut reply = context.reply_array(rows.len());
    for (age, found) in rows {
        let mut row = reply.push_array(4);
        match found {
            Some((Name { db, key }, overdue)) => {
                row.push_bulk(&key);
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

/// Returns the time overdue and, if the key is known, its name and the number of overdue elements.
fn row(context: &CommandContext, one: Oldest) -> (u64, Option<(Name, usize)>) {
    let age = one.age;
    let Some((serial, name)) = overdue::name_of(one) else { return (age, None) };
    let now = clock::now();
    let found = context.select_db(name.db).then(|| {
        inspect(context, OwnedStr::new(&name.key).as_str(), |dehydrator| {
            let is_it = dehydrator.tracking.slot.serial() == serial;
            is_it.then(|| (dehydrator.age(now), dehydrator.count_overdue(now)))
        })
    });
    let Some((exact, overdue)) = found.flatten().flatten() else {
        // It was renamed, or deleted.
        overdue::forget_name(serial);
        return (age, None);
    };
    (exact.unwrap_or(age), Some((name, overdue)))
}
