//! Slots: which node serves a key.

use super::command::Command;
use super::server::Server;
use super::text::Words;

pub const SLOTS: usize = 16384;

/// Returns the slot of a key, by what is in its first braces if there is something.
pub fn slot_of(key: &[u8]) -> usize {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let length = key[open + 1..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open + 1..][..length])
    });
    // CRC-16 with the polynomial 0x1021.
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 }
        })
    });
    usize::from(crc) % SLOTS
}

impl Server {
    /// Returns whether this node serves a slot.
    pub fn serves(&self, slot: usize) -> bool {
        self.slots.borrow().as_ref().is_none_or(|slots| slots[slot])
    }

    /// Returns why a command is not for this node.
    pub fn slot_refusal(
        &self,
        command: &Command,
        words: &Words,
        is_asking: bool,
        is_obeyed: bool,
    ) -> Option<String> {
        if self.slots.borrow().is_none() || is_obeyed {
            return None;
        }
        let keys = command.keys(words);
        let mut slots = keys.iter().filter_map(|at| words.get(*at)).map(slot_of);
        let slot = slots.next()?;
        if slots.any(|it| it != slot) {
            return Some("CROSSSLOT Keys in request don't hash to the same slot".to_owned());
        }
        // A replica sends clients to its primary.
        let is_here = self.serves(slot) && !self.is_replica();
        (!is_here && !is_asking).then(|| format!("MOVED {slot} 127.0.0.1:1"))
    }

    /// Takes over a slot, or gives it up.
    pub fn set_slot(&self, slot: usize, is_own: bool) {
        if let Some(slots) = self.slots.borrow_mut().as_mut() {
            slots[slot] = is_own;
        }
    }

    /// Returns the names of a slot's keys.
    pub fn keys_in(&self, slot: usize) -> Vec<Box<[u8]>> {
        let dbs = self.dbs.borrow();
        dbs[0].keys.keys().filter(|key| slot_of(key) == slot).cloned().collect()
    }
}
