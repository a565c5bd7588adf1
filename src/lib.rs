//! Dehydrator: a data type for Redis and Valkey that puts elements away and gives them back when they
//! are due.
//!
//! This is the front door: the table of commands, and what happens when the server loads the module.
//! Imports run one way, from here down to `lawn`.
//!
//! ```text
//!   lib ─▶ commands ─▶ data_type ─▶ encoding ─▶ lawn      the structure, pure
//!    │        │  │         │  └───▶ untidy                names for the tick
//!    │        │  └─────────┴──────▶ replicate             effects, spelled once
//!    │        └───────────────────▶ clock                 the only reader of the time
//!    ├─▶ tick ────▶ data_type, untidy, clock              the server's cron
//!    └─▶ info ────▶ tick, untidy                          INFO
//!                      all but lawn ─▶ server             a safe face over the module API
//! ```
//!
//! *One PUSH*: the table below names [`push::push`]; `args` makes a typed request of the arguments;
//! [`data_type::Writing`] opens the key; the clock is read; [`lawn::Lawn::start`] does it;
//! [`replicate`] says the effect; the event, the reply. A replica and the append-only file come in by
//! the same door, with the deadline in the request.

#![warn(clippy::undocumented_unsafe_blocks)]

mod clock;
mod commands;
mod data_type;
mod info;
mod lawn;
mod replicate;
mod server;
mod tick;
mod untidy;

use std::ffi::c_int;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use commands::{look, push, take, update};
use server::command::{self, Command, access, handler};
use server::{Context, api, context, guard};

/// The server's allocator, so that its memory limits and statistics see us. Unit tests run without a
/// server.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

/// The version the server shows, as in `Cargo.toml`: 10,000 for each major, 100 for each minor.
const VERSION: c_int = 100;

/// Every command. Flags: a verb is `fast` if its cost does not grow with what it replies.
fn commands() -> Vec<Command> {
    vec![
        Command {
            name: c"dehydrator.push",
            handler: handler!(push::push),
            flags: c"write deny-oom fast",
            arity: -5,
            access: access::INSERT,
            summary: c"Puts an element away; it comes due after ttl milliseconds.",
            complexity: c"O(1)",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.gidpush",
            handler: handler!(push::gidpush),
            flags: c"write deny-oom fast",
            arity: -4,
            access: access::INSERT,
            summary: c"Puts an element away under an id that the server makes, and returns the id.",
            complexity: c"O(1)",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.pull",
            handler: handler!(take::pull),
            flags: c"write fast",
            arity: 3,
            access: access::TAKE,
            summary: c"Takes an element by its id, due or not.",
            complexity: c"O(1)",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.poll",
            handler: handler!(take::poll),
            flags: c"write",
            arity: -2,
            access: access::TAKE,
            summary: c"Takes all elements that are due, earliest deadline first.",
            complexity: c"O(N), N being the number of elements that are due",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.xpoll",
            handler: handler!(look::xpoll),
            flags: c"readonly",
            arity: -2,
            access: access::READ,
            summary: c"Lists the ids of all elements that are due, taking nothing.",
            complexity: c"O(N), N being the number of elements that are due",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.xack",
            handler: handler!(take::xack),
            flags: c"write fast",
            arity: -3,
            access: access::TAKE,
            summary: c"Takes those of the given elements that are due.",
            complexity: c"O(N), N being the number of ids",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.look",
            handler: handler!(look::look),
            flags: c"readonly fast",
            arity: 3,
            access: access::READ,
            summary: c"Returns an element by its id, due or not, and leaves it.",
            complexity: c"O(1)",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.update",
            handler: handler!(update::update),
            flags: c"write deny-oom fast",
            arity: 4,
            access: access::UPDATE,
            summary: c"Replaces an element, keeping its deadline, and returns the old one.",
            complexity: c"O(1)",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.rem",
            handler: handler!(take::rem),
            flags: c"write fast",
            arity: -3,
            access: access::DELETE,
            summary: c"Removes elements by their ids, due or not, and returns how many there were.",
            complexity: c"O(N), N being the number of ids",
            since: c"0.1.0",
        },
        Command {
            name: c"dehydrator.ttn",
            handler: handler!(look::ttn),
            flags: c"readonly fast",
            arity: 2,
            access: access::READ,
            summary: c"Returns the milliseconds until the next element comes due.",
            complexity: c"O(1)",
            since: c"0.1.0",
        },
        #[cfg(debug_assertions)]
        Command {
            name: c"dehydrator.debug",
            handler: handler!(commands::debug::debug),
            flags: c"readonly",
            arity: -3,
            access: access::READ,
            summary: c"Hooks for tests, in debug builds alone.",
            complexity: c"O(1)",
            since: c"0.1.0",
        },
    ]
}

/// Called by the server when it loads the module.
///
/// # Safety
///
/// For the server alone.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    raw_context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // Nothing may allocate before this: it is what finds the server's allocator.
    // SAFETY: the server hands out its context, and the name is a C string.
    let status = unsafe {
        raw::Export_RedisModule_Init(
            raw_context,
            c"dehydrator".as_ptr(),
            VERSION,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if status != raw::REDISMODULE_OK as c_int {
        return status;
    }
    guard::install_panic_hook();
    let loaded = guard::guard(false, || {
        // SAFETY: the context is live while the module loads.
        load(&unsafe { Context::from_raw(raw_context) }, argc)
    });
    if loaded { raw::REDISMODULE_OK as c_int } else { raw::REDISMODULE_ERR as c_int }
}

fn load(context: &Context, argc: c_int) -> bool {
    if argc > 0 {
        context::log_warning("dehydrator: the module takes no arguments");
        return false;
    }
    // SAFETY: the context is live.
    unsafe {
        // A corrupt payload is ours to refuse, not a reason to abort; a value of ours can be loaded
        // while the old data still serves; and we signal changes ourselves, so that a command that
        // changes nothing breaks nobody's WATCH.
        let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
        api!(RedisModule_SetModuleOptions(context.as_ptr(), options as c_int));
    }
    let refused = |what: &str| {
        context::log_warning(&format!("dehydrator: the server refuses {what}"));
        false
    };
    if !data_type::register(context) {
        return refused("the type dehy-type; is ReDe loaded too?");
    }
    for command in commands() {
        if !command::register(context, &command) {
            return refused(&command.name.to_string_lossy());
        }
    }
    if !tick::register(context) {
        return refused("the cron hook");
    }
    info::register(context) || refused("the INFO section")
}
