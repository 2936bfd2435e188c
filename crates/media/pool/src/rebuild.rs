//! A drive comes back, or another takes its place: what it lacks is computed from the others.
//!
//! From the moment a drive joins, every write goes to it too; what was written before is restored behind
//! that, segment by segment, only as far as segments were written. It is read again when all of it is there.
//! The line between before and after is drawn exactly: a stripe that is being written while it is restored
//! would be restored from halves. What moves to another place is copied in the same way, and compared with
//! parity on its way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{SegmentEntry, SegmentState};
use ashlar_format::superblock::{CELLS_START_BYTES, DriveState};
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{Buf, Durability};
use ashlar_units::{BLOCK_BYTES, ByteCount, Fault, SegmentId, planted};

use crate::judge::{Judge, Weigh};
use crate::newcomer::{check_size, check_unclaimed, is_member};
use crate::scrub::ScrubCount;
use crate::stripes::Striping;
use crate::{Error, ErrorKind, Pool, Result};

/// The reason of a drive that somebody took out of service.
const TAKEN_OUT: &str = "it was taken out of service";
/// Stripes restored at a time: 64 KiB of each column. Hosts wait for no more than that.
const STRIPES_AT_ONCE: u64 = 16;

/// Writes that are under way and how far open segments were written, so that a drive can join exactly
/// between two writes.
#[derive(Default)]
pub(crate) struct WriteGate {
    /// Writes under way, by the order in which they began: segment and start.
    under_way: RefCell<BTreeMap<u64, (SegmentId, u64)>>,
    begun_count: Cell<u64>,
    ended: Notify,
    /// Where the writes begun so far end, for segments that are open.
    begun: RefCell<BTreeMap<SegmentId, u64>>,
    /// How often drives joined, and at which of these times each did last.
    joins: Cell<u64>,
    joined: RefCell<BTreeMap<usize, u64>>,
}

/// A write under way.
pub(crate) struct Passage<'a> {
    gate: &'a WriteGate,
    number: u64,
}

impl WriteGate {
    /// A write begins. Nothing may be awaited between this and the choice of drives.
    pub(crate) fn enter(&self, segment: SegmentId, start: u64, end: u64) -> Passage<'_> {
        let number = self.begun_count.replace(self.begun_count.get() + 1);
        self.under_way.borrow_mut().insert(number, (segment, start));
        let mut begun = self.begun.borrow_mut();
        let known = begun.entry(segment).or_default();
        *known = end.max(*known);
        Passage { gate: self, number }
    }

    /// Where the first write to a segment starts that is under way; else where the last one ended.
    pub(crate) fn settled_end(&self, segment: SegmentId) -> Option<u64> {
        let under_way = self.under_way.borrow();
        let starts = under_way.values().filter(|(of, _)| *of == segment).map(|(_, start)| *start);
        starts.min().or_else(|| self.begun.borrow().get(&segment).copied())
    }

    /// Segments that are open no more are of no interest.
    pub(crate) fn forget(&self, is_open: impl Fn(SegmentId) -> bool) {
        self.begun.borrow_mut().retain(|segment, _| is_open(*segment));
    }

    /// The number of the next write, and where those begun so far end.
    fn draw_line(&self) -> (u64, BTreeMap<SegmentId, u64>) {
        (self.begun_count.get(), self.begun.borrow().clone())
    }

    /// A drive joins: what an earlier joining of it was to restore is not all that it lacks.
    fn join(&self, drive: usize) -> u64 {
        let join = self.joins.get() + 1;
        self.joins.set(join);
        self.joined.borrow_mut().insert(drive, join);
        join
    }

    /// Waits for all writes that began before a line.
    async fn until_ended(&self, line: u64) {
        loop {
            let ended = self.ended.notified();
            if self.under_way.borrow().keys().next().is_none_or(|oldest| *oldest >= line) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        self.gate.under_way.borrow_mut().remove(&self.number);
        self.gate.ended.notify_waiters();
    }
}

/// How far a rebuild is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RebuildProgress {
    /// Bytes of columns to restore.
    pub total_bytes: u64,
    /// Bytes restored.
    pub done_bytes: u64,
}

/// What a drive lacks: for each segment how far it is to be restored.
pub struct Rebuild {
    drive: usize,
    /// It holds nothing yet.
    is_new: bool,
    /// It has everything, and its content goes elsewhere.
    pub(crate) is_move: bool,
    segments: Vec<(SegmentId, u64)>,
    line: u64,
    pub(crate) join: u64,
}

/// What is known of a column that is to be restored.
enum Content {
    /// It must hold this.
    Is(Buf),
    /// It holds what it must.
    IsThere,
    /// What it would be computed from does not agree, in one stripe of several at least.
    Disagrees,
}

impl Rebuild {
    /// The drive, by its number.
    #[must_use]
    pub fn drive(&self) -> usize {
        self.drive
    }

    /// Whether the drive serves meanwhile.
    #[must_use]
    pub fn is_move(&self) -> bool {
        self.is_move
    }
}

impl Pool {
    /// Puts a new drive in the place of another. It is written from now on; what it lacks is told by the
    /// result. One that serves, or lives in spare space, does so until the new one has everything.
    pub async fn replace_drive(
        &self,
        index: usize,
        path: &str,
        create_size_bytes: Option<u64>,
    ) -> Result<Rebuild> {
        let is_out = self.check_can_be_replaced(index)?;
        let superblock = self.superblock();
        let drive = match Drive::open(self.runtime(), path, create_size_bytes).await {
            // It stays open while it is out.
            Err(error) if error.kind == ashlar_drive::ErrorKind::Busy && self.is_open_at(index, path) => {
                return Err(is_member(path, &superblock.name, index));
            }
            opened => opened?,
        };
        let ring = drive.read_ring().await?;
        check_unclaimed(path, &ring, Some(&superblock))?;
        check_size(&drive, self.needed_bytes(index)?)?;
        drive.wipe().await?;
        // Whoever asks for the same at the same time comes second.
        if is_out != self.check_can_be_replaced(index)? {
            let what = format!("drive {index} came or went while it was to be replaced");
            return Err(Error::new(ErrorKind::Invalid, what).and_do("try again"));
        }
        match is_out {
            true => self.join(index, Rc::new(drive), Some(self.random_id())).await,
            false => self.move_to_drive(index, Rc::new(drive)),
        }
    }

    /// Takes a drive back into service that was away: only what was written meanwhile is restored.
    pub async fn return_drive(&self, index: usize, path: &str) -> Result<Rebuild> {
        self.check_is_out(index)?;
        let known = self.inner.drives.borrow()[index].drive.clone();
        let drive = match (self.find_again(index, path).await, known) {
            // Opened anew where that can be done: what was unplugged does not answer where it was open.
            (Ok(drive), _) => Rc::new(drive),
            (Err(error), Some(drive)) if error.kind == ErrorKind::Busy && drive.path() == path => drive,
            (Err(error), _) => return Err(error),
        };
        self.check_not_cut(index, &drive)?;
        // Whoever asks for the same at the same time comes second.
        self.check_is_out(index)?;
        self.join(index, drive, None).await
    }

    /// Whether this pool has a drive open by this path itself.
    fn is_open_at(&self, index: usize, path: &str) -> bool {
        let drives = self.inner.drives.borrow();
        drives[index].drive.as_ref().is_some_and(|drive| drive.path() == path)
    }

    /// What the pool needs of a drive.
    fn needed_bytes(&self, index: usize) -> Result<u64> {
        let cells = u64::from(self.inner.state.borrow().superblock.drives[index].cells);
        Ok(CELLS_START_BYTES + cells * self.striping()?.cell_bytes)
    }

    /// Refuses a drive that lost its end. What it was when it was opened says nothing of that.
    fn check_not_cut(&self, index: usize, drive: &Drive) -> Result<()> {
        let (size, needed) = (drive.size_bytes_now()?, self.needed_bytes(index)?);
        if size >= needed {
            return Ok(());
        }
        let (path, name) = (drive.path(), self.superblock().name);
        let (size, needed) = (ByteCount(size), ByteCount(needed));
        let what = format!("drive {path} was cut short: it is {size}, and drive {index} takes {needed}");
        let action =
            format!("`ashlar pool replace-drive {name} {index} --with PATH` puts another in its place");
        Err(Error::new(ErrorKind::Invalid, what).and_do(action))
    }

    async fn find_again(&self, index: usize, path: &str) -> Result<Drive> {
        let drive = Drive::open(self.runtime(), path, None).await?;
        self.check_not_cut(index, &drive)?;
        let ring = drive.read_ring().await?;
        let expected = self.inner.state.borrow().superblock.drives[index].id;
        let is_it = ring.valid.first().is_some_and(|newest| {
            usize::from(newest.drive.0) == index
                && newest.drives.get(index).is_some_and(|own| own.id == expected)
        });
        if is_it {
            return Ok(drive);
        }
        let name = self.superblock().name;
        let what = format!("drive {path} is not drive {index} of pool {name}");
        let action = format!(
            "`ashlar pool replace-drive {name} {index} --with {path} --force` puts it in its place and wipes what \
             is on it"
        );
        Err(Error::new(ErrorKind::Invalid, what).and_do(action))
    }

    pub(crate) fn striping(&self) -> Result<&Striping> {
        self.inner.striping.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "the pool has no protection: its drives cannot be replaced".to_string(),
            )
        })
    }

    /// Whether a drive that may be replaced is out of service.
    fn check_can_be_replaced(&self, index: usize) -> Result<bool> {
        self.striping()?;
        let state = self.inner.drives.borrow().get(index).map(|known| known.state);
        match state {
            Some(DriveState::Out) => Ok(true),
            Some(DriveState::InService | DriveState::Leaving) => Ok(false),
            Some(DriveState::Rebuilding) => {
                let what = format!("drive {index} is being rebuilt");
                let action = "wait for the end of that, or take it out of service first";
                Err(Error::new(ErrorKind::Invalid, what).and_do(action))
            }
            None | Some(DriveState::Gone) => {
                Err(Error::new(ErrorKind::NotFound, format!("the pool has no drive {index}")))
            }
        }
    }

    fn check_is_out(&self, index: usize) -> Result<()> {
        self.striping()?;
        let state = self.inner.drives.borrow().get(index).map(|known| known.state);
        match state {
            Some(DriveState::Out) => Ok(()),
            Some(_) if self.striping()?.is_in_spare_space(index) => {
                let what = format!("drive {index} is no more: spare space holds what was on it");
                let name = self.superblock().name;
                let action = format!(
                    "`ashlar pool replace-drive {name} {index} --with PATH` puts a drive in its place again"
                );
                Err(Error::new(ErrorKind::Invalid, what).and_do(action))
            }
            Some(_) => {
                let what = format!("drive {index} is in service: take it out of service first");
                Err(Error::new(ErrorKind::Invalid, what))
            }
            None => Err(Error::new(ErrorKind::NotFound, format!("the pool has no drive {index}"))),
        }
    }

    /// The drive is written from here on.
    async fn join(&self, index: usize, drive: Rc<Drive>, new_id: Option<u128>) -> Result<Rebuild> {
        let rebuild = {
            let mut drives = self.inner.drives.borrow_mut();
            let known = &mut drives[index];
            known.path = drive.path().to_string();
            known.size_bytes = drive.size_bytes();
            known.drive = Some(drive);
            known.reason = None;
            known.away = None;
            if let Some(id) = new_id {
                known.id = id;
                known.stale_from = 0;
            }
            // No await from the line to here: writes before it go without the drive, writes after it do not.
            known.state = DriveState::Rebuilding;
            let stale_from = known.stale_from;
            drop(drives);
            self.draw_rebuild(index, stale_from)
        };
        self.record_drives().await?;
        Ok(rebuild)
    }

    /// What a drive lacks from this segment on, as of now.
    pub(crate) fn draw_rebuild(&self, index: usize, stale_from: u32) -> Rebuild {
        let (line, begun) = self.inner.gate.draw_line();
        let segments = self.what_is_stale(index, stale_from, &begun);
        let join = self.inner.gate.join(index);
        Rebuild { drive: index, is_new: stale_from == 0, is_move: false, segments, line, join }
    }

    /// A drive whose rebuild an earlier opening did not finish: what it lacks.
    #[must_use]
    pub fn resume_rebuild(&self, index: usize) -> Rebuild {
        let stale_from = self.inner.drives.borrow()[index].stale_from;
        self.draw_rebuild(index, stale_from)
    }

    /// Takes a drive out of service, if the pool can do without it.
    pub async fn take_out(&self, index: usize) -> Result<()> {
        self.striping()?;
        let state = self.inner.drives.borrow().get(index).map(|known| known.state);
        match state {
            None => return Err(Error::new(ErrorKind::NotFound, format!("the pool has no drive {index}"))),
            Some(DriveState::Out) => {
                self.keep_out(index);
                return Ok(());
            }
            Some(_) if self.striping()?.is_in_spare_space(index) => {
                let what = format!("drive {index} is no more: spare space holds what was on it");
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            Some(DriveState::Rebuilding) => {}
            Some(DriveState::InService) if self.drives_out() < self.parity_columns() => {}
            Some(DriveState::InService | DriveState::Leaving | DriveState::Gone) => {
                let what = format!(
                    "drive {index} is needed: {} drives are out of service already",
                    self.drives_out()
                );
                return Err(Error::new(ErrorKind::Invalid, what));
            }
        }
        self.give_up(index, TAKEN_OUT)?;
        self.record_drives().await
    }

    /// Somebody wants a drive out that was missed at the opening, or before.
    fn keep_out(&self, index: usize) {
        let known = &mut self.inner.drives.borrow_mut()[index];
        if known.away.take().is_some() {
            known.reason = Some(TAKEN_OUT.to_string());
        }
    }

    /// What a drive lacks of the segments from this one on that have a column on it.
    fn what_is_stale(
        &self,
        drive: usize,
        stale_from: u32,
        begun: &BTreeMap<SegmentId, u64>,
    ) -> Vec<(SegmentId, u64)> {
        let Some(striping) = &self.inner.striping else { return Vec::new() };
        let is_on_it = |entry: &SegmentEntry| striping.column_of(entry.place.cell, drive).is_some();
        let extent = |entry: &SegmentEntry| match entry.state {
            // Its footer is at its end.
            SegmentState::Sealed => self.segment_bytes(),
            _ => {
                let used = u64::from(entry.used_units) * PLACE_UNIT_BYTES;
                begun.get(&entry.segment).copied().unwrap_or(used)
            }
        };
        let mut segments: Vec<_> = self.with_table(|table| {
            let stale = table.durable().filter(|entry| entry.segment.0 >= stale_from && is_on_it(entry));
            stale.map(|entry| (entry.segment, extent(entry))).collect()
        });
        segments.sort_unstable();
        segments
    }

    /// Restores what a drive lacks and takes it into service. What it is computed from is compared with
    /// what is left to compare with, and judged by `weigh`. `report` is told how far it is and may
    /// take its time; an error of it stops the rebuild where it is.
    pub async fn rebuild<F: Future<Output = Result<()>>>(
        &self,
        rebuild: Rebuild,
        weigh: Weigh<'_>,
        mut report: impl FnMut(RebuildProgress) -> F,
    ) -> Result<()> {
        let striping = self.striping()?;
        if !planted(Fault::RebuildDoesNotWait) {
            self.inner.gate.until_ended(rebuild.line).await;
        }
        let stripe_bytes = self.stripe_bytes();
        let column_bytes = |extent: u64| extent.div_ceil(stripe_bytes) * BLOCK_BYTES;
        let mut progress = RebuildProgress {
            total_bytes: rebuild.segments.iter().map(|(_, extent)| column_bytes(*extent)).sum(),
            done_bytes: 0,
        };
        report(progress).await?;
        for (segment, extent) in &rebuild.segments {
            let stripes = extent.div_ceil(stripe_bytes)
                - u64::from(planted(Fault::RebuildOneStripeShort) && *extent > 0);
            let (mut stripe, mut judged_until) = (0, 0);
            while stripe < stripes {
                let next = if stripe < judged_until { stripe + 1 } else { stripe + STRIPES_AT_ONCE };
                let next = next.min(stripes);
                if self.restore_part(striping, &rebuild, *segment, stripe..next, weigh).await? {
                    progress.done_bytes += (next - stripe) * BLOCK_BYTES;
                    stripe = next;
                } else {
                    // Judging takes its time: who wants to read or mend here has his turn between two.
                    judged_until = next;
                }
                report(progress).await?;
            }
        }
        match rebuild.is_move {
            true => self.finish_moving(striping, &rebuild).await,
            false => self.put_in_service(&rebuild).await,
        }
    }

    /// Restores some stripes; false when they do not agree, and are to be restored one by one.
    async fn restore_part(
        &self,
        striping: &Striping,
        rebuild: &Rebuild,
        segment: SegmentId,
        stripes: Range<u64>,
        weigh: Weigh<'_>,
    ) -> Result<bool> {
        let drive = rebuild.drive;
        // Freed for good meanwhile: its next tenant is written whole.
        let known = self.with_table(|table| table.find_durable(segment).map(|entry| entry.place));
        let Some(place) = known else { return Ok(true) };
        let _hold = self.inner.held.hold(place);
        let Some(column) = striping.column_of(place.cell, drive) else { return Ok(true) };
        // Who mends here meanwhile changes what it is computed from.
        let _turn = self.inner.held.turn(place).await;
        self.check_rebuilding(rebuild)?;
        // What a new drive holds is nobody's, and neither is what spare space does.
        let own = self.inner.drives.borrow()[drive].drive.clone().filter(|_| !rebuild.is_new);
        let judge = Judge { pool: self, striping, segment, row: place.cell, weigh, witness: None };
        let buffer = match self.content_of(judge, column, own.as_deref(), &stripes).await? {
            Content::Is(buffer) => buffer,
            Content::IsThere => return Ok(true),
            Content::Disagrees => return Ok(false),
        };
        // Where it goes may have changed meanwhile, or be out of service: then that drive lacks it, and is
        // restored as a whole when it comes back.
        let targets = match rebuild.is_move {
            true => self.target_of_moving(striping, place.cell, column, stripes.start).into_iter().collect(),
            false => self.targets(striping, place.cell, column, stripes.start),
        };
        let Some(target) = targets.into_iter().next() else { return Ok(true) };
        self.write_to([(target, buffer)], Durability::Cached).await?;
        self.record_drives().await?;
        self.check_rebuilding(rebuild).map(|()| true)
    }

    /// What a column must hold.
    async fn content_of(
        &self,
        mut judge: Judge<'_>,
        column: usize,
        own: Option<&Drive>,
        stripes: &Range<u64>,
    ) -> Result<Content> {
        let striping = judge.striping;
        let mut columns = judge.read(stripes).await;
        let is_borne_out = columns.iter().flatten().count() > striping.data();
        if let Some(own) = own.filter(|_| !is_borne_out) {
            // Nothing but what the drive holds itself bears out what would be computed.
            let heard = Judge { witness: Some((column, own)), ..judge };
            let mut with_own = self.copies_of(&columns);
            heard.hear_witness(stripes, &mut with_own).await;
            let is_provable = with_own.iter().flatten().count() > striping.data();
            if is_provable && self.are_agreed(striping, &with_own) {
                return Ok(Content::IsThere);
            }
            if is_provable && heard.is_witness_right(stripes).await {
                (judge, columns) = (heard, with_own);
            }
        }
        if !self.are_agreed(striping, &columns) {
            if stripes.end - stripes.start > 1 {
                return Ok(Content::Disagrees);
            }
            let mut count = ScrubCount::default();
            if let Some(right) = self.set_right(&judge, stripes.start, &columns, &mut count).await? {
                columns = right;
            }
        }
        self.restore(striping, &mut columns, &[])?;
        Ok(Content::Is(columns[column].take().expect("restored")))
    }

    /// The drive, unless it was given up since this rebuild began, though it may have joined again: that
    /// rebuild restores more.
    fn check_rebuilding(&self, rebuild: &Rebuild) -> Result<()> {
        if rebuild.is_move {
            return self.check_moving(self.striping()?, rebuild);
        }
        let index = rebuild.drive;
        let is_current = self.inner.gate.joined.borrow().get(&index) == Some(&rebuild.join);
        if is_current && self.inner.drives.borrow()[index].state == DriveState::Rebuilding {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Medium, format!("drive {index} left the pool while it was rebuilt")))
    }

    async fn put_in_service(&self, rebuild: &Rebuild) -> Result<()> {
        let index = rebuild.drive;
        // Spare space is on all of them.
        if !planted(Fault::RebuiltNotFlushed) {
            self.sync().await?;
        }
        self.check_rebuilding(rebuild)?;
        {
            let known = &mut self.inner.drives.borrow_mut()[index];
            (known.state, known.reason) = (DriveState::InService, None);
        }
        self.record_drives().await
    }
}
