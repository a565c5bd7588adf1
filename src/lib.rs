//! Dehydrator: a data type for Redis and Valkey that stores elements and returns them when they are due.
//!
//! This file is the entry: a map of the modules, and the registration of everything when the server loads the module.
//!
//! A module imports only from layers below its own. `tests/server/layout.rs` has the same layers, and fails for an import
//! that goes up.
//!
//! ```text
//!   9  lib
//!   8  info                      the module's section of INFO
//!   7  background                the work that the module does without a command
//!   6  commands                  the commands
//!   5  delivery                  moving elements to the destination of a policy (ONDUE)
//!   4  data_type                 a key's value, and opening a key
//!   3  replicate  pending        the text of replicated effects; the agenda and blocked clients
//!   2  metrics                   counters and lateness
//!   1  clock  config  level      the only reader of the time; settings; the replication level
//!   0  policy  schedule          the rules of a dehydrator; schedules, and when they occur
//!      server  version           a safe wrapper around the module API; the module's version and commit
//! ```
//!
//! Below all of them is [`lawn`], the data structure, a separate crate in `src/lawn`.
//!
//! The modules of layer 0 import none of the others, and every module above imports `server`. The other imports:
//!
//! | module | imports |
//! |---|---|
//! | `lib`, to register them | `info`, `commands`, `background`, `data_type`, `config`, `version` |
//! | `info` | `background`, `data_type`, `pending`, `metrics`, `schedule`, `version` |
//! | `background` | every layer below; from `commands` only `poll`, which serves blocked clients, |
//! | `commands` | every layer below |
//! | `delivery` | `data_type`, `replicate`, `pending`, `metrics`, `clock`, `config`, `policy`, `schedule`, `lawn` |
//! | `data_type` | `replicate`, `pending`, `policy`, `schedule`, `lawn`, `metrics`, `clock`, `config` |
//! | `replicate` | `level`, `policy`, `schedule`, `lawn`, `version` |
//! | `pending` | `metrics`, `clock`, `config`, `lawn` |
//! | `metrics` | `clock` |
//! | `config`, `policy`, `schedule` | `lawn` |
//! | `level` | `version` |
//!
//! | word | meaning | where |
//! |---|---|---|
//! | effect | what happened, for replicas and files; `S` says that elements left and their ids are remembered | `replicate/head.rs` |
//! | sleeper | a blocked client | `pending/blocked/queues.rs` |
//! | stuck | a dead letter that could not be moved; it waits behind all others | `delivery/dead_letters.rs` |
//! | trust | who set a policy that sends elements elsewhere | `policy/mod.rs` |
//!
//! *A PUSH*: [`commands()`] maps the name to `push::push`; `Push::parse` reads the arguments into a typed request;
//! [`data_type::Writing`] opens the key; the clock is read once; [`lawn::Lawn::start_at`] stores the element; [`replicate`]
//! replicates the effect; the keyspace event and the reply follow. A replica and the append-only file use the same path, with
//! the deadline in the request.

#![warn(clippy::undocumented_unsafe_blocks)]

mod background;
mod clock;
mod commands;
mod config;
mod data_type;
mod delivery;
mod info;
mod level;
mod metrics;
mod pending;
mod policy;
mod replicate;
mod schedule;
mod server;
mod version;

use std::ffi::{CStr, c_int};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use background::{cron, pass, server_events};
use commands::{commands, defaults::DEFAULT_ONDUE};
use server::command;
use server::setting::{self, Setting};
use server::string::Args;
use server::{
    Context, allocator, api, guard, info as server_info, log_warning, other_modules, passes,
};

/// The module's name in MODULE LIST.
const NAME: &CStr = c"dehydrator";
/// The prefix of the commands' names.
const PREFIX: &str = "dehydrator";
/// The prefix and the commands of ReDe, for the setting `rede-commands`.
const REDE_PREFIX: &str = "rede";
const REDE_VERBS: [&CStr; 9] =
    [c"push", c"gidpush", c"pull", c"poll", c"xpoll", c"xack", c"look", c"update", c"ttn"];
/// The ACL category `@dehydrator`.
const CATEGORY: &CStr = c"dehydrator";

/// Registers everything when the server loads the module.
///
/// # Safety
///
/// Only the server may call this.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    raw_context: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // Nothing may allocate before this call, which sets the pointer to the server's allocator.
    // SAFETY: the server passes its context, and the name is a C string.
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
    // SAFETY: the server has set its functions by now, and never changes them again.
    if unsafe { raw::RedisModule_RegisterNumericConfig }.is_none() {
        log_warning("dehydrator: this server is too old: Redis 7.0 or later, or Valkey, is needed");
        return false;
    }
    let settings: Vec<&dyn Setting> =
        config::SETTINGS.into_iter().chain([&DEFAULT_ONDUE as _]).collect();
    let is_loaded = match setting::register(context, args, &settings) {
        Ok(()) => register(context),
        Err(reason) => {
            log_warning(&format!("dehydrator: {reason}"));
            false
        }
    };
    if is_loaded {
        context.detach();
    } else {
        // The server unmaps the library, and what that still owned would be lost.
        settings.iter().for_each(|setting| setting.reset());
    }
    is_loaded
}

/// Registers everything but the settings.
fn register(context: &Context) -> bool {
    // SAFETY: the context is live.
    unsafe {
        // The module rejects corrupt payloads itself, so the server must not abort. Values can be loaded while the old
        // data is still served. And the module signals changes itself, so a command without a change fails no WATCH.
        let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
            | atomic_slot_migration_option();
        api!(RedisModule_SetModuleOptions(context.as_ptr(), options as c_int));
    }
    let commands = commands();
    let refused = |what: &str| {
        log_warning(&format!("dehydrator: the server refuses {what}"));
        false
    };
    if !data_type::register(context) {
        return refused("the type dehy-type; is ReDe loaded too?");
    }
    if let Err(command) = command::register(context, CATEGORY, PREFIX, &commands) {
        return refused(&command.verb.to_string_lossy());
    }
    let of_rede = commands.iter().filter(|command| REDE_VERBS.contains(&command.verb));
    if config::REDE_COMMANDS.get() > 0
        && command::register(context, CATEGORY, REDE_PREFIX, of_rede).is_err()
    {
        return refused("the commands of ReDe; is it loaded too?");
    }
    other_modules::register(context, NAME);
    // The order matters: reports of passes may end only while a subscription after the cron's stays.
    let has_hooks = cron::register(context)
        && passes::register(context, pass::report)
        && server_events::register(context);
    if !has_hooks {
        return refused("the hooks");
    }
    info::register(context) || refused("the INFO section")
}

/// Returns the option that declares support for atomic slot migration, or 0 if the server lacks the option: the bit may have
/// another meaning there. Valkey 9 and later refuse to migrate slots atomically while a loaded module does not set it.
fn atomic_slot_migration_option() -> u32 {
    const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
    // SAFETY: takes no argument and has no precondition. The server has set its functions by now.
    let known = unsafe { raw::RedisModule_GetModuleOptionsAll.map_or(0, |all| all()) };
    if server_info::is_valkey() { known as u32 & HANDLE_ATOMIC_SLOT_MIGRATION } else { 0 }
}
