//! Judging a stripe whose columns do not agree: which of them is wrong?
//!
//! Each guess is weighed by how much is intact and where it belongs only because of what the stripe would
//! hold; the one that explains most wins. What is intact around it whatever the stripe holds says nothing: in
//! another stripe another column may be wrong. Where all data are there and nothing explains more than that
//! parity is wrong, the data count: a torn write, or rot in what is nobody's. A lost column of data is
//! computed anew with each guess, so it takes one column more than data to tell.

use std::ops::Range;

use ashlar_drive::Drive;
use ashlar_format::pointer::POINTED_BYTES_MAX;
use ashlar_runtime::{Buf, LocalFuture};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, SegmentId};

use crate::Pool;
use crate::stripes::{Striping, gather};

/// How much of a piece of a segment speaks for it: compared in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Weight {
    /// Bytes that are intact and where they belong.
    pub home_bytes: u64,
    /// Bytes that are intact.
    pub intact_bytes: u64,
}

impl Weight {
    fn gain_over(self, without: Weight) -> Gain {
        let more = |with: u64, without: u64| with.cast_signed() - without.cast_signed();
        Gain(more(self.home_bytes, without.home_bytes), more(self.intact_bytes, without.intact_bytes))
    }
}

/// What one weight is more than another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gain(i64, i64);

/// Weighs a piece of a segment that starts at this offset.
pub type Weigh<'a> = &'a dyn Fn(SegmentId, u64, Vec<u8>) -> LocalFuture<'static, Weight>;

/// Who judges stripes of a segment.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) striping: &'a Striping,
    pub(crate) segment: SegmentId,
    pub(crate) row: u32,
    pub(crate) weigh: Weigh<'a>,
    /// A column whose drive is being rebuilt, and is heard all the same.
    pub(crate) witness: Option<(usize, &'a Drive)>,
}

/// Stripes that lie together: what is to be judged, and what a record that touches it can reach.
struct Surroundings {
    stripes: Range<u64>,
    /// What the drives hold.
    columns: Vec<Option<Buf>>,
}

impl Judge<'_> {
    /// What all columns of a stripe must hold; `None` when nothing can tell.
    pub(crate) async fn judge(&self, stripe: u64, found: &[Option<Buf>]) -> Option<Vec<Option<Buf>>> {
        if found.iter().flatten().count() <= self.striping.data() {
            return None;
        }
        let surroundings = self.surroundings(&(stripe..stripe + 1)).await;
        let nothing = self.blank(found.len());
        let weigh = async |around: &[usize], blocks: &[Option<Buf>]| {
            self.weight_with(&surroundings, around, Some((stripe, blocks))).await.unwrap_or_default()
        };
        let bare = weigh(&[], &nothing).await;
        let mut best: Option<(Gain, Vec<Option<Buf>>)> = None;
        for suspects in guesses(self.striping, found) {
            let Some(blocks) = self.pool.restored(self.striping, found, &suspects) else { continue };
            // The same column may be wrong all around, or nothing else.
            let alone = weigh(&[], &blocks).await.gain_over(bare);
            let around = weigh(&suspects, &blocks).await.gain_over(weigh(&suspects, &nothing).await);
            let gain = alone.max(around);
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, blocks));
            }
        }
        // Parity that was not needed for the guess may be wrong as well.
        let parity: Vec<usize> = (self.striping.data()..self.striping.width()).collect();
        self.pool.restored(self.striping, &best?.1, &parity)
    }

    /// Whether the witness explains more than what the others make of its column.
    pub(crate) async fn is_witness_right(&self, stripes: &Range<u64>) -> bool {
        let Some((column, _)) = self.witness else { return false };
        let surroundings = self.surroundings(stripes).await;
        let Some(without) = self.weight_with(&surroundings, &[column], None).await else { return false };
        let there = |other: &usize| *other != column && surroundings.columns[*other].is_some();
        for other in (0..self.striping.width()).filter(there) {
            let with = self.weight_with(&surroundings, &[other], None).await;
            // What merely is intact may be what its place held before.
            if with.is_some_and(|with| with.home_bytes > without.home_bytes) {
                return true;
            }
        }
        false
    }

    /// The weight of all around a stripe with these suspects computed anew, and the stripe itself as given;
    /// `None` when they cannot be computed.
    async fn weight_with(
        &self,
        surroundings: &Surroundings,
        suspects: &[usize],
        given: Option<(u64, &[Option<Buf>])>,
    ) -> Option<Weight> {
        let Surroundings { stripes, columns } = surroundings;
        let mut columns = self.pool.restored(self.striping, columns, suspects)?;
        if let Some((stripe, blocks)) = given {
            let at = (stripe - stripes.start) as usize * BLOCK_BYTES_USIZE;
            for (column, block) in columns.iter_mut().zip(blocks) {
                let (column, block) = (column.as_mut().expect("restored"), block.as_ref().expect("restored"));
                column[at..at + BLOCK_BYTES_USIZE].copy_from_slice(block);
            }
        }
        let data = self.striping.data();
        let blocks = stripes.start * data as u64..stripes.end * data as u64;
        let run = gather(self.pool.runtime(), &columns, &blocks, data);
        Some((self.weigh)(self.segment, blocks.start * BLOCK_BYTES, run.to_vec()).await)
    }

    /// A stripe of which nothing is known.
    fn blank(&self, width: usize) -> Vec<Option<Buf>> {
        (0..width).map(|_| Some(self.pool.runtime().buffer_from(&[0; BLOCK_BYTES_USIZE]))).collect()
    }

    async fn surroundings(&self, stripes: &Range<u64>) -> Surroundings {
        let reach = POINTED_BYTES_MAX.div_ceil(self.striping.data() as u64 * BLOCK_BYTES);
        let stripes_max = self.pool.segment_bytes() / self.pool.stripe_bytes();
        let stripes = stripes.start.saturating_sub(reach)..(stripes.end + reach).min(stripes_max);
        let columns = self.read(&stripes).await;
        Surroundings { stripes, columns }
    }

    /// What the drives hold of these stripes.
    pub(crate) async fn read(&self, stripes: &Range<u64>) -> Vec<Option<Buf>> {
        let mut columns = self.pool.read_columns(self.striping, self.row, stripes).await;
        self.hear_witness(stripes, &mut columns).await;
        columns
    }

    /// Puts what the witness holds among what the other drives do.
    pub(crate) async fn hear_witness(&self, stripes: &Range<u64>, columns: &mut [Option<Buf>]) {
        let Some((column, drive)) = self.witness else { return };
        let (_, address) = self.pool.column_address(self.striping, self.row, column, stripes.start);
        let length = (stripes.end - stripes.start) as usize * BLOCK_BYTES_USIZE;
        columns[column] = drive.read(address, length).await.ok();
    }
}

impl Pool {
    /// Copies of columns, those that are not there and the suspects computed from the others.
    pub(crate) fn restored(
        &self,
        striping: &Striping,
        columns: &[Option<Buf>],
        suspects: &[usize],
    ) -> Option<Vec<Option<Buf>>> {
        let mut copies = self.copies_of(columns);
        self.restore(striping, &mut copies, suspects).ok()?;
        Some(copies)
    }

    pub(crate) fn copies_of(&self, columns: &[Option<Buf>]) -> Vec<Option<Buf>> {
        columns.iter().map(|column| column.as_ref().map(|column| self.copy_of(column))).collect()
    }

    pub(crate) fn copy_of(&self, buffer: &Buf) -> Buf {
        let mut copy = self.runtime().buffer(buffer.len());
        copy.copy_from_slice(buffer);
        copy
    }
}

/// Columns that may be wrong, the guess that counts where none explains more first: parity, then each
/// column of data, then each pair where two can be computed.
fn guesses(striping: &Striping, found: &[Option<Buf>]) -> Vec<Vec<usize>> {
    let (data, width) = (striping.data(), found.len());
    let there = |column: &usize| found[*column].is_some();
    let lost = found.iter().filter(|block| block.is_none()).count();
    let parity = (data..width).filter(there);
    let mut all: Vec<Vec<usize>> = match found[..data].iter().all(Option::is_some) {
        true => vec![parity.collect()],
        // One of them is what the lost column is computed from.
        false => parity.map(|one| vec![one]).collect(),
    };
    all.extend((0..data).filter(there).map(|one| vec![one]));
    if lost + 2 <= striping.parity {
        let others = |one: usize| (one + 1..width).map(move |other| vec![one, other]);
        all.extend((0..data).flat_map(others));
    }
    all
}
