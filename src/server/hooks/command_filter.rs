//! Seeing the commands that clients send before the server runs them.

use std::ptr::NonNull;

use redis_module::raw::{self, RedisModuleCommandFilter, RedisModuleCommandFilterCtx};

use crate::server::{Context, Str, guard::guard};

/// What looks at each command, whether its client may run it or not.
pub trait Sees {
    fn see(command: &Shown);
}

/// A filter that is in force until it is [lifted](CommandFilter::lift). It costs each command some tens of nanoseconds.
pub struct CommandFilter {
    raw: NonNull<RedisModuleCommandFilter>,
}

impl CommandFilter {
    /// Has the server show all commands but those that the module itself calls. `None` if it refuses.
    pub fn set<T: Sees>(context: &Context) -> Option<Self> {
        let flags = raw::REDISMODULE_CMDFILTER_NOSELF as i32;
        // SAFETY: the context is live, and the callback lives as long as the module.
        let raw = unsafe {
            api!(RedisModule_RegisterCommandFilter(context.as_ptr(), Some(on_command::<T>), flags))
        };
        NonNull::new(raw).map(|raw| Self { raw })
    }

    /// Ends it. It must not be called from the filter's own callback: the server walks over its filters then.
    pub fn lift(self, context: &Context) {
        // SAFETY: the context is live, and the filter is one of this module's that is in force.
        unsafe { api!(RedisModule_UnregisterCommandFilter(context.as_ptr(), self.raw.as_ptr())) };
    }
}

/// The command that a filter is shown.
pub struct Shown {
    raw: NonNull<RedisModuleCommandFilterCtx>,
}

impl Shown {
    /// Returns whether the argument at this place, the name being the first, is this word, in letters of either size.
    pub fn is(&self, at: i32, word: &[u8]) -> bool {
        // SAFETY: the command is live, and so are its arguments; of one that is not there the server says null.
        let argument = unsafe {
            let argument = api!(RedisModule_CommandFilterArgGet(self.raw.as_ptr(), at));
            NonNull::new(argument).map(|argument| Str::from_raw(argument))
        };
        argument.is_some_and(|argument| argument.bytes().eq_ignore_ascii_case(word))
    }
}

/// Shows what the server calls it with: a command, which is live for the call.
unsafe extern "C" fn on_command<T: Sees>(command: *mut RedisModuleCommandFilterCtx) {
    guard((), || {
        if let Some(raw) = NonNull::new(command) {
            T::see(&Shown { raw });
        }
    });
}
