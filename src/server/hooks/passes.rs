//! The server's reports of the passes of its event loop, and of clients that come and go, only while they are wanted: a
//! report costs some tenths of a microsecond.

use std::cell::Cell;

use redis_module::raw;

use super::event::{self, Handler};
use crate::server::Context;

/// The events of both.
const EVENTS: [u64; 2] = [raw::REDISMODULE_EVENT_EVENTLOOP, raw::REDISMODULE_EVENT_CLIENT_CHANGE];

thread_local! {
    // The event loop runs on the server's main thread alone.
    static REPORT: Cell<Option<Handler>> = const { Cell::new(None) };
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// Registers the function that is called for these events, while [`listen`] holds. Returns `false` if the server refuses.
pub fn register(context: &Context, report: Handler) -> bool {
    REPORT.set(Some(report));
    let is_known = EVENTS.map(|id| event::subscribe(context, id, report));
    EVENTS.into_iter().for_each(|id| event::unsubscribe(context, id));
    is_known == [true; 2]
}

/// Turns reports on, beginning with this pass.
pub fn listen() {
    if !LISTENS.replace(true)
        && let Some(report) = REPORT.get()
    {
        Context::with_detached(|context| EVENTS.map(|id| event::subscribe(context, id, report)));
    }
}

/// Turns reports off. Returns whether they were on.
///
/// The server may be iterating over its list of listeners, and remembers the next one, which must not be removed. [`listen`]
/// appends listeners. Only the cron may call this, whose listener precedes that of another event (see `lib.rs` for the
/// order).
pub fn stop_listening() -> bool {
    let listens = LISTENS.replace(false);
    if listens {
        Context::with_detached(|context| {
            EVENTS.into_iter().for_each(|id| event::unsubscribe(context, id));
        });
    }
    listens
}
