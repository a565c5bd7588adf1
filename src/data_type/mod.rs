//! The native type: its registration with the server, and the ways in which commands open a dehydrator.
//!
//! A key's value is a boxed [`Dehydrator`], which belongs to the keyspace. The server loads, saves, copies, measures
//! and frees it through the callbacks here. Commands reach it through an open key, as [`Reading`] or [`Writing`].
//!
//! | module | contents |
//! |---|---|
//! | this file | the type, and reading a key |
//! | `writing` | changing a key, and recording future work in [`pending`](crate::pending) |
//! | `schedules` | the schedules of a key, changed as an effect says or a visit decides |
//! | `room` | whether limits leave room for an element |
//! | `removal` | removing elements, each with its effect, and remembering their ids |
//! | `restarts` | restarting timers of elements, each with its effect |
//! | `upkeep` | the upkeep of a key, in a budget of time: compaction (which the lawn does in steps), forgetting expired ids, ending pauses of groups; recording a renamed key under its new name |
//! | `callbacks` | the server's callbacks: load, save, rewrite of the append-only file, copy, measure, free, defragment |
//! | `dehydrator` | the value: a lawn and its rules; the marks of stuck dead letters, which `delivery` moves and retries |
//! | `availability` | deadlines, pauses and limits: how many elements may be given out now, and when the next may |
//! | `census` | the totals of all dehydrators |
//! | `copy` | copies of elements |
//! | `encoding` | the format of an RDB file, a full sync and a DUMP: writing and reading it |
//! | `fields` | a payload in memory, for tests of the encodings and the fuzzer |

mod availability;
mod callbacks;
mod census;
mod copy;
mod dehydrator;
mod encoding;
#[cfg(test)]
mod fields;
mod removal;
mod restarts;
pub mod room;
mod schedules;
mod upkeep;
mod writing;

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, LazyLock};

use ahash::RandomState;
use redis_module::raw::RedisModuleType;

use crate::clock;
use crate::config;
use crate::pending::agenda::{self, Reason};
use crate::policy::{self, Rules};
use crate::server::error::Result;
use crate::server::hold::Hold;
use crate::server::{Context, Key, Str, publishes_module_events};
use lawn::{Lawn, Shared};

pub use availability::DEAD_LETTERS_MAX;
pub use callbacks::register;
pub use census::totals;
pub use copy::ElementCopy;
pub use dehydrator::{
    Dehydrator, NEVER, REJECTED, RETRY_MS, STUCK, end, end_within, ends_lease, is_stuck, postponed,
    runs, stays_dead,
};
pub use removal::Removal;
pub use restarts::Restarts;
pub use schedules::Occurrence;
pub use upkeep::{compact, fit_some_groups, forget_expired, note_found};
pub use writing::{Writing, restore_expiry};

/// The type, once registered.
static TYPE: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// State shared by all lawns. The hash key of the tables of ids is drawn at random once per process, so that nobody can
/// choose colliding ids.
static SHARED: LazyLock<Arc<Shared>> =
    LazyLock::new(|| Arc::new(Shared::new(RandomState::new(), config::small_max)));

fn new_lawn() -> Lawn {
    Lawn::new(Arc::clone(&SHARED))
}

/// Returns the dehydrator in a key. `None` if there is no key.
fn dehydrator_in(key: &Key<'_>) -> Result<Option<NonNull<Dehydrator>>> {
    Ok(key.value(TYPE.load(Ordering::Relaxed))?.map(NonNull::cast))
}

/// Returns whether the module must know a dehydrator's name: because the module has work when an element comes due or is
/// too late, or a pause ends, or because a client subscribes to events.
pub fn is_on_agenda(dehydrator: &Dehydrator) -> bool {
    !dehydrator.is_plain()
        || dehydrator.tracking.has_stuck()
        || dehydrator.lawn.first_expiry().is_some()
        || publishes_module_events()
}

/// An open key and the dehydrator in it, which is held.
struct Opened<'a> {
    value: Option<NonNull<Dehydrator>>,
    key: Key<'a>,
    /// The right to refer to `value`.
    hold: Hold,
}

impl<'a> Opened<'a> {
    fn new(key: Key<'a>) -> Result<Self> {
        Ok(Self { value: dehydrator_in(&key)?, key, hold: Hold::begin() })
    }

    #[inline]
    fn dehydrator(&self) -> Option<&Dehydrator> {
        // SAFETY: the value is of our type, so a `Box<Dehydrator>` made it. It lives until the key is closed or other
        // code runs. While it is held, no other code runs or has a reference to it.
        Some(unsafe { self.value?.as_ref() })
    }

    #[inline]
    fn dehydrator_mut(&mut self) -> Option<&mut Dehydrator> {
        // SAFETY: as in `dehydrator`.
        Some(unsafe { self.value?.as_mut() })
    }
}

/// A dehydrator that is open for reading. `None` if there is no key.
pub struct Reading<'a>(Option<Opened<'a>>);

impl<'a> Reading<'a> {
    /// Opens a key. Fails with [`Error::WRONG_TYPE`](crate::server::Error::WRONG_TYPE).
    pub fn open(context: &'a Context, name: Str<'_>) -> Result<Self> {
        let reading = Self(Key::open_to_read(context, name).map(Opened::new).transpose()?);
        // Only ReDe's dumps contain idle ones. A read must not delete; the tick will.
        if let Some(idle) = reading.dehydrator().filter(|dehydrator| dehydrator.is_idle()) {
            let (db, now_us) = (context.selected_db(), clock::monotonic_us());
            agenda::note_upkeep(&idle.tracking, db, name.bytes(), Reason::Compact, now_us);
        }
        Ok(reading)
    }

    /// Returns the dehydrator. `None`: there is no key, which reads as an empty dehydrator.
    pub fn dehydrator(&self) -> Option<&Dehydrator> {
        self.0.as_ref()?.dehydrator()
    }

    /// Returns the dehydrator's rules, or those of an empty one.
    pub fn rules(&self) -> &Rules {
        self.dehydrator().map_or(&policy::DEFAULT, Dehydrator::rules)
    }

    pub fn lawn(&self) -> Option<&Lawn> {
        self.dehydrator().map(|dehydrator| &dehydrator.lawn)
    }
}

/// Reads a dehydrator without a trace in the keyspace. `None` if there is none. `look` must not call out: that panics.
pub fn inspect<T>(
    context: &Context,
    name: Str<'_>,
    look: impl FnOnce(&Dehydrator) -> T,
) -> Option<T> {
    let key = Key::open_to_inspect(context, name)?;
    inspect_open(&key, look)
}

/// Reads the dehydrator in an open key, as [`inspect`] does.
pub fn inspect_open<T>(key: &Key<'_>, look: impl FnOnce(&Dehydrator) -> T) -> Option<T> {
    let value = dehydrator_in(key).ok()??;
    let _hold = Hold::begin();
    // SAFETY: as in `Opened::dehydrator`; the key is open until the end.
    Some(look(unsafe { value.as_ref() }))
}
