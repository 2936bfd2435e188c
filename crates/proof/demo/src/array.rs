//! The demo's own array: an `ashlar serve` process, spoken to through the `ashlar` command line.

use crate::error::{Error, Result};
use crate::progress::complain;
use crate::site::Site;
use ashlar_programs::{Finished, Launcher, Running};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No command of the array takes longer unless something is wrong.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// How long the array may take until it answers after its start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long the array may take to write its last checkpoint.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// One array. Dropping it detaches its volumes and ends the process in order.
pub(crate) struct Array {
    launcher: Arc<Launcher>,
    binary: PathBuf,
    state: PathBuf,
    serve: Option<Running>,
    attached: Vec<String>,
}

impl Array {
    pub(crate) fn new(site: &Site, binary: &Path) -> Result<Self> {
        let state = site.directory("state", None)?;
        let launcher = site.launcher().clone();
        Ok(Self { launcher, binary: binary.into(), state, serve: None, attached: Vec::new() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--state").arg(&self.state).args(arguments);
        command
    }

    /// Starts the process and waits until it serves. Returns how long that took.
    pub(crate) fn start(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let mut running = self.launcher.start("serve", self.command(&["serve"]))?;
        loop {
            if let Some(status) = running.child.try_wait().map_err(|e| Error::io("ashlar serve", e))? {
                return Err(Error::command(format!("`ashlar serve` ended at its start ({status})")));
            }
            // Asked by socket first: starting a process each time would only delay the array.
            let is_listening = std::os::unix::net::UnixStream::connect(self.state.join("api.sock")).is_ok();
            if is_listening && self.is_online() {
                break;
            }
            if start.elapsed() > START_LIMIT {
                return Err(Error::command(format!("`ashlar serve` does not answer after {START_LIMIT:?}")));
            }
            self.launcher.sleep(Duration::from_millis(2))?;
        }
        self.serve = Some(running);
        Ok(start.elapsed())
    }

    /// The array answers, and every pool it has is open.
    fn is_online(&self) -> bool {
        let mut command = self.command(&["status", "--json"]);
        command.env("LC_ALL", "C");
        let Ok(finished) = self.launcher.run(command, COMMAND_LIMIT) else { return false };
        let Ok(status) = serde_json::from_str::<Value>(&finished.stdout) else { return false };
        find_all(&status, "state")
            .iter()
            .all(|state| state.as_str().is_none_or(|s| !s.starts_with("opening")))
    }

    /// Ends the process the hard way, as a crash would.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(mut running) = self.serve.take() else { return Ok(()) };
        running.child.kill().map_err(|e| Error::io("kill -9 ashlar serve", e))?;
        running.child.wait().map_err(|e| Error::io("wait for ashlar serve", e))?;
        Ok(())
    }

    /// Ends the process in order.
    pub(crate) fn stop(&mut self) -> Result<Duration> {
        let Some(running) = self.serve.take() else { return Ok(Duration::ZERO) };
        let start = Instant::now();
        let pid = Pid::from_child(&running.child);
        kill_process(pid, Signal::TERM).map_err(|e| Error::io("stop ashlar serve", e.into()))?;
        let finished = self.launcher.wait_from(running, start, STOP_LIMIT)?;
        if finished.status.success() {
            Ok(start.elapsed())
        } else {
            Err(finished.error("ashlar serve").into())
        }
    }

    /// Runs one `ashlar` command. Returns what it printed and how long it took, program start included.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Finished> {
        Ok(self.launcher.run(self.command(arguments), COMMAND_LIMIT)?)
    }

    /// Runs one `ashlar` command with `--json` and reads its answer.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        self.json_within(arguments, COMMAND_LIMIT)
    }

    /// The same for a command that may take its time.
    pub(crate) fn json_within(&self, arguments: &[&str], limit: Duration) -> Result<Value> {
        let command = self.command(&[arguments, &["--json"]].concat());
        let finished = self.launcher.run(command, limit)?;
        serde_json::from_str(&finished.stdout)
            .map_err(|e| Error::command(format!("`ashlar {}` printed no JSON: {e}", arguments.join(" "))))
    }

    /// Attaches a volume and mounts it, with a new file system if `is_new`.
    pub(crate) fn attach(&mut self, volume: &str, directory: &Path, is_new: bool) -> Result<Duration> {
        let directory = directory.to_string_lossy();
        let mut arguments = vec!["attach", volume, "--mount", &directory];
        if is_new {
            arguments.extend(["--format", "ext4"]);
        }
        let took = self.run(&arguments)?.took;
        self.attached.push(volume.into());
        Ok(took)
    }

    /// Unmounts and detaches a volume.
    pub(crate) fn detach(&mut self, volume: &str) -> Result<()> {
        self.attached.retain(|name| name != volume);
        self.run(&["detach", volume]).map(|_| ())
    }

    /// Leaves the process running when the demo ends.
    pub(crate) fn leave(mut self) {
        self.attached.clear();
        if let Some(running) = self.serve.take() {
            // Forgotten on purpose: dropping it would kill the process the user asked to keep.
            std::mem::forget(running);
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let launcher = self.launcher.clone();
        let _cleaning = launcher.clean();
        if self.serve.is_some() {
            for volume in std::mem::take(&mut self.attached).iter().rev() {
                if let Err(error) = self.detach(volume) {
                    complain(&format!("detach {volume}: {error}"));
                }
            }
        }
        if let Err(error) = self.stop() {
            complain(&format!("stop the array: {error}"));
        }
    }
}

/// Every value under `key`, at any depth: the demo reads a few figures and leaves the shape of the
/// answer to the API.
pub(crate) fn find_all<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get(key));
                waiting.extend(fields.values());
            }
            Value::Array(values) => waiting.extend(values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// The first number under `key`.
pub(crate) fn find_number(value: &Value, key: &str) -> Option<u64> {
    find_all(value, key).into_iter().find_map(Value::as_u64)
}
