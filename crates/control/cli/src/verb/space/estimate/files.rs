//! The files of a directory, one behind the other from whole blocks on, as a file system would lay
//! them on a volume. What the file system itself adds (inodes, journal, free space) is not in it.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use ashlar_units::BLOCK_BYTES;

use super::target::{Content, path_failure};
use crate::failure::Result;

/// One file and its place.
struct Placed {
    path: PathBuf,
    start: u64,
    size_bytes: u64,
}

/// The files of a directory.
pub struct Files {
    placed: Vec<Placed>,
    size_bytes: u64,
    /// The file read last: reads come in order.
    open: Option<(usize, File)>,
    changed: BTreeSet<usize>,
}

impl Files {
    /// Lists the directory and those below it. Links, sockets and other file systems are left out, a
    /// file with several names is taken once.
    pub fn list(directory: &Path, found: Metadata) -> Result<Files> {
        let mut files = Files { placed: Vec::new(), size_bytes: 0, open: None, changed: BTreeSet::new() };
        let mut several_names = BTreeSet::new();
        let mut waiting = vec![directory.to_path_buf()];
        while let Some(directory) = waiting.pop() {
            let failed = |error| path_failure("cannot list", &directory, &error);
            let entries: io::Result<Vec<_>> = std::fs::read_dir(&directory).map_err(failed)?.collect();
            let mut paths: Vec<PathBuf> =
                entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
            // The same tree gives the same estimate, whatever the directory's own order.
            paths.sort();
            for path in paths {
                // What is gone by now, a temporary file of a database, is not there.
                let Ok(entry) = std::fs::symlink_metadata(&path) else { continue };
                if entry.dev() != found.dev() {
                    continue;
                }
                if entry.is_dir() {
                    waiting.push(path);
                } else if entry.is_file() && (entry.nlink() == 1 || several_names.insert(entry.ino())) {
                    files.place(path, entry.len());
                }
            }
        }
        Ok(files)
    }

    fn place(&mut self, path: PathBuf, size_bytes: u64) {
        self.placed.push(Placed { path, start: self.size_bytes, size_bytes });
        self.size_bytes += size_bytes.next_multiple_of(BLOCK_BYTES);
    }

    /// Reads part of one file. A live directory changes: what is gone reads as zeroes and is counted.
    fn read_file(&mut self, index: usize, mut offset: u64, mut into: &mut [u8]) -> Result<()> {
        let path = &self.placed[index].path;
        let failed = |error| path_failure("cannot read", path, &error);
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            match File::open(path) {
                Ok(file) => self.open = Some((index, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.changed.insert(index);
                    return Ok(());
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let Some((_, file)) = &self.open else { return Ok(()) };
        while !into.is_empty() {
            let read = match file.read_at(into, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(failed)?,
            };
            if read == 0 {
                self.changed.insert(index);
                return Ok(());
            }
            offset += read as u64;
            into = &mut into[read..];
        }
        Ok(())
    }
}

impl Content for Files {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn data_ranges(&mut self) -> Result<Vec<Range<u64>>> {
        let whole = 0..self.size_bytes;
        Ok(vec![whole])
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        // Ends of files that are not whole blocks, and what is gone.
        into.fill(0);
        let end = offset + into.len() as u64;
        let first = self.placed.partition_point(|placed| placed.start + placed.size_bytes <= offset);
        for index in first..self.placed.len() {
            let Placed { start, size_bytes, .. } = self.placed[index];
            if start >= end {
                break;
            }
            let part = start.max(offset)..(start + size_bytes).min(end);
            if !part.is_empty() {
                let room = (part.start - offset) as usize..(part.end - offset) as usize;
                self.read_file(index, part.start - start, &mut into[room])?;
            }
        }
        Ok(())
    }

    fn changed_files(&self) -> u64 {
        self.changed.len() as u64
    }
}
