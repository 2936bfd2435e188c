//! Making a pool: drives are opened, checked for remains of other pools, and given a superblock.

use ashlar_drive::Drive;
use ashlar_format::layout::Layout;
use ashlar_format::segment::{Place, Protection};
use ashlar_format::superblock::{
    CELLS_START_BYTES, Carried, DRIVES_MAX, DriveEntry, DriveState, JournalPosition, Opener,
    SUPERBLOCK_SLOTS, Superblock,
};
use ashlar_format::{MediaKey, Pointer};
use ashlar_runtime::Runtime;
use ashlar_units::{BLOCK_BYTES, ByteCount, DriveIndex, Lsn, PoolId, SegmentId};

use crate::newcomer::{check_size, check_unclaimed};
use crate::{Error, ErrorKind, Result};
use ashlar_format::rows::{Rows, WIDTH_DEFAULT, layout_for};

/// A drive to be: a path, and a size when the file is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveSpec {
    /// A block device or a file.
    pub path: String,
    /// Makes or grows the file to this size.
    pub create_size_bytes: Option<u64>,
}

/// A pool to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// Its drives.
    pub drives: Vec<DriveSpec>,
    /// How it survives drives.
    pub protection: Protection,
    /// Bytes of a segment; chosen by the size of the drives when not given.
    pub segment_bytes: Option<u64>,
    /// Columns of a row, parity included; all drives up to 16 when not given, but those of spare space.
    pub width: Option<u8>,
    /// Drives for which there is spare space.
    pub spares: u8,
}

/// Cells below which a pool cannot work: journal, metadata, reserve and something to write to.
pub(crate) const CELLS_MIN: u64 = 16;
/// What superblocks call the program that wrote them.
pub(crate) const WRITER: &str = concat!("ashlar ", env!("CARGO_PKG_VERSION"));

const SEGMENT_BYTES_MIN: u64 = 128 << 10;
pub(crate) const SEGMENT_BYTES_FULL: u64 = 64 << 20;

/// Segments of a pool this large: 64 MiB at full size, smaller so that a small pool still has some
/// thousand of them to clean and reuse, never below 1 MiB. With 256 of them the one or two dozen that
/// are being emptied, filled or published at a time are a twentieth of a nearly full pool, and its rate
/// swings three times as much.
#[must_use]
pub fn segment_bytes_for(pool_bytes: u64) -> u64 {
    let wanted = (pool_bytes / 1024).max(1);
    let power = 1_u64 << (63 - wanted.leading_zeros());
    power.clamp(1 << 20, SEGMENT_BYTES_FULL)
}

/// Makes a pool. Refuses drives that carry one.
pub(crate) async fn create(runtime: &Runtime, spec: &PoolSpec) -> Result<PoolId> {
    let invalid = |context: String| Err(Error::new(ErrorKind::Invalid, context));
    if spec.drives.is_empty() || spec.drives.len() > DRIVES_MAX {
        return invalid(format!("a pool has 1 to {DRIVES_MAX} drives, not {}", spec.drives.len()));
    }
    if spec.protection == Protection::None && spec.width.is_some() {
        return invalid("a pool without protection has no rows: leave the width away".to_string());
    }
    if spec.protection == Protection::None && spec.spares > 0 {
        let what = "a pool without protection cannot restore what a lost drive held: leave spares away";
        return invalid(what.to_string());
    }
    let mut drives = Vec::new();
    for drive in &spec.drives {
        let opened = Drive::open(runtime, &drive.path, drive.create_size_bytes).await?;
        let ring = opened.read_ring().await?;
        check_unclaimed(&drive.path, &ring, None)?;
        drives.push(opened);
    }
    let total = drives.iter().map(Drive::size_bytes).sum::<u64>();
    let segment_bytes = spec.segment_bytes.unwrap_or_else(|| segment_bytes_for(total));
    if !segment_bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_FULL).contains(&segment_bytes)
    {
        return invalid(format!("segment size {segment_bytes} is not a power of two from 128 KiB to 64 MiB"));
    }
    let plan = plan(spec, &drives, segment_bytes)?;
    let entries =
        plan.cells.iter().map(|cells| DriveEntry::new(draw(runtime), *cells, DriveState::InService));
    let entries = entries.collect();
    let mut superblock = first_superblock(runtime, spec, plan, entries);
    for drive in &drives {
        drive.wipe().await?;
    }
    // Two generations, so that losing one slot to damage never loses a pool that is empty. The first goes
    // to slot 0: there alone programs of version 1 look for a block that tells them the version.
    for _ in 0..2 {
        superblock.generation += 1;
        for (index, drive) in drives.iter().enumerate() {
            superblock.drive = DriveIndex(index as u16);
            drive.write_superblock(&superblock).await?;
        }
    }
    Ok(superblock.pool)
}

/// How the drives of a pool to be are shared out.
struct Plan {
    segment_bytes: u64,
    cell_bytes: u64,
    cells: Vec<u32>,
    layout: Option<Layout>,
}

fn plan(spec: &PoolSpec, drives: &[Drive], segment_bytes: u64) -> Result<Plan> {
    let invalid = |context: String| Err(Error::new(ErrorKind::Invalid, context));
    let parity = u64::from(spec.protection.parity_strips());
    let active = drives.len().saturating_sub(usize::from(spec.spares));
    let width = spec.width.map_or(WIDTH_DEFAULT.min(active), usize::from) as u64;
    let data = if parity == 0 { 1 } else { width.saturating_sub(parity).max(1) };
    let cell_bytes = (segment_bytes / data / BLOCK_BYTES * BLOCK_BYTES).max(BLOCK_BYTES);
    let cells_of = |drive: &Drive| {
        let cells = drive.size_bytes().saturating_sub(CELLS_START_BYTES) / cell_bytes;
        u32::try_from(cells).unwrap_or(u32::MAX)
    };
    drives.iter().try_for_each(|drive| check_size(drive, CELLS_START_BYTES + cell_bytes))?;
    let cells: Vec<u32> = drives.iter().map(cells_of).collect();
    let layout = match parity {
        0 => None,
        _ => match layout_for(spec.protection, &cells, spec.width, spec.spares) {
            Ok(layout) => Some(layout),
            Err(context) => return invalid(context),
        },
    };
    let segments = match &layout {
        Some(layout) => u64::from(Rows::new(layout).count()),
        None => cells.iter().map(|cells| u64::from(*cells)).sum(),
    };
    if segments < CELLS_MIN {
        let columns = if parity == 0 { 1 } else { width };
        return invalid(format!(
            "the drives hold {} in all; a pool needs at least {}",
            ByteCount(drives.iter().map(Drive::size_bytes).sum::<u64>()),
            ByteCount(CELLS_MIN * cell_bytes * columns + CELLS_START_BYTES)
        ));
    }
    Ok(Plan { segment_bytes: data * cell_bytes, cell_bytes, cells, layout })
}

fn first_superblock(runtime: &Runtime, spec: &PoolSpec, plan: Plan, drives: Vec<DriveEntry>) -> Superblock {
    let size = |bytes: u64| u32::try_from(bytes).expect("a segment is at most 64 MiB");
    Superblock {
        compatible: 0,
        read_only: 0,
        incompatible: 0,
        allowed: 0,
        features: Vec::new(),
        relocation_table: Pointer::HOLE,
        notebook: Pointer::HOLE,
        pool: PoolId(draw(runtime)),
        copy: draw(runtime),
        key: MediaKey::new(draw(runtime)),
        writer: WRITER.to_string(),
        opener: Opener::default(),
        name: spec.name.clone(),
        generation: SUPERBLOCK_SLOTS - 1,
        session: 0,
        protection: spec.protection,
        is_clean: true,
        segment_bytes: size(plan.segment_bytes),
        cell_bytes: size(plan.cell_bytes),
        fingerprint_key: runtime.random(),
        created_unix_seconds: runtime.unix_nanos() / 1_000_000_000,
        checkpoint: Lsn(0),
        journal: JournalPosition { segment: SegmentId(0), offset_bytes: 0, sequence: 1, previous_hash: 0 },
        volume_table: Pointer::HOLE,
        segment_table: Pointer::HOLE,
        segment_table_place: Place::default(),
        segment_next: 1,
        volume_next: 1,
        previous_hash: 0,
        drive: DriveIndex(0),
        drives,
        frontier: Vec::new(),
        layout: plan.layout,
        carried: Carried::default(),
    }
}

/// A random identity.
pub(crate) fn draw(runtime: &Runtime) -> u128 {
    u128::from(runtime.random()) << 64 | u128::from(runtime.random())
}
