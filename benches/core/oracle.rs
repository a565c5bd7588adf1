//! The test of all stores, before any is timed: random operations, compared with a model that is too simple to be
//! wrong.

use std::collections::HashMap;

use crate::load::{Dice, PAYLOAD, id};
use crate::store::{Id, Payload, Store};

const STEPS: usize = 20_000;
/// So few ids that all operations meet both present and absent elements.
const IDS: u64 = 300;

/// Panics, and prints the seed, if the store differs from the model.
pub fn check<S: Store>(seed: u64) {
    struct Seed(u64, &'static str);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} is wrong under seed {}", self.1, self.0);
            }
        }
    }
    let _told = Seed(seed, S::NAME);

    let mut dice = Dice::new(seed);
    let mut now = 1_000_000;
    let mut store = S::new(now);
    let mut model: HashMap<Id, (u64, Payload)> = HashMap::new();
    for step in 0..STEPS {
        let id = id(dice.below(IDS) as usize);
        let ttl = match dice.below(20) {
            0 => 1 + dice.below(3_000_000),
            1..5 => 1 + dice.below(70_000),
            _ => 1 + dice.below(8) * 37,
        }
        .min(S::MAX_TTL);
        let at = now + ttl;
        // Either with a TTL or with a deadline.
        let by_ttl = dice.below(2) == 0;
        match dice.below(10) {
            0..4 => {
                let mut payload = PAYLOAD;
                payload[..8].copy_from_slice(&step.to_le_bytes());
                match (model.contains_key(&id), by_ttl) {
                    (false, true) => store.start(&id, &payload, ttl, now),
                    (false, false) => store.start_at(&id, &payload, at, now),
                    (true, true) => store.replace(&id, &payload, ttl, now),
                    (true, false) => store.replace_at(&id, &payload, at, now),
                }
                model.insert(id, (at, payload));
            }
            4 | 5 => {
                let there = model.get_mut(&id).map(|element| element.0 = at).is_some();
                let restarted = if by_ttl {
                    store.restart(&id, ttl, now)
                } else {
                    store.restart_at(&id, at, now)
                };
                assert_eq!(restarted, there, "restart");
            }
            6 => {
                let payload = model.remove(&id).map(|element| element.1);
                assert_eq!(store.stop(&id), payload, "stop");
            }
            _ if !S::TIMERS => {}
            7 => {
                now += 1;
                let due: Vec<_> = model.values_mut().filter(|element| element.0 <= now).collect();
                assert_eq!(store.rearm(now, &mut || ttl), due.len(), "rearm");
                due.into_iter().for_each(|element| element.0 = now + ttl);
            }
            _ => {
                now += match dice.below(50) {
                    0 => dice.below(100_000),
                    1..10 => dice.below(300),
                    _ => dice.below(10),
                };
                let due = model.values().filter(|element| element.0 <= now).count();
                let mut taken = Vec::new();
                store.expire(now, &mut |id, payload| taken.push((*id, *payload)));
                assert_eq!(taken.len(), due, "expire");
                let mut last = 0;
                for (id, payload) in taken {
                    let (deadline, put) = model.remove(&id).expect("an element that is there");
                    assert!(deadline <= now, "an element is early");
                    assert_eq!(payload, put, "payload");
                    assert!(!S::IN_ORDER || last <= deadline, "out of order");
                    last = deadline;
                }
            }
        }
    }
    for (id, (_, payload)) in model {
        assert_eq!(store.stop(&id), Some(payload), "left over");
    }
}
