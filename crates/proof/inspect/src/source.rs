//! Where the bytes of a drive come from: a file or block device, or whatever else stands for one.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long drives may be held by an array that is no more: 35 to 65 ms were measured under load.
const LINGER: Duration = Duration::from_secs(1);
/// How often to look; arbitrary, short against what is waited for.
const LINGER_STEP: Duration = Duration::from_millis(10);

/// A drive's bytes, to be read only. The simulator has its own.
pub trait Source {
    /// How many there are.
    fn size_bytes(&self) -> u64;
    /// Fills the buffer with those from an offset on.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A drive as it was named, and its bytes or why they cannot be had.
pub struct NamedSource {
    /// Its name for people.
    pub path: PathBuf,
    /// Its bytes.
    pub source: io::Result<Box<dyn Source>>,
}

struct FileSource {
    file: File,
    size_bytes: u64,
}

impl Source for FileSource {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

/// Opens a file or block device for reading.
pub(crate) fn open(path: &Path) -> NamedSource {
    let opened = File::open(path).and_then(|mut file| {
        let size_bytes = file.seek(SeekFrom::End(0))?;
        Ok(Box::new(FileSource { file, size_bytes }) as Box<dyn Source>)
    });
    NamedSource { path: path.to_path_buf(), source: opened }
}

/// Whether an array serves these drives. One that was killed holds them until what it had on its way is
/// wound up: that is waited for, or what is read is older than what is there in the end.
pub(crate) fn are_served(paths: &[PathBuf]) -> bool {
    let files: Vec<File> = paths.iter().filter_map(|path| File::open(path).ok()).collect();
    let end = Instant::now() + LINGER;
    loop {
        if !files.iter().any(is_locked) {
            return false;
        }
        if Instant::now() >= end {
            return true;
        }
        std::thread::sleep(LINGER_STEP);
    }
}

/// Whether an array holds a drive: it locks those that it has open, until they are closed or it ends.
fn is_locked(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // An array that starts meanwhile tries again.
            let _is_over = file.unlock();
            false
        }
        Err(error) => matches!(error, TryLockError::WouldBlock),
    }
}
