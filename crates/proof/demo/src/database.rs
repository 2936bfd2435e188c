//! The demo's databases: how their servers are set, and how their balances are judged.

use crate::error::{Error, Result};
use ashlar_postgres::{Amount, Installation, Pgbench, Places, Server, Settings, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Load of pgbench: sessions, and threads that drive them.
const CLIENTS: u32 = 16;
const THREADS: u32 = 2;

/// The server's settings. Durability is PostgreSQL's default: every commit waits for its flush.
fn settings() -> Settings {
    Settings::new()
        .with("listen_addresses", "")
        .with("unix_socket_permissions", "0777")
        .with("shared_buffers", Value::Bytes(256 << 20))
        .with("dynamic_shared_memory_type", "mmap")
        .with("max_connections", 60)
        .with("max_wal_size", Value::Bytes(2 << 30))
        .with("checkpoint_timeout", Duration::from_secs(300))
        .with("wal_level", "minimal")
        .with("max_wal_senders", 0)
        .with("autovacuum_naptime", Duration::from_secs(30))
}

/// A server with its data on one volume, its log on another and its socket outside of the array.
pub(crate) fn server_at(
    postgres: &Installation,
    data: PathBuf,
    wal: Option<PathBuf>,
    socket: PathBuf,
    port: u16,
) -> Server {
    let places = Places { data, wal, socket, port, ..Places::default() };
    Server::new(postgres, places, settings())
}

/// pgbench's TPC-B-like load; every transaction is logged below `log_prefix`.
pub(crate) fn load(seconds: u32, log_prefix: &Path) -> Pgbench {
    let mut load = Pgbench::new(CLIENTS, THREADS, Amount::Time(Duration::from_secs(seconds.into())));
    load.log_prefix = Some(log_prefix.into());
    load
}

/// pgbench's invariant: the four sums are equal at every consistent instant. Returns the number of
/// transactions in the history.
pub(crate) fn check_sums(server: &Server) -> Result<u64> {
    let balances = server.balances()?;
    if balances.agree() {
        return Ok(balances.transactions);
    }
    let (accounts, tellers) = (balances.accounts, balances.tellers);
    let (branches, history) = (balances.branches, balances.history);
    Err(Error::proof(format!(
        "balances differ: accounts {accounts}, tellers {tellers}, branches {branches}, history {history}"
    )))
}
