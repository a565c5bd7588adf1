//! A user of the server, and what that one may do.

use std::ffi::c_int;
use std::ptr::NonNull;

use redis_module::raw::{self, RedisModuleString, RedisModuleUser};

use super::Context;
use super::call::{NO_COMMAND, Reply};
use crate::server::{Str, hold};

/// The number of a connection, which no other connection ever has.
#[derive(Clone, Copy)]
pub struct ClientId(pub u64);

/// A user from the server's own list.
struct User(NonNull<RedisModuleUser>);

impl User {
    /// Looks up a user by the name that the server has just returned, and frees the name. `None`: there is no name, or
    /// another module made the user, who is in no list.
    ///
    /// # Safety
    ///
    /// The name is null, or a string that belongs to the caller.
    unsafe fn find(context: &Context, name: *mut RedisModuleString) -> Option<Self> {
        let name = NonNull::new(name)?;
        // SAFETY: the name is live, and freed once.
        unsafe {
            let user = api!(RedisModule_GetModuleUserFromUserName(name.as_ptr()));
            api!(RedisModule_FreeString(context.as_ptr(), name.as_ptr()));
            NonNull::new(user).map(Self)
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: the user is nobody else's.
        unsafe { api!(RedisModule_FreeModuleUser(self.0.as_ptr())) };
    }
}

impl Context {
    /// Returns whether the user who runs this command may publish to a channel. The server logs it if not.
    pub fn may_publish_to(&self, channel: Str<'_>) -> bool {
        hold::call_out();
        if !self.has_user() {
            return true;
        }
        let publish = raw::REDISMODULE_CMD_CHANNEL_PUBLISH as c_int;
        // SAFETY: the context is live, its client has a user, the channel is live. A user who is not in the server's list
        // has no rights that could be asked for.
        unsafe {
            let name = api!(RedisModule_GetCurrentUserName(self.as_ptr()));
            let Some(user) = User::find(self, name) else { return false };
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

    /// Returns whether the user of a client, which has slept since it sent a command, may still run it: its words, of which
    /// the first is the command's name. A client without a user may do anything: another module made it.
    pub fn may_still_run(&self, client: ClientId, words: &[Str<'_>]) -> bool {
        let mut argv: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        // SAFETY: the context and the words are live, the name is ours. The server keeps none of them.
        unsafe {
            let name = api!(RedisModule_GetClientUserNameById(self.as_ptr(), client.0));
            let Some(user) = User::find(self, name) else { return true };
            let (argv, count) = (argv.as_mut_ptr(), argv.len() as c_int);
            api!(RedisModule_ACLCheckCommandPermissions(user.0.as_ptr(), argv, count))
                == raw::REDISMODULE_OK as c_int
        }
    }

    /// Returns whether this command is run by a user. It is not when another module calls it in its own name, which may do
    /// anything. Redis 7.0 and 7.2 must not be asked for the user's name then: they would follow a null pointer.
    fn has_user(&self) -> bool {
        // `C` asks for the rights of the user. Without a user the server refuses that with ENOTSUP, before it looks
        // whether there is such a command.
        // SAFETY: the context is live, the format takes no arguments.
        let reply =
            unsafe { api!(RedisModule_Call(self.as_ptr(), NO_COMMAND.as_ptr(), c"C".as_ptr())) };
        let error = std::io::Error::last_os_error();
        // SAFETY: the reply is nobody else's.
        drop(unsafe { Reply::from_raw(reply) });
        error.kind() != std::io::ErrorKind::Unsupported
    }
}
