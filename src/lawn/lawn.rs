//! A lawn in the form that suits its size: [`Small`] at first, [`Full`] when there is more in it than the small form is
//! good for.
//!
//! The form is a matter of memory and time alone; nothing that can be asked of a lawn tells it. It changes once, in one
//! step that is bounded by what the small form may hold, and does not come back: a lawn that has been large is likely to
//! be so again, and one at the border would be built anew again and again. An empty lawn of nobody's interest is
//! thrown away by its owner, and the next one begins small.
//!
//! Small to full keeps a scan's promise, because a small lawn shows all it has in one call, at any cursor.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ahash::RandomState;

use super::element::{Element, Row};
use super::error::{StartError, UpdateError};
use super::full::Full;
use super::iter::{InForm, Iter, Rows};
use super::lease::Token;
use super::memory::{Mover, rounded};
use super::shared::Shared;
use super::small::Small;
use super::store::Handle;
use super::turn::{DEADLINE_MAX, Start};

/// How much there is in a lawn.
#[derive(Clone, Copy)]
pub struct Counts {
    pub elements: usize,
    /// Elements that were given out under a lease and are still there.
    pub given_out: usize,
    /// Those of them that are held under a token.
    pub leased: usize,
    pub ttls: usize,
}

#[derive(Clone)]
enum Form {
    Small(Small),
    Full(Box<Full>),
}

impl Default for Form {
    fn default() -> Self {
        Self::Small(Small::default())
    }
}

/// Does the same with either form.
macro_rules! either {
    ($form:expr, $it:ident => $value:expr) => {
        match $form {
            Form::Small($it) => $value,
            Form::Full($it) => $value,
        }
    };
}

/// A store of elements that each come due once. See the [module](super).
#[derive(Clone)]
pub struct Lawn {
    form: Form,
    shared: Arc<Shared>,
}

/// An element that has been taken out. Its bytes are read where they lie, and freed when this is dropped.
pub struct Taken<'a> {
    form: &'a mut Form,
    /// Where it is in a small lawn, or the bits of its record's name in any other: both fit into a register with the
    /// form, and a `Taken` is made and gone in every command that takes something out.
    at: usize,
}

impl Taken<'_> {
    /// Shows what was taken.
    #[inline(always)]
    pub fn element(&self) -> Element<'_> {
        match &*self.form {
            Form::Small(small) => small.at(self.at),
            Form::Full(full) => full.at(record(self.at)),
        }
    }
}

impl fmt::Debug for Taken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taken").field(&self.element()).finish()
    }
}

impl Drop for Taken<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.form {
            Form::Small(small) => small.free(self.at),
            Form::Full(full) => full.free(record(self.at)),
        }
    }
}

fn bits(record: Handle) -> usize {
    Handle::to_bits(Some(record)) as usize
}

fn record(bits: usize) -> Handle {
    Handle::from_bits(bits as u32).expect("the bits of a record's name")
}

impl Lawn {
    /// Makes an empty lawn, which takes no memory but its own.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { form: Form::default(), shared }
    }

    /// Makes an empty lawn that shares with this one what lawns share.
    pub(super) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }

    /// Returns whether all of it lies in one allocation.
    pub fn is_small(&self) -> bool {
        matches!(self.form, Form::Small(_))
    }

    /// Returns how many elements there are.
    pub fn len(&self) -> usize {
        either!(&self.form, it => it.len())
    }

    /// Returns how much there is of several kinds.
    #[inline]
    pub fn counts(&self) -> Counts {
        either!(&self.form, it => Counts {
            elements: it.len(),
            given_out: it.delivered(),
            leased: it.leased(),
            ttls: it.ttls(),
        })
    }

    /// Returns whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns when `ttl` milliseconds after `now` is.
    ///
    /// # Errors
    ///
    /// [`StartError::TooLate`].
    pub fn deadline(ttl: u64, now: u64) -> Result<u64, StartError> {
        let deadline = now.checked_add(ttl).filter(|deadline| *deadline <= DEADLINE_MAX);
        deadline.ok_or(StartError::TooLate)
    }

    /// Starts an element that comes due `ttl` milliseconds after `now`. Returns its deadline.
    ///
    /// # Errors
    ///
    /// [`StartError`]; then nothing has changed.
    #[allow(
        dead_code,
        reason = "the module states deadlines; tests, benches and the paper start timers"
    )]
    #[inline]
    pub fn start(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        now: u64,
    ) -> Result<u64, StartError> {
        let deadline = Self::deadline(ttl, now)?;
        self.start_at(id, ttl, payload, deadline)?;
        Ok(deadline)
    }

    /// Starts an element in the queue of `ttl` that comes due at `deadline`, whatever the two say of
    /// each other: how replicas, dumps and imports bring elements in.
    ///
    /// # Errors
    ///
    /// [`StartError`]; then nothing has changed.
    #[inline]
    pub fn start_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        if let Form::Small(small) = &mut self.form {
            let max = (self.shared.small_max)();
            if let Some(done) = small.start_at(id, ttl, payload, deadline, max) {
                return done;
            }
        }
        self.full().start_at(id, ttl, payload, deadline)
    }

    /// Does what [`Lawn::start_at`] does, in the place of an element with the same id, if there is one.
    ///
    /// # Errors
    ///
    /// [`StartError`], but not [`StartError::Exists`]; then nothing has changed.
    pub fn replace_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        if let Form::Small(small) = &mut self.form {
            let max = (self.shared.small_max)();
            if let Some(done) = small.replace_at(id, ttl, payload, deadline, max) {
                return done;
            }
        }
        self.full().replace_at(id, ttl, payload, deadline)
    }

    /// Gives an element a new timer: it comes after all others of that deadline. A TTL of 0 gives it back: it is held
    /// under no token any more. Returns whether there is such an element.
    #[inline]
    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        either!(&mut self.form, it => it.restart_at(id, ttl, deadline))
    }

    /// Takes an element out, due or not.
    #[inline]
    pub fn stop(&mut self, id: &[u8]) -> Option<Taken<'_>> {
        let at = match &mut self.form {
            Form::Small(small) => small.stop(id)?,
            Form::Full(full) => bits(full.stop(id)?),
        };
        Some(Taken { form: &mut self.form, at })
    }

    /// Returns the element of that id, due or not.
    pub fn look(&self, id: &[u8]) -> Option<Element<'_>> {
        either!(&self.form, it => it.look(id))
    }

    /// Gives an element a new payload. It keeps its deadline and its place in the order. Returns what
    /// it was before.
    ///
    /// # Errors
    ///
    /// [`UpdateError`]; then nothing has changed.
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<Taken<'_>, UpdateError> {
        if let Form::Small(small) = &self.form
            && !small.may_update(id, payload, (self.shared.small_max)())
        {
            self.full();
        }
        let at = match &mut self.form {
            Form::Small(small) => small.update(id, payload)?,
            Form::Full(full) => bits(full.update(id, payload)?),
        };
        Ok(Taken { form: &mut self.form, at })
    }

    /// Takes out the element whose turn is first, if it is due at `now`.
    #[allow(
        dead_code,
        reason = "the module takes what is due in runs; tests and benches take one at a time"
    )]
    pub fn pop_due(&mut self, now: u64) -> Option<Taken<'_>> {
        let at = match &mut self.form {
            Form::Small(small) => small.pop_due(now)?,
            Form::Full(full) => bits(full.pop_due(now)?),
        };
        Some(Taken { form: &mut self.form, at })
    }

    /// Takes out up to `count` elements that are due at `now`, in order, and gives each away. Returns how many those
    /// were.
    pub fn drain(&mut self, now: u64, count: usize, give: impl FnMut(u64, Element<'_>)) -> usize {
        either!(&mut self.form, it => it.drain(now, count, give))
    }

    /// Gives out the element whose turn is first, if it is due at `now`, and keeps it: it is due again
    /// after `ttl` milliseconds, and counts the delivery. A lease is a TTL: the element moves into that
    /// queue. `ttl` must not be 0, or the element would be due again at once and never end. It is held under `token`. With
    /// it goes the deadline that it had.
    pub fn lease_due(
        &mut self,
        now: u64,
        ttl: u64,
        token: Option<Token>,
    ) -> Option<(u64, Element<'_>)> {
        either!(&mut self.form, it => it.lease_due(now, ttl, token))
    }

    /// Leases an element by its id, due or not, until `deadline`, and holds it under `token`. Returns whether there is
    /// one.
    pub fn lease_at(&mut self, id: &[u8], ttl: u64, deadline: u64, token: Option<Token>) -> bool {
        either!(&mut self.form, it => it.lease_at(id, ttl, deadline, token))
    }

    /// Says how often an element was given out, as dumps and the append-only file do, and under which token it is held
    /// if it was. Returns whether there is one.
    pub fn set_deliveries(&mut self, id: &[u8], deliveries: u16, token: Option<Token>) -> bool {
        either!(&mut self.form, it => it.set_deliveries(id, deliveries, token))
    }

    /// Returns the token under which an element that is here is held.
    pub fn token(&self, element: &Element<'_>) -> Option<Token> {
        either!(&self.form, it => it.token(element))
    }

    /// Returns whether an element is held under this token: whether the lease of that name is the last one that was
    /// given out of it. It may have run out.
    pub fn holds(&self, id: &[u8], token: Token) -> bool {
        either!(&self.form, it => it.holds(id, token))
    }

    /// Lists what is held under a token of a client's own choice, in the order of delivery, unless its lease has run out
    /// at `now`. Costs O(log n), and what is shown; a small lawn looks at all it has.
    pub fn held(&self, token: Token, now: u64) -> impl Iterator<Item = Element<'_>> {
        let (small, full) = match &self.form {
            Form::Small(small) => (Some(small.held(token, now)), None),
            Form::Full(full) => (None, Some(full.held(token, now))),
        };
        let all = small.into_iter().flatten().chain(full.into_iter().flatten());
        all.filter(move |_| token.is_chosen())
    }

    /// Returns whether any element is held under a token.
    pub fn has_tokens(&self) -> bool {
        self.leased() > 0
    }

    /// Returns how many elements are held under a token, whether their lease has run out or not. O(1).
    pub fn leased(&self) -> usize {
        either!(&self.form, it => it.leased())
    }

    /// Returns how many leases run: how many elements are held whose deadline is yet to come, but for those that never come
    /// due ([`DEADLINE_MAX`]). O(log n); a small lawn looks at all it has.
    pub fn running(&self, now: u64) -> usize {
        either!(&self.form, it => it.running(now))
    }

    /// Returns when the first of the leases that run at this time runs out. Costs what [`Lawn::running`] does.
    pub fn first_end(&self, now: u64) -> Option<u64> {
        either!(&self.form, it => it.first_end(now))
    }

    /// Returns how many elements were given out under a lease and not settled, whether it has run out or not.
    pub fn delivered(&self) -> usize {
        either!(&self.form, it => it.delivered())
    }

    /// Returns when the next element comes due, or came due. Exact at all times.
    pub fn next_deadline(&self) -> Option<u64> {
        either!(&self.form, it => it.next_deadline())
    }

    /// Works out whose turn is first, so that asking that, and for the next deadline, costs a read until something is taken
    /// out. Otherwise each question walks over the queues whose heads have changed. O(log TTLs) for each of these. Returns the
    /// next deadline.
    #[inline]
    pub fn settle_first(&mut self) -> Option<u64> {
        match &mut self.form {
            Form::Small(small) => small.next_deadline(),
            Form::Full(full) => full.settle_first(),
        }
    }

    /// Returns the element whose turn is first.
    pub fn first(&self) -> Option<Element<'_>> {
        either!(&self.form, it => it.first_element())
    }

    /// Returns how many elements are due at `now`. Looks at each queue once for each block, which holds up to 62, and at each
    /// block of the timeline.
    pub fn count_due(&self, now: u64) -> usize {
        either!(&self.form, it => it.count_due(now))
    }

    /// Returns how many TTLs there are, those of elements in the timeline counted one by one.
    pub fn ttls(&self) -> usize {
        either!(&self.form, it => it.ttls())
    }

    /// Counts the elements of each TTL, by TTL. Looks at sixteen bytes for each block, which holds up to 62 elements, and
    /// at each element in the timeline; a small lawn looks at all it has.
    pub fn counts_by_ttl(&self) -> BTreeMap<u64, usize> {
        either!(&self.form, it => it.counts_by_ttl())
    }

    /// Shows about `count` elements, from `cursor` on, and returns the cursor to carry on with; 0 is
    /// both the beginning and the end. An element that is there from beginning to end is shown exactly
    /// once, whatever comes and goes meanwhile; one that is not may be shown or not.
    ///
    /// A small lawn shows all it has. Otherwise it costs O(count), and the length of a table of the index, up to 3,584
    /// entries, for each that shows nothing.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut show: impl FnMut(Element<'a>)) -> u64 {
        match &self.form {
            Form::Small(small) => {
                small.iter_until(DEADLINE_MAX).for_each(|(_, element)| show(element));
                0
            }
            Form::Full(full) => full.scan(cursor, count, show),
        }
    }

    /// Shows all elements in order of delivery, each with the TTL it was started with.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_until(DEADLINE_MAX)
    }

    /// Does what [`Lawn::iter`] does, of the elements that are due at `now`. Costs nothing for what is not.
    pub fn iter_until(&self, now: u64) -> Iter<'_> {
        Iter::of(match &self.form {
            Form::Small(small) => InForm::Small(small.iter_until(now)),
            Form::Full(full) => InForm::Full(full.iter_until(now)),
        })
    }

    /// Shows the elements from a place in the order of delivery on whose deadline is at or before `end`, taking nothing.
    ///
    /// Costs O(TTLs) for those whose first element is before that place, and O(log TTLs) for each element that is
    /// shown, whatever lies before it. A small lawn has no numbers: it shows all that has the deadline of that place.
    pub fn rows(&self, start: Start, end: u64) -> Rows<'_> {
        match &self.form {
            Form::Small(small) => Rows::Small(small.iter_until(end), start.deadline),
            Form::Full(full) => Rows::Full(full.rows(start, end)),
        }
    }

    /// Returns the element of that id, as [`Lawn::rows`] shows it.
    pub fn row(&self, id: &[u8]) -> Option<Row<'_>> {
        match &self.form {
            Form::Small(small) => small.row(id),
            Form::Full(full) => full.row(id),
        }
    }

    /// Returns whether [`Lawn::compact`] would find something to do. O(1).
    pub fn is_sparse(&self) -> bool {
        match &self.form {
            Form::Small(_) => false,
            Form::Full(full) => full.is_sparse(),
        }
    }

    /// Moves some `moves` records, or blocks with so many, so that pages left half empty can be given
    /// back. Returns whether there may be more to do. The content does not change.
    pub fn compact(&mut self, moves: usize) -> bool {
        match &mut self.form {
            Form::Small(_) => false,
            Form::Full(full) => full.compact(moves),
        }
    }

    /// Lets `mover` move the lawn's allocations, beginning with step `from`, while `go_on` says so. Returns the step to
    /// carry on with, or `None` at the end. See [`Full::defrag`].
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        go_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        if let Form::Small(small) = &mut self.form {
            small.defrag(mover);
            return None;
        }
        if from == 0
            && let Form::Full(full) = std::mem::take(&mut self.form)
        {
            self.form = Form::Full(mover.relocate_box(full));
        }
        self.full().defrag(from, mover, go_on)
    }

    /// Returns the bytes allocated, the lawn's own fields included. Costs O(pages), one for some hundreds of
    /// elements.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + match &self.form {
                Form::Small(small) => small.memory(),
                Form::Full(full) => full.memory() - size_of::<Full>() + rounded(size_of::<Full>()),
            }
    }

    /// Takes it apart, so that the caller can free it in steps.
    pub(super) fn into_rest(self) -> Box<dyn Iterator<Item = ()>> {
        match self.form {
            Form::Small(small) => Box::new(std::iter::once(small).map(drop)),
            Form::Full(full) => Box::new(full.into_rest()),
        }
    }

    /// Returns about how many allocations dropping it will free. O(1).
    pub fn allocations(&self) -> usize {
        match &self.form {
            Form::Small(_) => 1,
            Form::Full(full) => 1 + full.allocations(),
        }
    }

    /// Gives it the full form for good, and returns that.
    fn full(&mut self) -> &mut Full {
        if let Form::Small(small) = &self.form {
            let full = grown(small, self.shared.hasher.clone());
            self.form = Form::Full(full);
        }
        match &mut self.form {
            Form::Full(full) => full,
            Form::Small(_) => unreachable!("it was small until now"),
        }
    }

    /// Returns the parts of a lawn that is not small.
    #[cfg(test)]
    pub(super) fn parts(&self) -> &Full {
        match &self.form {
            Form::Full(full) => full,
            Form::Small(_) => panic!("a small lawn has no parts"),
        }
    }

    /// Does what [`Lawn::parts`] does.
    #[cfg(test)]
    pub(super) fn parts_mut(&mut self) -> &mut Full {
        match &mut self.form {
            Form::Full(full) => full,
            Form::Small(_) => panic!("a small lawn has no parts"),
        }
    }

    /// Panics unless all parts agree with each other. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        either!(&self.form, it => it.check());
    }
}

impl fmt::Debug for Lawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lawn").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Puts what is in a small lawn into the other form, in the same order.
#[cold]
fn grown(small: &Small, hasher: RandomState) -> Box<Full> {
    let mut full = Box::new(Full::new(hasher));
    for (ttl, element) in small.iter_until(DEADLINE_MAX) {
        let Element { id, payload, deadline, deliveries } = element;
        full.start_at(id, ttl, payload, deadline).expect("there is room for the first few");
        if deliveries > 0 {
            full.set_deliveries(id, deliveries, small.token(&element));
        }
    }
    full
}
