//! The server during one callback.
//!
//! | module | contents |
//! |---|---|
//! | this file | the context of a callback; notifications that a key changed: to replicas, to watchers, and as keyspace events; the context of a command, with the positions of its keys |
//! | `reply` | replies to the client |
//! | `flags` | the state of the server and of the running command |
//! | `call` | calls of server commands |
//! | `user` | the rights of a client's user |
//!
//! The other files add methods to [`Context`].

pub mod call;
pub mod flags;
pub mod reply;
pub mod user;

use std::cell::{Cell, OnceCell};
use std::ffi::{CStr, c_int};
use std::ops::Deref;
use std::ptr::NonNull;

use redis_module::raw::{self, RedisModuleCtx};

use crate::server::{Str, hold};

pub use user::ClientId;

/// A class of keyspace events.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum EventClass {
    /// The module's own events.
    Module = raw::REDISMODULE_NOTIFY_MODULE,
    /// Events of every type, like `del` when its last element is removed.
    Generic = raw::REDISMODULE_NOTIFY_GENERIC,
}

/// The server during one callback.
pub struct Context {
    raw: NonNull<RedisModuleCtx>,
    /// Set once a reply has begun. A second reply would put the connection out of step.
    replied: Cell<bool>,
    /// Set if this is the field of a [`CommandContext`].
    is_command: bool,
}

thread_local! {
    // The server calls modules on its main thread alone.
    static DETACHED: OnceCell<Context> = const { OnceCell::new() };
}

impl Context {
    /// Wraps the server's context.
    ///
    /// # Safety
    ///
    /// `raw` must be the context that the server passed to the running callback, and the result must not outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleCtx) -> Self {
        let raw = NonNull::new(raw).expect("the server passes a context");
        Self { raw, replied: Cell::new(false), is_command: false }
    }

    /// Creates the detached context, when the module is loaded.
    pub fn detach(&self) {
        // SAFETY: the context is live.
        let raw = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(self.as_ptr())) };
        let raw = NonNull::new(raw).expect("the server aborts rather than run out of memory");
        let context = Self { raw, replied: Cell::new(false), is_command: false };
        context.keep_ok();
        DETACHED.with(|it| _ = it.set(context));
    }

    /// Calls `run` with a context that belongs to no callback and no client, for callbacks that get none from the server. It
    /// cannot reply. Commands replicated with it are sent after the next command has run. `None`: there is no server.
    pub fn with_detached<T>(run: impl FnOnce(&Self) -> T) -> Option<T> {
        DETACHED.with(|context| context.get().map(run))
    }

    /// Returns the server's own pointer, for the API.
    pub fn as_ptr(&self) -> *mut RedisModuleCtx {
        self.raw.as_ptr()
    }

    /// Returns the database in which keys are opened.
    pub fn selected_db(&self) -> i32 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetSelectedDb(self.as_ptr())) }
    }

    /// Selects a database for the rest of this callback. Returns `false` if the number is out of range.
    pub fn select_db(&self, number: i32) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_SelectDb(self.as_ptr(), number)) == raw::REDISMODULE_OK as c_int }
    }

    /// Returns whether this callback runs one of the module's commands.
    pub fn is_command(&self) -> bool {
        self.is_command
    }

    /// Replicates the running command as the client sent it. Outside of a command, where nothing may listen to effects, the
    /// server only counts a change: that costs a tenth of replicating a command by its name.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is live. Where it runs no command, the server has given it a client without words.
        unsafe { api!(RedisModule_ReplicateVerbatim(self.as_ptr())) };
    }

    /// Returns whether the server asks for the positions of the command's keys ([`Context::key_at`]), and does not run the
    /// command.
    pub fn wants_keys(&self) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.as_ptr())) != 0 }
    }

    /// Reports that the argument at `position` is a key, and how the command uses the key, see
    /// [`access`](crate::server::command::access).
    pub fn key_at(&self, position: usize, access: u32) {
        // SAFETY: the context is live, and the server asks for positions.
        unsafe {
            api!(RedisModule_KeyAtPosWithFlags(self.as_ptr(), position as c_int, access as c_int))
        }
    }

    /// Replicates a command with these words.
    pub fn replicate<'a>(&self, command: &CStr, words: impl IntoIterator<Item = Str<'a>>) {
        let words: Vec<_> = words.into_iter().map(Str::as_ptr).collect();
        let (format, start, count) = (c"v".as_ptr(), words.as_ptr(), words.len());
        // SAFETY: the context is live, and the format takes an array of the server's strings with its length. The server
        // counts its own references to them.
        unsafe {
            api!(RedisModule_Replicate(self.as_ptr(), command.as_ptr(), format, start, count))
        };
    }

    /// Tells clients that WATCH or cache the key that it changed.
    pub fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: context and key are live.
        unsafe { api!(RedisModule_SignalModifiedKey(self.as_ptr(), key.as_ptr())) };
    }

    /// Publishes a message, on a channel of the shard if asked for.
    pub fn publish(&self, channel: Str<'_>, message: Str<'_>, is_shard: bool) {
        let (context, channel, message) = (self.as_ptr(), channel.as_ptr(), message.as_ptr());
        // SAFETY: context, channel and message are live.
        unsafe {
            if is_shard {
                api!(RedisModule_PublishMessageShard(context, channel, message));
            } else {
                api!(RedisModule_PublishMessage(context, channel, message));
            }
        }
    }

    /// Publishes a keyspace event.
    pub fn notify(&self, class: EventClass, event: &CStr, key: Str<'_>) {
        hold::assert_released();
        // SAFETY: context and key are live, and the event is a C string.
        unsafe {
            api!(RedisModule_NotifyKeyspaceEvent(
                self.as_ptr(),
                class as c_int,
                event.as_ptr(),
                key.as_ptr()
            ))
        };
    }
}

/// Returns whether the server publishes events of the module class on any channel.
pub fn publishes_module_events() -> bool {
    let channels = raw::REDISMODULE_NOTIFY_KEYSPACE | raw::REDISMODULE_NOTIFY_KEYEVENT;
    // SAFETY: takes no argument and has no precondition.
    let on = unsafe { api!(RedisModule_GetNotifyKeyspaceEvents()) };
    on & raw::REDISMODULE_NOTIFY_MODULE != 0 && on & channels != 0
}

/// The server while it runs one of the module's commands: the command can be replicated verbatim, and its client can be
/// blocked.
pub struct CommandContext(Context);

impl CommandContext {
    /// Wraps the server's context.
    ///
    /// # Safety
    ///
    /// As for [`Context::from_raw`], and the callback must run a command.
    pub unsafe fn from_raw(raw: *mut RedisModuleCtx) -> Self {
        // SAFETY: the caller vouches for `raw`.
        Self(Context { is_command: true, ..unsafe { Context::from_raw(raw) } })
    }
}

impl Deref for CommandContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0
    }
}
