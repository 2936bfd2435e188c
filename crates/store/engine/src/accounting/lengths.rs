//! How many bytes records take on drives, exactly, and which blocks they hold.
//!
//! A pointer knows a length rounded up to 256 bytes, and records follow each other every 64: summed up,
//! pointers tell more bytes than a segment has. The exact length is in the footer of a sealed segment,
//! for all its records in one read; where there is none (segments still open, or open when the pool stopped)
//! it is read from the records' own headers.

use ashlar_format::MediaKey;
use ashlar_format::Pointer;
use ashlar_format::chunk::ChunkHeader;
use ashlar_format::page::{PAGE_HEADER_BYTES, PageHeader};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::FooterEntry;
use ashlar_runtime::Buf;
use ashlar_units::SegmentId;

use super::turn::Turn;
use crate::engine::Inner;
use crate::listing::read_footer;
use crate::{Error, ErrorKind, Result};

/// Records closer than this are read together: one read costs about as much as so many bytes more.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// One read at most.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Pointers looked up, or records measured, in one step.
const RECORDS_PER_STEP: usize = 256;

/// What a record takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Measured {
    /// Header and payload, rounded up to the 64 bytes at which the next one may start.
    pub(super) bytes: u64,
    /// The volume that wrote it, low 28 bits.
    pub(super) writer: u64,
    /// A bit for each block that a chunk holds; none for a page.
    pub(super) kept: u16,
}

impl Measured {
    fn new(length_bytes: u64, writer: u64, kept: u16) -> Measured {
        Measured { bytes: length_bytes.next_multiple_of(PLACE_UNIT_BYTES), writer, kept }
    }

    /// What a footer says; `None` where it does not say all.
    fn listed(entry: &FooterEntry, pointer: Pointer) -> Option<Measured> {
        let kept = match entry.blocks {
            _ if pointer.is_page() => 0,
            0 => return None,
            // What is left of a trimmed chunk a footer does not say.
            blocks => ChunkHeader::all_of(blocks),
        };
        Some(Measured::new(u64::from(entry.length_bytes), entry.owner >> 36, kept))
    }

    /// The share of the blocks that nothing refers to, when these are referred to. Compressed together,
    /// all blocks count alike: what trimming them saves is known only then.
    pub(super) fn stranded_bytes(&self, alive: u16) -> u64 {
        let stranded = u64::from((self.kept & !alive).count_ones());
        self.bytes * stranded / u64::from(self.kept.count_ones().max(1))
    }
}

/// A record's place now, and its index in the list asked for.
type Placed = (SegmentId, u64, usize);

/// Measures the records of these pointers, in their order.
pub(super) async fn measure(turn: &Turn<'_>, pointers: &[Pointer]) -> Result<Vec<Measured>> {
    let inner = turn.inner;
    let mut placed: Vec<Placed> = Vec::with_capacity(pointers.len());
    for (index, pointer) in pointers.iter().enumerate() {
        if index.is_multiple_of(RECORDS_PER_STEP) {
            turn.step().await?;
        }
        let at = inner.media.locate(*pointer).await?;
        placed.push((at.segment, at.offset_bytes, index));
    }
    placed.sort_unstable();
    let mut records = vec![Measured::default(); pointers.len()];
    for run in placed.chunk_by(|one, next| one.0 == next.0) {
        measure_segment(turn, pointers, run, &mut records).await?;
    }
    Ok(records)
}

async fn measure_segment(
    turn: &Turn<'_>,
    pointers: &[Pointer],
    run: &[Placed],
    records: &mut [Measured],
) -> Result<()> {
    let pool = &turn.inner.pool;
    let footer = match pool.with_table(|table| table.find(run[0].0).copied()) {
        Some(entry) => read_footer(pool, &entry).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let mut piece = Piece::default();
    for (rank, (_, offset, index)) in run.iter().enumerate() {
        if rank.is_multiple_of(RECORDS_PER_STEP) {
            turn.step().await?;
        }
        let units = offset / PLACE_UNIT_BYTES;
        let found = footer.binary_search_by_key(&units, |entry| u64::from(entry.offset_units));
        if let Some(record) = found.ok().and_then(|at| Measured::listed(&footer[at], pointers[*index])) {
            records[*index] = record;
            continue;
        }
        if !piece.has(*offset, pointers[*index]) {
            turn.step().await?;
            // What cannot be read here may have been moved: the record is looked for once more below.
            piece = Piece::read(turn.inner, pointers, &run[rank..]).await.unwrap_or_default();
        }
        records[*index] = match piece.open(turn.inner, *offset, pointers[*index]) {
            Some(record) => record,
            None => read_alone(turn.inner, pointers[*index]).await?,
        };
    }
    Ok(())
}

/// A stretch of a segment in memory.
#[derive(Default)]
struct Piece {
    /// Where in the segment the stretch starts.
    start: u64,
    end: u64,
    bytes: Option<(Buf, usize)>,
}

impl Piece {
    /// Reads the first of these records and those that follow closely.
    async fn read(inner: &Inner, pointers: &[Pointer], run: &[Placed]) -> Result<Piece> {
        let (segment, start, _) = run[0];
        let end_of = |placed: &Placed| placed.1 + pointers[placed.2].length_bytes_max();
        let mut end = end_of(&run[0]);
        for next in &run[1..] {
            if next.1 > end + GAP_BYTES_MAX || end_of(next) > start + READ_BYTES_MAX {
                break;
            }
            end = end.max(end_of(next));
        }
        let bytes = inner.pool.read(segment, start, end - start).await?;
        Ok(Piece { start, end, bytes: Some(bytes) })
    }

    fn has(&self, offset: u64, pointer: Pointer) -> bool {
        self.bytes.is_some() && offset >= self.start && offset + pointer.length_bytes_max() <= self.end
    }

    fn open(&self, inner: &Inner, offset: u64, pointer: Pointer) -> Option<Measured> {
        let (bytes, skip) = self.bytes.as_ref()?;
        open(inner.pool.key(), pointer, bytes.get(skip + usize::try_from(offset - self.start).ok()?..)?)
    }
}

async fn read_alone(inner: &Inner, pointer: Pointer) -> Result<Measured> {
    let prove = |bytes: &[u8]| {
        open(inner.pool.key(), pointer, bytes).ok_or_else(|| {
            Error::new(ErrorKind::Damaged, format!("{pointer:?} does not lead to what it names: run a check"))
        })
    };
    inner.media.read_proven(pointer, prove).await
}

/// The record at the front of `bytes`, if it is the one the pointer names.
fn open(key: &MediaKey, pointer: Pointer, bytes: &[u8]) -> Option<Measured> {
    if pointer.is_page() {
        let (header, payload) = PageHeader::open(key, pointer, bytes).ok()?;
        return Some(Measured::new((PAGE_HEADER_BYTES + payload.len()) as u64, header.identity.tree, 0));
    }
    let (header, _) = ChunkHeader::open_chunk_of(key, pointer, bytes).ok()?;
    Some(Measured::new(header.total_bytes(), u64::from(header.owner_volume), header.kept))
}
