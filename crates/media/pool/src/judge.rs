//! Judging a stripe whose columns do not agree: which of them is wrong?
//!
//! Each guess is weighed by how much is intact and where it belongs only because of what the stripe would
//! hold; the one that explains most wins. What is intact around it whatever the stripe holds says nothing: in
//! another stripe another column may be wrong. Where all data are there and nothing explains more than that
//! parity is wrong, the data count: a torn write, or rot in what is nobody's. A lost column of data is
//! computed anew with each guess, so it takes one column more than data to tell.
//!
//! With two columns more than data, one that is wrong alone can be *proven* to be (`proven`), which spares
//! the guessing: most of what a drive full of rubbish makes disagree is told so. It rests on three things. No
//! more columns are wrong than the pool promises to survive. Two stripes that agree differ in three columns
//! or more. And what is intact and at home is true, since no address is written twice.

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

/// What surroundings hold with some columns computed anew, to be weighed with different contents of one
/// stripe.
struct Scene {
    /// Where it begins in the segment.
    offset: u64,
    run: Buf,
    /// Where the stripe begins in the run.
    stripe_at: usize,
}

impl Judge<'_> {
    /// What all columns of a stripe must hold; `None` when nothing can tell.
    pub(crate) async fn judge(&self, stripe: u64, found: &[Option<Buf>]) -> Option<Vec<Option<Buf>>> {
        if found.iter().flatten().count() <= self.striping.data() {
            return None;
        }
        let surroundings = self.surroundings(&(stripe..stripe + 1)).await;
        if let Some(proven) = self.proven(&surroundings, stripe, found).await {
            return Some(proven);
        }
        let nothing = self.blank(found.len());
        let as_it_is = self.scene(&surroundings, &[], stripe);
        let bare = self.weigh_in(as_it_is.as_ref(), &nothing).await;
        let mut best: Option<(Gain, Vec<Option<Buf>>)> = None;
        for suspects in guesses(self.striping, found) {
            let Some(blocks) = self.pool.restored(self.striping, found, &suspects) else { continue };
            // The same column may be wrong all around, or nothing else.
            let alone = self.weigh_in(as_it_is.as_ref(), &blocks).await.gain_over(bare);
            let all_around = self.scene(&surroundings, &suspects, stripe);
            let without = self.weigh_in(all_around.as_ref(), &nothing).await;
            let around = self.weigh_in(all_around.as_ref(), &blocks).await.gain_over(without);
            let gain = alone.max(around);
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, blocks));
            }
        }
        // Parity that was not needed for the guess may be wrong as well.
        let parity: Vec<usize> = (self.striping.data()..self.striping.width()).collect();
        self.pool.restored(self.striping, &best?.1, &parity)
    }

    /// The content of a stripe of which one column is proven to be wrong, and no other.
    async fn proven(
        &self,
        surroundings: &Surroundings,
        stripe: u64,
        found: &[Option<Buf>],
    ) -> Option<Vec<Option<Buf>>> {
        let data = self.striping.data();
        // Without the suspect there must be one left to compare the others with.
        if found.iter().flatten().count() < data + 2 {
            return None;
        }
        let with_others_agreed = |suspect: usize| {
            let blocks = self.pool.restored(self.striping, found, &[suspect])?;
            self.pool.are_agreed(self.striping, &blocks).then_some((suspect, blocks))
        };
        let (suspect, blocks) = (0..found.len()).find_map(with_others_agreed)?;
        let is_proven = match suspect < data {
            true => self.explains_more(surroundings, stripe, (suspect, &blocks), found).await,
            false => self.are_data_borne_out(surroundings, stripe, (suspect, &blocks), found).await,
        };
        is_proven.then_some(blocks)
    }

    /// Whether something is at home with the suspect computed from the others that is not with what it holds:
    /// then it is wrong. One more that is wrong could not agree with the others.
    async fn explains_more(
        &self,
        surroundings: &Surroundings,
        stripe: u64,
        (suspect, blocks): (usize, &[Option<Buf>]),
        found: &[Option<Buf>],
    ) -> bool {
        for suspects in [&[suspect][..], &[]] {
            let Some(scene) = self.scene(surroundings, suspects, stripe) else { continue };
            let with = self.weigh_in(Some(&scene), blocks).await;
            if with.home_bytes > self.weigh_in(Some(&scene), found).await.home_bytes {
                return true;
            }
        }
        false
    }

    /// Whether in each column of data something is at home where this parity does not fit. Had another been
    /// wrong there, and this one right, the first would have to be one of data, since all but this one agree.
    async fn are_data_borne_out(
        &self,
        surroundings: &Surroundings,
        stripe: u64,
        (suspect, blocks): (usize, &[Option<Buf>]),
        found: &[Option<Buf>],
    ) -> bool {
        let (Some(there), Some(fitting)) = (&found[suspect], &blocks[suspect]) else { return false };
        let Some(scene) = self.scene(surroundings, &[], stripe) else { return false };
        let all = self.weigh_in(Some(&scene), found).await.home_bytes;
        for column in 0..self.striping.data() {
            let mut without = self.pool.copies_of(found);
            let Some(block) = &mut without[column] else { return false };
            // What covers one of these bytes is not intact any more.
            let differs = there.iter().zip(&fitting[..]).map(|(there, fitting)| there != fitting);
            block.iter_mut().zip(differs).filter(|(_, differs)| *differs).for_each(|(byte, _)| *byte ^= 0xff);
            if self.weigh_in(Some(&scene), &without).await.home_bytes >= all {
                return false;
            }
        }
        true
    }

    /// Whether the witness explains more than what the others make of its column.
    pub(crate) async fn is_witness_right(&self, stripes: &Range<u64>) -> bool {
        let Some((column, _)) = self.witness else { return false };
        let surroundings = self.surroundings(stripes).await;
        let Some(without) = self.weight_of_all(&surroundings, &[column]).await else { return false };
        let there = |other: &usize| *other != column && surroundings.columns[*other].is_some();
        for other in (0..self.striping.width()).filter(there) {
            let with = self.weight_of_all(&surroundings, &[other]).await;
            // What merely is intact may be what its place held before.
            if with.is_some_and(|with| with.home_bytes > without.home_bytes) {
                return true;
            }
        }
        false
    }

    /// Surroundings with these suspects computed anew; `None` when they cannot be.
    fn scene(&self, surroundings: &Surroundings, suspects: &[usize], stripe: u64) -> Option<Scene> {
        let Surroundings { stripes, columns } = surroundings;
        let columns = self.pool.restored(self.striping, columns, suspects)?;
        let data = self.striping.data();
        let blocks = stripes.start * data as u64..stripes.end * data as u64;
        let run = gather(self.pool.runtime(), &columns, &blocks, data);
        let stripe_at = (stripe - stripes.start) as usize * data * BLOCK_BYTES_USIZE;
        Some(Scene { offset: blocks.start * BLOCK_BYTES, run, stripe_at })
    }

    /// The weight of a scene with this stripe in it; nothing where there is no scene.
    async fn weigh_in(&self, scene: Option<&Scene>, stripe: &[Option<Buf>]) -> Weight {
        let Some(Scene { offset, run, stripe_at }) = scene else { return Weight::default() };
        let mut piece = run.to_vec();
        for (block, to) in
            stripe[..self.striping.data()].iter().zip(piece[*stripe_at..].chunks_exact_mut(BLOCK_BYTES_USIZE))
        {
            to.copy_from_slice(block.as_ref().expect("restored"));
        }
        (self.weigh)(self.segment, *offset, piece).await
    }

    async fn weight_of_all(&self, surroundings: &Surroundings, suspects: &[usize]) -> Option<Weight> {
        let Scene { offset, run, .. } = self.scene(surroundings, suspects, surroundings.stripes.start)?;
        Some((self.weigh)(self.segment, offset, run.to_vec()).await)
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
