//! Events of the whole server: FLUSHALL, SWAPDB, a load, a change of roles, slots that arrive.
//!
//! The server does not name the keys that these add and remove, so what is recorded by name is updated here.

use redis_module::raw;

use super::renamed;
use crate::commands::poll;
use crate::metrics::clock_steps;
use crate::pending::{agenda, blocked, timer};
use crate::server::event::{self, Event};
use crate::server::flags::is_cluster;
use crate::server::{Context, Error, info as server_info, listeners};

/// Subscribes to these events. Returns `false` if the server refuses.
pub fn register(context: &Context) -> bool {
    listeners::register(context);
    // Few servers have this event. Without it, the next visit to a key is late, no more.
    event::subscribe(context, event::slots_imported().0, on_slots);
    event::subscribe(context, raw::REDISMODULE_EVENT_FLUSHDB, on_flush)
        && event::subscribe(context, raw::REDISMODULE_EVENT_SWAPDB, on_swap)
        && event::subscribe(context, raw::REDISMODULE_EVENT_LOADING, on_load)
        && event::subscribe(context, raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, on_role)
}

fn on_flush(event: &Event<'_>) {
    if event.subevent == raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        agenda::flushed(event.flushed_db());
        poll::flushed(event.flushed_db());
    }
}

fn on_swap(event: &Event<'_>) {
    let (first, second) = event.swapped_dbs();
    agenda::swapped(first, second);
    poll::swapped(first, second);
    renamed::swapped();
}

fn on_load(event: &Event<'_>) {
    if event.subevent == raw::REDISMODULE_SUBEVENT_LOADING_ENDED {
        begin_delivering(event.context);
    }
}

fn on_role(event: &Event<'_>) {
    listeners::assume_present();
    if event.subevent == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER {
        begin_delivering(event.context);
    } else {
        // The server unblocks clients itself, except those that it redirects (Valkey 9).
        let address = if is_cluster() { None } else { server_info::primary_address() };
        let redirect = address.map(|address| Error::Coded("REDIRECT", address.into()));
        blocked::dismiss_all(event.context, &redirect.unwrap_or(Error::BECOMES_REPLICA));
    }
}

fn on_slots(event: &Event<'_>) {
    if event.subevent == event::slots_imported().1 {
        agenda::retry_all();
        timer::soon(event.context);
    }
}

/// Begins to give out and deliver due elements.
fn begin_delivering(context: &Context) {
    clock_steps::begin_serving();
    timer::soon(context);
}
