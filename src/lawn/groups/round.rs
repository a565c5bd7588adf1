//! The ring of the groups that give in turn.

use super::super::element::Group;
use super::super::store::Handle;
use super::entries::{Entries, State};

/// A list of groups, linked both ways through their entries: to the one in front on the left, to the one behind on the
/// right.
#[derive(Clone, Copy, Default)]
pub struct Round {
    front: Option<Handle>,
    back: Option<Handle>,
}

impl Round {
    /// Returns the group whose turn it is.
    pub fn front(&self) -> Option<Group> {
        self.front.map(Group)
    }

    /// Iterates over the groups in their order.
    pub fn iter<'a>(&self, entries: &'a Entries) -> impl Iterator<Item = Group> + 'a {
        std::iter::successors(self.front(), |it| entries.get(*it).links.right.map(Group))
    }

    /// Returns whether no group is in the round, except perhaps this one.
    #[inline(always)]
    pub fn has_only(&self, group: Group) -> bool {
        self.front == self.back && self.front.is_none_or(|front| front == group.0)
    }

    /// Inserts a group at the end.
    pub fn enter(&mut self, entries: &mut Entries, group: Group) {
        let before = self.back.replace(group.0);
        let entry = entries.get_mut(group);
        (entry.state, entry.given) = (State::InRound, 0);
        (entry.links.left, entry.links.right) = (before, None);
        match before {
            Some(before) => entries.get_mut(Group(before)).links.right = Some(group.0),
            None => self.front = Some(group.0),
        }
    }

    pub fn leave(&mut self, entries: &mut Entries, group: Group) {
        let entry = entries.get_mut(group);
        entry.state = State::Idle;
        let (before, behind) = (entry.links.left, entry.links.right);
        match before {
            Some(before) => entries.get_mut(Group(before)).links.right = behind,
            None => self.front = behind,
        }
        match behind {
            Some(behind) => entries.get_mut(Group(behind)).links.left = before,
            None => self.back = before,
        }
    }

    /// Panics unless the list is linked both ways. Returns its length.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, entries: &Entries) -> usize {
        let (mut count, mut at, mut before) = (0, self.front, None);
        while let Some(group) = at {
            let entry = entries.get(Group(group));
            assert_eq!((entry.state, entry.links.left), (State::InRound, before), "the round");
            (count, before, at) = (count + 1, at, entry.links.right);
        }
        assert_eq!(before, self.back, "the end of the round");
        count
    }
}
