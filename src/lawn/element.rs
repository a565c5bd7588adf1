//! What is put away, and what is said of it.

/// An element that waits in the lawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element<'a> {
    /// What it is called.
    pub id: &'a [u8],
    /// What was put away.
    pub payload: &'a [u8],
    /// When it comes due, in milliseconds since the epoch.
    pub deadline: u64,
    /// How often it was given out under a lease. It stops counting at 65,535.
    pub deliveries: u16,
}

/// An element, and where it stands in the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// The TTL that it was started with.
    pub ttl: u64,
    pub element: Element<'a>,
    /// Tells it from others with its deadline: those that come after it have greater ones, for as long as this lawn is
    /// in memory. A form that has no such numbers says `None`.
    pub number: Option<u64>,
}
