//! Tests that take minutes: many repeated faults. `make torture`.

mod anything;
mod crash;
mod crowd;
mod deliver;
mod disk;
mod expire;
mod leak;
mod random;
mod restore;
mod schedules;
