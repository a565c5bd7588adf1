//! The element that is given out next.

use super::element::{Element, Row};
use super::groups::Choice;
use super::lawn::{Form, Lawn, Taken};
use super::lease::{Since, Token};
use super::rank::DEADLINE_MAX;
use super::store::Handle;

/// The element that is given out next, as it is, with exclusive access to the lawn: it is decided, and nothing has changed yet.
/// Dropping it changes nothing.
#[must_use]
pub struct Next<'a> {
    lawn: &'a mut Lawn,
    /// As in [`Taken`].
    at: usize,
    choice: Option<Choice>,
    now: u64,
}

impl Lawn {
    /// Decides which element is given out next at `now`: of the group whose turn it is, and without groups the first of all.
    /// `None`: nothing may be given out.
    pub fn next_due(&mut self, now: u64) -> Option<Next<'_>> {
        let (at, choice) = match &mut self.form {
            Form::Small(small) => (small.first_due(now)?, None),
            Form::Full(full) => {
                full.queues.refresh_heads(&mut full.records);
                let (handle, choice) = full.choose(now)?;
                (handle.bits() as usize, choice)
            }
        };
        Some(Next { lawn: self, at, choice, now })
    }
}

fn handle(at: usize) -> Handle {
    Handle::from_bits(at as u32).expect("the bits of a handle")
}

impl<'a> Next<'a> {
    pub fn row(&self) -> Row<'_> {
        match &self.lawn.form {
            Form::Small(small) => small.row_at(self.at),
            Form::Full(full) => full.row_of(handle(self.at)),
        }
    }

    /// Creates an empty lawn with the same [`Shared`](super::Shared).
    pub fn another(&self) -> Lawn {
        self.lawn.another()
    }

    /// Returns the name of the group of `element`, which is [this one](Self::row).
    pub fn group(&self, element: &Element<'_>) -> Option<&[u8]> {
        element.group.map(|group| self.lawn.group_name(group))
    }

    /// Returns the token under which the element is held.
    pub fn token(&self) -> Option<Token> {
        match &self.lawn.form {
            Form::Small(small) => small.token(&small.at(self.at)),
            Form::Full(full) => full.held_under(handle(self.at)),
        }
    }

    /// Returns why `element` was given back the last time, if that was said.
    pub fn reason(&self, element: &Element<'_>) -> Option<&[u8]> {
        if self.lawn.has_reasons() { self.lawn.reason(element.id) } else { None }
    }

    /// Returns since when `element` is held, if it is and that is known.
    pub fn held_since(&self, element: &Element<'_>) -> Option<Since> {
        self.lawn.held_since(element)
    }

    /// Leases the element, as [`Lawn::lease_due`] does. Returns it with its new count.
    pub fn lease(self, ttl: u64, token: Option<Token>) -> Element<'a> {
        let Self { lawn, at, choice, now } = self;
        let deadline = now.saturating_add(ttl).min(DEADLINE_MAX);
        match &mut lawn.form {
            Form::Small(small) => small.lease_entry(at, ttl, deadline, token),
            Form::Full(full) => {
                choice.into_iter().for_each(|choice| full.take_turn(choice, now));
                full.lease(handle(at), ttl, deadline, token);
                full.at(at)
            }
        }
    }

    /// Lets the group of the element go to the end of the round.
    pub fn pass(self) {
        if let (Form::Full(full), Some(choice)) = (&mut self.lawn.form, self.choice)
            && let Some(groups) = &mut full.groups
        {
            groups.take_turn(choice, self.now, true);
        }
    }

    /// Takes the element out.
    pub fn take(self) -> Taken<'a> {
        let Self { lawn, at, choice, now } = self;
        if let Form::Full(full) = &mut lawn.form {
            choice.into_iter().for_each(|choice| full.take_turn(choice, now));
            full.take_out(handle(at));
        }
        Taken { form: &mut lawn.form, at }
    }
}
