//! What takes minutes: faults, many times over. `make torture`.

#[path = "../server/harness.rs"]
#[allow(dead_code)]
mod harness;

mod crash;
mod deliver;
mod disk;
mod leak;
mod lease;
mod model;
mod operations;
mod random;
mod restore;
mod wander;
