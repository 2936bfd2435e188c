//! Reading places of a pool: from the drives that are there, and round damage through parity.
//!
//! Every read states what proves it: nothing leaves this file that its reader has not verified. The ways
//! to read a range are tried in turn, plain first, until one of them proves.
//!
//! What a place holds now is proven by nothing but the drives themselves: the header of a former segment is
//! as whole as the present one's. For that the columns of drives that lack something alone say nothing, and
//! of all headers that any way of reading gives the newest counts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ashlar_format::MediaKey;
use ashlar_format::rows::Rows;
use ashlar_format::segment::{Place, SEGMENT_HEADER_BYTES, SegmentHeader};
use ashlar_format::superblock::{CELLS_START_BYTES, Superblock};
use ashlar_parity::{Column, Kernel};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE, SegmentId};

use crate::redundancy::Standing;
use crate::source::Source;
use crate::why::Why;

/// The drives of a pool, to be read only.
pub(crate) struct Storage {
    pub(crate) superblock: Superblock,
    sources: Vec<Option<Box<dyn Source>>>,
    pub(crate) standings: Vec<Standing>,
    striping: Option<Striping>,
    /// Stripes, or blocks without parity, that hold something that was read and proven.
    in_use: RefCell<BTreeMap<Place, BTreeSet<u32>>>,
    /// An array writes to them meanwhile.
    pub(crate) is_served: bool,
}

struct Striping {
    rows: Rows,
    parity: usize,
    kernel: Kernel,
}

impl Striping {
    fn data(&self) -> usize {
        self.rows.width() - self.parity
    }
}

/// How far what was read is to be believed when nothing proves it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From all drives that can be relied on.
    Relied,
    /// From some of them, as if others were wrong.
    Supposed,
    /// Also from drives that lack something.
    Doubtful,
}

/// The newest header that a place shows.
pub(crate) struct Newest {
    pub(crate) header: Option<SegmentHeader>,
    /// Drives that can be relied on show a header there, or that the place was never used.
    pub(crate) is_sure: bool,
}

type Columns = Vec<Option<Vec<u8>>>;

/// What a comparison with parity found.
#[derive(Clone, Copy, Default)]
pub(crate) struct Agreement {
    pub(crate) compared: u64,
    pub(crate) disagreeing: u64,
    /// Those of them that hold nothing that was read.
    pub(crate) disagreeing_unused: u64,
    /// Too few columns are there to tell.
    pub(crate) unproven: u64,
}

impl Storage {
    pub(crate) fn new(
        superblock: Superblock,
        sources: Vec<Option<Box<dyn Source>>>,
        standings: Vec<Standing>,
        is_served: bool,
    ) -> Storage {
        let striping = superblock.layout.as_ref().map(|layout| Striping {
            rows: Rows::new(layout),
            parity: usize::from(superblock.protection.parity_strips()),
            kernel: Kernel::detect(),
        });
        Storage { superblock, sources, standings, striping, in_use: RefCell::default(), is_served }
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        u64::from(self.superblock.segment_bytes)
    }

    /// Every place of the pool, in the order of its segment table.
    pub(crate) fn places(&self) -> Vec<Place> {
        let of = |drive: usize, cells: u32| {
            let drive = ashlar_units::DriveIndex(drive as u16);
            (0..cells).map(move |cell| Place { drive, cell })
        };
        match &self.striping {
            Some(striping) => of(0, striping.rows.count()).collect(),
            None => {
                let drives = self.superblock.drives.iter().enumerate();
                drives.flat_map(|(number, entry)| of(number, entry.cells)).collect()
            }
        }
    }

    /// Places of drives that have not left.
    pub(crate) fn place_count(&self) -> usize {
        self.places().into_iter().filter(|place| !self.has_left(*place)).count()
    }

    /// Whether a place is on a drive that has left.
    pub(crate) fn has_left(&self, place: Place) -> bool {
        self.striping.is_none() && self.superblock.has_left(place.drive)
    }

    fn has_place(&self, place: Place) -> bool {
        match &self.striping {
            Some(striping) => place.cell < striping.rows.count(),
            None => {
                let entry = self.superblock.drives.get(usize::from(place.drive.0));
                entry.is_some_and(|entry| place.cell < entry.cells)
            }
        }
    }

    /// Reads a range of a segment in each way there is until `prove` takes it.
    pub(crate) fn read_proven<T>(
        &self,
        place: Place,
        segment: SegmentId,
        bytes: Range<u64>,
        mut prove: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<T, Why> {
        self.read(place, segment, bytes, |bytes, _| prove(bytes))
    }

    /// Reads a range that nothing proves, from drives that can be relied on: only to look at.
    pub(crate) fn read_unproven(
        &self,
        place: Place,
        segment: SegmentId,
        bytes: Range<u64>,
    ) -> Result<Vec<u8>, Why> {
        self.read(place, segment, bytes, |bytes, way| (way == Way::Relied).then(|| bytes.to_vec()))
    }

    /// Reads a range in each way there is until `take` takes it.
    fn read<T>(
        &self,
        place: Place,
        segment: SegmentId,
        bytes: Range<u64>,
        mut take: impl FnMut(&[u8], Way) -> Option<T>,
    ) -> Result<T, Why> {
        let bytes = bytes.start..bytes.end.min(self.segment_bytes());
        if !self.has_place(place) || bytes.is_empty() {
            return Err(Why::Damaged);
        }
        match &self.striping {
            Some(striping) => self.read_row(striping, place.cell, segment, bytes, &mut take),
            None => {
                let drive = usize::from(place.drive.0);
                let address = CELLS_START_BYTES + u64::from(place.cell) * self.segment_bytes() + bytes.start;
                let length = (bytes.end - bytes.start) as usize;
                let found = self.read_drive(drive, address, length).ok_or(Why::Unreadable)?;
                let is_relied = self.standings[drive].holds(segment);
                take(&found, if is_relied { Way::Relied } else { Way::Doubtful }).ok_or(Why::Damaged)
            }
        }
    }

    /// What the pool's checksums are made with.
    pub(crate) fn key(&self) -> &MediaKey {
        &self.superblock.key
    }

    /// Reads the header of a segment of which it is known that it should lie at a place.
    pub(crate) fn read_header(&self, place: Place, segment: SegmentId) -> Result<SegmentHeader, Why> {
        self.read_proven(place, segment, 0..SEGMENT_HEADER_BYTES, |bytes| {
            self.header_in(place, bytes).filter(|header| header.segment == segment)
        })
    }

    /// What lies at a place now, told by nothing but the drives.
    ///
    /// Where the columns of drives that can be relied on agree, they tell. Otherwise something is damaged, or
    /// cut off, or left from before a drive was away: then all ways of reading are tried. A place that was
    /// never used agrees, so that the search through all of a large pool does not take hours.
    pub(crate) fn newest_header(&self, place: Place) -> Newest {
        let mut newest = Newest { header: None, is_sure: false };
        let end = SEGMENT_HEADER_BYTES;
        // Number the last: of no drive that lacks anything is it known that it holds the newest.
        let asked = SegmentId(u32::MAX);
        let is_agreed = self.agrees_at(place, asked, 0) == Some(true);
        let _all_were_tried = self.read(place, asked, 0..end, |bytes, way| {
            let header = self.header_in(place, bytes);
            newest.is_sure |= match way {
                Way::Relied => header.is_some() || bytes.iter().all(|byte| *byte == 0),
                Way::Supposed => header.is_some(),
                Way::Doubtful => false,
            };
            let later =
                |header: &SegmentHeader| newest.header.is_none_or(|known| header.segment > known.segment);
            if let Some(header) = header.filter(later) {
                newest.header = Some(header);
            }
            (is_agreed && way == Way::Relied).then_some(())
        });
        newest
    }

    fn header_in(&self, place: Place, bytes: &[u8]) -> Option<SegmentHeader> {
        let header = SegmentHeader::decode(&self.superblock.key, bytes).ok()?;
        (header.pool == self.superblock.pool && header.place == place).then_some(header)
    }

    fn read_drive(&self, drive: usize, address: u64, length: usize) -> Option<Vec<u8>> {
        let source = self.sources.get(drive)?.as_ref()?;
        let mut bytes = vec![0; length];
        source.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    fn read_row<T>(
        &self,
        striping: &Striping,
        row: u32,
        segment: SegmentId,
        bytes: Range<u64>,
        take: &mut impl FnMut(&[u8], Way) -> Option<T>,
    ) -> Result<T, Why> {
        let (data, width) = (striping.data(), striping.rows.width());
        let blocks = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
        let stripes = blocks.start / data as u64..blocks.end.div_ceil(data as u64);
        let touched: Vec<usize> =
            blocks.clone().take(data).map(|block| (block % data as u64) as usize).collect();
        let mut found: Columns = vec![None; width];
        for column in &touched {
            found[*column] = self.read_column(striping, row, *column, &stripes);
        }
        let range = Asked { bytes: &bytes, blocks: &blocks, stripes: &stripes, data };
        let is_stale = |column: &usize| self.is_stale(striping, row, *column, segment);
        let plain = if touched.iter().any(is_stale) { Way::Doubtful } else { Way::Relied };
        if let Some(taken) = range.gather(&found).and_then(|run| take(&run, plain)) {
            return Ok(taken);
        }
        for column in (0..width).filter(|column| !touched.contains(column)) {
            found[column] = self.read_column(striping, row, column, &stripes);
        }
        let absent: Vec<usize> = (0..width).filter(|column| found[*column].is_none()).collect();
        let distrusted: Vec<usize> =
            (0..width).filter(|column| absent.contains(column) || is_stale(column)).collect();
        let bases = if distrusted == absent { vec![&absent] } else { vec![&distrusted, &absent] };
        for base in bases {
            for suspects in suspicions(base, &touched, striping.parity, width) {
                let Some(columns) = restored(striping, &found, &suspects) else { continue };
                let way = match () {
                    () if suspects == distrusted => Way::Relied,
                    () if distrusted.iter().all(|column| suspects.contains(column)) => Way::Supposed,
                    () => Way::Doubtful,
                };
                if let Some(taken) = range.gather(&columns).and_then(|run| take(&run, way)) {
                    return Ok(taken);
                }
            }
        }
        let is_needed = touched.iter().any(|at| distrusted.contains(at));
        let is_out_of_reach = distrusted.len() > striping.parity && is_needed;
        Err(if is_out_of_reach { Why::Unreadable } else { Why::Damaged })
    }

    fn read_column(
        &self,
        striping: &Striping,
        row: u32,
        column: usize,
        stripes: &Range<u64>,
    ) -> Option<Vec<u8>> {
        let at = striping.rows.home(row, column).at;
        let address = CELLS_START_BYTES
            + u64::from(at.cell) * u64::from(self.superblock.cell_bytes)
            + stripes.start * BLOCK_BYTES;
        self.read_drive(at.drive, address, (stripes.end - stripes.start) as usize * BLOCK_BYTES_USIZE)
    }

    /// Whether a column is on a drive that lacks what was written to this segment, or may lack it.
    fn is_stale(&self, striping: &Striping, row: u32, column: usize, segment: SegmentId) -> bool {
        let mut drives = striping.rows.home(row, column).drives();
        drives.any(|drive| !self.standings[drive].holds(segment))
    }

    /// Something that lies here was read and proven.
    pub(crate) fn note_use(&self, place: Place, bytes: Range<u64>) {
        let stripe_bytes = self.striping.as_ref().map_or(1, Striping::data) as u64 * BLOCK_BYTES;
        let mut in_use = self.in_use.borrow_mut();
        let stripes = bytes.start / stripe_bytes..bytes.end.div_ceil(stripe_bytes);
        in_use.entry(place).or_default().extend(stripes.map(|stripe| stripe as u32));
    }

    /// Whether anything that was read lies at a place.
    pub(crate) fn has_use(&self, place: Place) -> bool {
        self.in_use.borrow().contains_key(&place)
    }

    fn is_in_use(&self, place: Place, stripe: u64) -> bool {
        let in_use = self.in_use.borrow();
        in_use.get(&place).is_some_and(|stripes| stripes.contains(&(stripe as u32)))
    }

    /// Compares the first bytes of a segment with parity.
    pub(crate) fn compare(&self, place: Place, segment: SegmentId, used_bytes: u64) -> Agreement {
        let mut agreement = Agreement::default();
        let Some(striping) = &self.striping else { return agreement };
        let stripe_bytes = striping.data() as u64 * BLOCK_BYTES;
        let used_stripes = used_bytes.next_multiple_of(stripe_bytes).min(self.segment_bytes()) / stripe_bytes;
        for stripe in 0..used_stripes {
            match self.agrees_in(striping, place, segment, stripe) {
                None => agreement.unproven += 1,
                Some(is_agreed) => {
                    agreement.compared += 1;
                    let is_used = self.is_in_use(place, stripe);
                    agreement.disagreeing += u64::from(!is_agreed && is_used);
                    agreement.disagreeing_unused += u64::from(!is_agreed && !is_used);
                }
            }
        }
        agreement
    }
}

impl Storage {
    /// Whether the stripe at an offset agrees with its parity; `None` when that cannot be told.
    pub(crate) fn agrees_at(&self, place: Place, segment: SegmentId, offset: u64) -> Option<bool> {
        let striping = self.striping.as_ref()?;
        let stripe = offset / (striping.data() as u64 * BLOCK_BYTES);
        self.agrees_in(striping, place, segment, stripe)
    }

    fn agrees_in(&self, striping: &Striping, place: Place, segment: SegmentId, stripe: u64) -> Option<bool> {
        let stripes = stripe..stripe + 1;
        let columns: Columns = (0..striping.rows.width())
            .map(|column| {
                let is_fresh = !self.is_stale(striping, place.cell, column, segment);
                is_fresh.then(|| self.read_column(striping, place.cell, column, &stripes)).flatten()
            })
            .collect();
        agrees(striping, &columns)
    }
}

/// A range of a segment over the columns of its row.
struct Asked<'a> {
    bytes: &'a Range<u64>,
    blocks: &'a Range<u64>,
    stripes: &'a Range<u64>,
    data: usize,
}

impl Asked<'_> {
    /// The range out of columns, if those it touches are there.
    fn gather(&self, columns: &[Option<Vec<u8>>]) -> Option<Vec<u8>> {
        let mut run = Vec::with_capacity(((self.blocks.end - self.blocks.start) * BLOCK_BYTES) as usize);
        for block in self.blocks.clone() {
            let column = columns[(block % self.data as u64) as usize].as_ref()?;
            let at = (block / self.data as u64 - self.stripes.start) as usize * BLOCK_BYTES_USIZE;
            run.extend_from_slice(&column[at..at + BLOCK_BYTES_USIZE]);
        }
        let start = (self.bytes.start - self.blocks.start * BLOCK_BYTES) as usize;
        run.truncate(start + (self.bytes.end - self.bytes.start) as usize);
        Some(run.split_off(start))
    }
}

/// Sets of columns to compute anew: those that must be, then with each one more, then with each pair more,
/// as far as parity goes. Only sets that change what is asked for.
fn suspicions(base: &[usize], touched: &[usize], parity: usize, width: usize) -> Vec<Vec<usize>> {
    let Some(spare) = parity.checked_sub(base.len()) else { return Vec::new() };
    let others: Vec<usize> = (0..width).filter(|column| !base.contains(column)).collect();
    let mut sets = vec![base.to_vec()];
    if spare >= 1 {
        sets.extend(others.iter().map(|one| [base, &[*one]].concat()));
    }
    if spare >= 2 {
        for (at, one) in others.iter().enumerate() {
            sets.extend(others[at + 1..].iter().map(|two| [base, &[*one, *two]].concat()));
        }
    }
    sets.retain(|set| set.iter().any(|column| touched.contains(column)));
    sets
}

/// The columns with these computed from the others.
fn restored(striping: &Striping, found: &[Option<Vec<u8>>], lost: &[usize]) -> Option<Columns> {
    let is_lost = |column: usize| lost.contains(&column) || found[column].is_none();
    if (0..found.len()).filter(|column| is_lost(*column)).count() > striping.parity {
        return None;
    }
    let length = found.iter().flatten().map(Vec::len).next()?;
    let mut columns: Vec<Vec<u8>> =
        found.iter().map(|column| column.clone().unwrap_or_else(|| vec![0; length])).collect();
    let mut views: Vec<Column<'_>> = columns
        .iter_mut()
        .enumerate()
        .map(|(column, bytes)| if is_lost(column) { Column::Missing(bytes) } else { Column::Present(bytes) })
        .collect();
    let mut parity = views.split_off(striping.data()).into_iter();
    let p = parity.next()?;
    let q = parity.next().unwrap_or(Column::Absent);
    striping.kernel.reconstruct(&mut views, p, q);
    Some(columns.into_iter().map(Some).collect())
}

/// Whether the columns that are there agree; `None` when nothing is left to compare.
fn agrees(striping: &Striping, columns: &[Option<Vec<u8>>]) -> Option<bool> {
    let there: Vec<usize> = (0..columns.len()).filter(|column| columns[*column].is_some()).collect();
    // As many as there are data columns say what all others are.
    let asked = there.get(striping.data()..).filter(|asked| !asked.is_empty())?;
    let computed = restored(striping, columns, asked)?;
    Some(asked.iter().all(|column| computed[*column] == columns[*column]))
}
