//! Calls of server commands, and their replies.

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw::{self, RedisModuleCallReply, RedisModuleCtx};

use super::Context;
use crate::server::{OwnedStr, Str, hold};

impl Context {
    /// Runs a server command, which may write, and replicates it.
    ///
    /// # Errors
    ///
    /// The error that a client would get. The command has changed nothing.
    pub fn call(&self, command: &CStr, arguments: &[Str<'_>]) -> Result<(), String> {
        /// `!`: the server replicates the command. `E`: errors, including errors of the call itself, are replies. `S`:
        /// the server refuses writes as it does for scripts (too few replicas, a failing disk). `v`: the arguments are an
        /// array of strings. `M`, which checks `maxmemory`, is left out: outside of commands the server checks the memory
        /// that was in use when the last command ran.
        const FORMAT: &CStr = c"!ESv";
        let reply = self.ask(command, FORMAT, arguments);
        let reply = reply.ok_or_else(|| "the server does not run it".to_owned())?;
        if !reply.root().is_error() {
            return Ok(());
        }
        let text = reply.root().text().unwrap_or_default();
        Err(String::from_utf8_lossy(text).trim_end().to_owned())
    }

    /// Calls a server command. `format` has the flags of the call, and ends with `v`. Returns its reply, if it has one.
    pub fn ask(&self, command: &CStr, format: &CStr, arguments: &[Str<'_>]) -> Option<CallReply> {
        hold::assert_released();
        let arguments: Vec<_> = arguments.iter().copied().map(Str::as_ptr).collect();
        let (context, command, format) = (self.as_ptr(), command.as_ptr(), format.as_ptr());
        let (start, count) = (arguments.as_ptr(), arguments.len());
        // SAFETY: the context is live, and the format takes an array of server strings with its length.
        let reply = unsafe { api!(RedisModule_Call(context, command, format, start, count)) };
        // There is none mostly because the server refused to run the command.
        Some(CallReply(NonNull::new(reply)?))
    }
}

impl Context {
    /// Returns whether any client of this server has subscribed to a channel of the shard.
    pub fn has_shard_subscribers(&self, channel: Str<'_>) -> bool {
        let words = [OwnedStr::new(b"SHARDNUMSUB")];
        let reply = self.ask(c"PUBSUB", c"Ev", &[words[0].as_str(), channel]);
        let count = reply.as_ref().and_then(|reply| reply.root().array()?.nth(1)?.integer());
        count.is_some_and(|count| count > 0)
    }
}

/// A name that no command has, to test the checks that the server makes before it looks up the command.
pub const NO_COMMAND: &CStr = c"no command";

/// The reply of a server command, which belongs to the module.
pub struct CallReply(NonNull<RedisModuleCallReply>);

impl CallReply {
    /// Returns the outermost value of the reply.
    pub fn root(&self) -> ReplyValue<'_> {
        ReplyValue { raw: self.0, reply: PhantomData }
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        // SAFETY: the reply belongs to us. Its values are freed with it.
        unsafe { api!(RedisModule_FreeCallReply(self.0.as_ptr())) };
    }
}

/// A value in a reply.
#[derive(Clone, Copy)]
pub struct ReplyValue<'a> {
    raw: NonNull<RedisModuleCallReply>,
    reply: PhantomData<&'a CallReply>,
}

impl<'a> ReplyValue<'a> {
    fn is(self, kind: isize) -> bool {
        // SAFETY: the reply is live.
        unsafe { api!(RedisModule_CallReplyType(self.raw.as_ptr())) as isize == kind }
    }

    /// Replies the value to the client of a live context. Returns `false` if the client cannot get it.
    pub(super) fn reply_to(self, context: *mut RedisModuleCtx) -> bool {
        // SAFETY: the reply is live, and the caller vouches for the context.
        let status = unsafe { api!(RedisModule_ReplyWithCallReply(context, self.raw.as_ptr())) };
        status == raw::REDISMODULE_OK as c_int
    }

    pub fn is_error(self) -> bool {
        self.is(raw::REDISMODULE_REPLY_ERROR)
    }

    /// Returns the bytes of a string or an error.
    pub fn text(self) -> Option<&'a [u8]> {
        if !self.is(raw::REDISMODULE_REPLY_STRING) && !self.is_error() {
            return None;
        }
        let mut length = 0;
        // SAFETY: the reply is live. The server returns null, or text that lives as long as the reply.
        unsafe {
            let start = api!(RedisModule_CallReplyStringPtr(self.raw.as_ptr(), &mut length));
            (!start.is_null()).then(|| slice::from_raw_parts(start.cast::<u8>(), length))
        }
    }

    /// Returns the number, if this is one.
    pub fn integer(self) -> Option<i64> {
        // SAFETY: the reply is live.
        self.is(raw::REDISMODULE_REPLY_INTEGER)
            .then(|| unsafe { api!(RedisModule_CallReplyInteger(self.raw.as_ptr())) })
    }

    /// Returns the items, if this is an array.
    pub fn array(self) -> Option<impl Iterator<Item = ReplyValue<'a>>> {
        if !self.is(raw::REDISMODULE_REPLY_ARRAY) {
            return None;
        }
        // SAFETY: the reply is live.
        let count = unsafe { api!(RedisModule_CallReplyLength(self.raw.as_ptr())) };
        Some((0..count).filter_map(move |at| {
            // SAFETY: the reply is live, and an array. Its items live as long.
            let item = unsafe { api!(RedisModule_CallReplyArrayElement(self.raw.as_ptr(), at)) };
            NonNull::new(item).map(|raw| ReplyValue { raw, reply: PhantomData })
        }))
    }
}
