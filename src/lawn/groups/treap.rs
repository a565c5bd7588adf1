//! Sorted sets whose nodes are stored elsewhere: each node has its links with it, so that a set of one takes no memory
//! of its own.
//!
//! These are treaps (Seidel and Aragon, 1996): search trees by rank, and heaps by *priority*, which looks random. So a tree
//! is about twice as high as the best, whatever the order of insertion. A client that knew the priorities could choose
//! deadlines for which it degenerates: priorities are keyed with a secret.
//!
//! The first and the last node are known. A node that comes after all others, or that is the first and leaves, costs
//! O(1), with one or two rotations. Any other costs O(log n).

use super::super::rank::Rank;
use super::super::store::{Handle, Links};
use super::super::work;

/// Where the nodes of trees are.
pub trait Nodes {
    fn links(&self, node: Handle) -> Links;
    fn change_links(&mut self, node: Handle, change: impl FnOnce(&mut Links));
    /// Returns the node's place in the order. It must not change while the node is in a tree.
    fn rank(&self, node: Handle) -> Rank;
    /// Returns a random number, always the same one.
    fn secret(&self) -> u64;

    /// Returns the priority of a node with this rank, from its push number, which other nodes hardly ever have.
    #[inline(always)]
    fn priority(&self, rank: Rank) -> u64 {
        priority(rank.push, self.secret())
    }

    /// Returns rank and links, for searches, which need both of each node.
    #[inline(always)]
    fn rank_and_links(&self, node: Handle) -> (Rank, Links) {
        (self.rank(node), self.links(node))
    }
}

#[inline(always)]
fn priority(number: u64, secret: u64) -> u64 {
    let folded = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        (product >> 64) as u64 ^ product as u64
    };
    // Once is not enough: push numbers follow each other.
    folded(folded(number ^ secret, secret.rotate_left(32) | 1) ^ secret, 0x9e37_79b9_7f4a_7c15)
}

/// A set of nodes, in the order of their ranks.
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

/// The place of a node below another one, or at the root.
type Place = Option<(Handle, Side)>;

/// Returns the place of a node, given the one above it.
fn place_below(nodes: &impl Nodes, parent: Option<Handle>, node: Handle) -> Place {
    let parent = parent?;
    let is_left = nodes.links(parent).left == Some(node);
    Some((parent, if is_left { Side::Left } else { Side::Right }))
}

fn set_parent(nodes: &mut impl Nodes, node: Handle, parent: Option<Handle>) {
    nodes.change_links(node, |links| links.parent = parent);
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

    /// Returns the first node whose rank is `rank` or later.
    pub fn from(&self, nodes: &impl Nodes, rank: Rank) -> Option<Handle> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = at {
            work::step(1);
            let (own, links) = nodes.rank_and_links(node);
            let is_before = own.number() < rank.number();
            (at, found) = if is_before { (links.right, found) } else { (links.left, Some(node)) };
        }
        found
    }

    /// Inserts a node.
    pub fn insert(&mut self, nodes: &mut impl Nodes, node: Handle) {
        let rank = nodes.rank(node);
        let Some((mut above, mut side)) = self.place(nodes, rank) else {
            nodes.change_links(node, |links| *links = Links::default());
            *self = Self { root: Some(node), first: Some(node), last: Some(node) };
            return;
        };
        let end = if side == Side::Left { &mut self.first } else { &mut self.last };
        if *end == Some(above) {
            *end = Some(node);
        }
        // The nodes on the way up of lower priority come below it: in two halves, of earlier ranks and of later ones.
        let (priority, mut links) = (nodes.priority(rank), Links::default());
        let (mut rank_above, mut own) = nodes.rank_and_links(above);
        let place = loop {
            if nodes.priority(rank_above) >= priority {
                break Some((above, side));
            }
            work::step(1);
            let half = side.other().child(&mut links);
            let child = side.child(&mut own);
            if *child != *half {
                *child = *half;
                nodes.change_links(above, |links| *links = own);
                if let Some(half) = *half {
                    set_parent(nodes, half, Some(above));
                }
            }
            *half = Some(above);
            let Some(parent) = own.parent else { break None };
            (rank_above, own) = nodes.rank_and_links(parent);
            side = if own.left == Some(above) { Side::Left } else { Side::Right };
            above = parent;
        };
        links.parent = place.map(|it| it.0);
        nodes.change_links(node, |own| *own = links);
        links.left.into_iter().chain(links.right).for_each(|it| set_parent(nodes, it, Some(node)));
        self.set_child(nodes, place, Some(node));
    }

    /// Returns the place of a new node with this rank, at the lower end of the tree. `None`: there is no node.
    fn place(&self, nodes: &impl Nodes, rank: Rank) -> Place {
        let last = self.last?;
        if nodes.rank(last).number() < rank.number() {
            return Some((last, Side::Right));
        }
        let mut at = self.root?;
        loop {
            work::step(1);
            let (own, Links { left, right, .. }) = nodes.rank_and_links(at);
            let is_left = rank.number() < own.number();
            let (side, child) = if is_left { (Side::Left, left) } else { (Side::Right, right) };
            let Some(next) = child else { return Some((at, side)) };
            at = next;
        }
    }

    /// Removes a node. Its rank may have changed.
    pub fn remove(&mut self, nodes: &mut impl Nodes, node: Handle) {
        for (end, side) in [(&mut self.first, Side::Right), (&mut self.last, Side::Left)] {
            if *end == Some(node) {
                *end = side.next(nodes, node);
            }
        }
        let Links { mut left, mut right, parent } = nodes.links(node);
        let mut place = place_below(nodes, parent, node);
        // Of the two nodes below it, the one of higher priority takes its place, and so on along the edge between them.
        while let (Some(one), Some(other)) = (left, right) {
            work::step(1);
            let [one_priority, other_priority] =
                [one, other].map(|it| nodes.priority(nodes.rank(it)));
            let is_left = one_priority > other_priority;
            let top = if is_left { one } else { other };
            self.fill(nodes, place, Some(top));
            let links = nodes.links(top);
            if is_left {
                (left, place) = (links.right, Some((top, Side::Right)));
            } else {
                (right, place) = (links.left, Some((top, Side::Left)));
            }
        }
        self.fill(nodes, place, left.or(right));
    }

    /// Replaces a node by one that has its rank and its links. The old one may be gone.
    pub fn replace(&mut self, nodes: &mut impl Nodes, old: Handle, new: Handle) {
        let Links { left, right, parent } = nodes.links(new);
        self.set_child(nodes, place_below(nodes, parent, old), Some(new));
        left.into_iter().chain(right).for_each(|it| set_parent(nodes, it, Some(new)));
        for end in [&mut self.first, &mut self.last] {
            *end = if *end == Some(old) { Some(new) } else { *end };
        }
    }

    /// Puts a node, or none, into a place.
    fn fill(&mut self, nodes: &mut impl Nodes, place: Place, node: Option<Handle>) {
        self.set_child(nodes, place, node);
        node.into_iter().for_each(|it| set_parent(nodes, it, place.map(|it| it.0)));
    }

    fn set_child(&mut self, nodes: &mut impl Nodes, place: Place, node: Option<Handle>) {
        let Some((parent, side)) = place else { return self.root = node };
        nodes.change_links(parent, |links| *side.child(links) = node);
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
                assert!(
                    nodes.priority(nodes.rank(child)) <= nodes.priority(nodes.rank(node)),
                    "a heap"
                );
            }
            assert!(last.is_none_or(|last| nodes.rank(last) < nodes.rank(node)), "the order");
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

        fn change_links(&mut self, node: Handle, change: impl FnOnce(&mut Links)) {
            change(&mut self.0[number(node)].1);
        }

        fn rank(&self, node: Handle) -> Rank {
            Rank { deadline: self.0[number(node)].0, push: number(node) as u64 }
        }

        fn secret(&self) -> u64 {
            0x1234_5678_9abc_def0
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
            let mut found = tree.from(&nodes, Rank { deadline: last, push: 0 });
            assert_eq!(found.map(|it| nodes.rank(it).deadline), Some(last));
            found = tree.from(&nodes, Rank::after(last));
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
