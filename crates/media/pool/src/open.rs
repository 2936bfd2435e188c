//! Opening a pool: drives found, superblock decided by majority, frontier probed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use ashlar_format::superblock::{CELLS_START_BYTES, FrontierEntry, Superblock};
use ashlar_runtime::Runtime;
use ashlar_runtime::sync::{Mutex, Notify};
use ashlar_units::{ByteCount, DriveIndex, PoolId};

use crate::frontier::Frontier;
use crate::table::SegmentTable;
use crate::{Error, ErrorKind, Inner, Pool, PoolSpec, Result, State};

/// A segment that recovery found opened after the last segment table was written.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredSegment {
    /// Its header.
    pub header: SegmentHeader,
}

impl Pool {
    /// Makes a pool on these drives.
    pub async fn create(runtime: &Runtime, spec: &PoolSpec) -> Result<PoolId> {
        crate::create::create(runtime, spec).await
    }

    /// Opens drives and decides the superblock. The segment table is still empty: the engine loads
    /// it (`with_table_mut`), then calls [`Pool::adopt_frontier`].
    pub async fn open(runtime: &Runtime, paths: &[String]) -> Result<Pool> {
        let mut found: Vec<(Drive, Vec<Superblock>)> = Vec::new();
        for path in paths {
            let drive = Drive::open(runtime, path, None).await?;
            let ring = drive.read_ring().await?;
            if ring.valid.is_empty() {
                let what = if ring.has_remains { "has a damaged superblock ring" } else { "carries no pool" };
                return Err(Error::new(ErrorKind::Damaged, format!("drive {path} {what}")));
            }
            found.push((drive, ring.valid));
        }
        let superblock = decide(&found)?;
        let drives = arrange(found, &superblock)?;
        let cells: Vec<u32> = superblock.drives.iter().map(|drive| drive.cells).collect();
        let segment_bytes = u64::from(superblock.segment_bytes);
        let table = SegmentTable::new(&cells);
        Ok(Pool {
            inner: Rc::new(Inner {
                runtime: runtime.clone(),
                drives,
                segment_bytes,
                state: RefCell::new(State { superblock, table, frontier: Frontier::default() }),
                superblock_turn: Mutex::new(()),
                prepared: Notify::new(),
                background: Cell::new(0),
                background_ended: Notify::new(),
                is_settling: Cell::new(false),
                is_fenced: Cell::new(false),
            }),
        })
    }

    /// Looks at every place the frontier lists: those opened before the crash join the table (as
    /// sealed, until the engine says otherwise) and stay listed; the others lose their numbers.
    pub async fn adopt_frontier(&self) -> Result<Vec<RecoveredSegment>> {
        let superblock = self.superblock();
        let mut recovered = Vec::new();
        for entry in &superblock.frontier {
            if self.with_table(|table| table.find(entry.segment).is_some()) {
                continue;
            }
            let Some(header) = self.probe(entry, superblock.pool).await? else { continue };
            let mut state = self.inner.state.borrow_mut();
            let state = &mut *state;
            if state.table.take_place(entry.place) {
                state.table.set_open(entry.segment, entry.place, header.kind, header.first_group);
                state.frontier.adopt_opened(*entry);
                recovered.push(RecoveredSegment { header });
            }
        }
        Ok(recovered)
    }

    async fn probe(&self, entry: &FrontierEntry, pool: PoolId) -> Result<Option<SegmentHeader>> {
        let (drive, address) = self.address(entry.place, 0);
        let block = drive.read(address, SEGMENT_HEADER_BYTES as usize).await?;
        Ok(SegmentHeader::decode(&block).ok().filter(|header| {
            header.pool == pool && header.segment == entry.segment && header.place == entry.place
        }))
    }

    /// Wipes the superblocks of an open pool: it is deleted.
    pub async fn destroy(&self) -> Result<()> {
        self.fence();
        for drive in &self.inner.drives {
            drive.wipe_ring().await?;
        }
        Ok(())
    }
}

/// The newest superblock that a majority of the drives it names hold.
fn decide(found: &[(Drive, Vec<Superblock>)]) -> Result<Superblock> {
    let first = &found[0].1[0];
    for (drive, ring) in found {
        if ring[0].pool != first.pool {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "drive {} belongs to pool {} ({}), not to pool {} ({}): put the right drive back",
                    drive.path(),
                    ring[0].name,
                    ring[0].pool,
                    first.name,
                    first.pool
                ),
            ));
        }
    }
    let mut candidates: Vec<&Superblock> = found.iter().flat_map(|(_, ring)| ring).collect();
    candidates.sort_by_key(|superblock| std::cmp::Reverse(superblock.generation));
    for candidate in candidates {
        let holders = found.iter().filter(|(_, ring)| {
            ring.iter().any(|other| {
                other.generation == candidate.generation && other.content_hash() == candidate.content_hash()
            })
        });
        if holders.count() * 2 > candidate.drives.len() {
            return Ok(candidate.clone());
        }
    }
    Err(Error::new(
        ErrorKind::Damaged,
        format!(
            "pool {}: no superblock is on a majority of its {} drives; {} given: name all drives of the pool",
            first.name,
            first.drives.len(),
            found.len()
        ),
    ))
}

/// Puts the drives in the order of the pool's table and checks that they are all there, whole.
fn arrange(found: Vec<(Drive, Vec<Superblock>)>, superblock: &Superblock) -> Result<Vec<Drive>> {
    let mut places: Vec<Option<Drive>> = superblock.drives.iter().map(|_| None).collect();
    for (drive, ring) in found {
        let index = usize::from(ring[0].drive.0);
        let Some(entry) = superblock.drives.get(index) else {
            let context = format!("drive {} is not one of pool {}", drive.path(), superblock.name);
            return Err(Error::new(ErrorKind::Damaged, context));
        };
        let needed = CELLS_START_BYTES + u64::from(entry.cells) * u64::from(superblock.segment_bytes);
        if drive.size_bytes() < needed {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "drive {} is {} but pool {} needs {} of it: it was cut short",
                    drive.path(),
                    ByteCount(drive.size_bytes()),
                    superblock.name,
                    ByteCount(needed)
                ),
            ));
        }
        if let Some(twin) = &places[index] {
            let context = format!("drives {} and {} are copies of one drive", twin.path(), drive.path());
            return Err(Error::new(ErrorKind::Damaged, context));
        }
        places[index] = Some(drive);
    }
    let missing: Vec<String> = (0..places.len())
        .filter(|index| places[*index].is_none())
        .map(|index| DriveIndex(index as u16).to_string())
        .collect();
    if !missing.is_empty() {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "pool {} has {} drives; number {} is missing and protection is none: name it with the others",
                superblock.name,
                places.len(),
                missing.join(", ")
            ),
        ));
    }
    Ok(places.into_iter().flatten().collect())
}
