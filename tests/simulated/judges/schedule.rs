//! The model of schedules. It follows the effects: what they say to have been stored or missed must be what the plan has next,
//! and may not be otherwise at that moment.

use super::cron::Cron;
use super::dehydrator::{Dehydrator, Entry};
use super::follow::{Call, Result, int, ok};
use super::model::Model;
use super::reads::field;
use super::zone::Zone;
use super::{Bytes, NEVER, Promise};
use crate::machine::Reply;
use crate::world::schedule::{Every, Missed, OfSchedules};

/// With MISSED NONE, how late an element may be stored, in milliseconds.
const MOST_LATE: u64 = 60_000;
/// Within which time an occurrence that found no room is tried again, in milliseconds.
pub const RETRY_MS: u64 = 1200;
/// A moment that is not before 1970 in any zone.
const TWO_DAYS_MS: u64 = 2 * 86_400_000;
/// The most bytes of a name, and of a plan or a zone.
const NAME_MAX: usize = 1024;
const WORD_MAX: usize = 255;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Plan {
    Interval(u64),
    Cron { text: Bytes, zone: Bytes, cron: Cron, clock: Zone },
}

/// What EVERY says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Said {
    plan: Plan,
    element: Bytes,
    from: u64,
    until: u64,
    times: u64,
    missed: Missed,
    skips: bool,
    jitter: u64,
    most: u64,
    within: u64,
    group: Bytes,
}

/// A schedule. A moment of 0 is none.
#[derive(Clone, Debug)]
pub struct Schedule {
    said: Said,
    next: u64,
    last: u64,
    late: u64,
    missed: u64,
    stored: u64,
    is_paused: bool,
}

/// The effect of an occurrence.
#[derive(Clone, Debug)]
pub struct Occurred {
    pub key: Bytes,
    pub what: Bytes,
    pub name: Bytes,
}

impl Said {
    /// Returns what EVERY says. `None`: it is refused.
    fn read(call: &Call, every: &Every) -> Option<Self> {
        let moment = |at: Option<crate::world::op::At>| match at.map(|at| at.moment(call.sent)) {
            None => Some(0),
            // Those look like seconds.
            Some(0 | 1_000_000_000..=100_000_000_000) => None,
            Some(at) => Some(at).filter(|at| *at <= NEVER),
        };
        let text = str::from_utf8(&every.plan).ok()?;
        let plan = match text.parse() {
            Ok(0) => return None,
            Ok(ms) => Some(Plan::Interval(ms)).filter(|_| every.zone.is_none())?,
            Err(_) => {
                let zone = every.zone.clone().unwrap_or_else(|| b"UTC".to_vec());
                let clock = Zone::of(&zone)?;
                let cron = Cron::parse(text)?;
                let text = every.plan.clone();
                Some(Plan::Cron { text, zone, cron, clock })
                    .filter(|_| every.plan.len() <= WORD_MAX)?
            }
        };
        let said = Self {
            plan,
            element: call.elements[0].clone(),
            from: moment(every.from)?,
            until: moment(every.until)?,
            times: every.times.unwrap_or(0),
            missed: every.missed.unwrap_or(Missed::One),
            skips: every.skips.unwrap_or(false),
            jitter: every.jitter.unwrap_or(0),
            most: every.most.unwrap_or(0),
            within: every.within.unwrap_or(0),
            group: every.group.clone().unwrap_or_default(),
        };
        Some(said).filter(|_| every.name.len() <= NAME_MAX)
    }

    /// Returns a moment, or 0 if it is after the end.
    fn unless_over(&self, moment: Option<u64>) -> u64 {
        // The last moment of all is none.
        let last = if self.until > 0 { self.until.min(NEVER - 1) } else { NEVER - 1 };
        moment.filter(|moment| *moment <= last).unwrap_or(0)
    }

    fn after(&self, moment: u64) -> u64 {
        self.unless_over(match &self.plan {
            Plan::Interval(ms) => moment.checked_add(*ms),
            Plan::Cron { cron, clock, .. } => cron.after(moment, clock),
        })
    }

    /// Returns the first occurrence at `now` or later.
    fn first(&self, now: u64) -> u64 {
        match &self.plan {
            Plan::Interval(ms) if self.from == 0 => self.unless_over(now.checked_add(*ms)),
            Plan::Interval(ms) => {
                let passed = now.saturating_sub(self.from).div_ceil(*ms);
                self.unless_over(passed.checked_mul(*ms).and_then(|it| it.checked_add(self.from)))
            }
            Plan::Cron { .. } => self.after(now.max(self.from) - 1),
        }
    }
}

impl Schedule {
    /// Returns by when the next occurrence is stored, if nothing is in its way.
    fn stored_by(&self) -> u64 {
        if self.next == 0 || self.is_paused {
            NEVER
        } else {
            self.next.saturating_add(self.said.jitter)
        }
    }

    /// Returns the first occurrence after `now`.
    fn resumed(&self, now: u64) -> u64 {
        match &self.said.plan {
            _ if self.next == 0 || self.next > now => self.next,
            Plan::Interval(ms) => {
                self.said.unless_over(Some(self.next + ((now - self.next) / ms + 1) * ms))
            }
            Plan::Cron { .. } => self.said.after(now),
        }
    }

    /// Returns what is wrong with a row of SCHEDULES.
    fn differs(&self, name: &Bytes, row: &Reply) -> Option<String> {
        let Said { plan, element, from, until, times, missed, skips, jitter, most, within, group } =
            &self.said;
        let bulk = |bytes: &[u8]| Reply::Bulk(bytes.to_vec());
        let some = |number: u64| if number > 0 { int(number) } else { Reply::Null };
        let next = if self.is_paused { 0 } else { self.next };
        let (text, zone) = match plan {
            Plan::Interval(ms) => (bulk(ms.to_string().as_bytes()), Reply::Null),
            Plan::Cron { text, zone, .. } => (bulk(text), bulk(zone)),
        };
        let if_missed = match missed {
            Missed::One => "ONE",
            Missed::All => "ALL",
            Missed::None => "NONE",
        };
        let expected = [
            ("name", bulk(name)),
            ("plan", text),
            ("zone", zone),
            ("element", bulk(element)),
            ("next", some(next)),
            ("last", some(self.last)),
            ("late", if self.last > 0 { int(self.late) } else { Reply::Null }),
            ("stored", int(self.stored)),
            ("missed", int(self.missed)),
            ("paused", int(self.is_paused.into())),
            ("from", some(*from)),
            ("until", some(*until)),
            ("times", some(*times)),
            ("if-missed", bulk(if_missed.as_bytes())),
            ("if-overlap", bulk(if *skips { b"SKIP" } else { b"ALLOW" })),
            ("jitter", int(*jitter)),
            ("deliveries-limit", int(*most)),
            ("within", some(*within)),
            ("group", if group.is_empty() { Reply::Null } else { bulk(group) }),
        ];
        let wrong = expected.iter().find(|(name, value)| field(row, name) != Some(value));
        if let Some(wrong) = wrong {
            return Some(format!("{wrong:?}"));
        }
        let stored_at = field(row, "next-stored-at");
        let is_it = match stored_at {
            Some(Reply::Null) => next == 0,
            Some(Reply::Int(at)) => {
                next > 0 && (next..=next.saturating_add(*jitter)).contains(&(*at as u64))
            }
            _ => false,
        };
        (!is_it).then(|| format!("{next} to {jitter} ms later as next-stored-at"))
    }
}

/// Returns the id of an occurrence.
fn id(name: &[u8], moment: u64) -> Bytes {
    [name, b"@", moment.to_string().as_bytes()].concat()
}

impl Dehydrator {
    pub(super) fn of_schedules(&mut self, call: &Call, op: &OfSchedules, reply: &Reply) -> Result {
        match op {
            OfSchedules::Every(every) => self.every(call, every, reply),
            OfSchedules::Remove(names) => {
                let removed =
                    names.iter().filter(|name| self.schedules.remove(*name).is_some()).count();
                call.is(&int(removed as u64), reply)
            }
            OfSchedules::Pause(name) => match self.schedules.get_mut(name) {
                None => call.refused("ERR", reply),
                Some(it) => {
                    it.is_paused = true;
                    call.is(&ok(), reply)
                }
            },
            OfSchedules::Resume(name) => {
                let paused = self.schedules.get_mut(name).filter(|it| it.is_paused);
                call.is(&int(paused.is_some().into()), reply)?;
                if let Some(it) = paused {
                    (it.is_paused, it.next) = (false, it.resumed(call.now));
                }
                Ok(())
            }
            OfSchedules::List(_) => unreachable!("it only reads"),
        }
    }

    fn every(&mut self, call: &Call, every: &Every, reply: &Reply) -> Result {
        let Some(said) = Said::read(call, every) else { return call.refused("ERR", reply) };
        let before = self.schedules.get(&every.name);
        // It would never occur.
        if said.first(TWO_DAYS_MS) == 0 {
            return call.refused("ERR", reply);
        }
        if before.is_some_and(|it| it.said == said) {
            return call.is(&int(0), reply);
        }
        let goes_on =
            |it: &&Schedule| it.said.plan == said.plan && it.said.from == said.from && it.next > 0;
        let next = match before.filter(goes_on) {
            Some(it) => said.unless_over(Some(it.next)),
            None => said.first(call.now),
        };
        if next == 0 {
            return call.refused("ERR", reply);
        }
        call.is(&int(1), reply)?;
        let new = Schedule {
            said: said.clone(),
            next,
            last: 0,
            late: 0,
            missed: 0,
            stored: 0,
            is_paused: false,
        };
        let it = match before {
            Some(it) => Schedule { said, next, stored: 0, ..it.clone() },
            None => new,
        };
        self.schedules.insert(every.name.clone(), it);
        Ok(())
    }

    pub(super) fn list(&self, call: &Call, names: &[Bytes], reply: &Reply) -> Result {
        let Reply::Array(rows) = reply else { return call.differs("rows", reply) };
        let shown = |row: &Reply| match field(row, "name") {
            Some(Reply::Bulk(name)) => Some(name.clone()),
            _ => None,
        };
        let all: Vec<_> =
            if names.is_empty() { rows.iter().filter_map(shown).collect() } else { names.to_vec() };
        let is_whole = rows.len() >= 1000
            || if names.is_empty() { all.len() == self.schedules.len() } else { true };
        if rows.len() != all.len() && rows.len() < 1000 || !is_whole {
            return call.differs(&format!("{} schedules", self.schedules.len()), reply);
        }
        for (name, row) in all.iter().zip(rows) {
            let wrong = match self.schedules.get(name) {
                None => (*row != Reply::Null).then(|| "nil".to_owned()),
                Some(it) => it.differs(name, row),
            };
            if let Some(wrong) = wrong {
                return call.differs(&format!("{wrong} of {}", name.escape_ascii()), row);
            }
        }
        Ok(())
    }

    /// Returns whether it has no room for an occurrence.
    fn is_full_for(&self, it: &Schedule) -> bool {
        let most = self.limits_of(&it.said.group).0;
        self.limits.length > 0 && self.count() as u64 >= self.limits.length
            || most > 0 && self.length_of(&it.said.group) as u64 >= most
    }

    /// Notes if there is no room for what is to be stored: it is tried again later.
    pub fn note_room(&mut self, now: u64) {
        if self.schedules.is_empty() || self.acts_from >= now + RETRY_MS {
            return;
        }
        let has_lengths = self.limits.length > 0
            || self.each.length > 0
            || self.groups.values().any(|it| it.settings.length > 0);
        // They are of few groups.
        let mut seen: Vec<&Bytes> = Vec::new();
        let mut first_of_group = self.schedules.values().filter(|it| {
            let is_first = !seen.contains(&&it.said.group);
            seen.extend(is_first.then_some(&it.said.group));
            is_first
        });
        if has_lengths && first_of_group.any(|it| self.is_full_for(it)) {
            self.acts_from = now + RETRY_MS;
        }
    }

    /// Returns an occurrence that should have been stored at `then`.
    pub fn owed_occurrence(&self, then: u64) -> Option<String> {
        if self.acts_from.max(self.known) > then {
            return None;
        }
        let is_owed = |it: &Schedule| it.stored_by() <= then && !self.is_full_for(it);
        let mut all = self.schedules.iter();
        all.find(|it| is_owed(it.1))
            .map(|(name, it)| format!("{} occurs late: {it:?}", name.escape_ascii()))
    }

    /// Returns a schedule of this name, and one of its elements or else the id of its next one.
    pub fn id_of_schedule(&self, name: &[u8]) -> Option<Bytes> {
        let start = [name, b"@"].concat();
        let first = self.entries.keys().filter(|id| id.starts_with(&start)).min();
        first.cloned().or_else(|| self.schedules.get(name).map(|it| id(name, it.next)))
    }

    pub fn schedules(&self) -> Vec<Bytes> {
        self.schedules.keys().cloned().collect()
    }

    /// Returns the schedules that may occur before a moment.
    pub fn occur_before(&self, moment: u64) -> Vec<Bytes> {
        self.schedules
            .iter()
            .filter(|it| !it.1.is_paused && it.1.next > 0 && it.1.next < moment)
            .map(|it| it.0.clone())
            .collect()
    }
}

impl Model {
    /// Follows an occurrence.
    pub(super) fn occurred(&mut self, now: u64, db: usize, heard: &Occurred) -> Result {
        self.occurred_at(now, db, heard).map_err(|what| {
            let Occurred { key, what: effect, name } = heard;
            let [key, effect, name] = [key, effect, name].map(|it| it.escape_ascii());
            Promise::Schedule
                .broken(format!("{effect} of {name} in {key} of {db}, now {now}: {what}"))
        })
    }

    fn occurred_at(
        &mut self,
        now: u64,
        db: usize,
        heard: &Occurred,
    ) -> std::result::Result<(), String> {
        let sequence = self.number();
        let it = self.get_mut(db, &heard.key).ok_or("there is no such key")?;
        let schedule = it.schedules.get(&heard.name).cloned().ok_or("there is no such schedule")?;
        let Schedule { said, next: moment, last, .. } = &schedule;
        if schedule.is_paused || *moment == 0 {
            return Err(format!("it does not occur: {schedule:?}"));
        }
        let text = str::from_utf8(&heard.what).map_err(|_| "no text")?;
        let numbers: Vec<u64> = text[1..].split('@').map_while(|it| it.parse().ok()).collect();
        let id = id(&heard.name, *moment);
        let overlaps = said.skips && *last > 0 && it.get(&self::id(&heard.name, *last)).is_some();
        let is_used = it.get(&id).is_some() || it.remembers(&id, now, false);
        let following = said.after(*moment);
        let mut after = schedule.clone();
        match (text.as_bytes()[0], &numbers[..]) {
            (b'O', [of, deadline, late, next]) => {
                let is_last = said.times > 0 && schedule.stored + 1 >= said.times;
                if of != moment || *next != if is_last { 0 } else { following } {
                    return Err(format!(
                        "not its next occurrence, or not the one behind that, {following}: {schedule:?}"
                    ));
                }
                if !(*moment..=moment.saturating_add(said.jitter)).contains(deadline)
                    || deadline + late > now
                {
                    return Err(format!("not at its moment: {schedule:?}"));
                }
                let (at, window) = (deadline + late, moment.saturating_add(said.jitter));
                let is_passed =
                    window < at && following > 0 && following.saturating_add(said.jitter) <= at;
                if said.missed != Missed::All && is_passed
                    || said.missed == Missed::None && *late > MOST_LATE && window < at
                {
                    return Err(format!("it was missed: {schedule:?}"));
                }
                if overlaps || is_used || it.is_full_for(&schedule) {
                    return Err(format!(
                        "overlap {overlaps}, id in use {is_used}, or full: {schedule:?}"
                    ));
                }
                it.remove(&id);
                it.remembered.remove(&id);
                it.insert(Entry {
                    most: said.most,
                    until: (said.within > 0)
                        .then(|| i128::from(*deadline) + i128::from(said.within)),
                    group: said.group.clone(),
                    ..Entry::new(id, said.element.clone(), (*deadline, sequence))
                });
                it.touched = it.touched.max(now);
                (after.last, after.late, after.next) = (*moment, *late, *next);
                after.stored += 1;
            }
            (b'M', [count @ 1..=u64::MAX, next]) => {
                let (passed, behind) = match said.plan {
                    Plan::Interval(ms) => {
                        let passed = moment.saturating_add(ms.saturating_mul(count - 1));
                        (passed, said.after(passed))
                    }
                    Plan::Cron { .. } => (1..*count)
                        .fold((*moment, following), |(_, passed), _| (passed, said.after(passed))),
                };
                if behind != *next || passed > now {
                    return Err(format!(
                        "{count} after it lead to {behind}, {passed} is one: {schedule:?}"
                    ));
                }
                let has_next =
                    behind > 0 && behind <= now && passed.saturating_add(said.jitter) < now;
                let is_used = is_used || it.remembers(&id, now, true);
                let is_reason = said.missed != Missed::All && has_next
                    || overlaps
                    || said.missed == Missed::None && now - passed > MOST_LATE.max(said.jitter)
                    || *count == 1 && is_used;
                if !is_reason {
                    return Err(format!("it was not missed: {schedule:?}"));
                }
                after.next = *next;
                after.missed += count;
            }
            _ => return Err("no effect".to_owned()),
        }
        it.occurred += 1;
        it.schedules.insert(heard.name.clone(), after);
        it.note_room(now);
        Ok(())
    }
}
