//! Scrub: whether parity bears out what segments hold, and setting right what it does not.
//!
//! When a stripe does not agree, nobody knows yet which of its columns is wrong: the data may have been
//! written or rotted since they were last verified. Each guess is weighed by how much around the stripe is
//! intact by its own checksums if it is right. The guess that explains most wins, and where none explains
//! more than that parity is wrong, parity is computed anew: a torn write, or rot in what is nobody's.

use std::ops::Range;

use ashlar_format::pointer::{PLACE_UNIT_BYTES, POINTED_BYTES_MAX};
use ashlar_format::segment::SegmentState;
use ashlar_runtime::{Buf, Durability};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, SegmentId};

use crate::stripes::{Striping, gather};
use crate::{Pool, Result};

/// Stripes compared at a time: 64 KiB of each column.
const STRIPES_AT_ONCE: u64 = 16;

/// How many bytes of a piece of a segment, which starts at this offset, are intact and where they belong by
/// what they say of themselves.
pub type Weigh<'a> = &'a dyn Fn(u64, &[u8]) -> u64;

struct Tools<'a> {
    weigh: Weigh<'a>,
    count: &'a mut ScrubCount,
}

/// A piece of a segment around a stripe.
struct Surroundings {
    /// Where in the segment it starts.
    offset: u64,
    run: Vec<u8>,
    /// Where the stripe is in it.
    at: usize,
}

impl Surroundings {
    /// How much is intact with this content of the stripe.
    fn weight_with(&self, blocks: &[Option<Buf>], weigh: Weigh<'_>) -> u64 {
        let mut run = self.run.clone();
        for (block, place) in blocks.iter().zip(run[self.at..].chunks_exact_mut(BLOCK_BYTES_USIZE)) {
            place.copy_from_slice(block.as_ref().expect("restored"));
        }
        weigh(self.offset, &run)
    }
}

/// What a scrub has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubCount {
    /// Stripes compared with their parity.
    pub stripes: u64,
    /// Stripes that could not be, or that do not agree and cannot be judged: a drive is out.
    pub unproven_stripes: u64,
    /// Blocks of data set right.
    pub data_blocks: u64,
    /// Blocks of parity set right.
    pub parity_blocks: u64,
}

impl Pool {
    /// Compares a segment with its parity, as far as it is written, and sets right what differs. `pause` is
    /// called after every piece.
    pub async fn scrub_segment<F: Future<Output = Result<()>>>(
        &self,
        segment: SegmentId,
        weigh: Weigh<'_>,
        count: &mut ScrubCount,
        mut pause: impl FnMut() -> F,
    ) -> Result<()> {
        let Some(striping) = &self.inner.striping else { return Ok(()) };
        let mut tools = Tools { weigh, count };
        let mut first = 0;
        while let Some(stripes) = self.settled_stripes(segment).filter(|stripes| first < *stripes) {
            let next = (first + STRIPES_AT_ONCE).min(stripes);
            self.scrub_stripes(striping, segment, first..next, &mut tools).await?;
            first = next;
            pause().await?;
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

    async fn scrub_stripes(
        &self,
        striping: &Striping,
        segment: SegmentId,
        stripes: Range<u64>,
        tools: &mut Tools<'_>,
    ) -> Result<()> {
        let place = self.place_of(segment)?;
        let _hold = self.inner.held.hold(place);
        // Who mends here meanwhile would write back what was read before.
        let _turn = self.inner.held.turn(place).await;
        let columns = self.read_columns(striping, place.cell, &stripes).await;
        let there = columns.iter().flatten().count();
        if there <= striping.data() {
            tools.count.unproven_stripes += stripes.end - stripes.start;
            return Ok(());
        }
        tools.count.stripes += stripes.end - stripes.start;
        let has_gaps = self.is_any_unreadable(striping, place.cell, &columns);
        if !has_gaps && self.are_agreed(striping, &columns) {
            return Ok(());
        }
        for (index, stripe) in stripes.enumerate() {
            let at = index * BLOCK_BYTES_USIZE;
            let block_of = |column: &Option<Buf>| column.as_ref().map(|column| self.block_of(column, at));
            let blocks: Vec<Option<Buf>> = match has_gaps {
                // One block that cannot be read fails the whole column.
                true => self.read_columns(striping, place.cell, &(stripe..stripe + 1)).await,
                false => columns.iter().map(block_of).collect(),
            };
            if !self.are_agreed(striping, &blocks) {
                self.set_right(striping, place.cell, stripe, &blocks, tools).await?;
            } else if self.is_any_unreadable(striping, place.cell, &blocks) {
                self.fill_gaps(striping, place.cell, stripe, &blocks, tools).await?;
            }
        }
        Ok(())
    }

    /// Whether a drive in service did not give what it should have.
    fn is_any_unreadable(&self, striping: &Striping, row: u32, columns: &[Option<Buf>]) -> bool {
        let is_served = |column: usize| self.readable(striping.cell(row, column).drive).is_some();
        columns.iter().enumerate().any(|(column, there)| there.is_none() && is_served(column))
    }

    /// Writes what drives in service cannot read of a stripe, when the others bear each other out: reads do
    /// that only for data that somebody asks for, and nobody asks for parity before it is needed.
    async fn fill_gaps(
        &self,
        striping: &Striping,
        row: u32,
        stripe: u64,
        found: &[Option<Buf>],
        tools: &mut Tools<'_>,
    ) -> Result<()> {
        if found.iter().flatten().count() <= striping.data() {
            return Ok(());
        }
        let mut blocks: Vec<Option<Buf>> =
            found.iter().map(|block| block.as_ref().map(|block| self.copy_of_buffer(block))).collect();
        self.restore(striping, &mut blocks, &[])?;
        for (column, block) in blocks.into_iter().enumerate().filter(|(column, _)| found[*column].is_none()) {
            let block = block.expect("restored");
            self.set_block(striping, row, column, stripe, block, tools.count).await?;
        }
        self.record_drives().await
    }

    /// Writes a block anew where its drive is in service.
    async fn set_block(
        &self,
        striping: &Striping,
        row: u32,
        column: usize,
        stripe: u64,
        block: Buf,
        count: &mut ScrubCount,
    ) -> Result<()> {
        let at = striping.cell(row, column);
        let Some(drive) = self.readable(at.drive) else { return Ok(()) };
        let address = self.cell_address(at.cell, striping.cell_bytes) + stripe * BLOCK_BYTES;
        match drive.write(address, block, Durability::Durable).await {
            Ok(()) => {
                drive.note_mended();
                let is_data = column < striping.data();
                count.data_blocks += u64::from(is_data);
                count.parity_blocks += u64::from(!is_data);
            }
            Err(error) => self.failed(at.drive, &drive, &error.context)?,
        }
        Ok(())
    }

    fn block_of(&self, column: &Buf, at: usize) -> Buf {
        let mut block = self.runtime().buffer(BLOCK_BYTES_USIZE);
        block.copy_from_slice(&column[at..at + BLOCK_BYTES_USIZE]);
        block
    }

    /// Whether the columns that are there agree.
    pub(crate) fn are_agreed(&self, striping: &Striping, columns: &[Option<Buf>]) -> bool {
        let there: Vec<usize> = (0..columns.len()).filter(|column| columns[*column].is_some()).collect();
        // As many as there are data columns say what all others are.
        let Some(asked) = there.get(striping.data()..) else { return true };
        let mut copies: Vec<Option<Buf>> = (0..columns.len())
            .map(|column| columns[column].as_ref().filter(|_| !asked.contains(&column)))
            .map(|column| column.map(|column| self.copy_of_buffer(column)))
            .collect();
        if self.restore(striping, &mut copies, &[]).is_err() {
            return true;
        }
        asked.iter().all(|column| copies[*column].as_deref() == columns[*column].as_deref())
    }

    /// Finds out which columns of a stripe are wrong and writes what they must hold.
    async fn set_right(
        &self,
        striping: &Striping,
        row: u32,
        stripe: u64,
        found: &[Option<Buf>],
        tools: &mut Tools<'_>,
    ) -> Result<()> {
        let data = striping.data();
        let (parity_is_there, data_is_whole) =
            (found[data..].iter().any(Option::is_some), found[..data].iter().all(Option::is_some));
        if !data_is_whole || !parity_is_there {
            // What parity stands for a lost column cannot be judged: left to reads, which know what is right.
            tools.count.unproven_stripes += 1;
            return Ok(());
        }
        let Some(surroundings) = self.surroundings(striping, row, stripe).await else { return Ok(()) };
        let parity: Vec<usize> = (data..found.len()).filter(|column| found[*column].is_some()).collect();
        let mut best: Option<(u64, Vec<Option<Buf>>)> = None;
        // First that parity is wrong: where no other guess explains more, the data count.
        for suspects in std::iter::once(parity.clone()).chain(self.guesses(striping, found)) {
            let mut blocks: Vec<Option<Buf>> =
                found.iter().map(|block| block.as_ref().map(|block| self.copy_of_buffer(block))).collect();
            if self.restore(striping, &mut blocks, &suspects).is_err() {
                continue;
            }
            let weight = surroundings.weight_with(&blocks[..data], tools.weigh);
            if best.as_ref().is_none_or(|(most, _)| weight > *most) {
                best = Some((weight, blocks));
            }
        }
        let Some((_, mut blocks)) = best else { return Ok(()) };
        // Parity that was not needed for the guess may be wrong as well.
        self.restore(striping, &mut blocks, &parity)?;
        for column in 0..blocks.len() {
            if found[column].is_none() || blocks[column].as_deref() == found[column].as_deref() {
                continue;
            }
            let block = blocks[column].take().expect("restored");
            self.set_block(striping, row, column, stripe, block, tools.count).await?;
        }
        self.record_drives().await
    }

    /// Columns that may be wrong: each of data, then each pair where two can be computed.
    fn guesses(&self, striping: &Striping, found: &[Option<Buf>]) -> Vec<Vec<usize>> {
        let lost = found.iter().filter(|block| block.is_none()).count();
        let (data, spare) = (striping.data(), striping.parity - lost.min(striping.parity));
        let there = |column: &usize| found[*column].is_some();
        let mut all: Vec<Vec<usize>> = Vec::new();
        if spare >= 1 {
            all.extend((0..data).map(|one| vec![one]));
        }
        if spare >= 2 {
            let others = |one: usize| (one + 1..found.len()).map(move |other| vec![one, other]);
            all.extend((0..data).flat_map(others).filter(|pair| pair.iter().all(there)));
        }
        all
    }

    /// What lies around a stripe as far as a record that touches it can reach.
    async fn surroundings(&self, striping: &Striping, row: u32, stripe: u64) -> Option<Surroundings> {
        let data = striping.data() as u64;
        let reach = POINTED_BYTES_MAX.div_ceil(data * BLOCK_BYTES);
        let stripes_max = self.segment_bytes() / self.stripe_bytes();
        let stripes = stripe.saturating_sub(reach)..(stripe + reach + 1).min(stripes_max);
        let mut columns = self.read_columns(striping, row, &stripes).await;
        // Good enough to weigh by: what cannot be read is somewhere around the stripe, not in it.
        self.restore(striping, &mut columns, &[]).ok()?;
        let blocks = stripes.start * data..stripes.end * data;
        let run = gather(self.runtime(), &columns, &blocks, striping.data());
        let at = ((stripe - stripes.start) * data) as usize * BLOCK_BYTES_USIZE;
        Some(Surroundings { offset: blocks.start * BLOCK_BYTES, run: run.to_vec(), at })
    }

    pub(crate) fn copy_of_buffer(&self, buffer: &Buf) -> Buf {
        let mut copy = self.runtime().buffer(buffer.len());
        copy.copy_from_slice(buffer);
        copy
    }
}
