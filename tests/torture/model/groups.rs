//! The model of what is set for groups.

use super::rates::Log;
use super::{Bytes, Dehydrator, Expect, MAX, Policy, int};
use redis::Value;

/// What is set for a group, or for each. 0: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub share: u64,
    pub length: u64,
    pub held: u64,
    /// The number, and the window in milliseconds.
    pub rate: (u64, u64),
    pub pause: Option<GroupPause>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { share: 1, length: 0, held: 0, rate: (0, 0), pause: None }
    }
}

/// A pause of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupPause {
    /// When it ends; [`MAX`]: at RESUME.
    pub end: u64,
    /// The sequence number when it was set.
    pub set: u64,
}

/// The numbers of a LIMIT of a group, or of each: SHARE, LENGTH, HELD, RATE.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Change {
    pub share: Option<u64>,
    pub length: Option<u64>,
    pub held: Option<u64>,
    pub rate: Option<(u64, u64)>,
}

/// The limits that hold for a group. 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupLimits {
    pub length: u64,
    pub held: u64,
    pub rate: (u64, u64),
}

impl Dehydrator {
    /// Returns whether anything is set for groups, so that an empty dehydrator is kept.
    pub fn has_settings(&self) -> bool {
        !self.turns.settings.is_empty() || self.turns.each != Settings::default()
    }

    pub fn settings(&self, group: &Bytes) -> Settings {
        self.turns.settings.get(group).copied().unwrap_or_default()
    }

    /// Returns the limits that are set for a group: its own, or those of each.
    pub fn limits_of(&self, group: &Bytes) -> GroupLimits {
        self.turns.limits_of(group)
    }

    /// Returns the most elements of a group that may be held, 0 for any number, and the limit of what it gives out. Elements
    /// that leave by themselves are not held, and what is dropped is not given out.
    pub fn enforced(&self, group: &Bytes) -> (u64, (u64, u64)) {
        self.turns.enforced(group, &self.policy)
    }

    /// Returns whether the group has no room for another element.
    pub fn is_group_full(&self, group: &Option<Bytes>) -> bool {
        let Some(group) = group else { return false };
        let length = self.entries.iter().filter(|entry| entry.group == *group).count() as u64;
        let most = self.limits_of(group).length;
        most > 0 && length >= most
    }

    /// Returns whether a push of this id has room in its group. What is there already, and stays there, needs none.
    pub fn has_room_in_group(&self, id: &[u8], group: &Option<Bytes>, replaces: bool) -> bool {
        let is_inside = |at: usize| !replaces || Some(&self.entries[at].group) == group.as_ref();
        !self.is_group_full(group) || self.find(id).is_some_and(is_inside)
    }

    pub fn has_group_rates(&self) -> bool {
        let all = self.turns.settings.values().chain([&self.turns.each]);
        all.into_iter().any(|it| it.rate.0 > 0)
    }

    /// Changes the policy, which decides which limits hold.
    pub(super) fn set_policy(&mut self, policy: &Policy) {
        let holds = |policy: &Policy| (policy.holds(), *policy != Policy::Drop);
        let is_other = holds(&self.policy) != holds(policy);
        self.policy = policy.clone();
        if is_other {
            self.fit_all();
        }
    }

    /// Adapts all groups to what is set.
    fn fit_all(&mut self) {
        self.turns
            .logs
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .iter()
            .for_each(|group| self.fit(group));
    }

    /// Adapts a group to what is set for it.
    fn fit(&mut self, group: &Bytes) {
        self.fit_log(group);
        let latest = self.turns.latest_given;
        self.turns.logs.get_mut(group).into_iter().for_each(|log| log.note(latest));
    }

    fn fit_log(&mut self, group: &Bytes) {
        let (_, rate) = self.enforced(group);
        self.turns.logs.retain(|other, _| other != group || rate.0 > 0);
        self.turns.logs.get_mut(group).into_iter().for_each(|log| log.change(rate));
    }

    /// Records elements that a group gave out. Returns whether its rate is limited.
    pub fn give_of_group(&mut self, group: &Bytes, moment: u64, count: u64) -> bool {
        let (_, rate) = self.enforced(group);
        if rate.0 > 0 {
            self.fit_log(group);
            self.turns.latest_given = self.turns.latest_given.max(moment);
            let log = self.turns.logs.entry(group.clone()).or_insert_with(|| Log::new(rate));
            log.give(moment, count);
        }
        rate.0 > 0
    }

    /// Forgets what counts no more, and ends pauses that are over.
    pub(super) fn keep_up(&mut self, now: u64, real: u64) {
        if real < self.turns.latest_given && !self.turns.logs.is_empty() {
            self.turns.latest_given = real;
            self.fit_all();
        }
        self.turns.logs.retain(|_, log| !log.is_over(real));
        for settings in self.turns.settings.values_mut() {
            settings.pause = settings.pause.filter(|pause| pause.end > now);
        }
        self.turns.settings.retain(|_, settings| *settings != Settings::default());
        self.settle_turns();
    }

    /// Sets limits of a group, or of each.
    pub(super) fn limit_groups(&mut self, group: Option<&Bytes>, change: Change) -> Expect {
        let mut settings = group.map_or(self.turns.each, |group| self.settings(group));
        settings.share = change.share.unwrap_or(settings.share);
        settings.length = change.length.unwrap_or(settings.length);
        settings.held = change.held.unwrap_or(settings.held);
        settings.rate = change.rate.unwrap_or(settings.rate);
        if settings.rate.0 == 0 {
            settings.rate = (0, 0);
        }
        match group {
            None => {
                self.turns.each = settings;
                self.fit_all();
            }
            Some(group) => {
                self.turns.set(group, settings);
                self.fit(group);
            }
        }
        Expect::Is(Value::Okay)
    }

    /// Pauses a group until a moment; `set`: the sequence number.
    pub(super) fn pause_group(&mut self, group: &Bytes, end: u64, set: u64) -> Expect {
        let pause = Some(GroupPause { end, set });
        self.turns.set(group, Settings { pause, ..self.settings(group) });
        self.fit(group);
        Expect::Is(Value::Okay)
    }

    pub(super) fn resume_group(&mut self, group: &Bytes, now: u64) -> Expect {
        let settings = self.settings(group);
        let was_paused = settings.pause.is_some_and(|pause| pause.end > now);
        self.turns.set(group, Settings { pause: None, ..settings });
        self.fit(group);
        int(was_paused.into())
    }

    /// Returns when a pause of a group ends; [`MAX`]: at RESUME.
    pub fn paused_until(&self, group: &Bytes, now: u64) -> Option<u64> {
        self.settings(group).pause.map(|pause| pause.end).filter(|end| *end > now)
    }

    /// Returns the earliest deadline, of a group that is held back when it goes on. None: never.
    pub fn next_opening(&self) -> Option<u64> {
        self.first_eligible().filter(|at| *at < MAX || !self.has_settings())
    }
}
