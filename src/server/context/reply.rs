//! Replies to the client of a command.

use std::ffi::{CString, c_long};

use redis_module::raw::{self, RedisModuleCtx};

use super::Context;
use crate::server::Error;

impl Context {
    /// The context for a reply.
    fn reply_ptr(&self) -> *mut RedisModuleCtx {
        self.replied.set(true);
        self.as_ptr()
    }

    /// Whether a reply has begun.
    pub fn has_replied(&self) -> bool {
        self.replied.get()
    }

    pub fn reply_ok(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply_ptr(), c"OK".as_ptr())) };
    }

    fn reply_simple(&self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply_ptr(), text.as_ptr())) };
    }

    pub fn reply_null(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithNull(self.reply_ptr())) };
    }

    /// Nil in the place of an array, as BLPOP replies when it has waited in vain.
    pub fn reply_null_array(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithNullArray(self.reply_ptr())) };
    }

    pub fn reply_integer(&self, number: i64) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.reply_ptr(), number)) };
    }

    pub fn reply_bulk(&self, bytes: &[u8]) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer(
                self.reply_ptr(),
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }

    /// An array of as many replies as will have been counted when it is dropped.
    pub fn reply_open_array(&self) -> OpenArray<'_> {
        let postponed = c_long::from(raw::REDISMODULE_POSTPONED_LEN);
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply_ptr(), postponed)) };
        OpenArray { context: self, length: 0 }
    }

    /// A name and an array, in an array of two: the latter is open, as that of [`Context::reply_open_array`] is.
    pub fn reply_named_open_array(&self, name: &[u8]) -> OpenArray<'_> {
        // SAFETY: the context is live. What follows are the two.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply_ptr(), 2)) };
        self.reply_bulk(name);
        self.reply_open_array()
    }

    /// A map of as many entries as will have been counted when it is dropped.
    pub fn reply_open_map(&self) -> OpenMap<'_> {
        let postponed = c_long::from(raw::REDISMODULE_POSTPONED_LEN);
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithMap(self.reply_ptr(), postponed)) };
        OpenMap { context: self, length: 0 }
    }

    pub fn reply_error(&self, error: &Error) {
        let text = match error {
            Error::Arity => {
                // The server knows the command's name and says it.
                // SAFETY: the context is live, and the server copies what it is shown.
                unsafe { api!(RedisModule_WrongArity(self.reply_ptr())) };
                return;
            }
            Error::WrongType => Error::WRONG_TYPE.to_owned(),
            Error::WrongTypeOf(reason) => format!("WRONGTYPE {reason}"),
            Error::Elsewhere => Error::ELSEWHERE.to_owned(),
            Error::Delivered => Error::DELIVERED.to_owned(),
            Error::OutOfMemory => Error::OUT_OF_MEMORY.to_owned(),
            Error::NoChannel => Error::NO_CHANNEL.to_owned(),
            Error::Refused(reason) => format!("ERR {reason}"),
        };
        let text = CString::new(text).unwrap_or_else(|_| c"ERR refused".to_owned());
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithError(self.reply_ptr(), text.as_ptr())) };
    }
}

/// An array reply whose length is told at its end, come what may: one that is never closed would
/// leave the connection out of step.
pub struct OpenArray<'a> {
    context: &'a Context,
    length: usize,
}

impl OpenArray<'_> {
    pub fn push_bulk(&mut self, bytes: &[u8]) {
        self.context.reply_bulk(bytes);
        self.length += 1;
    }

    pub fn push_integer(&mut self, number: i64) {
        self.context.reply_integer(number);
        self.length += 1;
    }

    /// A status: text without a line break.
    pub fn push_simple(&mut self, text: &str) {
        self.context.reply_simple(text);
        self.length += 1;
    }

    pub fn push_null(&mut self) {
        self.context.reply_null();
        self.length += 1;
    }

    /// An array within this one. It must be closed before this goes on.
    pub fn push_open_array(&mut self) -> OpenArray<'_> {
        self.length += 1;
        self.context.reply_open_array()
    }
}

impl Drop for OpenArray<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is live, and this array is the innermost that is open.
        unsafe {
            api!(RedisModule_ReplySetArrayLength(self.context.as_ptr(), self.length as c_long))
        }
    }
}

/// A map reply whose length is told at its end. In RESP2 it is an array of names and values.
pub struct OpenMap<'a> {
    context: &'a Context,
    length: usize,
}

impl OpenMap<'_> {
    /// Begins an entry; its value must follow.
    pub fn push(&mut self, name: &[u8]) -> MapValue<'_> {
        self.context.reply_bulk(name);
        self.length += 1;
        MapValue { context: self.context }
    }
}

impl Drop for OpenMap<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is live, and this map is the innermost that is open.
        unsafe { api!(RedisModule_ReplySetMapLength(self.context.as_ptr(), self.length as c_long)) }
    }
}

/// Where the value of a map's entry goes.
#[must_use]
pub struct MapValue<'a> {
    context: &'a Context,
}

impl<'a> MapValue<'a> {
    pub fn integer(self, number: i64) {
        self.context.reply_integer(number);
    }

    pub fn null(self) {
        self.context.reply_null();
    }

    pub fn bulk(self, bytes: &[u8]) {
        self.context.reply_bulk(bytes);
    }

    pub fn open_map(self) -> OpenMap<'a> {
        self.context.reply_open_map()
    }
}
