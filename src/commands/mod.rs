//! The commands, a file for each family: how each reads its arguments, what it does to the dehydrator,
//! what it tells replicas, and what it replies, in that order.

mod args;
mod blocked;
#[cfg(debug_assertions)]
mod debug;
mod glob;
mod help;
mod inspect;
mod limits;
mod look;
mod ondue;
mod push;
mod table;
mod take;
mod update;

pub use table::commands;
