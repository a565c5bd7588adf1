//! Compares the replies of reads with the model: LOOK, RANGE, SCAN, INFO, HELP.

use std::collections::BTreeSet;

use redis::Value;

use super::Torture;
use crate::model::{BEHIND, Bytes, Dehydrator, Entry, MAX, Moment, Op, Policy};

/// A map, as RESP2 has it.
pub(super) struct Fields(Vec<Value>);

/// The fields of an element in RANGE, and in LOOK with FULL.
pub(super) struct Row {
    pub id: Bytes,
    pub deadline: u64,
    pub ttl: u64,
    pub deliveries: u64,
    pub leased: u64,
}

impl Fields {
    pub(super) fn of(map: Value) -> Self {
        let Value::Array(fields) = map else { panic!("{map:?} is no map") };
        Self(fields)
    }

    fn get(&self, name: &str) -> Value {
        let names = self.0.iter().step_by(2);
        let at = names.into_iter().position(|it| *it == Value::BulkString(name.into()));
        self.0[2 * at.unwrap_or_else(|| panic!("no {name} in {:?}", self.0)) + 1].clone()
    }

    fn number(&self, name: &str) -> u64 {
        of(self.get(name))
    }
}

fn of<T: redis::FromRedisValue>(value: Value) -> T {
    redis::from_redis_value(value).expect("what was asked for")
}

/// Checks the token of a held element. A generated token may be unknown here.
fn check_token(entry: &Entry, token: &Value) {
    let expected = entry.token.map(|it| Value::BulkString(it.to_string().into_bytes()));
    let is_unknown = entry.is_drawn && entry.token.is_none();
    assert!(is_unknown || *token == expected.unwrap_or(Value::Nil), "{entry:?}: {token:?}");
}

/// Checks a moment that is shown. The server's clock can be behind.
fn check_near(name: &str, info: &Fields, expected: Option<u64>) {
    match (info.get(name), expected) {
        (Value::Nil, None) => {}
        (Value::Int(told), Some(expected)) => {
            assert!(expected.abs_diff(told as u64) <= BEHIND, "{name}: {told}");
        }
        (told, expected) => panic!("{name}: {told:?} instead of {expected:?}"),
    }
}

/// Returns what INFO shows of a policy.
fn shown_policy(policy: &Policy) -> Value {
    let word = |route: &Policy| match route {
        Policy::Hold | Policy::Limit(..) => "HOLD",
        Policy::Drop => "DROP",
        Policy::Stream { .. } => "STREAM",
        Policy::List { .. } => "LIST",
        Policy::Publish(_) => "PUBLISH",
    };
    let (dest, end, maxlen) = match policy.route() {
        Policy::Stream { dest, maxlen } => (Some(*dest), None, *maxlen),
        Policy::List { dest, is_left } => {
            (Some(*dest), Some(if *is_left { "LEFT" } else { "RIGHT" }), None)
        }
        Policy::Publish(channel) => (Some(*channel), None, None),
        _ => (None, None, None),
    };
    let (deliveries, dead_letters) = match policy {
        Policy::Limit(most, _) => (*most, Some(word(policy.route()))),
        _ => (0, None),
    };
    let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
    let or_nil = |word: Option<&str>| word.map_or(Value::Nil, |word| bulk(word.as_bytes()));
    let int = |number: u64| Value::Int(number as i64);
    let fields = [
        ("action", bulk(word(policy).as_bytes())),
        ("deliveries", int(deliveries)),
        ("dead-letters", or_nil(dead_letters)),
        ("dest", or_nil(dest)),
        ("end", or_nil(end)),
        ("maxlen", int(maxlen.map_or(0, |(_, length)| length))),
        ("approximate", int(maxlen.is_some_and(|(exact, _)| !exact).into())),
        ("confirmed", int(1)),
    ];
    let pairs = fields.into_iter().flat_map(|(name, value)| [bulk(name.as_bytes()), value]);
    Value::Array(pairs.collect())
}

/// Checks what SCHEDULES shows. Schedules with one next moment are in any order.
fn check_schedules(names: &[Bytes], it: &Dehydrator, reply: Value) {
    let Value::Array(rows) = reply else { panic!("{reply:?} is no array") };
    let shown = rows.into_iter().map(|row| match row {
        Value::Nil => None,
        row => {
            let fields = Fields::of(row);
            let words = vec![of(fields.get("plan")), of(fields.get("element"))];
            Some((of::<Bytes>(fields.get("name")), words, fields.number("paused") == 1))
        }
    });
    let expected = |name: &Bytes| {
        let (words, is_paused) = it.schedules.get(name)?;
        Some((name.clone(), words[..2].to_vec(), *is_paused))
    };
    let mut shown: Vec<Option<(Bytes, Vec<Bytes>, bool)>> = shown.collect();
    let all: Vec<_> = it.schedules.keys().cloned().collect();
    if names.is_empty() {
        shown.sort();
    }
    let names = if names.is_empty() { &all } else { names };
    assert!(shown.iter().cloned().eq(names.iter().map(expected)), "{shown:?} of {names:?}");
}

impl Torture {
    /// Checks the reply to `op`, which reads this dehydrator.
    pub(super) fn check_shown(&self, op: &Op, it: &Dehydrator, reply: Value) {
        match op {
            Op::Schedules(names) => check_schedules(names, it, reply),
            Op::Look { id, .. } => match it.find(id) {
                None => assert_eq!(reply, Value::Nil, "{op:?}"),
                Some(at) => {
                    let (entry, fields) = (&it.entries[at], Fields::of(reply));
                    assert_eq!(fields.get("element"), Value::BulkString(entry.element.clone()));
                    let number = |name: &str| fields.number(name);
                    let (deadline, ttl) = (number("deadline"), number("ttl"));
                    let (deliveries, leased) = (number("deliveries"), number("leased"));
                    let id = id.clone();
                    self.check_row(entry, &Row { id, deadline, ttl, deliveries, leased });
                    check_token(entry, &fields.get("token"));
                    assert_eq!(number("deliveries-limit"), entry.most, "{entry:?}");
                    assert_eq!(fields.get("group"), Value::Nil, "{entry:?}");
                    let reason = Some(&entry.reason).filter(|reason| !reason.is_empty());
                    let reason = reason.map_or(Value::Nil, |it| Value::BulkString(it.clone()));
                    assert_eq!(fields.get("reason"), reason, "{entry:?}");
                    match fields.get("until") {
                        Value::Nil => assert_eq!(entry.until, 0, "{entry:?}"),
                        Value::Int(until) => {
                            let is_near = entry.end().abs_diff(until as u64) <= BEHIND;
                            assert!(entry.until > 0 && is_near, "{entry:?}: {until}");
                        }
                        other => panic!("{other:?}"),
                    }
                }
            },
            Op::Range { start, end, count, with_elements, with_tokens } => {
                let is_asked_for = |entry: &&Entry| {
                    let deadline = entry.deadline;
                    let is_late = match *start {
                        Moment::First => true,
                        Moment::Last => deadline == MAX,
                        Moment::At(at) => deadline >= at,
                        Moment::Without(at) => deadline > at,
                    };
                    let is_early = match *end {
                        Moment::First => deadline == 0,
                        Moment::Last => true,
                        Moment::At(at) => deadline <= at,
                        Moment::Without(at) => deadline < at,
                    };
                    is_late && is_early
                };
                let expected: Vec<_> = it.ordered().into_iter().filter(is_asked_for).collect();
                let count = count.unwrap_or(MAX) as usize;
                self.check_range(&expected, count, (*with_elements, *with_tokens), reply);
            }
            Op::Scan { prefix, .. } => {
                let (cursor, mut ids): (u64, Vec<Bytes>) = of(reply);
                let prefix = prefix.unwrap_or("").as_bytes();
                let all = it.entries.iter().map(|entry| &entry.id);
                let mut expected: Vec<_> = all.filter(|id| id.starts_with(prefix)).collect();
                if cursor == 0 {
                    // Everything came in one step.
                    expected.sort();
                    ids.sort();
                    assert_eq!(ids.iter().collect::<Vec<_>>(), expected, "{op:?}");
                } else {
                    assert!(ids.iter().all(|id| expected.contains(&id)), "{op:?}");
                    let count = ids.len();
                    ids.sort();
                    ids.dedup();
                    assert_eq!(ids.len(), count, "{op:?} shows something twice");
                }
            }
            Op::Info { full } => self.check_info(it, *full, &Fields::of(reply)),
            Op::Late => {
                let rows: Vec<Value> = of(reply);
                assert!(rows.len() <= 5, "{rows:?}");
            }
            Op::Help => {
                let lines: Vec<String> = of(reply);
                assert!(lines.chunks(2).all(|it| it[0].starts_with("DEHYDRATOR.")), "{lines:?}");
            }
            _ => unreachable!("{op:?} does more than to look"),
        }
    }

    fn check_range(
        &self,
        expected: &[&Entry],
        count: usize,
        (with_elements, with_tokens): (bool, bool),
        reply: Value,
    ) {
        let (next, rows): (Option<String>, Vec<Vec<Value>>) = of(reply);
        assert!(rows.len() >= count.min(expected.len()), "{} of {count}", rows.len());
        assert_eq!(next.is_none(), rows.len() == expected.len(), "{next:?}, {} rows", rows.len());
        let mut last = None;
        for (at, (entry, mut row)) in expected.iter().zip(rows).enumerate() {
            if with_tokens {
                let since = row.pop().expect("a moment");
                check_token(entry, &row.pop().expect("a token"));
                // The model does not know it, and a tool that pushes what is held may leave it out.
                assert!(since == Value::Nil || entry.is_held(), "{entry:?}: {since:?}");
            }
            if with_elements {
                assert_eq!(row.pop(), Some(Value::BulkString(entry.element.clone())));
            }
            let [id, deadline, ttl, deliveries, leased] = <[Value; 5]>::try_from(row).expect("5");
            let (id, deadline, ttl) = (of(id), of(deadline), of(ttl));
            let row = Row { id, deadline, ttl, deliveries: of(deliveries), leased: of(leased) };
            self.check_row(entry, &row);
            // A small dehydrator shows elements with the same deadline together.
            assert!(at < count || last == Some(deadline), "{at} of {count}");
            last = Some(deadline);
        }
    }

    pub(super) fn check_row(&self, entry: &Entry, row: &Row) {
        assert_eq!(row.id, entry.id);
        assert_eq!((row.ttl, row.deliveries), (entry.ttl, entry.deliveries), "{entry:?}");
        let deadline = row.deadline;
        assert!(entry.deadline.abs_diff(deadline) <= BEHIND, "{entry:?}: {deadline}");
        let is_leased = (entry.token.is_some() || entry.is_drawn) && entry.deadline > self.now();
        assert_eq!(row.leased == 1, is_leased, "{entry:?}");
    }

    pub(super) fn check_info(&self, it: &Dehydrator, full: bool, info: &Fields) {
        let ordered = it.ordered();
        let count = |which: &dyn Fn(&&&Entry) -> bool| ordered.iter().filter(which).count() as u64;
        let now = self.now();
        assert_eq!(info.number("length"), count(&|_| true));
        assert_eq!(info.number("due"), count(&|entry| entry.deadline <= now));
        assert_eq!(info.number("given-out"), count(&|entry| entry.deliveries > 0));
        let mut ttls: Vec<_> = ordered.iter().map(|entry| entry.ttl).collect();
        ttls.sort_unstable();
        let by_ttl: Vec<_> = ttls.chunk_by(u64::eq).map(|same| (same[0], same.len())).collect();
        if full {
            assert_eq!(of::<Vec<(u64, usize)>>(info.get("elements-by-ttl")), by_ttl);
        }
        assert_eq!(info.0.contains(&Value::BulkString("elements-by-ttl".into())), full);
        assert_eq!(info.number("groups"), 0);
        // Elements without a queue count one by one.
        let (queues, possible) = (info.number("ttls"), by_ttl.len()..=ordered.len());
        assert!(possible.contains(&(queues as usize)), "{queues} of {possible:?}");
        check_near("next-deadline", info, ordered.first().map(|entry| entry.deadline));
        assert_eq!(info.number("paused"), it.is_paused(now).into());
        check_near("paused-until", info, it.pause.filter(|end| *end != MAX));
        let limits = &it.limits;
        let rate = limits.rate.as_ref().map_or((0, 0), |(most, per, _)| (*most, *per));
        let shown = ["length-limit", "held-limit", "rate-limit", "rate-per", "remember"];
        let shown = shown.map(|name| info.number(name));
        assert_eq!(shown, [limits.length, limits.held, rate.0, rate.1, limits.remember]);
        // With more distinct times than this, expired ids may remain, and are counted until they are freed.
        let moments: BTreeSet<_> = it.remembered.values().collect();
        let remembered = it.remembered.values().filter(|until| **until > now).count() as u64;
        let shown = info.number("remembered");
        assert!(shown == remembered || moments.len() > 16 && shown > remembered, "{shown}");
        assert_eq!(info.get("policy"), shown_policy(&it.policy));
        assert_eq!(info.number("failures"), 0);
        assert_eq!(info.number("schedules"), it.schedules.len() as u64);
    }
}
