//! Looking at all elements of a lawn in order, whatever its form.

use super::element::{Element, Row};
use super::{queues, small};

/// Elements in order of delivery. See [`Lawn::iter`](super::Lawn::iter).
pub struct Iter<'a>(InForm<'a>);

impl<'a> Iter<'a> {
    pub(super) fn of(form: InForm<'a>) -> Self {
        Self(form)
    }
}

pub(super) enum InForm<'a> {
    Small(small::Iter<'a>),
    Full(queues::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (u64, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            InForm::Small(iter) => iter.next(),
            InForm::Full(iter) => iter.next(),
        }
    }
}

/// Elements in order of delivery, each with its place in that order. See [`Lawn::rows`](super::Lawn::rows).
pub enum Rows<'a> {
    /// Of a small lawn, from that deadline on.
    Small(small::Iter<'a>, u64),
    /// Of any other.
    Full(queues::Rows<'a>),
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        match self {
            Self::Small(iter, from) => {
                let (ttl, element) = iter.find(|(_, element)| element.deadline >= *from)?;
                Some(Row { ttl, element, number: None })
            }
            Self::Full(rows) => rows.next(),
        }
    }
}
