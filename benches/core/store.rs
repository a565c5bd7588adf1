//! What every store of timers in this bench can do, and how long and how named its elements are.

/// An id, as long as a UUID.
pub type Id = [u8; 16];
/// What is put away under an id.
pub type Payload = [u8; 64];

/// A store of elements that each come due once. Time is whole milliseconds and is an argument.
///
/// A driver calls [`Store::expire`] (or [`Store::rearm`]) whenever time has moved on, before it does
/// anything else at the new time: wheels have a notion of now, and this is how they are told. TTLs are
/// at least 1.
pub trait Store: Sized {
    /// What it is called on the command line and in charts.
    const NAME: &'static str;
    /// What it is called in tables.
    const LABEL: &'static str;
    /// The longest TTL that it takes.
    const MAX_TTL: u64 = u64::MAX;
    /// Whether elements expire in the order of their deadlines even when `now` has jumped by more than
    /// a tick. Where it is false the scheme cannot, short of sorting what it found.
    const IN_ORDER: bool = true;
    /// False for the floors: they keep no deadlines, `expire` and `rearm` do nothing.
    const TIMERS: bool = true;

    fn new(now: u64) -> Self;

    /// Puts an element away. The id is not there yet.
    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64);

    /// Gives an element a new timer. Returns whether there is such an element.
    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool;

    /// Takes an element out, due or not.
    fn stop(&mut self, id: &Id) -> Option<Payload>;

    /// Starts an element anew, in the place of the one with that id.
    fn replace(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        self.stop(id).expect("the element is there");
        self.start(id, payload, ttl, now);
    }

    /// Puts an element away that comes due at a moment which the caller names, whatever TTLs others have. The id is not
    /// there yet, and the moment is after `now`.
    fn start_at(&mut self, id: &Id, payload: &Payload, deadline: u64, now: u64) {
        self.start(id, payload, deadline - now, now);
    }

    /// Gives an element a moment to come due at. Returns whether there is such an element.
    fn restart_at(&mut self, id: &Id, deadline: u64, now: u64) -> bool {
        self.restart(id, deadline - now, now)
    }

    /// Starts an element anew that comes due at a moment, in the place of the one with that id.
    fn replace_at(&mut self, id: &Id, payload: &Payload, deadline: u64, now: u64) {
        self.replace(id, payload, deadline - now, now);
    }

    /// Takes out all that is due at `now`.
    fn expire(&mut self, now: u64, sink: &mut impl FnMut(&Id, &Payload));

    /// Starts all that is due at `now` again, each with a TTL that the caller draws, and returns how
    /// many there were. The elements stay, so that a store need not touch its table of ids. Called at
    /// every tick: a simple wheel would overflow if `now` ran ahead of it.
    fn rearm(&mut self, now: u64, ttl: &mut impl FnMut() -> u64) -> usize;
}
