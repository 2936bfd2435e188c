//! PostgreSQL: found, its servers made, started, asked, limited and checked.
//!
//! The demo, the lab and whoever else keeps a database on a volume drive PostgreSQL as its users do: by its
//! own programs and its own protocol.

mod account;
mod adopt;
mod checks;
mod cold;
mod control;
mod error;
mod installation;
mod leftovers;
mod limits;
mod pgbench;
mod processes;
mod server;
mod session;
mod settings;
mod statistics;
mod tls;
mod views;

pub use account::Account;
pub use adopt::{Adoption, Relink, SettingTaken, add_settings, put_before_access_rules, take_settings_out};
pub use checks::RelationCheck;
pub use cold::{ColdStart, DropWay};
pub use control::was_shut_down;
pub use error::{Error, ErrorKind, Result};
pub use installation::{Found, Installation, MAJOR_MIN, PROGRAMS, Search};
pub use limits::{Limitation, Limits, Usage};
pub use pgbench::{Amount, Balances, Load, LoadLog, LoadReport, Pgbench, Progress, Protocol, Script, Window};
pub use processes::{end_processes, processes_below, servers_below};
pub use server::{Places, Server};
pub use session::{Address, Row, Rows, Session, Statement, ToSql};
pub use settings::{SETTINGS_FILE, Setting, Settings, Value};
pub use statistics::Statistics;
pub use views::{SettingInForce, Waits};

#[cfg(test)]
mod tests;
