//! Elements of a lawn in the order of delivery.

use super::element::{Element, Row};
use super::queues::Walk;
use super::small::SmallRows;

/// Elements in the order of delivery. See [`Lawn::rows`](super::Lawn::rows).
pub enum Rows<'a> {
    Small(SmallRows<'a>),
    Full(Walk<'a>),
}

/// Elements in the order of delivery, each with its TTL. A named type, so that the compiler sees that dropping it reads
/// nothing of the lawn.
pub type Elements<'a> = std::iter::Map<Rows<'a>, fn(Row<'a>) -> (u64, Element<'a>)>;

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        match self {
            Self::Small(rows) => rows.next(),
            Self::Full(rows) => rows.next(),
        }
    }
}
