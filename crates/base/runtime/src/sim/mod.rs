//! The simulated driver: virtual time, seeded scheduling, drives played by a [`SimStorage`].
//!
//! A [`Simulation`] runs the shipped code, only the world is made up: which runnable task goes next
//! is drawn from the seed, the clock moves only by simulated work and waiting, and every drive
//! request goes to the storage model. The same seed gives the same run, proved by
//! [`Simulation::digest`]. Dropping a simulation is a crash: tasks vanish, and the storage learns
//! which requests were in flight.

mod driver;
mod simulation;
mod storage;

#[cfg(test)]
mod tests;

pub(crate) use driver::{SimDriver, SimIo};
pub use simulation::{Progress, Simulation, Stalled, Stop};
pub use storage::{SimDriveId, SimOperation, SimStorage, SimTicket};
