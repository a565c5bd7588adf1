//! Tests that take minutes: many repeated faults. `make torture`.

mod concurrent;
mod crash;
mod dead;
mod deliver;
mod disk;
mod expire;
mod history;
mod leak;
mod lease;
mod model;
mod operations;
mod random;
mod restore;
mod schedules;
