//! Disks for tests: each test alone, on a file that takes direct I/O.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar_disk::{Disk, ErrorKind, Kind, Spec};

/// Tests that measure time or take devices go one after another.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Bench {
    pub folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    pub fn new() -> Bench {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Bench { folder: tempfile::tempdir_in("/var/tmp").unwrap(), _alone: alone }
    }

    pub fn spec(&self, size_bytes: u64, kind: Kind) -> Spec {
        Spec { backing: self.folder.path().join("bytes"), size_bytes, kind, seed: 1 }
    }

    /// None, and a word about it, on a machine that has no such disks.
    pub fn open(&self, size_bytes: u64, kind: Kind) -> Option<Disk> {
        self.opened(Disk::open(self.spec(size_bytes, kind)))
    }

    /// The same of one that was opened otherwise.
    pub fn opened(&self, disk: ashlar_disk::Result<Disk>) -> Option<Disk> {
        match disk {
            Ok(disk) => Some(disk),
            Err(error) if error.kind == ErrorKind::Unsupported => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What fio measures of random reads past the kernel's cache.
pub fn fio_reads(device: &Path, block: &str, size: &str, depth: u32, further: &[&str]) -> serde_json::Value {
    // Before other programs: it is the disk that is measured, not what else the machine does.
    let mut command = Command::new("chrt");
    command.args(["--rr", "1", "fio"]).args([
        "--name=reads",
        "--direct=1",
        "--rw=randread",
        "--ioengine=libaio",
        "--output-format=json",
    ]);
    command.arg(format!("--filename={}", device.display())).arg(format!("--iodepth={depth}"));
    command.arg(format!("--bs={block}")).arg(format!("--size={size}")).args(further);
    let output = run(&mut command);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    said["jobs"][0]["read"].clone()
}

pub fn per_second(reads: &serde_json::Value) -> f64 {
    reads["iops"].as_f64().unwrap()
}
