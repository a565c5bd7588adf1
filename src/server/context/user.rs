//! The user who runs a command, and what that one may do.

use std::ffi::c_int;
use std::ptr::NonNull;

use redis_module::raw;

use super::Context;
use super::call::{NO_COMMAND, Reply};
use crate::server::{Str, hold};

impl Context {
    /// Returns whether the user who runs this command may publish to a channel. The server logs it if not.
    pub fn may_publish_to(&self, channel: Str<'_>) -> bool {
        hold::call_out();
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
