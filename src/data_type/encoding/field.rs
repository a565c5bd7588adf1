//! The fields of a value in an RDB file, and what the numbers among them stand for.

use std::ops::Deref;

/// A payload that cannot be what a server wrote, or ends too early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt(pub &'static str);

impl Corrupt {
    /// It is none: a later version of the module wrote it.
    pub const LATER: Self = Self("written by a later version of the module");
}

/// Where fields come from: an RDB, a replica's full sync, RESTORE.
pub trait Source {
    /// The bytes of a string field.
    type Bytes: Deref<Target = [u8]>;

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the next field is no number, or there is none.
    fn unsigned(&mut self) -> Result<u64, Corrupt>;

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the next field is no string, or there is none.
    fn bytes(&mut self) -> Result<Self::Bytes, Corrupt>;
}

/// Where fields go.
pub trait Sink {
    fn unsigned(&mut self, number: u64);
    fn bytes(&mut self, bytes: &[u8]);
}

/// The encoding that is written.
pub const VERSION: i32 = 1;
/// ReDe's encoding.
pub(super) const VERSION_REDE: i32 = 0;

/// A feature: elements know how often they were given out under a lease.
pub(super) const LEASES: u64 = 1;
/// A feature: what becomes of what comes due is not HOLD.
pub(super) const POLICY: u64 = 2;
/// A feature: nothing is given out or delivered for a while.
pub(super) const PAUSE: u64 = 4;
/// A feature: elements that were given out know under which token.
pub(super) const TOKENS: u64 = 8;
/// A feature: the policy came by RESTORE, and nothing goes by it until it is confirmed.
pub(super) const UNCONFIRMED: u64 = 16;
/// A feature: elements go to a list.
pub(super) const TO_LIST: u64 = 32;
/// A feature: there is a limit to how much it holds or gives out.
pub(super) const LIMITS: u64 = 64;
/// A feature: ids of what has gone are remembered for a while.
pub(super) const REMEMBERED: u64 = 128;
/// A feature: dead letters are stuck, which what does not know them would keep for ever.
pub(super) const STUCK: u64 = 256;

pub(super) const DROP: u64 = 1;
pub(super) const STREAM: u64 = 2;
pub(super) const PUBLISH: u64 = 3;
pub(super) const LIMIT: u64 = 4;
pub(super) const LIST: u64 = 5;
