//! What the server would refuse to a client's command at this moment, asked without running one.
//!
//! What the module does by itself (a delivery, serving a blocked client) must not do what clients are refused: write
//! while too few replicas are connected or the disk fails, or touch a key whose slot another node serves.
//!
//! *A dry run* (Redis 7.2 and later, Valkey): the server checks a command as it checks a client's, and returns before
//! it runs it. So nothing shows in INFO, MONITOR or as an event.
//!
//! *Redis 7.0* knows no dry run. Whether clients may write is worked out from what INFO and CONFIG say, again after each tick of
//! the server's cron and each event that may change it. So a disk that begins to fail is noticed within a tick. For a
//! slot, a command must be run: one that leaves no trace in the keyspace's statistics.

use std::cell::{Cell, OnceCell};
use std::ffi::CStr;

use redis_module::raw;

use crate::server::call::{NO_COMMAND, Reply};
use crate::server::info::Section;
use crate::server::{Context, Str, hold};

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static KNOWS_DRY_RUNS: OnceCell<bool> = const { OnceCell::new() };
    /// Whether clients may write, as far as is known, where there are no dry runs.
    static MAY_WRITE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Says that what the server refuses may be something else by now.
pub fn look_again() {
    MAY_WRITE.set(None);
}

impl Context {
    /// Returns whether the server would let a client write to a key now: enough replicas are connected, the disk can be
    /// written to.
    pub fn lets_clients_write(&self, key: Str<'_>) -> bool {
        /// Refuse what a script is refused; the key. Any command that writes will do.
        const FORMAT: &CStr = c"DSs";
        hold::call_out();
        if self.knows_dry_runs() {
            // SAFETY: the context is live, and the format takes one string of the server's. The reply is nobody else's.
            let reply = unsafe {
                let (command, format) = (c"PERSIST".as_ptr(), FORMAT.as_ptr());
                Reply::from_raw(api!(RedisModule_Call(
                    self.as_ptr(),
                    command,
                    format,
                    key.as_ptr()
                )))
            };
            return finds_nothing(reply);
        }
        MAY_WRITE.get().unwrap_or_else(|| {
            let may_write = self.finds_no_reason_to_refuse();
            MAY_WRITE.set(Some(may_write));
            may_write
        })
    }

    /// Returns whether this node serves the slot of a key. Without a cluster it serves all.
    pub fn serves(&self, key: Str<'_>) -> bool {
        // SAFETY: the context is live.
        let flags = unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) } as u32;
        if flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER == 0 {
            return true;
        }
        hold::call_out();
        let (context, key) = (self.as_ptr(), key.as_ptr());
        if self.knows_dry_runs() {
            let (command, format) = (c"EXISTS".as_ptr(), c"Ds".as_ptr());
            // SAFETY: as above.
            let reply =
                unsafe { Reply::from_raw(api!(RedisModule_Call(context, command, format, key))) };
            return finds_nothing(reply);
        }
        // Without the flag that has errors replied, a command on a key that is another node's has no reply.
        let (command, format, usage) = (c"MEMORY".as_ptr(), c"cs".as_ptr(), c"USAGE".as_ptr());
        // SAFETY: the context is live, the format takes a C string and a string of the server's. The reply is nobody else's.
        unsafe { Reply::from_raw(api!(RedisModule_Call(context, command, format, usage, key))) }
            .is_some()
    }

    fn knows_dry_runs(&self) -> bool {
        KNOWS_DRY_RUNS.with(|knows| {
            *knows.get_or_init(|| {
                // A server that does not know the flag has no reply to it, and one that does replies that there is no
                // such command.
                // SAFETY: the context is live, the format takes no arguments. The reply is nobody else's.
                let reply = unsafe {
                    let (command, format) = (NO_COMMAND.as_ptr(), c"D".as_ptr());
                    Reply::from_raw(api!(RedisModule_Call(self.as_ptr(), command, format)))
                };
                reply.is_some()
            })
        })
    }

    /// Decides as the server does whether a script may write (Redis 7.0: `checkGoodReplicasStatus`,
    /// `writeCommandsDeniedByDiskError`).
    fn finds_no_reason_to_refuse(&self) -> bool {
        let good_replicas = Section::with(c"replication", |info| {
            // It is there if replicas are asked for.
            let is_primary = info.text(c"role") == Some(c"master");
            info.number(c"min_slaves_good_slaves").filter(|_| is_primary)
        });
        if let Some(good) = good_replicas
            && self.setting(c"min-replicas-to-write").and_then(|it| it.parse().ok()) > Some(good)
        {
            return false;
        }
        let is_ok = |info: &Section, field| info.text(field) == Some(c"ok");
        let (is_saved, is_appended) = Section::with(c"persistence", |info| {
            let appends = info.number(c"aof_enabled") == Some(1);
            let is_appended = !appends || is_ok(info, c"aof_last_write_status");
            (is_ok(info, c"rdb_last_bgsave_status"), is_appended)
        });
        let stops = || {
            self.setting(c"stop-writes-on-bgsave-error").as_deref() == Some("yes")
                && self.setting(c"save").is_some_and(|points| !points.is_empty())
        };
        is_appended && (is_saved || !stops())
    }

    /// Returns a setting of the server's.
    fn setting(&self, name: &CStr) -> Option<String> {
        let (context, command, format) = (self.as_ptr(), c"CONFIG".as_ptr(), c"cc".as_ptr());
        let (get, name) = (c"GET".as_ptr(), name.as_ptr());
        // SAFETY: the context is live, and the format takes two C strings. The reply is nobody else's.
        let reply = unsafe {
            Reply::from_raw(api!(RedisModule_Call(context, command, format, get, name)))
        }?;
        let value = reply.whole().array()?.nth(1)?.text()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// Returns whether a dry run found nothing to refuse. Then it has no reply, or, on Valkey 9.1, one that is nothing.
fn finds_nothing(reply: Option<Reply>) -> bool {
    reply.is_none_or(|reply| !reply.whole().is_error())
}
