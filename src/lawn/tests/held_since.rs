//! Random leases, and since when each element is held, beside an oracle.

use std::collections::BTreeMap;

use super::*;

const IDS: u64 = 200;

/// A generator of numbers: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Compares all moments with those of the oracle: by id, since when it is held, and whether it never comes due.
fn compare(lawn: &Lawn, held: &BTreeMap<u64, (Since, bool)>, step: usize) {
    for id in 0..IDS {
        let element = lawn.look(&id.to_be_bytes());
        let since = element.and_then(|element| lawn.held_since(&element));
        assert_eq!(
            since,
            held.get(&id).map(|it| it.0).filter(|it| it.moment > 0),
            "step {step}, id {id}"
        );
    }
    let counted = held.values().filter(|(since, is_never)| since.moment > 0 && !is_never);
    let oldest = counted.map(|(since, _)| since.moment / 1000 * 1000 + 999).min();
    assert_eq!(lawn.oldest_held(), oldest, "step {step}");
}

/// Returns since when an element is held that had this deadline before.
fn since(moment: u64, due: u64) -> Since {
    let since = Since { moment, waited: moment.saturating_sub(due) };
    assert_eq!(since.due(), due.min(moment));
    since
}

#[test]
fn an_element_is_held_since_its_lease_began_whatever_happens_to_its_deadline() {
    let steps = if super::super::tiny::TINY { 20_000 } else { 6_000 };
    in_either_form(|mut lawn| {
        let seed = 0x2545_f491_4f6c_dd1d;
        let mut random = Random(seed);
        let mut held = BTreeMap::new();
        let mut now = 1_800_000_000_000;
        for step in 0..steps {
            now += random.below(700);
            let id = random.below(IDS);
            let bytes = id.to_be_bytes();
            let ttl = 1 + random.below(5) * 1000;
            let token = Token::new(1 + random.below(3) + random.below(2) * Token::SERVERS);
            match random.below(12) {
                0 | 1 => {
                    _ = start_now(&mut lawn, &bytes, random.below(3) * 500, b"payload", now);
                }
                2..=4 => {
                    if let Some((due, element)) = lawn.lease_due(now, ttl, token) {
                        let id = u64::from_be_bytes(element.id.try_into().expect("an id"));
                        held.insert(id, (since(now, due), false));
                    }
                }
                5 => {
                    let due = lawn.look(&bytes).map(|element| element.deadline);
                    if lawn.lease_at(&bytes, ttl, now + ttl - 77, token) {
                        held.insert(id, (since(now - 77, due.expect("one")), false));
                    }
                }
                // It is renewed, or never comes due.
                6 | 7 => {
                    let is_never = random.below(8) == 0;
                    let deadline = if is_never { DEADLINE_MAX } else { now + ttl };
                    if lawn.restart_at(&bytes, ttl, deadline) {
                        held.entry(id).and_modify(|it| it.1 = is_never);
                    }
                }
                // It is given back.
                8 => {
                    lawn.restart_at(&bytes, 0, now);
                    held.remove(&id);
                }
                9 => {
                    lawn.stop(&bytes);
                    held.remove(&id);
                }
                10 => {
                    let moment = random.below(2) * (now - 5000);
                    let since = since(moment, moment.saturating_sub(random.below(1 << 34)));
                    let is_held = held.contains_key(&id);
                    assert_eq!(lawn.set_held_since(&bytes, since), is_held);
                    held.entry(id).and_modify(|it| it.0 = since);
                }
                _ => {
                    let token = lawn.look(&bytes).and_then(|element| lawn.token(&element));
                    if let Some(token) = token {
                        assert!(lawn.settle(&bytes, token).is_some());
                        held.remove(&id);
                    }
                }
            }
            if step % 40 == 0 {
                lawn.check();
                compare(&lawn, &held, step);
                compare(&lawn.clone(), &held, step);
            }
        }
        assert!(!held.is_empty(), "seed {seed}");
    });
}

#[test]
fn an_entry_of_a_lease_takes_twelve_bytes_more_for_the_moments() {
    let mut lawn = lawn();
    let mut each = |count: u64| {
        start_numbered(&mut lawn, 0..count, 0, 5);
        let before = lawn.memory();
        for number in 0..count {
            lawn.lease_due(10 + number / 1000, 60_000, Token::new(Token::SERVERS + 1 + number));
        }
        (lawn.memory() - before) as u64 / count
    };
    if !super::super::tiny::TINY {
        let each = each(100_000);
        assert!((36..=47).contains(&each), "{each} bytes");
    }
}
