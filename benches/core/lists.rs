//! Doubly linked lists of timers, the basis of most classic schemes.
//!
//! Nodes are in chunks that never move, so that no scheme pays for copying a doubled vector, or for its unused half. A
//! link is the number of a node, or the number of a list with the top bit set. Every list is a ring through its own
//! end, so a node can leave in O(1) without knowing its list.

/// Nodes per chunk.
const CHUNK: usize = 1024;
/// Marks a link to the end of a list.
const END: u32 = 1 << 31;

pub struct Node<E, T> {
    prev: u32,
    next: u32,
    pub deadline: u64,
    /// The scheme's own data for a timer.
    pub extra: E,
    /// The owner's data for a timer.
    pub item: T,
}

pub struct Lists<E, T> {
    chunks: Vec<Vec<Node<E, T>>>,
    free: Vec<u32>,
    /// The last and the first node of each list.
    ends: Vec<(u32, u32)>,
}

impl<E: Copy + Default, T> Lists<E, T> {
    pub fn new(lists: usize) -> Self {
        let ends = (0..lists as u32).map(|list| (END | list, END | list)).collect();
        Self { chunks: Vec::new(), free: Vec::new(), ends }
    }

    pub fn add_list(&mut self) -> u32 {
        let list = self.ends.len() as u32;
        self.ends.push((END | list, END | list));
        list
    }

    /// Stores a node, in no list yet.
    pub fn add(&mut self, deadline: u64, item: T) -> u32 {
        let node = Node { prev: 0, next: 0, deadline, extra: E::default(), item };
        if let Some(number) = self.free.pop() {
            *self.get_mut(number) = node;
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().expect("there is one");
        chunk.push(node);
        (before + chunk.len() - 1) as u32
    }

    /// Frees a node that is in no list.
    pub fn free(&mut self, node: u32) {
        self.get_mut(node).extra = E::default();
        self.free.push(node);
    }

    pub fn get(&self, node: u32) -> &Node<E, T> {
        &self.chunks[node as usize / CHUNK][node as usize % CHUNK]
    }

    pub fn get_mut(&mut self, node: u32) -> &mut Node<E, T> {
        &mut self.chunks[node as usize / CHUNK][node as usize % CHUNK]
    }

    pub fn first(&self, list: u32) -> Option<u32> {
        as_node(self.ends[list as usize].1)
    }

    pub fn last(&self, list: u32) -> Option<u32> {
        as_node(self.ends[list as usize].0)
    }

    pub fn next(&self, node: u32) -> Option<u32> {
        as_node(self.get(node).next)
    }

    pub fn prev(&self, node: u32) -> Option<u32> {
        as_node(self.get(node).prev)
    }

    pub fn push_back(&mut self, list: u32, node: u32) {
        self.link(self.ends[list as usize].0, node, END | list);
    }

    /// Inserts a node after all nodes of the list that come due no later, searching from the back.
    pub fn insert_sorted(&mut self, list: u32, node: u32) {
        let deadline = self.get(node).deadline;
        let mut after = self.last(list);
        while let Some(before) = after.filter(|after| self.get(*after).deadline > deadline) {
            after = self.prev(before);
        }
        match after {
            Some(after) => self.link(after, node, self.get(after).next),
            None => self.link(END | list, node, self.ends[list as usize].1),
        }
    }

    /// Removes a node from its list.
    pub fn unlink(&mut self, node: u32) {
        let Node { prev, next, .. } = *self.get(node);
        self.set_next(prev, next);
        self.set_prev(next, prev);
    }

    fn link(&mut self, prev: u32, node: u32, next: u32) {
        let entry = self.get_mut(node);
        (entry.prev, entry.next) = (prev, next);
        self.set_next(prev, node);
        self.set_prev(next, node);
    }

    fn set_next(&mut self, at: u32, next: u32) {
        match as_node(at) {
            Some(node) => self.get_mut(node).next = next,
            None => self.ends[(at & !END) as usize].1 = next,
        }
    }

    fn set_prev(&mut self, at: u32, prev: u32) {
        match as_node(at) {
            Some(node) => self.get_mut(node).prev = prev,
            None => self.ends[(at & !END) as usize].0 = prev,
        }
    }
}

fn as_node(link: u32) -> Option<u32> {
    (link & END == 0).then_some(link)
}
