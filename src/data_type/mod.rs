//! The native type: what the server is told of it, and how a command gets at a dehydrator.
//!
//! A key's value is a boxed [`Dehydrator`]. It belongs to the keyspace: the server asks for it to be loaded,
//! saved, copied, measured and freed through the callbacks here; commands reach it through an open
//! key, as [`Reading`] or [`Writing`].
//!
//! | module | noun |
//! |---|---|
//! | this file | the type, and looking at what is in a key |
//! | `writing` | changing what is in a key, and what is noted, in [`pending`](crate::pending), once it was |
//! | `compacting` | giving back memory |
//! | `callbacks` | what the server calls: load, save, copy, measure, free, defragment |
//! | `dehydrator` | the value: a lawn, its policy, what the census counts |
//! | `copy` | copies of elements |
//! | `past` | ids that a dehydrator remembers |
//! | `leaving` | taking elements out of a dehydrator that may remember their ids, and forgetting those |
//! | `encoding` | how it looks in an RDB file, a full sync and a DUMP |
//! | `fields` | a payload in memory, for tests of the encodings and the fuzzer |

mod callbacks;
mod compacting;
mod copy;
mod dehydrator;
mod encoding;
#[cfg(test)]
mod fields;
mod leaving;
mod past;
mod writing;

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, LazyLock};

use ahash::RandomState;
use redis_module::raw::RedisModuleType;

use crate::config;
use crate::pending::compaction;
use crate::server::error::Result;
use crate::server::hold::Hold;
use crate::server::notify::publishes_module_events;
use crate::server::{Context, Key, Str};
use lawn::{Lawn, Shared};

pub use callbacks::register;
pub use compacting::{Compacted, compact};
pub use copy::ElementCopy;
pub use dehydrator::{
    Census, DEAD_LETTERS_MAX, Dehydrator, NEVER, REJECTED, STUCK, is_dead, is_stuck, moved, runs,
    track_all,
};
pub use leaving::forget_some;
pub use writing::{Writing, restore_expiry};

/// The type, once it is registered.
static TYPE: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// What all lawns share. The key of the tables of ids is drawn at random once a process, so that nobody can choose ids
/// that collide.
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

/// Returns whether the module must know a dehydrator by name: it has something to do when an element comes due or a pause
/// ends, or somebody listens for that.
pub fn is_scheduled(dehydrator: &Dehydrator) -> bool {
    !dehydrator.has_default_rules()
        || dehydrator.tracking().has_stuck()
        || publishes_module_events()
}

/// A dehydrator that is open for looking at it.
pub struct Reading<'a> {
    /// `None` if there is none.
    open: Option<Open<'a>>,
}

/// What keeps a value alive, and where it is.
struct Open<'a> {
    value: NonNull<Dehydrator>,
    _key: Key<'a>,
    _hold: Hold,
}

impl<'a> Reading<'a> {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// [`Error::WrongType`](crate::server::Error::WrongType).
    pub fn open(context: &'a Context, name: Str<'_>) -> Result<Self> {
        let Some(key) = Key::open_to_read(context, name) else { return Ok(Self { open: None }) };
        let value = dehydrator_in(&key)?;
        let reading =
            Self { open: value.map(|value| Open { value, _key: key, _hold: Hold::begin() }) };
        // Only ReDe's dumps hold idle ones. A read must not delete; the tick will.
        if let Some(idle) = reading.dehydrator().filter(|dehydrator| dehydrator.is_idle()) {
            compaction::note(idle.tracking().mark(), context.selected_db(), name.bytes());
        }
        Ok(reading)
    }

    /// Returns the dehydrator. `None`: there is no such key, which reads as an empty one.
    pub fn dehydrator(&self) -> Option<&Dehydrator> {
        // SAFETY: the value is of our type, so a `Box<Dehydrator>` made it. It lives until the key is closed or somebody
        // else runs, and it is held: nobody does, nor has anybody else a reference to it.
        self.open.as_ref().map(|open| unsafe { open.value.as_ref() })
    }

    /// Returns the lawn in the dehydrator.
    pub fn lawn(&self) -> Option<&Lawn> {
        self.dehydrator().map(|dehydrator| &dehydrator.lawn)
    }
}

/// Looks at a dehydrator without a trace. `None` if there is none. While it is looked at, nobody can be called: it panics.
pub fn inspect<T>(
    context: &Context,
    name: Str<'_>,
    look: impl FnOnce(&Dehydrator) -> T,
) -> Option<T> {
    let key = Key::open_to_inspect(context, name)?;
    inspect_open(&key, look)
}

/// Looks at the dehydrator in a key that is open already, as [`inspect`] does.
pub fn inspect_open<T>(key: &Key<'_>, look: impl FnOnce(&Dehydrator) -> T) -> Option<T> {
    let value = dehydrator_in(key).ok()??;
    let _hold = Hold::begin();
    // SAFETY: as in `Reading::dehydrator`; the key is open until the end.
    Some(look(unsafe { value.as_ref() }))
}
