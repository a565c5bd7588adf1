//! Iteration over all elements in order, for either form.

use super::element::{Element, Row};
use super::{queues, small};

/// Elements in order of delivery. See [`Lawn::iter`](super::Lawn::iter).
pub struct Iter<'a>(IterForm<'a>);

impl<'a> Iter<'a> {
    pub(super) fn new(form: IterForm<'a>) -> Self {
        Self(form)
    }
}

pub(super) enum IterForm<'a> {
    Small(small::SmallIter<'a>),
    Full(queues::Walk<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (u64, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::Small(iter) => iter.next(),
            IterForm::Full(iter) => iter.next(),
        }
    }
}

/// Elements in order of delivery, each with its row number. See [`Lawn::rows`](super::Lawn::rows).
pub enum Rows<'a> {
    /// A small lawn, and the deadline to start at.
    Small(small::SmallIter<'a>, u64),
    Full(queues::WalkRows<'a>),
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
