//! The files of a bundle, cleaned of secrets as they come, and the archive that they make.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::secrets::Secrets;
use crate::failure::{Failure, Result};

/// The most of one file: its end is what counts. Arbitrary: a day of a busy log.
const TEXT_BYTES_MAX: usize = 8 << 20;
/// The folder that the archive unpacks to.
const FOLDER: &str = "ashlar-support";

/// What goes into the archive.
pub struct Bundle {
    secrets: Secrets,
    files: Vec<(String, Vec<u8>)>,
    missing: Vec<String>,
}

/// Makes the file, for nobody else to read. One that is there is left alone.
pub fn create(path: &Path) -> Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| {
        let way_out = match error.kind() {
            io::ErrorKind::AlreadyExists => "remove it, or name another file",
            _ => "name a file in a directory that you can write to",
        };
        Failure::new(format!("make {}: {error}: {way_out}", path.display()))
    })
}

impl Bundle {
    pub fn new(secrets: Secrets) -> Bundle {
        Bundle { secrets, files: Vec::new(), missing: Vec::new() }
    }

    /// Adds a value, without what its names or its texts give away.
    pub fn json<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        let mut value = serde_json::to_value(value).expect("results are plain data");
        self.secrets.clean(&mut value);
        let text = serde_json::to_string_pretty(&value).expect("results are plain data");
        self.files.push((name.to_string(), text.into_bytes()));
    }

    /// Adds a text, or the end of a long one.
    pub fn text(&mut self, name: &str, text: &str) {
        // Before it is cut: the second half of a key does not look like one.
        let mut text = self.secrets.cleaned(text).into_bytes();
        let excess = text.len().saturating_sub(TEXT_BYTES_MAX);
        if excess > 0 {
            let end = excess + line_end(&text[excess..]);
            text.drain(..end);
        }
        self.files.push((name.to_string(), text));
    }

    /// Notes that something is not in it.
    pub fn miss(&mut self, what: &str, why: &str) {
        let line = self.secrets.cleaned(&format!("{what}: {why}"));
        self.missing.push(line);
    }

    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Writes the archive; returns how large it is.
    pub fn write(&self, file: File, now: u64) -> io::Result<u64> {
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        let missing: String = self.missing.iter().map(|line| format!("{line}\n")).collect();
        let extra = [("missing.txt".to_string(), missing.into_bytes())];
        let is_whole = self.missing.is_empty();
        for (name, bytes) in self.files.iter().chain(extra.iter().filter(|_| !is_whole)) {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(now);
            archive.append_data(&mut header, format!("{FOLDER}/{name}"), bytes.as_slice())?;
        }
        let mut file = archive.into_inner()?.finish()?;
        file.flush()?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }
}

/// Behind the first line break.
fn line_end(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn of_a_long_text_the_end_is_kept_in_whole_lines() {
        let mut bundle = Bundle::new(Secrets::default());
        let line = "a line of an ordinary log, again and again ä\n";
        let text = line.repeat(TEXT_BYTES_MAX / line.len() + 100);
        bundle.text("log", &text);
        let kept = String::from_utf8(bundle.files[0].1.clone()).unwrap();
        assert!(kept.len() <= TEXT_BYTES_MAX && kept.len() + line.len() > TEXT_BYTES_MAX);
        assert!(kept.starts_with(line) && kept.ends_with(line));
        bundle.text("short", line);
        assert_eq!(bundle.files[1].1, line.as_bytes());
    }
}
