//! The interface of every store of timers in this bench, and the lengths of ids and elements.

/// An id, as long as a UUID.
pub type Id = [u8; 16];
/// The payload of an id.
pub type Payload = [u8; 64];

/// A store of elements that each come due once. Time is an argument, in whole milliseconds.
///
/// A driver calls [`Store::expire`] (or [`Store::rearm`]) whenever time has advanced, before any other operation at the
/// new time: this is how wheels learn the time. TTLs are at least 1.
pub trait Store: Sized {
    /// The name on the command line and in charts.
    const NAME: &'static str;
    /// The name in tables.
    const LABEL: &'static str;
    /// The longest TTL that it accepts.
    const MAX_TTL: u64 = u64::MAX;
    /// Whether elements expire in the order of their deadlines even when `now` has jumped by more than a tick. If
    /// false, the scheme cannot do this without sorting.
    const IN_ORDER: bool = true;
    /// False for the floors: they keep no deadlines, and `expire` and `rearm` do nothing.
    const TIMERS: bool = true;

    fn new(now: u64) -> Self;

    /// Inserts an element. The id is new.
    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64);

    /// Gives an element a new timer. Returns whether the element exists.
    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool;

    /// Removes an element, due or not.
    fn stop(&mut self, id: &Id) -> Option<Payload>;

    /// Replaces the element with that id.
    fn replace(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        self.stop(id).expect("the element is there");
        self.start(id, payload, ttl, now);
    }

    /// Inserts an element with an absolute deadline, whatever the TTLs of others. The id is new, and the deadline is
    /// after `now`.
    fn start_at(&mut self, id: &Id, payload: &Payload, deadline: u64, now: u64) {
        self.start(id, payload, deadline - now, now);
    }

    /// Gives an element an absolute deadline. Returns whether the element exists.
    fn restart_at(&mut self, id: &Id, deadline: u64, now: u64) -> bool {
        self.restart(id, deadline - now, now)
    }

    /// Replaces the element with that id, with an absolute deadline.
    fn replace_at(&mut self, id: &Id, payload: &Payload, deadline: u64, now: u64) {
        self.replace(id, payload, deadline - now, now);
    }

    /// Removes all elements that are due at `now`.
    fn expire(&mut self, now: u64, sink: &mut impl FnMut(&Id, &Payload));

    /// Restarts all elements that are due at `now`, each with a TTL that the caller draws, and returns their number.
    /// The elements stay, so a store need not touch its table of ids. Called at every tick: a simple wheel would
    /// overflow if `now` jumped.
    fn rearm(&mut self, now: u64, ttl: &mut impl FnMut() -> u64) -> usize;
}
