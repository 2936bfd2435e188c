//! A file of lines that goes behind others of its name when it is long enough.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ashlar_api::AuditEntry;

/// Files that are kept, the one in use among them.
pub(super) const FILES: usize = 8;

/// The file in use, and what is known of it.
pub(super) struct Rolling {
    name: &'static str,
    /// Opened at the first entry.
    file: Option<File>,
    bytes: u64,
}

impl Rolling {
    pub(super) fn new(name: &'static str) -> Rolling {
        Rolling { name, file: None, bytes: 0 }
    }

    /// The one in use is 0, the one before it 1.
    pub(super) fn path(&self, directory: &Path, number: usize) -> PathBuf {
        match number {
            0 => directory.join(self.name),
            number => directory.join(format!("{}.{number}", self.name)),
        }
    }

    /// Writes a line, into another file where this one has so many bytes.
    pub(super) fn append(&mut self, directory: &Path, bytes_max: u64, line: &str) -> io::Result<()> {
        if self.file.is_none() {
            self.open(directory)?;
        }
        if self.bytes >= bytes_max {
            self.begin_another(directory)?;
        }
        let file = self.file.as_mut().expect("it was opened above");
        file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// What is half written is closed by the next opening.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Every entry that is kept, the oldest first; the error is about this file.
    pub(super) fn entries(&self, directory: &Path) -> Result<Vec<AuditEntry>, (PathBuf, io::Error)> {
        let mut entries = Vec::new();
        for number in (0..FILES).rev() {
            let path = self.path(directory, number);
            match read_file(&path) {
                Ok(more) => entries.extend(more),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err((path, error)),
            }
        }
        Ok(entries)
    }

    /// The sequence number of the last entry.
    pub(super) fn last(&self, directory: &Path) -> Option<u64> {
        let last_of =
            |number: usize| read_file(&self.path(directory, number)).ok()?.last().map(|one| one.sequence);
        (0..FILES).find_map(last_of)
    }

    fn open(&mut self, directory: &Path) -> io::Result<()> {
        let path = self.path(directory, 0);
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        self.bytes = file.metadata()?.len();
        // A crash may have cut the last line: the next begins on its own.
        if self.bytes > 0 && !std::fs::read(&path)?.ends_with(b"\n") {
            file.write_all(b"\n")?;
        }
        self.file = Some(file);
        Ok(())
    }

    fn begin_another(&mut self, directory: &Path) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_all()?;
        }
        for number in (0..FILES - 1).rev() {
            match std::fs::rename(self.path(directory, number), self.path(directory, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.open(directory)
    }
}

/// The entries of a file. What a crash cut short is none.
fn read_file(path: &Path) -> io::Result<Vec<AuditEntry>> {
    let mut entries = Vec::new();
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        if let Ok(entry) = serde_json::from_slice(&line?) {
            entries.push(entry);
        }
    }
    Ok(entries)
}
