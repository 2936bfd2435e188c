//! pgbench: its tables filled, its load run, its invariant read.

mod log;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ashlar_programs::Running;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::server::{LONG, Server};
pub use log::{Load, LoadLog, Window};
pub use report::{LoadReport, Progress};

/// How much a load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// As much as it can in this time, in whole seconds.
    Time(Duration),
    /// So many transactions of each client.
    Transactions(u64),
}

/// How statements are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// As text, planned each time.
    #[default]
    Simple,
    /// As text with values apart.
    Extended,
    /// Planned once.
    Prepared,
}

/// A script of one's own, and how often it is chosen among others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The file.
    pub path: PathBuf,
    /// Its share of the sum of all weights.
    pub weight: u32,
}

/// A load of pgbench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pgbench {
    /// The database it runs in.
    pub database: String,
    /// Sessions.
    pub clients: u32,
    /// Threads that drive them.
    pub threads: u32,
    /// How much it does.
    pub amount: Amount,
    /// Scripts; none is pgbench's own TPC-B-like one.
    pub scripts: Vec<Script>,
    /// Values for the scripts (`-D`).
    pub variables: Vec<(String, String)>,
    /// Transactions a second to begin, at random times; `None` is as many as possible.
    pub rate: Option<f64>,
    /// How statements are sent.
    pub protocol: Protocol,
    /// How often it reports on the way, in whole seconds.
    pub progress: Option<Duration>,
    /// Every transaction is logged in files whose names begin so.
    pub log_prefix: Option<PathBuf>,
    /// Makes the choice of rows the same each time.
    pub seed: Option<u64>,
}

impl Pgbench {
    /// The TPC-B-like load in the database `postgres`, as fast as it goes.
    #[must_use]
    pub fn new(clients: u32, threads: u32, amount: Amount) -> Pgbench {
        Pgbench {
            database: "postgres".into(),
            clients,
            threads,
            amount,
            scripts: Vec::new(),
            variables: Vec::new(),
            rate: None,
            protocol: Protocol::Simple,
            progress: None,
            log_prefix: None,
            seed: None,
        }
    }

    /// The words of its command line.
    fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = vec!["-n".into()];
        let mut add = |name: &str, value: String| words.extend([name.to_string(), value]);
        add("-c", self.clients.to_string());
        add("-j", self.threads.to_string());
        match self.amount {
            Amount::Time(time) => add("-T", time.as_secs().max(1).to_string()),
            Amount::Transactions(count) => add("-t", count.to_string()),
        }
        for Script { path, weight } in &self.scripts {
            add("-f", format!("{}@{weight}", path.display()));
        }
        for (name, value) in &self.variables {
            add("-D", format!("{name}={value}"));
        }
        match self.protocol {
            Protocol::Simple => {}
            Protocol::Extended => add("-M", "extended".into()),
            Protocol::Prepared => add("-M", "prepared".into()),
        }
        if let Some(rate) = self.rate {
            add("-R", rate.to_string());
        }
        if let Some(interval) = self.progress {
            add("-P", interval.as_secs().max(1).to_string());
        }
        if let Some(prefix) = &self.log_prefix {
            add("--log-prefix", prefix.display().to_string());
            words.push("-l".into());
        }
        if let Some(seed) = self.seed {
            words.push(format!("--random-seed={seed}"));
        }
        words.push(self.database.clone());
        words
    }

    /// How long it may take at most.
    fn limit(&self) -> Duration {
        match self.amount {
            Amount::Time(time) => time + LONG,
            Amount::Transactions(_) => LONG,
        }
    }
}

/// The four sums of pgbench's tables, as text, and what its history counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balances {
    /// Of the accounts.
    pub accounts: String,
    /// Of the tellers.
    pub tellers: String,
    /// Of the branches.
    pub branches: String,
    /// Of the changes in the history.
    pub history: String,
    /// Transactions in the history.
    pub transactions: u64,
}

impl Balances {
    /// pgbench's invariant: the four sums are equal at every consistent instant.
    #[must_use]
    pub fn agree(&self) -> bool {
        [&self.tellers, &self.branches, &self.history].iter().all(|sum| **sum == self.accounts)
    }
}

impl Server {
    /// One of the programs that are clients, as the superuser over the socket.
    #[must_use]
    pub fn client(&self, program: &str) -> Command {
        let mut command = self.installation.program(program);
        command.arg("-h").arg(&self.places.socket);
        command.args(["-p", &self.places.port.to_string(), "-U", self.superuser()]);
        command
    }

    /// Fills pgbench's tables in the database `postgres`.
    ///
    /// # Errors
    /// When pgbench fails.
    pub fn fill(&self, scale: u32) -> Result<Duration> {
        let mut command = self.client("pgbench");
        command.args(["-i", "-q", "-s", &scale.to_string(), "postgres"]);
        Ok(self.installation.launcher.run(command, LONG)?.took)
    }

    /// Starts a load.
    ///
    /// # Errors
    /// When pgbench does not start.
    pub fn start_load(&self, load: &Pgbench) -> Result<Running> {
        let mut command = self.client("pgbench");
        command.args(load.arguments());
        Ok(self.installation.launcher.start("pgbench", command)?)
    }

    /// Waits for a load to end by itself.
    ///
    /// # Errors
    /// When pgbench fails, as it does when it loses a session, or does not end in time.
    pub fn finish_load(&self, running: Running, load: &Pgbench) -> Result<LoadReport> {
        let finished = self.installation.launcher.wait(running, load.limit())?;
        if !finished.status.success() {
            return Err(finished.error("pgbench").into());
        }
        LoadReport::parse(&finished.stdout, &finished.stderr)
    }

    /// Runs a load to its end.
    ///
    /// # Errors
    /// When pgbench fails or does not end in time.
    pub fn run_load(&self, load: &Pgbench) -> Result<LoadReport> {
        self.finish_load(self.start_load(load)?, load)
    }

    /// Ends a load by closing its sessions: unlike a killed pgbench, one that loses them writes its log to
    /// the end.
    ///
    /// # Errors
    /// When the server does not answer, or pgbench does not end within `limit`.
    pub fn end_load(&self, running: Running, limit: Duration) -> Result<()> {
        let sessions = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where application_name = 'pgbench'";
        self.query(sessions)?;
        self.installation.launcher.wait_from(running, Instant::now(), limit)?;
        Ok(())
    }

    /// Reads the sums of pgbench's tables, at one instant.
    ///
    /// # Errors
    /// When the server does not answer, or has not all of the tables.
    pub fn balances(&self) -> Result<Balances> {
        let rows = self.query(
            "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), \
             (select sum(bbalance) from pgbench_branches), coalesce(sum(delta), 0), count(*) from pgbench_history",
        )?;
        let row: Vec<&str> =
            rows.first().into_iter().flatten().map(|v| v.as_deref().unwrap_or("null")).collect();
        let [accounts, tellers, branches, history, count] = row[..] else {
            return Err(Error::command("the balances cannot be read"));
        };
        let [accounts, tellers, branches, history] =
            [accounts, tellers, branches, history].map(str::to_string);
        let transactions = count.parse().map_err(|_| Error::command(format!("history count {count:?}")))?;
        Ok(Balances { accounts, tellers, branches, history, transactions })
    }
}

/// The name of a load's log files without what pgbench appends.
fn log_parts(prefix: &Path) -> (PathBuf, String) {
    let directory = prefix.parent().unwrap_or(Path::new("."));
    (directory.into(), prefix.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
