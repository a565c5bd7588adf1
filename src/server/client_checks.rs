//! The checks that the server applies to clients' commands, made without running a command.
//!
//! The module's own work (deliveries, serving blocked clients) must not do what a client may not: write while too few
//! replicas are connected or the disk fails, or access a key whose slot another node serves.
//!
//! *A dry run* (Redis 7.2 and later, Valkey): the server checks a command as if a client had sent it, and returns before
//! running it. So a dry run leaves no trace in INFO, MONITOR or keyspace events.
//!
//! *Redis 7.0* has no dry run. Whether clients may write is derived from INFO and CONFIG, again after each event that may change
//! the result. No event tells that an append-only file cannot be written, that a fork fails, or that a replica lags. So the
//! result holds for a second at most, and until the next cron of the server if clients may not write: INFO costs as much as
//! dozens of commands. A slot needs a real command: one that does not change the keyspace's statistics.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::OnceLock;

use crate::server::call::{CallReply, NO_COMMAND};
use crate::server::flags::is_cluster;
use crate::server::info::{self, Section};
use crate::server::{ClientId, Context, OwnedStr, Str};

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    /// The last answer to whether clients may write, without dry runs, and the first [`tick`] since then. `None` after
    /// [`invalidate`].
    static MAY_WRITE: Cell<Option<(bool, Option<u64>)>> = const { Cell::new(None) };
    /// The last answer to whether the server is being filled. `None` after [`invalidate`].
    static IS_IMPORTING: Cell<Option<bool>> = const { Cell::new(None) };
    /// The last answer to whether the server knows too late who is gone. `None` after [`invalidate`].
    static KNOWS_LATE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// How long clients may write if no event tells otherwise, in microseconds.
const VALID_US: u64 = 1_000_000;

/// In the reply of CLUSTER INFO.
const FAILED: &[u8] = b"cluster_state:fail";

/// Discards the cached results, because the server's checks may have different ones now.
pub fn invalidate() {
    MAY_WRITE.set(None);
    IS_IMPORTING.set(None);
    KNOWS_LATE.set(None);
}

/// Discards the cached result if it is too old. `now_us`: on the monotonic clock, in microseconds.
pub fn tick(now_us: u64) {
    if let Some((may_write, since)) = MAY_WRITE.get() {
        let since_us = since.unwrap_or(now_us);
        let is_valid = may_write && now_us - since_us < VALID_US;
        MAY_WRITE.set(is_valid.then_some((may_write, Some(since_us))));
    }
}

impl Context {
    /// Returns whether the server would let a client write to a key now: enough replicas are connected, and the disk works.
    pub fn lets_clients_write(&self, key: Str<'_>) -> bool {
        if self.has_dry_runs() {
            // `D`: a dry run. `S`: refuse writes as for scripts. Any write command works.
            return is_allowed(self.ask(c"PERSIST", c"DSv", &[key]));
        }
        if let Some((may_write, _)) = MAY_WRITE.get() {
            return may_write;
        }
        let may_write = self.may_scripts_write();
        MAY_WRITE.set(Some((may_write, None)));
        may_write
    }

    /// Returns whether this node serves the slot of a key. Without a cluster it serves all keys.
    pub fn serves(&self, key: Str<'_>) -> bool {
        if !is_cluster() {
            return true;
        }
        if self.has_dry_runs() {
            return is_allowed(self.ask(c"EXISTS", c"Dv", &[key]));
        }
        // Without the flag `E`, a command on another node's key has no reply.
        self.ask(c"MEMORY", c"v", &[OwnedStr::new(b"USAGE").as_str(), key]).is_some()
    }

    /// Returns whether a tool fills this server (Valkey's `import-mode`, from 8.1 on): then the server expires nothing by itself,
    /// as a replica. No flag tells it.
    pub fn is_importing(&self) -> bool {
        if let Some(is_importing) = IS_IMPORTING.get() {
            return is_importing;
        }
        let is_importing =
            info::is_valkey() && self.setting(c"import-mode").as_deref() == Some("yes");
        IS_IMPORTING.set(Some(is_importing));
        is_importing
    }

    /// Returns whether a client that the server frees right after a reply may have got it, because clients are evicted to save
    /// memory, or whether threads read for the server, and tell it late that a client has hung up.
    pub fn knows_late_who_is_gone(&self) -> bool {
        if let Some(knows_late) = KNOWS_LATE.get() {
            return knows_late;
        }
        let is_set = |name, off: &str| self.setting(name).is_some_and(|value| value != off);
        let knows_late = is_set(c"maxmemory-clients", "0") || is_set(c"io-threads", "1");
        KNOWS_LATE.set(Some(knows_late));
        knows_late
    }

    /// Returns whether the server closes a client's connection once all replies are sent, for example because of QUIT. It costs as
    /// much as a few commands.
    pub fn closes_after_reply(&self, client: ClientId) -> bool {
        let words = [OwnedStr::new(b"LIST"), OwnedStr::new(b"ID"), OwnedStr::of_number(client.0)];
        let reply = self.ask(c"CLIENT", c"v", &words.each_ref().map(OwnedStr::as_str));
        let line = reply.as_ref().and_then(|reply| reply.root().text()).unwrap_or_default();
        let flags =
            line.split(|byte| *byte == b' ').find_map(|field| field.strip_prefix(b"flags="));
        flags.is_some_and(|flags| flags.contains(&b'c'))
    }

    /// Returns whether this is a node of a cluster that is down.
    pub fn is_cluster_down(&self) -> bool {
        let reply = self.ask(c"CLUSTER", c"v", &[OwnedStr::new(b"INFO").as_str()]);
        let text = reply.as_ref().and_then(|reply| reply.root().text());
        text.is_some_and(|text| text.windows(FAILED.len()).any(|part| part == FAILED))
    }

    /// Returns whether the server replies to unblocked clients, and serves those that wait for a list or a stream, after it has
    /// called modules at the end of a pass of its event loop, as Redis 7.0 does. Later servers do so before, and thus in the next
    /// pass.
    pub fn serves_after_modules(&self) -> bool {
        !self.has_dry_runs()
    }

    fn has_dry_runs(&self) -> bool {
        static HAS_DRY_RUNS: OnceLock<bool> = OnceLock::new();
        // A server without the flag returns no reply. A server with the flag replies that the command does not exist.
        *HAS_DRY_RUNS.get_or_init(|| self.ask(NO_COMMAND, c"Dv", &[]).is_some())
    }

    /// Makes the server's decision whether a script may write (Redis 7.0: `checkGoodReplicasStatus`,
    /// `writeCommandsDeniedByDiskError`).
    fn may_scripts_write(&self) -> bool {
        let replication = Section::new(c"replication");
        // The field exists only if `min-replicas-to-write` is set.
        if let Some(good) = replication.number(c"min_slaves_good_slaves")
            && replication.text(c"role") == Some(c"master")
            && self.setting(c"min-replicas-to-write").and_then(|it| it.parse().ok()) > Some(good)
        {
            return false;
        }
        let persistence = Section::new(c"persistence");
        let is_ok = |field| persistence.text(field) == Some(c"ok");
        let is_saved = is_ok(c"rdb_last_bgsave_status");
        let appends = persistence.number(c"aof_enabled") == Some(1);
        let is_appended = !appends || is_ok(c"aof_last_write_status");
        let stops = || {
            self.setting(c"stop-writes-on-bgsave-error").as_deref() == Some("yes")
                && self.setting(c"save").is_some_and(|points| !points.is_empty())
        };
        is_appended && (is_saved || !stops())
    }

    /// Returns a server setting.
    fn setting(&self, name: &CStr) -> Option<String> {
        let words = [b"GET", name.to_bytes()].map(OwnedStr::new);
        let reply = self.ask(c"CONFIG", c"v", &words.each_ref().map(OwnedStr::as_str))?;
        let value = reply.root().array()?.nth(1)?.text()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// Returns whether a dry run found no error. It then has no reply or, on Valkey 9.1, a null reply.
fn is_allowed(reply: Option<CallReply>) -> bool {
    reply.is_none_or(|reply| !reply.root().is_error())
}
