//! Mending: a range whose content is proven wrong is computed from the other columns and written back.
//!
//! Whoever reads knows what the bytes must be (a checksum, an identity); the pool does not. So it is told
//! to try: with each column that holds a part of the range taken for lost, then with each pair, until the
//! caller accepts what comes out. Only the proven bytes are written back: the rest of a block belongs to
//! others, and what parity says of it is proven by nobody.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ashlar_drive::{self as drive, Drive};
use ashlar_format::segment::Place;
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{Buf, Durability, Runtime};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, SegmentId};

use crate::homes::Target;
use crate::stripes::{Striping, gather, stripes_of};
use crate::{Pool, Result};

/// Places that must not be given to another segment yet.
#[derive(Default)]
pub(crate) struct HeldPlaces {
    counts: RefCell<BTreeMap<Place, usize>>,
    /// Places where somebody writes back.
    turns: RefCell<BTreeSet<Place>>,
    released: Notify,
}

/// Holds a place until dropped.
pub(crate) struct Hold<'a> {
    held: &'a HeldPlaces,
    place: Place,
}

/// The turn to write back to a place, until dropped.
pub(crate) struct Turn<'a> {
    held: &'a HeldPlaces,
    place: Place,
}

impl HeldPlaces {
    /// Waits for the turn to write back to a place. Two who mend parts of one block at a time would each
    /// undo the other's part, and take the drive for one that loses writes.
    pub(crate) async fn turn(&self, place: Place) -> Turn<'_> {
        loop {
            let released = self.released.notified();
            if self.turns.borrow_mut().insert(place) {
                return Turn { held: self, place };
            }
            released.await;
        }
    }

    pub(crate) fn hold(&self, place: Place) -> Hold<'_> {
        *self.counts.borrow_mut().entry(place).or_default() += 1;
        Hold { held: self, place }
    }

    /// Waits until nobody holds a place.
    pub(crate) async fn until_free(&self, place: Place) {
        loop {
            let released = self.released.notified();
            if !self.counts.borrow().contains_key(&place) {
                return;
            }
            released.await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let was_there = self.held.turns.borrow_mut().remove(&self.place);
        assert!(was_there, "a turn ends once");
        self.held.released.notify_waiters();
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut counts = self.held.counts.borrow_mut();
        let count = counts.get_mut(&self.place).expect("a hold is counted");
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.place);
        }
        drop(counts);
        self.held.released.notify_waiters();
    }
}

/// What is being mended.
struct Wound<'a> {
    striping: &'a Striping,
    row: u32,
    /// Its place in the segment, in bytes.
    bytes: Range<u64>,
    blocks: Range<u64>,
    stripes: Range<u64>,
}

impl Pool {
    /// Looks for content of a range that `accept` takes, and writes it back where the drives say
    /// otherwise. `accept` is given these bytes and says how many of them, from the first, are proven:
    /// those are returned. `None` when nothing is, or without protection. Whoever reads the range again
    /// may find it as wrong as before: when it is a lost drive's, what is wrong may be parity.
    pub async fn mend(
        &self,
        segment: SegmentId,
        offset: u64,
        length: u64,
        mut accept: impl FnMut(&[u8]) -> Option<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(striping) = &self.inner.striping else { return Ok(None) };
        let Ok(place) = self.place_of(segment) else { return Ok(None) };
        self.mend_place(striping, place, offset, length, &mut accept).await
    }

    pub(crate) async fn mend_place(
        &self,
        striping: &Striping,
        place: Place,
        offset: u64,
        length: u64,
        accept: &mut dyn FnMut(&[u8]) -> Option<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(wound) = Wound::new(striping, place, offset, (offset + length).min(self.segment_bytes()))
        else {
            return Ok(None);
        };
        let _hold = self.inner.held.hold(place);
        let _turn = self.inner.held.turn(place).await;
        let Some(cure) = self.solve(&wound, accept).await else { return Ok(None) };
        self.write_back(&wound, &cure).await?;
        Ok(Some(cure.run[cure.proven.clone()].to_vec()))
    }

    /// Like [`Pool::mend`], and writes nothing: for whoever looks while somebody else has the turn to write.
    pub async fn find(
        &self,
        segment: SegmentId,
        offset: u64,
        length: u64,
        mut accept: impl FnMut(&[u8]) -> Option<u64>,
    ) -> Option<Vec<u8>> {
        let striping = self.inner.striping.as_ref()?;
        let place = self.place_of(segment).ok()?;
        let end = (offset + length).min(self.segment_bytes());
        let wound = Wound::new(striping, place, offset, end)?;
        let _hold = self.inner.held.hold(place);
        let cure = self.solve(&wound, &mut accept).await?;
        Some(cure.run[cure.proven].to_vec())
    }

    /// Content of all columns with which `accept` takes the range.
    async fn solve(&self, wound: &Wound<'_>, accept: &mut dyn FnMut(&[u8]) -> Option<u64>) -> Option<Cure> {
        let found = self.read_columns(wound.striping, wound.row, &wound.stripes).await;
        for distrusted in wound.suspicions(&found) {
            let Some(columns) = self.restored(wound.striping, &found, &distrusted) else { continue };
            let run = gather(self.runtime(), &columns, &wound.blocks, wound.striping.data());
            let start = (wound.bytes.start - wound.blocks.start * BLOCK_BYTES) as usize;
            let asked = &run[start..start + (wound.bytes.end - wound.bytes.start) as usize];
            if let Some(length) = accept(asked) {
                let proven = start..start + (length as usize).min(asked.len());
                return Some(Cure { found, columns, run, proven });
            }
        }
        None
    }

    /// Like [`Pool::mend`] for a segment that is not in the table yet.
    pub async fn mend_at(
        &self,
        place: Place,
        offset: u64,
        length: u64,
        mut accept: impl FnMut(&[u8]) -> Option<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let is_known = self.with_table(|table| table.has_place(place));
        match &self.inner.striping {
            Some(striping) if is_known => self.mend_place(striping, place, offset, length, &mut accept).await,
            _ => Ok(None),
        }
    }

    /// Like [`Pool::read`], and whether parity bears out what was read. True where nothing beyond the data
    /// is left to ask.
    pub async fn read_compared(
        &self,
        segment: SegmentId,
        offset: u64,
        length: u64,
    ) -> Result<(Buf, usize, bool)> {
        let Some(striping) = &self.inner.striping else {
            let (buffer, skip) = self.read(segment, offset, length).await?;
            return Ok((buffer, skip, true));
        };
        let place = self.place_of(segment)?;
        let (first, end) = self.blocks_around(offset, length);
        let blocks = first / BLOCK_BYTES..end / BLOCK_BYTES;
        // One reading for both: a drive may answer once and not the next time.
        let mut columns =
            self.read_columns(striping, place.cell, &stripes_of(&blocks, striping.data())).await;
        let is_borne_out = self.are_agreed(striping, &columns);
        self.restore(striping, &mut columns, &[])?;
        let run = gather(self.runtime(), &columns, &blocks, striping.data());
        Ok((run, (offset - first) as usize, is_borne_out))
    }

    /// Writes the columns of whole stripes anew where they do not agree: a crash may have cut off the
    /// writes of some. `accept` proves all that matters in them, as in [`Pool::mend`]. What does not is
    /// written too: a column is only computed from others that are, byte for byte, what parity was made of.
    /// So nothing else that matters may be in these stripes: what a drive holds wrong there would be spread
    /// over it.
    /// False when they do not prove as a whole.
    pub async fn complete_stripes(
        &self,
        segment: SegmentId,
        offset: u64,
        length: u64,
        mut accept: impl FnMut(&[u8]) -> Option<u64>,
    ) -> Result<bool> {
        let Some(striping) = &self.inner.striping else { return Ok(true) };
        let end = offset + length;
        let are_whole = [offset, end].iter().all(|at| at.is_multiple_of(self.stripe_bytes()));
        assert!(are_whole, "{offset} to {end} of segment {segment} are no whole stripes");
        let place = self.place_of(segment)?;
        let Some(wound) = Wound::new(striping, place, offset, end) else { return Ok(true) };
        let _hold = self.inner.held.hold(place);
        let _turn = self.inner.held.turn(place).await;
        let Some(mut cure) = self.solve(&wound, &mut accept).await else { return Ok(false) };
        let parity: Vec<usize> = (striping.data()..striping.width()).collect();
        self.restore(striping, &mut cure.columns, &parity)?;
        for column in 0..striping.width() {
            if cure.columns[column].as_deref() == cure.found[column].as_deref() {
                continue;
            }
            let buffer = cure.columns[column].take().expect("restored");
            for target in self.targets(striping, place.cell, column, wound.stripes.start) {
                self.write_surely(&target, &buffer).await?;
            }
        }
        self.record_drives().await?;
        Ok(true)
    }

    /// Writes where something was wrong; false when the drive was given up for it.
    async fn write_surely(&self, target: &Target, content: &Buf) -> Result<bool> {
        if self.is_read_only() {
            return Ok(true);
        }
        match write_surely(self.runtime(), target.drive(), target.address(), content).await {
            Ok(()) => Ok(true),
            Err(error) => self.target_failed(target, &error.context).map(|()| false),
        }
    }

    pub(crate) fn count_mended(&self, drive: &Drive) {
        drive.note_mended();
        self.inner.mended_blocks.set(self.inner.mended_blocks.get() + 1);
    }

    /// Writing a block back undoes a write to it that is under way. There is none: what is proven was
    /// acknowledged, writes are of whole stripes, and no address is written twice.
    fn check_settled(&self, wound: &Wound<'_>, proven_end: usize) {
        let place = Place { cell: wound.row, ..Place::default() };
        let segment = self.with_table(|table| table.at(place));
        let end = wound.blocks.start * BLOCK_BYTES + proven_end as u64;
        if let Some(settled) = segment.and_then(|segment| self.inner.gate.settled_end(segment)) {
            assert!(end <= settled, "{segment:?} is mended to {end}, and settled to {settled}");
        }
    }

    /// Writes the proven bytes of a run to the blocks that say otherwise.
    async fn write_back(&self, wound: &Wound<'_>, cure: &Cure) -> Result<()> {
        let Cure { found, run, proven, .. } = cure;
        self.check_settled(wound, proven.end);
        let data = wound.striping.data() as u64;
        for (index, block) in wound.blocks.clone().enumerate() {
            let column = (block % data) as usize;
            let stripe = block / data;
            if self.readable(wound.striping.home(wound.row, column)).is_none() {
                continue;
            }
            let from = index * BLOCK_BYTES_USIZE;
            if from >= proven.end {
                break;
            }
            let mut buffer = self.runtime().buffer(BLOCK_BYTES_USIZE);
            buffer.copy_from_slice(&run[from..from + BLOCK_BYTES_USIZE]);
            if let Some(there) = &found[column] {
                let start = (stripe - wound.stripes.start) as usize * BLOCK_BYTES_USIZE;
                let there = &there[start..start + BLOCK_BYTES_USIZE];
                let part = proven.start.max(from) - from..proven.end.min(from + BLOCK_BYTES_USIZE) - from;
                if there[part.clone()] == buffer[part.clone()] {
                    continue;
                }
                buffer.copy_from_slice(there);
                buffer[part.clone()].copy_from_slice(&run[from + part.start..from + part.end]);
            }
            let targets = self.targets(wound.striping, wound.row, column, stripe);
            for (index, target) in targets.into_iter().enumerate() {
                if self.write_surely(&target, &buffer).await? && index == 0 {
                    self.count_mended(target.drive());
                }
            }
        }
        self.record_drives().await
    }
}

/// Content that was accepted.
struct Cure {
    /// What the columns held; none where they could not be read.
    found: Vec<Option<Buf>>,
    /// What they must hold.
    columns: Vec<Option<Buf>>,
    /// The blocks around the range.
    run: Buf,
    /// Its proven bytes.
    proven: Range<usize>,
}

/// Writes and reads back: what was wrong once may be a drive that lies. One that does so twice in a row is
/// as bad as none.
async fn write_surely(runtime: &Runtime, drive: &Drive, address: u64, content: &Buf) -> drive::Result<()> {
    for _ in 0..2 {
        let mut buffer = runtime.buffer(content.len());
        buffer.copy_from_slice(content);
        drive.write(address, buffer, Durability::Durable).await?;
        if drive.read(address, content.len()).await?[..] == content[..] {
            return Ok(());
        }
    }
    let what = format!("drive {} acknowledges writes and loses them: replace it", drive.path());
    Err(drive::Error::new(drive::ErrorKind::Damaged, what))
}

impl<'a> Wound<'a> {
    fn new(striping: &'a Striping, place: Place, offset: u64, end: u64) -> Option<Wound<'a>> {
        if offset >= end {
            return None;
        }
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        let stripes = stripes_of(&blocks, striping.data());
        Some(Wound { striping, row: place.cell, bytes: offset..end, blocks, stripes })
    }

    /// Which columns to take for lost, one attempt after the other: the fewest first.
    fn suspicions(&self, found: &[Option<Buf>]) -> Vec<Vec<usize>> {
        let lost = found.iter().filter(|column| column.is_none()).count();
        let there = |column: &usize| found[*column].is_some();
        let mut all = vec![Vec::new()];
        if lost < self.striping.parity {
            all.extend((0..found.len()).filter(there).map(|one| vec![one]));
        }
        if lost + 1 < self.striping.parity {
            let pairs =
                (0..found.len()).flat_map(|one| (one + 1..found.len()).map(move |other| vec![one, other]));
            all.extend(pairs.filter(|pair| pair.iter().all(there)));
        }
        all.retain(|suspects| self.changes_something(suspects, found));
        all
    }

    /// Whether the range comes out differently when these columns are taken for lost: one of them holds a
    /// part of it, or is what a part of it that cannot be read is computed from.
    fn changes_something(&self, suspects: &[usize], found: &[Option<Buf>]) -> bool {
        let data = self.striping.data();
        let holds_part = |column: usize| {
            column < data
                && self.blocks.clone().take(data).any(|block| (block % data as u64) as usize == column)
        };
        let is_part_lost = (0..data).any(|column| found[column].is_none() && holds_part(column));
        suspects.is_empty() || is_part_lost || suspects.iter().any(|suspect| holds_part(*suspect))
    }
}
