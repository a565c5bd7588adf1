//! Whether another module may subscribe to keyspace events. Only such a module can run code during an event.
//!
//! The server does not tell which modules subscribe. As long as no other module was ever loaded, none does.

use std::cell::Cell;
use std::ffi::CStr;

use redis_module::raw;

use crate::server::call::ReplyValue;
use crate::server::event::{self, Event};
use crate::server::{Context, OwnedStr};

/// Modules that are part of a server, and subscribe to no keyspace events: Redis 8's and Valkey 9.1's.
const BUILT_IN: [&[u8]; 2] = [b"vectorset", b"lua"];

thread_local! {
    // Modules are loaded and keys changed on the server's main thread alone.
    static OWN_NAME: Cell<&'static [u8]> = const { Cell::new(b"") };
    static MAY_SUBSCRIBE: Cell<bool> = const { Cell::new(true) };
}

/// Returns whether another module may subscribe to keyspace events. Stays `true` when the other module is unloaded.
pub fn may_subscribe() -> bool {
    MAY_SUBSCRIBE.get()
}

/// Checks the loaded modules, and subscribes to later loads. `own_name` is this module's name.
pub fn register(context: &Context, own_name: &'static CStr) {
    OWN_NAME.set(own_name.to_bytes());
    let is_notified = event::subscribe(context, raw::REDISMODULE_EVENT_MODULE_CHANGE, on_change);
    MAY_SUBSCRIBE.set(!is_notified || !are_known(context));
}

fn is_known(name: &[u8]) -> bool {
    name == OWN_NAME.get() || BUILT_IN.contains(&name)
}

/// Returns whether all loaded modules are known to have no subscriptions.
fn are_known(context: &Context) -> bool {
    let list = context.ask(c"MODULE", c"v", &[OwnedStr::new(b"LIST").as_str()]);
    let Some(list) = list else { return false };
    // Each module is an array of fields and values, and `name` is the first field.
    let name = |module: ReplyValue<'_>| module.array()?.nth(1)?.text().map(is_known);
    let modules = list.root().array();
    modules.is_some_and(|mut modules| modules.all(|module| name(module) == Some(true)))
}

fn on_change(event: &Event<'_>) {
    let is_loaded = event.subevent == raw::REDISMODULE_SUBEVENT_MODULE_LOADED;
    if is_loaded && !is_known(event.module_name()) {
        MAY_SUBSCRIBE.set(true);
    }
}
