//! Loads of databases: many clients driven and timed, what they do, and whether the data held.
//!
//! ```text
//!             driver ── clients as threads, phases, pace, latencies, one time line
//!                │ drives any `Workload`
//!        ┌───────┴────────┐
//!  orders, broker  points, factload        each: load (COPY, parallel), clients, checks of what is read
//!        ├─ conditions: twelve statements that must find nothing wrong
//!        └─ ledger: what the server acknowledged, to be found again after a crash or on a snapshot
//!  rows: whole tables by one session, without the driver
//! ```
//! The room that runs scenarios calls this one. It starts no server and stops none.
//!
//! 1. One thread drives one session; no client shares anything on its path but counters.
//! 2. Everything drawn at random comes from a seed: the same seed loads the same rows.
//! 3. What comes back wrong is an error, never a fast answer.
//! 4. What the server acknowledged is told apart from what nobody knows ([`ErrorKind::Lost`]).

pub mod broker;
mod content;
pub mod driver;
mod error;
pub mod factload;
mod fields;
mod jobs;
mod loaders;
pub mod orders;
pub mod points;
mod prepare;
mod random;
pub mod rows;
mod workload;

pub use error::{Error, ErrorKind, Result};
pub use loaders::loaders;
pub use prepare::Listed;
pub use random::{NonUniform, Random};
pub use workload::{Client, Done, Kind, Workload};
