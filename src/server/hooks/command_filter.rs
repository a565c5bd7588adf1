//! A filter that observes clients' commands before the server runs them.

use std::ptr::NonNull;

use redis_module::raw::{self, RedisModuleCommandFilter, RedisModuleCommandFilterCtx};

use crate::server::{Context, Str, guard::guard};

/// Observes each command, whether or not its client may run it.
pub trait CommandObserver {
    fn observe(command: &CommandView);
}

/// An installed filter, until [`CommandFilter::remove`]. It costs each command some tens of nanoseconds.
pub struct CommandFilter {
    raw: NonNull<RedisModuleCommandFilter>,
}

impl CommandFilter {
    /// Installs a filter for all commands except those that this module calls. Returns `None` if the server refuses.
    pub fn install<T: CommandObserver>(context: &Context) -> Option<Self> {
        let flags = raw::REDISMODULE_CMDFILTER_NOSELF as i32;
        // SAFETY: the context is live, and the callback lives as long as the module.
        let raw = unsafe {
            api!(RedisModule_RegisterCommandFilter(context.as_ptr(), Some(on_command::<T>), flags))
        };
        Some(Self { raw: NonNull::new(raw)? })
    }

    /// Removes the filter. Not to be called from the filter's own callback, while the server iterates over its filters.
    pub fn remove(self, context: &Context) {
        // SAFETY: the context is live, and the filter is an installed one of this module.
        unsafe { api!(RedisModule_UnregisterCommandFilter(context.as_ptr(), self.raw.as_ptr())) };
    }
}

/// The arguments of the observed command.
pub struct CommandView {
    raw: NonNull<RedisModuleCommandFilterCtx>,
}

impl CommandView {
    /// Returns whether the argument at index `at` equals `word`, case-insensitively. Index 0 is the command's name.
    pub fn arg_is(&self, at: i32, word: &[u8]) -> bool {
        // SAFETY: the command is live, and so are its arguments; the server returns null for a missing one.
        let argument = unsafe {
            let argument = api!(RedisModule_CommandFilterArgGet(self.raw.as_ptr(), at));
            NonNull::new(argument).map(|argument| Str::from_raw(argument))
        };
        argument.is_some_and(|argument| argument.bytes().eq_ignore_ascii_case(word))
    }
}

unsafe extern "C" fn on_command<T: CommandObserver>(command: *mut RedisModuleCommandFilterCtx) {
    guard((), || {
        if let Some(raw) = NonNull::new(command) {
            T::observe(&CommandView { raw });
        }
    });
}
