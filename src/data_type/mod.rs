//! The native type: its registration with the server, and the ways in which commands open a dehydrator.
//!
//! A key's value is a boxed [`Dehydrator`], which belongs to the keyspace. The server loads, saves, copies, measures
//! and frees it through the callbacks here. Commands reach it through an open key, as [`Reading`] or [`Writing`].
//!
//! | module | noun |
//! |---|---|
//! | this file | the type, and reading a key |
//! | `writing` | changing a key, removing elements, and recording future work in [`pending`](crate::pending) |
//! | `upkeep` | giving memory back, and forgetting expired ids |
//! | `callbacks` | the server's callbacks: load, save, copy, measure, free, defragment |
//! | `dehydrator` | the value: a lawn, its rules, its share of the census |
//! | `copy` | copies of elements |
//! | `remembered_ids` | the ids that a dehydrator remembers |
//! | `encoding` | the format of an RDB file, a full sync and a DUMP |
//! | `fields` | a payload in memory, for tests of the encodings and the fuzzer |

mod callbacks;
mod copy;
mod dehydrator;
mod encoding;
#[cfg(test)]
mod fields;
mod remembered_ids;
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
use crate::server::error::Result;
use crate::server::hold::Hold;
use crate::server::notify::publishes_module_events;
use crate::server::{Context, Key, Str};
use lawn::{Lawn, Shared};

pub use callbacks::register;
pub use copy::ElementCopy;
pub use dehydrator::{
    Census, DEAD_LETTERS_MAX, Dehydrator, NEVER, REJECTED, STUCK, is_dead, is_stuck, runs,
};
pub use upkeep::{compact, forget_expired_ids, note_found};
pub use writing::{Writing, restore_expiry};

/// The type, once registered.
static TYPE: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// State shared by all lawns. The hash key of the tables of ids is drawn at random once per process, so that nobody can
/// choose colliding ids.
static SHARED: LazyLock<Arc<Shared>> =
    LazyLock::new(|| Arc::new(Shared::new(RandomState::new(), config::small_max)));

fn kind() -> *mut RedisModuleType {
    TYPE.load(Ordering::Relaxed)
}

fn new_lawn() -> Lawn {
    Lawn::new(Arc::clone(&SHARED))
}

/// Returns the dehydrator in a key. `None` if there is no key.
fn dehydrator_in(key: &Key<'_>) -> Result<Option<NonNull<Dehydrator>>> {
    Ok(key.value(kind())?.map(NonNull::cast))
}

/// Returns whether the module must know a dehydrator's name: because the module has work when an element comes due or a
/// pause ends, or because a client subscribes to events.
pub fn is_scheduled(dehydrator: &Dehydrator) -> bool {
    !dehydrator.has_default_rules()
        || dehydrator.tracking().has_stuck()
        || publishes_module_events()
}

/// A dehydrator that is open for reading.
pub struct Reading<'a> {
    /// `None` if there is no key.
    open: Option<Open<'a>>,
}

/// A value, and the guards that keep it alive.
struct Open<'a> {
    value: NonNull<Dehydrator>,
    _key: Key<'a>,
    _hold: Hold,
}

impl<'a> Reading<'a> {
    /// Opens a key.
    ///
    /// # Errors
    ///
    /// [`Error::WrongType`](crate::server::Error::WrongType).
    pub fn open(context: &'a Context, name: Str<'_>) -> Result<Self> {
        let Some(key) = Key::open_to_read(context, name) else { return Ok(Self { open: None }) };
        let value = dehydrator_in(&key)?;
        let reading =
            Self { open: value.map(|value| Open { value, _key: key, _hold: Hold::begin() }) };
        // Only ReDe's dumps contain idle ones. A read must not delete; the tick will.
        if let Some(idle) = reading.dehydrator().filter(|dehydrator| dehydrator.is_idle()) {
            let (db, now_us) = (context.selected_db(), clock::monotonic_us());
            agenda::note_upkeep(idle.tracking(), db, name.bytes(), Reason::Compact, now_us);
        }
        Ok(reading)
    }

    /// Returns the dehydrator. `None`: there is no key, which reads as an empty dehydrator.
    pub fn dehydrator(&self) -> Option<&Dehydrator> {
        // SAFETY: the value is of our type, so a `Box<Dehydrator>` made it. It lives until the key is closed or other
        // code runs. While it is held, no other code runs or has a reference to it.
        self.open.as_ref().map(|open| unsafe { open.value.as_ref() })
    }

    /// Returns the lawn in the dehydrator.
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
    // SAFETY: as in `Reading::dehydrator`; the key is open until the end.
    Some(look(unsafe { value.as_ref() }))
}
