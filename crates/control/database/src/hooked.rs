//! A database that is volumes and commands: Ashlar knows nothing of the server on them.
//!
//! ```text
//!  snapshot:   `frozen` is written ─► freeze ─► (the array takes it) ─► thaw ─► `frozen` is removed
//! ```
//!
//! An array that is killed in between finds the file, and has `thaw` run. What is left of `freeze` is ended
//! before that: it would hold still again what goes on.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ashlar_postgres::{Account, Waits};
use ashlar_programs::Launcher;
use rustix::process::{Pid, Signal, kill_process};

use crate::care::Care;
use crate::difference::{FileDifference, Named, Pieces, compare};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::import::{Source, Survey};
use crate::postgres::{failed, remove_file};
use crate::record::{Hooks, Role};
use crate::site::Site;
use crate::standby::Standing;
use crate::task::Outcome;

/// How long `start` may take where nobody says so, and `stop` and `check`. Arbitrary.
const START_SECONDS_MAX: u64 = 180;
const STOP_MAX: Duration = Duration::from_secs(180);
const CHECK_MAX: Duration = Duration::from_secs(3600);
/// How long what is left of a command may take to be gone after SIGKILL. Arbitrary.
const GONE_MAX: Duration = Duration::from_secs(5);
const GONE_POLL: Duration = Duration::from_millis(5);
/// Of what a command says.
const WORDS_CHARS_MAX: usize = 400;
/// Told to each command, and known again by it.
const DATABASE: &str = "ASHLAR_DATABASE";
const DATA: &str = "ASHLAR_DATA";
const LOG: &str = "ASHLAR_LOG";
const HOOK: &str = "ASHLAR_HOOK";

/// The commands of a site.
pub(crate) struct Hooked {
    site: Site,
    hooks: Hooks,
    /// Of whoever runs them; `None` where there is none to run.
    account: Option<Account>,
}

/// Why a command did not do what it is for.
enum Trouble {
    Late(Error),
    Failed(Error),
}

impl Trouble {
    fn error(self) -> Error {
        match self {
            Trouble::Late(error) | Trouble::Failed(error) => error,
        }
    }
}

impl Hooked {
    pub(crate) fn at(site: &Site) -> Result<Hooked> {
        let hooks = site.hooks.clone().unwrap_or_default();
        let account = match hooks.account.as_str() {
            "" => None,
            name => Some(Account::named(name).map_err(|error| {
                Error::refused(error.to_string(), "make it, or name another with --account")
            })?),
        };
        Ok(Hooked { site: site.clone(), hooks, account })
    }

    /// Marks processes of a command of this site.
    fn mark(&self, kind: &str) -> String {
        format!("{}:{kind}", self.site.directory.display())
    }

    fn run(&self, kind: &str, text: &str, limit: Duration) -> std::result::Result<(), Trouble> {
        let words = self.site.places().socket.join("commands");
        let made = fs::create_dir_all(&words);
        made.map_err(|error| Trouble::Failed(failed("make", &words, &error)))?;
        let launcher = Launcher::new(PathBuf::from("/"), words, Arc::new(AtomicBool::new(false)));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).env(DATABASE, &self.site.name).env(HOOK, self.mark(kind));
        command.env(DATA, self.site.mount(&Role::Data));
        if self.site.roles.contains(&Role::Log) {
            command.env(LOG, self.site.mount(&Role::Log));
        }
        self.account.iter().for_each(|account| account.apply(&mut command));
        let action = format!("mend the command, or what it does: it ran as {}", self.hooks.account);
        let wrong = |what: String| Error::failed(format!("its command `{kind}` {what}"), action.clone());
        let running = launcher.start(kind, command);
        let running = running.map_err(|error| Trouble::Failed(wrong(format!("does not start: {error}"))))?;
        match launcher.wait(running, limit) {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => {
                let said = if done.stderr.trim().is_empty() { &done.stdout } else { &done.stderr };
                let said: Vec<&str> = said.split_whitespace().collect();
                let said: String = said.join(" ").chars().take(WORDS_CHARS_MAX).collect();
                Err(Trouble::Failed(wrong(format!("failed with {}: {said}", done.status))))
            }
            Err(_) => Err(Trouble::Late(wrong(format!("did not end within {} s", limit.as_secs())))),
        }
    }

    fn run_if_any(&self, kind: &str, text: Option<&String>, limit: Duration) -> Result<()> {
        text.map_or(Ok(()), |text| self.run(kind, text, limit).map_err(Trouble::error))
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.hooks.seconds_max)
    }

    /// Ends what a killed array left of a command.
    fn end_left(&self, kind: &str) {
        let mark = format!("{HOOK}={}", self.mark(kind));
        let end = Instant::now() + GONE_MAX;
        while Instant::now() < end {
            let left = marked(&mark);
            if left.is_empty() {
                return;
            }
            for one in left {
                // It may have ended since.
                let _ = kill_process(one, Signal::KILL);
            }
            std::thread::sleep(GONE_POLL);
        }
    }

    fn nothing<T>(what: &str) -> Result<T> {
        let action = "it has volumes and commands alone: --engine none";
        Err(Error::refused(format!("{what}: Ashlar knows nothing of its server"), action))
    }
}

/// Processes in whose environment this stands.
fn marked(mark: &str) -> Vec<Pid> {
    let has_it = |pid: &Pid| {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(has_it).collect()
}

/// Stops it. One whose command `stop` fails counts as stopped: whoever still uses its volumes is told when
/// they are unmounted.
pub(crate) fn end(site: &Site) -> Result<()> {
    let stopped = Hooked::at(site).and_then(|mut one| one.stop());
    match stopped {
        Ok(()) => Ok(()),
        Err(_) => remove_file(&site.started_file()),
    }
}

/// Which start of the machine this is.
fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_string())
}

/// Whether its command `start` was run since the machine's start.
pub(crate) fn is_started(site: &Site) -> bool {
    let marked = fs::read_to_string(site.started_file()).ok();
    marked.is_some() && marked == boot()
}

/// Writes a file that is there after a crash.
fn write_durable(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    };
    write().map_err(|error| failed("write", path, &error))
}

impl Engine for Hooked {
    fn programs(&self) -> Outcome {
        Outcome::default()
    }

    fn make(&mut self) -> Result<()> {
        let Some(account) = self.account else { return Ok(()) };
        for role in &self.site.roles {
            let mount = self.site.mount(role);
            lchown(&mount, Some(account.user), Some(account.group))
                .map_err(|error| failed("give away", &mount, &error))?;
        }
        Ok(())
    }

    fn adopt(&mut self, _from: &Path) -> Result<()> {
        Ok(())
    }

    /// Whatever is on the volumes is compared as it is.
    fn recover(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_back(&mut self) -> Result<()> {
        Hooked::nothing("no other machine has it")
    }

    fn compare(&self, other: &Site, changed: &[Pieces]) -> Result<Vec<FileDifference>> {
        compare(&self.site, other, changed)
    }

    fn name_files(&mut self, _stems: &BTreeSet<String>) -> Result<Vec<Named>> {
        Ok(Vec::new())
    }

    fn bring(&mut self, _source: &Source, _survey: &Survey) -> Result<Outcome> {
        Hooked::nothing("it cannot be imported")
    }

    fn care(&mut self, _care: &Care) -> Result<()> {
        Hooked::nothing("no SQL can be run in it")
    }

    fn give_password(&mut self) -> Result<()> {
        Hooked::nothing("it has no password")
    }

    fn standing(&self) -> Result<Standing> {
        Hooked::nothing("it follows nobody")
    }

    fn waits(&self, _millis: u64) -> Result<Waits> {
        Hooked::nothing("its server is not known")
    }

    fn promote(&mut self) -> Result<()> {
        Hooked::nothing("it follows nobody")
    }

    fn leave_primary(&mut self) -> Result<()> {
        Ok(())
    }

    fn start(&mut self) -> Result<Outcome> {
        if is_started(&self.site) {
            return Ok(Outcome::default());
        }
        let since = Instant::now();
        let limit = Duration::from_secs(self.site.start_timeout_seconds.unwrap_or(START_SECONDS_MAX));
        if let Some(text) = &self.hooks.start
            && let Err(trouble) = self.run("start", text, limit)
        {
            // What it began is ended where there is a way to.
            let _ = self.run_if_any("stop", self.hooks.stop.as_ref(), STOP_MAX);
            return Err(match trouble {
                Trouble::Late(error) => Error { is_late: true, ..error },
                Trouble::Failed(error) => error,
            });
        }
        write_durable(&self.site.started_file(), &boot().unwrap_or_default())?;
        Ok(Outcome { start_millis: since.elapsed().as_millis() as u64, ..Outcome::default() })
    }

    fn stop(&mut self) -> Result<()> {
        if is_started(&self.site) {
            self.run_if_any("stop", self.hooks.stop.as_ref(), STOP_MAX)?;
        }
        remove_file(&self.site.started_file())
    }

    fn check_settings(&mut self) -> Result<()> {
        Hooked::nothing("it has no settings")
    }

    fn take_settings(&mut self) -> Result<Vec<String>> {
        Hooked::nothing("it has no settings")
    }

    fn waiting_settings(&mut self) -> Result<Vec<String>> {
        Hooked::nothing("it has no settings")
    }

    fn freeze(&mut self) -> Result<()> {
        let Some(text) = &self.hooks.freeze else { return Ok(()) };
        write_durable(&self.site.frozen_file(), "")?;
        self.run("freeze", text, self.limit()).map_err(Trouble::error)
    }

    fn thaw(&mut self) -> Result<()> {
        if !self.site.is_frozen() {
            return Ok(());
        }
        self.end_left("freeze");
        self.run_if_any("thaw", self.hooks.thaw.as_ref(), self.limit())?;
        remove_file(&self.site.frozen_file())
    }

    fn prove(&mut self) -> Result<Outcome> {
        let Some(text) = &self.hooks.check else {
            let what = "nothing can be proven of it: it has no command `check`";
            return Err(Error::refused(what, "give it one: `ashlar database create --check CMD`"));
        };
        let mut outcome = Outcome::default();
        match self.run("check", text, CHECK_MAX) {
            Ok(()) => outcome.notes.push("its command `check` says so".to_string()),
            Err(trouble) => outcome.findings.push(trouble.error().to_string()),
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::record::{EngineKind, Part, Record};

    fn hooked(directory: &Path, hooks: Hooks) -> Hooked {
        let part = Part { role: Role::Data, volume: "x-data".to_string() };
        let record = Record {
            engine: EngineKind::None,
            hooks: Some(Hooks { seconds_max: 1, ..hooks }),
            ..Record::beginning("x", 0, vec![part], 0)
        };
        Hooked::at(&Site::of(&record, directory.to_path_buf())).unwrap()
    }

    fn command(text: &str) -> Option<String> {
        Some(text.to_string())
    }

    /// The harm: what a snapshot held still stayed so, since its freeze failed or hung.
    #[test]
    fn thaw_runs_behind_a_freeze_that_failed_or_hung() {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("log");
        let thaw = command(&format!("echo thawed >> {}", log.display()));
        for (freeze, why) in [("echo why >&2; exit 3", "why"), ("sleep 60", "did not end within 1 s")] {
            let mut one = hooked(
                scratch.path(),
                Hooks { freeze: command(freeze), thaw: thaw.clone(), ..Hooks::default() },
            );
            let error = one.freeze().unwrap_err();
            assert!(error.what.contains(why), "{}", error.what);
            assert!(one.site.is_frozen());
            one.thaw().unwrap();
            assert!(!one.site.is_frozen());
            one.thaw().unwrap();
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), "thawed\nthawed\n", "once for each");
    }

    #[test]
    fn it_is_started_once_and_told_where_its_data_is() {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("log");
        let tell =
            |word: &str| command(&format!("echo {word} $ASHLAR_DATABASE $ASHLAR_DATA >> {}", log.display()));
        let hooks = Hooks { start: tell("start"), stop: tell("stop"), ..Hooks::default() };
        let mut one = hooked(scratch.path(), hooks);
        one.start().unwrap();
        one.start().unwrap();
        assert!(one.site.is_running());
        one.stop().unwrap();
        assert!(!one.site.is_running());
        let data = scratch.path().join("data").display().to_string();
        assert_eq!(fs::read_to_string(&log).unwrap(), format!("start x {data}\nstop x {data}\n"));
        let mut failing = hooked(scratch.path(), Hooks { start: command("sleep 9"), ..Hooks::default() });
        failing.site.start_timeout_seconds = Some(1);
        assert!(failing.start().unwrap_err().is_late && !failing.site.is_running());
    }
}
