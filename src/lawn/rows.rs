//! Elements of a lawn in the order of delivery.

use std::iter::Peekable;

use super::element::{Element, Row};
use super::queues::Walk;
use super::small::SmallRows;

/// Elements in the order of delivery. See [`Lawn::rows`](super::Lawn::rows).
pub enum Rows<'a> {
    Small(SmallRows<'a>),
    Full(Walk<'a>),
    Grouped(Box<Merged<'a>>),
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
            Self::Grouped(rows) => rows.next(),
        }
    }
}

/// The elements without a group and those in groups, in one order.
pub struct Merged<'a> {
    others: Peekable<Walk<'a>>,
    groups: Peekable<Walk<'a>>,
}

impl<'a> Merged<'a> {
    /// Merges two walks.
    pub fn new(others: Walk<'a>, groups: Walk<'a>) -> Self {
        Self { others: others.peekable(), groups: groups.peekable() }
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let turn = |row: &Row<'a>| (row.element.deadline, row.number);
        let other = self.others.peek().map(turn);
        let is_first = |it: &Row<'a>| other.is_none_or(|other| turn(it) < other);
        self.groups.next_if(is_first).or_else(|| self.others.next())
    }
}
