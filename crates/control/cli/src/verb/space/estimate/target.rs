//! What can be estimated, each as bytes that are read from their place: a file or block device, the
//! files of a directory, a volume of the array.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use ashlar_api::DoorState;
use rustix::fs::SeekFrom as SparseSeek;
use rustix::io::Errno;

use super::files::Files;
use crate::Context;
use crate::failure::{Failure, Result};

/// Bytes to be read, and nothing else.
pub trait Content {
    /// How many.
    fn size_bytes(&self) -> u64;

    /// The ranges that may hold anything but zeroes, in order.
    fn data_ranges(&mut self) -> Result<Vec<Range<u64>>>;

    /// Fills `into` with the bytes at `offset`.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Files that vanished or shrank while they were read, and were taken for zeroes.
    fn changed_files(&self) -> u64 {
        0
    }
}

/// What a person named.
pub struct Target {
    pub kind: &'static str,
    pub content: Box<dyn Content>,
}

/// Opens what `name` names: a path when it has a slash or exists, else a volume.
pub fn open(name: &str, context: &Context) -> Result<Target> {
    let path = Path::new(name);
    let found = std::fs::metadata(path);
    match found {
        Ok(found) if found.is_dir() => {
            Ok(Target { kind: "directory", content: Box::new(Files::list(path, found)?) })
        }
        Ok(found) if found.is_file() => Ok(Target { kind: "file", content: Box::new(Bytes::open(path)?) }),
        Ok(found) if found.file_type().is_block_device() => {
            Ok(Target { kind: "block device", content: Box::new(Bytes::open(path)?) })
        }
        Ok(_) => Err(Failure::new(format!(
            "`{name}` is neither a file, a directory nor a block device: name one of these, or a volume"
        ))),
        Err(error) if name.contains('/') => {
            Err(Failure::new(format!("`{name}` cannot be opened ({error}): check the path")))
        }
        Err(_) => volume(name, context),
    }
}

/// What went wrong with a path, in one line.
pub fn path_failure(action: &str, path: &Path, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "run as root, or as a user who may read it",
        _ => "check the path and the drive below it",
    };
    Failure::new(format!("{action} {} ({error}): {remedy}", path.display()))
}

/// A file or a block device.
struct Bytes {
    file: File,
    path: std::path::PathBuf,
    size_bytes: u64,
}

impl Bytes {
    fn open(path: &Path) -> Result<Bytes> {
        let failed = |error| path_failure("cannot read", path, &error);
        let mut file = File::open(path).map_err(failed)?;
        // A block device has no length in its metadata; its end is where seeking ends.
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Bytes { file, path: path.to_path_buf(), size_bytes })
    }

    /// The first byte of data, or of a hole, at or after `offset`; the end when there is none.
    fn next(&self, from: SparseSeek) -> std::result::Result<u64, Errno> {
        match rustix::fs::seek(&self.file, from) {
            Err(Errno::NXIO) => Ok(self.size_bytes),
            found => found,
        }
    }
}

impl Content for Bytes {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn data_ranges(&mut self) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        let mut at = 0;
        while at < self.size_bytes {
            let data = self
                .next(SparseSeek::Data(at))
                .and_then(|start| Ok(start..self.next(SparseSeek::Hole(start))?.max(start)));
            match data {
                Ok(range) if range.is_empty() => break,
                Ok(range) => {
                    at = range.end;
                    ranges.push(range);
                }
                // Block devices and some file systems do not tell: everything may be data.
                Err(_) => {
                    let whole = 0..self.size_bytes;
                    return Ok(vec![whole]);
                }
            }
        }
        Ok(ranges)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, offset).map_err(|error| {
            let what = format!("cannot read {} bytes at {offset} of", into.len());
            path_failure(&what, &self.path, &error)
        })
    }
}

/// A volume, or VOLUME@SNAPSHOT, over the NBD socket of the array of `--state`.
fn volume(name: &str, context: &Context) -> Result<Target> {
    let client = context.client()?;
    let status = client.status().map_err(|error| {
        Failure::new(format!("`{name}` is no file here, and as a volume it needs its array: {error}"))
    })?;
    let kind = match name.split_once('@') {
        None => client.volume(name).map(|_| "volume")?,
        Some((volume, snapshot)) => {
            if !client.snapshot(snapshot)?.volumes.iter().any(|member| member == volume) {
                return Err(Failure::new(format!(
                    "snapshot `{snapshot}` holds no volume `{volume}`: `ashlar snapshot show {snapshot}` lists them"
                )));
            }
            "snapshot"
        }
    };
    let door = status.doors.iter().find(|door| door.name == "nbd" && door.transport == "unix");
    match door {
        Some(door) if door.state == DoorState::Serving => {
            let content = ashlar_client::Content::open(Path::new(&door.address), name)?;
            Ok(Target { kind, content: Box::new(content) })
        }
        _ => Err(Failure::new(format!(
            "{kind} `{name}` is read over NBD's socket, which is not open: set `nbd_socket = \"on\"` and start the array again"
        ))),
    }
}

impl Content for ashlar_client::Content {
    fn size_bytes(&self) -> u64 {
        ashlar_client::Content::size_bytes(self)
    }

    fn data_ranges(&mut self) -> Result<Vec<Range<u64>>> {
        Ok(ashlar_client::Content::data_ranges(self)?)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        Ok(ashlar_client::Content::read(self, offset, into)?)
    }
}
