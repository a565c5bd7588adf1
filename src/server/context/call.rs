//! Commands of the server's own, and what they reply.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::Context;
use crate::server::Str;

impl Context {
    /// Runs a command of the server's own, which may write, with the effects that it replicates.
    ///
    /// # Errors
    ///
    /// What a client would be told. Nothing has changed then.
    pub fn call(&self, command: &CStr, arguments: &[Str<'_>]) -> std::result::Result<(), String> {
        /// Replicate; errors as replies, also those of the call itself; refuse to write where clients are
        /// refused (too few replicas, a disk that fails), as for scripts; and the arguments as an array of
        /// strings. Not to heed `maxmemory`: outside of commands that looks at the state at the last one.
        const FORMAT: &CStr = c"!ESv";
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        // SAFETY: the context is live, the arguments are the server's strings, and the format says what
        // follows. The text of an error lives as long as the reply.
        unsafe {
            let reply = api!(RedisModule_Call(
                self.as_ptr(),
                command.as_ptr(),
                FORMAT.as_ptr(),
                arguments.as_ptr(),
                arguments.len()
            ));
            if reply.is_null() {
                return Err("the server does not run it".to_owned());
            }
            let mut result = Ok(());
            if api!(RedisModule_CallReplyType(reply)) == raw::REDISMODULE_REPLY_ERROR as c_int {
                let mut length = 0;
                let start = api!(RedisModule_CallReplyStringPtr(reply, &mut length));
                let said = std::slice::from_raw_parts(start.cast::<u8>(), length);
                result = Err(String::from_utf8_lossy(said).trim_end().to_owned());
            }
            api!(RedisModule_FreeCallReply(reply));
            result
        }
    }
}
