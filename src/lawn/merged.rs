//! Iteration over the elements of a full lawn, in order.

use std::iter::Peekable;

use super::element::Row;
use super::queues::Walk;

/// The elements without a group and those in groups, in one order.
pub struct Merged<'a> {
    others: Walk<'a>,
    groups: Option<Box<Grouped<'a>>>,
}

/// The part of a walk that only a lawn with groups has.
struct Grouped<'a> {
    rows: Peekable<Walk<'a>>,
    /// The next element without a group, if it is known.
    next: Option<Row<'a>>,
}

impl<'a> Merged<'a> {
    /// Merges two walks. Without groups it costs nothing.
    pub fn new(others: Walk<'a>, groups: Option<Walk<'a>>) -> Self {
        let grouped = |rows: Walk<'a>| Grouped { rows: rows.peekable(), next: None };
        Self { others, groups: groups.map(|rows| Box::new(grouped(rows))) }
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = Row<'a>;

    #[inline]
    fn next(&mut self) -> Option<Row<'a>> {
        match &mut self.groups {
            None => self.others.next(),
            Some(groups) => groups.merge(&mut self.others),
        }
    }
}

impl<'a> Grouped<'a> {
    #[inline(never)]
    fn merge(&mut self, others: &mut Walk<'a>) -> Option<Row<'a>> {
        let turn = |row: &Row<'a>| (row.element.deadline, row.number);
        self.next = self.next.take().or_else(|| others.next());
        let is_first = |it: &Row<'a>| self.next.is_none_or(|next| turn(it) < turn(&next));
        self.rows.next_if(is_first).or_else(|| self.next.take())
    }
}
