//! The world: clients, workers, operators and accidents around simulated servers, all drawn from one seed.

mod accident;
mod batch;
pub mod child;
mod compare;
pub mod draw;
mod end;
mod older;
pub mod op;
pub mod random;
mod replies;
pub mod run;
pub mod schedule;
pub mod shown;
pub mod shrink;
pub mod step;
mod still;
mod time;
