//! An element as the lawn's user sees it, and the numbers of elements.

/// An element of the lawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element<'a> {
    pub id: &'a [u8],
    pub payload: &'a [u8],
    /// Milliseconds since the epoch.
    pub deadline: u64,
    /// How often the element was given out under a lease. Saturates at 65,535.
    pub deliveries: u16,
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
