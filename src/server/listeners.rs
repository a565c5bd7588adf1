//! The listeners of the replication stream: replicas, a backlog for replicas, an append-only file.
//!
//! Without a listener, effects are not replicated. The server would format them, a third of the cost of a PUSH, and discard
//! them.
//!
//! *Detection.* The module asks the server at each of its crons. After that, every new listener starts with an event. A new
//! replica gets a snapshot, for which the server forks, and receives the effects after the fork; the same holds for a new
//! append-only file. (The server creates the backlog when the replica connects, a little before the fork, so the backlog
//! lacks the effects until the fork. But the replica gets the replication id only at the fork, and without the id no replica
//! can request anything from the backlog.) A replica that becomes a primary has a backlog, and sends an event; so does a
//! changed setting. Cluster nodes migrate slots by other ways, so a cluster node always counts as having listeners.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::client_checks;
use crate::server::Context;
use crate::server::event::{self, Event};
use crate::server::info::Section;

// Every write reads these. Only the server's main thread accesses them, so `Relaxed` suffices; a thread-local would cost more
// to find than to read.
static ARE_ABSENT: AtomicBool = AtomicBool::new(false);
/// Set if a listener may have started since the last [`take_new_listeners`].
static MAY_BE_NEW: AtomicBool = AtomicBool::new(true);

thread_local! {
    // Events, the cron and commands run on the server's main thread alone.
    /// Set if all subscriptions of [`register`] succeeded.
    static IS_SUBSCRIBED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether nothing reads the replication stream.
#[inline]
pub fn are_absent() -> bool {
    ARE_ABSENT.load(Ordering::Relaxed)
}

/// Records that a listener may have started. The next [`check`] asks the server.
pub fn assume_present() {
    ARE_ABSENT.store(false, Ordering::Relaxed);
    MAY_BE_NEW.store(true, Ordering::Relaxed);
}

/// Returns whether a listener may have started since the last call.
#[inline]
pub fn take_new_listeners() -> bool {
    let may_be_new = MAY_BE_NEW.load(Ordering::Relaxed);
    if may_be_new {
        MAY_BE_NEW.store(false, Ordering::Relaxed);
    }
    may_be_new
}

/// Subscribes to the events that come with a new listener, except role changes: for those, `background/server_events.rs` calls
/// [`assume_present`].
pub fn register(context: &Context) {
    let subscribed = [
        raw::REDISMODULE_EVENT_FORK_CHILD,
        raw::REDISMODULE_EVENT_CONFIG,
        raw::REDISMODULE_EVENT_REPLICA_CHANGE,
    ]
    .map(|event| event::subscribe(context, event, on_event));
    IS_SUBSCRIBED.set(subscribed == [true; 3]);
}

fn on_event(_event: &Event<'_>) {
    assume_present();
    client_checks::invalidate();
}

/// Asks the server whether anything listens, unless the answer is known. Asking takes some tens of microseconds.
pub fn check(context: &Context) {
    if !are_absent() && IS_SUBSCRIBED.get() && !context.may_have_listeners() {
        let are_zero = |section: &Section, fields: &[&CStr]| {
            fields.iter().all(|field| section.number(field) == Some(0))
        };
        let replication = Section::new(c"replication");
        let files =
            [c"loading", c"aof_enabled", c"aof_rewrite_in_progress", c"rdb_bgsave_in_progress"];
        let are_absent = replication.text(c"role") == Some(c"master")
            && are_zero(&replication, &[c"connected_slaves", c"repl_backlog_active"])
            && are_zero(&Section::new(c"persistence"), &files)
            && are_zero(&Section::new(c"cluster"), &[c"cluster_enabled"]);
        ARE_ABSENT.store(are_absent, Ordering::Relaxed);
    }
}
