//! The state of the server and of the running command, by the context's flags.

use redis_module::raw;

use super::Context;

/// Returns whether this server is a primary that has loaded its data.
pub fn is_active_primary() -> bool {
    // SAFETY: without a context the server returns only its own flags.
    let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) as u32 };
    flags & raw::REDISMODULE_CTX_FLAGS_MASTER != 0
        && flags & raw::REDISMODULE_CTX_FLAGS_LOADING == 0
}

/// Returns whether this server is a node of a cluster.
pub fn is_cluster() -> bool {
    // SAFETY: without a context the server returns only its own flags.
    let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) as u32 };
    flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
}

impl Context {
    /// Returns whether any of these flags is set.
    fn has(&self, flags: u32) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) as u32 & flags != 0 }
    }

    /// Returns whether this server is a primary that may replicate now: it is not loading, and clients are not paused
    /// (replicating then would kill the server).
    pub fn may_replicate(&self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_MASTER) && self.may_write()
    }

    /// Returns whether a change may be replicated now. Replicating while the server loads, or while clients are paused, would
    /// kill the server. (A writable replica replicates nothing.)
    pub fn may_write(&self) -> bool {
        // SAFETY: `AvoidReplicaTraffic` takes no argument.
        !self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
            && unsafe { api!(RedisModule_AvoidReplicaTraffic()) == 0 }
    }

    /// Returns whether the replication stream may have readers by the flags alone: this server writes an append-only file, is
    /// a replica, or belongs to a cluster.
    pub fn may_have_listeners(&self) -> bool {
        self.has(
            raw::REDISMODULE_CTX_FLAGS_AOF
                | raw::REDISMODULE_CTX_FLAGS_SLAVE
                | raw::REDISMODULE_CTX_FLAGS_CLUSTER,
        )
    }

    /// Returns whether this server is a read-only replica.
    pub fn is_read_only(&self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_READONLY)
    }

    /// Returns whether the memory in use exceeds `maxmemory` now.
    pub fn is_out_of_memory(&self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_OOM)
    }

    /// Returns whether this command comes from the primary or from the append-only file. It ran before, so no limit may
    /// refuse it now.
    pub fn is_replaying(&self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// Returns whether this command comes from this server's own primary or append-only file, so that refusing it would make
    /// the two differ. (Cluster nodes also migrate slots with replayed commands, but there the sender gets the error.)
    pub fn must_obey(&self) -> bool {
        let is_from_primary = || {
            self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
                && self.has(raw::REDISMODULE_CTX_FLAGS_SLAVE)
        };
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING) || is_from_primary()
    }

    /// Returns whether the server is loading its data or a full sync, perhaps while it still serves the old data.
    pub fn is_loading(&self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING)
    }

    /// Returns whether the client of this command may be blocked: not in MULTI or a script.
    pub fn may_block(&self) -> bool {
        !self.has(
            raw::REDISMODULE_CTX_FLAGS_MULTI
                | raw::REDISMODULE_CTX_FLAGS_LUA
                | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING,
        )
    }
}
