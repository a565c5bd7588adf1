//! The native type: what the server is told of it, and how a command gets at a dehydrator.
//!
//! A key's value is a boxed [`Lawn`]. It belongs to the keyspace: the server asks for it to be loaded,
//! saved, copied, measured and freed through the callbacks here; commands reach it through an open
//! key, as [`Reading`] or [`Writing`].

mod callbacks;
mod encoding;
#[cfg(test)]
mod fields;

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use ahash::RandomState;
use redis_module::raw::RedisModuleType;

use crate::lawn::Lawn;
use crate::server::error::Result;
use crate::server::{Context, Key, Str};
use crate::{replicate, untidy, waiters};

pub use callbacks::register;

/// The type, once it is registered.
static TYPE: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// Keys the tables of ids: drawn at random once a process, so that nobody can choose ids that
/// collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn kind() -> *mut RedisModuleType {
    TYPE.load(Ordering::Relaxed)
}

fn new_lawn() -> Lawn {
    Lawn::new(HASHER.clone())
}

/// The lawn in a key. `None` if there is no key.
fn lawn_in(key: &Key) -> Result<Option<NonNull<Lawn>>> {
    Ok(key.value(kind())?.map(NonNull::cast))
}

/// A dehydrator that is open for looking at it.
pub struct Reading {
    /// Keeps the value alive. `None` if there is none.
    open: Option<(Key, NonNull<Lawn>)>,
}

impl Reading {
    /// # Errors
    ///
    /// [`Error::WrongType`](crate::server::Error::WrongType).
    pub fn open(context: &Context, name: Str<'_>) -> Result<Self> {
        let Some(key) = Key::open_to_read(context, name) else { return Ok(Self { open: None }) };
        let reading = Self { open: lawn_in(&key)?.map(|lawn| (key, lawn)) };
        // Only ReDe's dumps hold empty ones. A read must not delete; the tick will.
        if reading.lawn().is_some_and(Lawn::is_empty) {
            untidy::note(context.selected_db(), name.bytes());
        }
        Ok(reading)
    }

    /// `None`: there is no such key, which reads as an empty dehydrator.
    pub fn lawn(&self) -> Option<&Lawn> {
        // SAFETY: the value is of our type, so a `Box<Lawn>` made it, and it lives at least until
        // the key is closed; the server runs nothing else meanwhile.
        self.open.as_ref().map(|(_, lawn)| unsafe { lawn.as_ref() })
    }
}

/// A dehydrator that is open for changing it.
pub struct Writing<'a> {
    context: &'a Context,
    name: Str<'a>,
    key: Key,
    lawn: Option<NonNull<Lawn>>,
}

impl<'a> Writing<'a> {
    /// # Errors
    ///
    /// [`Error::WrongType`](crate::server::Error::WrongType).
    pub fn open(context: &'a Context, name: Str<'a>) -> Result<Self> {
        let key = Key::open_to_write(context, name);
        let lawn = lawn_in(&key)?;
        Ok(Self { context, name, key, lawn })
    }

    /// The dehydrator, if there is one with elements in it. An empty one, which only ReDe's dumps
    /// hold, goes now.
    pub fn lawn(&mut self) -> Option<&mut Lawn> {
        if self.existing().is_some_and(|lawn| lawn.is_empty()) {
            self.delete();
            replicate::deleted(self.context, self.name);
        }
        self.existing()
    }

    /// Changes the dehydrator, which comes into being if there was none and the change succeeds.
    ///
    /// # Errors
    ///
    /// Those of `change`; then there is no new key.
    pub fn lawn_or_new<T, E>(
        &mut self,
        change: impl FnOnce(&mut Lawn) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if let Some(lawn) = self.existing() {
            return change(lawn);
        }
        let mut lawn = Box::new(new_lawn());
        let changed = change(&mut lawn)?;
        let value = NonNull::from(Box::leak(lawn));
        // SAFETY: the callbacks of our type expect a leaked `Box<Lawn>`, and this one is fresh.
        unsafe { self.key.set_value(kind(), value.cast::<c_void>()) };
        self.lawn = Some(value);
        Ok(changed)
    }

    /// Says that elements were added or changed.
    pub fn changed(mut self, event: &CStr) {
        self.settle();
        self.context.signal_modified(self.name);
        self.context.notify_module(event, self.name);
    }

    /// Says that elements were taken. A dehydrator without elements goes, as every collection does.
    pub fn shrunk(mut self, event: &CStr) {
        let is_empty = self.settle();
        self.context.signal_modified(self.name);
        self.context.notify_module(event, self.name);
        if is_empty {
            self.delete();
        }
    }

    /// Lets go of the value, so that what listens to events may do with it what it wants. Returns
    /// whether it is empty. If it holds memory that it could give back, the tick will see to it; if
    /// clients are asleep on it, they are told of the next deadline.
    fn settle(&mut self) -> bool {
        let Some(lawn) = self.existing() else { return false };
        let (is_empty, is_sparse) = (lawn.is_empty(), lawn.is_sparse());
        let next = lawn.next_deadline();
        if is_sparse && !is_empty {
            untidy::note(self.context.selected_db(), self.name.bytes());
        }
        waiters::note(self.context, self.name, next);
        self.lawn = None;
        is_empty
    }

    fn existing(&mut self) -> Option<&mut Lawn> {
        // SAFETY: as in `Reading::lawn`, and nothing else refers to the value while the key is open.
        self.lawn.as_mut().map(|lawn| unsafe { lawn.as_mut() })
    }

    fn delete(&mut self) {
        self.lawn = None;
        self.key.delete();
        self.context.signal_modified(self.name);
        self.context.notify_deleted(self.name);
    }
}

impl Drop for Writing<'_> {
    /// Also when nothing was changed: a name that was noted before may have become another since.
    fn drop(&mut self) {
        self.settle();
    }
}

/// Looks at a dehydrator without a trace. `None` if there is none.
pub fn inspect<T>(context: &Context, name: Str<'_>, look: impl FnOnce(&Lawn) -> T) -> Option<T> {
    let key = Key::open_to_inspect(context, name)?;
    let lawn = lawn_in(&key).ok()??;
    // SAFETY: as in `Reading::lawn`; the key is open until the end.
    Some(look(unsafe { lawn.as_ref() }))
}

/// What became of a dehydrator that was to be tidied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tidied {
    /// There is nothing to do, or nothing any more.
    Done,
    /// The budget ran out.
    More,
    /// It is empty, and may not be deleted at this moment.
    Later,
}

/// Moves records together so that memory can be given back, and deletes an empty dehydrator. Nothing
/// that can be read changes but for that, so nothing is signalled. `go_on` is asked after every few
/// moves.
pub fn tidy(context: &Context, name: Str<'_>, mut go_on: impl FnMut() -> bool) -> Tidied {
    /// A few microseconds' work.
    const MOVES: usize = 32;
    let Some(key) = Key::open_to_inspect(context, name) else { return Tidied::Done };
    let Ok(Some(mut lawn)) = lawn_in(&key) else { return Tidied::Done };
    // SAFETY: as in `Reading::lawn`. The key is open for reading so that nobody's WATCH breaks;
    // nothing else refers to the value meanwhile.
    let lawn = unsafe { lawn.as_mut() };
    if lawn.is_empty() {
        drop(key);
        if !context.may_replicate() {
            return Tidied::Later;
        }
        if let Ok(mut writing) = Writing::open(context, name) {
            writing.lawn();
        }
        return Tidied::Done;
    }
    while lawn.tidy(MOVES) {
        if !go_on() {
            return Tidied::More;
        }
    }
    Tidied::Done
}
