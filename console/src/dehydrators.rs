//! The known dehydrators of one database, and how fast each grows.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::facts::Facts;
use crate::figures::SPAN;

#[derive(Default)]
pub struct Dehydrator {
    pub facts: Facts,
    /// The growth per second.
    pub net: Option<f64>,
    asked: Option<Duration>,
    /// The length from which the growth is counted, and its time.
    before: Option<(Duration, u64)>,
    /// The last walk over all keys that saw it.
    seen_by_walk: u64,
}

impl Dehydrator {
    /// Returns whether the server has been asked about it.
    pub fn is_known(&self) -> bool {
        self.asked.is_some()
    }
}

#[derive(Default)]
pub struct Dehydrators {
    pub all: BTreeMap<Vec<u8>, Dehydrator>,
    /// The number of completed walks over all keys.
    pub walks: u64,
}

impl Dehydrators {
    /// Records that a walk over all keys saw this dehydrator.
    pub fn saw(&mut self, key: Vec<u8>) {
        self.all.entry(key).or_default().seen_by_walk = self.walks;
    }

    /// Ends a walk: forgets the dehydrators that it did not see.
    pub fn end_walk(&mut self) {
        let walk = self.walks;
        self.all.retain(|_, dehydrator| dehydrator.seen_by_walk == walk);
        self.walks += 1;
    }

    /// Updates one from facts that were asked for at `now`. Ignores what was overtaken.
    pub fn take_facts(&mut self, key: &[u8], facts: Facts, now: Duration) {
        let Some(dehydrator) = self.all.get_mut(key) else { return };
        if dehydrator.asked.is_some_and(|asked| asked > now) {
            return;
        }
        let before = dehydrator.before.map(|(since, length)| (now.saturating_sub(since), length));
        if before.is_none_or(|(time, _)| time >= SPAN) {
            dehydrator.net = before
                .map(|(time, length)| (facts.length as f64 - length as f64) / time.as_secs_f64());
            dehydrator.before = Some((now, facts.length));
        }
        dehydrator.facts = facts;
        dehydrator.asked = Some(now);
    }
}
