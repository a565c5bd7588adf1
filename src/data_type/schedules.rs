//! The schedules of a key: changed as a command or an effect says, or as a visit decides.

use super::{Dehydrator, Writing, new_lawn, room};
use crate::policy::Rules;
use crate::schedule::{self, Schedule, Step};
use lawn::{Aside, Bounds, Element, Row, Start, StartError};

use super::dehydrator::end_within;

/// The first schedule that is due, by its name, and what happens to it.
pub enum Occurrence {
    Step(Vec<u8>, Step),
    /// There is no room in the group of its elements.
    GroupIsFull(Vec<u8>),
    KeyIsFull,
}

impl Dehydrator {
    pub fn schedule(&self, name: &[u8]) -> Option<Schedule<'_>> {
        Schedule::decode(self.schedules()?.payload(name)?)
    }

    /// Returns the schedules from `start` on, as elements that are due when they occur.
    pub fn schedule_rows(&self, start: Start) -> impl Iterator<Item = Row<'_>> {
        self.schedules().into_iter().flat_map(move |all| all.rows(start))
    }

    /// Returns all schedules with their names, in the order of their occurrences.
    pub fn all_schedules(&self) -> impl Iterator<Item = (&[u8], Schedule<'_>)> {
        let all = self.schedule_rows(Start::FIRST).map(|row| row.element);
        all.filter_map(|it| Some((it.id, Schedule::decode(it.payload)?)))
    }

    fn has_id(&self, name: &[u8], moment: u64) -> bool {
        self.lawn.look(&schedule::id(name, moment)).is_some()
    }

    /// Returns what happens at `now` to the first schedule that is due.
    fn next_step(&self, now: u64) -> Option<Occurrence> {
        let (name, record) = self.schedules()?.due(now)?;
        let it = Schedule::decode(record)?;
        let overlaps = it.skips_overlap && it.state.last > 0 && self.has_id(name, it.state.last);
        let mut step = it.step(name, now, overlaps)?;
        if let Step::Stored { moment, .. } = step {
            let is_remembered = self.remembered.contains(&schedule::id(name, moment), now);
            if is_remembered || self.has_id(name, moment) {
                // The last of its TIMES is yet to be stored.
                step = Step::Missed { count: 1, next: it.after(moment, now) };
            } else if !room::is_within_length(&self.lawn, self.rules().limits().length)
                || !room::has_room(&self.lawn)
            {
                return Some(Occurrence::KeyIsFull);
            } else if !it.group.is_empty() && room::is_group_full(&self.lawn, it.group) {
                return Some(Occurrence::GroupIsFull(name.to_vec()));
            }
        }
        Some(Occurrence::Step(name.to_vec(), step))
    }
}

impl Writing<'_> {
    /// Sets a schedule. Creates the dehydrator if there was none. Fails with [`StartError::Full`]; then nothing has
    /// changed.
    pub fn set_schedule(&mut self, name: &[u8], schedule: &Schedule<'_>) -> Result<(), StartError> {
        let (record, due) = (schedule.encode(), schedule.due(name));
        if let Some(dehydrator) = self.changing() {
            return dehydrator.change_schedules(|all, lawn| all.set(lawn, name, &record, due));
        }
        let (lawn, mut all) = (new_lawn(), Aside::default());
        all.set(&lawn, name, &record, due)?;
        self.make(Dehydrator::new(lawn, Rules::default(), (Aside::default(), all)));
        Ok(())
    }

    pub fn remove_schedule(&mut self, name: &[u8]) -> bool {
        let dehydrator = self.changing();
        dehydrator.is_some_and(|it| it.change_schedules(|all, _| all.remove(name).is_some()))
    }

    /// Returns what happens now to the first schedule that is due.
    pub fn next_step(&mut self) -> Option<Occurrence> {
        let now = self.now();
        self.existing()?.next_step(now)
    }

    /// Visits a schedule later.
    pub fn postpone_schedule(&mut self, name: &[u8], moment: u64) {
        let dehydrator = self.changing();
        dehydrator
            .into_iter()
            .for_each(|it| it.change_schedules(|all, _| all.postpone(name, moment)));
    }

    /// Does what happens to a schedule. Returns whether it is there. Fails if its element could not be stored; then
    /// nothing has changed.
    pub fn occur(&mut self, name: &[u8], step: Step) -> Result<bool, StartError> {
        let Some(dehydrator) = self.changing() else { return Ok(false) };
        let Some(record) = dehydrator.schedules().and_then(|it| it.payload(name)) else {
            return Ok(false);
        };
        let record = record.to_vec();
        let Some(mut schedule) = Schedule::decode(&record) else { return Ok(false) };
        if let Step::Stored { moment, deadline, .. } = step {
            let until = if schedule.within > 0 { end_within(deadline, schedule.within) } else { 0 };
            let bounds = Bounds { deliveries: schedule.deliveries, until };
            let id = schedule::id(name, moment);
            let element = Element { bounds, ..Element::new(&id, schedule.element, deadline) };
            let group = Some(schedule.group).filter(|group| !group.is_empty());
            dehydrator.lawn.replace_in_group(0, &element, group)?;
            dehydrator.remembered.remove(&id);
        }
        schedule.apply(step);
        let due = schedule.due(name);
        dehydrator.change_schedules(|all, lawn| all.set(lawn, name, &schedule.encode(), due))?;
        Ok(true)
    }
}
