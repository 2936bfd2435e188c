//! The place of one demo: a directory of its own, and the promise to leave nothing behind.
//!
//! Everything the demo starts works inside this directory, so whatever is still alive, mounted or
//! attached at the end can be found by its path, whoever forgot it.

use crate::error::{Error, Result};
use crate::progress::{complain, say};
use crate::settings::Settings;
use ashlar_postgres::end_processes;
use ashlar_programs::Launcher;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The directory's name begins so; the rest is the process id.
const PREFIX: &str = "ashlar-demo-";

/// How long the array may take for an address of its console. Arbitrary.
const CONSOLE_LIMIT: Duration = Duration::from_secs(10);

/// The site that a panic must clear: a panic aborts, so no destructor would.
static PANIC_SITE: OnceLock<PathBuf> = OnceLock::new();

/// A temporary directory whose contents, processes and mounts go with it.
pub(crate) struct Site {
    base: PathBuf,
    launcher: Arc<Launcher>,
    is_kept: AtomicBool,
}

impl Site {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::environment("the demo attaches volumes and mounts them: run it as root"));
        }
        if !settings.binary.is_file() {
            return Err(Error::environment(format!("{}: no such program", settings.binary.display())));
        }
        let parent = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        sweep_left_behind(&parent);
        let base = parent.join(format!("{PREFIX}{}", std::process::id()));
        let logs = base.join("logs");
        fs::create_dir_all(&logs).map_err(|e| Error::io(&format!("create {}", logs.display()), e))?;
        // The database's account must be able to reach its own directories below.
        for directory in [&base, &logs] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
                .map_err(|e| Error::io(&format!("open {}", directory.display()), e))?;
        }
        let is_interrupted = ashlar_programs::heed_signals()?;
        if PANIC_SITE.set(base.clone()).is_ok() {
            let default = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if let Some(base) = PANIC_SITE.get() {
                    sweep(base);
                }
                // It ends the process.
                default(panic);
            }));
        }
        let launcher = Arc::new(Launcher::new(base.clone(), logs, is_interrupted));
        Ok(Self { base, launcher, is_kept: AtomicBool::new(false) })
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn launcher(&self) -> &Arc<Launcher> {
        &self.launcher
    }

    /// A directory inside the site, for the account `owner` if given.
    pub(crate) fn directory(&self, name: &str, owner: Option<(u32, u32)>) -> Result<PathBuf> {
        let path = self.base.join(name);
        fs::create_dir_all(&path).map_err(|e| Error::io(&format!("create {}", path.display()), e))?;
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(&path, Some(user), Some(group))
                .map_err(|e| Error::io(&format!("chown {}", path.display()), e))?;
        }
        Ok(path)
    }

    /// Bytes free for the demo's drives.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.base).map_err(|e| Error::io("statvfs", e.into()))?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    /// Ends what keeps the array's attachments, as the end of the machine would.
    pub(crate) fn end_keeper(&self) {
        end_processes(&self.base, |name| name == "ashlar-keep", &[Signal::KILL]);
    }

    /// Leaves everything standing and says how to look at it and how to end it.
    pub(crate) fn keep(&self, binary: &Path) {
        self.is_kept.store(true, Ordering::Relaxed);
        let base = self.base.display();
        say(&format!("\nkept: {base}"));
        say(&format!("  look:    {} status --state {base}/state", binary.display()));
        say(&format!("  query:   psql -h {base}/run-main -p 5432 -U postgres"));
        say("  remove:  the next `ashlar demo` does it");
        let mut console = Command::new(binary);
        console.arg("--state").arg(self.base.join("state")).arg("console");
        match self.launcher.run(console, CONSOLE_LIMIT) {
            Ok(address) => {
                say(&format!("  console: {}", address.stdout.trim()));
                let again = format!("{} console --state {base}/state", binary.display());
                say(&format!("           good for one visit within a minute; another: {again}"));
            }
            Err(error) => complain(&format!("  no address of the console: {error}")),
        }
    }

    /// After a failure: the last words of the array's process.
    pub(crate) fn print_logs(&self) {
        let Ok(entries) = fs::read_dir(self.base.join("logs")) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.to_string_lossy().contains("-serve."));
        paths.sort();
        for path in paths {
            let text = fs::read(&path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for line in lines.iter().skip(lines.len().saturating_sub(12)) {
                complain(&format!("  ashlar serve: {line}"));
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            sweep(&self.base);
        }
    }
}

/// Sites of demos that were killed before they could tidy up, or kept on purpose.
fn sweep_left_behind(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(Ok(pid)) = name.strip_prefix(PREFIX).map(str::parse::<u32>) else { continue };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            sweep(&entry.path());
        }
    }
}

/// Ends what works below `base`, unmounts and detaches what hangs there, removes it. The order
/// matters: a database before its file system, a file system before its array.
fn sweep(base: &Path) {
    let is_database = |name: &str| name == "postgres" || name == "postmaster";
    end_processes(base, is_database, &[Signal::QUIT, Signal::KILL]);
    end_processes(base, |name| name != "ashlar", &[Signal::TERM, Signal::KILL]);
    unmount(base, |kind| !kind.starts_with("fuse"));
    end_processes(base, |_| true, &[Signal::TERM, Signal::KILL]);
    unmount(base, |_| true);
    detach_loops(base);
    if let Err(error) = fs::remove_dir_all(base) {
        complain(&format!("remove {}: {error}", base.display()));
    }
}

/// Mount points below `base` with their file system kinds, innermost last.
pub(crate) fn mounts_below(base: &Path) -> Vec<(PathBuf, String)> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found = Vec::new();
    for line in table.lines() {
        let mut fields = line.split(' ').skip(1);
        if let (Some(point), Some(kind)) = (fields.next(), fields.next()) {
            let point = PathBuf::from(point.replace("\\040", " "));
            if point.starts_with(base) {
                found.push((point, kind.to_string()));
            }
        }
    }
    found
}

fn unmount(base: &Path, is_wanted: impl Fn(&str) -> bool) {
    for (point, kind) in mounts_below(base).into_iter().rev() {
        if is_wanted(&kind) && !quietly("umount", &[point.as_os_str()]) {
            quietly("umount", &["-l".as_ref(), point.as_os_str()]);
        }
    }
}

/// Loop devices over files below `base`.
pub(crate) fn loops_below(base: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim()).starts_with(base) {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    found
}

fn detach_loops(base: &Path) {
    for device in loops_below(base) {
        quietly("losetup", &["-d".as_ref(), device.as_os_str()]);
    }
}

fn quietly(program: &str, arguments: &[&std::ffi::OsStr]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
