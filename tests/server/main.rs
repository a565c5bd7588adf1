//! The module in real servers, driven as its users drive it.
//!
//! `DEHYDRATOR_SERVER` and `DEHYDRATOR_CLI` name the programs (default: `redis-server`, `redis-cli`),
//! `DEHYDRATOR_MODULE` the module (default: `target/release/libdehydrator.so`). Each test starts
//! servers of its own, in a folder of their own, and nothing is left when it ends.

mod access;
mod aligned;
mod any_deadline;
mod blocking;
mod cluster;
mod commands;
mod errors;
mod faults;
mod fenced;
mod hangup;
mod keyspace;
mod lateness;
mod layout;
mod limits;
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
mod range;
mod rede;
mod refused;
mod rejected;
mod released;
mod remembered;
mod replication;
mod replies;
mod run;
mod runbook;
mod session;
mod settings;
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
