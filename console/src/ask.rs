//! The questions that the live view and the page ask a server, each of which holds it for well below a millisecond.

use redis::{Connection, RedisResult, Value};

use crate::destination::Destination;
use crate::facts::{Facts, Parts};
use crate::schedule::Schedule;

/// The COUNT of a SCAN.
const KEYS: usize = 500;
/// Dehydrators in one pipeline of INFO. The server runs a pipeline without a pause for others.
const PIPELINE: usize = 50;
/// INFO FULL visits each TTL, and each element without a queue, which counts as a TTL of its own: with more, it is not asked.
const TTLS: u64 = 2_000;
/// Schedules of one page.
const SCHEDULES: usize = 200;

/// Returns sections of INFO.
pub fn info(connection: &mut Connection, sections: &[&str]) -> RedisResult<String> {
    redis::cmd("INFO").arg(sections).query(connection)
}

/// Returns the server's clock in milliseconds.
pub fn time(connection: &mut Connection) -> RedisResult<u64> {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(connection)?;
    Ok(seconds * 1000 + micros / 1000)
}

/// Returns the next cursor and some dehydrators of the database.
pub fn keys(connection: &mut Connection, cursor: u64) -> RedisResult<(u64, Vec<Vec<u8>>)> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("COUNT").arg(KEYS).arg("TYPE").arg("dehy-type").query(connection)
}

/// Returns the facts of each key; `None` for one that is no longer a dehydrator, or that the user may not read.
pub fn facts(connection: &mut Connection, keys: &[Vec<u8>]) -> RedisResult<Vec<Option<Facts>>> {
    let mut all = Vec::with_capacity(keys.len());
    for keys in keys.chunks(PIPELINE) {
        let mut asked = redis::pipe();
        keys.iter().for_each(|key| {
            asked.cmd("DEHYDRATOR.INFO").arg(key);
        });
        let replies = asked.ignore_errors().query::<Vec<Value>>(connection)?;
        all.extend(replies.iter().map(|reply| Some(Facts::parse(reply)?.0)));
    }
    Ok(all)
}

/// Returns the elements per TTL and the greatest groups; `None` if there are too many TTLs, or if the key has just changed its
/// type.
pub fn parts(connection: &mut Connection, key: &[u8], facts: &Facts) -> RedisResult<Option<Parts>> {
    if facts.ttls > TTLS {
        return Ok(None);
    }
    match redis::cmd("DEHYDRATOR.INFO").arg(key).arg("FULL").query::<Value>(connection) {
        Ok(reply) => Ok(Facts::parse(&reply).map(|(_, parts)| parts)),
        Err(error) if error.code().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the facts of some groups of a key; none if the module does not tell.
pub fn groups(
    connection: &mut Connection,
    key: &[u8],
    names: &[Vec<u8>],
) -> RedisResult<Vec<(Vec<u8>, Facts)>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut asked = redis::pipe();
    for name in names {
        asked.cmd("DEHYDRATOR.INFO").arg(key).arg("GROUP").arg(name);
    }
    let replies = asked.ignore_errors().query::<Vec<Value>>(connection)?;
    let facts = replies.iter().map(|reply| Facts::parse(reply).unwrap_or_default().0);
    Ok(names.iter().cloned().zip(facts).collect())
}

/// Returns some schedules of a key from a position on, the next one first, and the position of those that follow; none if the user
/// may not read them.
pub fn schedules(
    connection: &mut Connection,
    key: &[u8],
    from: &str,
) -> RedisResult<(Option<String>, Vec<Schedule>)> {
    let mut asked = redis::cmd("DEHYDRATOR.SCHEDULES");
    asked.arg(key).arg("FROM").arg(from).arg("COUNT").arg(SCHEDULES);
    match asked.query::<(_, Vec<Value>)>(connection) {
        Ok((next, rows)) => Ok((next, rows.iter().filter_map(Schedule::parse).collect())),
        Err(error) if error.code().is_some() => Ok((None, Vec::new())),
        Err(error) => Err(error),
    }
}

/// Returns the number of dead letters of each key. Leaves out those that the user may not count.
pub fn dead<'a>(
    connection: &mut Connection,
    policies: impl Iterator<Item = (&'a Vec<u8>, Destination)>,
) -> RedisResult<Vec<(Vec<u8>, u64)>> {
    let mut asked = redis::pipe();
    let mut keys = Vec::new();
    for (key, destination) in policies {
        let command = match &destination {
            Destination::Stream(_) => "XLEN",
            Destination::List(_) => "LLEN",
            _ => continue,
        };
        asked.cmd(command).arg(destination.key());
        keys.push(key.clone());
    }
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let counts: Vec<Value> = asked.ignore_errors().query(connection)?;
    let number = |value: Value| match value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    };
    let counts = keys.into_iter().zip(counts);
    Ok(counts.filter_map(|(key, count)| Some((key, number(count)?))).collect())
}

/// A row of LATE: the key and its database, if known, how long it is overdue, and how many elements are due.
type Late = (Option<Vec<u8>>, Option<u64>, u64, Option<u64>);

/// Returns the keys that are overdue the longest, with their databases, in milliseconds. Returns none if the user lacks the
/// permission, or the module the command.
pub fn late(connection: &mut Connection, count: usize) -> RedisResult<Vec<(Vec<u8>, u64, u64)>> {
    let late = redis::cmd("DEHYDRATOR.LATE").arg("COUNT").arg(count).query(connection);
    let rows: Vec<Late> = match late {
        Err(error) if error.code().is_some() => return Ok(Vec::new()),
        rows => rows?,
    };
    Ok(rows.into_iter().filter_map(|(key, db, age, _)| Some((key?, db?, age))).collect())
}
