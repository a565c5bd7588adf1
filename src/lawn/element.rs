//! An element as the lawn's user sees it, and the numbers of elements.

use super::store::Handle;

/// A group of elements, valid until the lawn changes. See [`Lawn::group_name`](super::Lawn::group_name).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Group(pub(super) Handle);

/// The longest name of a group, in bytes.
pub const GROUP_NAME_MAX: usize = 1024;

/// The longest reason why an element was given back, in bytes.
pub const REASON_MAX: usize = 4096;

/// An element's own limits, in the place of those that hold for all elements of a key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bounds {
    /// The maximum number of deliveries. 0: the element has none of its own.
    pub deliveries: u16,
    /// From this moment on, in milliseconds since the epoch, an element that is due is too late. 0: it never is. At most
    /// [`Bounds::UNTIL_MAX`].
    pub until: u64,
}

impl Bounds {
    pub const NONE: Self = Self { deliveries: 0, until: 0 };
    /// The latest moment, in the year 10889: it is stored in 48 bits.
    pub const UNTIL_MAX: u64 = (1 << 48) - 1;
    /// The bytes that bounds take in a record.
    pub(super) const BYTES: usize = 8;

    /// Returns whether there are no bounds.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Returns whether the moment [`Bounds::until`] has come.
    #[inline]
    pub fn is_past(self, now: u64) -> bool {
        self.until > 0 && self.until <= now
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        (self.until << 16 | u64::from(self.deliveries)).to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let bits = u64::from_le_bytes(bytes);
        Self { deliveries: bits as u16, until: bits >> 16 }
    }

    /// Returns from when on an element with these bounds and this deadline is due and too late, if that happens.
    #[inline]
    pub(super) fn expiry(self, deadline: u64) -> Option<u64> {
        (self.until > 0).then(|| self.until.max(deadline))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element<'a> {
    pub id: &'a [u8],
    pub payload: &'a [u8],
    /// Milliseconds since the epoch.
    pub deadline: u64,
    /// How often the element was given out under a lease. Saturates at 65,535.
    pub deliveries: u16,
    pub bounds: Bounds,
    pub group: Option<Group>,
}

impl<'a> Element<'a> {
    /// Returns an element that was never given out, in no group and without bounds.
    #[inline(always)]
    pub fn new(id: &'a [u8], payload: &'a [u8], deadline: u64) -> Self {
        Self { id, payload, deadline, deliveries: 0, bounds: Bounds::NONE, group: None }
    }

    /// Returns the element without its id, payload and group, which may change or go meanwhile.
    #[inline]
    pub fn without_bytes(&self) -> Element<'static> {
        let Self { deadline, deliveries, bounds, .. } = *self;
        Element { id: &[], payload: &[], deadline, deliveries, bounds, group: None }
    }

    /// Returns whether the element is too late to be given out at `now`.
    #[inline]
    pub fn is_expired(&self, now: u64) -> bool {
        self.bounds.is_past(now) && self.deadline <= now
    }
}

/// An element with its place in the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    pub ttl: u64,
    pub element: Element<'a>,
    /// Orders elements with equal deadlines: later elements have greater numbers, for as long as this lawn is in
    /// memory. `None` in a small lawn, which stores no numbers.
    pub number: Option<u64>,
}

/// The counters of a lawn.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub elements: usize,
    /// Elements that were given out under a lease and are not settled, whether the lease has expired or not.
    pub given_out: usize,
    /// Elements that are held under a token, whether the lease has expired or not.
    pub leased: usize,
    /// Each element of the timeline counts as a TTL.
    pub ttls: usize,
}

/// Why an element was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// An element with this id exists. It is unchanged.
    Exists,
    /// The deadline would be after [`DEADLINE_MAX`](super::DEADLINE_MAX).
    TooLate,
    /// The lawn is full: its handles name up to 32 GiB of records. A record of more than 8 KiB counts as 32 bytes.
    Full,
}

/// Why an element was not updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateError {
    /// There is no element with this id.
    Missing,
    /// As [`StartError::Full`].
    Full,
}
