//! Setting what holds for a group, or for each.

use super::super::element::Group;
use super::super::store::Records;
use super::Groups;
use super::settings::{Enforced, GroupLimits, GroupSettings};

impl Groups {
    /// Returns whether any group has a setting.
    pub fn has_settings(&self) -> bool {
        !self.settings.is_empty() || self.each != GroupLimits::NONE
    }

    /// Returns the settings of the group of this name.
    pub fn settings(&self, name: &[u8]) -> GroupSettings {
        self.settings.get(name).copied().unwrap_or(GroupSettings::NONE)
    }

    /// Changes the settings of a group. For the elements without a group only the share has a meaning.
    pub fn set(&mut self, records: &Records, group: Group, settings: GroupSettings) {
        let settings = GroupSettings { share: settings.share.max(1), ..settings };
        let name = self.entries.name(group).to_vec();
        self.restrained -= usize::from(self.settings(&name).restrains());
        self.restrained += usize::from(settings.restrains());
        let entry = self.entries.get_mut(group);
        entry.share = settings.share;
        entry.paused_until = settings.paused_until;
        entry.held_max = settings.limits.held.try_into().unwrap_or(u32::MAX);
        entry.has_settings = settings != GroupSettings::NONE;
        if entry.has_settings {
            self.settings.insert(name, settings);
        } else {
            self.settings.remove(&name);
        }
        if group != self.others {
            self.settle(records, group);
        }
    }

    /// Changes the limits of each group.
    pub fn set_each(&mut self, records: &Records, limits: GroupLimits) {
        let before = std::mem::replace(&mut self.each, limits);
        if limits.held != before.held {
            self.visit(records);
        }
        if (limits.rate, limits.per) != (before.rate, before.per) {
            self.fit_rates(records);
        }
    }

    /// Changes which limits hold.
    pub fn enforce(&mut self, records: &Records, enforced: Enforced) {
        let before = std::mem::replace(&mut self.enforced, enforced);
        if enforced.held != before.held {
            self.visit(records);
        }
        if enforced.rate != before.rate {
            self.fit_rates(records);
        }
    }

    /// Returns how many elements of a group may be held. 0: any number.
    #[inline(always)]
    pub fn held_max(&self, group: Group) -> u32 {
        match self.entries.get(group).held_max {
            _ if !self.enforced.held => 0,
            0 if group == self.others => 0,
            0 => self.each.held.try_into().unwrap_or(u32::MAX),
            own => own,
        }
    }
}
