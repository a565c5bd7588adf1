//! The commands, a file for each family: how each reads its arguments, what it does to the dehydrator,
//! what it tells replicas, and what it replies, in that order.

mod args;
#[cfg(debug_assertions)]
mod debug;
mod glob;
mod inspect;
mod limits;
mod look;
mod ondue;
mod push;
mod table;
mod take;
mod taken;
mod update;

pub use table::commands;
