//! `check`: everything below every image read from the drives and verified; the oracle's oracle.
//!
//! A slice at a time. While a slice is read the cleaner frees nothing; between two it may, and each begins
//! below the roots of the newest checkpoint, at the place in the image where the last one ended. So what was
//! there when the check began, and still is when its turn comes, is verified, and neither checkpoints nor
//! the cleaner wait for the check of a whole pool.

mod chunks;
mod images;

use std::cell::Cell;
use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeEntry;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_runtime::Priority;
use rustc_hash::FxHashMap;

use crate::engine::{Engine, Inner};
use crate::info::CheckReport;
use crate::notebook;
use crate::walk::PAGES_AT_ONCE;
use crate::{Error, ErrorKind, Result};

/// Errors listed at most: the first ones tell the story.
const ERRORS_MAX: usize = 100;

/// A check under way.
struct Check<'a> {
    inner: &'a Rc<Inner>,
    report: CheckReport,
    /// Pages done with, all below them included, and the blocks mapped there if every page was read: images
    /// share most of theirs.
    done: FxHashMap<Pointer, Option<u64>>,
    verified: chunks::Verified,
    images: Published,
}

/// The checks under way.
#[derive(Default)]
pub(crate) struct Checks {
    running: Cell<u32>,
    done_bytes: Cell<u64>,
    is_ended: Cell<bool>,
}

/// One of them.
pub(crate) struct Running<'a>(&'a Checks);

impl Checks {
    pub(crate) fn begin(&self) -> Running<'_> {
        if self.running.replace(self.running.get() + 1) == 0 {
            self.is_ended.set(false);
        }
        self.done_bytes.set(0);
        Running(self)
    }
}

impl Running<'_> {
    pub(crate) fn go_on(&self, report: &CheckReport) -> Result<()> {
        self.0.done_bytes.set(report.live_bytes);
        match self.0.is_ended.get() {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Cancelled, "the check was ended on request")),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

/// The images of a checkpoint.
#[derive(Default)]
struct Published {
    lsn: Option<u64>,
    entries: Vec<VolumeEntry>,
}

impl Engine {
    /// Writes a checkpoint, then reads every map page and every chunk below every image from the drives and
    /// verifies header, place and checksum. Runs beside I/O.
    pub async fn check(&self) -> Result<CheckReport> {
        let running = self.inner.checks.begin();
        self.check_in_slices(async |report| running.go_on(report)).await
    }

    /// Bytes on the drives that the newest check has verified, of all that are alive. None when none is under
    /// way.
    #[must_use]
    pub fn check_progress(&self) -> Option<(u64, u64)> {
        let checks = &self.inner.checks;
        let is_running = checks.running.get() > 0 && !checks.is_ended.get();
        is_running.then(|| {
            let space = self.status().space;
            let total = space.data_bytes.saturating_sub(space.dead_bytes);
            (checks.done_bytes.get().min(total), total)
        })
    }

    /// Ends checks under way before their time.
    pub fn check_end(&self) {
        self.inner.checks.is_ended.set(true);
    }

    /// The same; what is called between two slices may wait, or end it with an error.
    pub(crate) async fn check_in_slices(
        &self,
        between: impl AsyncFn(&CheckReport) -> Result<()>,
    ) -> Result<CheckReport> {
        let inner = &self.inner;
        if inner.check_online().is_ok() {
            inner.renew_checkpoint().await?;
        }
        let (report, done) = (CheckReport::default(), FxHashMap::default());
        let (verified, images) = (chunks::Verified::default(), Published::default());
        let mut check = Check { inner, report, done, verified, images };
        check.check_tables().await?;
        check.check_notebook().await;
        check.check_relocations().await;
        check.check_images(between).await?;
        Ok(check.report)
    }
}

impl Check<'_> {
    async fn check_tables(&mut self) -> Result<()> {
        let checkpointer = self.inner.checkpointer.lock().await;
        for pointer in checkpointer.tables.all() {
            self.check_place(pointer).await;
        }
        drop(checkpointer);
        self.inner.check_not_closing()
    }

    /// Every page of the notebook reads.
    async fn check_notebook(&mut self) {
        let checkpointer = self.inner.checkpointer.lock().await;
        let read = notebook::read_pages(&self.inner.media, &checkpointer.tables.notebook).await;
        drop(checkpointer);
        match read {
            Ok(pages) => {
                for (page, bytes) in pages {
                    if let Err(damage) = ashlar_format::notes::decode_page(&bytes) {
                        self.note(format!("notebook page {page}: {damage}"));
                    }
                    self.report.pages += 1;
                }
            }
            Err(error) => self.note(format!("notebook: {error}")),
        }
    }

    /// Every page of the relocation table reads, and speaks of segments that are gone.
    async fn check_relocations(&mut self) {
        let media = &self.inner.media;
        let checkpointer = self.inner.checkpointer.lock().await;
        let pages = media.relocations.borrow().pages();
        for (_, segment) in &pages {
            if media.pool.has_segment(*segment) {
                self.note(format!("segment {segment} is in the table and relocated"));
            }
        }
        drop(checkpointer);
        for at_once in pages.chunks(PAGES_AT_ONCE) {
            let read = |(slot, _): &(_, _)| {
                let (media, slot) = (media.clone(), *slot);
                let read = async move { media.relocated_from(slot).await.map(drop) };
                self.inner.runtime.spawn(Priority::Background, read)
            };
            let reads: Vec<_> = at_once.iter().map(read).collect();
            for ((_, segment), read) in at_once.iter().zip(reads) {
                if let Err(error) = read.await {
                    self.note(format!("relocations of segment {segment}: {error}"));
                }
                self.report.pages += 1;
            }
        }
    }

    /// The segment is in the table and was written that far.
    async fn check_place(&mut self, pointer: Pointer) {
        // What cannot be located cannot be read either: the reading tells.
        let Ok(location) = self.inner.media.locate(pointer).await else { return };
        let used = self.inner.pool.with_table(|table| {
            table.find(location.segment).map(|entry| u64::from(entry.used_units) * PLACE_UNIT_BYTES)
        });
        match used {
            None => self.note(format!("{pointer:?} is in a segment that is not in the table")),
            Some(used) if location.offset_bytes >= used => {
                self.note(format!("{pointer:?} lies beyond the {used} bytes written of its segment"));
            }
            Some(_) => {}
        }
    }

    fn note_of(&mut self, name: &str, error: &Error) {
        self.note(format!("{name}: {error}"));
    }

    fn note(&mut self, line: String) {
        if self.report.errors.len() < ERRORS_MAX {
            self.report.errors.push(line);
        }
    }
}
