//! The model of one dehydrator: its elements, filed by group, and by when each group gives something out.
//!
//! It does not know whose turn it is. It follows the replies: each element that a reply shows must be one that a group may give
//! out at that moment, and where the reply ends there must be no other. `openings` says from when on groups give something out,
//! `leaving` what may leave, and what has to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::group::Group;
use super::limits::{Limits, Log, Settings};
use super::schedule::Schedule;
use super::{Bytes, Fault, NEVER, Promise};

pub use super::entry::{Entry, Place};
pub use super::policy::Policy;

/// Within which time the pause of a group ends that is over, in milliseconds.
const UPKEEP_MS: u64 = 1200;

#[derive(Clone, Debug, Default)]
pub struct Dehydrator {
    pub(super) entries: HashMap<Bytes, Entry>,
    pub(super) groups: BTreeMap<Bytes, Group>,
    /// Groups by the moment at which they give something out at the latest.
    pub(super) openings: BTreeSet<(u64, Bytes)>,
    pub(super) ends: BTreeSet<(u64, u64, Bytes)>,
    pub(super) held: BTreeMap<Place, Bytes>,
    pub policy: Policy,
    /// When a pause ends; [`NEVER`]: at RESUME.
    pub pause: Option<u64>,
    pub limits: Limits,
    pub each: Settings,
    /// Until when ids are remembered: at least, and at most.
    pub remembered: HashMap<Bytes, [u64; 2]>,
    /// How many elements were given out, and how many when each POLL began.
    pub(super) given: u64,
    /// The most groups since the turns began.
    pub(super) most_groups: usize,
    pub(super) polls: Vec<(u64, u64)>,
    /// From when on the module certainly knows its name, after another command has moved it.
    pub known: u64,
    /// The clock was set back, and the module has not looked since at what groups gave out.
    pub(super) is_unseen: bool,
    /// The latest moment at which a group gave something out under a limit of rate.
    pub(super) counted: u64,
    /// When a command last changed anything.
    pub touched: u64,
    /// From when on its age is known, after the clock was set back or something has left by itself.
    pub aged_from: u64,
    pub(super) schedules: BTreeMap<Bytes, Schedule>,
    /// From when on it certainly does in time what it does by itself: there is room, and writes do not pause.
    pub acts_from: u64,
    /// How often they have occurred.
    pub occurred: u64,
    /// The limits of each and the policy before a change that has not reached all groups yet.
    pub(super) before: Option<(Settings, Policy)>,
}

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

    /// Returns the ids of an element by what it contains: each was pushed once, or by a schedule. The first comes first.
    pub fn ids_of(&self, element: &[u8]) -> Vec<Bytes> {
        let id = super::model::id_of(element);
        let is_it = |it: &&Entry| it.element == *element;
        if let Some(entry) = self.get(id).filter(is_it) {
            return vec![entry.id.clone()];
        }
        let mut all: Vec<_> =
            self.entries.values().filter(|_| id.is_empty()).filter(is_it).collect();
        all.sort_unstable_by_key(|entry| entry.place());
        all.into_iter().map(|it| it.id.clone()).collect()
    }

    pub fn id_of(&self, element: &[u8]) -> Option<Bytes> {
        self.ids_of(element).into_iter().next()
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
    pub(super) fn file(&mut self, name: &Bytes) {
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

    pub fn length_of(&self, name: &[u8]) -> usize {
        self.groups.get(name).map_or(0, |it| it.members.len())
    }

    pub fn running_of(&self, name: &[u8], now: u64) -> u64 {
        self.groups.get(name).map_or(0, |it| it.held.range((now + 1, 0)..).count() as u64)
    }

    pub fn running(&self, now: u64) -> u64 {
        self.held.range((now + 1, 0)..).count() as u64
    }

    /// Returns one of the elements that are held, with its token.
    pub fn nth_held(&self, nth: usize) -> Option<(Bytes, Bytes)> {
        let id = self.held.values().nth(nth % self.held.len().max(1))?;
        Some((self.entries[id].token.clone()?, id.clone()))
    }

    /// Returns the groups that have elements, but for those without a name.
    pub fn groups(&self) -> usize {
        self.groups.iter().filter(|(name, it)| !name.is_empty() && !it.members.is_empty()).count()
    }

    pub fn has_settings(&self) -> bool {
        self.each != Settings::default()
            || self.groups.values().any(|it| it.settings != Settings::default())
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.pause.is_some_and(|end| end > now)
    }

    /// Notes that it has another name since `now`, of which the module hears at the next tick.
    pub fn moved(&mut self, now: u64) {
        self.known = now + super::reads::TICK_MS;
        self.touched = self.known;
    }

    /// Begins a POLL.
    pub fn poll(&mut self, now: u64) {
        self.look_at_logs(now);
        self.polls.push((now, self.given));
        self.most_groups = self.most_groups.max(self.groups.len());
    }

    /// Begins new rounds, as a load does.
    pub fn restart_turns(&mut self) {
        self.polls.clear();
        self.most_groups = self.groups.len();
        let given = self.given;
        self.groups.values_mut().for_each(|it| it.changed = given);
        self.is_unseen = true;
        self.limits.log.load();
        self.change_logs(|log, _| log.load());
    }

    /// Remembers an id that was settled, taken or delivered between two moments.
    pub fn done(&mut self, id: &[u8], between: [u64; 2]) {
        if self.limits.remember > 0 {
            let until = between.map(|at| at.saturating_add(self.limits.remember).min(NEVER));
            self.remembered.insert(id.to_vec(), until);
        }
    }

    /// Returns whether nobody knows what is remembered: the clock was set back.
    pub fn is_unclear(&self, now: u64) -> bool {
        self.remembered.values().any(|[least, most]| *least <= now && *most > now)
    }

    /// Returns whether an id is remembered. If either is possible, the reply has said so or not.
    pub fn remembers(&self, id: &[u8], now: u64, is_said: bool) -> bool {
        let until = self.remembered.get(id);
        until.is_some_and(|[least, most]| *least > now || *most > now && is_said)
    }

    /// Returns whether its key is deleted.
    pub fn is_nothing(&self) -> bool {
        self.entries.is_empty()
            && self.policy == Policy::Hold
            && self.pause.is_none()
            && !self.limits.is_any()
            && !self.has_settings()
            && self.schedules.is_empty()
    }

    /// Follows that a pause has ended, by itself if it has not yet: of a group, or its own.
    pub(super) fn ends_pause(&mut self, group: Option<&Bytes>, now: u64) -> Result<(), Fault> {
        let pause = match group {
            None => self.pause.take(),
            Some(name) => self.groups.get_mut(name).and_then(|it| it.settings.pause.take()),
        };
        let Some(end) = pause else { return Ok(()) };
        if end > now {
            let what = format!("of {group:?} until {end} has ended at {now}");
            return Err(Promise::Pause.broken(what));
        }
        self.touched = self.touched.max(now);
        if let Some(name) = group {
            self.groups.get_mut(name).expect("it is there").resumed = end;
            self.file(name);
        }
        Ok(())
    }

    /// Returns a pause that should have ended by itself at `then`.
    pub fn owed_end(&self, then: u64) -> Option<u64> {
        let groups = self.groups.values().filter_map(|it| it.settings.pause);
        let mut ends = self.pause.into_iter().chain(groups);
        ends.find(|end| self.acts_from.max(*end).saturating_add(UPKEEP_MS) <= then)
    }
}
