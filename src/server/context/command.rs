//! The context of a command that runs.

use std::ops::Deref;
use std::ptr;

use redis_module::raw::RedisModuleCtx;

use super::Context;

/// The server while it runs a command of the module's: what a client has sent can be replicated as it is, and the client
/// can be blocked.
#[repr(transparent)]
pub struct CommandContext {
    /// It knows that it is in here.
    context: Context,
}

impl CommandContext {
    /// Takes what the server hands out.
    ///
    /// # Safety
    ///
    /// As [`Context::from_raw`], of a callback that runs a command.
    pub unsafe fn from_raw(raw: *mut RedisModuleCtx) -> Self {
        // SAFETY: the caller vouches for it.
        Self { context: Context { is_command: true, ..unsafe { Context::from_raw(raw) } } }
    }

    /// Has the command replicated as it was sent.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is live, and that of a command.
        unsafe { api!(RedisModule_ReplicateVerbatim(self.as_ptr())) };
    }
}

impl Deref for CommandContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Context {
    /// Returns the command that runs, if one does.
    pub fn command(&self) -> Option<&CommandContext> {
        // SAFETY: it is in such a one, which has the same layout: nobody else sets the flag, and nobody takes it out.
        self.is_command.then(|| unsafe { &*ptr::from_ref(self).cast::<CommandContext>() })
    }
}
