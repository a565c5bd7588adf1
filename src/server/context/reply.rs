//! Replies to the client of a command.

use std::cell::OnceCell;
use std::ffi::{CString, c_long};
use std::mem::ManuallyDrop;

use redis_module::raw::{self, RedisModuleCtx};

use super::Context;
use super::call::CallReply;
use crate::server::Error;

thread_local! {
    // Commands run on the server's main thread alone.
    static OK: OnceCell<ManuallyDrop<CallReply>> = const { OnceCell::new() };
}

impl Context {
    /// Returns the server's own pointer, and records that a reply has begun.
    fn reply_ptr(&self) -> *mut RedisModuleCtx {
        self.replied.set(true);
        self.as_ptr()
    }

    pub fn has_replied(&self) -> bool {
        self.replied.get()
    }

    /// Replies OK by a reply of the server's that was kept: a third of what it costs the server to compose one.
    pub fn reply_ok(&self) {
        let to = self.reply_ptr();
        let is_sent = OK.with(|ok| ok.get().is_some_and(|ok| ok.root().reply_to(to)));
        if !is_sent {
            self.reply_simple("OK");
        }
    }

    /// Keeps a reply for [`Context::reply_ok`], when the module is loaded, and with a context that lasts as long.
    pub(super) fn keep_ok(&self) {
        let reply = self.ask(c"UNWATCH", c"v", &[]).filter(|it| it.root().text() == Some(b"OK"));
        reply.into_iter().for_each(|ok| OK.with(|it| _ = it.set(ManuallyDrop::new(ok))));
    }

    fn reply_simple(&self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the context is live, and the server copies the text.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply_ptr(), text.as_ptr())) };
    }

    pub fn reply_null(&self) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithNull(self.reply_ptr())) };
    }

    /// Replies nil in place of an array, as BLPOP does after its timeout.
    pub fn reply_null_array(&self) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithNullArray(self.reply_ptr())) };
    }

    pub fn reply_integer(&self, number: i64) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.reply_ptr(), number)) };
    }

    pub fn reply_bulk(&self, bytes: &[u8]) {
        // SAFETY: the context is live, and the server copies the bytes.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer(
                self.reply_ptr(),
                bytes.as_ptr().cast(),
                bytes.len()
            ))
        };
    }

    pub fn reply_bulk_or_null(&self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.reply_bulk(bytes),
            None => self.reply_null(),
        }
    }

    /// Begins an array of exactly `length` items.
    pub fn reply_array(&self, length: usize) -> Array<'_> {
        self.begin_array(length as c_long);
        Array { context: self, length: Length::Sent { missing: length } }
    }

    /// Begins an array of at most `max` items, and counts them.
    ///
    /// A `max` of one is by far the most frequent. It needs no postponed length, for which the server would put the rest of
    /// the reply into a list of buffers, at 2,000 instructions.
    pub fn reply_array_up_to(&self, max: usize) -> Array<'_> {
        if max == 1 {
            return Array { context: self, length: Length::AtMostOne };
        }
        self.begin_array(c_long::from(raw::REDISMODULE_POSTPONED_LEN));
        Array { context: self, length: Length::Postponed { count: 0 } }
    }

    /// Begins an array of exactly `length` items, which the caller replies.
    pub fn begin_array(&self, length: c_long) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply_ptr(), length)) };
    }

    /// Begins a map. Its drop sends the number of entries.
    pub fn reply_open_map(&self) -> OpenMap<'_> {
        let postponed = c_long::from(raw::REDISMODULE_POSTPONED_LEN);
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithMap(self.reply_ptr(), postponed)) };
        OpenMap { context: self, length: 0 }
    }

    pub fn reply_error(&self, error: &Error) {
        let text = match error {
            Error::Arity => {
                // The server adds the command's name.
                // SAFETY: the context is live.
                unsafe { api!(RedisModule_WrongArity(self.reply_ptr())) };
                return;
            }
            Error::Coded(code, reason) => format!("{code} {reason}"),
            Error::Refused(reason) => format!("ERR {reason}"),
        };
        let text = CString::new(text).unwrap_or_else(|_| c"ERR refused".to_owned());
        // SAFETY: the context is live, and the server copies the text.
        unsafe { api!(RedisModule_ReplyWithError(self.reply_ptr(), text.as_ptr())) };
    }
}

/// An array reply. It always sends as many items as its length, even after a panic: otherwise the connection would be out of
/// step.
pub struct Array<'a> {
    context: &'a Context,
    length: Length,
}

/// When the length of an array is sent to the client.
enum Length {
    /// At the end, when all items are counted.
    Postponed { count: usize },
    /// At the beginning. `missing` items are still to come.
    Sent { missing: usize },
    /// With the only item, or at the end if there is none.
    AtMostOne,
}

impl Array<'_> {
    /// Adds a string, or nil.
    pub fn push_bulk<'b>(&mut self, bytes: impl Into<Option<&'b [u8]>>) {
        self.begin_item();
        self.context.reply_bulk_or_null(bytes.into());
    }

    pub fn push_integer(&mut self, number: i64) {
        self.begin_item();
        self.context.reply_integer(number);
    }

    /// Adds a simple string: text without a line break.
    pub fn push_simple(&mut self, text: &str) {
        self.begin_item();
        self.context.reply_simple(text);
    }

    pub fn push_null(&mut self) {
        self.begin_item();
        self.context.reply_null();
    }

    /// Adds an array of exactly `length` items.
    pub fn push_array(&mut self, length: usize) -> Array<'_> {
        self.begin_item();
        self.context.reply_array(length)
    }

    /// Adds a map, as [`Context::reply_open_map`] does.
    pub fn push_open_map(&mut self) -> OpenMap<'_> {
        self.begin_item();
        self.context.reply_open_map()
    }

    fn begin_item(&mut self) {
        match &mut self.length {
            Length::Postponed { count } => *count += 1,
            Length::Sent { missing } => {
                *missing = missing.checked_sub(1).expect("no more items than the length");
            }
            Length::AtMostOne => {
                self.context.begin_array(1);
                self.length = Length::Sent { missing: 0 };
            }
        }
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        match self.length {
            Length::Postponed { count } => {
                // SAFETY: the context is live, and this array is the innermost open one.
                unsafe {
                    api!(RedisModule_ReplySetArrayLength(self.context.as_ptr(), count as c_long))
                }
            }
            // Not 0 while a panic unwinds.
            Length::Sent { missing } => (0..missing).for_each(|_| self.context.reply_null()),
            Length::AtMostOne => self.context.begin_array(0),
        }
    }
}

/// A map reply whose length is sent at its end. In RESP2 it is an array of names and values.
pub struct OpenMap<'a> {
    context: &'a Context,
    length: usize,
}

impl<'a> OpenMap<'a> {
    /// Begins an entry; its value must follow.
    fn push(&mut self, name: &[u8]) -> &'a Context {
        self.context.reply_bulk(name);
        self.length += 1;
        self.context
    }

    /// Adds a number below 2^63, or nil.
    pub fn integer(&mut self, name: &[u8], number: impl Into<Option<u64>>) {
        let context = self.push(name);
        match number.into() {
            Some(number) => context.reply_integer(number as i64),
            None => context.reply_null(),
        }
    }

    /// Adds a string, or nil.
    pub fn bulk<'b>(&mut self, name: &[u8], bytes: impl Into<Option<&'b [u8]>>) {
        self.push(name).reply_bulk_or_null(bytes.into());
    }

    pub fn open_map(&mut self, name: &[u8]) -> OpenMap<'a> {
        self.push(name).reply_open_map()
    }
}

impl Drop for OpenMap<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is live, and this map is the innermost open one.
        unsafe { api!(RedisModule_ReplySetMapLength(self.context.as_ptr(), self.length as c_long)) }
    }
}
