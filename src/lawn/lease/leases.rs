//! The tokens of all leases of a lawn that is full.
//!
//! An element that is given out under a lease is held under a token until it is taken out, replaced, given back or
//! leased again. The token is written here and not in the record, so that an element which was never leased pays
//! nothing for it: whoever takes one out asks here only if its record says that it was given out.
//!
//! A token of a client's own choice is also found by itself, with what is held under it, so that a client which has
//! lost a reply can ask for it again.

use super::super::memory::rounded;
use super::super::store::Handle;
use super::super::turn::Turn;
use super::chosen::Chosen;
use super::running::Running;
use super::token::Token;
use super::tokens::Tokens;

/// Tokens, by record.
#[derive(Clone, Default)]
pub struct Leases {
    /// `None` while nothing is held: most lawns never have a lease.
    held: Option<Box<Held>>,
    /// `None` while nobody asks how many leases run.
    running: Option<Box<Running>>,
    /// Nobody asks any more: what is left is freed a little at a time.
    waste: Option<Box<Running>>,
}

#[derive(Clone, Default)]
struct Held {
    tokens: Tokens,
    chosen: Chosen,
}

impl Leases {
    /// Returns whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// Returns how many records are held.
    pub fn len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.tokens.len())
    }

    /// Holds a record under this token from here on, or under none. Its turn is `turn` now, and was `before`.
    pub fn set(&mut self, record: Handle, token: Option<Token>, before: Turn, turn: Turn) {
        let Some(token) = token else { return self.forget(record, before) };
        let held = self.held.get_or_insert_default();
        held.unlist(held.tokens.get(record), before);
        held.tokens.insert(record, token);
        if let Some(running) = &mut self.running {
            running.remove(before);
            running.insert(turn);
        }
        if token.is_chosen() {
            held.chosen.insert(token, turn, record);
        }
    }

    /// Holds a record of that turn no more.
    pub fn forget(&mut self, record: Handle, turn: Turn) {
        let Some(held) = &mut self.held else { return };
        let before = held.tokens.remove(record);
        held.unlist(before, turn);
        self.running.iter_mut().for_each(|running| running.remove(turn));
        if held.tokens.len() == 0 {
            self.held = None;
        }
    }

    /// Takes note that a record has another turn. It is held as before.
    pub fn postpone(&mut self, record: Handle, before: Turn, turn: Turn) {
        let Some(held) = &mut self.held else { return };
        let Some(token) = held.tokens.get(record) else { return };
        if let Some(running) = &mut self.running {
            running.remove(before);
            running.insert(turn);
        }
        if token.is_chosen() {
            held.chosen.remove(token, before);
            held.chosen.insert(token, turn, record);
        }
    }

    /// Takes note that what was in the record `old` is in `new`. It is held as before, and its turn is the same.
    pub fn replace(&mut self, old: Handle, new: Handle, turn: Turn) {
        if let Some(held) = &mut self.held
            && let Some(token) = held.tokens.remove(old)
        {
            held.tokens.insert(new, token);
            if token.is_chosen() {
                held.chosen.insert(token, turn, new);
            }
        }
    }

    /// Returns the token under which a record is held.
    pub fn token(&self, record: Handle) -> Option<Token> {
        self.held.as_ref()?.tokens.get(record)
    }

    /// Lists what is held under a token of a client's own choice, from a turn on, in order.
    pub fn listed(&self, token: Token, from: Turn) -> impl Iterator<Item = Handle> + '_ {
        self.held.iter().flat_map(move |held| held.chosen.from(token, from))
    }

    /// Returns the bytes allocated, about. O(parts).
    pub fn memory(&self) -> usize {
        let running = self.running.iter().chain(&self.waste).map(|running| running.memory());
        let running: usize = running.sum();
        let Some(held) = &self.held else { return running };
        rounded(size_of::<Held>()) + held.tokens.memory() + held.chosen.memory() + running
    }

    /// Returns how many allocations freeing it takes, about. O(1).
    pub fn allocations(&self) -> usize {
        let held = self.held.as_ref();
        let held = held.map_or(0, |held| 1 + held.tokens.allocations() + held.chosen.allocations());
        // A node of a set has some eight turns.
        held + self.running.iter().chain(&self.waste).map(|it| 1 + it.len() / 8).sum::<usize>()
    }

    /// Panics unless what is listed is held. `turn` says which turn a record has that was given out. Returns how many
    /// are held.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self, mut turn: impl FnMut(Handle) -> Option<Turn>) -> usize {
        let Some(held) = &self.held else { return 0 };
        let mut chosen = 0;
        for (record, token) in held.tokens.iter() {
            let turn = turn(record).expect("what is held was given out");
            let listed = held.chosen.get(token, turn);
            assert_eq!(
                listed,
                token.is_chosen().then_some(record),
                "what is listed under {token:?}"
            );
            chosen += usize::from(token.is_chosen());
        }
        assert_eq!(held.chosen.len(), chosen, "what is listed and what is held");
        assert!(held.tokens.len() > 0, "nothing is held");
        held.tokens.len()
    }
}

/// How many leases run.
impl Leases {
    /// Begins to count the leases that run, or ends that. What is held already is to be [searched for](Leases::search).
    pub fn watch(&mut self, on: bool) {
        if !on {
            if let Some(mut running) = self.running.take() {
                running.behind = self.waste.take();
                self.waste = Some(running);
            }
        } else if self.running.is_none() {
            self.running = Some(Box::new(Running::searching()));
        }
    }

    /// Returns whether there is something to search for, or to free.
    pub fn is_unfinished(&self) -> bool {
        self.waste.is_some() || self.search().is_some()
    }

    /// Returns where the search for what is held goes on, in the index.
    pub fn search(&self) -> Option<u64> {
        self.running.as_ref()?.search
    }

    /// Notes what was found to be held, and where the search goes on. 0: it is done.
    pub fn found(&mut self, turns: impl Iterator<Item = Turn>, next: u64) {
        let Some(running) = &mut self.running else { return };
        turns.for_each(|turn| running.insert(turn));
        running.search = (next != 0).then_some(next);
    }

    /// Frees some of what nobody asks for any more. Returns whether there was any.
    pub fn free_waste(&mut self, count: usize) -> bool {
        let Some(waste) = &mut self.waste else { return false };
        waste.free(count);
        if waste.len() == 0 {
            self.waste = waste.behind.take();
        }
        true
    }

    /// Looks at the clock, so that to count costs nothing.
    pub fn look(&mut self, now: u64) {
        self.running.iter_mut().for_each(|running| running.look(now));
    }

    /// Returns how many leases run at this time. As long as that is not known, all count that are held.
    pub fn running(&self, now: u64) -> usize {
        match &self.running {
            Some(running) if running.search.is_none() => running.count(now),
            _ => self.held.as_ref().map_or(0, |held| held.tokens.len()),
        }
    }

    /// Returns when the first of those runs out, if that is known.
    pub fn first_end(&self, now: u64) -> Option<u64> {
        self.running.as_ref().filter(|running| running.search.is_none())?.first_end(now)
    }

    /// Returns the turns of what is held, if they are all known.
    #[cfg(any(test, feature = "checks"))]
    pub fn turns(&self) -> Option<impl Iterator<Item = Turn> + '_> {
        let running = self.running.as_ref().filter(|running| running.search.is_none())?;
        Some(running.turns())
    }
}

impl Held {
    /// Forgets that what has that turn is listed under a token.
    fn unlist(&mut self, token: Option<Token>, turn: Turn) {
        if let Some(token) = token.filter(|token| token.is_chosen()) {
            self.chosen.remove(token, turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let mut leases = Leases::default();
        let chosen = Token::of_word(b"mine");
        let turn = |push| Turn { deadline: 9, push };
        let [a, b, c, d] = [1, 2, 3, 4].map(|bits| Handle::from_bits(bits).expect("not zero"));
        let listed = |leases: &Leases| leases.listed(chosen, turn(0)).collect::<Vec<_>>();
        for (push, record) in (0..).zip([a, b, c]) {
            leases.set(record, Some(chosen), turn(push), turn(push));
        }
        assert_eq!(listed(&leases), [a, b, c]);
        leases.set(b, Some(Token::drawn(7)), turn(1), turn(1));
        assert_eq!(listed(&leases), [a, c]);
        leases.postpone(a, turn(0), turn(3));
        leases.postpone(b, turn(1), turn(4));
        assert_eq!(listed(&leases), [c, a]);
        assert_eq!(leases.listed(chosen, turn(3)).collect::<Vec<_>>(), [a]);
        leases.replace(c, d, turn(2));
        leases.replace(b, c, turn(4));
        assert_eq!(listed(&leases), [d, a]);
        assert_eq!((leases.token(b), leases.token(c)), (None, Some(Token::drawn(7))));
        let known = [(a, turn(3)), (c, turn(4)), (d, turn(2))];
        let turn_of = |record| known.iter().find(|it| it.0 == record).map(|it| it.1);
        assert_eq!(leases.check(turn_of), 3);
        assert!(leases.memory() > 0 && leases.allocations() > 0);
        leases.set(c, None, turn(4), turn(4));
        leases.forget(a, turn(3));
        leases.forget(b, turn(0));
        assert_eq!((leases.check(turn_of), listed(&leases)), (1, vec![d]));
        leases.forget(d, turn(2));
        assert!(leases.is_empty() && listed(&leases).is_empty());
        assert_eq!((leases.memory(), leases.allocations()), (0, 0));
    }
}
