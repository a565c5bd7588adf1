//! LATE: the dehydrators that have been overdue the longest.

use crate::clock;
use crate::config;
use crate::data_type::inspect;
use crate::pending::overdue::{self, Oldest};
use crate::server::string::Args;
use crate::server::{CommandContext, OwnedStr, error::Result};

use super::args;
use super::args::options::Options;

/// One row of the reply.
struct LateKey {
    name: Option<(i32, Box<[u8]>)>,
    age: u64,
    overdue: Option<usize>,
}

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
    for LateKey { name, age, overdue } in rows {
        let mut row = reply.push_array(4);
        match name {
            Some((db, key)) => {
                row.push_bulk(&key);
                row.push_integer(db.into());
            }
            None => {
                row.push_null();
                row.push_null();
            }
        }
        row.push_integer(age as i64);
        match overdue {
            Some(overdue) => row.push_integer(overdue as i64),
            None => row.push_null(),
        }
    }
    Ok(())
}

fn row(context: &CommandContext, one: Oldest) -> LateKey {
    let unknown = LateKey { name: None, age: one.age, overdue: None };
    let Some((serial, name)) = overdue::name_of(one) else { return unknown };
    let now = clock::now();
    let found = context.select_db(name.db).then(|| {
        inspect(context, OwnedStr::new(&name.key).as_str(), |dehydrator| {
            let is_it = dehydrator.tracking.slot.serial() == serial;
            is_it.then(|| (dehydrator.age(now), dehydrator.count_overdue(now)))
        })
    });
    match found.flatten().flatten() {
        Some((age, overdue)) => LateKey {
            name: Some((name.db, name.key)),
            age: age.unwrap_or(one.age),
            overdue: Some(overdue),
        },
        // It was renamed, or deleted.
        None => {
            overdue::forget_name(serial);
            unknown
        }
    }
}
