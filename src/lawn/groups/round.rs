//! The round: the groups that give in turn, one after the other.

use super::super::element::Group;
use super::super::store::Handle;
use super::table::Table;

/// The most groups over which an insertion walks.
const WALKED_MAX: usize = 64;

/// A list of groups, linked both ways through their records.
#[derive(Clone, Copy, Default)]
pub struct Round {
    front: Option<Handle>,
    back: Option<Handle>,
}

impl Round {
    /// Returns the group whose turn it is.
    #[inline(always)]
    pub fn front(&self) -> Option<Group> {
        self.front.map(Group)
    }

    /// Inserts a group at the back, at this moment.
    pub fn push_back(&mut self, table: &mut Table, group: Group, now: u64) {
        let ahead = self.back.replace(group.0);
        let record = table.get_mut(group);
        (record.ahead, record.behind, record.entered) = (ahead, None, now as u32);
        match ahead {
            Some(ahead) => table.get_mut(Group(ahead)).behind = Some(group.0),
            None => self.front = Some(group.0),
        }
    }

    /// Inserts a group that has been eligible since a moment: ahead of those that came then or later, of the last few.
    pub fn insert(&mut self, table: &mut Table, group: Group, since: u64) {
        let is_later = |it: &Group| table.get(*it).entered.wrapping_sub(since as u32) as i32 >= 0;
        let before = |it: Option<Group>| it.and_then(|it| table.get(it).ahead.map(Group));
        let (mut place, mut steps) = (self.back.map(Group), 0);
        while steps < WALKED_MAX && place.as_ref().is_some_and(is_later) {
            (place, steps) = (before(place), steps + 1);
        }
        match place {
            None => self.push_front(table, group),
            Some(place) => {
                let behind = table.get_mut(place).behind.replace(group.0);
                let record = table.get_mut(group);
                (record.ahead, record.behind) = (Some(place.0), behind);
                match behind {
                    Some(behind) => table.get_mut(Group(behind)).ahead = Some(group.0),
                    None => self.back = Some(group.0),
                }
            }
        }
        table.get_mut(group).entered = since as u32;
    }

    /// Inserts a group at the front.
    pub fn push_front(&mut self, table: &mut Table, group: Group) {
        let behind = self.front.replace(group.0);
        let record = table.get_mut(group);
        (record.ahead, record.behind) = (None, behind);
        match behind {
            Some(behind) => table.get_mut(Group(behind)).ahead = Some(group.0),
            None => self.back = Some(group.0),
        }
    }

    pub fn remove(&mut self, table: &mut Table, group: Group) {
        let record = table.get_mut(group);
        let (ahead, behind) = (record.ahead.take(), record.behind.take());
        match ahead {
            Some(ahead) => table.get_mut(Group(ahead)).behind = behind,
            None => self.front = behind,
        }
        match behind {
            Some(behind) => table.get_mut(Group(behind)).ahead = ahead,
            None => self.back = ahead,
        }
    }

    /// Replaces the handle of a group that has moved. Its neighbours know it.
    pub fn rename(&mut self, Group(old): Group, Group(new): Group) {
        for end in [&mut self.front, &mut self.back] {
            *end = if *end == Some(old) { Some(new) } else { *end };
        }
    }

    /// Panics unless the list is linked both ways. Returns the groups in order.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, table: &Table) -> Vec<Group> {
        let (mut groups, mut at, mut ahead) = (Vec::new(), self.front, None);
        while let Some(group) = at {
            let record = table.get(Group(group));
            assert_eq!(record.ahead, ahead, "the round");
            groups.push(Group(group));
            (ahead, at) = (at, record.behind);
        }
        assert_eq!(ahead, self.back, "the back of the round");
        groups
    }
}
