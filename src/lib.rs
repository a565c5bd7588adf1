//! Dehydrator: a data type for Redis and Valkey that puts elements away and gives them back when they
//! are due.
//!
//! This is the front door: the table of commands, and what happens when the server loads the module.
//! Imports run one way, from here down to `lawn`.
//!
//! ```text
//!   lib ─▶ commands ─▶ data_type ─▶ encoding ─▶ lawn      the structure, pure
//!    │        │  │         │  │          └────▶ policy    what becomes of what comes due
//!    │        │  │         │  ├──────▶ untidy             names for the tick
//!    │        │  │         │  └──────▶ agenda             names with a deadline, and a timer
//!    │        │  ├─────────┴──────▶ replicate             effects, spelled once
//!    │        │  └────────────────▶ waiters               clients asleep on a key
//!    │        └───────────────────▶ clock                 the only reader of the time
//!    ├─▶ tick ─▶ courier ─▶ agenda, data_type, replicate  delivering what came due
//!    │      └──▶ search, untidy, waiters, data_type       the server's cron
//!    ├─▶ keyspace ─▶ agenda                               FLUSHALL, SWAPDB, a load
//!    ├─▶ config                                           settings
//!    └─▶ info ────▶ tick, statistics, agenda, ...         INFO
//!                      all but lawn ─▶ server             a safe face over the module API
//! ```
//!
//! *One PUSH*: the table below names [`push::push`]; `args` makes a typed request of the arguments;
//! [`data_type::Writing`] opens the key; the clock is read; [`lawn::Lawn::start`] does it;
//! [`replicate`] says the effect; the event, the reply. A replica and the append-only file come in by
//! the same door, with the deadline in the request.

#![warn(clippy::undocumented_unsafe_blocks)]

mod agenda;
mod alarm;
mod clock;
mod commands;
mod config;
mod courier;
mod data_type;
mod info;
mod keyspace;
mod lawn;
mod policy;
mod replicate;
mod search;
mod server;
mod statistics;
mod tick;
mod untidy;
mod waiters;

use std::ffi::c_int;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

#[cfg(debug_assertions)]
use commands::debug;
use commands::{inspect, look, ondue, push, take, update};
use server::command::{self, Command, access, handler};
use server::string::Args;
use server::{Context, api, context, guard};

/// The server's allocator, so that its memory limits and statistics see us. Unit tests run without a
/// server.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

/// The version the server shows, as in `Cargo.toml`: 10,000 for each major, 100 for each minor.
const VERSION: c_int = 100;

/// Every command: name, function, flags, arity, access to the key, complexity, summary. A verb is `fast`
/// if its cost does not grow with what it finds.
fn commands() -> Vec<Command> {
    vec![
        Command::new(
            c"dehydrator.push",
            handler!(push::push),
            c"write deny-oom fast",
            -5,
            access::INSERT,
        )
        .described(c"O(1)", c"Puts an element away; it comes due after ttl milliseconds."),
        Command::new(
            c"dehydrator.gidpush",
            handler!(push::gidpush),
            c"write deny-oom fast",
            -4,
            access::INSERT,
        )
        .described(
            c"O(1)",
            c"Puts an element away under an id that the server makes, and returns the id.",
        ),
        Command::new(
            c"dehydrator.mpush",
            handler!(push::mpush),
            c"write deny-oom fast",
            -5,
            access::INSERT,
        )
        .described(
            c"O(N), N being the number of elements",
            c"Puts several elements away, but for those whose ids are there already.",
        ),
        Command::new(c"dehydrator.pull", handler!(take::pull), c"write fast", 3, access::TAKE)
            .described(c"O(1)", c"Takes an element by its id, due or not."),
        Command::new(c"dehydrator.poll", handler!(take::poll), c"write blocking", -2, access::TAKE)
            .described(
                c"O(N), N being the number of elements it takes",
                c"Takes, or leases, elements that are due, earliest deadline first.",
            ),
        Command::new(c"dehydrator.lease", handler!(take::lease), c"write fast", -6, access::TOUCH)
            .described(c"O(N), N being the number of ids", c"Leases elements by their ids, as POLL does those that are due: the form in which leases replicate."),
        Command::new(c"dehydrator.xpoll", handler!(look::xpoll), c"readonly", -2, access::READ)
            .described(
                c"O(N), N being the number of ids it lists",
                c"Lists the ids of elements that are due, taking nothing.",
            ),
        Command::new(c"dehydrator.xack", handler!(take::xack), c"write fast", -3, access::TAKE)
            .described(
                c"O(N), N being the number of ids",
                c"Takes those of the given elements that are due or leased.",
            ),
        Command::new(c"dehydrator.look", handler!(look::look), c"readonly fast", 3, access::READ)
            .described(c"O(1)", c"Returns an element by its id, due or not, and leaves it."),
        Command::new(
            c"dehydrator.update",
            handler!(update::update),
            c"write deny-oom fast",
            4,
            access::UPDATE,
        )
        .described(c"O(1)", c"Replaces an element, keeping its deadline, and returns the old one."),
        Command::new(
            c"dehydrator.touch",
            handler!(update::touch),
            c"write fast",
            -4,
            access::TOUCH,
        )
        .described(
            c"O(1)",
            c"Starts the timer of an element anew, and leaves the element as it is.",
        ),
        Command::new(c"dehydrator.rem", handler!(take::rem), c"write fast", -3, access::DELETE)
            .described(
                c"O(N), N being the number of ids",
                c"Removes elements by their ids, due or not, and returns how many there were.",
            ),
        Command::new(c"dehydrator.ttn", handler!(look::ttn), c"readonly fast", 2, access::READ)
            .described(c"O(1)", c"Returns the milliseconds until the next element comes due."),
        Command::new(c"dehydrator.pttl", handler!(look::pttl), c"readonly fast", 3, access::READ)
            .described(c"O(1)", c"Returns the milliseconds until an element comes due."),
        Command::new(c"dehydrator.len", handler!(inspect::len), c"readonly fast", 2, access::READ)
            .described(c"O(1)", c"Returns the number of elements, due or not."),
        Command::new(c"dehydrator.scan", handler!(inspect::scan), c"readonly", -3, access::READ)
            .described(
                c"O(1) for every call, O(N) for a whole walk, N being the number of elements",
                c"Walks over the ids, a few at each call.",
            ),
        Command::new(c"dehydrator.info", handler!(inspect::info), c"readonly", -2, access::READ)
            .described(
            c"O(N), N being the number of elements that are due; with FULL, and of different TTLs",
            c"Returns a map of what a dehydrator holds.",
        ),
        Command::new(
            c"dehydrator.ondue",
            handler!(ondue::ondue),
            c"write deny-oom getkeys-api getchannels-api",
            -3,
            access::TOUCH,
        )
        .with_dest(c"STREAM", 2, access::INSERT)
        .described(
            c"O(1)",
            c"Says what becomes of elements when they come due: they wait, go, or are moved to a stream or a channel.",
        ),
        #[cfg(debug_assertions)]
        Command::new(c"dehydrator.debug", handler!(debug::debug), c"readonly", -3, access::READ)
            .described(c"O(1)", c"Hooks for tests, in debug builds alone."),
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
    argv: *mut *mut RedisModuleString,
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
        // SAFETY: context and arguments are live while the module loads.
        let (context, args) =
            unsafe { (Context::from_raw(raw_context), Args::from_raw(argv, argc as usize)) };
        load(&context, args)
    });
    if loaded { raw::REDISMODULE_OK as c_int } else { raw::REDISMODULE_ERR as c_int }
}

fn load(context: &Context, args: Args<'_>) -> bool {
    if let Err(reason) = config::register(context, args) {
        context::log_warning(&format!("dehydrator: {reason}"));
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
    agenda::register(courier::attend);
    if !tick::register(context) || !keyspace::register(context) {
        return refused("the hooks");
    }
    info::register(context) || refused("the INFO section")
}
