//! What a group holds, and the limit of that.
//!
//! A group with a limit of n has room again when all but n - 1 of its leases have ended. So of the elements that it holds, in
//! the order in which their leases end, the one at place n from the end *makes room*. A lease that begins mostly ends last, and
//! moves that place by one.

use super::super::element::Group;
use super::super::store::{Handle, LEFT, RIGHT, Records};
use super::super::tiny::TINY;
use super::super::work;
use super::Groups;
use super::treap;

/// The most places by which one call moves what makes room in a group whose limit has changed. The group goes on under a limit
/// in between until the next call.
const PLACES_MAX: u32 = if TINY { 2 } else { 256 };

impl Groups {
    /// Inserts a record into the order of its group. `is_held`: among what that holds.
    pub(super) fn link(
        &mut self,
        records: &mut Records,
        group: Group,
        record: Handle,
        is_held: bool,
    ) {
        let it = self.table.get_mut(group);
        let rank = records.rank(record);
        it.tree(is_held).insert(records, record, rank);
        if !is_held {
            return;
        }
        it.held_len += 1;
        match it.makes_room {
            Some(place) if records.rank(place) < rank => {
                it.makes_room = treap::neighbour(records, place, RIGHT);
            }
            None if it.held_max > 0 && it.held_len >= it.held_max => {
                it.makes_room = it.held.first();
            }
            _ => {}
        }
    }

    /// Removes a record from the order of its group.
    pub(super) fn unlink(
        &mut self,
        records: &mut Records,
        group: Group,
        record: Handle,
        is_held: bool,
    ) {
        let it = self.table.get_mut(group);
        if is_held {
            it.held_len -= 1;
            if let Some(place) = it.makes_room
                && (place == record || records.rank(place) < records.rank(record))
            {
                it.makes_room = treap::neighbour(records, place, LEFT);
            }
        }
        it.tree(is_held).remove(records, record);
    }

    /// Brings the limit of what a group holds to `max`, 0 for none, or as near as [`PLACES_MAX`] places allow. Returns the number
    /// of places, and whether it is there.
    pub(super) fn fit_held(&mut self, records: &Records, group: Group, max: u32) -> (usize, bool) {
        let it = self.table.get_mut(group);
        if max == 0 || it.held_len < max {
            (it.held_max, it.makes_room) = (max, None);
            return (0, true);
        }
        // From the end, from the beginning, or from the present place, whichever is nearest.
        let (first, last) = ((it.held_len, it.held.first()), (1, it.held.last()));
        let present = it.makes_room.map_or(first, |place| (it.held_max, Some(place)));
        let nearest = [first, last].into_iter().find(|from| from.0.abs_diff(max) <= PLACES_MAX);
        let (mut at, place) = if present.0.abs_diff(max) <= PLACES_MAX {
            present
        } else {
            nearest.unwrap_or(present)
        };
        let mut place = place.expect("the group holds something");
        let places = at.abs_diff(max).min(PLACES_MAX);
        for _ in 0..places {
            let (next, step) = if at > max {
                (treap::neighbour(records, place, RIGHT), at - 1)
            } else {
                (treap::neighbour(records, place, LEFT), at + 1)
            };
            (place, at) = (next.expect("the place is among what is held"), step);
            work::step(1);
        }
        (it.held_max, it.makes_room) = (at, Some(place));
        (places as usize, at == max)
    }

    /// Returns whether a group has room at `now` for one more element that is held.
    pub fn has_room(&self, records: &Records, group: Group, now: u64) -> bool {
        let makes_room = self.table.get(group).makes_room;
        makes_room.is_none_or(|lease| records.rank(lease).deadline <= now)
    }
}
