//! Replies to the client of a command.

use std::ffi::{CString, c_long};

use redis_module::raw::{self, RedisModuleCtx};

use super::Context;
use crate::server::Error;

impl Context {
    /// Returns the server's own pointer for a reply, which has begun then.
    fn reply_ptr(&self) -> *mut RedisModuleCtx {
        self.replied.set(true);
        self.as_ptr()
    }

    /// Returns whether a reply has begun.
    pub fn has_replied(&self) -> bool {
        self.replied.get()
    }

    /// Replies OK.
    pub fn reply_ok(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply_ptr(), c"OK".as_ptr())) };
    }

    /// Replies a status.
    fn reply_simple(&self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply_ptr(), text.as_ptr())) };
    }

    /// Replies nil.
    pub fn reply_null(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithNull(self.reply_ptr())) };
    }

    /// Replies nil in the place of an array, as BLPOP does when it has waited in vain.
    pub fn reply_null_array(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithNullArray(self.reply_ptr())) };
    }

    /// Replies an integer.
    pub fn reply_integer(&self, number: i64) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.reply_ptr(), number)) };
    }

    /// Replies a bulk string.
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

    /// Replies an array of so many.
    pub fn reply_array(&self, length: usize) -> Array<'_> {
        self.begin_array(length as c_long);
        Array { context: self, length: Length::Told(length) }
    }

    /// Replies an array of no more than so many, which are counted.
    ///
    /// One is by far the most frequent of all: then no length is postponed, for which the server would put all that
    /// follows into a list of buffers, at 2,000 instructions.
    pub fn reply_array_up_to(&self, most: usize) -> Array<'_> {
        if most == 1 {
            return Array { context: self, length: Length::OneAtMost };
        }
        self.begin_array(c_long::from(raw::REDISMODULE_POSTPONED_LEN));
        Array { context: self, length: Length::Counted(0) }
    }

    /// Replies a name and an array, in an array of two: the latter is as that of [`Context::reply_array_up_to`].
    pub fn reply_named_array_up_to(&self, name: &[u8], most: usize) -> Array<'_> {
        self.begin_array(2);
        self.reply_bulk(name);
        self.reply_array_up_to(most)
    }

    fn begin_array(&self, length: c_long) {
        // SAFETY: the context is live. What follows is what was told, see `Array`.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply_ptr(), length)) };
    }

    /// Begins a map. When it is dropped, it tells the server how many entries there were.
    pub fn reply_open_map(&self) -> OpenMap<'_> {
        let postponed = c_long::from(raw::REDISMODULE_POSTPONED_LEN);
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithMap(self.reply_ptr(), postponed)) };
        OpenMap { context: self, length: 0 }
    }

    /// Replies an error.
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
            Error::Coded(code, reason) => format!("{code} {reason}"),
            Error::Refused(reason) => format!("ERR {reason}"),
        };
        let text = CString::new(text).unwrap_or_else(|_| c"ERR refused".to_owned());
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithError(self.reply_ptr(), text.as_ptr())) };
    }
}

/// An array reply. It has as many items as the client is told, come what may: with fewer, or with more, the connection
/// would be out of step.
pub struct Array<'a> {
    context: &'a Context,
    length: Length,
}

/// What the client has been told of the length of an array.
enum Length {
    /// It is told at the end. So many are in it.
    Counted(usize),
    /// It is told. So many are missing.
    Told(usize),
    /// It is told with the first item, which is the last.
    OneAtMost,
}

impl Array<'_> {
    pub fn push_bulk(&mut self, bytes: &[u8]) {
        self.begin_item();
        self.context.reply_bulk(bytes);
    }

    pub fn push_integer(&mut self, number: i64) {
        self.begin_item();
        self.context.reply_integer(number);
    }

    /// Adds a status: text without a line break.
    pub fn push_simple(&mut self, text: &str) {
        self.begin_item();
        self.context.reply_simple(text);
    }

    pub fn push_null(&mut self) {
        self.begin_item();
        self.context.reply_null();
    }

    /// Adds an array of so many. It must be closed before this goes on.
    pub fn push_array(&mut self, length: usize) -> Array<'_> {
        self.begin_item();
        self.context.reply_array(length)
    }

    fn begin_item(&mut self) {
        match &mut self.length {
            Length::Counted(length) => *length += 1,
            Length::Told(missing) => {
                *missing = missing.checked_sub(1).expect("no more items than were told");
            }
            Length::OneAtMost => {
                self.context.begin_array(1);
                self.length = Length::Told(0);
            }
        }
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        match self.length {
            Length::Counted(length) => {
                // SAFETY: the context is live, and this array is the innermost that is open.
                unsafe {
                    api!(RedisModule_ReplySetArrayLength(self.context.as_ptr(), length as c_long))
                }
            }
            // There are some if a panic goes by.
            Length::Told(missing) => (0..missing).for_each(|_| self.context.reply_null()),
            Length::OneAtMost => self.context.begin_array(0),
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
