//! Events of the whole server: FLUSHALL, SWAPDB, a load, a change of roles, slots that arrive.
//!
//! The server does not name the keys that these add and remove, so what is recorded by name is updated here.
//!
//! *What the process remembers*, beside the values in its keys, and what it hears from here. `tests/server/layout.rs` compares
//! the table with the code. What is recorded by name or by database must hear of SWAPDB and FLUSHALL, or say what makes up for
//! it. RENAME, MOVE and deletion reach a value by the callbacks of the type, which call `agenda::leave`.
//!
//! | where | what | hears |
//! |---|---|---|
//! | `pending/agenda` | names to visit, why and when | `agenda::flushed`, `agenda::swapped`, `agenda::retry_all` |
//! | `pending/agenda/tracking` | the number of values whose names are unknown | nothing: values count themselves |
//! | `pending/blocked` | sleeping clients by their keys | `poll::flushed`, `poll::swapped`, `blocked::dismiss_all` |
//! | `pending/overdue` | names of the values that are overdue longest | nothing: a reader compares the value, and forgets a wrong name |
//! | `pending/overdue/slots` | since when each value is overdue | nothing: values take slots and free them |
//! | `pending/timer` | when the event loop wakes, and in which phase it is | `timer::soon`; the cron sets the timer again |
//! | `pending/waste` | what is freed little by little | nothing: nobody reads it |
//! | `commands/poll/client` | elements on their way to clients | `poll::flushed`, `poll::swapped`; a filter gives them back before a change of roles |
//! | `background/renamed` | a walk over all databases | `renamed::swapped`; what a FLUSHALL removes needs no name |
//! | `background/pass` | the length of the last passes | nothing |
//! | `background/cron` | statistics, and when others were asked last | nothing: CONFIG RESETSTAT is noticed by the server's own counts |
//! | `metrics/counters` | counts for INFO | nothing, as above |
//! | `metrics/lateness` | how late elements were | nothing, as above |
//! | `metrics/clock_steps` | steps of the wall clock since this server gives out elements | `clock_steps::begin_serving` |
//! | `data_type/census` | totals over all values | nothing: values count themselves |
//! | `data_type` | the type, and what all values share | nothing |
//! | `delivery/dead_letters` | whether dead letters are being moved | nothing: no longer than a call |
//! | `replicate/batch` | memory for the next effect | nothing: empty between calls |
//! | `replicate/effect` | the process that wrote the level last | nothing |
//! | `level` | the replication level | nothing: constant outside of tests |
//! | `clock` | an offset, in tests | nothing |
//! | `config` | settings | nothing: CONFIG SET alone changes them |
//! | `commands/defaults` | the setting `default-ondue`, parsed | nothing, as above |
//! | `commands/range` | a number of this process | nothing |
//! | `schedule/plan` | parsed plans | nothing: they follow from their texts, and are parsed again each hour for new zones |
//! | `schedule/zones` | where the time zones are | nothing: read once |
//! | `server/listeners` | whether anybody reads what is replicated | `listeners::assume_present`; events of its own |
//! | `server/client_checks` | the server's last answers whether clients may write | nothing: `server/listeners` discards them |
//! | `server/other_modules` | whether another module may listen | nothing: an event of its own |
//! | `server/hooks/passes` | whether passes are reported | nothing |
//! | `server/hooks/event` | the subscriptions | nothing |
//! | `server/context` | a context outside of commands | nothing |
//! | `server/context/reply` | a reply of the server: OK | nothing |
//! | `server/context/user` | a function of the server | nothing |
//! | `server/process` | the random generator | nothing |
//! | `server/process/info` | which server this is | nothing |
//! | `server/process/hold` | whether a value is held, in debug builds | nothing: no longer than a call |
//! | `server/process/guard` | a trap that is set, in tests | nothing |

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
