//! The record of who changed what, and of who was not let in: lines of JSON in the state directory.
//!
//! ```text
//! STATE/audit.log           STATE/audit.log.1   ...   changes; the newest first, the oldest goes
//! STATE/audit-refused.log   ...                       who was not let in
//! ```
//!
//! A line is written before the answer goes out, and not synchronised: a crash of this process loses none,
//! one of the machine the last seconds. Refusals have files of their own and are written only so often, so
//! that nobody pushes out what was done by asking for what is refused; what is left out is counted. Bodies of
//! requests are never written: they have the secrets.

mod rolling;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ashlar_api::AuditEntry;

use crate::error::{Error, Result};
use crate::log::Log;
use rolling::Rolling;

const CHANGES: &str = "audit.log";
const REFUSALS: &str = "audit-refused.log";
/// A file of this length is put behind the others. Arbitrary: some twenty thousand entries.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Letters of a path that are kept: names are shorter.
const PATH_LETTERS_MAX: usize = 512;
/// Refusals that are written within [`REFUSALS_TIME`].
const REFUSALS_MAX: u32 = 60;
const REFUSALS_TIME: Duration = Duration::from_secs(60);

/// The record.
#[derive(Clone)]
pub(crate) struct Audit(Arc<Shared>);

struct Shared {
    directory: PathBuf,
    file_bytes_max: u64,
    writer: Mutex<Writer>,
    log: Arc<Log>,
}

struct Writer {
    changes: Rolling,
    refused: Rolling,
    /// That of the last entry; none before the first.
    sequence: Option<u64>,
    refusals: Refusals,
    /// It was told that nothing can be written.
    is_failing: bool,
}

#[derive(Default)]
struct Refusals {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Audit {
    /// The record in a state directory.
    pub(crate) fn new(directory: &Path, log: Arc<Log>) -> Audit {
        Audit::with_files_of(FILE_BYTES_MAX, directory, log)
    }

    fn with_files_of(file_bytes_max: u64, directory: &Path, log: Arc<Log>) -> Audit {
        let directory = directory.to_path_buf();
        let writer = Mutex::new(Writer {
            changes: Rolling::new(CHANGES),
            refused: Rolling::new(REFUSALS),
            sequence: None,
            refusals: Refusals::default(),
            is_failing: false,
        });
        Audit(Arc::new(Shared { directory, file_bytes_max, writer, log }))
    }

    /// Writes down a change that was carried out, or failed on its way. Returns when it is written.
    pub(crate) async fn note(&self, entry: AuditEntry) {
        self.write(|writer| &mut writer.changes, entry).await;
    }

    async fn write(&self, place: fn(&mut Writer) -> &mut Rolling, entry: AuditEntry) {
        let shared = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || shared.write(place, entry)).await;
    }

    /// Writes down that somebody did not get what he asked for.
    pub(crate) async fn note_refusal(&self, entry: AuditEntry) {
        let left_out_count = {
            let mut writer = self.0.writer.lock().expect("no holder of this lock panics");
            match writer.refusals.take_place(Instant::now()) {
                Some(count) => count,
                None => return,
            }
        };
        self.write(|writer| &mut writer.refused, AuditEntry { left_out_count, ..entry }).await;
    }

    /// Every entry that is kept, the oldest first.
    pub(crate) async fn entries(&self) -> Result<Vec<AuditEntry>> {
        let shared = self.0.clone();
        let read = tokio::task::spawn_blocking(move || shared.read());
        read.await.unwrap_or_else(|_| Err(Error::stopping()))
    }
}

impl Refusals {
    /// How many were left out before this one; `None` where it is to be left out, too.
    fn take_place(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= REFUSALS_TIME) {
            self.since = Some(now);
            self.written = 0;
        }
        if self.written >= REFUSALS_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Shared {
    fn write(&self, place: fn(&mut Writer) -> &mut Rolling, entry: AuditEntry) {
        let mut writer = self.writer.lock().expect("no holder of this lock panics");
        let written = self.append(&mut writer, place, entry);
        match written {
            Ok(()) if writer.is_failing => {
                writer.is_failing = false;
                self.log.info("audit", "changes are written down again");
            }
            Ok(()) => {}
            Err(error) => {
                let rolling = place(&mut writer);
                rolling.close();
                let path = rolling.path(&self.directory, 0);
                if !std::mem::replace(&mut writer.is_failing, true) {
                    let what = format!("changes are not written down: {}: {error}", path.display());
                    self.log.error("audit", what);
                }
            }
        }
    }

    fn append(
        &self,
        writer: &mut Writer,
        place: fn(&mut Writer) -> &mut Rolling,
        entry: AuditEntry,
    ) -> io::Result<()> {
        let last = || writer.rolling().into_iter().filter_map(|one| one.last(&self.directory)).max();
        let sequence = writer.sequence.or_else(last).unwrap_or(0) + 1;
        let path = entry.path.chars().take(PATH_LETTERS_MAX).collect();
        let entry = AuditEntry { sequence, path, ..entry };
        let mut line = serde_json::to_string(&entry).expect("entries are plain data");
        line.push('\n');
        place(writer).append(&self.directory, self.file_bytes_max, &line)?;
        writer.sequence = Some(sequence);
        Ok(())
    }

    fn read(&self) -> Result<Vec<AuditEntry>> {
        // Nothing moves from file to file meanwhile.
        let writer = self.writer.lock().expect("no holder of this lock panics");
        let mut entries = Vec::new();
        for rolling in writer.rolling() {
            let kept = rolling.entries(&self.directory);
            entries.extend(kept.map_err(|(path, error)| Error::file("read", &path, &error))?);
        }
        entries.sort_by_key(|entry| entry.sequence);
        Ok(entries)
    }
}

impl Writer {
    fn rolling(&self) -> [&Rolling; 2] {
        [&self.changes, &self.refused]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::rolling::FILES;

    use super::*;

    fn entry(path: &str) -> AuditEntry {
        AuditEntry {
            sequence: 0,
            unix_millis: 1,
            who: "user ada".to_string(),
            address: None,
            method: "POST".to_string(),
            path: path.to_string(),
            object: None,
            status: 201,
            reason: None,
            left_out_count: 0,
        }
    }

    #[tokio::test]
    async fn entries_keep_their_order_over_files_and_restarts_and_the_oldest_go() {
        let scratch = tempfile::tempdir().unwrap();
        let audit = || Audit::with_files_of(1000, scratch.path(), Arc::new(Log::plain()));
        let first = audit();
        for number in 0..20 {
            first.note(entry(&format!("/v1/volumes?number={number}"))).await;
        }
        // A line that a crash cut short.
        let mut file = OpenOptions::new().append(true).open(scratch.path().join(CHANGES)).unwrap();
        file.write_all(b"{\"sequence\":9").unwrap();
        let second = audit();
        second.note(entry("/v1/last")).await;
        let entries = second.entries().await.unwrap();
        let sequences: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
        assert_eq!(sequences, (1..=21).collect::<Vec<u64>>());
        assert_eq!(entries.last().unwrap().path, "/v1/last");
        let mode = std::fs::metadata(scratch.path().join(CHANGES)).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        for _ in 0..200 {
            second.note(entry(&"x".repeat(2000))).await;
        }
        let entries = second.entries().await.unwrap();
        assert!(entries.len() < 221 && entries.last().unwrap().sequence == 221, "{}", entries.len());
        assert!(entries.iter().all(|entry| entry.path.len() <= PATH_LETTERS_MAX));
        let files = std::fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(files, FILES);
        // Refusals go behind them, and push nothing of them out.
        for _ in 0..50 {
            second.note_refusal(entry(&"y".repeat(2000))).await;
        }
        let after = second.entries().await.unwrap();
        assert!(after.starts_with(&entries) && after.last().unwrap().sequence == 271, "{}", after.len());
    }

    /// The harm: whoever may nothing asks until what he did before is gone.
    #[tokio::test]
    async fn refusals_are_written_so_often_and_then_counted() {
        let scratch = tempfile::tempdir().unwrap();
        let audit = Audit::new(scratch.path(), Arc::new(Log::plain()));
        for _ in 0..REFUSALS_MAX + 5 {
            audit.note_refusal(entry("/v1/sessions")).await;
        }
        assert_eq!(audit.entries().await.unwrap().len(), REFUSALS_MAX as usize);
        let mut refusals = Refusals::default();
        let now = Instant::now();
        let taken = (0..REFUSALS_MAX + 5).filter(|_| refusals.take_place(now).is_some()).count();
        assert_eq!(taken, REFUSALS_MAX as usize);
        assert_eq!(refusals.take_place(now + REFUSALS_TIME), Some(5));
        assert_eq!(refusals.take_place(now + REFUSALS_TIME), Some(0));
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_told_once() {
        let scratch = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::plain());
        let audit = Audit::new(scratch.path(), log.clone());
        std::fs::create_dir(scratch.path().join(CHANGES)).unwrap();
        audit.note(entry("/a")).await;
        audit.note(entry("/b")).await;
        std::fs::remove_dir(scratch.path().join(CHANGES)).unwrap();
        audit.note(entry("/c")).await;
        let told: Vec<String> = log.after(0).into_iter().map(|event| event.message).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(audit.entries().await.unwrap().len(), 1);
    }
}
