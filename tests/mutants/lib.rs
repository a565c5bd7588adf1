//! The root of the crate that `make mutants` changes and tests: the modules that unit tests reach, with stubs for those
//! that they need.

#![allow(dead_code, unused_imports)]

/// A stopped clock.
mod clock {
    pub fn now() -> u64 {
        0
    }

    pub fn now_us() -> u64 {
        0
    }

    pub fn monotonic_us() -> u64 {
        0
    }
}

mod metrics {
    mod clock_steps;
    mod counters;
    pub mod lateness;
}

mod policy;
mod schedule;

/// The agenda's table. The agenda itself, and what a value knows of its entry, need the server's timer and the table of
/// the overdue: tests with servers cover those.
mod pending {
    mod agenda {
        mod entry;
        mod table;
    }

    pub mod overdue {
        pub type Serial = u64;
    }
}

mod commands {
    mod args;
}

/// No configuration parameter is set.
mod config {
    pub struct Unset;

    impl Unset {
        pub fn limit(&self) -> Option<u64> {
            None
        }
    }

    pub static DEFAULT_SLACK: Unset = Unset;
}

mod data_type {
    mod encoding;
    mod fields;

    /// For ends that are near.
    pub fn end_within(deadline: u64, ms: u64) -> u64 {
        deadline.saturating_add(ms).min(lawn::Bounds::UNTIL_MAX)
    }
}

/// The server's strings, unchanged.
mod server {
    macro_rules! api {
        ($name:ident($($argument:expr),* $(,)?)) => {
            (redis_module::raw::$name.expect(stringify!($name)))($($argument),*)
        };
    }

    pub mod error;
    #[cfg(test)]
    pub mod fake;
    pub mod string;

    pub use error::Error;
    pub use string::{OwnedStr, Str};

    pub mod key {
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct Name {
            pub db: i32,
            pub key: Box<[u8]>,
        }
    }

    /// The counts of a server that does nothing.
    pub mod info {
        pub fn server_counts() -> [u64; 4] {
            [0; 4]
        }
    }

    pub struct Context;
}

// The bindings, by their name: the real ones have a thousand functions, which each build would parse.
extern crate self as redis_module;

#[allow(non_upper_case_globals)]
pub mod raw {
    use std::ffi::{c_char, c_longlong};

    #[repr(C)]
    pub struct RedisModuleCtx([u8; 0]);
    #[repr(C)]
    pub struct RedisModuleString([u8; 0]);

    type Text = *mut RedisModuleString;
    type Context = *mut RedisModuleCtx;

    pub static mut RedisModule_StringPtrLen: Option<
        unsafe extern "C" fn(*const RedisModuleString, *mut usize) -> *const c_char,
    > = None;
    pub static mut RedisModule_CreateString: Option<
        unsafe extern "C" fn(Context, *const c_char, usize) -> Text,
    > = None;
    pub static mut RedisModule_CreateStringFromLongLong: Option<
        unsafe extern "C" fn(Context, c_longlong) -> Text,
    > = None;
    pub static mut RedisModule_RetainString: Option<unsafe extern "C" fn(Context, Text)> = None;
    pub static mut RedisModule_FreeString: Option<unsafe extern "C" fn(Context, Text)> = None;
}
