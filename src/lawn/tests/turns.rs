//! A model of groups that take turns, in the simplest terms: the names of groups in a list.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::groups::RETREAT_MAX;
use super::super::{DEADLINE_MAX, Enforced, GroupLimits, GroupSettings, Groups, Lawn, Rate};

/// An element of the oracle: id, TTL, payload and deadline.
pub(super) type Stored = (Vec<u8>, u64, Vec<u8>, u64);

/// A place in the order of delivery: a deadline, and the number of a push.
type Place = (u64, u64);

/// When a group is eligible, and the index of its first element.
type Eligible = (Place, usize);

/// The groups of an oracle. The empty name stands for the elements without a group.
#[derive(Clone)]
pub(super) struct Turns {
    /// The group of each element that has one.
    pub(super) of: HashMap<Vec<u8>, Vec<u8>>,
    /// The number of the push of each element.
    pushes: HashMap<Vec<u8>, u64>,
    pushed: u64,
    /// The number of the last element that was put first.
    firsts: u64,
    pub(super) settings: BTreeMap<Vec<u8>, GroupSettings>,
    /// The limits of each group.
    pub(super) each: GroupLimits,
    pub(super) enforced: Enforced,
    /// The limits of what groups hold that have not what is set yet.
    unfit: HashMap<Vec<u8>, u64>,
    /// The logs of what groups gave out under limits of rate.
    pub(super) logs: BTreeMap<Vec<u8>, Rate>,
    /// The latest moment that is recorded in a log.
    latest: u64,
    /// The elements whose leases count, until they are given out again.
    held: HashSet<Vec<u8>>,
    /// Each group of the list, and when it came to its back.
    round: Vec<(Vec<u8>, u64)>,
    /// The group whose turn has begun, and what it has given in it.
    turn: Option<(Vec<u8>, u16)>,
    latest_turn: u64,
    /// When each group is eligible, as of the last change.
    filed: BTreeMap<Vec<u8>, Place>,
    /// The latest choice, and whether those without a group leave the list. `None`: groups take no turns.
    choice: Option<(Vec<u8>, bool)>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            of: HashMap::new(),
            pushes: HashMap::new(),
            pushed: 1 << 60,
            firsts: 1 << 50,
            settings: BTreeMap::new(),
            each: GroupLimits::NONE,
            enforced: Enforced { held: true, rate: true },
            unfit: HashMap::new(),
            logs: BTreeMap::new(),
            latest: 0,
            held: HashSet::new(),
            round: Vec::new(),
            turn: None,
            latest_turn: 0,
            filed: BTreeMap::new(),
            choice: None,
        }
    }
}

impl Turns {
    pub(super) fn is_used(&self) -> bool {
        !self.of.is_empty() || !self.settings.is_empty() || self.each != GroupLimits::NONE
    }

    pub(super) fn settings(&self, group: &[u8]) -> GroupSettings {
        self.settings.get(group).copied().unwrap_or(GroupSettings::NONE)
    }

    pub(super) fn group(&self, id: &[u8]) -> &[u8] {
        self.of.get(id).map_or(&[], |group| group)
    }

    /// Notes that an element goes behind all others with its deadline.
    pub(super) fn push(&mut self, id: &[u8]) {
        self.pushed += 1;
        self.pushes.insert(id.to_vec(), self.pushed);
    }

    /// Notes that an element goes before all others with its deadline.
    pub(super) fn put_first(&mut self, id: &[u8]) {
        self.firsts -= 1;
        self.pushes.insert(id.to_vec(), self.firsts);
    }

    /// Notes that the next push number is the first again.
    pub(super) fn start_over(&mut self) {
        self.pushed = 1 << 50;
    }

    /// Notes whether an element is held, unless it never comes due.
    pub(super) fn hold(&mut self, id: &[u8], is_held: bool, deadline: u64) {
        self.held.remove(id);
        if is_held && deadline < DEADLINE_MAX {
            self.held.insert(id.to_vec());
        }
    }

    pub(super) fn is_held(&self, id: &[u8]) -> bool {
        self.held.contains(id)
    }

    /// Returns how many elements of a group may be held, if there is a limit.
    pub(super) fn held_max(&self, group: &[u8]) -> Option<u64> {
        let own = self.settings(group).limits.held;
        let max = if own > 0 { own } else { self.each.held };
        let set = if !group.is_empty() && self.enforced.held { max } else { 0 };
        let max = self.unfit.get(group).copied().unwrap_or(set);
        (max > 0).then_some(max)
    }

    /// Returns the limit of what a group gives out in a time.
    pub(super) fn rate(&self, group: &[u8]) -> Option<(u64, u64)> {
        let own = self.settings(group).limits;
        let limits = if own.rate > 0 { own } else { self.each };
        (limits.rate > 0 && !group.is_empty() && self.enforced.rate)
            .then_some((limits.rate, limits.per))
    }

    /// Adapts all logs to limits that have changed.
    pub(super) fn adapt(&mut self) {
        for (group, log) in std::mem::take(&mut self.logs) {
            if let Some((max, per)) = self.rate(&group) {
                let is_same = (log.max(), log.per()) == (max, per);
                let log = if is_same { log } else { log.changed(max, per) };
                // All was given out by then.
                log.next(self.latest);
                self.logs.insert(group, log);
            }
        }
    }

    /// Learns what only the lawn decides after limits of many groups have changed: which groups have them already, and the order
    /// in which groups join the round.
    pub(super) fn learn(&mut self, elements: &[Stored], lawn: &Lawn) {
        self.unfit.clear();
        if lawn.groups().is_some_and(Groups::must_fit) {
            let groups: HashSet<_> = self.of.values().cloned().collect();
            self.unfit = groups.into_iter().map(|it| (it.clone(), lawn.held_max(&it))).collect();
        }
        let before = self.round.len();
        self.settle(elements);
        // A small lawn has no round.
        if lawn.is_small() {
            return;
        }
        let round = lawn.round();
        let stayed = before.min(round.len());
        let mut sorted = self.round.clone();
        sorted.sort_by_key(|it| round.iter().position(|name| *name == &it.0[..]));
        assert!(sorted.iter().map(|it| &it.0[..]).eq(round), "the groups of the round");
        // Those that came join behind the others, all at one moment.
        let old: Vec<_> = sorted.iter().filter(|it| self.round[..stayed].contains(it)).collect();
        assert!(old.is_sorted_by_key(|it| self.round.iter().position(|other| other == *it)));
        self.round = sorted;
    }

    /// Panics unless the lawn has the same groups in its round, in the same order.
    pub(super) fn check_round(&self, lawn: &Lawn) {
        let names = self.round.iter().map(|it| &it.0);
        assert!(names.eq(&lawn.round()), "{:?}, not {:?}", self.round, lawn.round());
    }

    /// Records what a group gave out. Returns whether its rate is limited.
    pub(super) fn record(&mut self, group: &[u8], moment: u64, count: u64) -> bool {
        let Some((max, per)) = self.rate(group) else { return false };
        let log = self.logs.entry(group.to_vec()).or_insert_with(|| Rate::new(max, per));
        log.record(moment, count);
        log.next(moment);
        self.latest = self.latest.max(moment);
        true
    }

    /// Returns whether the clock has stepped back since groups gave out something under limits of rate.
    pub(super) fn is_behind(&self, now: u64) -> bool {
        now < self.latest && !self.logs.is_empty()
    }

    /// Notes that the clock has stepped back.
    pub(super) fn step_back(&mut self, now: u64) {
        self.latest = now;
        self.logs.values().for_each(|log| _ = log.next(now));
    }

    /// Removes the logs that are over.
    pub(super) fn forget(&mut self, now: u64) {
        self.logs.retain(|_, log| !log.is_over(now));
    }

    /// Returns the logs that count, as the limits are now.
    pub(super) fn logs(&self, now: u64) -> Vec<(&[u8], Rate)> {
        let log = |(group, log): (&'_ Vec<u8>, &Rate)| {
            let (max, per) = self.rate(group)?;
            Some(log.changed(max, per))
        };
        let all = self.logs.iter();
        let all = all.filter_map(|it| Some((&it.0[..], log(it)?)));
        all.filter(|(_, log)| !log.is_over(now)).collect()
    }

    /// Returns the elements of each group that has one, in the order of delivery.
    fn groups<'a>(&'a self, elements: &'a [Stored]) -> BTreeMap<&'a [u8], Vec<Eligible>> {
        let mut groups = BTreeMap::<&[u8], Vec<Eligible>>::new();
        for (at, (id, .., deadline)) in elements.iter().enumerate() {
            groups.entry(self.group(id)).or_default().push(((*deadline, self.pushes[id]), at));
        }
        groups.values_mut().for_each(|members| members.sort_unstable());
        groups
    }

    /// Returns the elements of a group whose leases must end before it gives anything out.
    fn excess(&self, elements: &[Stored], group: &[u8], members: &[Eligible]) -> Vec<Eligible> {
        let Some(max) = self.held_max(group) else { return Vec::new() };
        let is_held = |(_, at): &&Eligible| self.held.contains(&elements[*at].0);
        let mut held: Vec<_> = members.iter().filter(is_held).copied().collect();
        held.truncate((held.len() + 1).saturating_sub(max.try_into().unwrap_or(usize::MAX)));
        held
    }

    /// Returns when each group is eligible, and the index of its first element: the first whose lease ends, if it holds as many
    /// as it may.
    fn all_eligible(&self, elements: &[Stored]) -> BTreeMap<Vec<u8>, Eligible> {
        let eligible = |(group, members): (&[u8], Vec<Eligible>)| {
            let excess = self.excess(elements, group, &members);
            let (deadline, push) = excess.last().unwrap_or(&members[0]).0;
            let first = excess.first().unwrap_or(&members[0]).1;
            // As the logs know by now.
            let rate = self.logs.get(group).map_or(0, |log| log.next(DEADLINE_MAX));
            let from = deadline.max(self.settings(group).paused_until).max(rate);
            (group.to_vec(), ((from, push), first))
        };
        self.groups(elements).into_iter().map(eligible).collect()
    }

    /// Returns the first element that is given out, and when, if nothing changes.
    pub(super) fn first_eligible(&self, elements: &[Stored]) -> Option<(u64, usize)> {
        let first = self.all_eligible(elements).into_values().min();
        first.map(|((deadline, _), first)| (deadline, first))
    }

    pub(super) fn names(&self) -> Vec<&[u8]> {
        self.round.iter().map(|it| &it.0[..]).collect()
    }

    /// Files the groups that are eligible at another moment than before. Called after every change of an element.
    pub(super) fn settle(&mut self, elements: &[Stored]) {
        self.settle_from(elements, &[]);
    }

    /// Forgets whose turn it is, as a lawn that becomes full does not know it.
    pub(super) fn restart(&mut self, elements: &[Stored]) {
        (self.round, self.turn, self.latest_turn) = (Vec::new(), None, 0);
        self.filed.clear();
        self.settle(elements);
    }

    /// Does what [`Turns::settle`] does, first for one group.
    pub(super) fn settle_from(&mut self, elements: &[Stored], first: &[u8]) {
        let eligible = self.all_eligible(elements);
        let eligible = eligible.into_iter().map(|(name, (place, _))| (name, place));
        let eligible: BTreeMap<_, _> = eligible.filter(|it| !it.0.is_empty()).collect();
        let until = self.latest_turn;
        let is_filed = |name: &Vec<u8>, filed: &BTreeMap<_, Place>| {
            filed.get(name).is_some() && filed.get(name) == eligible.get(name)
        };
        let stays = |name: &Vec<u8>| eligible.get(name).is_some_and(|place| place.0 <= until);
        self.round.retain(|it| it.0.is_empty() || is_filed(&it.0, &self.filed) || stays(&it.0));
        let mut names: Vec<_> = eligible.keys().collect();
        names.sort_by_key(|name| *name != first);
        let enters = |it: &&Vec<u8>| !is_filed(it, &self.filed) && stays(it);
        for name in names.into_iter().filter(enters) {
            if self.round.iter().any(|it| it.0 == *name) {
                continue;
            }
            // One that waited and was eligible keeps its place.
            let waited = self.filed.get(name).map(|place| place.0).filter(|at| *at <= until);
            let is_later = |it: &&(Vec<u8>, u64)| {
                waited.is_some_and(|at| (it.1 as u32).wrapping_sub(at as u32) as i32 >= 0)
            };
            let later = self.round.iter().rev().take_while(is_later).take(64).count();
            let entry = (name.clone(), waited.unwrap_or(until));
            self.round.insert(self.round.len() - later, entry);
        }
        let is_there = |name: &Vec<u8>| self.round.iter().any(|it| it.0 == *name);
        self.turn = self.turn.take().filter(|it| is_there(&it.0));
        self.filed = eligible;
    }

    /// Returns the index of the element whose turn it is.
    pub(super) fn next(&mut self, elements: &[Stored], now: u64) -> Option<usize> {
        let mut eligible = self.all_eligible(elements);
        eligible.retain(|_, (place, _)| place.0 <= now);
        self.choice = self.choose(&eligible, now);
        let group = match &self.choice {
            Some((group, _)) => group,
            None => return eligible.get(&b""[..]).map(|it| it.1),
        };
        Some(eligible[group].1)
    }

    /// Returns the group whose turn it is, of those that are eligible at `now`, and whether those without a group leave the list.
    fn choose(&self, eligible: &BTreeMap<Vec<u8>, Eligible>, now: u64) -> Option<(Vec<u8>, bool)> {
        if eligible.keys().all(Vec::is_empty) {
            return None;
        }
        if let Some((name, _)) = self.turn.as_ref().filter(|it| eligible.contains_key(&it.0)) {
            return Some((name.clone(), false));
        }
        let first = eligible.get(&b""[..]).map(|it| it.0.0);
        let came = |at: u64| first.is_none_or(|first| first > entered(at, now));
        let drops = self.round.first().is_some_and(|it| it.0.is_empty() && came(it.1));
        let front = self.round.get(usize::from(drops));
        let front = front.filter(|it| eligible.contains_key(&it.0));
        // Those that are not in the list come by when they became eligible.
        let waits = |it: &(&Vec<u8>, &Eligible)| {
            it.0.is_empty() && drops || !self.round.iter().any(|other| other.0 == *it.0)
        };
        let joins = eligible.iter().filter(waits).min_by_key(|it| it.1);
        let name = match (front, joins) {
            (Some((front, at)), Some((_, (place, _)))) if entered(*at, now) < place.0 => front,
            (_, Some((name, _))) => name,
            (Some((front, _)), None) => front,
            (None, None) => eligible.iter().filter(|it| !it.0.is_empty()).min_by_key(|it| it.1)?.0,
        };
        Some((name.clone(), drops))
    }

    /// Counts an element that the chosen group gives out. Returns the group if its rate is limited.
    pub(super) fn give(&mut self, now: u64) -> Option<Vec<u8>> {
        let (name, drops) = self.choice.take()?;
        self.take_turn(&name, drops, now, false);
        self.record(&name, now, 1).then_some(name)
    }

    /// Ends the turn of the group whose turn it is.
    pub(super) fn pass(&mut self, elements: &[Stored], now: u64) {
        self.next(elements, now);
        if let Some((name, drops)) = self.choice.take() {
            self.take_turn(&name, drops, now, true);
        }
    }

    fn take_turn(&mut self, name: &[u8], drops: bool, now: u64, is_over: bool) {
        self.round.retain(|it| !drops || !it.0.is_empty());
        self.latest_turn = now;
        let filed = self.filed.get(name).map_or(now, |place| place.0);
        let entered = self.round.iter().find(|it| it.0 == name).map_or(filed, |it| it.1);
        self.round.retain(|it| it.0 != name);
        self.round.insert(0, (name.to_vec(), entered));
        let given = self.turn.take().filter(|it| it.0 == name).map_or(0, |it| it.1);
        let given = given.saturating_add(1);
        if is_over || given >= self.settings(name).share {
            self.round.rotate_left(1);
            self.round.last_mut().expect("it is there").1 = now;
        } else {
            self.turn = Some((name.to_vec(), given));
        }
        // The clock may have stepped back: some leave the round that are not eligible yet.
        for _ in 0..RETREAT_MAX {
            let place = |it: &(Vec<u8>, u64)| self.filed.get(&it.0).copied();
            let last = self.round.iter().filter_map(|it| Some((place(it)?, it.0.clone()))).max();
            let Some((_, last)) = last.filter(|it| it.0.0 > now) else { break };
            self.round.retain(|it| it.0 != last);
            self.turn = self.turn.take().filter(|it| it.0 != last);
        }
    }
}

/// Returns a moment of which only 32 bits are known.
fn entered(at: u64, now: u64) -> u64 {
    let ago = (now as u32).wrapping_sub(at as u32) as i32;
    now.saturating_add_signed(-i64::from(ago))
}
