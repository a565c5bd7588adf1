//! An element as the lawn's user sees it.

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
