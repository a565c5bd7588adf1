//! Commands of the server's own, and what they reply.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw::{self, RedisModuleCallReply};

use super::Context;
use crate::server::{Str, hold};

impl Context {
    /// Runs a command of the server's own, which may write, with the effects that it replicates.
    ///
    /// # Errors
    ///
    /// What a client would be told. Nothing has changed then.
    pub fn call(&self, command: &CStr, arguments: &[Str<'_>]) -> Result<(), String> {
        /// `!`: the server replicates the command. `E`: an error is a reply, also one of the call itself. `S`: it
        /// refuses to write where it refuses that to scripts (too few replicas, a disk that fails). `v`: the arguments
        /// are an array of strings. There is no `M`, which heeds `maxmemory`: outside of commands the server looks at
        /// the memory that was in use when the last command ran.
        const FORMAT: &CStr = c"!ESv";
        hold::call_out();
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        // SAFETY: the context is live, the arguments are the server's strings, and the format says what
        // follows. The reply is nobody else's.
        let reply = unsafe {
            Reply::from_raw(api!(RedisModule_Call(
                self.as_ptr(),
                command.as_ptr(),
                FORMAT.as_ptr(),
                arguments.as_ptr(),
                arguments.len()
            )))
        };
        let reply = reply.ok_or_else(|| "the server does not run it".to_owned())?;
        if !reply.whole().is_error() {
            return Ok(());
        }
        let said = reply.whole().text().unwrap_or_default();
        Err(String::from_utf8_lossy(said).trim_end().to_owned())
    }
}

/// A name that no command has: to ask what the server looks at before it looks for the command.
pub const NO_COMMAND: &CStr = c"no command";

/// What a command of the server's own replied. It is freed when this is dropped.
pub struct Reply {
    raw: NonNull<RedisModuleCallReply>,
}

impl Reply {
    /// Takes what the server returned. `None` if that is no reply: most often it refused to run the command.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or what `RM_Call` returned, and nobody else's.
    pub unsafe fn from_raw(raw: *mut RedisModuleCallReply) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw })
    }

    /// Returns the reply, to look into it.
    pub fn whole(&self) -> Part<'_> {
        Part { raw: self.raw, reply: PhantomData }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the reply is ours to free, and what is in it is freed with it.
        unsafe { api!(RedisModule_FreeCallReply(self.raw.as_ptr())) };
    }
}

/// A reply, or one that is in it.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    raw: NonNull<RedisModuleCallReply>,
    reply: PhantomData<&'a Reply>,
}

impl<'a> Part<'a> {
    fn is(self, kind: isize) -> bool {
        // SAFETY: the reply is live.
        unsafe { api!(RedisModule_CallReplyType(self.raw.as_ptr())) as isize == kind }
    }

    /// Returns whether it is an error.
    pub fn is_error(self) -> bool {
        self.is(raw::REDISMODULE_REPLY_ERROR)
    }

    /// Returns the bytes of a string or an error.
    pub fn text(self) -> Option<&'a [u8]> {
        if !self.is(raw::REDISMODULE_REPLY_STRING) && !self.is_error() {
            return None;
        }
        let mut length = 0;
        // SAFETY: the reply is live. The server returns null, or a text that lives as long as the reply.
        unsafe {
            let start = api!(RedisModule_CallReplyStringPtr(self.raw.as_ptr(), &mut length));
            (!start.is_null()).then(|| slice::from_raw_parts(start.cast::<u8>(), length))
        }
    }

    /// Returns what is in an array. `None` if it is none.
    pub fn array(self) -> Option<impl Iterator<Item = Part<'a>>> {
        if !self.is(raw::REDISMODULE_REPLY_ARRAY) {
            return None;
        }
        // SAFETY: the reply is live.
        let count = unsafe { api!(RedisModule_CallReplyLength(self.raw.as_ptr())) };
        Some((0..count).filter_map(move |at| {
            // SAFETY: the reply is live, and an array. What is in it lives as long as it.
            let part = unsafe { api!(RedisModule_CallReplyArrayElement(self.raw.as_ptr(), at)) };
            NonNull::new(part).map(|raw| Part { raw, reply: PhantomData })
        }))
    }
}
