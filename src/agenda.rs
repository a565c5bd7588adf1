//! Which dehydrators the module looks at of its own accord, and when.
//!
//! A value does not know its name, so those that have something to do by themselves when an element comes
//! due, because they deliver it or because somebody listens for it, are noted here by database and name,
//! with their next deadline. One timer of the server's is set to the earliest; then, as at each tick,
//! [`attend`](register) takes them from here one after the other.
//!
//! A name may mean nothing any more, or something else, when its time comes: whoever takes it looks. A
//! name that is noted without knowing its deadline (by a load or a copy, where the key is not there yet) is
//! looked at by the next tick.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use hashbrown::{Equivalent, HashMap};
use redis_module::raw::RedisModuleCtx;

use crate::alarm::Alarm;
use crate::clock;
use crate::server::guard::guard;
use crate::server::key::Name;
use crate::server::{Context, Str};

/// The first wait after a failure, in milliseconds. It doubles with each that follows.
const BACK_OFF: u64 = 100;
/// The longest, in milliseconds: what is put right is noticed no later than this.
const BACK_OFF_MAX: u64 = 10_000;

/// What is known of a name.
#[derive(Default)]
struct Entry {
    /// When to look, in milliseconds since the epoch. `None`: something is due, which has been said, and
    /// which nobody asked to have delivered.
    at: Option<u64>,
    /// Whether it has been said that something is due.
    announced: bool,
    /// Deliveries that failed, one after the other.
    failures: u32,
    /// After a failure, not before this.
    not_before: u64,
}

#[derive(Default)]
struct Agenda {
    entries: HashMap<Rc<Name>, Entry, ahash::RandomState>,
    /// The times of the entries, earliest first.
    times: BTreeSet<(u64, Rc<Name>)>,
    alarm: Option<Alarm>,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static AGENDA: RefCell<Agenda> = RefCell::default();
    static ATTEND: Cell<fn(&Context)> = const { Cell::new(|_| {}) };
}

/// A name that is not a [`Name`] yet. It hashes as one.
#[derive(Hash)]
struct Named<'a> {
    db: i32,
    key: &'a [u8],
}

impl Equivalent<Rc<Name>> for Named<'_> {
    fn equivalent(&self, name: &Rc<Name>) -> bool {
        self.db == name.db && *self.key == *name.key
    }
}

/// What the timer calls.
pub fn register(attend: fn(&Context)) {
    ATTEND.set(attend);
}

/// How many names there are.
pub fn len() -> usize {
    // Also in the report of a crash, which may have happened in the middle of a change.
    AGENDA.with(|agenda| agenda.try_borrow().map_or(0, |agenda| agenda.entries.len()))
}

/// Says when the next element of a dehydrator comes due. `delivers`: it is to be looked at for as long as
/// something is due, not only once.
pub fn note(context: &Context, key: Str<'_>, next: Option<u64>, delivers: bool) {
    let named = Named { db: context.selected_db(), key: key.bytes() };
    AGENDA.with_borrow_mut(|agenda| {
        let Some(next) = next else {
            agenda.remove(&named);
            return;
        };
        let entry = agenda.entries.get_key_value(&named);
        let name = entry.map_or_else(|| Rc::new(Name::of(context, key)), |(name, _)| name.clone());
        let entry = agenda.entries.entry(Rc::clone(&name)).or_default();
        if next > clock::now() {
            entry.announced = false;
        }
        let at = (delivers || !entry.announced).then_some(next.max(entry.not_before));
        if agenda.reschedule(&name, at) {
            agenda.arm(context);
        }
    });
}

/// Notes a name, to be looked at by the next tick.
pub fn add(name: Name) {
    AGENDA.with_borrow_mut(|agenda| {
        let name = Rc::new(name);
        agenda.entries.entry(Rc::clone(&name)).or_default();
        agenda.reschedule(&name, Some(0));
    });
}

/// Whether a name is noted.
pub fn contains(name: &Name) -> bool {
    AGENDA.with_borrow(|agenda| agenda.entries.contains_key(&Named { db: name.db, key: &name.key }))
}

/// Forgets a name.
pub fn remove(name: &Name) {
    AGENDA.with_borrow_mut(|agenda| agenda.remove(&Named { db: name.db, key: &name.key }));
}

/// The next name whose time has come. It stays noted, without a time.
pub fn take(now: u64) -> Option<Rc<Name>> {
    AGENDA.with_borrow_mut(|agenda| {
        let (at, name) = agenda.times.first()?;
        if *at > now {
            return None;
        }
        let name = Rc::clone(name);
        agenda.reschedule(&name, None);
        Some(name)
    })
}

/// Says that there is more to do with a name, when others have had their turn.
pub fn again(name: &Rc<Name>, now: u64) {
    AGENDA.with_borrow_mut(|agenda| {
        agenda.reschedule(name, Some(now));
    });
}

/// Sets the timer to the earliest time there is.
pub fn arm(context: &Context) {
    AGENDA.with_borrow_mut(|agenda| agenda.arm(context));
}

/// Says that it is being said that something is due. Returns whether that is news.
pub fn announce(name: &Name) -> bool {
    AGENDA.with_borrow_mut(|agenda| {
        let entry = agenda.entries.get_mut(&Named { db: name.db, key: &name.key });
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.announced, true))
    })
}

/// Says that a delivery failed; it is tried again after a while, which grows. Returns whether it is the
/// first failure in a row.
pub fn failed(name: &Rc<Name>, now: u64) -> bool {
    AGENDA.with_borrow_mut(|agenda| {
        let Some(entry) = agenda.entries.get_mut(name) else { return false };
        let wait = BACK_OFF.saturating_mul(1 << entry.failures.min(16)).min(BACK_OFF_MAX);
        entry.failures = entry.failures.saturating_add(1);
        entry.not_before = now + wait;
        let (at, is_first) = (entry.not_before, entry.failures == 1);
        agenda.reschedule(name, Some(at));
        is_first
    })
}

/// Says that a delivery went well, or that it is another one from here on.
pub fn succeeded(name: &Name) {
    AGENDA.with_borrow_mut(|agenda| {
        let entry = agenda.entries.get_mut(&Named { db: name.db, key: &name.key });
        if let Some(entry) = entry {
            (entry.failures, entry.not_before) = (0, 0);
        }
    });
}

/// A database was emptied, or all (`None`).
pub fn flushed(db: Option<i32>) {
    AGENDA.with_borrow_mut(|agenda| {
        agenda.entries.retain(|name, _| db.is_some_and(|db| db != name.db));
        agenda.times.retain(|(_, name)| db.is_some_and(|db| db != name.db));
    });
}

/// The contents of two databases were exchanged.
pub fn swapped(first: i32, second: i32) {
    AGENDA.with_borrow_mut(|agenda| {
        let is_one = |name: &Rc<Name>| name.db == first || name.db == second;
        agenda.times.retain(|(_, name)| !is_one(name));
        let moved: Vec<_> = agenda.entries.extract_if(|name, _| is_one(name)).collect();
        for (name, entry) in moved {
            let db = if name.db == first { second } else { first };
            let name = Rc::new(Name { db, key: name.key.clone() });
            agenda.times.extend(entry.at.map(|at| (at, Rc::clone(&name))));
            agenda.entries.insert(name, entry);
        }
    });
}

/// The whole keyspace is another one: all names are looked at by the next tick.
pub fn revise() {
    AGENDA.with_borrow_mut(|agenda| {
        let names: Vec<_> = agenda.entries.keys().cloned().collect();
        for name in names {
            agenda.reschedule(&name, Some(0));
        }
    });
}

impl Agenda {
    /// Returns whether it is now the first one.
    fn reschedule(&mut self, name: &Rc<Name>, at: Option<u64>) -> bool {
        let Some(entry) = self.entries.get_mut(name) else { return false };
        let before = std::mem::replace(&mut entry.at, at);
        if before == at {
            return false;
        }
        if let Some(before) = before {
            self.times.remove(&(before, Rc::clone(name)));
        }
        let Some(at) = at else { return false };
        self.times.insert((at, Rc::clone(name)));
        self.times.first().is_some_and(|(_, first)| first == name)
    }

    fn remove(&mut self, named: &Named<'_>) {
        if let Some((name, Entry { at: Some(at), .. })) = self.entries.remove_entry(named) {
            self.times.remove(&(at, name));
        }
    }

    fn arm(&mut self, context: &Context) {
        let Some((at, _)) = self.times.first() else { return };
        if self.alarm.as_ref().is_some_and(|alarm| alarm.is_in_time_for(*at)) {
            return;
        }
        if let Some(alarm) = self.alarm.take() {
            alarm.stop(context);
        }
        self.alarm = Some(Alarm::set(context, *at, on_alarm, ptr::null_mut()));
    }
}

unsafe extern "C" fn on_alarm(context: *mut RedisModuleCtx, _data: *mut c_void) {
    guard((), || {
        AGENDA.with_borrow_mut(|agenda| agenda.alarm = None);
        // SAFETY: the server hands out a context for the length of this call.
        ATTEND.get()(&unsafe { Context::from_raw(context) });
    });
}
