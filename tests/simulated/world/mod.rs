//! The world: clients, workers, operators and accidents around simulated servers, all drawn from one seed.

pub mod child;
pub mod draw;
mod end;
pub mod op;
pub mod random;
pub mod run;
pub mod shown;
pub mod shrink;
pub mod step;
