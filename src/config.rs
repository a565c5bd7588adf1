//! Settings: `dehydrator.*` in the server's configuration.
//!
//! Each can be set in redis.conf, by CONFIG SET, by MODULE LOADEX, or after the module's path in `loadmodule`; CONFIG REWRITE
//! writes it. `default-ondue` is beside the commands, in `commands/defaults.rs`.

use crate::server::Context;
use crate::server::setting::{Number, Setting};
use lawn::SmallMax;

/// The time budget of deliveries per pass, in microseconds: the minimum allows one or two deliveries, the maximum is noticeable to clients.
pub static TICK_BUDGET_US: Number = Number::new(c"tick-budget-us", 1000, 10, 100_000);
/// The minimum time between two wake-ups for elements that are due, in milliseconds.
static WAKE_INTERVAL: Number = Number::new(c"wake-interval", 0, 0, 100);
/// The slack of elements pushed without SLACK, in milliseconds.
pub static DEFAULT_SLACK: Number = Number::new(c"default-slack", 0, 0, i64::MAX);
/// The maximum TTL that a client may use, in milliseconds.
pub static MAX_TTL: Number = Number::new(c"max-ttl", 0, 0, i64::MAX);
/// The maximum number of elements that clients may store in one dehydrator.
pub static MAX_ELEMENTS: Number = Number::new(c"max-elements", 0, 0, i64::MAX);
static REPLY_MAX: Number = Number::new(c"reply-max", 0, 0, i64::MAX);
/// Half of the smallest limit of an output buffer that is common, in bytes. Over 6 MB/s it takes under a second.
static REPLY_MAX_BYTES: Number = Number::new(c"reply-max-bytes", 4 << 20, 0, i64::MAX);
/// A linear search through the maximum takes 1 to 2 us.
static SMALL_MAX_ELEMENTS: Number =
    Number::new(c"small-max-elements", SmallMax::USUAL.elements as i64, 0, 512);
static SMALL_MAX_BYTES: Number =
    Number::new(c"small-max-bytes", SmallMax::USUAL.bytes as i64, 0, 65_536);
/// Set if the server delivers what is due, and removes what is too late, by itself.
static DELIVER: Number = Number::switch(c"deliver", true);
/// Set if commands are also registered under ReDe's names. It is read only when the module loads, because commands cannot be
/// unregistered.
pub static REDE_COMMANDS: Number = Number::fixed_switch(c"rede-commands");

/// The settings here.
pub static SETTINGS: [&dyn Setting; 11] = [
    &TICK_BUDGET_US,
    &WAKE_INTERVAL,
    &DEFAULT_SLACK,
    &MAX_TTL,
    &MAX_ELEMENTS,
    &REPLY_MAX,
    &REPLY_MAX_BYTES,
    &SMALL_MAX_ELEMENTS,
    &SMALL_MAX_BYTES,
    &DELIVER,
    &REDE_COMMANDS,
];

/// Returns whether the module may change and deliver elements now without being asked to: this server is a primary that may
/// write, and no tool fills it.
pub fn may_act(context: &Context) -> bool {
    DELIVER.get() > 0 && context.may_replicate() && !context.is_importing()
}

/// Returns the minimum time between two wake-ups for elements that are due, in microseconds.
pub fn wake_interval_us() -> u64 {
    WAKE_INTERVAL.get() * 1000
}

/// Returns the maximum number of elements, or ids, in one reply.
pub fn reply_max() -> usize {
    REPLY_MAX.limit().and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX)
}

/// The bytes that are left of a reply. Its first element is in it whatever its size.
#[derive(Clone, Copy)]
pub struct ReplyRoom {
    bytes: usize,
    is_first: bool,
}

impl ReplyRoom {
    /// For lengths and numbers: about what a row of a lease has.
    const FRAME: usize = 64;

    /// Returns the room of a reply that is empty so far.
    pub fn new() -> Self {
        let bytes = REPLY_MAX_BYTES.limit().unwrap_or(u64::MAX);
        Self { bytes: bytes.try_into().unwrap_or(usize::MAX), is_first: true }
    }

    /// Returns whether there is room for so many elements with at most this many bytes of strings each.
    #[inline]
    pub fn takes_all(self, count: usize, bytes: usize) -> bool {
        bytes.saturating_add(Self::FRAME).saturating_mul(count) <= self.bytes
    }

    /// Returns whether there is room for an element, with this many bytes of strings, and uses it up if so.
    #[inline]
    pub fn takes(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes.saturating_add(Self::FRAME));
        let takes = left.is_some() || self.is_first;
        if takes {
            *self = Self { bytes: left.unwrap_or(0), is_first: false };
        }
        takes
    }
}

/// Returns the maximum size of a dehydrator that is stored in one allocation.
pub fn small_max() -> SmallMax {
    SmallMax { elements: SMALL_MAX_ELEMENTS.get() as usize, bytes: SMALL_MAX_BYTES.get() as usize }
}
