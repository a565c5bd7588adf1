//! Dehydrator: a data type for Redis and Valkey that puts elements away and gives them back when they
//! are due.
//!
//! This is the front door: a map, and what happens when the server loads the module.
//!
//! A module imports only from floors below its own; `tests/server/layout.rs` has the same floors, and fails
//! for an arrow that goes up.
//!
//! ```text
//!   9  lib
//!   8  info                      the module's section of INFO
//!   7  background                what the module does by itself
//!   6  commands                  what clients ask for
//!   5  courier                   moving elements where a policy sends them
//!   4  data_type                 a key's value, and how one is opened
//!   3  replicate  pending        effects, spelled once; what waits for its time
//!   2  metrics                   counters and latency
//!   1  clock  config  level       the only reader of the time; settings; what replicas must understand
//!   0  policy  server            what becomes of what comes due; a safe face over the module API
//!      version                   which commit this is
//! ```
//!
//! Below all of them is [`lawn`], the structure, a crate of its own in `src/lawn`.
//!
//! Floor 0 imports nothing of ours but what is said here, and every module above it imports `server`. The other arrows:
//!
//! | module | imports |
//! |---|---|
//! | `lib`, to register them | `info`, `commands`, `background`, `data_type`, `config`, `version` |
//! | `info` | `background`, `data_type`, `pending`, `metrics`, `version` |
//! | `background` | everything on the floors below its own; of `commands` the room of POLL, which serves blocked clients |
//! | `commands` | everything on the floors below its own |
//! | `courier` | `data_type`, `replicate`, `pending`, `metrics`, `clock`, `policy`, `lawn` |
//! | `data_type` | `replicate`, `pending`, `policy`, `lawn`, `metrics`, `clock`, `config` |
//! | `replicate` | `level`, `policy`, `lawn`, `version` |
//! | `pending` | `metrics`, `clock`, `lawn` |
//! | `metrics` | `clock` |
//! | `config` | `lawn` |
//! | `level` | `version` |
//!
//! *One PUSH*: [`commands()`] names `push::push`; `Push::parse` makes a typed request of the
//! arguments; [`data_type::Writing`] opens the key; the clock is read; [`lawn::Lawn::start_at`] does it;
//! [`replicate`] says the effect; the event, the reply. A replica and the append-only file come in by
//! the same door, with the deadline in the request.

#![warn(clippy::undocumented_unsafe_blocks)]

mod background;
mod clock;
mod commands;
mod config;
mod courier;
mod data_type;
mod info;
mod level;
mod metrics;
mod pending;
mod policy;
mod replicate;
mod server;
mod version;

use std::ffi::{CStr, c_int};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use background::{cron, keyspace, pass};
use commands::commands;
use server::command::{self, Command};
use server::string::Args;
use server::{Context, allocator, api, guard, log, neighbours, options};

/// The module's name, as the server lists it.
const NAME: &CStr = c"dehydrator";
/// What the commands' names begin with.
const PREFIX: &str = "dehydrator";
/// What those of ReDe's commands begin with, and which it has: with `rede-commands`.
const REDE_PREFIX: &str = "rede";
const REDE_VERBS: [&CStr; 9] =
    [c"push", c"gidpush", c"pull", c"poll", c"xpoll", c"xack", c"look", c"update", c"ttn"];
/// `@dehydrator`, in access control lists.
const CATEGORY: &CStr = c"dehydrator";

/// Registers all there is, when the server loads the module.
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
            NAME.as_ptr(),
            version::NUMBER,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if status != raw::REDISMODULE_OK as c_int {
        return status;
    }
    allocator::probe();
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
    // SAFETY: the server has filled in its functions by now, and changes them no more.
    if unsafe { raw::RedisModule_RegisterNumericConfig }.is_none() {
        log::warning(
            "dehydrator: this server is too old: Redis 7.0 or later, or Valkey, is needed",
        );
        return false;
    }
    if let Err(reason) = config::register(context, args, commands::defaults::set) {
        log::warning(&format!("dehydrator: {reason}"));
        return false;
    }
    // SAFETY: the context is live.
    unsafe {
        // A corrupt payload is ours to refuse, not a reason to abort; a value of ours can be loaded
        // while the old data still serves; and we signal changes ourselves, so that a command that
        // changes nothing breaks nobody's WATCH.
        let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
            | options::atomic_slot_migration_option();
        api!(RedisModule_SetModuleOptions(context.as_ptr(), options as c_int));
    }
    let commands = commands();
    let refused = |what: &str| {
        log::warning(&format!("dehydrator: the server refuses {what}"));
        false
    };
    if !data_type::register(context) {
        return refused("the type dehy-type; is ReDe loaded too?");
    }
    for command in &commands {
        if !command::register(context, PREFIX, command) {
            return refused(&command.verb.to_string_lossy());
        }
    }
    command::categorize(context, CATEGORY, PREFIX, &commands);
    if config::rede_commands() {
        let is_rede = |command: &&Command| REDE_VERBS.contains(&command.verb);
        if !commands.iter().filter(is_rede).all(|it| command::register(context, REDE_PREFIX, it)) {
            return refused("the commands of ReDe; is it loaded too?");
        }
        command::categorize(context, CATEGORY, REDE_PREFIX, &commands);
    }
    neighbours::register(context, NAME);
    // In this order: see `pass::register`. What follows the cron in the server's list of listeners stays there.
    if !cron::register(context) || !pass::register(context) || !keyspace::register(context) {
        return refused("the hooks");
    }
    info::register(context) || refused("the INFO section")
}
