//! Memory and processors for all processes of a server together, by a control group of the kernel.
//!
//! Both versions of control groups are spoken. Where neither can be used the server runs without a limit, and
//! the reason is a plain sentence that whoever reports results must show.

mod group;
mod tree;

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use ashlar_programs::{Finished, Running};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::server::Server;
pub(crate) use group::Group;
pub(crate) use tree::Tree;

/// How long a program may take until it waits to be told to go on.
const PAUSE_LIMIT: Duration = Duration::from_secs(10);

/// What a server may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Memory of all its processes, with the files that the kernel caches for them.
    pub memory_bytes: Option<u64>,
    /// Processors that it may keep busy at once; 1.5 is one and a half.
    pub cores: Option<f64>,
    /// Which processors it may run on, in the kernel's form: `0-1,4`.
    pub cpuset: Option<String>,
}

/// Whether limits are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limitation {
    /// Nobody asked for any.
    NotAsked,
    /// They are.
    Limited,
    /// They are not, for this reason.
    NotLimited(String),
}

/// What the processes of a server used so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Memory now, with cached files.
    pub memory_bytes: u64,
    /// The most it ever was; older kernels do not tell.
    pub memory_bytes_peak: Option<u64>,
    /// Processor time; `None` where it is not counted.
    pub cpu: Option<Duration>,
    /// Processes that the kernel killed for want of memory.
    pub out_of_memory_kill_count: u64,
}

impl Server {
    /// Limits the server from its next start on, for as long as this value lives: pages that it brought into
    /// the cache stay charged to it through a restart. What was read before by others is not charged, so load
    /// the data under the limit too, or start cold. [`Server::limitation`] after the start tells whether the
    /// limits hold.
    ///
    /// # Errors
    /// When the server runs, or a limit is not a sensible one.
    pub fn limit(&mut self, limits: &Limits) -> Result<()> {
        self.limit_in(&Tree::of_machine(), limits)
    }

    pub(crate) fn limit_in(&mut self, tree: &Tree, limits: &Limits) -> Result<()> {
        if self.is_running() {
            return Err(Error::environment("limits are set before a server starts: stop it first"));
        }
        limits.check()?;
        self.group = None;
        self.limitation = match Group::make(tree, limits) {
            Ok(group) => {
                self.group = Some(group);
                Limitation::Limited
            }
            Err(reason) => Limitation::NotLimited(reason),
        };
        Ok(())
    }

    /// Whether the limits asked for are in force.
    #[must_use]
    pub fn limitation(&self) -> &Limitation {
        &self.limitation
    }

    /// What the server used since its limits were set; `None` when it has none.
    ///
    /// # Errors
    /// When the kernel's figures cannot be read.
    pub fn usage(&self) -> Result<Option<Usage>> {
        self.group.as_ref().map(Group::usage).transpose()
    }

    /// Runs a program of PostgreSQL's in the group, if there is one: it waits at its beginning, is put into
    /// the group, and told to go on. Where the kernel does not let it in it runs outside, and that is noted.
    pub(crate) fn run_limited(
        &mut self,
        name: &str,
        arguments: &[&OsStr],
        limit: Duration,
    ) -> Result<Finished> {
        let launcher = self.installation.launcher.clone();
        if let Some(group) = &self.group {
            let mut command = self.installation.paused_program(name);
            command.args(arguments);
            let shown = ashlar_programs::show(&command);
            let running = launcher.start(name, command)?;
            let pid = Pid::from_child(&running.child);
            self.wait_for_pause(&running)?;
            let (signal, refusal) = match group.put(pid) {
                Ok(()) => (Signal::CONT, None),
                Err(reason) => (Signal::KILL, Some(reason)),
            };
            kill_process(pid, signal).map_err(|e| Error::io(&shown, &e.into()))?;
            let finished = launcher.wait(running, limit)?;
            match refusal {
                None if finished.status.success() => return Ok(finished),
                None => return Err(finished.error(&shown).into()),
                Some(reason) => {
                    self.limitation = Limitation::NotLimited(reason);
                    self.group = None;
                }
            }
        }
        let mut command = self.installation.program(name);
        command.args(arguments);
        Ok(launcher.run(command, limit)?)
    }

    fn wait_for_pause(&self, running: &Running) -> Result<()> {
        let start = Instant::now();
        let path = format!("/proc/{}/stat", running.child.id());
        while start.elapsed() < PAUSE_LIMIT {
            // The state follows the name, which stands in parentheses.
            let stat = std::fs::read_to_string(&path).unwrap_or_default();
            match stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with(['T', 'Z'])) {
                Some(true) => return Ok(()),
                _ => self.installation.launcher.sleep(Duration::from_millis(1))?,
            }
        }
        Err(Error::command("the shell that starts PostgreSQL does not come to its first line"))
    }
}

impl Limits {
    fn check(&self) -> Result<()> {
        let is_list =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '-' || c == ',');
        if self.cores.is_some_and(|cores| !cores.is_finite() || cores < CORES_MIN) {
            return Err(Error::environment(format!("limit of cores: at least {CORES_MIN} of one")));
        }
        if self.memory_bytes.is_some_and(|bytes| bytes < MEMORY_BYTES_MIN) {
            let least = MEMORY_BYTES_MIN >> 20;
            return Err(Error::environment(format!("limit of memory: PostgreSQL needs {least} MiB")));
        }
        match self.cpuset.as_deref() {
            Some(text) if !is_list(text) => {
                Err(Error::environment(format!("cpuset {text:?}: write it as `0-1,4`")))
            }
            _ => Ok(()),
        }
    }
}

/// The kernel hands out processor time in parts of a tenth of a second, and no part below a millisecond.
const CORES_MIN: f64 = 0.01;
/// Arbitrary: a server of small settings starts in it.
const MEMORY_BYTES_MIN: u64 = 32 << 20;

#[cfg(test)]
mod tests;
