//! Work that may wait for a volume of this array is done by a process of its own.
//!
//! ```text
//!   array ──► process ──► open, mkfs, mount, initdb ──► kernel ──► array
//! ```
//!
//! A thread that waits in the kernel for the array's own answer cannot be killed. In the array's process it
//! would keep a killed array from ending: its locks, its drives and its connection stayed taken, and no next
//! array could start. Such a process holds none of those. It ends with its array, or as soon as the next
//! array has answered.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::process::own_path;

/// What one that works on a database is called among processes.
pub(crate) const DATABASE_PROCESS: &str = "ashlar-db-work";
/// Such processes share it while they work.
const LOCK: &str = "work.lock";
/// How long those of the last array may take to end, once its requests are answered. Arbitrary.
const GONE_MAX: Duration = Duration::from_secs(5);
const GONE_POLL: Duration = Duration::from_millis(2);

/// What the array tells the process.
#[derive(Serialize, Deserialize)]
struct Order<Q> {
    /// The array's own process.
    array: i32,
    what: Q,
}

/// Has a process do something: runs this program's hidden verb. Blocks until it has ended; `Err` inside is
/// how it ended without an answer.
pub(crate) fn ask<Q: Serialize, A: DeserializeOwned>(
    verb: &str,
    state: &Path,
    what: &Q,
) -> io::Result<Result<A, ExitStatus>> {
    let order = Order { array: rustix::process::getpid().as_raw_nonzero().get(), what };
    let text = serde_json::to_vec(&order)?;
    let mut child = Command::new(own_path()?)
        .arg(verb)
        .arg("--state")
        .arg(state)
        // What a terminal sends to the array's group is for the array, which waits for this one.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // One that ended before it read says more by its end.
    let _ = child.stdin.take().map(|mut input| input.write_all(&text));
    let said = child.wait_with_output()?;
    Ok(serde_json::from_slice(&said.stdout).map_err(|_| said.status))
}

/// The life of such a process: reads what it is told, does it, tells what came of it. `name` is what it is
/// called among processes.
pub(crate) fn answer<Q: DeserializeOwned, A: Serialize>(
    name: &str,
    state: &Path,
    work: impl FnOnce(Q) -> A,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let _ = fs::write("/proc/self/comm", name);
    let lock = lock_file(state)?;
    flock(&lock, FlockOperation::LockShared)?;
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let order: Order<Q> = serde_json::from_slice(&text)?;
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|parent| parent.get() != order.array) {
        return Err(io::Error::other("the array that gave this order is gone"));
    }
    let told = work(order.what);
    io::stdout().write_all(&serde_json::to_vec(&told)?)
}

/// Waits until the processes of the last array are gone: what they were about to do is done then, or never
/// will be. False when they are still there after that time.
pub(crate) fn wait_for_all(state: &Path) -> io::Result<bool> {
    let lock = lock_file(state)?;
    let end = Instant::now() + GONE_MAX;
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
