//! Registering a command with all that is known of it.

use std::ffi::{CStr, CString, c_int};
use std::mem;
use std::ptr;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use super::syntax;
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Error, error::Result, guard};

/// What a command does with its key, in the server's own terms.
pub mod access {
    use redis_module::raw;

    /// Counts what is in the key, or looks at what is said of it, replying nothing of it.
    pub const COUNT: u32 = raw::REDISMODULE_CMD_KEY_RO;
    /// Reads what is in the key.
    pub const READ: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
    /// Adds to it, reading and removing nothing.
    pub const INSERT: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT;
    /// Removes from it, reading nothing.
    pub const DELETE: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE;
    /// Removes from it what it replies.
    pub const TAKE: u32 = DELETE | raw::REDISMODULE_CMD_KEY_ACCESS;
    /// Changes what is in it, replying nothing of it.
    pub const TOUCH: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE;
    /// Replaces in it what it replies.
    pub const UPDATE: u32 = raw::REDISMODULE_CMD_KEY_RW
        | raw::REDISMODULE_CMD_KEY_UPDATE
        | raw::REDISMODULE_CMD_KEY_ACCESS;
}

/// A command whose first argument is its key, if it has one, or says how many keys follow.
pub struct Command {
    /// In lower case, as the server lists it, without the module's name.
    pub verb: &'static CStr,
    pub handler: Handler,
    /// The server's flags, as `RM_CreateCommand` takes them.
    pub flags: &'static CStr,
    /// Arguments, the name included; negative: at least that many.
    pub arity: c_int,
    /// See [`access`]. `None`: there is no key.
    pub access: Option<u32>,
    /// Whether the first argument says how many keys follow, rather than being the key.
    pub is_counted: bool,
    /// A second key, behind one of these words.
    pub dests: &'static [Dest],
    /// What follows the name, see [`syntax`].
    pub syntax: &'static str,
    pub complexity: &'static CStr,
    pub summary: &'static CStr,
    /// What the server's `COMMAND DOCS` tells clients and proxies besides, with spaces between.
    pub tips: &'static CStr,
    /// The version of the module that had it first.
    pub since: &'static CStr,
    /// What has changed since: in which version, and what.
    pub history: &'static [(&'static CStr, &'static CStr)],
}

/// A key that stands behind a word.
pub struct Dest {
    pub keyword: &'static CStr,
    /// The word is looked for from this argument on.
    pub from: c_int,
    /// See [`access`].
    pub access: u32,
}

/// Words behind which a second key may stand.
const DESTS_MAX: usize = 2;

impl Command {
    /// Makes a command whose first argument is its key.
    pub const fn new(
        verb: &'static CStr,
        handler: Handler,
        flags: &'static CStr,
        arity: c_int,
        access: u32,
    ) -> Self {
        Self { access: Some(access), ..Self::without_key(verb, handler, flags, arity) }
    }

    /// Makes a command that has no key.
    pub const fn without_key(
        verb: &'static CStr,
        handler: Handler,
        flags: &'static CStr,
        arity: c_int,
    ) -> Self {
        Self {
            verb,
            handler,
            flags,
            arity,
            access: None,
            is_counted: false,
            dests: &[],
            syntax: "",
            complexity: c"",
            summary: c"",
            tips: c"",
            since: c"0.1.0",
            history: &[],
        }
    }

    /// Says that it has any number of keys, which the first argument tells.
    pub const fn with_numkeys(self) -> Self {
        Self { is_counted: true, ..self }
    }

    /// Says that it has a second key, behind one of these words.
    pub const fn with_dests(self, dests: &'static [Dest]) -> Self {
        assert!(dests.len() <= DESTS_MAX, "there is no room for so many");
        Self { dests, ..self }
    }

    /// Says how it is written, what it costs and what it does.
    pub const fn described(
        self,
        syntax: &'static str,
        complexity: &'static CStr,
        summary: &'static CStr,
    ) -> Self {
        Self { syntax, complexity, summary, ..self }
    }

    /// Says that what it replies depends on more than what is in the key: on the clock, or on chance.
    pub const fn varying(self) -> Self {
        Self { tips: c"nondeterministic_output", ..self }
    }

    /// Gives a client of a cluster tips: see redis.io, command tips.
    pub const fn with_tips(self, tips: &'static CStr) -> Self {
        Self { tips, ..self }
    }

    /// Says what has changed, and in which version.
    pub const fn with_history(self, history: &'static [(&'static CStr, &'static CStr)]) -> Self {
        Self { history, ..self }
    }
}

impl Command {
    /// Returns the categories that the server would give to a command of its own with these flags.
    fn categories(&self) -> String {
        let flags = self.flags.to_string_lossy();
        let has = |flag| flags.split(' ').any(|it| it == flag);
        let access = if has("write") { "write" } else { "read" };
        let speed = if has("fast") { "fast" } else { "slow" };
        let blocking = if has("blocking") { " blocking" } else { "" };
        format!("{access} {speed}{blocking}")
    }
}

/// What runs a command: it sends one reply and returns `Ok`, or sends none and returns an error.
pub type Handler =
    unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int;

/// Runs a command on behalf of the server.
///
/// # Safety
///
/// The arguments must be those that the server hands to a command's function.
pub unsafe fn run(
    context: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
    command: fn(&CommandContext, Args<'_>) -> Result,
) -> c_int {
    guard::guard((), || {
        // SAFETY: the caller vouches for the context and the arguments, for as long as this runs.
        let (context, args) =
            unsafe { (CommandContext::from_raw(context), Args::from_raw(argv, argc as usize)) };
        let reply = guard::guard(Err(Error::INTERNAL), || command(&context, args));
        match reply {
            Err(error) if !context.has_replied() => context.reply_error(&error),
            _ => {}
        }
    });
    raw::REDISMODULE_OK as c_int
}

/// Makes the C entry of a command from its function.
macro_rules! handler {
    ($command:path) => {{
        unsafe extern "C" fn entry(
            context: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::ffi::c_int,
        ) -> std::ffi::c_int {
            // SAFETY: the server calls this, with what belongs to the command.
            unsafe { $crate::server::command::run(context, argv, argc, $command) }
        }
        entry as $crate::server::command::Handler
    }};
}
pub(crate) use handler;

/// Registers a command as `prefix.verb`. Returns `false` if the server refuses it.
pub fn register(context: &Context, prefix: &str, command: &Command) -> bool {
    let name = format!("{prefix}.{}", command.verb.to_string_lossy());
    let Ok(name) = CString::new(name) else { return false };
    // Where keys are counted, the description below says where they are.
    let key = c_int::from(command.access.is_some() && !command.is_counted);
    // SAFETY: the context is live during loading, the name for the length of this call, and all other
    // strings are static.
    unsafe {
        let status = api!(RedisModule_CreateCommand(
            context.as_ptr(),
            name.as_ptr(),
            Some(command.handler),
            command.flags.as_ptr(),
            key,
            key,
            key
        ));
        if status != raw::REDISMODULE_OK as c_int {
            return false;
        }
        let registered = api!(RedisModule_GetCommand(context.as_ptr(), name.as_ptr()));
        let described = describe_command(command);
        !registered.is_null()
            && api!(RedisModule_SetCommandInfo(registered, &described))
                == raw::REDISMODULE_OK as c_int
    }
}

/// Puts commands that are called `prefix.verb` into categories of the server's access control lists: those
/// that follow from their flags, and one of the module's own. Redis 7.2 has the former alone, 7.4 and Valkey
/// 8 the latter too; Redis 7.0 has neither.
pub fn categorize(context: &Context, own: &CStr, prefix: &str, commands: &[Command]) {
    // SAFETY: the server has filled in its functions by now, and changes them no more.
    let (add, set) =
        unsafe { (raw::RedisModule_AddACLCategory, raw::RedisModule_SetCommandACLCategories) };
    let Some(set) = set else { return };
    // SAFETY: the context is live during loading, and the server copies what it is shown. If it refuses
    // the category, a list with it is refused whole, and one without it is not.
    unsafe {
        if let Some(add) = add {
            add(context.as_ptr(), own.as_ptr());
        }
        for command in commands {
            let name = CString::new(format!("{prefix}.{}", command.verb.to_string_lossy()));
            let name = name.unwrap_or_default();
            let registered = api!(RedisModule_GetCommand(context.as_ptr(), name.as_ptr()));
            if registered.is_null() {
                continue;
            }
            let by_flags = command.categories();
            let with_own = format!("{by_flags} {}", own.to_string_lossy());
            let list = |list: String| CString::new(list).unwrap_or_default();
            // Redis 7.2 would log each refusal.
            let has_own = add.is_some()
                && set(registered, list(with_own).as_ptr()) == raw::REDISMODULE_OK as c_int;
            if !has_own {
                set(registered, list(by_flags).as_ptr());
            }
        }
    }
}

/// Describes a command to the server. The description points to static memory, which the server copies.
fn describe_command(command: &Command) -> raw::RedisModuleCommandInfo {
    /// The layout of the structures below, as of Redis 7.0.
    static VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    // SAFETY: the structure is plain C data (integers, pointers, unions of them), for which all
    // zeroes are the end-of-list marker that the API asks for.
    let mut key_specs: [raw::RedisModuleCommandKeySpec; 2 + DESTS_MAX] = unsafe { mem::zeroed() };
    let one_key = |key: &mut raw::RedisModuleCommandKeySpec| {
        key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        key.fk.range.lastkey = 0;
        key.fk.range.keystep = 1;
        key.fk.range.limit = 0;
    };
    let [first, others @ ..] = &mut key_specs;
    if let Some(access) = command.access {
        one_key(first);
        first.flags = access.into();
        first.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        first.bs.index.pos = 1;
        if command.is_counted {
            first.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            // Counted from where the number is.
            first.fk.keynum.keynumidx = 0;
            first.fk.keynum.firstkey = 1;
            first.fk.keynum.keystep = 1;
        }
    }
    // What is left is zeroes.
    for (dest, other) in command.dests.iter().zip(others) {
        one_key(other);
        other.flags = (dest.access | raw::REDISMODULE_CMD_KEY_INCOMPLETE).into();
        other.begin_search_type =
            raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
        other.bs.keyword.keyword = dest.keyword.as_ptr();
        other.bs.keyword.startfrom = dest.from;
    }
    // An entry that says nothing is the last. A server that is shown none but that shows an empty list.
    let end = (c"", c"");
    let entries = command.history.iter().chain([&end]);
    let history: Box<[_]> = entries
        .map(|(since, changes)| raw::RedisModuleCommandHistoryEntry {
            since: if since.is_empty() { ptr::null() } else { since.as_ptr() },
            changes: changes.as_ptr(),
        })
        .collect();
    raw::RedisModuleCommandInfo {
        version: &VERSION,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: command.since.as_ptr(),
        history: match command.history {
            [] => ptr::null_mut(),
            _ => Box::leak(history).as_mut_ptr(),
        },
        tips: if command.tips.is_empty() { ptr::null() } else { command.tips.as_ptr() },
        arity: command.arity,
        // A dozen descriptions are made once, while loading: leaked rather than tracked.
        key_specs: Box::leak(Box::new(key_specs)).as_mut_ptr(),
        args: syntax::to_raw(&syntax::parse(command.syntax)),
    }
}
