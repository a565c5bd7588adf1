//! A lawn in the form that suits its size: [`Small`] at first, [`Full`] once it outgrows the small form.
//!
//! The form affects memory and time only. No method's result depends on it, except where its documentation says so. The
//! form changes once, in one step that is bounded by the limits of the small form. It never changes back: a lawn that
//! was large is likely to grow again, and one near the limit would be rebuilt over and over. The owner drops an empty
//! lawn that it no longer needs, and the next one starts small.
//!
//! The change keeps a scan's promise, because a small lawn shows everything in one call, whatever the cursor.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;

use super::element::{Counts, Element, Row};
use super::element::{StartError, UpdateError};
use super::full::Full;
use super::lease::Token;
use super::memory::{Mover, Steps, rounded};
use super::queues::Walk;
use super::rank::{DEADLINE_MAX, Start};
use super::shared::Shared;
use super::small::{Small, SmallRows};

#[derive(Clone)]
pub(super) enum Form {
    Small(Small),
    Full(Box<Full>),
}

impl Default for Form {
    fn default() -> Self {
        Self::Small(Small::default())
    }
}

/// Evaluates the same expression for either form.
macro_rules! either {
    ($form:expr, $it:ident => $value:expr) => {
        match $form {
            Form::Small($it) => $value,
            Form::Full($it) => $value,
        }
    };
}

pub(super) use either;

/// A store of elements that each come due once. See the [module](super).
#[derive(Clone)]
pub struct Lawn {
    pub(super) form: Form,
    shared: Arc<Shared>,
}

/// An element that was taken out. Its bytes are read in place, and freed on drop.
pub struct Taken<'a> {
    pub(super) form: &'a mut Form,
    /// The element's offset in a small lawn, or the bits of its record's handle in a full one. Both fit into a register
    /// beside the form; every command that takes an element out creates and drops a `Taken`.
    pub(super) at: usize,
}

impl Taken<'_> {
    #[inline(always)]
    pub fn element(&self) -> Element<'_> {
        either!(&*self.form, it => it.at(self.at))
    }
}

impl Drop for Taken<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        either!(self.form, it => it.free(self.at))
    }
}

impl Lawn {
    /// Creates an empty lawn. It allocates nothing.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { form: Form::default(), shared }
    }

    /// Creates an empty lawn with the same [`Shared`].
    pub fn another(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }

    /// Returns whether the lawn is in the small form: one allocation.
    pub fn is_small(&self) -> bool {
        matches!(self.form, Form::Small(_))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        either!(&self.form, it => it.len())
    }

    /// Returns all counters. O(1).
    #[inline]
    pub fn counts(&self) -> Counts {
        either!(&self.form, it => it.counts())
    }

    /// Returns whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the deadline `ttl` milliseconds after `now`. Fails with [`StartError::TooLate`].
    pub fn deadline(ttl: u64, now: u64) -> Result<u64, StartError> {
        match now.checked_add(ttl) {
            Some(deadline) if deadline <= DEADLINE_MAX => Ok(deadline),
            _ => Err(StartError::TooLate),
        }
    }

    /// Starts an element in the queue of `ttl` that comes due at `deadline`, mostly [`Lawn::deadline`]. Replicas, dumps
    /// and imports insert elements with other deadlines. Fails with [`StartError`]; then nothing has changed.
    #[inline]
    pub fn start_at(
        &mut self,
        id: &[u8],
        ttl: u64,
        payload: &[u8],
        deadline: u64,
    ) -> Result<(), StartError> {
        self.start(ttl, &Element::new(id, payload, deadline))
    }

    /// Starts an element as [`Lawn::start_at`] does, with its bounds. [`Lawn::set_deliveries`] sets its deliveries. Fails
    /// with [`StartError`]; then nothing has changed.
    #[inline]
    pub fn start(&mut self, ttl: u64, new: &Element<'_>) -> Result<(), StartError> {
        match &mut self.form {
            Form::Small(_) => self.start_small(ttl, new, None),
            Form::Full(full) => full.start(ttl, new),
        }
    }

    /// Does what [`Lawn::start_in_group`] does, for a lawn in the small form. A function of its own, so that starts in a full
    /// lawn need no more than one call.
    #[inline(never)]
    pub(super) fn start_small(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<&[u8]>,
    ) -> Result<(), StartError> {
        let max = (self.shared.small_max)();
        if let Form::Small(small) = &mut self.form
            && small.join(group, max)
            && let Some(done) = small.start(ttl, new, max)
        {
            return done;
        }
        match group {
            None => self.full().start(ttl, new),
            Some(group) => self.put(group, new, |full, group| full.insert(ttl, new, Some(group))),
        }
    }

    /// Starts an element as [`Lawn::start`] does, and replaces an element with the same id. Fails with [`StartError`],
    /// but not [`StartError::Exists`]; then nothing has changed.
    pub fn replace(&mut self, ttl: u64, new: &Element<'_>) -> Result<(), StartError> {
        match &mut self.form {
            Form::Small(_) => self.replace_small(ttl, new, None),
            Form::Full(full) => full.replace(ttl, new, None),
        }
    }

    /// Does what [`Lawn::replace_in_group`] does, for a lawn in the small form.
    pub(super) fn replace_small(
        &mut self,
        ttl: u64,
        new: &Element<'_>,
        group: Option<&[u8]>,
    ) -> Result<(), StartError> {
        if new.deadline > DEADLINE_MAX {
            return Err(StartError::TooLate);
        }
        drop(self.stop(new.id));
        self.start_small(ttl, new, group)
    }

    /// Restarts an element's timer. The element comes after all others with the same deadline. A TTL of 0 gives the
    /// element back: its token is dropped. Returns whether the element exists.
    #[inline]
    pub fn restart_at(&mut self, id: &[u8], ttl: u64, deadline: u64) -> bool {
        either!(&mut self.form, it => it.restart_at(id, ttl, deadline))
    }

    /// Takes an element out, due or not.
    #[inline]
    pub fn stop(&mut self, id: &[u8]) -> Option<Taken<'_>> {
        let at = either!(&mut self.form, it => it.stop(id))?;
        Some(Taken { form: &mut self.form, at })
    }

    /// Takes an element out, if it is held under this token.
    pub fn settle(&mut self, id: &[u8], token: Token) -> Option<Taken<'_>> {
        let at = either!(&mut self.form, it => it.settle(id, token))?;
        Some(Taken { form: &mut self.form, at })
    }

    /// Returns the element with this id, due or not.
    pub fn look(&self, id: &[u8]) -> Option<Element<'_>> {
        match &self.form {
            Form::Small(small) => small.look(id),
            Form::Full(full) => Some(full.records.get(full.find(id)?).into()),
        }
    }

    /// Replaces an element's payload. The element keeps its deadline and its place in the order. Returns the element as
    /// it was before. Fails with [`UpdateError`]; then nothing has changed.
    pub fn update(&mut self, id: &[u8], payload: &[u8]) -> Result<Taken<'_>, UpdateError> {
        if let Form::Small(small) = &self.form
            && !small.may_update(id, payload, (self.shared.small_max)())
        {
            self.full();
        }
        let at = either!(&mut self.form, it => it.update(id, payload))?;
        Ok(Taken { form: &mut self.form, at })
    }

    /// Takes out up to `count` elements that are due at `now`, in order, and passes each to `give` with its TTL.
    /// Returns their number.
    pub fn drain(&mut self, now: u64, count: usize, give: impl FnMut(u64, Element<'_>)) -> usize {
        either!(&mut self.form, it => it.drain(now, count, give))
    }

    /// Leases the first element, if it is due at `now`: it stays in the lawn, is due again after `ttl` milliseconds, is
    /// held under `token`, and its deliveries grow by one. A lease is a TTL: the element moves into the queue of that
    /// TTL. `ttl` must not be 0, or the element would be due again at once, for ever. Returns the deadline that the
    /// element had, and the element.
    pub fn lease_due(
        &mut self,
        now: u64,
        ttl: u64,
        token: Option<Token>,
    ) -> Option<(u64, Element<'_>)> {
        either!(&mut self.form, it => it.lease_due(now, ttl, token))
    }

    /// Sets [`Bounds::until`](super::Bounds::until) of an element that has such a bound, to at most
    /// [`Bounds::UNTIL_MAX`](super::Bounds::UNTIL_MAX). Returns whether it has.
    pub fn set_until(&mut self, id: &[u8], until: u64) -> bool {
        either!(&mut self.form, it => it.set_until(id, until))
    }

    /// Returns whether any element has bounds. Visits all elements, if one had bounds once.
    pub fn has_bounds(&self) -> bool {
        either!(&self.form, it => it.has_bounds())
    }

    /// Returns when the first element may be given out, perhaps in the past: without groups its deadline, with them the earliest
    /// moment at which one of them may give.
    pub fn next_deadline(&self) -> Option<u64> {
        match &self.form {
            Form::Small(small) => small.next_deadline(),
            Form::Full(full) => Some(full.first()?.0.deadline),
        }
    }

    /// Returns when the first element is due and too late to be given out: see [`Bounds::until`](super::Bounds::until).
    /// Always exact. A small lawn visits all its elements.
    pub fn first_expiry(&self) -> Option<u64> {
        either!(&self.form, it => it.first_expiry())
    }

    /// Lists the elements that are due and too late at `now`, in the order in which they became so.
    pub fn expired(&self, now: u64) -> impl Iterator<Item = Row<'_>> {
        let (small, full) = match &self.form {
            Form::Small(small) => (Some(small.expired(now)), None),
            Form::Full(full) => (None, Some(full.expired(now))),
        };
        small.into_iter().flatten().chain(full.into_iter().flatten())
    }

    /// Brings the heap of queue heads up to date, so that [`Lawn::first`] and [`Lawn::next_deadline`] cost one read
    /// until an element is taken out. Otherwise each call visits all queues whose head has changed. O(log TTLs) for
    /// each of these queues. Returns the next deadline.
    #[inline]
    pub fn refresh_first(&mut self) -> Option<u64> {
        match &mut self.form {
            Form::Small(small) => small.next_deadline(),
            Form::Full(full) => full.refresh_first(),
        }
    }

    /// Returns the element that comes due first.
    pub fn first(&self) -> Option<Element<'_>> {
        match &self.form {
            Form::Small(small) => small.first_element(),
            Form::Full(full) => Some(full.records.get(full.first()?.1).into()),
        }
    }

    /// Returns the number of elements that are due at `now`. Visits each block (up to 64 elements) that is
    /// due, and reads six records of each queue.
    pub fn count_due(&self, now: u64) -> usize {
        either!(&self.form, it => it.count_due(now))
    }

    /// Counts the elements by TTL. Reads 16 bytes for each block of a queue (up to 64 elements), and visits each
    /// element of the timeline. A small lawn visits all its elements.
    pub fn counts_by_ttl(&self) -> BTreeMap<u64, usize> {
        either!(&self.form, it => it.counts_by_ttl())
    }

    /// Shows about `count` elements, from `cursor` on. Returns the cursor for the next call. 0 is both the start and
    /// the end. An element that is in the lawn from the first call to the last is shown exactly once, whatever is
    /// inserted and removed between calls. Any other element may or may not be shown.
    ///
    /// A small lawn shows everything in one call. A full lawn costs O(count).
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut show: impl FnMut(Element<'a>)) -> u64 {
        match &self.form {
            Form::Small(small) => {
                small.rows(0, DEADLINE_MAX).for_each(|row| show(row.element));
                0
            }
            Form::Full(full) => full.scan(cursor, count, show),
        }
    }

    /// Returns a bound for the bytes of an id and its payload, above which no element is. O(1).
    pub fn longest(&self) -> usize {
        match &self.form {
            Form::Small(small) => small.memory(),
            Form::Full(full) => full.records.longest(),
        }
    }

    /// Iterates over all elements in the order of delivery, each with its TTL.
    pub fn iter(&self) -> Elements<'_> {
        self.iter_until(DEADLINE_MAX)
    }

    /// Iterates as [`Lawn::iter`] does over the elements that are due at `now`. Elements that are not due cost nothing.
    pub fn iter_until(&self, now: u64) -> Elements<'_> {
        self.rows(Start::FIRST, now).map(|row| (row.ttl, row.element))
    }

    /// Iterates in the order of delivery from `start` to the last element whose deadline is at or before `end`.
    ///
    /// O(TTLs) to enter the queues whose first element is before `start`, then O(log TTLs) for each element. Elements
    /// before `start` cost nothing. A small lawn has no row numbers: it begins with all elements that have the deadline
    /// of `start`.
    pub fn rows(&self, start: Start, end: u64) -> Rows<'_> {
        match &self.form {
            Form::Small(small) => Rows::Small(small.rows(start.deadline, end)),
            Form::Full(full) => Rows::Full(full.rows(start, end)),
        }
    }

    /// Returns the element with this id as [`Lawn::rows`] shows it.
    pub fn row(&self, id: &[u8]) -> Option<Row<'_>> {
        either!(&self.form, it => it.row(id))
    }

    /// Returns whether [`Lawn::compact`] would move anything. O(1).
    pub fn is_sparse(&self) -> bool {
        match &self.form {
            Form::Small(_) => false,
            Form::Full(full) => full.is_sparse(),
        }
    }

    /// Moves about `moves` records so that half-empty pages can be freed. A block counts as many moves as it has
    /// handles. Returns whether there may be more to do. The content does not change.
    pub fn compact(&mut self, moves: usize) -> bool {
        match &mut self.form {
            Form::Small(_) => false,
            Form::Full(full) => full.compact(moves),
        }
    }

    /// Lets `mover` move the lawn's allocations from step `from` on, for as long as `go_on` returns true. Returns the
    /// step to resume at, or `None` at the end.
    pub fn defrag(
        &mut self,
        from: usize,
        mover: &mut impl Mover,
        mut go_on: impl FnMut() -> bool,
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
        let mut steps = Steps::new(from, mover, &mut go_on);
        self.full().defrag(&mut steps);
        steps.resume_at()
    }

    /// Returns the bytes allocated, including the lawn's own fields. O(pages): one page for some hundreds of elements.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + match &self.form {
                Form::Small(small) => small.memory(),
                Form::Full(full) => full.memory() - size_of::<Full>() + rounded(size_of::<Full>()),
            }
    }

    /// Returns roughly how many allocations dropping the lawn frees. O(1).
    pub fn allocations(&self) -> usize {
        match &self.form {
            Form::Small(_) => 1,
            Form::Full(full) => 1 + full.allocations(),
        }
    }

    /// Converts the lawn to the full form, for good, and returns that form.
    pub(super) fn full(&mut self) -> &mut Full {
        if let Form::Small(small) = &self.form {
            let full = to_full(small, self.shared.hasher.clone());
            self.form = Form::Full(full);
        }
        match &mut self.form {
            Form::Full(full) => full,
            Form::Small(_) => unreachable!("it was small until now"),
        }
    }

    /// Returns the full form, for tests of its parts.
    #[cfg(test)]
    pub(super) fn parts(&self) -> &Full {
        match &self.form {
            Form::Full(full) => full,
            Form::Small(_) => panic!("a small lawn has no parts"),
        }
    }

    /// Panics unless all parts agree. For tests.
    #[cfg(any(test, feature = "checks"))]
    pub fn check(&self) {
        either!(&self.form, it => it.check());
    }
}

/// Elements in the order of delivery. See [`Lawn::rows`].
pub enum Rows<'a> {
    Small(SmallRows<'a>),
    Full(Walk<'a>),
}

/// Elements in the order of delivery, each with its TTL. A named type, so that the compiler sees that dropping it reads
/// nothing of the lawn.
pub type Elements<'a> = std::iter::Map<Rows<'a>, fn(Row<'a>) -> (u64, Element<'a>)>;

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        match self {
            Self::Small(rows) => rows.next(),
            Self::Full(rows) => rows.next(),
        }
    }
}

/// Copies a small lawn into the full form, in the same order.
#[cold]
fn to_full(small: &Small, hasher: RandomState) -> Box<Full> {
    let mut full = Box::new(Full::new(hasher));
    let group = small.group().filter(|_| small.len() > 0);
    let group = group.and_then(|name| full.groups_mut().0.find_or_create(name));
    for Row { ttl, element, .. } in small.rows(0, DEADLINE_MAX) {
        full.insert(ttl, &element, group).expect("there is room for the first few");
        if element.deliveries > 0 {
            full.set_deliveries(element.id, element.deliveries, small.token(&element));
            let since = small.held_since(&element);
            since.into_iter().for_each(|since| _ = full.set_held_since(element.id, since));
        }
    }
    full
}
