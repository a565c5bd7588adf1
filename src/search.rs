//! Finding dehydrators whose names are not known, by walking over the keyspace, a few keys at a time.
//!
//! The server does not tell a module to which name RENAME and MOVE bring a value. What has something to do
//! when an element comes due must be found again; and when somebody turns keyspace events on, all
//! dehydrators must be. A walk takes a tick's share at each tick: a million keys in some seconds. Whoever
//! uses a dehydrator by its new name meanwhile makes it known at once.

use std::cell::RefCell;

use crate::agenda;
use crate::data_type::{inspect, is_on_the_agenda, lost};
use crate::server::context::publishes_module_events;
use crate::server::key::Name;
use crate::server::walk::Walk;
use crate::server::{Context, OwnedStr};

#[derive(Default)]
struct Search {
    /// The database in which it is, while there is one.
    walk: Option<(i32, Walk)>,
    /// Whether events were on at the last tick.
    published: bool,
}

thread_local! {
    // Ticks run on the server's main thread alone.
    static SEARCH: RefCell<Search> = RefCell::default();
}

/// Begins a search if there is reason to, and goes on with it while `go_on` says so.
pub fn step(context: &Context, mut go_on: impl FnMut() -> bool) {
    SEARCH.with_borrow_mut(|search| {
        let publishes = publishes_module_events();
        let all = publishes && !search.published;
        search.published = publishes;
        if all || (search.walk.is_none() && lost() > 0) {
            search.walk = Some((0, Walk::new()));
        }
        while let Some((db, walk)) = &mut search.walk {
            if !context.select_db(*db) {
                search.walk = None;
                break;
            }
            let mut names = Vec::new();
            if !walk.step(context, |name| names.push(OwnedStr::new(name.bytes()))) {
                search.walk = Some((*db + 1, Walk::new()));
            }
            for name in names {
                look(context, &name);
            }
            if !go_on() {
                break;
            }
        }
    });
}

fn look(context: &Context, key: &OwnedStr) {
    let name = Name::of(context, key.as_str());
    inspect(context, key.as_str(), |dehydrator| {
        if is_on_the_agenda(&dehydrator.policy) && !agenda::contains(&name) {
            agenda::add(name.clone());
        }
        dehydrator.whereabouts().found();
    });
}
