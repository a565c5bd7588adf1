//! A command: its description, its registration, its run.

use std::ffi::{CStr, CString, c_int};
use std::mem;
use std::ptr;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use super::syntax;
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Error, error, guard};

/// How a command uses its key, as the server's flags.
pub mod access {
    use redis_module::raw;

    /// Reads metadata only: counts or settings.
    pub const COUNT: u32 = raw::REDISMODULE_CMD_KEY_RO;
    /// Returns data.
    pub const READ: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
    /// Adds data. Neither returns nor removes any.
    pub const INSERT: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT;
    /// Removes data, and returns none.
    pub const DELETE: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE;
    /// Removes data and returns it.
    pub const TAKE: u32 = DELETE | raw::REDISMODULE_CMD_KEY_ACCESS;
    /// Changes data, and returns none.
    pub const TOUCH: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE;
    /// Replaces data, and returns the old data.
    pub const UPDATE: u32 = raw::REDISMODULE_CMD_KEY_RW
        | raw::REDISMODULE_CMD_KEY_UPDATE
        | raw::REDISMODULE_CMD_KEY_ACCESS;
}

/// A command. Its first argument is its key, if it has one, or the number of keys that follow, as its syntax says.
pub struct Command {
    /// Its name in lower case, without the module's name.
    pub verb: &'static CStr,
    pub handler: Handler,
    /// The server's flags, as `RM_CreateCommand` takes them.
    pub flags: &'static CStr,
    /// Set if users may run it only with the ACL categories `@admin` or `@dangerous`. The flag `admin` would hide it from MONITOR.
    pub is_admin: bool,
    /// The number of arguments, including the name; if negative, the minimum.
    pub arity: c_int,
    /// See [`access`]. `None` if the command has no key.
    pub access: Option<u32>,
    /// The keywords that may precede a second key, up to [`DESTS_MAX`].
    pub dests: &'static [Dest],
    /// The arguments after the name, see [`syntax`].
    pub syntax: &'static str,
    pub complexity: &'static CStr,
    pub summary: &'static CStr,
    /// Command tips for clients and proxies (`COMMAND DOCS`), separated by spaces.
    pub tips: &'static CStr,
    /// The first version of the module that had the command.
    pub since: &'static CStr,
    /// How that differs from the command of the same name that users knew before, if there was one.
    pub history: Option<&'static CStr>,
}

/// A second key, after a keyword.
pub struct Dest {
    pub keyword: &'static CStr,
    /// The first argument that may be the keyword.
    pub from: c_int,
    /// See [`access`].
    pub access: u32,
}

/// The maximum number of [`Dest`]s of a command.
const DESTS_MAX: usize = 2;

impl Command {
    /// Creates a command whose first argument is its key, without a description.
    pub const fn new(
        verb: &'static CStr,
        handler: Handler,
        flags: &'static CStr,
        arity: c_int,
        access: u32,
    ) -> Self {
        Self { access: Some(access), ..Self::without_key(verb, handler, flags, arity) }
    }

    /// Creates a command without a key, and without a description.
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
            is_admin: false,
            arity,
            access: None,
            dests: &[],
            syntax: "",
            complexity: c"",
            summary: c"",
            tips: c"",
            since: c"0.1.0",
            history: None,
        }
    }

    /// Returns whether the first argument is the number of keys that follow, rather than the key.
    fn is_counted(&self) -> bool {
        self.syntax.starts_with("numkeys ")
    }

    /// Returns the ACL categories that the server derives from these flags for its own commands.
    fn categories(&self) -> String {
        let flags = self.flags.to_string_lossy();
        let has = |flag| flags.split(' ').any(|it| it == flag);
        let access = if has("write") {
            "write "
        } else if has("readonly") {
            "read "
        } else {
            ""
        };
        let speed = if has("fast") { "fast" } else { "slow" };
        let blocking = if has("blocking") { " blocking" } else { "" };
        let admin = if self.is_admin { " admin dangerous" } else { "" };
        format!("{access}{speed}{blocking}{admin}")
    }
}

/// The C function that the server calls to run a command. [`handler!`] creates it.
pub type Handler =
    unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int;

/// Runs a command. `command` sends one reply and returns `Ok`, or sends none and returns an error.
///
/// # Safety
///
/// The arguments must be those that the server passes to a command's function.
pub unsafe fn run(
    context: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
    command: fn(&CommandContext, Args<'_>) -> error::Result,
) -> c_int {
    // SAFETY: the caller vouches for the context and the arguments, for as long as this runs.
    let (context, args) =
        unsafe { (CommandContext::from_raw(context), Args::from_raw(argv, argc as usize)) };
    let reply = guard::guard(Err(Error::INTERNAL), || command(&context, args));
    if let Err(error) = reply
        && !context.has_replied()
    {
        guard::guard((), || context.reply_error(&error));
    }
    raw::REDISMODULE_OK as c_int
}

/// Creates a [`Handler`] from a command's function.
macro_rules! handler {
    ($command:path) => {{
        unsafe extern "C" fn entry(
            context: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::ffi::c_int,
        ) -> std::ffi::c_int {
            // SAFETY: the server calls this, with the command's context and arguments.
            unsafe { $crate::server::command::run(context, argv, argc, $command) }
        }
        entry as $crate::server::command::Handler
    }};
}
pub(crate) use handler;

/// Registers commands as `prefix.verb`, in the ACL category `own` and in those derived from their flags. Returns the command
/// that the server refuses, if any.
///
/// Redis 7.2 supports only the derived categories; Redis 7.4 and Valkey 8 support both; earlier servers support none.
pub fn register<'c>(
    context: &Context,
    own: &CStr,
    prefix: &str,
    commands: impl IntoIterator<Item = &'c Command>,
) -> Result<(), &'c Command> {
    // SAFETY: the server has set its functions by now, and never changes them again.
    let (add, set) =
        unsafe { (raw::RedisModule_AddACLCategory, raw::RedisModule_SetCommandACLCategories) };
    if let Some(add) = add {
        // SAFETY: the context is live during loading, and the server copies the text.
        unsafe { add(context.as_ptr(), own.as_ptr()) };
    }
    for command in commands {
        let registered = create(context, prefix, command).ok_or(command)?;
        let Some(set) = set else { continue };
        let by_flags = command.categories();
        let with_own = format!("{by_flags} {}", own.to_string_lossy());
        // A server that refuses the module's category refuses every list that contains it, and accepts a list without it.
        // Without `add` this is Redis 7.2, which would log each refusal.
        let lists = if add.is_some() { vec![with_own, by_flags] } else { vec![by_flags] };
        // SAFETY: the command is registered, and the server copies the text.
        lists.into_iter().any(|list| unsafe {
            let list = CString::new(list).unwrap_or_default();
            set(registered, list.as_ptr()) == raw::REDISMODULE_OK as c_int
        });
    }
    Ok(())
}

/// Creates a command with its description. `None`: the server refuses it.
fn create(
    context: &Context,
    prefix: &str,
    command: &Command,
) -> Option<*mut raw::RedisModuleCommand> {
    let name = CString::new(format!("{prefix}.{}", command.verb.to_string_lossy())).ok()?;
    // The description below gives the positions of counted keys.
    let key = c_int::from(command.access.is_some() && !command.is_counted());
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
            return None;
        }
        let registered = api!(RedisModule_GetCommand(context.as_ptr(), name.as_ptr()));
        let description = describe(command);
        let is_described = !registered.is_null()
            && api!(RedisModule_SetCommandInfo(registered, &description))
                == raw::REDISMODULE_OK as c_int;
        is_described.then_some(registered)
    }
}

/// Returns the server's description of a command. It points to memory that is never freed.
fn describe(command: &Command) -> raw::RedisModuleCommandInfo {
    /// The layout of the structures below, as of Redis 7.0.
    static VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    // SAFETY: the structure is plain C data (integers, pointers, unions of them). All zeroes are the API's end-of-list marker.
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
        if command.is_counted() {
            first.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            // Both relative to the position of the number.
            first.fk.keynum.keynumidx = 0;
            first.fk.keynum.firstkey = 1;
            first.fk.keynum.keystep = 1;
        }
    }
    assert!(command.dests.len() <= DESTS_MAX, "more than DESTS_MAX");
    // The rest stays zero.
    for (dest, other) in command.dests.iter().zip(others) {
        one_key(other);
        other.flags = (dest.access | raw::REDISMODULE_CMD_KEY_INCOMPLETE).into();
        other.begin_search_type =
            raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
        other.bs.keyword.keyword = dest.keyword.as_ptr();
        other.bs.keyword.startfrom = dest.from;
    }
    // An empty entry ends the list. Without any entries the list is null: a server would show an empty history.
    let entry = |since, changes| raw::RedisModuleCommandHistoryEntry { since, changes };
    let history = command.history.map(|changes| {
        let only = entry(command.since.as_ptr(), changes.as_ptr());
        Box::leak(Box::new([only, entry(ptr::null(), ptr::null())])).as_mut_ptr()
    });
    raw::RedisModuleCommandInfo {
        version: &VERSION,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: command.since.as_ptr(),
        history: history.unwrap_or(ptr::null_mut()),
        tips: if command.tips.is_empty() { ptr::null() } else { command.tips.as_ptr() },
        arity: command.arity,
        // Leaked rather than tracked: the descriptions are made once, while loading.
        key_specs: Box::leak(Box::new(key_specs)).as_mut_ptr(),
        args: syntax::to_raw(&syntax::parse(command.syntax)),
    }
}
