//! A loop device on a file, by `losetup` of util-linux.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::mounts::{self, PAUSE};

/// How long a program may still hold a device that is to go: udev looks at every new one.
const PATIENCE: Duration = Duration::from_secs(5);

/// A loop device that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Attached,
    /// Somebody used it for longer than our patience.
    Refused,
    Gone,
}

impl LoopDevice {
    /// On this part of the file, with direct and so asynchronous I/O: without, it would ask for one thing at
    /// a time.
    pub(crate) fn attach(file: &Path, part: Range<u64>, is_rotational: bool) -> Result<LoopDevice> {
        let shown = file.display();
        let mut command = Command::new("losetup");
        command.args(["--direct-io=on", "--show", "--find", "--offset", &part.start.to_string()]);
        command.args(["--sizelimit", &(part.end - part.start).to_string()]).arg(file);
        let said = run(&mut command).map_err(|error| {
            Error { context: format!("attach {shown} as a loop device: {}", error.context), ..error }
                .of_kind(ErrorKind::Unsupported)
        })?;
        let device = LoopDevice { path: PathBuf::from(said.trim()), state: State::Attached };
        if said_of(&device.path, "loop/dio").as_deref() != Some("1") {
            let what = format!("{} refuses direct I/O on {shown}", device.path.display());
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if is_rotational && let Some(folder) = folder(&device.path) {
            // So that whoever looks sees what he gets; nothing of ours depends on it.
            let _unsaid = fs::write(folder.join("queue/rotational"), "1");
        }
        Ok(device)
    }

    /// Takes the file systems on it away, and then the device.
    pub(crate) fn detach(&mut self) -> Result<()> {
        self.state = State::Refused;
        for mount in mounts_on(&self.path)? {
            mounts::take(&mount)?;
        }
        detach(&self.path)?;
        self.state = State::Gone;
        Ok(())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if self.state == State::Attached {
            let _refused = self.detach();
        }
        if self.state == State::Refused {
            take_by_force(&self.path);
        }
    }
}

/// File systems on it go out of sight, and the device with its last user.
pub(crate) fn take_by_force(device: &Path) {
    for mount in mounts_on(device).unwrap_or_default() {
        mounts::hide(&mount);
    }
    let _in_use = run(Command::new("losetup").arg("--detach").arg(device));
}

/// Waits until it is gone: the kernel lets the last who has it open end first.
fn detach(device: &Path) -> Result<()> {
    run(Command::new("losetup").arg("--detach").arg(device))?;
    let begun = Instant::now();
    while said_of(device, "loop/backing_file").is_some() {
        if begun.elapsed() > PATIENCE {
            return Err(Error::new(ErrorKind::Busy, format!("{} is in use", device.display())));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The loop devices on this file, as it was called when they came.
pub(crate) fn on_file(file: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let devices = folders.map(|folder| Path::new("/dev").join(folder.file_name()));
    devices
        .filter(|device| said_of(device, "loop/backing_file").is_some_and(|on| Path::new(&on) == file))
        .collect()
}

/// Where its file systems are mounted.
fn mounts_on(device: &Path) -> Result<Vec<PathBuf>> {
    let Some(number) = said_of(device, "dev") else { return Ok(Vec::new()) };
    let on_it = mounts::all()?.into_iter().filter(|mount| mount.device == number);
    Ok(on_it.map(|mount| mount.at).collect())
}

fn folder(device: &Path) -> Option<PathBuf> {
    Some(Path::new("/sys/block").join(device.file_name()?))
}

fn said_of(device: &Path, file: &str) -> Option<String> {
    Some(fs::read_to_string(folder(device)?.join(file)).ok()?.trim_end().to_string())
}

/// What the program printed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| Error::system(format!("start {name}"))(error).of_kind(ErrorKind::Unsupported))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(ErrorKind::System, format!("{name}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
