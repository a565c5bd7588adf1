//! Future events, earliest first; events of one moment in the order in which they were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Time;

pub struct Agenda<Event> {
    heap: BinaryHeap<Reverse<Entry<Event>>>,
    noted: u64,
}

struct Entry<Event> {
    at: (Time, u64),
    event: Event,
}

impl<Event> PartialEq for Entry<Event> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<Event> Eq for Entry<Event> {}

impl<Event> PartialOrd for Entry<Event> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<Event> Ord for Entry<Event> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl<Event> Default for Agenda<Event> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), noted: 0 }
    }
}

impl<Event> Agenda<Event> {
    pub fn note(&mut self, at: Time, event: Event) {
        self.noted += 1;
        self.heap.push(Reverse(Entry { at: (at, self.noted), event }));
    }

    pub fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at.0, entry.event))
    }
}
