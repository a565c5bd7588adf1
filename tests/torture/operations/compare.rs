//! Compares reads of a dehydrator with the model.

use redis::Value;

use super::Torture;
use super::look::{Fields, Row};
use crate::model::{BEHIND, Bytes, Dehydrator, Entry, Kept, MAX};
use harness::cmd;

impl Torture {
    pub(super) fn compare(&mut self) {
        for db in 0..2 {
            self.select(db);
            let mut keys: Vec<Bytes> = cmd("KEYS *").query(&mut self.client).expect("keys");
            keys.sort();
            let expected: Vec<_> =
                self.world.dbs[db].keys().map(|key| key.as_bytes().to_vec()).collect();
            assert_eq!(keys, expected, "the keys of {db}");
            let kept: Vec<_> = self.world.dbs[db].clone().into_iter().collect();
            for (key, kept) in kept {
                let Kept::Dehydrator(dehydrator) = kept else { continue };
                let ordered = dehydrator.ordered();
                let alive = dehydrator.alive(MAX);
                // At the end of time, only dehydrators without an end of their pause are paused.
                let is_paused = dehydrator.pause == Some(MAX);
                let room = usize::try_from(dehydrator.room_at_last()).unwrap_or(usize::MAX);
                let given = &alive[..alive.len().min(room)];
                self.compare_order(key, if is_paused { &[] } else { given });
                self.compare_elements(key, &ordered);
                self.compare_info(key, &dehydrator);
                self.compare_scan(key, &ordered);
                self.compare_range(key, &ordered);
            }
        }
    }

    /// At the end of time, everything is due, in order. In a transaction, nothing of it is delivered.
    fn compare_order(&mut self, key: &str, ordered: &[&Entry]) {
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("DEHYDRATOR.DEBUG").arg("k").arg("CLOCK").arg(i64::MAX).ignore();
        pipe.cmd("DEHYDRATOR.XPOLL").arg(key);
        pipe.cmd("DEHYDRATOR.DEBUG").arg("k").arg("CLOCK").arg(self.ahead + self.offset).ignore();
        let (found,): (Vec<Bytes>,) = pipe.query(&mut self.client).expect("ids");
        let expected: Vec<_> = ordered.iter().map(|entry| entry.id.clone()).collect();
        assert_eq!(found, expected, "the order of {key:?}");
    }

    fn compare_elements(&mut self, key: &str, ordered: &[&Entry]) {
        let mut pipe = redis::pipe();
        for entry in ordered {
            pipe.cmd("DEHYDRATOR.LOOK").arg(key).arg(&entry.id);
            pipe.cmd("DEHYDRATOR.PTTL").arg(key).arg(&entry.id);
        }
        if ordered.is_empty() {
            return;
        }
        let replies: Vec<Value> = pipe.query(&mut self.client).expect("replies");
        for (entry, replies) in ordered.iter().zip(replies.chunks(2)) {
            assert_eq!(replies[0], Value::BulkString(entry.element.clone()), "{key:?}: {entry:?}");
            let Value::Int(left) = replies[1] else { panic!("{replies:?}") };
            let expected = entry.deadline.saturating_sub(self.now());
            let is_near = expected.abs_diff(left as u64) <= BEHIND;
            assert!(is_near && (left == 0) == (expected == 0), "{key:?}: {entry:?} in {left} ms");
        }
    }

    fn compare_info(&mut self, key: &str, it: &Dehydrator) {
        let mut info = redis::cmd("DEHYDRATOR.INFO");
        let info: Value = info.arg(key).arg("FULL").query(&mut self.client).expect("a map");
        self.check_info(it, true, &Fields::of(info));
    }

    /// Checks that a walk shows each id exactly once, whatever its steps.
    fn compare_scan(&mut self, key: &str, ordered: &[&Entry]) {
        let prefix = self.random.pick(&["", "id-", "rare-1", "i", "nobody"]);
        let count = self.random.pick(&[1, 7, 100, 100_000]);
        let count = if ordered.len() > 500 { count.max(100) } else { count };
        let (mut cursor, mut found) = (0_u64, Vec::new());
        loop {
            let mut scan = redis::cmd("DEHYDRATOR.SCAN");
            scan.arg(key)
                .arg(cursor)
                .arg("COUNT")
                .arg(count)
                .arg("MATCH")
                .arg(format!("{prefix}*"));
            let (next, ids): (u64, Vec<Bytes>) = scan.query(&mut self.client).expect("ids");
            found.extend(ids);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        found.sort();
        let ids = ordered.iter().map(|entry| entry.id.clone());
        let mut expected: Vec<_> = ids.filter(|id| id.starts_with(prefix.as_bytes())).collect();
        expected.sort();
        assert_eq!(found, expected, "{key:?}, {prefix}");
    }

    /// Reads page by page, from the beginning or from a moment in the middle.
    fn compare_range(&mut self, key: &str, ordered: &[&Entry]) {
        let count = self.random.pick(&[1, 7, 100, 100_000]);
        let count = if ordered.len() > 500 { count.max(100) } else { count };
        let from = self.random.below(1 + ordered.len() as u64) as usize;
        // So far before the first element that the server's clock makes no difference.
        let moment = ordered.get(from).map_or(0, |entry| entry.deadline.saturating_sub(BEHIND));
        let from = ordered.partition_point(|entry| entry.deadline <= moment.saturating_sub(1));
        let is_clear = ordered.iter().all(|entry| entry.deadline.abs_diff(moment) > BEHIND / 2);
        let (mut start, from) =
            if is_clear { (moment.to_string(), from) } else { ("-".to_owned(), 0) };
        let mut found = Vec::new();
        loop {
            let mut range = redis::cmd("DEHYDRATOR.RANGE");
            range.arg(key).arg(&start).arg("+").arg("COUNT").arg(count).arg("WITHELEMENTS");
            type Rows = Vec<(Bytes, u64, u64, u64, u64, Bytes)>;
            let (next, rows): (Option<String>, Rows) = range.query(&mut self.client).expect("rows");
            let rows = rows.into_iter().map(|(id, deadline, ttl, deliveries, leased, element)| {
                (Row { id, deadline, ttl, deliveries, leased }, element)
            });
            // A small dehydrator shows elements with the same deadline together.
            assert!(rows.len() >= count || next.is_none(), "{key:?}: {} rows", rows.len());
            found.extend(rows);
            let Some(next) = next else { break };
            start = next;
        }
        assert_eq!(found.len(), ordered.len() - from, "{key:?} from {start}");
        for (entry, (row, element)) in ordered[from..].iter().zip(found) {
            assert_eq!(element, entry.element, "{key:?}");
            self.check_row(entry, &row);
        }
    }
}
