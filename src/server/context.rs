//! The server during one callback: replies, events, flags, the selected database.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_long};
use std::ptr::{self, NonNull};

use redis_module::raw::{self, RedisModuleCtx};

use super::{Error, Str, info};

/// The server during one callback.
pub struct Context {
    raw: NonNull<RedisModuleCtx>,
    /// Whether a reply has begun: then no other may follow, or the connection is out of step.
    replied: Cell<bool>,
    /// Whether it is that of a command, so that the command can be replicated as it was sent.
    is_command: bool,
}

impl Context {
    /// # Safety
    ///
    /// `raw` must be the context that the server handed to the callback which is running, and not
    /// outlive it.
    pub unsafe fn from_raw(raw: *mut RedisModuleCtx) -> Self {
        let raw = NonNull::new(raw).expect("the server hands out a context");
        Self { raw, replied: Cell::new(false), is_command: false }
    }

    /// # Safety
    ///
    /// As [`Context::from_raw`], of a callback that runs a command.
    pub unsafe fn of_command(raw: *mut RedisModuleCtx) -> Self {
        // SAFETY: the caller vouches for it.
        Self { is_command: true, ..unsafe { Self::from_raw(raw) } }
    }

    /// Whether a command is running.
    pub fn is_command(&self) -> bool {
        self.is_command
    }

    /// A context that belongs to no callback and lasts as long as the process: to say something to the server
    /// where it hands out none. Nothing may be replied, replicated or opened by it.
    pub fn detached(&self) -> Self {
        // SAFETY: the context is live.
        let raw = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(self.as_ptr())) };
        let raw = NonNull::new(raw).expect("the server aborts rather than run out of memory");
        Self { raw, replied: Cell::new(false), is_command: false }
    }

    pub fn as_ptr(&self) -> *mut RedisModuleCtx {
        self.raw.as_ptr()
    }

    /// The context for a reply.
    fn reply_ptr(&self) -> *mut RedisModuleCtx {
        self.replied.set(true);
        self.as_ptr()
    }

    /// Whether a reply has begun.
    pub fn has_replied(&self) -> bool {
        self.replied.get()
    }

    pub fn reply_ok(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply_ptr(), c"OK".as_ptr())) };
    }

    fn reply_simple(&self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply_ptr(), text.as_ptr())) };
    }

    pub fn reply_null(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithNull(self.reply_ptr())) };
    }

    /// Nil in the place of an array, as BLPOP replies when it has waited in vain.
    pub fn reply_null_array(&self) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithNullArray(self.reply_ptr())) };
    }

    pub fn reply_integer(&self, number: i64) {
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.reply_ptr(), number)) };
    }

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

    /// An array of as many replies as will have been counted when it is dropped.
    pub fn reply_open_array(&self) -> OpenArray<'_> {
        let postponed = c_long::from(raw::REDISMODULE_POSTPONED_LEN);
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply_ptr(), postponed)) };
        OpenArray { context: self, length: 0 }
    }

    /// A name and an array, in an array of two: the latter is open, as that of [`Context::reply_open_array`] is.
    pub fn reply_named_open_array(&self, name: &[u8]) -> OpenArray<'_> {
        // SAFETY: the context is live. What follows are the two.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply_ptr(), 2)) };
        self.reply_bulk(name);
        self.reply_open_array()
    }

    /// A map of as many entries as will have been counted when it is dropped.
    pub fn reply_open_map(&self) -> OpenMap<'_> {
        let postponed = c_long::from(raw::REDISMODULE_POSTPONED_LEN);
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithMap(self.reply_ptr(), postponed)) };
        OpenMap { context: self, length: 0 }
    }

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
            Error::Refused(reason) => format!("ERR {reason}"),
        };
        let text = CString::new(text).unwrap_or_else(|_| c"ERR refused".to_owned());
        // SAFETY: the context is live, and the server copies what it is shown.
        unsafe { api!(RedisModule_ReplyWithError(self.reply_ptr(), text.as_ptr())) };
    }

    /// The database that keys are opened in.
    pub fn selected_db(&self) -> i32 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetSelectedDb(self.as_ptr())) }
    }

    /// Selects a database for the rest of this callback. `false` if there is none of that number.
    pub fn select_db(&self, number: i32) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_SelectDb(self.as_ptr(), number)) == raw::REDISMODULE_OK as c_int }
    }

    /// Whether this server is a primary that may replicate at this moment: it is no replica, it does
    /// not load, and clients are not paused (to replicate then would kill the server).
    pub fn may_replicate(&self) -> bool {
        // SAFETY: the context is live. `AvoidReplicaTraffic` takes no argument.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_MASTER != 0 && self.may_write()
        }
    }

    /// Whether what changes now may be replicated: to do that while the server loads, or while clients
    /// are paused, would kill it. (On a replica that may be written to, nothing is replicated.)
    pub fn may_write(&self) -> bool {
        // SAFETY: the context is live. `AvoidReplicaTraffic` takes no argument.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_LOADING == 0
                && api!(RedisModule_AvoidReplicaTraffic()) == 0
        }
    }

    /// Whether this server is a replica to which nothing may be written.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: the context is live.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_READONLY != 0
        }
    }

    /// Whether more memory is in use than `maxmemory` allows, now.
    pub fn is_out_of_memory(&self) -> bool {
        // SAFETY: the context is live.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_OOM != 0
        }
    }

    /// Whether this command comes from the primary or from the append-only file. It was carried out before,
    /// so no limit may refuse it now.
    pub fn is_replaying(&self) -> bool {
        let replays = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 & replays != 0 }
    }

    /// Whether this command comes from this server's own primary or append-only file, so that to refuse it would leave
    /// the two different. (The nodes of a cluster send each other slots by commands that replay, too: who sends them
    /// hears of an error.)
    pub fn must_obey(&self) -> bool {
        const FROM_PRIMARY: u32 =
            raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_SLAVE;
        // SAFETY: the context is live.
        let flags = unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 };
        flags & raw::REDISMODULE_CTX_FLAGS_LOADING != 0 || flags & FROM_PRIMARY == FROM_PRIMARY
    }

    /// Whether the server loads its data, or a full sync, perhaps while it still serves the old ones.
    pub fn loads(&self) -> bool {
        // SAFETY: the context is live.
        let flags = unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 };
        flags & (raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING) != 0
    }

    /// Whether the client of this command may be put to sleep: not within MULTI or a script.
    pub fn may_block(&self) -> bool {
        let never = raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 & never == 0 }
    }

    /// Runs a command of the server's own, which may write, with the effects that it replicates.
    ///
    /// # Errors
    ///
    /// What a client would be told. Nothing has changed then.
    pub fn call(&self, command: &CStr, arguments: &[Str<'_>]) -> std::result::Result<(), String> {
        /// Replicate; errors as replies, also those of the call itself; refuse to write where clients are
        /// refused (too few replicas, a disk that fails), as for scripts; and the arguments as an array of
        /// strings. Not to heed `maxmemory`: outside of commands that looks at the state at the last one.
        const FORMAT: &CStr = c"!ESv";
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        // SAFETY: the context is live, the arguments are the server's strings, and the format says what
        // follows. The text of an error lives as long as the reply.
        unsafe {
            let reply = api!(RedisModule_Call(
                self.as_ptr(),
                command.as_ptr(),
                FORMAT.as_ptr(),
                arguments.as_ptr(),
                arguments.len()
            ));
            if reply.is_null() {
                return Err("the server does not run it".to_owned());
            }
            let mut result = Ok(());
            if api!(RedisModule_CallReplyType(reply)) == raw::REDISMODULE_REPLY_ERROR as c_int {
                let mut length = 0;
                let start = api!(RedisModule_CallReplyStringPtr(reply, &mut length));
                let said = std::slice::from_raw_parts(start.cast::<u8>(), length);
                result = Err(String::from_utf8_lossy(said).trim_end().to_owned());
            }
            api!(RedisModule_FreeCallReply(reply));
            result
        }
    }

    /// Whether the command is not to run, but to say where its keys are ([`Context::key_at`]).
    pub fn wants_keys(&self) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.as_ptr())) != 0 }
    }

    /// Says that an argument is a key, and what is done with it, see
    /// [`access`](super::command::access).
    pub fn key_at(&self, position: usize, access: u32) {
        // SAFETY: the context is live, and asks for this.
        unsafe {
            api!(RedisModule_KeyAtPosWithFlags(self.as_ptr(), position as c_int, access as c_int))
        }
    }

    /// Whether the user who runs this command may publish to a channel. The server logs it if not.
    pub fn may_publish_to(&self, channel: Str<'_>) -> bool {
        if !self.has_user() {
            return true;
        }
        let publish = raw::REDISMODULE_CMD_CHANNEL_PUBLISH as c_int;
        // SAFETY: the context is live, its client has a user, the channel is live. What is got is freed. A user
        // who is none of the server's own list (another module made it) has no rights that could be asked for.
        unsafe {
            let name = api!(RedisModule_GetCurrentUserName(self.as_ptr()));
            let Some(name) = NonNull::new(name) else { return false };
            let user = api!(RedisModule_GetModuleUserFromUserName(name.as_ptr()));
            api!(RedisModule_FreeString(self.as_ptr(), name.as_ptr()));
            let Some(user) = NonNull::new(user) else { return false };
            let may = api!(RedisModule_ACLCheckChannelPermissions(
                user.as_ptr(),
                channel.as_ptr(),
                publish
            )) == raw::REDISMODULE_OK as c_int;
            if !may {
                let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
                api!(RedisModule_ACLAddLogEntry(
                    self.as_ptr(),
                    user.as_ptr(),
                    channel.as_ptr(),
                    reason
                ));
            }
            api!(RedisModule_FreeModuleUser(user.as_ptr()));
            may
        }
    }

    /// Whether this command is run by a user. By none it is when another module calls it in its own name, which
    /// may do anything; Redis 7.0 and 7.2 must not be asked for the name then, for they would look at it.
    fn has_user(&self) -> bool {
        // A command that does not exist, as the user: whether there is a user is what the server looks at first
        // (ENOTSUP), and then whether there is such a command.
        // SAFETY: the context is live, the format takes no arguments.
        let reply = unsafe {
            api!(RedisModule_Call(self.as_ptr(), c"DEHYDRATOR.".as_ptr(), c"C".as_ptr()))
        };
        let error = std::io::Error::last_os_error();
        if !reply.is_null() {
            // SAFETY: a reply is ours to free.
            unsafe { api!(RedisModule_FreeCallReply(reply)) };
        }
        error.kind() != std::io::ErrorKind::Unsupported
    }

    /// Tells WATCHing clients and client-side caches that a key has changed.
    pub fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: context and key are live.
        unsafe { api!(RedisModule_SignalModifiedKey(self.as_ptr(), key.as_ptr())) };
    }

    /// Publishes a keyspace event of the module class.
    pub fn notify_module(&self, event: &CStr, key: Str<'_>) {
        self.notify(raw::REDISMODULE_NOTIFY_MODULE, event, key);
    }

    /// Publishes the event that every type publishes when its last element goes.
    pub fn notify_deleted(&self, key: Str<'_>) {
        self.notify(raw::REDISMODULE_NOTIFY_GENERIC, c"del", key);
    }

    fn notify(&self, class: c_int, event: &CStr, key: Str<'_>) {
        // SAFETY: context and key are live, the event's name is a C string.
        unsafe {
            api!(RedisModule_NotifyKeyspaceEvent(
                self.as_ptr(),
                class,
                event.as_ptr(),
                key.as_ptr()
            ))
        };
    }
}

/// An array reply whose length is told at its end, come what may: one that is never closed would
/// leave the connection out of step.
pub struct OpenArray<'a> {
    context: &'a Context,
    length: usize,
}

impl OpenArray<'_> {
    pub fn push_bulk(&mut self, bytes: &[u8]) {
        self.context.reply_bulk(bytes);
        self.length += 1;
    }

    pub fn push_integer(&mut self, number: i64) {
        self.context.reply_integer(number);
        self.length += 1;
    }

    /// A status: text without a line break.
    pub fn push_simple(&mut self, text: &str) {
        self.context.reply_simple(text);
        self.length += 1;
    }

    pub fn push_null(&mut self) {
        self.context.reply_null();
        self.length += 1;
    }

    /// An array within this one. It must be closed before this goes on.
    pub fn push_open_array(&mut self) -> OpenArray<'_> {
        self.length += 1;
        self.context.reply_open_array()
    }
}

impl Drop for OpenArray<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is live, and this array is the innermost that is open.
        unsafe {
            api!(RedisModule_ReplySetArrayLength(self.context.as_ptr(), self.length as c_long))
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

/// The option by which a module says that slots may be moved to another node all at once, keys and all: Valkey 9
/// and later refuse to while any module has not said so. 0 where the server does not know it; there the bit is
/// free to mean something else.
pub fn atomic_slot_migration_option() -> u32 {
    const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
    // SAFETY: takes no argument and has no precondition. The server has filled in its functions by now, and
    // changes them no more.
    let known = unsafe { raw::RedisModule_GetModuleOptionsAll.map_or(0, |all| all()) };
    if info::is_valkey() { known as u32 & HANDLE_ATOMIC_SLOT_MIGRATION } else { 0 }
}

/// Whether events of the module class are published, by one channel or another.
pub fn publishes_module_events() -> bool {
    let channels = raw::REDISMODULE_NOTIFY_KEYSPACE | raw::REDISMODULE_NOTIFY_KEYEVENT;
    // SAFETY: takes no argument and has no precondition.
    let on = unsafe { api!(RedisModule_GetNotifyKeyspaceEvents()) };
    on & raw::REDISMODULE_NOTIFY_MODULE != 0 && on & channels != 0
}

/// Writes a line to the server's log, from anywhere.
pub fn log_warning(message: &str) {
    log(c"warning", message);
}

fn log(level: &CStr, message: &str) {
    let Ok(message) = CString::new(message.replace('\0', " ")) else { return };
    // SAFETY: the server accepts a null context here, and the format takes one C string.
    unsafe {
        api!(RedisModule_Log(ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), message.as_ptr()))
    };
}
