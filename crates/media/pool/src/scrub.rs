//! Scrub: whether parity bears out what segments hold, and setting right what it does not.
//!
//! When a stripe does not agree, nobody knows yet which of its columns is wrong: the data may have been
//! written or rotted since they were last verified. It is judged (`judge`) and what is wrong is written.

use std::ops::Range;

use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::SegmentState;
use ashlar_runtime::{Buf, Durability};
use ashlar_units::{Fault, SegmentId, planted};

use crate::judge::{Judge, Weigh};
use crate::stripes::Striping;
use crate::{Pool, Result};

/// Stripes compared at a time: 64 KiB of each column.
const STRIPES_AT_ONCE: u64 = 16;

/// What a scrub has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubCount {
    /// Stripes compared with their parity.
    pub stripes: u64,
    /// Stripes that could not be: so many drives are out that nothing is left to compare with.
    pub unproven_stripes: u64,
    /// Stripes that did not agree, or of which a drive in service could not read its part.
    pub wrong_stripes: u64,
    /// Blocks of data set right.
    pub data_blocks: u64,
    /// Blocks of parity set right.
    pub parity_blocks: u64,
}

impl ScrubCount {
    fn compared(&mut self, stripes: u64, is_proven: bool) {
        match is_proven {
            true => self.stripes += stripes,
            false => self.unproven_stripes += stripes,
        }
    }
}

impl Pool {
    /// Compares a segment with its parity, as far as it is written, and sets right what differs if it can
    /// be weighed; else it is only counted. `pause` is called after every piece.
    pub async fn scrub_segment<F: Future<Output = Result<()>>>(
        &self,
        segment: SegmentId,
        weigh: Option<Weigh<'_>>,
        count: &mut ScrubCount,
        mut pause: impl FnMut() -> F,
    ) -> Result<()> {
        let Some(striping) = &self.inner.striping else { return Ok(()) };
        let mut first = 0;
        while let Some(stripes) = self.settled_stripes(segment).filter(|stripes| first < *stripes) {
            let next = (first + STRIPES_AT_ONCE).min(stripes);
            if !self.scrub_agreed(striping, segment, first..next, count).await? {
                // Judging takes its time: who wants to read or mend here has his turn between two.
                for stripe in first..next {
                    self.scrub_stripe(striping, segment, stripe, weigh, count).await?;
                    pause().await?;
                }
            }
            first = next;
            pause().await?;
        }
        Ok(())
    }

    /// Sets right what does not agree in the stripes of a range, as a scrub does. Their footers, and what is
    /// being written, are left out.
    pub async fn set_range_right(
        &self,
        segment: SegmentId,
        range: Range<u64>,
        weigh: Weigh<'_>,
    ) -> Result<()> {
        let (Some(striping), Some(settled)) = (&self.inner.striping, self.settled_stripes(segment)) else {
            return Ok(());
        };
        let mut count = ScrubCount::default();
        let stripe_bytes = self.stripe_bytes();
        for stripe in range.start / stripe_bytes..range.end.div_ceil(stripe_bytes).min(settled) {
            self.scrub_stripe(striping, segment, stripe, Some(weigh), &mut count).await?;
        }
        Ok(())
    }

    /// Stripes of a segment that were written and that nobody writes to; `None` when it is gone. Its footer
    /// is left out: whoever reads it can do without.
    fn settled_stripes(&self, segment: SegmentId) -> Option<u64> {
        let entry = self.with_table(|table| table.find(segment).copied())?;
        let used = u64::from(entry.used_units) * PLACE_UNIT_BYTES;
        let end = match entry.state {
            SegmentState::Sealed => used.next_multiple_of(self.stripe_bytes()),
            _ => self.inner.gate.settled_end(segment).unwrap_or(used),
        };
        Some(end.min(self.segment_bytes()) / self.stripe_bytes())
    }

    /// Compares some stripes; false when something is wrong in one, and they are to be looked at one by one.
    async fn scrub_agreed(
        &self,
        striping: &Striping,
        segment: SegmentId,
        stripes: Range<u64>,
        count: &mut ScrubCount,
    ) -> Result<bool> {
        let place = self.place_of(segment)?;
        let _hold = self.inner.held.hold(place);
        // Who mends here meanwhile changes what is compared.
        let _turn = self.inner.held.turn(place).await;
        let columns = self.read_columns(striping, place.cell, &stripes).await;
        if self.is_any_unreadable(striping, place.cell, &columns) || !self.are_agreed(striping, &columns) {
            return Ok(false);
        }
        count.compared(stripes.end - stripes.start, is_provable(striping, &columns));
        Ok(true)
    }

    async fn scrub_stripe(
        &self,
        striping: &Striping,
        segment: SegmentId,
        stripe: u64,
        weigh: Option<Weigh<'_>>,
        count: &mut ScrubCount,
    ) -> Result<()> {
        // Freed meanwhile: nothing in it matters.
        let Ok(place) = self.place_of(segment) else { return Ok(()) };
        let _hold = self.inner.held.hold(place);
        // Who mends here meanwhile would write back what was read before.
        let _turn = self.inner.held.turn(place).await;
        let blocks = self.read_columns(striping, place.cell, &(stripe..stripe + 1)).await;
        let mut is_proven = is_provable(striping, &blocks);
        let is_agreed = self.are_agreed(striping, &blocks);
        let is_wrong = !is_agreed || self.is_any_unreadable(striping, place.cell, &blocks);
        count.wrong_stripes += u64::from(is_wrong);
        match weigh {
            Some(weigh) if !is_agreed => {
                let judge = Judge { pool: self, striping, segment, row: place.cell, weigh, witness: None };
                is_proven = self.set_right(&judge, stripe, &blocks, count).await?.is_some();
            }
            Some(_) if is_wrong => self.fill_gaps(striping, place.cell, stripe, &blocks, count).await?,
            Some(_) | None => {}
        }
        count.compared(1, is_proven);
        Ok(())
    }

    /// Judges a stripe and writes what is wrong: what it holds then, or `None` when nothing can tell.
    pub(crate) async fn set_right(
        &self,
        judge: &Judge<'_>,
        stripe: u64,
        found: &[Option<Buf>],
        count: &mut ScrubCount,
    ) -> Result<Option<Vec<Option<Buf>>>> {
        let Some(right) = judge.judge(stripe, found).await else { return Ok(None) };
        let Judge { striping, segment, row, .. } = *judge;
        let is_wrong = |column: &usize| found[*column].as_deref() != right[*column].as_deref();
        if !(0..found.len()).any(|column| found[column].is_some() && is_wrong(&column)) {
            return Ok(Some(right));
        }
        let lost = (0..found.len()).filter(|column| found[*column].is_none());
        self.outdate(segment, lost.flat_map(|column| striping.home(row, column).drives())).await?;
        for column in (0..found.len()).filter(is_wrong) {
            let block = self.copy_of(right[column].as_ref().expect("restored"));
            self.set_block(striping, row, column, stripe, block, count).await?;
        }
        self.record_drives().await?;
        Ok(Some(right))
    }

    /// Whether a drive in service did not give what it should have.
    fn is_any_unreadable(&self, striping: &Striping, row: u32, columns: &[Option<Buf>]) -> bool {
        let is_served = |column: usize| self.readable(striping.home(row, column)).is_some();
        columns.iter().enumerate().any(|(column, there)| there.is_none() && is_served(column))
    }

    /// Writes what drives in service cannot read of a stripe: reads do that only for data that somebody asks
    /// for, and nobody asks for parity before it is needed.
    async fn fill_gaps(
        &self,
        striping: &Striping,
        row: u32,
        stripe: u64,
        found: &[Option<Buf>],
        count: &mut ScrubCount,
    ) -> Result<()> {
        // Beyond what parity restores there is nothing to write.
        let Some(blocks) = self.restored(striping, found, &[]) else { return Ok(()) };
        for (column, block) in blocks.into_iter().enumerate().filter(|(column, _)| found[*column].is_none()) {
            let block = block.expect("restored");
            self.set_block(striping, row, column, stripe, block, count).await?;
        }
        self.record_drives().await
    }

    /// Writes a block anew where its drive is there.
    async fn set_block(
        &self,
        striping: &Striping,
        row: u32,
        column: usize,
        stripe: u64,
        block: Buf,
        count: &mut ScrubCount,
    ) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let column =
            if planted(Fault::ScrubSetsWrongColumn) { (column + 1) % striping.width() } else { column };
        for (index, target) in self.targets(striping, row, column, stripe).into_iter().enumerate() {
            match target.drive().write(target.address(), self.copy_of(&block), Durability::Durable).await {
                // What moves is written twice and was wrong once.
                Ok(()) if index == 0 => {
                    self.count_mended(target.drive());
                    let is_data = column < striping.data();
                    count.data_blocks += u64::from(is_data);
                    count.parity_blocks += u64::from(!is_data);
                }
                Ok(()) => {}
                Err(error) => self.target_failed(&target, &error.context)?,
            }
        }
        Ok(())
    }

    /// Whether the columns that are there agree.
    pub(crate) fn are_agreed(&self, striping: &Striping, columns: &[Option<Buf>]) -> bool {
        let there: Vec<usize> = (0..columns.len()).filter(|column| columns[*column].is_some()).collect();
        // As many as there are data columns say what all others are.
        let Some(asked) = there.get(striping.data()..) else { return true };
        let mut copies: Vec<Option<Buf>> = (0..columns.len())
            .map(|column| columns[column].as_ref().filter(|_| !asked.contains(&column)))
            .map(|column| column.map(|column| self.copy_of(column)))
            .collect();
        if self.restore(striping, &mut copies, &[]).is_err() {
            return true;
        }
        asked.iter().all(|column| copies[*column].as_deref() == columns[*column].as_deref())
    }
}

/// Whether more columns are there than it takes to compute the others.
fn is_provable(striping: &Striping, columns: &[Option<Buf>]) -> bool {
    columns.iter().flatten().count() > striping.data()
}
