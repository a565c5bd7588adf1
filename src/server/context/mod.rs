//! The server during one callback: what may be asked of it, and told to it, while it lasts.
//!
//! | module | noun |
//! |---|---|
//! | this file | the context itself, and the selected database |
//! | `command` | the context of a command that runs |
//! | `reply` | replies to the client |
//! | `flags` | what the server says of itself and of the command that runs |
//! | `call` | commands of the server's own |
//! | `notify` | telling of what has happened to a key: watchers, keyspace events |
//! | `user` | the user who runs the command |
//! | `positions` | which arguments are keys |
//!
//! All but this file add methods to [`Context`].

pub mod call;
mod command;
pub mod flags;
pub mod notify;
mod positions;
pub mod reply;
pub mod user;

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;

use redis_module::raw::{self, RedisModuleCtx};

pub use command::CommandContext;

/// The server during one callback.
pub struct Context {
    raw: NonNull<RedisModuleCtx>,
    /// Whether a reply has begun: then no other may follow, or the connection is out of step.
    replied: Cell<bool>,
    /// Whether it is in a [`CommandContext`].
    is_command: bool,
}

impl Context {
    /// Takes what the server hands out.
    ///
    /// # Safety
    ///
    /// `raw` must be the context that the server handed to the callback which is running, and not
    /// outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleCtx) -> Self {
        let raw = NonNull::new(raw).expect("the server hands out a context");
        Self { raw, replied: Cell::new(false), is_command: false }
    }

    /// Makes a context that belongs to no callback and lasts as long as the process: for where the server hands out
    /// none. Nothing may be replied with it. What is replicated with it goes out when the next command has run.
    pub fn detached(&self) -> Self {
        // SAFETY: the context is live.
        let raw = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(self.as_ptr())) };
        let raw = NonNull::new(raw).expect("the server aborts rather than run out of memory");
        Self { raw, replied: Cell::new(false), is_command: false }
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

    /// Selects a database for the rest of this callback. Returns `false` if there is none of that number.
    pub fn select_db(&self, number: i32) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_SelectDb(self.as_ptr(), number)) == raw::REDISMODULE_OK as c_int }
    }
}
