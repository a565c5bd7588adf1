//! The model of groups that take turns, in the simplest terms: the names of groups in a list.
//!
//! The server's clock is known to the grain only. So a moment that was counted from it has the number of the operation that read
//! it, and is in the order of the operations with all others of its grain. That the clock moves on between two operations is up
//! to the test.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{GroupLimits, Settings};
use super::rates::Log;
use super::{BEHIND, Bytes, Dehydrator, Entry, GRAIN, MAX, Policy};

/// The bits of a sequence number that count within an operation.
pub const SEQUENCE_BITS: u32 = 20;
/// The most groups that leave the round with one turn because the clock was set back.
const RETREAT_MAX: usize = 8;
/// The most groups ahead of which one is inserted.
const WALKED_MAX: usize = 64;

/// A moment: milliseconds, and the number of the operation if they were counted from the clock, or else 0.
pub type When = (u64, u64);

/// A place in the order of delivery: when, and the sequence number of an element.
type Place = (When, u64);

/// Returns the moment that an operation has set. What was counted from the clock is as far ahead of a grain as the model's clock.
fn when(ms: u64, sequence: u64) -> When {
    (ms, if ms % GRAIN == BEHIND { sequence >> SEQUENCE_BITS } else { 0 })
}

/// Whose turn it is. The empty name stands for the elements without a group.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Turns {
    /// What is set for single groups, and for each.
    pub settings: BTreeMap<Bytes, Settings>,
    pub each: Settings,
    /// What groups gave out, if that is limited, and the latest moment of that.
    pub logs: BTreeMap<Bytes, Log>,
    pub latest_given: u64,
    /// Set if the server knows turns. A small dehydrator, whose elements are all in one group or in none, does not.
    is_kept: bool,
    /// The groups of the round, and when each came to its back.
    round: Vec<(Bytes, When)>,
    /// The group whose turn has begun, and what it has given in it.
    turn: Option<(Bytes, u64)>,
    latest: When,
    /// When each group is eligible, as of the latest change.
    filed: BTreeMap<Bytes, Place>,
    /// The groups that came into the round with the latest change.
    joined: BTreeSet<Bytes>,
}

/// From when on a group gives something out, and the id of that.
pub struct Eligible {
    place: Place,
    first: Bytes,
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { round, turn, latest, filed, joined, .. } = self;
        let name = |name: &Bytes| text(std::slice::from_ref(name));
        let of_round: Vec<_> = round.iter().map(|it| (name(&it.0), it.1)).collect();
        let turn = turn.as_ref().map(|it| (name(&it.0), it.1));
        let filed: Vec<_> = filed.iter().map(|it| (name(it.0), it.1)).collect();
        write!(
            f,
            "round {of_round:?}, turn {turn:?}, latest {latest:?}, filed {filed:?}, joined {joined:?}"
        )
    }
}

impl Turns {
    /// Forgets whose turn it is.
    fn forget(&mut self) {
        let Self { settings, each, mut logs, is_kept, .. } = std::mem::take(self);
        let latest_given = logs.values().map(Log::last).max().unwrap_or(0);
        logs.values_mut().for_each(Log::reload);
        *self = Self { settings, each, logs, latest_given, is_kept, ..Self::default() };
    }

    /// Returns the limits that are set for a group: its own, or those of each.
    pub fn limits_of(&self, group: &Bytes) -> GroupLimits {
        if group.is_empty() {
            return GroupLimits::default();
        }
        let own = self.settings.get(group).copied().unwrap_or_default();
        let limit = |own: u64, each: u64| if own > 0 { own } else { each };
        GroupLimits {
            length: limit(own.length, self.each.length),
            held: limit(own.held, self.each.held),
            rate: if own.rate.0 > 0 { own.rate } else { self.each.rate },
        }
    }

    /// Returns the limits that hold under a policy: of what is held, and of what is given out.
    pub fn enforced(&self, group: &Bytes, policy: &Policy) -> (u64, (u64, u64)) {
        let GroupLimits { held, rate, .. } = self.limits_of(group);
        let held = if policy.holds() { held } else { 0 };
        (held, if *policy == Policy::Drop { (0, 0) } else { rate })
    }

    /// Sets what holds for a group.
    pub fn set(&mut self, group: &Bytes, settings: Settings) {
        self.settings.remove(group);
        let is_any = settings != Settings::default();
        self.settings.extend(is_any.then(|| (group.clone(), settings)));
    }

    /// Returns whether several groups came into the round with the latest change. Their order is that of the server's table.
    pub fn have_many_joined(&self) -> bool {
        self.joined.len() > 1
    }

    /// Returns the group whose turn it is, of those that are eligible at `now`, and whether those without a group leave the list.
    /// `None`: nothing is taken in turns.
    fn choose(&self, eligible: &BTreeMap<Bytes, Eligible>, now: u64) -> Option<(Bytes, bool)> {
        if eligible.keys().all(Vec::is_empty) {
            return None;
        }
        if let Some((name, _)) = self.turn.as_ref().filter(|it| eligible.contains_key(&it.0)) {
            return Some((name.clone(), false));
        }
        let others = eligible.get(&Vec::new()).map(|it| it.place.0);
        let came = |at: When| others.is_none_or(|first| first > entered(at, now));
        let drops = self.round.first().is_some_and(|it| it.0.is_empty() && came(it.1));
        let front = self.round.get(usize::from(drops));
        let front = front.filter(|it| eligible.contains_key(&it.0));
        // Those that are not in the list come by when they became eligible.
        let is_in = |name: &Bytes| self.round.iter().any(|other| other.0 == *name);
        let waits = |it: &(&Bytes, &Eligible)| it.0.is_empty() && drops || !is_in(it.0);
        let by_place = |it: &(&Bytes, &Eligible)| it.1.place;
        let joins = eligible.iter().filter(waits).min_by_key(by_place);
        let name = match (front, joins) {
            (Some((front, at)), Some((_, it))) if entered(*at, now) < it.place.0 => front,
            (_, Some((name, _))) => name,
            (Some((front, _)), None) => front,
            // The clock was set back.
            (None, None) => eligible.iter().filter(|it| !it.0.is_empty()).min_by_key(by_place)?.0,
        };
        Some((name.clone(), drops))
    }

    /// Lets the chosen group give an element.
    fn take_turn(&mut self, (name, drops): (Bytes, bool), now: When) {
        self.round.retain(|it| !drops || !it.0.is_empty());
        self.latest = now;
        let at = self.round.iter().position(|it| it.0 == name);
        let since = self.filed.get(&name).map_or(now, |place| place.0);
        let entry = at.map_or((name.clone(), since), |at| self.round.remove(at));
        self.round.insert(0, entry);
        let given = self.turn.take().filter(|it| it.0 == name).map_or(0, |it| it.1) + 1;
        if given >= self.settings.get(&name).map_or(1, |it| it.share) {
            self.round.rotate_left(1);
            self.round.last_mut().expect("it is there").1 = now;
        } else {
            self.turn = Some((name, given));
        }
        // The clock may have been set back: some leave the round that are not eligible yet.
        for _ in 0..RETREAT_MAX {
            let places = self.round.iter().filter_map(|it| Some((self.filed.get(&it.0)?, &it.0)));
            let Some((_, last)) = places.max().filter(|it| it.0.0 > now) else { break };
            let last = last.clone();
            self.leave(|name| *name == last);
        }
    }

    /// Removes groups from the round.
    fn leave(&mut self, leaves: impl Fn(&Bytes) -> bool) {
        self.round.retain(|it| !leaves(&it.0));
        self.turn = self.turn.take().filter(|it| !leaves(&it.0));
    }

    /// Files the groups that are eligible at another moment than before, `first` before all others.
    fn file(&mut self, eligible: BTreeMap<Bytes, Place>, first: &Bytes) {
        let (before, until) = (std::mem::take(&mut self.filed), self.latest);
        let is_filed =
            |name: &Bytes| eligible.get(name).is_some_and(|it| before.get(name) == Some(it));
        let stays = |name: &Bytes| eligible.get(name).is_some_and(|it| it.0 <= until);
        self.leave(|name| !name.is_empty() && !is_filed(name) && !stays(name));
        let mut names: Vec<_> = eligible.keys().filter(|it| !is_filed(it) && stays(it)).collect();
        names.sort_by_key(|name| *name != first);
        self.joined.clear();
        for name in names {
            if self.round.iter().any(|it| it.0 == *name) {
                continue;
            }
            // One that waited and was eligible keeps its place.
            let since = before.get(name).map(|place| place.0).filter(|at| *at <= until);
            let is_later = |it: &&(Bytes, When)| since.is_some_and(|since| is_since(it.1, since));
            let later = self.round.iter().rev().take_while(is_later).take(WALKED_MAX).count();
            let entry = (name.clone(), since.unwrap_or(until));
            self.round.insert(self.round.len() - later, entry);
            self.joined.insert(name.clone());
        }
        self.filed = eligible;
    }
}

/// Returns names as text.
fn text(names: &[Bytes]) -> String {
    let text = |name: &Bytes| name[..name.len().min(10)].escape_ascii().to_string();
    names.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns a moment of which only 32 bits are known.
fn entered(at: When, now: u64) -> When {
    let ago = (now as u32).wrapping_sub(at.0 as u32) as i32;
    (now.saturating_add_signed(-i64::from(ago)), at.1)
}

/// Returns whether one moment is not before another, if 32 bits of the milliseconds are known.
fn is_since(at: When, since: When) -> bool {
    match (at.0 as u32).wrapping_sub(since.0 as u32) {
        0 => at.1 >= since.1,
        ago if ago == 1 << 31 => at.1 < since.1,
        ago => (ago as i32) > 0,
    }
}

impl Dehydrator {
    /// Returns whether there is a group with an element, or anything is set for groups.
    pub fn has_groups(&self) -> bool {
        self.has_settings() || self.entries.iter().any(|entry| !entry.group.is_empty())
    }

    /// Returns the groups that have elements, with their numbers of elements, the greatest first.
    pub fn groups(&self) -> Vec<(&Bytes, usize)> {
        let names: BTreeSet<_> = self.entries.iter().map(|entry| &entry.group).collect();
        let length =
            |name: &Bytes| self.entries.iter().filter(|entry| entry.group == *name).count();
        let named = names.into_iter().filter(|name| !name.is_empty());
        let mut all: Vec<_> = named.map(|name| (name, length(name))).collect();
        all.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
        all
    }

    /// Returns the elements of each group that has some, in the order of delivery.
    fn members(&self) -> BTreeMap<&Bytes, Vec<&Entry>> {
        let mut members = BTreeMap::<_, Vec<_>>::new();
        for entry in self.ordered() {
            members.entry(&entry.group).or_default().push(entry);
        }
        members
    }

    /// Returns from when on each group gives something out: when the pause is over, the rate allows it, and enough leases have
    /// ended. The first of those comes first then.
    fn all_eligible(&self) -> BTreeMap<Bytes, Eligible> {
        let eligible = |(group, members): (&Bytes, Vec<&Entry>)| {
            let held: Vec<_> = members.iter().copied().filter(|it| it.counts_as_held()).collect();
            let most = self.enforced(group).0 as usize;
            let excess = if most > 0 { (held.len() + 1).saturating_sub(most) } else { 0 };
            let [first, last] = match excess {
                0 => [members[0]; 2],
                excess => [held[0], held[excess - 1]],
            };
            let pause = self.settings(group).pause.map_or((0, 0), |it| when(it.end, it.set));
            let rate = (self.turns.logs.get(group).map_or(0, Log::next), 0);
            let from = when(last.deadline, last.sequence).max(pause).max(rate);
            let it = Eligible { place: (from, last.sequence), first: first.id.clone() };
            (group.clone(), it)
        };
        self.members().into_iter().map(eligible).collect()
    }

    fn eligible_at(&self, now: u64) -> BTreeMap<Bytes, Eligible> {
        let mut eligible = self.all_eligible();
        eligible.retain(|_, it| it.place.0.0 <= now);
        eligible
    }

    /// Returns the earliest moment at which something is given out.
    pub(super) fn first_eligible(&self) -> Option<u64> {
        self.all_eligible().into_values().map(|it| it.place.0.0).min()
    }

    /// Counts the groups that have something due and wait for leases, for their rate, and for the end of a pause.
    pub fn held_back(&self, now: u64) -> [usize; 3] {
        let mut counts = [0; 3];
        for (group, members) in self.members() {
            if members[0].deadline > now {
                continue;
            }
            let running = members.iter().filter(|it| it.counts_as_held() && it.deadline > now);
            let most = self.enforced(group).0 as usize;
            counts[0] += usize::from(most > 0 && running.count() >= most);
            counts[1] += usize::from(self.turns.logs.get(group).is_some_and(|it| it.next() > now));
            counts[2] += usize::from(self.paused_until(group, now).is_some());
        }
        counts
    }

    /// Files the groups that are eligible at another moment than before. Called after every change of an element.
    pub fn settle_turns(&mut self) {
        self.settle_turns_from(&Vec::new());
    }

    /// Like [`Dehydrator::settle_turns`], this group before all others.
    pub fn settle_turns_from(&mut self, first: &Bytes) {
        let is_used = !self.turns.filed.is_empty() || self.has_groups();
        let eligible = if is_used { self.all_eligible() } else { BTreeMap::new() };
        let eligible = eligible.into_iter().filter(|it| !it.0.is_empty());
        let eligible = eligible.map(|(name, it)| (name, it.place)).collect();
        self.turns.file(eligible, first);
    }

    /// Begins a new round, as after a load. Whether the server knows turns then must be learned.
    pub fn restart_turns(&mut self) {
        self.turns.is_kept = false;
        self.begin_round();
    }

    fn begin_round(&mut self) {
        self.turns.forget();
        self.settle_turns();
    }

    /// Forgets turns that the server does not know.
    pub(super) fn forget_turns(&mut self) {
        if !self.turns.is_kept && self.has_groups() {
            self.begin_round();
        }
    }

    /// Returns whether it must be learned if the server knows turns.
    pub fn may_know_turns(&self) -> bool {
        !self.turns.is_kept && self.has_groups()
    }

    /// Learns whether the server knows turns. If it did not before, it has begun a new round.
    pub(super) fn learn_form(&mut self, knows_turns: bool) {
        assert!(knows_turns || !self.turns.is_kept, "the server has forgotten turns");
        if !self.turns.is_kept {
            self.begin_round();
            self.turns.is_kept = knows_turns;
        }
    }

    /// Learns the names of the round, if the server knows turns. Panics if they differ, except for the order of those that have
    /// just come together.
    pub fn learn_turns(&mut self, round: Option<Vec<Bytes>>) {
        self.learn_form(round.is_some());
        let Some(names) = round else { return };
        let turns = self.turns.clone();
        let Turns { round, joined, .. } = &mut *self.turns;
        let mut sorted = round.clone();
        if joined.len() > 1 {
            sorted.sort_by_key(|it| names.iter().position(|name| *name == it.0));
        }
        let is_as_shown = sorted.iter().map(|it| &it.0).eq(&names);
        assert!(is_as_shown, "the round is {}, and not {turns:?}", text(&names));
        let stayed = |round: &[(Bytes, When)]| {
            round.iter().filter(|it| !joined.contains(&it.0)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(stayed(&sorted), stayed(round), "those that were in the round");
        *round = sorted;
        joined.clear();
    }

    /// Returns the element whose turn it is.
    pub fn next_in_turn(&self, now: u64) -> Option<Bytes> {
        let eligible = self.eligible_at(now);
        let group = self.turns.choose(&eligible, now).unwrap_or_default().0;
        eligible.get(&group).map(|it| it.first.clone())
    }

    /// Returns the element whose turn it is, and counts it as given out by its group. The caller takes it or leases it, and
    /// then calls [`Dehydrator::settle_turns`]. `real`: the time of the server's clock.
    pub fn give_in_turn(&mut self, now: u64, real: u64, sequence: u64) -> Option<Bytes> {
        let eligible = self.eligible_at(now);
        let choice = self.turns.choose(&eligible, now);
        let group = choice.clone().unwrap_or_default().0;
        let first = eligible.get(&group)?.first.clone();
        if let Some(choice) = choice {
            self.turns.take_turn(choice, (now, sequence >> SEQUENCE_BITS));
            self.give_of_group(&group, real, 1);
        }
        Some(first)
    }
}

impl Entry {
    /// Returns the place in the order of delivery.
    pub fn turn(&self) -> (u64, u64) {
        (self.deadline, self.sequence)
    }

    /// Returns whether it counts under a limit of what its group holds, until it is given out again.
    fn counts_as_held(&self) -> bool {
        self.is_held() && self.deadline < MAX
    }
}
