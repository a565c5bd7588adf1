//! Tests that take minutes: many repeated faults. `make torture`.

mod anything;
mod concurrent;
mod crash;
mod dead;
mod deliver;
mod disk;
mod expire;
mod history;
mod leak;
mod lease;
mod random;
mod restore;
mod schedules;
