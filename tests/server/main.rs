//! Tests of the module in real servers, used as users would use it.
//!
//! `DEHYDRATOR_SERVER` and `DEHYDRATOR_CLI` name the programs (default: `redis-server`, `redis-cli`),
//! `DEHYDRATOR_MODULE` the module (default: `target/release/libdehydrator.so`). Each test starts its own servers, in
//! their own folders, and leaves nothing behind.

mod access;
mod aligned;
mod any_deadline;
mod blocking;
mod cancelled;
mod cluster;
mod commands;
mod dismissed;
mod effects;
mod errors;
mod expired;
mod faults;
mod fenced;
mod group_limits;
mod groups;
mod hangup;
mod held_since;
mod keyspace;
mod lateness;
mod layout;
mod limits;
mod lines;
mod links;
mod listening;
mod loading;
mod memory;
mod migration;
mod mpoll;
mod ondue;
mod operator;
mod pause;
mod persistence;
mod purge;
mod range;
mod rede;
mod refused;
mod rejected;
mod released;
mod remembered;
mod replication;
mod replies;
mod reply_bytes;
mod revive;
mod run;
mod runbook;
mod schedules;
mod session;
mod settings;
mod simulated;
mod sleeper;
mod small;
mod subscribed;
mod threads;
mod tracking;
mod twice;
mod unheard;
mod upgrade;
mod version;
mod volume;
mod wall_clock;
mod wire;
mod woken;
