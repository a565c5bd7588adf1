//! The replication level: one number for all that a server must understand to read what this one replicates and
//! writes, and what becomes of a server that does not.
//!
//! *The rule.* [`OWN`] is raised by one in each release that adds a word of an effect ([`replicate`](crate::replicate)),
//! an option of a command that is replicated as it was sent, or anything to the file format (`data_type/encoding/mod.rs`).
//! The table says what came with each.
//!
//! | level | since | what came with it |
//! |---|---|---|
//! | 1 | 0.1.0 | all that is in the first release |
//!
//! *Who is told.* `DEHYDRATOR.REQUIRE level version` goes ahead of the first effect after somebody may have begun to listen
//! (see [`listeners`](crate::server::listeners)), and stands at the head of an append-only file that is rewritten as commands. A
//! replica of a replica whose own link alone was cut is told at the next such time. A value says by itself, by the
//! features in it, whether it can be read.
//!
//! *Who does not understand ends.* The server has no other way: it logs the error that a command of its primary's or of
//! its append-only file is answered by, and goes on, which leaves it different for good, and nobody the wiser. So a
//! server ends at a level above its own, and at a command from there that it cannot parse, before anything has changed.

use std::cell::Cell;

use crate::server::{Context, log_warning};
use crate::version;

/// See the head of this file.
const OWN: u64 = 1;

thread_local! {
    // Commands and callbacks run on the server's main thread alone, and in a process that it forks.
    static LEVEL: Cell<u64> = const { Cell::new(OWN) };
}

/// Returns the level of what this server replicates and writes, and the highest that it understands.
pub fn own() -> u64 {
    LEVEL.get()
}

/// Has this server be of another level, for tests.
#[cfg(debug_assertions)]
pub fn pretend(level: u64) {
    LEVEL.set(level);
}

/// Ends this server, because it does not understand what comes from its primary or stands in its append-only file.
pub fn end(context: &Context, what: &str) -> ! {
    let (from, way_out) = if context.is_loading() {
        (
            "the append-only file",
            "install the version that wrote the file, or start from a copy of the data made before the upgrade",
        )
    } else {
        ("the primary", "install the primary's version here, and start again")
    };
    log_warning(&format!(
        "dehydrator: {from} was written by a later version of the module than this one ({}, replication level \
         {}): {what}. To go on would leave this server silently different, so it ends. What to do: {way_out}. See \
         'Upgrade' in docs/operations.md.",
        version::TEXT,
        own()
    ));
    // As the server itself does when it cannot load its data.
    std::process::exit(1)
}
