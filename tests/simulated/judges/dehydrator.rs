//! The model of one dehydrator: elements, and from when on each group gives something out.
//!
//! It does not know whose turn it is. It follows the replies: each element that a reply shows must be one that a group may give
//! out at that moment, and where the reply ends there must be no other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::limits::{Limits, Log, Settings};
use super::{Bytes, Fault, NEVER, Promise};

/// The place in the order of delivery: the deadline, and the number of the push, the lease or the touch.
pub type Place = (u64, u64);

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: Bytes,
    pub element: Bytes,
    pub deadline: u64,
    pub sequence: u64,
    pub ttl: u64,
    pub deliveries: u64,
    pub token: Option<Bytes>,
    /// Its own maximum number of deliveries, or 0.
    pub most: u64,
    /// When it is too late to be given out, without any bound of a representation.
    pub until: Option<i128>,
    pub group: Bytes,
}

impl Entry {
    fn place(&self) -> Place {
        (self.deadline, self.sequence)
    }

    /// Returns when it expires.
    fn end(&self) -> Option<u64> {
        let until = self.until?.max(i128::from(self.deadline));
        Some(u64::try_from(until).unwrap_or(u64::MAX))
    }

    pub fn is_late(&self, now: u64) -> bool {
        self.end().is_some_and(|end| end <= now)
    }

    pub fn runs(&self, now: u64) -> bool {
        self.token.is_some() && self.deadline > now && self.deadline < NEVER
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    #[default]
    Hold,
    Drop,
    Stream(Bytes),
    List(Bytes),
    Publish(Bytes),
    /// HOLD with a limit of deliveries, and the destination of dead letters.
    Limit(u64, Box<Policy>),
}

impl Policy {
    pub fn route(&self) -> &Self {
        if let Self::Limit(_, route) = self { route } else { self }
    }

    pub fn holds(&self) -> bool {
        matches!(self, Self::Hold | Self::Limit(..))
    }

    /// Returns whether an element that is due leaves by itself.
    pub fn sends(&self, entry: &Entry) -> bool {
        match self {
            Self::Hold => false,
            Self::Limit(most, _) => {
                entry.deliveries >= if entry.most > 0 { entry.most } else { *most }
            }
            _ => true,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    members: BTreeMap<Place, Bytes>,
    held: BTreeSet<Place>,
    settings: Settings,
    log: Log,
    /// Under which moment it is filed in `openings`.
    filed: Option<u64>,
    /// The number of elements that the dehydrator had given out when the group last changed.
    changed: u64,
    /// When its last pause ended by itself.
    resumed: u64,
}

/// From when on a group gives something out: at the earliest and at the latest, as RATE has it; and what.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub earliest: u64,
    pub latest: u64,
    /// From when on, but for RATE.
    pub unlimited: u64,
    pub first: Place,
    /// What is first under the limits before.
    other: Place,
}

#[derive(Clone, Debug, Default)]
pub struct Dehydrator {
    entries: HashMap<Bytes, Entry>,
    groups: BTreeMap<Bytes, Group>,
    /// Groups by the moment at which they give something out at the latest.
    openings: BTreeSet<(u64, Bytes)>,
    ends: BTreeSet<(u64, u64, Bytes)>,
    held: BTreeMap<Place, Bytes>,
    pub policy: Policy,
    /// When a pause ends; [`NEVER`]: at RESUME.
    pub pause: Option<u64>,
    pub limits: Limits,
    pub each: Settings,
    pub remembered: HashMap<Bytes, u64>,
    /// How many elements were given out, and how many when each POLL began.
    given: u64,
    /// The most groups since the turns began.
    most_groups: usize,
    polls: Vec<(u64, u64)>,
    /// When a command last changed anything.
    pub touched: u64,
    /// When a pause has ended last.
    ended: u64,
    /// From when on its age is known, after the clock was set back.
    pub aged_from: u64,
    /// The limits of each and the policy before a change that has not reached all groups yet.
    before: Option<(Settings, Policy)>,
}

/// The dead letters that a POLL moves at most, or that were moved just before.
const DEAD_AT_ONCE: usize = 500;
/// To how many groups a change of the limits of each comes at once: at least to so many.
const AT_ONCE: usize = 200;

impl Dehydrator {
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether a client may get an element, as far as that depends on itself.
    pub fn is_alive(&self, entry: &Entry, now: u64) -> bool {
        let is_dead = self.policy.holds() && self.policy.sends(entry);
        !is_dead && !entry.is_late(now)
    }

    pub fn get(&self, id: &[u8]) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Returns the id of an element by what it contains: each was pushed once.
    pub fn id_of(&self, element: &[u8]) -> Option<Bytes> {
        let id = super::model::id_of(element);
        let is_it = |it: &&Entry| it.element == *element;
        let entry = self
            .get(id)
            .filter(is_it)
            .or_else(|| self.entries.values().filter(|_| id.is_empty()).find(is_it));
        entry.map(|it| it.id.clone())
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns everything in the order of delivery.
    pub fn ordered(&self) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries.values().collect();
        all.sort_unstable_by_key(|entry| entry.place());
        all
    }

    pub fn insert(&mut self, entry: Entry) {
        let (place, id, group) = (entry.place(), entry.id.clone(), entry.group.clone());
        if entry.token.is_some() && entry.deadline < NEVER {
            self.held.insert(place, id.clone());
            self.groups.entry(group.clone()).or_default().held.insert(place);
        }
        self.ends.extend(entry.end().map(|end| (end, entry.sequence, id.clone())));
        self.groups.entry(group.clone()).or_default().members.insert(place, id.clone());
        self.entries.insert(id, entry);
        self.file(&group);
    }

    pub fn remove(&mut self, id: &[u8]) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        let place = entry.place();
        self.held.remove(&place);
        if let Some(end) = entry.end() {
            self.ends.remove(&(end, entry.sequence, id.to_vec()));
        }
        let group = self.groups.get_mut(&entry.group).expect("its group");
        group.members.remove(&place);
        group.held.remove(&place);
        self.file(&entry.group);
        Some(entry)
    }

    pub fn change(&mut self, id: &[u8], change: impl FnOnce(&mut Entry)) {
        let mut entry = self.remove(id).expect("it is there");
        change(&mut entry);
        self.insert(entry);
    }

    /// Files a group by its opening.
    fn file(&mut self, name: &Bytes) {
        let opening = self.opening(name).map(|it| it.latest);
        let given = self.given;
        let Some(group) = self.groups.get_mut(name) else { return };
        group.changed = given;
        if let Some(before) = group.filed.take() {
            self.openings.remove(&(before, name.clone()));
        }
        group.filed = opening;
        let is_nothing = group.members.is_empty() && group.settings == Settings::default();
        if is_nothing && group.log == Log::default() && group.resumed == 0 {
            self.groups.remove(name);
        }
        self.openings.extend(opening.map(|at| (at, name.clone())));
    }

    /// Files all groups anew: limits of each have changed, or the policy.
    pub fn file_all(&mut self) {
        for name in self.groups.keys().cloned().collect::<Vec<_>>() {
            self.file(&name);
        }
    }

    pub fn settings(&self, name: &[u8]) -> Settings {
        self.groups.get(name).map(|it| it.settings).unwrap_or_default()
    }

    pub fn set(&mut self, name: &Bytes, now: u64, settings: Settings) {
        let before = self.enforced(name).1;
        self.groups.entry(name.clone()).or_default().settings = settings;
        let after = self.enforced(name).1;
        self.change_rate(name, before, after, now);
        self.file(name);
    }

    pub fn set_each(&mut self, now: u64, change: impl FnOnce(&mut Self)) {
        if self.groups.len() > AT_ONCE {
            self.before.get_or_insert_with(|| (self.each, self.policy.clone()));
        }
        let names: Vec<_> = self.groups.keys().cloned().collect();
        let before: Vec<_> = names.iter().map(|name| self.enforced(name).1).collect();
        change(self);
        for (name, before) in names.iter().zip(before) {
            self.change_rate(name, before, self.enforced(name).1, now);
        }
        self.file_all();
    }

    fn change_rate(&mut self, name: &Bytes, before: (u64, u64), after: (u64, u64), now: u64) {
        if before != after
            && let Some(group) = self.groups.get_mut(name)
        {
            group.log.change(before, after, now);
        }
    }

    /// Returns the limits of a group: its own, or those of each: LENGTH, HELD, RATE.
    pub fn limits_of(&self, name: &[u8]) -> (u64, u64, (u64, u64)) {
        self.limits_under(name, self.each)
    }

    fn limits_under(&self, name: &[u8], each: Settings) -> (u64, u64, (u64, u64)) {
        if name.is_empty() {
            return (0, 0, (0, 0));
        }
        let own = self.settings(name);
        let limit = |own: u64, each: u64| if own > 0 { own } else { each };
        let rate = if own.rate.0 > 0 { own.rate } else { each.rate };
        (limit(own.length, each.length), limit(own.held, each.held), rate)
    }

    /// Returns the HELD and the RATE of a group that hold under the policy.
    pub fn enforced(&self, name: &[u8]) -> (u64, (u64, u64)) {
        self.enforced_under(name, self.each, &self.policy)
    }

    fn enforced_under(&self, name: &[u8], each: Settings, policy: &Policy) -> (u64, (u64, u64)) {
        let (_, held, rate) = self.limits_under(name, each);
        (if policy.holds() { held } else { 0 }, if *policy == Policy::Drop { (0, 0) } else { rate })
    }

    /// Returns whether a change of limits may not have reached all groups yet.
    pub fn is_fitting(&self) -> bool {
        self.before.is_some()
    }

    /// Notes that a change of limits has reached all groups, if that was before `then`.
    pub fn fitted(&mut self, then: u64) {
        if self.before.take_if(|_| self.touched <= then).is_some() {
            self.file_all();
        }
    }

    pub fn length_of(&self, name: &[u8]) -> usize {
        self.groups.get(name).map_or(0, |it| it.members.len())
    }

    pub fn running_of(&self, name: &[u8], now: u64) -> u64 {
        self.groups.get(name).map_or(0, |it| it.held.range((now + 1, 0)..).count() as u64)
    }

    /// Returns whether there are so many dead letters that a POLL stops before all are moved.
    pub fn has_many_dead(&self, now: u64) -> bool {
        let leave = |it: &&Entry| self.policy.sends(it) || it.is_late(now);
        self.policy.holds() && self.entries.values().filter(leave).count() > DEAD_AT_ONCE
    }

    /// Returns one of the elements that are held, with its token.
    pub fn nth_held(&self, nth: usize) -> Option<(Bytes, Bytes)> {
        let id = self.held.values().nth(nth % self.held.len().max(1))?;
        Some((self.entries[id].token.clone()?, id.clone()))
    }

    pub fn running(&self, now: u64) -> u64 {
        self.held.range((now + 1, 0)..).count() as u64
    }

    /// Returns the groups that have elements, but for those without a name.
    pub fn groups(&self) -> usize {
        self.groups.iter().filter(|(name, it)| !name.is_empty() && !it.members.is_empty()).count()
    }

    pub fn has_settings(&self) -> bool {
        self.each != Settings::default()
            || self.groups.values().any(|it| it.settings != Settings::default())
    }

    /// Returns from when on a group gives something out, and what. `None`: it has nothing.
    fn opening(&self, name: &[u8]) -> Option<Opening> {
        let group = self.groups.get(name)?;
        let mut opening = Self::opening_under(group, self.enforced(name))?;
        if let Some((each, policy)) = &self.before {
            let before = self.enforced_under(name, *each, policy);
            let before = Self::opening_under(group, before).expect("it has an element");
            opening.earliest = opening.earliest.min(before.earliest);
            opening.latest = opening.latest.max(before.latest);
            opening.unlimited = opening.unlimited.min(before.unlimited);
            opening.other = before.first;
        }
        Some(opening)
    }

    fn opening_under(group: &Group, (held, rate): (u64, (u64, u64))) -> Option<Opening> {
        let (first, _) = group.members.first_key_value()?;
        let excess = if held > 0 { (group.held.len() as u64 + 1).saturating_sub(held) } else { 0 };
        let (mut at, mut first) = (first.0, *first);
        if excess > 0 {
            first = *group.held.first().expect("one is held");
            // Not counted from the first: so many may be held.
            at = group.held.iter().nth_back(held as usize - 1).expect("so many are held").0;
        }
        at = at.max(group.settings.pause.unwrap_or(0));
        let [earliest, latest] = group.log.next(rate).map(|next| next.max(at));
        Some(Opening { earliest, latest, unlimited: at, first, other: first })
    }

    /// Returns the groups that certainly give something out at `now`, with their first elements.
    pub fn open(&self, now: u64) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.openings.range(..(now + 1, Vec::new())).map(|(_, name)| {
            let first = self.opening(name).expect("it has an opening").first;
            (name, &self.entries[&self.groups[name].members[&first]])
        })
    }

    /// Returns a group with an element to give out at `now`, if the whole has room.
    pub fn gives(&self, now: u64) -> Option<&Entry> {
        if self.is_paused(now) || self.room(now)[1] == 0 {
            return None;
        }
        self.open(now).map(|it| it.1).find(|entry| self.is_alive(entry, now))
    }

    /// Returns when the next group opens, at the earliest and at the latest. A limit of rate that holds nothing back at `now`
    /// may be forgotten.
    pub fn next_opening(&self, now: u64) -> Option<[u64; 2]> {
        let openings = self
            .groups
            .iter()
            .filter_map(|(name, group)| Some((self.opening(name)?, group.resumed)));
        let all = openings.map(|(it, resumed)| {
            [if it.earliest <= now { it.unlimited } else { it.earliest }, it.latest.max(resumed)]
        });
        all.reduce(|one, other| [one[0].min(other[0]), one[1].min(other[1])])
            .filter(|it| it[0] < NEVER)
    }

    /// Returns whether its key may stay for a while although nothing is left: a pause has ended just now.
    pub fn lingers(&self, now: u64) -> bool {
        self.is_nothing() && self.has_resumed(now)
    }

    /// Returns whether a pause has ended just now, of which the module may not know yet.
    pub fn has_resumed(&self, now: u64) -> bool {
        const UPKEEP_MS: u64 = 1100;
        self.ended + UPKEEP_MS > now
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.pause.is_some_and(|end| end > now)
    }

    /// Returns how many may be given out: at most, and at least.
    pub fn room(&self, now: u64) -> [u64; 2] {
        let held = self.limits.held;
        let held = if held == 0 { u64::MAX } else { held.saturating_sub(self.running(now)) };
        self.limits.log.room(self.limits.rate, now).map(|rate| rate.min(held))
    }

    /// Returns when there is room, at the earliest and at the latest.
    pub fn room_from(&self, now: u64) -> [u64; 2] {
        let excess = if self.limits.held == 0 {
            0
        } else {
            (self.running(now) + 1).saturating_sub(self.limits.held)
        };
        let mut running = self.held.range((now + 1, 0)..);
        let held = if excess > 0 { running.nth_back(self.limits.held as usize - 1) } else { None };
        let held = held.map_or(0, |it| it.0.0);
        let rate = self.limits.log.next(self.limits.rate);
        rate.map(|rate| rate.max(held))
    }

    /// Begins a POLL.
    pub fn poll(&mut self, now: u64) {
        self.polls.push((now, self.given));
        self.most_groups = self.most_groups.max(self.groups.len());
    }

    /// Begins new rounds, as a load does.
    pub fn restart_turns(&mut self) {
        self.polls.clear();
        self.most_groups = self.groups.len();
        let given = self.given;
        self.groups.values_mut().for_each(|it| it.changed = given);
    }

    /// Checks that an element may leave for being due: to a client, or to a destination.
    fn check(&self, id: &[u8], now: u64, to_client: bool) -> Result<&Entry, Fault> {
        let entry = self.entries.get(id).ok_or_else(|| {
            Promise::Unknown.broken(format!("{} is not there", id.escape_ascii()))
        })?;
        let fails = |promise: Promise, what: &str| {
            Err(promise.broken(format!("{what}: {entry:?}, now {now}")))
        };
        if entry.deadline > now {
            return fails(
                if entry.token.is_some() { Promise::Twice } else { Promise::Early },
                "is not due",
            );
        }
        if self.is_paused(now) {
            return fails(Promise::Pause, "its dehydrator is paused");
        }
        let is_dead = self.policy.holds() && self.policy.sends(entry);
        if to_client && is_dead {
            return fails(Promise::Dead, "is a dead letter");
        }
        if to_client && entry.is_late(now) {
            return fails(Promise::End, "has expired");
        }
        if !to_client && entry.is_late(now) {
            return Ok(entry);
        }
        if !to_client && !self.policy.sends(entry) {
            return fails(Promise::Dead, "is no dead letter");
        }
        let opening = self.opening(&entry.group).expect("its group has something");
        let is_first = [opening.first, opening.other].contains(&entry.place()) || {
            // What has expired leaves at some moment, and so does a dead letter that is dropped.
            let group = &self.groups[&entry.group];
            let before = group.members.range(..entry.place());
            let drops = *self.policy.route() == Policy::Drop;
            let leaves = |it: &Entry| it.is_late(now) || drops && self.policy.sends(it);
            before.map(|it| &self.entries[it.1]).all(leaves)
        };
        if !is_first {
            return fails(
                Promise::Order,
                &format!("is not the first of its group, {:?} is", opening.first),
            );
        }
        // Dead letters use up no rate.
        let at = if is_dead { 0 } else { opening.earliest };
        if at > now {
            return fails(Promise::GroupLimit, &format!("its group gives nothing out before {at}"));
        }
        if to_client || !self.policy.holds() && self.policy != Policy::Drop {
            let room = if to_client {
                self.room(now)
            } else {
                self.limits.log.room(self.limits.rate, now)
            };
            if room[0] == 0 {
                return fails(Promise::Limit, "there is no room");
            }
        }
        self.check_turn(entry, opening, now)?;
        Ok(entry)
    }

    /// Checks that a group does not wait longer than others take to give out their shares twice.
    fn check_turn(&self, entry: &Entry, opening: Opening, now: u64) -> Result<(), Fault> {
        // Among many groups, a round is longer than what is counted here.
        if self.most_groups > 64 {
            return Ok(());
        }
        let before = self.polls.partition_point(|poll| poll.0 <= opening.latest);
        let group = &self.groups[&entry.group];
        let since = self.polls.get(before).map_or(self.given, |poll| poll.1).max(group.changed);
        let shares: u64 = self.groups.values().map(|it| it.settings.share).sum();
        if self.given - since > 2 * shares + 64 {
            return Err(Promise::Turns
                .broken(format!("{entry:?} waited for {} others, now {now}", self.given - since)));
        }
        Ok(())
    }

    /// Counts an element under the limits of rate.
    fn count_under_rates(&mut self, group: &Bytes, now: u64) {
        self.given += 1;
        self.limits.log.give(self.limits.rate, now);
        let rate = self.enforced(group).1;
        if rate.0 > 0 && !group.is_empty() {
            self.groups.entry(group.clone()).or_default().log.give(rate, now);
            self.file(group);
        }
    }

    /// Gives an element to a client.
    pub fn give(&mut self, id: &[u8], now: u64) -> Result<Entry, Fault> {
        self.check(id, now, true)?;
        let entry = self.remove(id).expect("it is there");
        self.count_under_rates(&entry.group, now);
        Ok(entry)
    }

    /// Moves an element to a destination.
    pub fn send(&mut self, id: &[u8], now: u64) -> Result<Entry, Fault> {
        let is_late = self.check(id, now, false)?.is_late(now);
        let entry = self.remove(id).expect("it is there");
        if !is_late && !self.policy.holds() {
            if self.policy != Policy::Drop {
                self.count_under_rates(&entry.group, now);
            }
            self.done(id, now);
        }
        Ok(entry)
    }

    /// Drops what leaves without a trace: what has expired and is no dead letter, and what DROP removes.
    pub fn drop_silently(&mut self, now: u64) {
        if self.is_paused(now) {
            return;
        }
        while !matches!(self.policy, Policy::Limit(_, ref route) if **route != Policy::Drop)
            && let Some((end, _, id)) = self.ends.first().filter(|it| it.0 <= now).cloned()
        {
            debug_assert!(end <= now);
            self.remove(&id);
        }
        if *self.policy.route() == Policy::Drop {
            let sent = |it: &Self| {
                it.open(now)
                    .map(|(_, entry)| entry)
                    .find(|entry| it.policy.sends(entry))
                    .map(|entry| entry.id.clone())
            };
            while let Some(id) = sent(self) {
                let left = self.opening(&self.entries[&id].group).map_or(now, |it| it.latest);
                self.remove(&id);
                if !self.policy.holds() {
                    self.done(&id, left.min(now));
                }
            }
        }
    }

    /// Returns whether something may or may not have left silently at `now`: its moment is not `grace` past yet.
    pub fn is_unclear(&self, now: u64, grace: u64) -> bool {
        // The next command may run a millisecond later.
        let is_near = |at: u64| at <= now + 1 && at + grace > now;
        let ends = self
            .ends
            .range((now.saturating_sub(grace), 0, Vec::new())..(now + 2, 0, Vec::new()))
            .any(|it| is_near(it.0));
        let drops = *self.policy.route() == Policy::Drop;
        ends || drops
            && (self.openings.iter().any(|it| is_near(it.0))
                || self.entries.values().any(|it| is_near(it.deadline)))
            || self.pause.is_some_and(is_near)
    }

    /// Returns an element that should have been moved to its destination at `now`.
    pub fn owed(&self, now: u64) -> Option<&Entry> {
        if self.is_paused(now) {
            return None;
        }
        if matches!(self.policy, Policy::Limit(..))
            && let Some(first) = self.ends.first().filter(|it| it.0 <= now)
        {
            return Some(&self.entries[&first.2]);
        }
        if self.policy.holds() {
            // Whose turn it is decides, unless all are dead letters.
            let mut open = self.open(now).map(|it| it.1);
            let first = open.next()?;
            return (self.policy.sends(first) && open.all(|it| self.policy.sends(it)))
                .then_some(first);
        }
        let room = self.limits.log.room(self.limits.rate, now)[1];
        self.open(now).map(|it| it.1).next().filter(|_| room > 0)
    }

    /// Remembers an id that was settled, taken or delivered.
    pub fn done(&mut self, id: &[u8], now: u64) {
        if self.limits.remember > 0 {
            self.remembered
                .insert(id.to_vec(), now.saturating_add(self.limits.remember).min(NEVER));
        }
    }

    pub fn remembers(&self, id: &[u8], now: u64) -> bool {
        self.remembered.get(id).is_some_and(|until| *until > now)
    }

    /// Returns whether its key is deleted.
    pub fn is_nothing(&self) -> bool {
        self.entries.is_empty()
            && self.policy == Policy::Hold
            && self.pause.is_none()
            && !self.limits.is_any()
            && !self.has_settings()
    }

    /// Ends pauses that are over. Returns whether there were any.
    pub fn end_pauses(&mut self, now: u64) -> bool {
        let mut ended = false;
        if let Some(end) = self.pause.take_if(|end| *end <= now) {
            self.touched = self.touched.max(end);
            self.ended = self.ended.max(end);
            ended = true;
        }
        let is_over = |it: &Group| it.settings.pause.is_some_and(|end| end <= now);
        let over: Vec<_> =
            self.groups.iter().filter(|it| is_over(it.1)).map(|it| it.0.clone()).collect();
        for name in &over {
            let group = self.groups.get_mut(name).expect("it is there");
            group.resumed = group.settings.pause.take().unwrap_or(0);
            let resumed = group.resumed;
            self.ended = self.ended.max(resumed);
            self.touched = self.touched.max(resumed);
            self.file(name);
        }
        ended || !over.is_empty()
    }

    /// Returns for how long the oldest element could have been given out: at least, if certainly one could, and at most, if one
    /// could at all.
    pub fn oldest(&self, now: u64) -> [Option<u64>; 2] {
        let certain = self.open(now).filter_map(|(name, _)| self.opening(name));
        let since = certain.map(|it| it.latest.max(self.touched).max(self.aged_from)).min();
        let possible = self.groups.keys().filter_map(|name| self.opening(name));
        let at = possible.filter(|it| it.earliest <= now).map(|it| it.unlimited).min();
        [since.map(|since| now.saturating_sub(since)), at.map(|at| now - at)]
    }
}
