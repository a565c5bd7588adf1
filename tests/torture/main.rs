//! Tests that take minutes: many repeated faults. `make torture`.

mod anything;
mod concurrent;
mod crash;
mod deliver;
mod disk;
mod expire;
mod history;
mod leak;
mod random;
mod restore;
mod schedules;
