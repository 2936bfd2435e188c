//! The deterministic simulator: the whole engine on simulated drives, under crashes and faults,
//! judged by an independent oracle.
//!
//! A seed decides everything: the shape of the pool, the workload, which task runs next, what the
//! drives do and when the machine stops. A failure is repeated by its seed alone.
//!
//! ```text
//!  run (batch.rs)          seeds over the cores, the first failure by number
//!    └─ run_seed           one seed: create, several lives, farewell; of some a story of two engines, too
//!         └─ Machine::live one life: start, reconcile, check, verify, work, stop
//!              ├─ workload   hosts and an administrator, concurrently
//!              ├─ forger     a tenant whose blocks pass for structures of the pool
//!              ├─ nbd_door, fuse_door   the same requests through a target's session, as bytes
//!              ├─ system     the engine, behind a trait that fakes implement too
//!              ├─ drives     what the runtime's simulated storage does
//!              ├─ oracle     what may be read; outlives every crash
//!              └─ inspection the second reader, of the drives as they were left
//! ```
//!
//! Who calls it: `ashlar sim`, `make test`, and `cargo xtask planted`, by which the simulator itself is
//! judged. It never touches a real drive.

mod batch;
mod chance;
mod content;
mod drives;
mod engine_system;
mod forger;
mod fuse_door;
mod inspection;
mod kernel;
mod life;
mod losses;
mod nbd_door;
mod operator;
mod oracle;
mod record;
mod scenario;
mod seed_run;
mod staff;
mod system;
mod two_engines;
mod wall_clock;
mod workload;

#[cfg(test)]
mod atomic_tests;
#[cfg(test)]
mod drive_tests;
#[cfg(test)]
mod fakes;
#[cfg(test)]
mod floors_tests;
#[cfg(test)]
mod idle_loss_tests;
#[cfg(test)]
mod initiators_tests;
#[cfg(test)]
mod notes_tests;
#[cfg(test)]
mod rates_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod tests;

pub use batch::{Failure, Options, Progress, Summary, cpu_time};
pub use drives::DriveCounters;
pub use record::Counters;

/// What is wrong with one seed, if anything is: for whoever judges the simulator itself.
#[must_use]
pub fn verdict_of(seed: u64) -> Option<String> {
    seed_run::run_seed(seed, std::rc::Rc::new(engine_system::EngineMaker), false).verdict
}

/// Runs seeds against the engine; the first that fails, by number, is the answer.
pub fn run(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Summary, Failure> {
    batch::run_batch(options, || std::rc::Rc::new(engine_system::EngineMaker), progress)
}
