//! A process that takes the steps of one attachment, and ends.
//!
//! ```text
//!   array ──► device process ──► open, mkfs, mount ──► kernel ──► array
//! ```
//!
//! A thread that waits in the kernel for the array's own answer cannot be killed. In the array's process it
//! would keep a killed array from ending: its locks, its drives and its connection stayed taken, and no next
//! array could start. This process holds none of those. It ends with its array, or as soon as the next array
//! has answered.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::error::{Error, ErrorKind};
use super::loop_device::find_devices;
use super::steps::{Done, Steps, Undone, take};
use crate::process::own_path;

/// The hidden verb that runs [`run_device_process`].
const VERB: &str = "device";
/// By this name it is found among processes.
pub(super) const NAME: &str = "ashlar-device";
/// Device processes share it while they work.
const LOCK: &str = "device.lock";
const GONE_POLL: Duration = Duration::from_millis(2);

/// What the array tells it.
#[derive(Serialize, Deserialize)]
struct Order {
    /// The array's process.
    array: i32,
    steps: Steps,
}

/// An [`Undone`] on its way.
#[derive(Serialize, Deserialize)]
struct Refusal {
    kind: ErrorKind,
    what: String,
    left: Option<PathBuf>,
}

/// Has a device process take the steps. Blocks until it has ended.
pub fn take_steps(state: &Path, steps: Steps) -> Result<Done, Undone> {
    let failed = |error: io::Error| Error::system("have another process work on a device", error);
    let order = Order { array: rustix::process::getpid().as_raw_nonzero().get(), steps };
    let text = serde_json::to_vec(&order).map_err(|error| failed(error.into()))?;
    let mut child = Command::new(own_path().map_err(failed)?)
        .arg(VERB)
        .arg("--state")
        .arg(state)
        // What a terminal sends to the array's group is for the array, which waits for this one.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // One that ended before it read says more by its end.
    let _ = child.stdin.take().map(|mut input| input.write_all(&text));
    let said = child.wait_with_output().map_err(failed)?;
    let answer: Option<Result<Done, Refusal>> = serde_json::from_slice(&said.stdout).ok();
    let answer = answer.unwrap_or_else(|| Err(ended(said.status, &order.steps)));
    answer.map_err(|Refusal { kind, what, left }| Undone { error: Error::new(kind, what), left })
}

/// It was killed, and did not say how far it came.
fn ended(status: ExitStatus, steps: &Steps) -> Refusal {
    let left = match steps {
        Steps::Attach(attachment) => {
            find_devices(&attachment.file).ok().and_then(|found| found.first().cloned())
        }
        _ => None,
    };
    let what = format!("the process that worked on the device ({NAME}) ended with {status}");
    Refusal { kind: ErrorKind::System, what, left }
}

/// The life of a device process: reads an order, takes its steps, tells what came of it.
pub fn run_device_process(state: &Path) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let _ = fs::write("/proc/self/comm", NAME);
    let lock = lock_file(state)?;
    flock(&lock, FlockOperation::LockShared)?;
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let order: Order = serde_json::from_slice(&text)?;
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|parent| parent.get() != order.array) {
        return Err(io::Error::other("the array that gave this order is gone"));
    }
    let told = take(&order.steps).map_err(|Undone { error, left }| Refusal {
        kind: error.kind,
        what: error.to_string(),
        left,
    });
    io::stdout().write_all(&serde_json::to_vec(&told)?)
}

/// Waits until the device processes of the last array are gone: what they were about to do is done then, or
/// never will be. False when they are still there after that time.
pub fn wait_for_device_processes(state: &Path, wait: Duration) -> io::Result<bool> {
    let lock = lock_file(state)?;
    let end = Instant::now() + wait;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < end => thread::sleep(GONE_POLL),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn lock_file(state: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(state.join(LOCK))
}
