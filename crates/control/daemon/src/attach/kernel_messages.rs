//! What the kernel says of a device while something is asked of it: a mount that it refuses has its reason
//! there and nowhere else.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longest record that is read; longer ones are skipped.
const RECORD_BYTES_MAX: usize = 8192;
/// Records looked through at most.
const RECORDS_MAX: usize = 1000;

/// The kernel's log from a moment on.
pub(super) struct KernelMessages(Option<File>);

impl KernelMessages {
    /// What is logged from now on; nothing where the log may not be read.
    pub fn from_now() -> KernelMessages {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let at_end = opened.and_then(|mut log| log.seek(SeekFrom::End(0)).map(|_| log));
        KernelMessages(at_end.ok())
    }

    /// The last line that names a device.
    pub fn about(mut self, device: &Path) -> Option<String> {
        let log = self.0.as_mut()?;
        let name = device.file_name()?.to_str()?;
        let mut last = None;
        let mut record = [0; RECORD_BYTES_MAX];
        for _ in 0..RECORDS_MAX {
            // One record for each read; none is left: that would have to wait.
            let Ok(length) = log.read(&mut record) else { break };
            let text = String::from_utf8_lossy(&record[..length]).into_owned();
            last = line_about(&text, name).or(last);
        }
        last
    }
}

/// A record is `PRIORITY,NUMBER,MICROS,FLAGS;LINE`, and more lines that begin with a blank.
fn line_about(record: &str, name: &str) -> Option<String> {
    let line = record.split_once(';')?.1.lines().next()?;
    let is_name = |word: &str| word == name;
    line.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_name).then(|| line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_about_the_device_that_it_names_whole() {
        let record = "3,1234,98765,-;EXT4-fs (loop1): bad block size 1024\n SUBSYSTEM=block\n";
        assert_eq!(line_about(record, "loop1").as_deref(), Some("EXT4-fs (loop1): bad block size 1024"));
        assert_eq!(line_about(record, "loop"), None);
        assert_eq!(line_about(record, "loop11"), None);
        assert_eq!(line_about("rubbish", "rubbish"), None);
    }
}
