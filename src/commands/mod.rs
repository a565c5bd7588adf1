//! The commands, a file for each family: how each reads its arguments, what it does to the dehydrator,
//! what it tells replicas, and what it replies, in that order.

mod args;
#[cfg(debug_assertions)]
pub mod debug;
mod glob;
pub mod inspect;
pub mod look;
pub mod ondue;
pub mod push;
pub mod take;
pub mod update;
