//! Saying which arguments of a command are keys.

use std::ffi::c_int;

use super::Context;

impl Context {
    /// Returns whether the command is not to run, but to say where its keys are ([`Context::key_at`]).
    pub fn wants_keys(&self) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.as_ptr())) != 0 }
    }

    /// Says that an argument is a key, and what is done with it, see
    /// [`access`](crate::server::command::access).
    pub fn key_at(&self, position: usize, access: u32) {
        // SAFETY: the context is live, and asks for this.
        unsafe {
            api!(RedisModule_KeyAtPosWithFlags(self.as_ptr(), position as c_int, access as c_int))
        }
    }
}
