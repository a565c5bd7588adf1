//! The questions that the live view and the page ask a server, each of which holds it for well below a millisecond.

use redis::{Connection, RedisResult, Value, from_redis_value_ref};

use crate::facts::{Facts, Parts, Schedules};
use crate::schedule::Schedule;

/// The COUNT of a SCAN.
const KEYS: usize = 500;
/// Dehydrators in one pipeline of INFO. The server runs a pipeline without a pause for others.
const PIPELINE: usize = 50;
/// INFO FULL visits each TTL, and each element without a queue, which counts as a TTL of its own: with more, it is not asked.
const TTLS: u64 = 2_000;

/// Returns sections of INFO.
pub fn info(connection: &mut Connection, sections: &[&str]) -> RedisResult<String> {
    redis::cmd("INFO").arg(sections).query(connection)
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

/// Returns the schedules among the first elements; none if the key's name is not that of schedules, or the user may not read it.
pub fn schedules(connection: &mut Connection, key: &[u8], facts: &Facts) -> RedisResult<Schedules> {
    let mut schedules = Schedules::default();
    if !Schedule::is_in(key) {
        return Ok(schedules);
    }
    let mut range = redis::cmd("DEHYDRATOR.RANGE");
    range.arg(key).arg("-").arg("+").arg("COUNT").arg(facts.rows_of_reply()).arg("WITHELEMENTS");
    let (_, rows): (Value, Vec<Vec<Value>>) = match range.query(connection) {
        Err(error) if error.code().is_some() => return Ok(schedules),
        reply => reply?,
    };
    for row in &rows {
        let text = |at: usize| from_redis_value_ref::<Vec<u8>>(row.get(at)?).ok();
        match text(0).zip(text(5).and_then(|element| Schedule::parse(&element))) {
            Some(schedule) => schedules.all.push(schedule),
            None => schedules.others += 1,
        }
    }
    // Their deadlines are in almost the same order: that of an occurrence in the far future is sooner.
    schedules.all.sort_by_key(|(_, it)| it.state.next.unwrap_or(u64::MAX));
    Ok(schedules)
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
