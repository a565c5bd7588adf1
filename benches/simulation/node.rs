//! A dehydrator on a server: waiting, due and leased elements.

use std::collections::VecDeque;

use super::Time;
use super::later::Later;

/// An element under a lease, as a worker holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub element: u32,
    /// The token of the lease.
    pub version: u16,
    pub deliveries: u16,
    /// When this delivery of the element came due.
    pub due: Time,
    /// When the lease expires.
    pub until: Time,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Waits,
    Settled,
    Dead,
}

struct Element {
    version: u16,
    deliveries: u16,
    state: State,
}

/// Deadline, element and version. The entry is stale if the element has another version by now.
type Entry = (Time, u32, u16);

const PUSHED: usize = 0;
const LEASED: usize = 1;

/// The elements of one key.
#[derive(Default)]
pub struct Node {
    elements: Vec<Element>,
    /// Pushed and leased elements: each queue is in the order of deadlines, because its TTLs are equal.
    queues: [VecDeque<Entry>; 2],
    /// Elements that come due in no such order.
    others: Later<Entry>,
    pub settled: usize,
    pub dead: usize,
}

/// The result of a POLL.
#[derive(Default)]
pub struct Given {
    pub held: Vec<Held>,
    pub dead: usize,
}

impl Node {
    pub fn push(&mut self, deadline: Time) {
        let element = self.elements.len() as u32;
        self.elements.push(Element { version: 0, deliveries: 0, state: State::Waits });
        self.wait(PUSHED, (deadline, element, 0));
    }

    /// Appends an entry to a queue, if it belongs there.
    fn wait(&mut self, queue: usize, entry: Entry) {
        let queue = &mut self.queues[queue];
        match queue.back() {
            Some(last) if last.0 > entry.0 => self.others.push(entry.0, entry),
            _ => queue.push_back(entry),
        }
    }

    fn is_current(elements: &[Element], (_, element, version): Entry) -> bool {
        elements[element as usize].version == version
    }

    /// Returns the earliest entry that is not stale, and its place: in a queue, or among the others.
    fn first(&mut self) -> Option<(Entry, Option<usize>)> {
        for queue in &mut self.queues {
            while queue.front().is_some_and(|entry| !Self::is_current(&self.elements, *entry)) {
                queue.pop_front();
            }
        }
        let [pushed, leased] =
            [PUSHED, LEASED].map(|at| self.queues[at].front().map(|entry| (*entry, Some(at))));
        let others = self.others.first(|entry| Self::is_current(&self.elements, *entry));
        let other = others.map(|entry| (*entry, None));
        [pushed, leased, other].into_iter().flatten().min()
    }

    pub fn pushed(&self) -> usize {
        self.elements.len()
    }

    pub fn has_ended(&self) -> bool {
        self.settled + self.dead == self.elements.len()
    }

    /// Returns the earliest deadline of waiting elements, including leases.
    pub fn next_deadline(&mut self) -> Option<Time> {
        self.first().map(|((deadline, ..), _)| deadline)
    }

    /// Leases due elements. Elements that were delivered too often become dead letters.
    pub fn poll(&mut self, now: Time, count: usize, lease: Time, most: u16) -> Given {
        let mut given = Given::default();
        while given.held.len() < count {
            let Some(((due, number, _), queue)) = self.first() else { break };
            if due > now {
                break;
            }
            match queue {
                Some(queue) => _ = self.queues[queue].pop_front(),
                None => _ = self.others.pop(),
            }
            let element = &mut self.elements[number as usize];
            element.version = element.version.wrapping_add(1);
            if element.deliveries >= most {
                element.state = State::Dead;
                self.dead += 1;
                given.dead += 1;
                continue;
            }
            element.deliveries += 1;
            let Element { version, deliveries, .. } = *element;
            let until = now + lease;
            self.wait(LEASED, (until, number, version));
            given.held.push(Held { element: number, version, deliveries, due, until });
        }
        given
    }

    /// Removes an element if it is still held. Returns whether it was.
    pub fn settle(&mut self, now: Time, held: Held) -> bool {
        let is_held = self.is_held(now, held);
        if is_held {
            let element = &mut self.elements[held.element as usize];
            element.version = element.version.wrapping_add(1);
            element.state = State::Settled;
            self.settled += 1;
        }
        is_held
    }

    /// Gives back an element if it is still held, to be due later.
    pub fn renew(&mut self, now: Time, held: Held, deadline: Time) -> bool {
        let is_held = self.is_held(now, held);
        if is_held {
            let element = &mut self.elements[held.element as usize];
            element.version = element.version.wrapping_add(1);
            self.others.push(deadline, (deadline, held.element, element.version));
        }
        is_held
    }

    /// Returns whether a lease is running, and its element was not changed.
    fn is_held(&self, now: Time, held: Held) -> bool {
        let element = &self.elements[held.element as usize];
        now < held.until && element.version == held.version && element.state == State::Waits
    }
}
