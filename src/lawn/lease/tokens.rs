//! Tokens by turn, in a B+ tree that counts its entries: how many turns lie between two moments takes no walk to find out.
//!
//! All leaves are equally deep. Each branch states how many entries are below it, so to count what comes before a turn is to
//! add up the branches on the left of one path. Vectors have little room to spare, so an entry, which is 24 bytes, takes
//! 26 to 31 in all, however full the leaves are; 48 at worst, where nearly all are taken out.

use std::mem;

use super::super::memory::allotted;
use super::super::tiny::TINY;
use super::super::turn::Turn;
use super::token::Token;

/// Items of a node at most. A node with more is split.
const MOST: usize = if TINY { 8 } else { 64 };
/// Items of a node at least, but for the root. A node with fewer is joined with the one beside it.
const LEAST: usize = MOST / 4;

/// Tokens by turn.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    root: Node,
    len: usize,
}

#[derive(Clone)]
enum Node {
    Leaf(Vec<(Turn, Token)>),
    /// Two branches at least.
    Inner(Vec<Branch>),
}

#[derive(Clone)]
struct Branch {
    /// No turn below is earlier, and every turn in the branch before is.
    from: Turn,
    /// Entries below.
    count: usize,
    node: Node,
}

impl Tokens {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, turn: Turn) -> Option<Token> {
        let leaf = self.leaf(turn, |_| ());
        let (found, token) = leaf.get(before(leaf, turn))?;
        (*found == turn).then_some(*token)
    }

    /// Adds a turn that is not there.
    pub(super) fn insert(&mut self, turn: Turn, token: Token) {
        self.len += 1;
        if self.root.insert(turn, token) {
            let node = mem::take(&mut self.root);
            let mut branches = vec![Branch { from: Turn::FIRST, count: self.len, node }];
            split(&mut branches, 0);
            self.root = Node::Inner(branches);
        }
    }

    /// Takes out a turn, if it is there. Returns its token.
    pub(super) fn remove(&mut self, turn: Turn) -> Option<Token> {
        let token = self.root.remove(turn)?;
        self.len -= 1;
        if let Node::Inner(branches) = &mut self.root
            && let [only] = &mut branches[..]
        {
            self.root = mem::take(&mut only.node);
        }
        Some(token)
    }

    /// Returns how many turns come before this one. O(log n).
    pub(super) fn count_before(&self, turn: Turn) -> usize {
        let mut count = 0;
        let leaf = self.leaf(turn, |left| count += left.iter().map(|it| it.count).sum::<usize>());
        count + before(leaf, turn)
    }

    /// Returns the leaf that a turn belongs to. Each node on the way shows its branches on the left.
    #[inline]
    fn leaf(&self, turn: Turn, mut show: impl FnMut(&[Branch])) -> &[(Turn, Token)] {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(entries) => return entries,
                Node::Inner(branches) => {
                    let at = below(branches, turn);
                    show(&branches[..at]);
                    node = &branches[at].node;
                }
            }
        }
    }

    /// Returns the first turn that is not before this one. O(log n).
    pub(super) fn first_from(&self, turn: Turn) -> Option<Turn> {
        self.root.first_from(turn)
    }

    /// Returns the bytes allocated. O(leaves).
    pub(super) fn memory(&self) -> usize {
        self.root.memory()
    }

    /// Returns about how many allocations freeing it takes. O(1).
    pub(super) fn allocations(&self) -> usize {
        1 + self.len / (MOST / 2)
    }

    /// Panics unless every node has as many items as it should, in order, and every branch counts what is below it.
    #[cfg(any(test, feature = "checks"))]
    pub(super) fn check(&self) {
        let mut turns = Vec::new();
        self.root.check(0, &mut turns);
        assert_eq!(turns.len(), self.len, "entries of the tree");
        assert!(turns.is_sorted(), "entries are in order");
    }
}

/// Returns a number that is in the order of turns. Two numbers are compared without a branch that a processor could guess
/// wrong.
#[inline(always)]
fn number(turn: Turn) -> u128 {
    u128::from(turn.deadline) << 64 | u128::from(turn.push)
}

/// Returns which branch a turn belongs to.
#[inline]
fn below(branches: &[Branch], turn: Turn) -> usize {
    let turn = number(turn);
    branches.partition_point(|branch| number(branch.from) <= turn).saturating_sub(1)
}

/// Returns how many entries of a leaf come before a turn.
#[inline]
fn before(entries: &[(Turn, Token)], turn: Turn) -> usize {
    let turn = number(turn);
    entries.partition_point(|entry| number(entry.0) < turn)
}

/// Inserts an item. The vector gets little room to spare.
#[inline]
fn insert_tight<T>(items: &mut Vec<T>, at: usize, item: T) {
    if items.len() == items.capacity() {
        items.reserve_exact(1 + items.len() / 8);
    }
    items.insert(at, item);
}

/// Removes an item, and gives back room that is spare.
#[inline]
fn remove_tight<T>(items: &mut Vec<T>, at: usize) -> T {
    let item = items.remove(at);
    if items.capacity() > items.len() + items.len() / 4 + 8 {
        items.shrink_to(items.len() + items.len() / 8);
    }
    item
}

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Vec::new())
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(branches) => branches.len(),
        }
    }

    /// Inserts an entry. Returns whether there are too many items now.
    fn insert(&mut self, turn: Turn, token: Token) -> bool {
        match self {
            Self::Leaf(entries) => {
                // Most leases end after all others.
                let is_last = entries.last().is_none_or(|last| number(last.0) < number(turn));
                let at = if is_last { entries.len() } else { before(entries, turn) };
                insert_tight(entries, at, (turn, token));
                entries.len() > MOST
            }
            Self::Inner(branches) => {
                let last = branches.len() - 1;
                let is_last = number(branches[last].from) <= number(turn);
                let at = if is_last { last } else { below(branches, turn) };
                let branch = &mut branches[at];
                branch.from = branch.from.min(turn);
                branch.count += 1;
                if branch.node.insert(turn, token) {
                    split(branches, at);
                }
                branches.len() > MOST
            }
        }
    }

    fn remove(&mut self, turn: Turn) -> Option<Token> {
        match self {
            Self::Leaf(entries) => {
                let at = before(entries, turn);
                entries.get(at).filter(|entry| entry.0 == turn)?;
                Some(remove_tight(entries, at).1)
            }
            Self::Inner(branches) => {
                let at = below(branches, turn);
                let branch = &mut branches[at];
                let token = branch.node.remove(turn)?;
                branch.count -= 1;
                if branch.node.len() < LEAST {
                    join(branches, at.saturating_sub(1));
                }
                Some(token)
            }
        }
    }

    /// Splits off the right half.
    fn split(&mut self) -> Branch {
        match self {
            Self::Leaf(entries) => {
                let right = half_of(entries);
                Branch { from: right[0].0, count: right.len(), node: Self::Leaf(right) }
            }
            Self::Inner(branches) => {
                let right = half_of(branches);
                let count = right.iter().map(|branch| branch.count).sum();
                Branch { from: right[0].from, count, node: Self::Inner(right) }
            }
        }
    }

    fn first_from(&self, turn: Turn) -> Option<Turn> {
        match self {
            Self::Leaf(entries) => entries.get(before(entries, turn)).map(|entry| entry.0),
            Self::Inner(branches) => {
                let branches = &branches[below(branches, turn)..];
                branches.iter().find_map(|branch| branch.node.first_from(turn))
            }
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Leaf(entries) => allotted(entries),
            Self::Inner(branches) => {
                let below = branches.iter().map(|branch| branch.node.memory());
                allotted(branches) + below.sum::<usize>()
            }
        }
    }

    /// Panics unless all is as it should be below, at this depth. Collects the turns. Returns how deep the leaves are.
    #[cfg(any(test, feature = "checks"))]
    fn check(&self, depth: usize, turns: &mut Vec<Turn>) -> usize {
        assert!(self.len() <= MOST && (depth == 0 || self.len() >= LEAST), "items of a node");
        match self {
            Self::Leaf(entries) => turns.extend(entries.iter().map(|entry| entry.0)),
            Self::Inner(branches) => {
                assert!(branches.len() > 1, "an inner node has two branches");
                let mut depths = branches.iter().map(|branch| {
                    let before = turns.len();
                    assert!(
                        turns.last().is_none_or(|last| *last < branch.from),
                        "the branch before"
                    );
                    let deep = branch.node.check(depth + 1, turns);
                    assert!(branch.from <= turns[before], "where a branch begins");
                    assert_eq!(branch.count, turns.len() - before, "what a branch counts");
                    deep
                });
                let deep = depths.next().expect("there are two");
                assert!(depths.all(|other| other == deep), "leaves are equally deep");
                return deep;
            }
        }
        depth
    }
}

/// Joins a branch with the one after it, and splits the two anew if they are too much for one.
#[cold]
fn join(branches: &mut Vec<Branch>, at: usize) {
    let right = remove_tight(branches, at + 1);
    let left = &mut branches[at];
    left.count += right.count;
    match (&mut left.node, right.node) {
        (Node::Leaf(left), Node::Leaf(right)) => append_tight(left, right),
        (Node::Inner(left), Node::Inner(right)) => append_tight(left, right),
        _ => unreachable!("leaves are equally deep"),
    }
    if left.node.len() > MOST {
        split(branches, at);
    }
}

/// Splits a branch in two.
#[cold]
fn split(branches: &mut Vec<Branch>, at: usize) {
    let right = branches[at].node.split();
    branches[at].count -= right.count;
    insert_tight(branches, at + 1, right);
}

/// Splits off the right half of the items.
fn half_of<T>(items: &mut Vec<T>) -> Vec<T> {
    let right = items.split_off(items.len() / 2);
    items.shrink_to_fit();
    right
}

fn append_tight<T>(left: &mut Vec<T>, right: Vec<T>) {
    left.reserve_exact(right.len());
    left.extend(right);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const COUNT: u64 = if TINY { 2000 } else { 60_000 };

    fn turn(deadline: u64) -> Turn {
        Turn { deadline, push: deadline % 3 }
    }

    /// The tree and an oracle, beside each other.
    #[derive(Default)]
    struct Both {
        tokens: Tokens,
        map: BTreeMap<Turn, Token>,
    }

    impl Both {
        fn insert(&mut self, deadline: u64) {
            let token = Token::drawn(deadline);
            if self.map.insert(turn(deadline), token).is_none() {
                self.tokens.insert(turn(deadline), token);
            }
        }

        fn remove(&mut self, deadline: u64) {
            assert_eq!(self.tokens.remove(turn(deadline)), self.map.remove(&turn(deadline)));
        }

        fn check(&self, moments: impl Iterator<Item = u64>) {
            self.tokens.check();
            assert_eq!(self.tokens.len(), self.map.len());
            for moment in moments {
                let (at, after) = (turn(moment), Turn::after(moment));
                assert_eq!(self.tokens.get(at), self.map.get(&at).copied(), "{moment}");
                let first = self.map.range(after..).next().map(|(first, _)| *first);
                assert_eq!(self.tokens.first_from(after), first, "{moment}");
                let count = self.map.range(..after).count();
                assert_eq!(self.tokens.count_before(after), count, "{moment}");
            }
        }

        /// Returns the bytes that each entry takes.
        fn each(&self) -> usize {
            self.tokens.memory() / self.tokens.len()
        }
    }

    #[test]
    fn every_count_is_right_while_the_tree_grows_and_shrinks_at_its_ends() {
        let mut both = Both::default();
        both.check([0, 5].into_iter());
        for deadline in 1..=COUNT {
            both.insert(deadline);
            both.remove(deadline + 1);
        }
        both.check((0..COUNT + 2).step_by(COUNT as usize / 50));
        if !TINY {
            assert!(both.each() <= 30, "{} bytes each, in order", both.each());
        }
        // The oldest end first, then those that began last.
        (1..=COUNT / 2).for_each(|deadline| both.remove(deadline));
        both.check((0..COUNT + 2).step_by(COUNT as usize / 50));
        (COUNT / 2 + 8..=COUNT).rev().for_each(|deadline| both.remove(deadline));
        both.check(0..COUNT / 2 + 9);
        (COUNT / 2..COUNT / 2 + 8).for_each(|deadline| both.remove(deadline));
        both.check([0, COUNT].into_iter());
        assert!(both.tokens.memory() < 10 * size_of::<(Turn, Token)>());
    }

    #[test]
    fn an_entry_takes_no_more_than_is_said_in_whatever_order_leases_begin_and_end() {
        let mixed = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30;
        let mut both = Both::default();
        (0..COUNT).for_each(|number| both.insert(mixed(number)));
        both.check((0..COUNT).step_by(COUNT as usize / 50).map(mixed));
        if !TINY {
            assert!(both.each() <= 32, "{} bytes each, in no order", both.each());
        }
        for left in [COUNT / 2, COUNT / 4, COUNT / 8, COUNT / 64, 30] {
            (left..COUNT).for_each(|number| both.remove(mixed(number)));
            both.check((0..COUNT).step_by(COUNT as usize / 50).map(mixed));
            if !TINY {
                assert!(both.each() <= 48, "{} bytes each of {left}", both.each());
            }
        }
    }
}
