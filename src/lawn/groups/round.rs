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
        self.link(table, group, self.back);
        table.get_mut(group).entered = now as u32;
    }

    pub fn push_front(&mut self, table: &mut Table, group: Group) {
        self.link(table, group, None);
    }

    /// Inserts a group that has been eligible since a moment: ahead of those that came then or later, of the last few.
    pub fn insert(&mut self, table: &mut Table, group: Group, since: u64) {
        let (mut ahead, mut steps) = (self.back, 0);
        while let Some(record) = ahead.map(|it| table.get(Group(it)))
            && steps < WALKED_MAX
            && record.entered.wrapping_sub(since as u32) as i32 >= 0
        {
            (ahead, steps) = (record.ahead, steps + 1);
        }
        self.link(table, group, ahead);
        table.get_mut(group).entered = since as u32;
    }

    /// Links a group behind another one, or at the front.
    fn link(&mut self, table: &mut Table, Group(group): Group, ahead: Option<Handle>) {
        let before = match ahead {
            Some(ahead) => &mut table.get_mut(Group(ahead)).behind,
            None => &mut self.front,
        };
        let behind = before.replace(group);
        match behind {
            Some(behind) => table.get_mut(Group(behind)).ahead = Some(group),
            None => self.back = Some(group),
        }
        let record = table.get_mut(Group(group));
        (record.ahead, record.behind) = (ahead, behind);
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
    #[cfg(any(test, debug_assertions, feature = "checks"))]
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
