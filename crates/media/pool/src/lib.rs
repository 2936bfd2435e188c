//! Drives into one space: superblock by majority, segments in cells, the frontier.
//!
//! The journal and the engine ask for segments and read and write ranges of them; they never see a
//! drive. Called on one shard. The seam to other media: `open_segment` creates once, `write` fills
//! it front to back, `read` takes a range, `free` deletes; superblocks are the compare-and-set cell.
//!
//! Invariants:
//! 1. A segment number is given out once. After a crash the numbers listed in the frontier but not
//!    found opened are dropped, and their places get new ones. Segments are opened in the order of their
//!    numbers: what is journalled later has a larger address.
//! 2. No address of a segment is written twice (the writers above keep it, `write` asserts the
//!    alignment and bounds only).
//! 3. A place freed by superblock N is opened again only after N is durable on a majority.
//! 4. Every segment opened since the last durable segment table is listed in the durable frontier.
//! 5. A superblock is decided only when a majority of the drives it names hold it, read back; in a pool
//!    with parity all drives that it does not call out.
//! 6. A superblock written before the frontier of the last opening was adopted lists that frontier.
//! 7. A row that is being mended or rebuilt is not given to another segment.
//! 8. No place of a drive that leaves is opened. A superblock calls it gone only when the durable segment
//!    table has nothing on it and no frontier lists a place of it; its ring is wiped after that.

mod create;
mod drives;
mod error;
mod expand;
mod frontier;
mod generations;
mod homes;
mod judge;
mod leave;
mod mend;
mod moving;
mod newcomer;
mod open;
mod opening;
mod owner;
mod possible;
mod probe;
mod rebuild;
mod scrub;
mod space;
mod steer;
mod stripes;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use ashlar_drive::Drive;
pub use ashlar_drive::DriveCounters;
use ashlar_format::MediaKey;
use ashlar_format::segment::{Place, SegmentHeader, SegmentKind, SegmentState};
use ashlar_format::superblock::{CELLS_START_BYTES, DriveState, FrontierEntry, Superblock};
use ashlar_runtime::sync::{Mutex, Notify};
use ashlar_runtime::{Buf, Durability, Priority, Runtime};
use ashlar_units::{BLOCK_BYTES, Fault, SegmentId, planted};

pub use create::{DriveSpec, PoolSpec, segment_bytes_for};
pub use drives::{Away, DriveReport};
pub use error::{Error, ErrorKind, Result};
pub use frontier::{OpenedSegment, SEGMENT_NUMBERS_END};
pub use judge::{Weigh, Weight};
pub use opening::{Identity, Opening, ProcessProbe, Remembered};
pub use owner::check_not_served;
pub use rebuild::{Rebuild, RebuildProgress};
pub use scrub::ScrubCount;
pub use space::CellCount;
pub use table::SegmentTable;

use drives::{KnownDrive, unsettled_from};
use frontier::Frontier;
use mend::HeldPlaces;
use owner::Ownership;
use rebuild::WriteGate;
use stripes::Striping;

/// An open pool: its drives as one space.
#[derive(Clone)]
pub struct Pool {
    inner: Rc<Inner>,
}

struct Inner {
    runtime: Runtime,
    /// What checksums are made with.
    key: MediaKey,
    /// A later program set a feature without which nothing may be written.
    is_read_only: Cell<bool>,
    ownership: Ownership,
    drives: RefCell<Vec<KnownDrive>>,
    segment_bytes: u64,
    /// Only with protection.
    striping: Option<Striping>,
    held: HeldPlaces,
    gate: WriteGate,
    /// Blocks written back because their content was wrong or could not be read.
    mended_blocks: Cell<u64>,
    state: RefCell<State>,
    /// One superblock at a time; holds nothing.
    superblock_turn: Mutex<()>,
    /// Rung when a place is ready to be opened.
    prepared: Notify,
    /// Background work under way.
    background: Cell<usize>,
    background_ended: Notify,
    is_settling: Cell<bool>,
    /// The drive that is to leave.
    leaving: Cell<Option<usize>>,
    /// Set when a majority could not be written: nothing may be acknowledged any more.
    is_fenced: Cell<bool>,
    /// Which write to which drive failed then, in the system's words.
    fence_cause: RefCell<Option<String>>,
    /// Only the simulator asks for it: see [`Pool::refuse_metadata`].
    metadata_refusals: RefCell<VecDeque<u64>>,
    /// Of what was named at the opening and is no drive of the pool: which, and why.
    unused: Vec<String>,
}

struct State {
    /// The last superblock that is durable on a majority.
    superblock: Superblock,
    table: SegmentTable,
    frontier: Frontier,
    /// The table is loaded and the frontier of the last opening gone through. Until then a superblock that
    /// must be written keeps that frontier: nobody knows yet what is free.
    is_adopted: bool,
    /// Every write to segments below this number is durable; none above it need be.
    settled_below: u32,
    /// What that will be when the flush under way is over and its superblock durable.
    settling_below: u32,
}

impl Pool {
    /// The shard's runtime.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// True where a later program set a feature without which the pool may only be read: nothing is ever
    /// written then, not even what is mended.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.inner.is_read_only.get()
    }

    /// Writes nothing from here on, not even what is mended.
    pub fn only_read(&self) {
        self.inner.is_read_only.set(true);
        self.fence();
    }

    /// What the pool's checksums are made with.
    #[must_use]
    pub fn key(&self) -> &MediaKey {
        &self.inner.key
    }

    /// Bytes of a segment.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.inner.segment_bytes
    }

    /// The last durable superblock.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        self.inner.state.borrow().superblock.clone()
    }

    /// The number of this opening.
    #[must_use]
    pub fn superblock_session(&self) -> u32 {
        self.inner.state.borrow().superblock.session
    }

    /// A number above that of every segment opened so far, gone ones included. Walks the table.
    #[must_use]
    pub fn segment_number_next(&self) -> u32 {
        let state = self.inner.state.borrow();
        let newest = state.table.entries().iter().map(|entry| entry.segment.0.saturating_add(1)).max();
        // One that is gone was in a published list, whose numbers are below the published next one.
        state.superblock.segment_next.max(newest.unwrap_or(0))
    }

    /// The number that the next place of the frontier gets. Cheap: what admission of host writes looks at.
    #[must_use]
    pub fn segment_number_given_next(&self) -> u32 {
        self.inner.state.borrow().superblock.segment_next
    }

    /// Paths and sizes of the drives, without those that have left; one in spare space has neither.
    #[must_use]
    pub fn drives(&self) -> Vec<(String, u64)> {
        let striping = self.inner.striping.as_ref();
        let is_there = |index| !striping.is_some_and(|striping| striping.is_in_spare_space(index));
        let drives = self.inner.drives.borrow();
        let size = |(index, known): (usize, &KnownDrive)| {
            let size_bytes = if is_there(index) { known.size_bytes } else { 0 };
            (known.path.clone(), size_bytes)
        };
        let all = drives.iter().enumerate();
        all.filter(|(_, known)| known.state != DriveState::Gone).map(size).collect()
    }

    /// Writes to a segment start and end at multiples of this: a block, or a whole stripe of data.
    #[must_use]
    pub fn stripe_bytes(&self) -> u64 {
        self.inner.striping.as_ref().map_or(BLOCK_BYTES, |striping| striping.data() as u64 * BLOCK_BYTES)
    }

    /// A segment's last write and where it goes: its footer, at the very end, behind what fills a stripe.
    #[must_use]
    pub fn footer_buffer(&self, footer: &[u8]) -> (u64, Buf) {
        let length = (footer.len() as u64).next_multiple_of(self.stripe_bytes()) as usize;
        let mut buffer = self.inner.runtime.buffer(length);
        let filler = length - footer.len();
        buffer[..filler].fill(0);
        buffer[filler..].copy_from_slice(footer);
        (self.inner.segment_bytes - length as u64, buffer)
    }

    /// Blocks written back since the opening because what was there was wrong.
    #[must_use]
    pub fn mended_blocks(&self) -> u64 {
        self.inner.mended_blocks.get()
    }

    /// Drives that may be lost.
    #[must_use]
    pub fn parity_columns(&self) -> usize {
        self.inner.striping.as_ref().map_or(0, |striping| striping.parity)
    }

    /// Runs `look` over the segment table.
    pub fn with_table<T>(&self, look: impl FnOnce(&SegmentTable) -> T) -> T {
        look(&self.inner.state.borrow().table)
    }

    /// Runs `change` over the segment table.
    pub fn with_table_mut<T>(&self, change: impl FnOnce(&mut SegmentTable) -> T) -> T {
        change(&mut self.inner.state.borrow_mut().table)
    }

    fn cell_address(&self, cell: u32, cell_bytes: u64) -> u64 {
        CELLS_START_BYTES + u64::from(cell) * cell_bytes
    }

    /// The drive of a place that is a cell, and where on it.
    fn address(&self, place: Place, offset: u64) -> Result<(Rc<Drive>, u64)> {
        let drives = self.inner.drives.borrow();
        let drive = drives.get(usize::from(place.drive.0)).and_then(|known| known.drive.clone());
        let drive =
            drive.ok_or_else(|| Error::new(ErrorKind::Medium, format!("{place:?} is on no drive")))?;
        Ok((drive, self.cell_address(place.cell, self.inner.segment_bytes) + offset))
    }

    fn place_of(&self, segment: SegmentId) -> Result<Place> {
        let state = self.inner.state.borrow();
        let entry = state.table.find(segment);
        entry.map(|entry| entry.place).ok_or_else(|| {
            Error::new(ErrorKind::Damaged, format!("segment {segment} is not in the segment table"))
        })
    }

    /// A segment is sealed when its last write has ended, and not before: a checkpoint takes a sealed one for
    /// settled, and a drive that failed a write which ended later would not get it back when it returns.
    fn assert_open(&self, segment: SegmentId) {
        let state = self.with_table(|table| table.find(segment).map(|entry| entry.state));
        assert_eq!(state, Some(SegmentState::Open), "a write to segment {segment}");
    }

    /// True while this segment is in the table: a reader that finds damage looks here first, since a
    /// segment freed under it is no damage.
    #[must_use]
    pub fn has_segment(&self, segment: SegmentId) -> bool {
        self.inner.state.borrow().table.find(segment).is_some()
    }

    /// Reads a range of a segment that is not in the table yet, at a place told by whoever points to
    /// it: how the segment table itself is found.
    pub async fn read_at(&self, place: Place, offset: u64, length: u64) -> Result<(Buf, usize)> {
        let is_known = self.with_table(|table| table.has_place(place));
        if !is_known || offset + length > self.inner.segment_bytes {
            return Err(Error::new(ErrorKind::Damaged, format!("{place:?} is not a place of this pool")));
        }
        self.read_place(place, offset, length).await
    }

    async fn read_place(&self, place: Place, offset: u64, length: u64) -> Result<(Buf, usize)> {
        let (first, end) = self.blocks_around(offset, length);
        let buffer = match &self.inner.striping {
            Some(striping) => {
                self.read_stripes(striping, place.cell, first / BLOCK_BYTES..end / BLOCK_BYTES).await?
            }
            None => {
                let (drive, address) = self.address(place, first)?;
                drive.read(address, (end - first) as usize).await?
            }
        };
        Ok((buffer, (offset - first) as usize))
    }

    /// First byte and end of the whole blocks that cover a range; none beyond the segment's end.
    fn blocks_around(&self, offset: u64, length: u64) -> (u64, u64) {
        let end = (offset + length).next_multiple_of(BLOCK_BYTES).min(self.inner.segment_bytes);
        (offset / BLOCK_BYTES * BLOCK_BYTES, end)
    }

    /// Where a segment lives.
    pub fn place(&self, segment: SegmentId) -> Result<Place> {
        self.place_of(segment)
    }

    /// Reads the whole blocks that cover `length` bytes at `offset`; returns them and where in them
    /// the range starts. Ranges beyond the segment's end are cut.
    pub async fn read(&self, segment: SegmentId, offset: u64, length: u64) -> Result<(Buf, usize)> {
        let place = self.place_of(segment)?;
        let (first, end) = self.blocks_around(offset, length);
        if first >= end {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("offset {offset} is beyond segment {segment}"),
            ));
        }
        self.read_place(place, offset, length).await
    }

    /// Writes whole stripes (see [`Pool::stripe_bytes`]) at `offset` of an open segment.
    pub async fn write(
        &self,
        segment: SegmentId,
        offset: u64,
        buffer: Buf,
        durability: Durability,
    ) -> Result<()> {
        let end = offset + buffer.len() as u64;
        assert!(end <= self.inner.segment_bytes, "write to {end} is beyond segment {segment}");
        self.check_not_fenced()?;
        self.check_owner_if_overdue().await?;
        let place = self.place_of(segment)?;
        self.assert_open(segment);
        if let Some(striping) = &self.inner.striping {
            self.write_stripes(striping, segment, place, offset, buffer, durability).await?;
        } else {
            let (drive, address) = self.address(place, offset)?;
            drive.write(address, buffer, durability).await?;
        }
        self.assert_open(segment);
        // Whoever was frozen meanwhile must not tell of it: another may have opened the pool without it.
        self.check_owner_if_overdue().await
    }

    /// Makes every completed write of every drive durable.
    pub async fn sync(&self) -> Result<()> {
        // Taken first: by the end it may be the drive that counts.
        let newcomer = self.newcomer();
        for (index, drive) in self.writable_drives() {
            match drive.sync().await {
                // What it had in its cache may be gone: only parity has it now.
                Err(error) if self.inner.striping.is_some() => self.failed(index, &drive, &error.context)?,
                Err(_) if planted(Fault::FlushErrorIgnored) => {}
                result => result?,
            }
        }
        if let Some(newcomer) = newcomer
            && let Err(error) = newcomer.sync().await
        {
            self.newcomer_failed(&newcomer, &error.context)?;
        }
        self.record_drives().await
    }

    /// Writes the next superblock: the last one with the present frontier and the next generation.
    /// Returns when a majority of the drives hold it, read back.
    async fn extend_frontier(&self) -> Result<()> {
        let _turn = self.inner.superblock_turn.lock().await;
        let next = self.next_superblock(&[], |_| ());
        self.decide(next).await
    }

    /// Writes one superblock more, so that the drives themselves tell that each of them holds the last one: a
    /// copy of a drive from before that one is then known for what it is. Called when a pool was opened,
    /// before it takes writes, and when it is closed.
    pub async fn confirm_superblock(&self) -> Result<()> {
        if self.inner.drives.borrow().len() < 2 || planted(Fault::SuperblockNotConfirmed) {
            return Ok(());
        }
        self.extend_frontier().await
    }

    /// Writes the superblock that publishes a segment table: `change` sets its roots, `recorded` are
    /// the segments that were opened when the table was taken (`opened_mark`) and need not be listed
    /// any more. Places freed by that table become reusable and are trimmed.
    pub async fn commit(&self, recorded: &[SegmentId], change: impl FnOnce(&mut Superblock)) -> Result<()> {
        if planted(Fault::PlaceReleasedEarly) {
            self.release_freed().await;
        }
        {
            let _turn = self.inner.superblock_turn.lock().await;
            let next = self.next_superblock(recorded, change);
            self.decide(next).await?;
        }
        // Without the turn: whoever holds a freed place may need a superblock before it lets go.
        self.release_freed().await;
        Ok(())
    }

    /// Trims the places that a durable superblock calls free, and lets them be used again.
    async fn release_freed(&self) {
        let freed = self.with_table_mut(SegmentTable::release_freed);
        self.with_table(|table| {
            let is_open =
                |segment| table.find(segment).is_some_and(|entry| entry.state == SegmentState::Open);
            self.inner.gate.forget(is_open);
        });
        for place in freed {
            self.inner.held.until_free(place).await;
            for (drive, address, length) in self.cells_of(place) {
                // A trim is a hint: a drive that refuses it only wears faster. The place stays out of the
                // free list until the trim is over, or it could wipe the next tenant.
                let _ignored = drive.trim(address, length).await;
            }
            self.with_table_mut(|table| table.put_free(place));
        }
    }

    /// The cells of a place on drives that are written: drive, address and length.
    fn cells_of(&self, place: Place) -> Vec<(Rc<Drive>, u64, u64)> {
        let Some(striping) = &self.inner.striping else {
            let cell = self.address(place, 0).ok();
            return cell
                .map(|(drive, address)| (drive, address, self.inner.segment_bytes))
                .into_iter()
                .collect();
        };
        (0..striping.width())
            .filter_map(|column| {
                let (home, address) = self.column_address(striping, place.cell, column, 0);
                Some((self.writable(home)?, address, striping.cell_bytes))
            })
            .collect()
    }

    fn next_superblock(&self, recorded: &[SegmentId], change: impl FnOnce(&mut Superblock)) -> Superblock {
        let mut state = self.inner.state.borrow_mut();
        let state = &mut *state;
        let mut next = state.superblock.clone();
        change(&mut next);
        state.frontier.forget(recorded);
        if planted(Fault::OpenedNotListed) {
            let opened = state.frontier.opened();
            state.frontier.forget(&opened);
        }
        if state.is_adopted {
            next.frontier = state.frontier.list(&mut state.table, &mut next.segment_next);
        }
        next.generation += 1;
        next.previous_hash = state.superblock.content_hash();
        next.writer = crate::create::WRITER.to_string();
        if !recorded.is_empty() {
            state.settled_below = state.settling_below;
        }
        self.note_drives(state, &mut next);
        next
    }

    async fn decide(&self, mut next: Superblock) -> Result<()> {
        self.check_not_fenced()?;
        self.check_owner().await?;
        match self.inner.striping {
            Some(_) => self.write_superblock_everywhere(&mut next).await?,
            None => self.write_superblock(&mut next).await?,
        }
        let mut state = self.inner.state.borrow_mut();
        state.frontier.make_openable(&next.frontier);
        state.superblock = next;
        Ok(())
    }

    async fn write_superblock(&self, next: &mut Superblock) -> Result<()> {
        let mut written = 0;
        let mut last_error = None;
        for (index, drive) in self.writable_drives().into_iter().rev() {
            next.drive = ashlar_units::DriveIndex(index as u16);
            match drive.write_superblock(next).await {
                Ok(()) => {
                    written += 1;
                    self.confirm(index, &drive, next.generation);
                }
                Err(error) => last_error = Some(error),
            }
        }
        match last_error {
            Some(error) if !next.is_majority(written + usize::from(planted(Fault::OneDriveTooFew))) => {
                // Whether the drives that failed hold the old or the new one is unknown: stop here
                // and let the next opening decide by majority.
                self.inner.is_fenced.set(true);
                self.inner.fence_cause.replace(Some(error.context.clone()));
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Writes a superblock to all drives that it does not call out. One that fails is called out by
    /// another superblock.
    async fn write_superblock_everywhere(&self, next: &mut Superblock) -> Result<()> {
        loop {
            // Together: a drive that is taken for another meanwhile must not get a superblock that names the
            // other, or both would be found with one name after a crash.
            self.note_drives(&self.inner.state.borrow(), next);
            let drives = self.newcomers_first();
            let mut is_everywhere = true;
            // Those that join come first: once another names them, they must be found.
            for (index, drive) in drives {
                next.drive = ashlar_units::DriveIndex(index as u16);
                match drive.write_superblock(next).await {
                    Ok(()) => self.confirm(index, &drive, next.generation),
                    Err(error) => {
                        self.failed(index, &drive, &error.context)?;
                        is_everywhere = false;
                    }
                }
            }
            let drives = self.inner.drives.borrow();
            let mut both = drives.iter().zip(&next.drives);
            if is_everywhere && both.all(|(now, told)| (now.state, now.id) == (told.state, told.id)) {
                return Ok(());
            }
            next.generation += 1;
        }
    }

    /// A drive holds this superblock: the next one tells.
    fn confirm(&self, index: usize, drive: &Rc<Drive>, generation: u64) {
        let known = &mut self.inner.drives.borrow_mut()[index];
        if known.drive.as_ref().is_some_and(|current| Rc::ptr_eq(current, drive)) {
            known.confirmed = generation + u64::from(planted(Fault::ConfirmedTooHigh));
        }
    }

    /// The drives that must be written: first those that join, since they do not count while no older drive
    /// tells of them; then those that took the place of another.
    fn newcomers_first(&self) -> Vec<(usize, Rc<Drive>)> {
        let mut all = self.writable_drives();
        let (drives, state) = (self.inner.drives.borrow(), self.inner.state.borrow());
        let named = |index: usize| state.superblock.drives.get(index).map(|entry| entry.id);
        all.sort_by_key(|(index, _)| named(*index).map_or(0, |id| 1 + u8::from(id == drives[*index].id)));
        all
    }

    fn check_not_fenced(&self) -> Result<()> {
        if let Some(lost) = self.taken_over() {
            return Err(lost);
        }
        if self.inner.is_fenced.get() {
            let cause = self.inner.fence_cause.borrow();
            let cause = cause.as_ref().map_or(String::new(), |cause| format!(": {cause}"));
            let what = format!("pool stopped: its superblock or a segment could not be written{cause}");
            return Err(Error::new(ErrorKind::Medium, what)
                .and_do("mend the drives: `ashlar pool reopen` opens it again"));
        }
        Ok(())
    }

    /// Checkpoints find no free segment: after so many records the first, after so many more the next. For
    /// the simulator, in which pools are too small to run full in the middle of a checkpoint.
    pub fn refuse_metadata(&self, after_records: impl IntoIterator<Item = u64>) {
        *self.inner.metadata_refusals.borrow_mut() = after_records.into_iter().collect();
    }

    /// Whether the next record is to find no room.
    #[must_use]
    pub fn is_metadata_refused(&self) -> bool {
        let mut refusals = self.inner.metadata_refusals.borrow_mut();
        match refusals.front_mut() {
            Some(0) => refusals.pop_front().is_some(),
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// Stops all writing: called after a failure whose outcome on the drives is unknown.
    pub fn fence(&self) {
        self.inner.is_fenced.set(true);
    }

    /// Opens a new segment for `kind`. `birth` is the first group (journal) or checkpoint (metadata).
    pub async fn open_segment(&self, kind: SegmentKind, birth: u64) -> Result<OpenedSegment> {
        loop {
            self.check_not_fenced()?;
            let waiting = self.inner.prepared.notified();
            let is_coming = {
                let mut state = self.inner.state.borrow_mut();
                let state = &mut *state;
                if let Some(opened) = state.frontier.open(&mut state.table, kind, birth) {
                    // Who takes numbers for times (`segment_number_next`) counts on it.
                    let (segment, next) = (opened.segment, state.superblock.segment_next);
                    assert!(segment.0 < next, "segment {segment} is not below {next}");
                    let session = state.superblock.session;
                    let pool = state.superblock.pool;
                    self.start_preparing_later();
                    let header = SegmentHeader {
                        pool,
                        segment: opened.segment,
                        kind,
                        place: opened.place,
                        session,
                        first_group: birth,
                    };
                    return Ok(OpenedSegment::new(header));
                }
                let is_coming = state.frontier.is_place_coming();
                let number_next = state.superblock.segment_next;
                if !is_coming && !state.frontier.can_extend(&state.table, number_next) {
                    let what = if number_next >= SEGMENT_NUMBERS_END {
                        format!("the pool has used up its segment numbers: {number_next}")
                    } else {
                        "no free segment is left in the pool".to_string()
                    };
                    return Err(Error::new(ErrorKind::NoSpace, what));
                }
                is_coming
            };
            if is_coming {
                self.start_preparing_later();
                waiting.await;
            } else {
                self.extend_frontier().await?;
            }
        }
    }

    /// Keeps a few places ready to be opened, in the background.
    fn start_preparing_later(&self) {
        let pool = self.clone();
        self.spawn(async move {
            while !pool.inner.is_settling.get() {
                let next = pool.inner.state.borrow_mut().frontier.start_preparing();
                let Some(entry) = next else { return };
                pool.prepare(entry).await;
                {
                    let mut state = pool.inner.state.borrow_mut();
                    let state = &mut *state;
                    state.frontier.finish_preparing(entry, &mut state.table);
                }
                pool.inner.prepared.notify_waiters();
            }
        });
    }

    /// Runs work of this pool in the background; [`Pool::settle`] waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        let pool = self.clone();
        self.inner.background.set(self.inner.background.get() + 1);
        self.inner.runtime.spawn(Priority::Destage, async move {
            work.await;
            pool.inner.background.set(pool.inner.background.get() - 1);
            pool.inner.background_ended.notify_waiters();
        });
    }

    /// Waits until no background work holds the drives; none is started any more.
    pub async fn settle(&self) {
        self.inner.is_settling.set(true);
        while self.inner.background.get() > 0 {
            self.inner.background_ended.notified().await;
        }
        self.release().await;
    }

    async fn prepare(&self, entry: FrontierEntry) {
        if !self.with_table(|table| table.is_pristine(entry.place)) {
            return;
        }
        for (drive, address, length) in self.cells_of(entry.place) {
            // It ends with a flush, and a flush that fails may have lost what others wrote and hidden
            // it from their own flush: nothing may be acknowledged any more.
            if drive.needs_preparing()
                && let Err(error) = drive.prepare(address, length).await
            {
                self.preparing_failed(&drive, &error.context);
            }
        }
    }

    fn preparing_failed(&self, drive: &Rc<Drive>, why: &str) {
        if planted(Fault::PreparingErrorIgnored) {
            return;
        }
        if self.inner.striping.is_none() {
            self.inner.fence_cause.replace(Some(why.to_string()));
            return self.fence();
        }
        let position = self.inner.drives.borrow().iter().position(|known| known.path == drive.path());
        if let Some(index) = position {
            // Recorded with the next write that goes without it.
            let _fenced = self.failed(index, drive, why);
        }
    }

    /// Segments that can still be opened before the journal must wait for a checkpoint.
    #[must_use]
    pub fn opened_since_table(&self) -> usize {
        self.inner.state.borrow().frontier.opened_count()
    }

    /// The segments opened so far: pass them to `commit` when the table taken now is published.
    #[must_use]
    pub fn opened_mark(&self) -> Vec<SegmentId> {
        let mut state = self.inner.state.borrow_mut();
        state.settling_below = unsettled_from(&state);
        state.frontier.opened()
    }
}
