//! The array as a process: catalogue of pools, wiring of engine and doors, API, supervision.
//!
//! ```text
//!  api.sock, TCP ─► http ─► service ─► array ─► [data shard: engines, NBD, iSCSI, FUSE]
//!                             │  └────► attach (loop devices, file systems)
//!                             └► state (pools.toml, wear.toml, lock)   log (stderr, events) ─► messenger
//! ```
//!
//! [`serve`] is the whole life of an array: lock the state directory, clear what a crash left, open
//! the pools, open the doors, answer until a signal, and take everything down in reverse. The control
//! path is ordinary tokio on two threads; data never pass through it.

mod access;
mod array;
mod asker;
mod at_once;
pub mod attach;
mod audit;
mod console;
mod doors;
mod drive_file;
mod error;
mod gate;
mod http;
mod identity;
mod iscsi;
mod jobs;
mod keeping;
mod log;
mod messenger;
mod metrics;
mod names;
mod nbd_tls;
mod nvme;
mod places;
mod problems;
mod process;
mod remedy;
mod repeats;
mod serve;
mod server;
mod service;
mod sessions;
mod settings;
mod sockets;
mod state;
mod strangers;
mod subprocess;
mod tag;
mod tls;
mod token;
mod watchdog;
mod wear;

pub use error::{Error, Result};
pub use metrics::metrics_reference;
pub use problems::problems_reference;
pub use serve::{Options, probe_io_driver, serve};
pub use service::{own_program, run_database_process};
pub use settings::settings_reference;
pub use state::{
    API_PORT, API_SOCKET, API_TOKEN, METRICS_TOKEN, NBD_SOCKET, VOLUMES, state_directory_default,
};
