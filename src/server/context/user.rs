//! The rights of a server's user.

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use redis_module::raw::{self, RedisModuleString, RedisModuleUser};

use super::Context;
use super::call::NO_COMMAND;
use crate::server::{OwnedStr, Str, hold};

/// The id of a connection, never reused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientId(pub u64);

/// A user from the server's own list.
struct User(NonNull<RedisModuleUser>);

impl User {
    /// Looks up a user by name. Returns `None` if the user is not in the server's list because another module created it.
    fn find(name: &OwnedStr) -> Option<Self> {
        // SAFETY: the name is live.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(name.as_str().as_ptr())) };
        NonNull::new(user).map(Self)
    }
}

/// Checks a command with its arguments in a database. The last argument returns the reason of a refusal, unless it is null.
type AclCheckPermissions = unsafe extern "C" fn(
    *mut RedisModuleUser,
    *mut *mut RedisModuleString,
    c_int,
    c_int,
    *mut c_int,
) -> c_int;

/// Returns the server's function that knows of permissions for databases, if it has some: Valkey 9.1 and later.
fn acl_check_permissions() -> Option<AclCheckPermissions> {
    static CHECK: OnceLock<Option<AclCheckPermissions>> = OnceLock::new();
    *CHECK.get_or_init(|| {
        let mut check: Option<AclCheckPermissions> = None;
        let name = c"RedisModule_ACLCheckPermissions";
        // SAFETY: the server has set its functions by now, and never changes them again. It stores the address of a function
        // with this signature, or nothing.
        unsafe {
            let get = raw::RedisModule_GetApi?;
            get(name.as_ptr(), (&raw mut check).cast());
        }
        check
    })
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: the user belongs to us.
        unsafe { api!(RedisModule_FreeModuleUser(self.0.as_ptr())) };
    }
}

impl Context {
    /// Returns whether the user who runs this command may publish to a channel. The server's ACL log records a refusal.
    pub fn may_publish_to(&self, channel: Str<'_>) -> bool {
        hold::assert_released();
        if !self.has_user() {
            return true;
        }
        let publish = raw::REDISMODULE_CMD_CHANNEL_PUBLISH as c_int;
        // SAFETY: the context is live, its client has a user, the channel is live. The rights of a user who is not in the
        // server's list cannot be checked.
        unsafe {
            let Some(user) = self.user() else { return false };
            let user = user.0.as_ptr();
            let may = api!(RedisModule_ACLCheckChannelPermissions(user, channel.as_ptr(), publish))
                == raw::REDISMODULE_OK as c_int;
            if !may {
                let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
                api!(RedisModule_ACLAddLogEntry(self.as_ptr(), user, channel.as_ptr(), reason));
            }
            may
        }
    }

    /// Returns whether the user who runs this command may read a key of the selected database, by the permissions for keys and,
    /// on Valkey 9.1, databases. For the latter the user must also be allowed `command`, whose only argument is the key.
    pub fn may_read(&self, command: &CStr, key: Str<'_>) -> bool {
        hold::assert_released();
        if !self.has_user() {
            return true;
        }
        let command = OwnedStr::new(command.to_bytes());
        let mut argv = [command.as_str().as_ptr(), key.as_ptr()];
        let access = raw::REDISMODULE_CMD_KEY_ACCESS as c_int;
        let ok = raw::REDISMODULE_OK as c_int;
        // SAFETY: the context is live, its client has a user, the words are live. The server keeps none of them.
        unsafe {
            let Some(user) = self.user() else { return false };
            let user = user.0.as_ptr();
            let mut in_db = || {
                let (argv, count) = (argv.as_mut_ptr(), argv.len() as c_int);
                let check = acl_check_permissions()?;
                Some(check(user, argv, count, self.selected_db(), ptr::null_mut()) == ok)
            };
            api!(RedisModule_ACLCheckKeyPermissions(user, key.as_ptr(), access)) == ok
                && in_db().unwrap_or(true)
        }
    }

    /// Returns the name of a client's user. `None`: another module created the client.
    pub fn user_of(&self, client: ClientId) -> Option<OwnedStr> {
        // SAFETY: the context is live, and the name, if there is one, is ours.
        unsafe {
            let name = api!(RedisModule_GetClientUserNameById(self.as_ptr(), client.0));
            NonNull::new(name).map(|name| OwnedStr::from_raw(name))
        }
    }

    /// Returns whether a user may still run a command whose arguments are `words`, starting with its name. Whoever is not in the
    /// server's list, because another module created it, may do anything.
    pub fn may_still_run(user: Option<&OwnedStr>, words: &[OwnedStr]) -> bool {
        let (argv, count) = (OwnedStr::as_ptrs(words), words.len() as c_int);
        let Some(user) = user.and_then(User::find) else { return true };
        // SAFETY: user and words are live. The server changes and keeps none of them.
        let status = unsafe {
            api!(RedisModule_ACLCheckCommandPermissions(user.0.as_ptr(), argv.cast_mut(), count))
        };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Returns the user who runs this command.
    ///
    /// # Safety
    ///
    /// There must be one: see [`Context::has_user`].
    unsafe fn user(&self) -> Option<User> {
        // SAFETY: the context is live, its client has a user, and the name is ours.
        let name = unsafe {
            let name = api!(RedisModule_GetCurrentUserName(self.as_ptr()));
            OwnedStr::from_raw(NonNull::new(name)?)
        };
        User::find(&name)
    }

    /// Returns whether a user runs this command. Another module may call it without a user, and may do anything then. Redis
    /// 7.0 and 7.2 must not be asked for the user's name in that case: they would dereference a null pointer.
    fn has_user(&self) -> bool {
        // `C` checks the user's rights. Without a user the server refuses that with ENOTSUP before it looks up the command.
        let reply = self.ask(NO_COMMAND, c"Cv", &[]);
        let error = std::io::Error::last_os_error();
        drop(reply);
        error.kind() != std::io::ErrorKind::Unsupported
    }
}
