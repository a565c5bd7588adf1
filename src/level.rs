//! The replication level: a single number that a server must support to read the effects and files of another, and the
//! end of a server that does not support it.
//!
//! *The rule.* [`OWN`] rises by one in each release that adds a word to an effect ([`replicate`](crate::replicate)), an
//! option to a command that is replicated as it was sent, or anything to the file format (`data_type/encoding/mod.rs`).
//!
//! | level | since | additions |
//! |---|---|---|
//! | 1 | 0.1.0 | the first release |
//!
//! *Announcing the level.* `DEHYDRATOR.EFFECT key N<level> version` precedes the first effect after a new listener may have
//! connected (see [`listeners`](crate::server::listeners)), and begins an append-only file that is rewritten as commands. A
//! replica of a replica that lost only its own link receives it the next time. A serialized value needs no level: it
//! lists the features that its reader must support.
//!
//! *A server that does not support the level exits.* Otherwise it would log the error of a command from its primary or its
//! append-only file, go on, and stay silently different for good. So a server exits at a level above its own, and at an
//! effect from these sources that it cannot read, before anything has changed. Commands that are replicated as users wrote
//! them never end a server: the level has announced their options.

use std::cell::Cell;

use crate::server::{Context, log_warning};
use crate::version;

/// See the module documentation.
const OWN: u64 = 1;

thread_local! {
    // Commands and callbacks run on the server's main thread alone, and in a process that it forks.
    static LEVEL: Cell<u64> = const { Cell::new(OWN) };
}

/// Returns the level of this server's effects and files, which is also the highest that it supports.
pub fn own() -> u64 {
    LEVEL.get()
}

/// Sets another level, for tests.
#[cfg(debug_assertions)]
pub fn pretend(level: u64) {
    LEVEL.set(level);
}

/// Exits, because this server does not support a command from its primary or its append-only file. `what`: what was read,
/// and why it is not supported. The log says no more than that: an older version here, or a fault of the module, looks the
/// same from here.
pub fn end(context: &Context, what: &str) -> ! {
    let (from, way_out) = if context.is_loading() {
        ("the append-only file holds", "the version that wrote the file")
    } else {
        ("the primary sent", "the primary's version")
    };
    log_warning(&format!(
        "dehydrator: {from} {what}. To go on would leave this server silently different, so it ends. Either this module \
         ({}, replication level {}) is older: install {way_out} here, and start again. Or this is a bug: report this line. \
         See 'Upgrade' in docs/operations.md.",
        version::TEXT,
        own()
    ));
    // As the server itself does when it cannot load its data.
    std::process::exit(1)
}
