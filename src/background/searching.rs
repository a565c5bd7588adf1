//! Finding out which leases run, where HELD was said of a dehydrator in which much was held: a little at the end of passes of
//! the event loop, until it is done.

use crate::clock;
use crate::config;
use crate::data_type::search_held;
use crate::pending::search;
use crate::server::Context;

/// Goes on with a search, if it is time for that.
pub fn go_on(context: &Context) {
    let Some(name) = search::take() else { return };
    let started = clock::monotonic_us();
    let took_us = || clock::monotonic_us().saturating_sub(started);
    let within_budget = || took_us() < config::tick_budget_us();
    if context.select_db(name.db) && search_held(context, &name, within_budget) {
        search::note(context, name);
    }
    search::rest(took_us());
}
