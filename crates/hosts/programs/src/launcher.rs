//! Starts programs, waits for them, and takes them down in order.

use crate::error::{Error, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Starts programs. Each gets its own process group, so that Ctrl-C reaches only the one that started them,
/// which takes the rest down in order.
pub struct Launcher {
    directory: PathBuf,
    logs: PathBuf,
    next: AtomicU64,
    is_interrupted: Arc<AtomicBool>,
    cleaning_count: AtomicUsize,
}

/// A flag that the signals which end a program set from now on.
///
/// # Errors
/// When a signal cannot be caught.
pub fn heed_signals() -> Result<Arc<AtomicBool>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, is_interrupted.clone())
            .map_err(|e| Error::io("catch signals", &e))?;
    }
    Ok(is_interrupted)
}

/// What a finished program said, and how long it took.
pub struct Finished {
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub took: Duration,
}

/// A program that is still running. Dropping it kills it.
pub struct Running {
    /// Its process, the leader of its group.
    pub child: Child,
    /// What its log files are called.
    pub name: String,
    stdout: PathBuf,
    stderr: PathBuf,
    start: Instant,
}

impl Launcher {
    /// Programs work in `directory` unless they say where, so that they can be found again; their words go
    /// to `logs`.
    #[must_use]
    pub fn new(directory: PathBuf, logs: PathBuf, is_interrupted: Arc<AtomicBool>) -> Self {
        let cleaning_count = AtomicUsize::new(0);
        Self { directory, logs, next: AtomicU64::new(1), is_interrupted, cleaning_count }
    }

    /// Whether the user pressed Ctrl-C, and nothing is being cleaned up.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed) && self.cleaning_count.load(Ordering::Relaxed) == 0
    }

    /// While the guard lives, programs run to their end although the user pressed Ctrl-C.
    #[must_use]
    pub fn clean(&self) -> Cleaning<'_> {
        self.cleaning_count.fetch_add(1, Ordering::Relaxed);
        Cleaning { launcher: self }
    }

    /// Sleeps, but not through a Ctrl-C.
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            if self.is_interrupted() {
                return Err(Error::interrupted());
            }
            std::thread::sleep(Duration::from_millis(20).min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Starts a program in the background; `name` is what its log files are called.
    pub fn start(&self, name: &str, mut command: Command) -> Result<Running> {
        let program = command.get_program().to_string_lossy().into_owned();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = |kind: &str| self.logs.join(format!("{number:03}-{name}.{kind}"));
        let (stdout, stderr) = (path("out"), path("err"));
        let open = |path: &Path| File::create(path).map_err(|e| Error::io(&path.display().to_string(), &e));
        command.stdin(Stdio::null()).stdout(open(&stdout)?).stderr(open(&stderr)?);
        command.process_group(0);
        if command.get_current_dir().is_none() {
            command.current_dir(&self.directory);
        }
        let start = Instant::now();
        let child = command.spawn().map_err(|e| Error::io(&format!("start {program}"), &e))?;
        Ok(Running { child, name: name.to_string(), stdout, stderr, start })
    }

    /// Runs a program to its end; a failure is an error that carries what the program said.
    pub fn run(&self, command: Command, limit: Duration) -> Result<Finished> {
        let shown = show(&command);
        let name =
            Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let finished = self.wait(self.start(&name, command)?, limit)?;
        if finished.status.success() { Ok(finished) } else { Err(finished.error(&shown)) }
    }

    /// Waits for a program started before; the limit counts from its start.
    pub fn wait(&self, running: Running, limit: Duration) -> Result<Finished> {
        let start = running.start;
        self.wait_from(running, start, limit)
    }

    /// Waits for a program started before; the limit counts from `start`.
    pub fn wait_from(&self, mut running: Running, start: Instant, limit: Duration) -> Result<Finished> {
        loop {
            if let Some(status) = running.child.try_wait().map_err(|e| Error::io(&running.name, &e))? {
                let took = running.start.elapsed();
                let text = |path: &Path| {
                    std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
                };
                let (stdout, stderr) = (text(&running.stdout), text(&running.stderr));
                return Ok(Finished { stdout, stderr, status, took });
            }
            if self.is_interrupted() {
                return Err(Error::interrupted());
            }
            let so_far = start.elapsed();
            if so_far > limit {
                return Err(Error::command(format!("{} did not end within {limit:?}", running.name)));
            }
            // Short at first: some of the times taken here are a few milliseconds.
            let pause = if so_far < Duration::from_millis(300) { 200 } else { 5_000 };
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
}

impl Finished {
    /// That it failed, with the last lines it said.
    #[must_use]
    pub fn error(&self, shown: &str) -> Error {
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let tail: Vec<&str> = said.lines().rev().take(6).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        Error::command(format!("`{shown}` failed ({}): {}", self.status, tail.join("\n    ")))
    }
}

/// A time in which Ctrl-C is not listened to, because what runs is what it asks for.
pub struct Cleaning<'a> {
    launcher: &'a Launcher,
}

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        self.launcher.cleaning_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group goes with the program: initdb, for one, has a server working for it, which gives its
        // shared memory back when it is asked to end. A signal fails only when nobody is left to get it.
        for signal in [Signal::TERM, Signal::KILL] {
            let start = Instant::now();
            while self.child.try_wait().is_ok_and(|status| status.is_none()) && start.elapsed() < PATIENCE {
                if start.elapsed() < SIGNAL_STEP {
                    let _ = kill_process_group(Pid::from_child(&self.child), signal);
                }
                std::thread::sleep(SIGNAL_STEP);
            }
        }
        let _ = self.child.wait();
    }
}

/// How long a program may take to end after each signal.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to look whether it has.
const SIGNAL_STEP: Duration = Duration::from_millis(10);

/// A command as a user would type it.
#[must_use]
pub fn show(command: &Command) -> String {
    let mut out = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        out.push(' ');
        out.push_str(&argument.to_string_lossy());
    }
    out
}
