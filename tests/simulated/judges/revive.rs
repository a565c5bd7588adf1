//! Follows REVIVE: dead letters that come back from a stream, which was read in the same moment.

use super::Bytes;
use super::dehydrator::{Entry, Policy};
use super::follow::{Call, Result, int};
use super::model::{Kept, Model};
use crate::machine::Reply;
use crate::world::schedule::Revive;

/// The letters that a call looks at if nothing is said, how many at once, and after how many bytes it ends.
const COUNT: u64 = 100;
const PAGE: usize = 32;
const BYTES_MAX: usize = 1 << 20;

/// An entry of the stream.
struct Letter {
    entry: Bytes,
    id: Bytes,
    element: Bytes,
    group: Bytes,
}

fn text(reply: &Reply) -> Bytes {
    if let Reply::Bulk(text) | Reply::Simple(text) = reply { text.clone() } else { Bytes::new() }
}

/// Returns the letters of a reply to XRANGE.
fn letters(reply: &Reply) -> Vec<Letter> {
    let Reply::Array(rows) = reply else { return Vec::new() };
    let letter = |row: &Reply| {
        let Reply::Array(row) = row else { return None };
        let [entry, Reply::Array(fields)] = &row[..] else { return None };
        let value = |name: &str| {
            let mut pairs = fields.chunks_exact(2);
            pairs.find(|pair| text(&pair[0]) == name.as_bytes()).map(|pair| text(&pair[1]))
        };
        let group = value("group").unwrap_or_default();
        Some(Letter { entry: text(entry), id: value("id")?, element: value("element")?, group })
    };
    rows.iter().filter_map(letter).collect()
}

/// Returns the ids of the entries in a reply to XRANGE.
pub fn entries(reply: &Reply) -> Vec<Bytes> {
    letters(reply).into_iter().map(|it| it.entry).collect()
}

/// Returns the two numbers of an entry's id.
fn numbers(entry: &[u8]) -> (u64, u64) {
    let text = str::from_utf8(entry).unwrap_or_default();
    let (ms, number) = text.split_once('-').unwrap_or((text, "0"));
    (ms.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

impl Model {
    /// Follows REVIVE. The reply is that to XRANGE, and its own.
    pub(super) fn revived(&mut self, call: &Call, revive: &Revive, replies: &Reply) -> Result {
        let Reply::Array(both) = replies else { return call.differs("two replies", replies) };
        let [listed, reply] = &both[..] else { return call.differs("two replies", replies) };
        let mut it = match self.dbs[call.db].get(&call.key) {
            Some(Kept::Other) => return call.refused("WRONGTYPE", reply),
            Some(Kept::Dehydrator(it)) => it.clone(),
            None => {
                let nothing = Reply::Array(vec![int(0), Reply::Null]);
                return call.is(&nothing, reply);
            }
        };
        let Policy::Limit(_, route) = &it.policy else { return call.refused("NORULE", reply) };
        if !matches!(**route, Policy::Stream(_)) {
            return call.refused("NORULE", reply);
        }
        let mut letters = letters(listed);
        let has_ids = !revive.letters.is_empty();
        if has_ids {
            // The words have them in the end.
            let named = &call.pairs;
            let of = |entry: &Bytes| letters.iter().position(|it| it.entry == *entry);
            let found: Vec<_> = named.iter().filter_map(|(entry, _)| of(entry)).collect();
            let mut all: Vec<_> = letters.into_iter().map(Some).collect();
            letters = found.into_iter().filter_map(|at| all[at].take()).collect();
        } else if let (Some(_), Some((from, _))) = (revive.from, call.pairs.first()) {
            letters.retain(|it| numbers(&it.entry) > numbers(from));
        }
        let most =
            if has_ids { usize::MAX } else { revive.count.unwrap_or(COUNT).min(1000) as usize };
        let start = call.pairs.first().filter(|_| revive.from.is_some()).map(|it| it.0.clone());
        let (mut count, mut bytes, mut last, mut is_over) = (0, 0, start, letters.len() < most);
        for (at, letter) in letters.iter().take(most).enumerate() {
            if at % PAGE == 0 && bytes >= BYTES_MAX && !has_ids {
                is_over = false;
                break;
            }
            let element = if revive.has_element { &call.elements[0] } else { &letter.element };
            bytes += element.len();
            let limit = it.limits_of(&letter.group).0;
            let is_used = it.get(&letter.id).is_some();
            let is_full = it.limits.length > 0 && it.count() as u64 >= it.limits.length;
            let is_group_full = limit > 0 && it.length_of(&letter.group) as u64 >= limit;
            if is_full && !is_used {
                if count == 0 {
                    return call.refused("FULL", reply);
                }
                is_over = false;
                break;
            }
            if !is_used && !is_group_full {
                let sequence = self.number();
                it.remembered.remove(&letter.id);
                it.insert(Entry {
                    group: letter.group.clone(),
                    ..Entry::new(letter.id.clone(), element.clone(), (call.now, sequence))
                });
                count += 1;
            }
            last = Some(letter.entry.clone());
        }
        let last =
            if is_over || has_ids { Reply::Null } else { last.map_or(Reply::Null, Reply::Bulk) };
        it.touched = it.touched.max(call.now);
        self.dbs[call.db].insert(call.key.clone(), Kept::Dehydrator(it));
        call.is(&Reply::Array(vec![int(count), last]), reply)
    }
}
