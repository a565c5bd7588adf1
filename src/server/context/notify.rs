//! Notifications that a key changed: to replicas and the append-only file, to watchers, and as keyspace events.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::Context;
use crate::server::{Str, hold};

/// A class of keyspace events.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum EventClass {
    /// The module's own events.
    Module = raw::REDISMODULE_NOTIFY_MODULE,
    /// Events of every type, like `del` when its last element is removed.
    Generic = raw::REDISMODULE_NOTIFY_GENERIC,
}

impl Context {
    /// Replicates a command with these words.
    pub fn replicate<'a>(&self, command: &CStr, words: impl IntoIterator<Item = Str<'a>>) {
        let words: Vec<_> = words.into_iter().map(Str::as_ptr).collect();
        let (format, start, count) = (c"v".as_ptr(), words.as_ptr(), words.len());
        // SAFETY: the context is live, and the format takes an array of the server's strings with its length. The server
        // counts its own references to them.
        unsafe {
            api!(RedisModule_Replicate(self.as_ptr(), command.as_ptr(), format, start, count))
        };
    }

    /// Tells clients that WATCH or cache the key that it changed.
    pub fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: context and key are live.
        unsafe { api!(RedisModule_SignalModifiedKey(self.as_ptr(), key.as_ptr())) };
    }

    /// Publishes a keyspace event.
    pub fn notify(&self, class: EventClass, event: &CStr, key: Str<'_>) {
        hold::assert_released();
        // SAFETY: context and key are live, and the event is a C string.
        unsafe {
            api!(RedisModule_NotifyKeyspaceEvent(
                self.as_ptr(),
                class as c_int,
                event.as_ptr(),
                key.as_ptr()
            ))
        };
    }
}

/// Returns whether the server publishes events of the module class on any channel.
pub fn publishes_module_events() -> bool {
    let channels = raw::REDISMODULE_NOTIFY_KEYSPACE | raw::REDISMODULE_NOTIFY_KEYEVENT;
    // SAFETY: takes no argument and has no precondition.
    let on = unsafe { api!(RedisModule_GetNotifyKeyspaceEvents()) };
    on & raw::REDISMODULE_NOTIFY_MODULE != 0 && on & channels != 0
}
