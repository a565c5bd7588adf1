//! Checks the replies of commands that only read.

use super::dehydrator::{Dehydrator, Entry};
use super::follow::Call;
use super::model::Model;
use super::room::Room;
use super::{Bytes, Fault, NEVER, Promise};
use crate::machine::Reply;
use crate::world::op::Op;
use crate::world::schedule::OfSchedules;

type Result = std::result::Result<(), Fault>;

/// How long after it happened the module may hear that a key has appeared, in milliseconds: a tick of the server's cron.
pub const TICK_MS: u64 = 110;
/// From when on LATE lists a dehydrator, in milliseconds: what it counts from may be late by less than a second.
const LATE_MS: u64 = 1000 + ROUGH_MS;
/// How much less than the truth an age may be, in milliseconds.
const ROUGH_MS: u64 = 1000;
/// The most rows of LATE.
const ROWS: usize = 64;

/// Returns the value of a field of a map, as RESP2 or RESP3 has it.
pub fn field<'a>(reply: &'a Reply, name: &str) -> Option<&'a Reply> {
    let is_it =
        |it: &Reply| matches!(it, Reply::Bulk(it) | Reply::Simple(it) if it == name.as_bytes());
    match reply {
        Reply::Array(parts) => {
            parts.chunks_exact(2).find(|pair| is_it(&pair[0])).map(|pair| &pair[1])
        }
        Reply::Map(pairs) => pairs.iter().find(|pair| is_it(&pair.0)).map(|pair| &pair.1),
        _ => None,
    }
}

fn is_between(reply: &Reply, [least, most]: [u64; 2]) -> bool {
    matches!(reply, Reply::Int(it) if (least..=most).contains(&(*it as u64)))
}

/// Returns the bounds of an age that is shown.
fn age(least: Option<u64>, most: u64) -> [u64; 2] {
    [least.unwrap_or(0).saturating_sub(ROUGH_MS), most + 1]
}

/// Returns whether a token is shown as it should be. One that a client chose may be shown as a number.
fn is_token(entry: &Entry, shown: &Reply) -> bool {
    match (&entry.token, shown) {
        (None, Reply::Null) => true,
        (Some(token), Reply::Bulk(shown)) => {
            let is_number = token[0] != b'0' && token.iter().all(u8::is_ascii_digit);
            !is_number || token == shown
        }
        _ => false,
    }
}

impl Model {
    pub(super) fn read(&self, it: &Dehydrator, call: &Call, reply: &Reply) -> Result {
        let now = call.now;
        let differs = |promise: Promise, expected: String| {
            let what = format!(
                "{:?} of {} in {} is not {expected}, now {now}: {reply:?}",
                call.op,
                call.key.escape_ascii(),
                call.db
            );
            Err(promise.broken(what))
        };
        let is = |expected: Reply| {
            if expected == *reply {
                Ok(())
            } else {
                differs(Promise::Reply, format!("{expected:?}"))
            }
        };
        let int = |number: usize| Reply::Int(number as i64);
        match &call.op {
            Op::Len(None) => is(int(it.count())),
            Op::Len(Some(group)) => is(int(it.length_of(group))),
            Op::Pttl(id) => is(match it.get(id) {
                None => Reply::Int(-2),
                Some(entry) if entry.deadline == NEVER => Reply::Int(-1),
                Some(entry) => Reply::Int(entry.deadline.saturating_sub(now) as i64),
            }),
            Op::Look(id, false) => {
                is(it.get(id).map_or(Reply::Null, |it| Reply::Bulk(it.element.clone())))
            }
            Op::Look(id, true) => {
                let Some(entry) = it.get(id) else { return is(Reply::Null) };
                let number = |name: &str, expected: u64| {
                    field(reply, name) == Some(&Reply::Int(expected as i64))
                };
                let until = field(reply, "until");
                let until = match (entry.until, until) {
                    (None, Some(Reply::Null)) => true,
                    (Some(until), Some(Reply::Int(shown))) => {
                        let shown = i128::from(*shown);
                        // Of an end before the deadline, only that is known.
                        let is_over = |it: i128| it <= i128::from(entry.deadline);
                        until == shown
                            || until.min(shown) >= 1 << 62
                            || is_over(until) && is_over(shown)
                    }
                    // Beyond what can be shown.
                    (Some(until), Some(Reply::Null)) => until >= 1 << 48,
                    _ => false,
                };
                let group = if entry.group.is_empty() {
                    Reply::Null
                } else {
                    Reply::Bulk(entry.group.clone())
                };
                let reason = if entry.reason.is_empty() {
                    Reply::Null
                } else {
                    Reply::Bulk(entry.reason.clone())
                };
                let is_it = field(reply, "element") == Some(&Reply::Bulk(entry.element.clone()))
                    && number("deadline", entry.deadline)
                    && number("ttl", entry.ttl)
                    && number("deliveries", entry.deliveries)
                    && number("leased", entry.runs(now).into())
                    && number("deliveries-limit", entry.most)
                    && field(reply, "token").is_some_and(|shown| is_token(entry, shown))
                    && field(reply, "group") == Some(&group)
                    && field(reply, "reason").is_none_or(|shown| *shown == reason)
                    && until;
                if is_it { Ok(()) } else { differs(Promise::Reply, format!("{entry:?}")) }
            }
            Op::Range(group, count) => {
                let mut expected = it.ordered();
                expected.retain(|it| group.as_ref().is_none_or(|group| it.group == *group));
                match range(&expected, *count, now, reply) {
                    Ok(()) => Ok(()),
                    Err(what) => differs(Promise::Lost, what),
                }
            }
            Op::XPoll(count) => {
                let room = if it.is_paused(now) { [0, 0] } else { it.room(now) };
                let mut due = it.ordered();
                due.retain(|entry| entry.deadline <= now && it.is_alive(entry, now));
                let mut bytes = Room::new();
                let shown = due.iter().take_while(|it| bytes.takes(it.id.len()));
                let ids: Vec<_> = shown.map(|it| Reply::Bulk(it.id.clone())).collect();
                let lengths = room
                    .map(|room| room.min(count.unwrap_or(u64::MAX)).min(ids.len() as u64) as usize);
                let is_it = matches!(reply, Reply::Array(shown) if (lengths[1]..=lengths[0]).contains(&shown.len()) && ids.starts_with(shown));
                if is_it {
                    Ok(())
                } else {
                    differs(Promise::Reply, format!("{lengths:?} of {ids:?}"))
                }
            }
            Op::Ttn => {
                let next = it.next_opening(now).filter(|_| it.pause != Some(NEVER));
                let Some(next) = next.filter(|it| it[1] < NEVER || *reply != Reply::Null) else {
                    return is(Reply::Null);
                };
                let (room, pause) = (it.room_from(now), it.pause.unwrap_or(0));
                let from = [0, 1].map(|at| next[at].max(room[at]).max(pause).saturating_sub(now));
                if is_between(reply, from) {
                    Ok(())
                } else {
                    differs(Promise::Exact, format!("{from:?}"))
                }
            }
            Op::Info => self.info(it, now, reply).or_else(|what| differs(Promise::Exact, what)),
            Op::InfoGroup(group) => {
                let (length, held, rate) = it.limits_of(group);
                let settings = it.settings(group);
                let expected = [
                    ("length", it.length_of(group) as u64),
                    ("share", settings.share),
                    ("length-limit", length),
                    ("held-limit", held),
                    ("rate-limit", rate.0),
                    ("rate-per", rate.1),
                    ("paused", settings.pause.is_some_and(|end| end > now).into()),
                ];
                let wrong =
                    expected.iter().find(|it| field(reply, it.0) != Some(&Reply::Int(it.1 as i64)));
                wrong.map_or(Ok(()), |wrong| differs(Promise::Exact, format!("{wrong:?}")))
            }
            Op::OfSchedules(OfSchedules::List(names)) => it.list(call, names, reply),
            Op::Late => self.late(now, reply).or_else(|what| differs(Promise::Exact, what)),
            op => unreachable!("{op:?} does more than to read"),
        }
    }

    fn info(&self, it: &Dehydrator, now: u64, reply: &Reply) -> std::result::Result<(), String> {
        let count =
            |which: &dyn Fn(&Entry) -> bool| it.entries().filter(|it| which(it)).count() as u64;
        let given_out = count(&|it| it.deliveries > 0);
        let leased = count(&|it| it.token.is_some());
        let expected = [
            ("length", it.count() as u64),
            ("due", count(&|it| it.deadline <= now)),
            ("given-out", given_out),
            ("leased", leased),
            ("groups", it.groups() as u64),
            ("paused", it.is_paused(now).into()),
            ("length-limit", it.limits.length),
            ("held-limit", it.limits.held),
            ("rate-limit", it.limits.rate.0),
            ("rate-per", it.limits.rate.1),
            ("remember", it.limits.remember),
            ("schedules", it.schedules.len() as u64),
        ];
        for (name, number) in expected {
            let is_older = self.is_stepwise && name == "schedules";
            if !is_older && field(reply, name) != Some(&Reply::Int(number as i64)) {
                return Err(format!("{number} as {name}"));
            }
        }
        if it.limits.held > 0
            && field(reply, "running") != Some(&Reply::Int(it.running(now) as i64))
        {
            return Err(format!("{} as running", it.running(now)));
        }
        let next = it.next_opening(now);
        let is_next = match (field(reply, "next-deadline"), next) {
            (Some(Reply::Null), next) => next.is_none_or(|it| it[1] >= NEVER),
            (Some(shown), Some(next)) => is_between(shown, next),
            _ => false,
        };
        if !is_next {
            return Err(format!("{next:?} as next-deadline"));
        }
        // Limits of the whole are not followed back in time.
        if it.limits.held == 0 && it.limits.rate.0 == 0 && it.pause.is_none() && it.policy.holds() {
            let oldest = it.oldest(now);
            let is_oldest = match (field(reply, "oldest-due-ms"), oldest) {
                // What became available in this millisecond may be noted in the next.
                (Some(Reply::Null), [least, _]) => least.is_none_or(|least| least == 0),
                (Some(shown), [least, Some(most)]) => is_between(shown, age(least, most)),
                _ => false,
            };
            if !is_oldest {
                return Err(format!(
                    "{oldest:?} but {:?} as oldest-due-ms",
                    field(reply, "oldest-due-ms")
                ));
            }
        }
        Ok(())
    }

    fn late(&self, now: u64, reply: &Reply) -> std::result::Result<(), String> {
        let Reply::Array(rows) = reply else { return Err("rows".to_owned()) };
        if rows.len() >= ROWS {
            return Ok(());
        }
        for (db, key, it) in self.all() {
            if it.limits.held > 0
                || it.limits.rate.0 > 0
                || it.pause.is_some()
                || !it.policy.holds()
            {
                continue;
            }
            let [least, Some(most)] = it.oldest(now) else { continue };
            let row = rows.iter().find(|row| {
                matches!(row, Reply::Array(row) if row[..2] == [Reply::Bulk(key.clone()), Reply::Int(db as i64)])
            });
            let Some(Reply::Array(row)) = row else {
                let is_unknown = rows
                    .iter()
                    .any(|row| matches!(row, Reply::Array(row) if row[0] == Reply::Null));
                if least.is_some_and(|least| least > LATE_MS) && !is_unknown {
                    return Err(format!(
                        "{} of {db}, overdue for {least:?} to {most} ms",
                        key.escape_ascii()
                    ));
                }
                continue;
            };
            if !is_between(&row[2], age(least, most)) {
                return Err(format!("{} overdue for {least:?} to {most} ms", key.escape_ascii()));
            }
        }
        Ok(())
    }
}

/// Compares the rows of a RANGE, with elements and tokens.
pub fn range(
    expected: &[&Entry],
    count: Option<u64>,
    now: u64,
    reply: &Reply,
) -> std::result::Result<(), String> {
    let Reply::Array(parts) = reply else { return Err("two parts".to_owned()) };
    let [next, Reply::Array(rows)] = &parts[..] else { return Err("two parts".to_owned()) };
    // A page may end earlier: a reply has a bound in bytes.
    let most = count.map_or(usize::MAX, |it| it as usize).min(expected.len());
    let most = if *next == Reply::Null { most } else { most.min(rows.len().max(1)) };
    if rows.len() < most || rows.len() > most && rows.len() > expected.len() {
        let shown = |it: &Reply| {
            if let Reply::Array(row) = it { format!("{:?}", row[0]) } else { String::new() }
        };
        let (ids, theirs): (Vec<_>, Vec<_>) = (
            expected.iter().map(|it| it.id.escape_ascii().to_string()).take(20).collect(),
            rows.iter().map(shown).take(20).collect(),
        );
        return Err(format!("{most} rows but {}: {ids:?}, not {theirs:?}", rows.len()));
    }
    for (entry, row) in expected.iter().zip(rows) {
        // Behind these are the element, the token and, by now, since when it is held.
        let start = [
            Reply::Bulk(entry.id.clone()),
            Reply::Int(entry.deadline as i64),
            Reply::Int(entry.ttl as i64),
            Reply::Int(entry.deliveries as i64),
            Reply::Int(entry.runs(now).into()),
        ];
        let is_it = matches!(row, Reply::Array(row) if row.len() >= 7
            && row[..5] == start
            && row[5] == Reply::Bulk(entry.element.clone())
            && is_token(entry, &row[6]));
        if !is_it {
            return Err(format!("{entry:?}, but {row:?}"));
        }
    }
    Ok(())
}

/// Returns the keys of a database that hold dehydrators, and others.
pub fn keys(model: &Model, db: usize) -> Vec<Bytes> {
    model.dbs[db].keys().cloned().collect()
}
