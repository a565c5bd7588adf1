//! Whether nobody hears what is replicated: the server has no replica, keeps no backlog for one, and writes no
//! append-only file.
//!
//! Then effects need no words. The server would put them together, a third of what a PUSH costs it, and throw them
//! away.
//!
//! *How that is known.* The server is asked when it calls its cron. From then on whatever begins to listen begins with
//! an event. A replica that comes is sent a snapshot, for which the server forks, and hears what happens after that;
//! so does an append-only file that is begun. (The backlog is made when the replica comes, a little before that,
//! and lacks what happens until the fork. But only at the fork is the replica told the replication id, without which
//! nobody can ask for anything that is in the backlog.) A replica that
//! becomes a primary has a backlog, and an event of its own; so has a setting that was changed. The nodes of a cluster
//! send slots to each other by other ways: there it is never quiet.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent};

use super::refusal;
use crate::server::guard::guard;
use crate::server::info::Section;
use crate::server::{Context, event};

// Every write asks for these. They are the server's main thread's alone, so nothing is ordered or locked; a thread's own would
// cost more to find than to read.
static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// Whether somebody may have begun to listen since that was last asked.
static IS_NEW: AtomicBool = AtomicBool::new(true);

thread_local! {
    // Events, the cron and commands run on the server's main thread alone.
    /// Whether the server tells of all that could disturb.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether nobody hears what is replicated, as the head of this file says.
#[inline]
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Says that somebody may listen from here on, until the server is asked again.
pub fn disturb() {
    IS_QUIET.store(false, Ordering::Relaxed);
    IS_NEW.store(true, Ordering::Relaxed);
}

/// Returns whether somebody may have begun to listen since this was last asked.
#[inline]
pub fn take_newcomers() -> bool {
    let is_new = IS_NEW.load(Ordering::Relaxed);
    if is_new {
        IS_NEW.store(false, Ordering::Relaxed);
    }
    is_new
}

/// Has the server tell of what could disturb. Of a change of roles [`keyspace`](crate::background) tells [`disturb`].
pub fn register(context: &Context) {
    let told = [
        raw::REDISMODULE_EVENT_FORK_CHILD,
        raw::REDISMODULE_EVENT_CONFIG,
        raw::REDISMODULE_EVENT_REPLICA_CHANGE,
    ]
    .map(|event| event::subscribe(context, event, on_disturbance));
    IS_TOLD.set(told == [true; 3]);
}

unsafe extern "C" fn on_disturbance(
    _context: *mut RedisModuleCtx,
    _event: RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    guard((), || {
        disturb();
        refusal::look_again();
    });
}

/// Asks the server, for some tens of microseconds, unless it is quiet already, or a flag says that it is not.
pub fn listen(context: &Context) {
    if !is_quiet() && IS_TOLD.get() && !context.is_recorded() {
        let are = |section, numbers: &[(&CStr, u64)]| {
            Section::with(section, |info| {
                numbers.iter().all(|(field, number)| info.number(field) == Some(*number))
            })
        };
        let is_primary =
            Section::with(c"replication", |info| info.text(c"role") == Some(c"master"));
        let is_quiet = is_primary
            && are(c"replication", &[(c"connected_slaves", 0), (c"repl_backlog_active", 0)])
            && are(
                c"persistence",
                &[
                    (c"loading", 0),
                    (c"aof_enabled", 0),
                    (c"aof_rewrite_in_progress", 0),
                    (c"rdb_bgsave_in_progress", 0),
                ],
            )
            && are(c"cluster", &[(c"cluster_enabled", 0)]);
        IS_QUIET.store(is_quiet, Ordering::Relaxed);
    }
}
