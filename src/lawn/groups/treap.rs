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
use super::super::store::{Handle, LEFT, Nodes, PARENT, RIGHT};
use super::super::work;

/// Returns the priority of a node with this rank, from its push number, which other nodes hardly ever have.
#[inline(always)]
fn priority(nodes: &impl Nodes, rank: Rank) -> u64 {
    // Push numbers follow each other: each bit of one must change about half of the result.
    let once = (rank.push ^ nodes.secret()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (once ^ once >> 32 ^ nodes.secret()).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Returns the last node below another one on a side, or that node.
fn last_below(nodes: &impl Nodes, mut node: Handle, side: usize) -> Handle {
    while let Some(next) = nodes.link(node, side) {
        work::step(1);
        node = next;
    }
    node
}

/// Returns the neighbour of a node in the order: the one before it ([`LEFT`]), or after it ([`RIGHT`]).
pub fn neighbour(nodes: &impl Nodes, mut node: Handle, side: usize) -> Option<Handle> {
    work::step(1);
    if let Some(child) = nodes.link(node, side) {
        return Some(last_below(nodes, child, 1 - side));
    }
    while let Some(parent) = nodes.link(node, PARENT) {
        if nodes.link(parent, side) != Some(node) {
            return Some(parent);
        }
        node = parent;
    }
    None
}

/// A set of nodes, in the order of their ranks.
#[derive(Clone, Copy, Default)]
pub struct Tree {
    root: Option<Handle>,
    /// The first node and the last one.
    ends: [Option<Handle>; 2],
}

impl Tree {
    #[inline(always)]
    pub fn first(&self) -> Option<Handle> {
        self.ends[LEFT]
    }

    #[inline(always)]
    pub fn last(&self) -> Option<Handle> {
        self.ends[RIGHT]
    }

    /// Returns the first node whose rank is `rank` or later.
    pub fn from(&self, nodes: &impl Nodes, rank: Rank) -> Option<Handle> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = at {
            work::step(1);
            let (own, links) = nodes.rank_and_links(node);
            let is_before = own.number() < rank.number();
            (at, found) = if is_before { (links[RIGHT], found) } else { (links[LEFT], at) };
        }
        found
    }

    #[inline(always)]
    pub fn insert(&mut self, nodes: &mut impl Nodes, node: Handle, rank: Rank) {
        let Some((mut above, mut side)) = self.ends[RIGHT].map(|last| (last, RIGHT)) else {
            nodes.set_links(node, [None; 3]);
            *self = Self { root: Some(node), ends: [Some(node); 2] };
            return;
        };
        // Its place at the lower end of the tree, mostly behind the last.
        let (mut own, mut links) = nodes.rank_and_links(above);
        if rank.number() < own.number() {
            let mut next = self.root;
            while let Some(at) = next {
                work::step(1);
                above = at;
                (own, links) = nodes.rank_and_links(at);
                side = usize::from(own.number() < rank.number());
                next = links[side];
            }
        }
        if self.ends[side] == Some(above) {
            self.ends[side] = Some(node);
        }
        // The nodes on the way up of lower priority come below it: in two halves, of earlier ranks and of later ones.
        let (own_priority, mut halves) = (priority(nodes, rank), [None; 2]);
        let mut parent = Some(above);
        while let Some(at) = parent
            && priority(nodes, own) < own_priority
        {
            work::step(1);
            let half = halves[1 - side];
            if links[side] != half {
                self.fill(nodes, Some(at), side, half);
            }
            halves[1 - side] = parent;
            parent = links[PARENT];
            if let Some(next) = parent {
                (own, links) = nodes.rank_and_links(next);
                side = usize::from(links[RIGHT] == Some(at));
            }
        }
        nodes.set_links(node, [halves[LEFT], halves[RIGHT], parent]);
        for half in halves.into_iter().flatten() {
            nodes.set_link(half, PARENT, Some(node));
        }
        self.set_child(nodes, parent, side, Some(node));
    }

    /// Removes a node. Its rank may have changed.
    pub fn remove(&mut self, nodes: &mut impl Nodes, node: Handle) {
        for side in [LEFT, RIGHT] {
            if self.ends[side] == Some(node) {
                self.ends[side] = neighbour(nodes, node, 1 - side);
            }
        }
        let (_, [mut left, mut right, mut above]) = nodes.rank_and_links(node);
        let mut side = side_below(nodes, above, node);
        // Of the two nodes below it, the one of higher priority takes its place, and so on along the edge between them.
        while let (Some(one), Some(other)) = (left, right) {
            work::step(1);
            let [(first, first_links), (second, second_links)] =
                [one, other].map(|it| nodes.rank_and_links(it));
            let is_left = priority(nodes, first) > priority(nodes, second);
            let top = if is_left { left } else { right };
            self.fill(nodes, above, side, top);
            (above, side) = (top, usize::from(is_left));
            if is_left {
                left = first_links[RIGHT];
            } else {
                right = second_links[LEFT];
            }
        }
        self.fill(nodes, above, side, left.or(right));
    }

    /// Replaces a node by one that has its links. The old one may be gone.
    pub fn replace(&mut self, nodes: &mut impl Nodes, old: Handle, new: Handle) {
        let (_, [left, right, above]) = nodes.rank_and_links(new);
        let side = side_below(nodes, above, old);
        self.set_child(nodes, above, side, Some(new));
        for child in left.into_iter().chain(right) {
            nodes.set_link(child, PARENT, Some(new));
        }
        for end in &mut self.ends {
            *end = if *end == Some(old) { Some(new) } else { *end };
        }
    }

    /// Puts a node, or none, below another one, or at the root.
    #[inline(always)]
    fn fill(
        &mut self,
        nodes: &mut impl Nodes,
        above: Option<Handle>,
        side: usize,
        node: Option<Handle>,
    ) {
        self.set_child(nodes, above, side, node);
        if let Some(node) = node {
            nodes.set_link(node, PARENT, above);
        }
    }

    #[inline(always)]
    fn set_child(
        &mut self,
        nodes: &mut impl Nodes,
        above: Option<Handle>,
        side: usize,
        node: Option<Handle>,
    ) {
        match above {
            Some(above) => nodes.set_link(above, side, node),
            None => self.root = node,
        }
    }

    /// Panics unless the tree is in order, a heap, and linked both ways. Returns the number of nodes.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, nodes: &impl Nodes) -> usize {
        let (mut count, mut at, mut last) = (0, self.first(), None);
        assert!(self.root.is_none_or(|root| nodes.link(root, PARENT).is_none()));
        assert_eq!(self.root.map(|root| last_below(nodes, root, LEFT)), at, "the first");
        while let Some(node) = at {
            let (rank, [left, right, _]) = nodes.rank_and_links(node);
            for child in left.into_iter().chain(right) {
                let (below, links) = nodes.rank_and_links(child);
                assert_eq!(links[PARENT], at, "a parent");
                assert!(priority(nodes, below) <= priority(nodes, rank), "a heap");
            }
            assert!(last.is_none_or(|it| nodes.rank_and_links(it).0 < rank), "the order");
            (count, last, at) = (count + 1, at, neighbour(nodes, node, RIGHT));
        }
        assert_eq!(last, self.last(), "the last");
        count
    }
}

/// Returns the side of a node below the one above it.
#[inline(always)]
fn side_below(nodes: &impl Nodes, above: Option<Handle>, node: Handle) -> usize {
    above.map_or(LEFT, |above| usize::from(nodes.link(above, LEFT) != Some(node)))
}

#[cfg(test)]
mod tests {
    use super::super::super::store::Links;
    use super::*;

    #[derive(Default)]
    struct Numbers(Vec<(u64, Links)>);

    fn number(node: Handle) -> usize {
        node.bits() as usize - 1
    }

    impl Nodes for Numbers {
        fn link(&self, node: Handle, which: usize) -> Option<Handle> {
            self.0[number(node)].1[which]
        }

        fn set_link(&mut self, node: Handle, which: usize, other: Option<Handle>) {
            self.0[number(node)].1[which] = other;
        }

        fn set_links(&mut self, node: Handle, links: Links) {
            self.0[number(node)].1 = links;
        }

        fn rank_and_links(&self, node: Handle) -> (Rank, Links) {
            let (deadline, links) = self.0[number(node)];
            (Rank { deadline, push: number(node) as u64 }, links)
        }

        fn secret(&self) -> u64 {
            0x1234_5678_9abc_def0
        }
    }

    fn height(nodes: &Numbers, node: Option<Handle>) -> usize {
        let Some((_, [left, right, _])) = node.map(|it| nodes.rank_and_links(it)) else { return 0 };
        1 + height(nodes, left).max(height(nodes, right))
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
                tree.insert(&mut nodes, handle(it), Rank { deadline: order(it), push: it });
            }
            assert_eq!(tree.check(&nodes), COUNT as usize);
            let height = height(&nodes, tree.root);
            assert!(height < 50, "a height of {height}");
            let last = (0..COUNT).map(order).max().expect("many");
            let mut found = tree.from(&nodes, Rank { deadline: last, push: 0 });
            assert_eq!(found.map(|it| nodes.rank_and_links(it).0.deadline), Some(last));
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
