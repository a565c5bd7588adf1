//! Sorted sets whose nodes are stored elsewhere: each node has its links with it, so that a set of one takes no memory
//! of its own.
//!
//! These are treaps (Seidel and Aragon, 1996): search trees by turn, and heaps by *rank*, which looks random. So a tree
//! is about twice as high as the best, whatever the order of insertion. A client that knew the ranks could choose
//! deadlines for which it degenerates: ranks are keyed with a secret.
//!
//! The first and the last node are known. A node that comes after all others, or that is the first and leaves, costs
//! O(1), with one or two rotations. Any other costs O(log n).

use super::super::store::{Handle, Links};
use super::super::turn::Turn;
use super::super::work;

/// Where the nodes of trees are.
pub trait Nodes {
    fn links(&self, node: Handle) -> Links;
    fn set_links(&mut self, node: Handle, links: Links);
    /// Returns the node's place in the order. It must not change while the node is in a tree.
    fn turn(&self, node: Handle) -> Turn;
    /// Returns a number that looks random, always the same one for a node in a tree.
    fn rank(&self, node: Handle) -> u64;
    /// Returns turn and links, for searches, which need both of each node.
    #[inline(always)]
    fn look(&self, node: Handle) -> (Turn, Links) {
        (self.turn(node), self.links(node))
    }
}

/// Returns a rank from a number that each node has, and a secret.
#[inline(always)]
pub fn rank(number: u64, secret: u64) -> u64 {
    let folded = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        (product >> 64) as u64 ^ product as u64
    };
    // Once is not enough: push numbers follow each other.
    folded(folded(number ^ secret, secret.rotate_left(32) | 1) ^ secret, 0x9e37_79b9_7f4a_7c15)
}

/// A set of nodes, in the order of their turns.
#[derive(Clone, Copy, Default)]
pub struct Tree {
    root: Option<Handle>,
    first: Option<Handle>,
    last: Option<Handle>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Self {
        if self == Self::Left { Self::Right } else { Self::Left }
    }

    fn child(self, links: &mut Links) -> &mut Option<Handle> {
        match self {
            Self::Left => &mut links.left,
            Self::Right => &mut links.right,
        }
    }

    /// Returns the last node on the way to this side.
    fn end(self, nodes: &impl Nodes, mut node: Handle) -> Handle {
        while let Some(next) = *self.child(&mut nodes.links(node)) {
            work::step(1);
            node = next;
        }
        node
    }

    /// Returns the next node on this side.
    fn next(self, nodes: &impl Nodes, mut node: Handle) -> Option<Handle> {
        work::step(1);
        let mut links = nodes.links(node);
        if let Some(child) = *self.child(&mut links) {
            return Some(self.other().end(nodes, child));
        }
        while let Some(parent) = links.parent {
            links = nodes.links(parent);
            if *self.child(&mut links) != Some(node) {
                return Some(parent);
            }
            node = parent;
        }
        None
    }
}

/// Changes the links of a node.
fn change(nodes: &mut impl Nodes, node: Handle, change: impl FnOnce(&mut Links)) {
    let mut links = nodes.links(node);
    change(&mut links);
    nodes.set_links(node, links);
}

/// Returns the node after this one.
pub fn next(nodes: &impl Nodes, node: Handle) -> Option<Handle> {
    Side::Right.next(nodes, node)
}

/// Returns the node before this one.
pub fn previous(nodes: &impl Nodes, node: Handle) -> Option<Handle> {
    Side::Left.next(nodes, node)
}

impl Tree {
    /// Returns the first node.
    #[inline(always)]
    pub fn first(&self) -> Option<Handle> {
        self.first
    }

    /// Returns the last node.
    #[inline(always)]
    pub fn last(&self) -> Option<Handle> {
        self.last
    }

    /// Returns the first node whose turn is `turn` or later.
    pub fn from(&self, nodes: &impl Nodes, turn: Turn) -> Option<Handle> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = at {
            work::step(1);
            let (own, links) = nodes.look(node);
            (at, found) = if own < turn { (links.right, found) } else { (links.left, Some(node)) };
        }
        found
    }

    /// Inserts a node.
    pub fn insert(&mut self, nodes: &mut impl Nodes, node: Handle) {
        let Some((parent, side)) = self.place(nodes, nodes.turn(node)) else {
            nodes.set_links(node, Links::default());
            *self = Self { root: Some(node), first: Some(node), last: Some(node) };
            return;
        };
        nodes.set_links(node, Links { parent: Some(parent), ..Links::default() });
        change(nodes, parent, |links| *side.child(links) = Some(node));
        let end = if side == Side::Left { &mut self.first } else { &mut self.last };
        if *end == Some(parent) {
            *end = Some(node);
        }
        let rank = nodes.rank(node);
        let mut above = Some(parent);
        while let Some(parent) = above.filter(|parent| nodes.rank(*parent) < rank) {
            above = self.raise(nodes, node, parent);
        }
    }

    /// Returns the node below which a turn belongs, and on which side. `None` if there is no node.
    fn place(&self, nodes: &impl Nodes, turn: Turn) -> Option<(Handle, Side)> {
        let last = self.last?;
        if nodes.turn(last) < turn {
            return Some((last, Side::Right));
        }
        let mut at = self.root?;
        loop {
            work::step(1);
            let (own, Links { left, right, .. }) = nodes.look(at);
            let (side, child) = if turn < own { (Side::Left, left) } else { (Side::Right, right) };
            let Some(next) = child else { return Some((at, side)) };
            at = next;
        }
    }

    /// Removes a node. Its turn may have changed.
    pub fn remove(&mut self, nodes: &mut impl Nodes, node: Handle) {
        for (end, side) in [(&mut self.first, Side::Right), (&mut self.last, Side::Left)] {
            if *end == Some(node) {
                *end = side.next(nodes, node);
            }
        }
        loop {
            let Links { left, right, parent } = nodes.links(node);
            let (Some(left), Some(right)) = (left, right) else {
                let child = left.or(right);
                self.replace_child(nodes, parent, node, child);
                child.into_iter().for_each(|it| change(nodes, it, |links| links.parent = parent));
                return;
            };
            let is_left = nodes.rank(left) > nodes.rank(right);
            self.raise(nodes, if is_left { left } else { right }, node);
        }
    }

    /// Replaces a node by one that has its turn, its rank and its links. The old one may be gone.
    pub fn replace(&mut self, nodes: &mut impl Nodes, old: Handle, new: Handle) {
        let Links { left, right, parent } = nodes.links(new);
        self.replace_child(nodes, parent, old, Some(new));
        for child in left.into_iter().chain(right) {
            change(nodes, child, |links| links.parent = Some(new));
        }
        for end in [&mut self.first, &mut self.last] {
            *end = if *end == Some(old) { Some(new) } else { *end };
        }
    }

    /// Puts a node in the place of its parent, and the parent below it. Returns the node's new parent.
    fn raise(&mut self, nodes: &mut impl Nodes, node: Handle, parent: Handle) -> Option<Handle> {
        work::step(1);
        let (mut own, mut above) = (nodes.links(node), nodes.links(parent));
        let side = if above.left == Some(node) { Side::Left } else { Side::Right };
        let inner = side.other().child(&mut own).replace(parent);
        *side.child(&mut above) = inner;
        let top = above.parent.replace(node);
        own.parent = top;
        nodes.set_links(node, own);
        nodes.set_links(parent, above);
        inner.into_iter().for_each(|it| change(nodes, it, |links| links.parent = Some(parent)));
        self.replace_child(nodes, top, parent, Some(node));
        top
    }

    fn replace_child(
        &mut self,
        nodes: &mut impl Nodes,
        parent: Option<Handle>,
        old: Handle,
        new: Option<Handle>,
    ) {
        let Some(parent) = parent else { return self.root = new };
        change(nodes, parent, |links| {
            let child = if links.left == Some(old) { &mut links.left } else { &mut links.right };
            *child = new;
        });
    }

    /// Panics unless the tree is in order, a heap, and linked both ways. Returns the number of nodes.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, nodes: &impl Nodes) -> usize {
        let (mut count, mut at, mut last) = (0, self.first, None);
        assert!(self.root.is_none_or(|root| nodes.links(root).parent.is_none()));
        assert_eq!(self.root.map(|root| Side::Left.end(nodes, root)), self.first, "the first");
        while let Some(node) = at {
            let Links { left, right, .. } = nodes.links(node);
            for child in left.into_iter().chain(right) {
                assert_eq!(nodes.links(child).parent, Some(node), "a parent");
                assert!(nodes.rank(child) <= nodes.rank(node), "a heap");
            }
            assert!(last.is_none_or(|last| nodes.turn(last) < nodes.turn(node)), "the order");
            (count, last, at) = (count + 1, at, next(nodes, node));
        }
        assert_eq!(last, self.last, "the last");
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Numbers(Vec<(u64, Links)>);

    fn number(node: Handle) -> usize {
        node.bits() as usize - 1
    }

    impl Nodes for Numbers {
        fn links(&self, node: Handle) -> Links {
            self.0[number(node)].1
        }

        fn set_links(&mut self, node: Handle, links: Links) {
            self.0[number(node)].1 = links;
        }

        fn turn(&self, node: Handle) -> Turn {
            Turn { deadline: self.0[number(node)].0, push: 0 }
        }

        fn rank(&self, node: Handle) -> u64 {
            rank(number(node) as u64, 0x1234_5678_9abc_def0)
        }
    }

    fn height(nodes: &Numbers, node: Option<Handle>) -> usize {
        let Some(links) = node.map(|node| nodes.links(node)) else { return 0 };
        1 + height(nodes, links.left).max(height(nodes, links.right))
    }

    #[test]
    fn a_tree_stays_low_in_whatever_order_nodes_come_and_go() {
        const COUNT: u64 = 20_000;
        let orders: [fn(u64) -> u64; 4] =
            [|it| it, |it| COUNT - it, |it| it * 7919 % COUNT, |it| (it % 2) * COUNT + it];
        for order in orders {
            let (mut nodes, mut tree) = (Numbers::default(), Tree::default());
            let handle = |it: u64| Handle::from_bits(it as u32 + 1).expect("not zero");
            for it in 0..COUNT {
                nodes.0.push((order(it), Links::default()));
                tree.insert(&mut nodes, handle(it));
            }
            assert_eq!(tree.check(&nodes), COUNT as usize);
            let height = height(&nodes, tree.root);
            assert!(height < 50, "a height of {height}");
            let last = (0..COUNT).map(order).max().expect("many");
            let mut found = tree.from(&nodes, Turn { deadline: last, push: 0 });
            assert_eq!(found.map(|it| nodes.turn(it).deadline), Some(last));
            found = tree.from(&nodes, Turn::after(last));
            assert_eq!(found, None);
            for it in (0..COUNT).filter(|it| it % 3 > 0) {
                tree.remove(&mut nodes, handle(it));
            }
            tree.check(&nodes);
            while let Some(first) = tree.first() {
                tree.remove(&mut nodes, first);
            }
            assert_eq!(tree.check(&nodes), 0);
        }
    }
}
