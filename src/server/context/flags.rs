//! What the server says, by its flags, of itself and of the command that runs.

use redis_module::raw;

use super::Context;

/// Returns whether this server is a primary that has loaded its data, so that it gives things out.
pub fn gives_out() -> bool {
    // SAFETY: without a context the server tells of itself alone.
    let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) as u32 };
    flags & raw::REDISMODULE_CTX_FLAGS_MASTER != 0
        && flags & raw::REDISMODULE_CTX_FLAGS_LOADING == 0
}

impl Context {
    /// Returns whether this server is a primary that may replicate at this moment: it is no replica, it does
    /// not load, and clients are not paused (to replicate then would kill the server).
    pub fn may_replicate(&self) -> bool {
        // SAFETY: the context is live. `AvoidReplicaTraffic` takes no argument.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_MASTER != 0 && self.may_write()
        }
    }

    /// Returns whether what changes now may be replicated: to do that while the server loads, or while clients
    /// are paused, would kill it. (On a replica that may be written to, nothing is replicated.)
    pub fn may_write(&self) -> bool {
        // SAFETY: the context is live. `AvoidReplicaTraffic` takes no argument.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_LOADING == 0
                && api!(RedisModule_AvoidReplicaTraffic()) == 0
        }
    }

    /// Returns whether this server writes an append-only file, is a replica or belongs to a cluster.
    pub fn is_recorded(&self) -> bool {
        const ANY: u32 = raw::REDISMODULE_CTX_FLAGS_AOF
            | raw::REDISMODULE_CTX_FLAGS_SLAVE
            | raw::REDISMODULE_CTX_FLAGS_CLUSTER;
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 & ANY != 0 }
    }

    /// Returns whether this server is a node of a cluster.
    pub fn is_cluster(&self) -> bool {
        // SAFETY: the context is live.
        let flags = unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 };
        flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
    }

    /// Returns whether this server is a replica to which nothing may be written.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: the context is live.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_READONLY != 0
        }
    }

    /// Returns whether more memory is in use than `maxmemory` allows, now.
    pub fn is_out_of_memory(&self) -> bool {
        // SAFETY: the context is live.
        unsafe {
            let flags = api!(RedisModule_GetContextFlags(self.as_ptr())) as u32;
            flags & raw::REDISMODULE_CTX_FLAGS_OOM != 0
        }
    }

    /// Returns whether this command comes from the primary or from the append-only file. It was carried out before,
    /// so no limit may refuse it now.
    pub fn is_replaying(&self) -> bool {
        let replays = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 & replays != 0 }
    }

    /// Returns whether this command comes from this server's own primary or append-only file, so that to refuse it would leave
    /// the two different. (The nodes of a cluster send each other slots by commands that replay, too: who sends them
    /// hears of an error.)
    pub fn must_obey(&self) -> bool {
        const FROM_PRIMARY: u32 =
            raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_SLAVE;
        // SAFETY: the context is live.
        let flags = unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 };
        flags & raw::REDISMODULE_CTX_FLAGS_LOADING != 0 || flags & FROM_PRIMARY == FROM_PRIMARY
    }

    /// Returns whether the server loads its data, or a full sync, perhaps while it still serves the old ones.
    pub fn loads(&self) -> bool {
        // SAFETY: the context is live.
        let flags = unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 };
        flags & (raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING) != 0
    }

    /// Returns whether the client of this command may be put to sleep: not within MULTI or a script.
    pub fn may_block(&self) -> bool {
        let never = raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 & never == 0 }
    }
}
