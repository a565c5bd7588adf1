//! The model of what is set for groups.

use super::{Bytes, Dehydrator, Expect, bulk};
use redis::Value;

/// What is set for a group, or for each. 0: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub share: u64,
    pub length: u64,
    pub held: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { share: 1, length: 0, held: 0 }
    }
}

/// The numbers of a LIMIT of a group, or of each: SHARE, LENGTH, HELD.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Change {
    pub share: Option<u64>,
    pub length: Option<u64>,
    pub held: Option<u64>,
}

impl Dehydrator {
    /// Returns whether anything is set for groups, so that an empty dehydrator is kept.
    pub fn has_settings(&self) -> bool {
        !self.turns.settings.is_empty() || self.turns.each != Settings::default()
    }

    pub fn settings(&self, group: &Bytes) -> Settings {
        self.turns.settings.get(group).copied().unwrap_or_default()
    }

    /// Returns the LENGTH and HELD that hold for a group: its own, or those of each.
    pub fn limits_of(&self, group: &Bytes) -> (u64, u64) {
        if group.is_empty() {
            return (0, 0);
        }
        let (own, each) = (self.settings(group), self.turns.each);
        let limit = |own: u64, each: u64| if own > 0 { own } else { each };
        (limit(own.length, each.length), limit(own.held, each.held))
    }

    /// Returns whether the group has no room for another element.
    pub fn is_group_full(&self, group: &Option<Bytes>) -> bool {
        let Some(group) = group else { return false };
        let length = self.entries.iter().filter(|entry| entry.group == *group).count() as u64;
        let (most, _) = self.limits_of(group);
        most > 0 && length >= most
    }

    /// Returns whether a push of this id has room in its group. What is there already, and stays there, needs none.
    pub fn has_room_in_group(&self, id: &[u8], group: &Option<Bytes>, replaces: bool) -> bool {
        let is_inside = |at: usize| !replaces || Some(&self.entries[at].group) == group.as_ref();
        !self.is_group_full(group) || self.find(id).is_some_and(is_inside)
    }

    /// Sets limits of a group, or of each, or shows them.
    pub(super) fn limit_groups(&mut self, group: Option<&Bytes>, change: Change) -> Expect {
        let mut settings = group.map_or(self.turns.each, |group| self.settings(group));
        if change == Change::default() {
            let mut map = vec![("length", settings.length), ("held", settings.held)];
            map.splice(0..0, group.map(|_| ("share", settings.share)));
            let pair =
                |(name, number): (&str, u64)| [bulk(name.as_bytes()), Value::Int(number as i64)];
            return Expect::Is(Value::Array(map.into_iter().flat_map(pair).collect()));
        }
        settings.share = change.share.unwrap_or(settings.share);
        settings.length = change.length.unwrap_or(settings.length);
        settings.held = change.held.unwrap_or(settings.held);
        match group {
            None => self.turns.each = settings,
            Some(group) => self.turns.set(group, settings),
        }
        Expect::Is(Value::Okay)
    }
}
