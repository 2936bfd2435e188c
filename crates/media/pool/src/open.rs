//! Opening a pool: drives found, superblock decided, frontier probed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use ashlar_format::superblock::{CELLS_START_BYTES, DriveState, FrontierEntry, Superblock};
use ashlar_parity::Kernel;
use ashlar_runtime::Runtime;
use ashlar_runtime::sync::{Mutex, Notify};
use ashlar_units::{ByteCount, DriveIndex, PoolId, SegmentId};

use crate::drives::{Away, KnownDrive, is_spare_filling, lacks};
use crate::frontier::Frontier;
use crate::generations::{self, check_quorum, check_remembered};
use crate::mend::HeldPlaces;
use crate::opening::Opening;
use crate::owner::{self, Ownership};
use crate::rebuild::WriteGate;
use crate::steer::Paces;
use crate::stripes::Striping;
use crate::table::SegmentTable;
use crate::{Error, ErrorKind, Inner, Pool, PoolSpec, Result, State};
use ashlar_format::layout::Layout;
use ashlar_format::rows::Rows;

impl Pool {
    /// Makes a pool on these drives.
    pub async fn create(runtime: &Runtime, spec: &PoolSpec) -> Result<PoolId> {
        crate::create::create(runtime, spec).await
    }

    /// Opens drives and decides the superblock. The segment table is still empty: the engine loads
    /// it (`with_table_mut`), then calls [`Pool::adopt_frontier`]. A pool with parity opens without
    /// the drives that its protection lets it miss.
    pub async fn open(runtime: &Runtime, paths: &[String], opening: &Opening) -> Result<Pool> {
        let (mut found, mut failed) = find_all(runtime, paths).await?;
        let mut chosen = choose(&found, &failed, opening)?;
        let before = owner::check_free(runtime, &chosen.drives, &chosen.superblock, opening).await?;
        let ownership = Ownership::new(opening, &chosen.superblock, before.session);
        if before.may_still_write && !chosen.superblock.is_read_only() {
            ownership.take_from(runtime, &chosen.drives, &chosen.superblock).await?;
            found = read_again(found, &mut failed).await;
            chosen = choose(&found, &failed, opening)?;
            ownership.follow(&chosen.superblock);
        }
        let Chosen { superblock, drives, refused } = chosen;
        let segment_bytes = u64::from(superblock.segment_bytes);
        let striping = superblock.layout.as_ref().map(|layout| striping_of(&superblock, layout));
        let mut table = match &striping {
            Some(striping) => SegmentTable::of_rows(striping.row_count(), superblock.protection),
            None => SegmentTable::new(&superblock.drives.iter().map(|drive| drive.cells).collect::<Vec<_>>()),
        };
        if striping.is_none() {
            close_leaving(&superblock, &mut table);
        }
        let leaving = superblock.drives.iter().position(|entry| entry.state == DriveState::Leaving);
        let settled_below = superblock.layout.as_ref().map_or(0, |layout| layout.settled_below);
        let superblock_key = superblock.key.clone();
        let is_read_only = superblock.is_read_only();
        let state = State {
            superblock,
            table,
            frontier: Frontier::default(),
            is_adopted: false,
            settled_below,
            settling_below: settled_below,
        };
        Ok(Pool {
            inner: Rc::new(Inner {
                runtime: runtime.clone(),
                key: superblock_key,
                is_read_only: Cell::new(is_read_only),
                ownership,
                drives: RefCell::new(drives),
                segment_bytes,
                striping,
                held: HeldPlaces::default(),
                gate: WriteGate::default(),
                mended_blocks: Cell::new(0),
                state: RefCell::new(state),
                superblock_turn: Mutex::new(()),
                prepared: Notify::new(),
                background: Cell::new(0),
                background_ended: Notify::new(),
                is_settling: Cell::new(false),
                leaving: Cell::new(leaving),
                is_fenced: Cell::new(is_read_only),
                metadata_refusals: RefCell::default(),
                fence_cause: RefCell::default(),
                unused: refused.into_iter().map(|error| error.context).collect(),
            }),
        })
    }

    /// Looks at every place the frontier lists: journal segments opened before the crash join the table
    /// (as open, until the engine says otherwise), stay listed and are returned; the others lose their
    /// numbers. To page records and containers that no published table knows nothing refers, so their
    /// places are as free as those that were never opened: a pool that crashes in one opening after another
    /// loses none.
    pub async fn adopt_frontier(&self) -> Result<Vec<SegmentId>> {
        let superblock = self.superblock();
        let mut adopted = Vec::new();
        for entry in &superblock.frontier {
            if self.with_table(|table| table.find(entry.segment).is_some()) {
                continue;
            }
            if !self.with_table(|table| table.has_place(entry.place)) {
                let what = format!("the frontier names {:?}, which the pool does not have", entry.place);
                return Err(Error::new(ErrorKind::Damaged, what));
            }
            let header = self.probe(entry, superblock.pool).await?;
            let mut state = self.inner.state.borrow_mut();
            let state = &mut *state;
            if !state.table.take_place(entry.place) {
                continue;
            }
            match header.filter(|header| header.kind == SegmentKind::Journal) {
                Some(header) => {
                    state.table.set_open(entry.segment, entry.place, header.kind, header.first_group);
                    state.frontier.adopt_opened(*entry);
                    adopted.push(entry.segment);
                }
                // Behind all other free places: a write of the life before that is still on its way to it
                // has the most time to arrive.
                None => state.table.put_free(entry.place),
            }
        }
        self.inner.state.borrow_mut().is_adopted = true;
        Ok(adopted)
    }

    /// Gives the place of an adopted segment back, in which nothing was found that counts.
    pub fn abandon(&self, segment: SegmentId) {
        let mut state = self.inner.state.borrow_mut();
        let state = &mut *state;
        state.frontier.abandon(segment);
        state.table.abandon(segment);
    }

    async fn probe(&self, entry: &FrontierEntry, pool: PoolId) -> Result<Option<SegmentHeader>> {
        let is_it = |block: &[u8]| {
            SegmentHeader::decode(self.key(), block).ok().filter(|header| {
                header.pool == pool && header.segment == entry.segment && header.place == entry.place
            })
        };
        let (block, _) = self.read_place(entry.place, 0, SEGMENT_HEADER_BYTES).await?;
        let mut header = is_it(&block);
        if let (None, Some(striping)) = (header, &self.inner.striping) {
            // Damage, or never opened: the other columns know.
            let mut accept = |block: &[u8]| {
                header = is_it(block);
                header.map(|_| SEGMENT_HEADER_BYTES)
            };
            self.mend_place(striping, entry.place, 0, SEGMENT_HEADER_BYTES, &mut accept).await?;
        }
        Ok(header)
    }

    /// Wipes the superblocks of an open pool: it is deleted.
    pub async fn destroy(&self) -> Result<()> {
        self.fence();
        let drives: Vec<_> =
            self.inner.drives.borrow().iter().filter_map(|known| known.drive.clone()).collect();
        for drive in drives {
            drive.wipe_ring().await?;
        }
        Ok(())
    }
}

fn striping_of(superblock: &Superblock, layout: &Layout) -> Striping {
    Striping {
        rows: RefCell::new(Rows::new(layout)),
        parity: usize::from(superblock.protection.parity_strips()),
        cell_bytes: u64::from(superblock.cell_bytes),
        kernel: Kernel::detect(),
        paces: Paces::default(),
        moving: RefCell::default(),
        moving_error: RefCell::default(),
    }
}

/// A drive with a ring of superblocks, newest first.
pub(crate) struct Found {
    pub(crate) drive: Rc<Drive>,
    pub(crate) ring: Vec<Superblock>,
}

/// What an opening goes on with.
struct Chosen {
    superblock: Superblock,
    drives: Vec<KnownDrive>,
    /// Why what else was named is no drive of the pool.
    refused: Vec<Error>,
}

/// The drives of a pool among those that are named, and why the others are none.
async fn find_all(runtime: &Runtime, paths: &[String]) -> Result<(Vec<Found>, Vec<Error>)> {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for path in paths {
        match find(runtime, path).await {
            Ok(drive) => found.push(drive),
            // In use is not missing: a killed predecessor lets go of its drives one by one, and a pool
            // opened without those it still holds would count them as lost.
            Err(error) if error.kind == ErrorKind::Busy => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    Ok((found, failed))
}

/// Looks at the rings again, in which the owner before may have written meanwhile.
async fn read_again(found: Vec<Found>, failed: &mut Vec<Error>) -> Vec<Found> {
    let mut still = Vec::new();
    for one in found {
        match one.drive.read_ring().await {
            Ok(ring) if !ring.valid.is_empty() => still.push(Found { ring: ring.valid, ..one }),
            Ok(_) => {
                let what = format!("drive {} lost its superblocks while it was opened", one.drive.path());
                failed.push(Error::new(ErrorKind::Damaged, what));
            }
            Err(error) => failed.push(error.into()),
        }
    }
    still
}

/// Decides the superblock and puts the drives in its order.
fn choose(found: &[Found], failed: &[Error], opening: &Opening) -> Result<Chosen> {
    let superblock = decide(found, failed)?;
    crate::possible::check(&superblock)?;
    check_remembered(found, &superblock, opening)?;
    let (drives, refused) = arrange(found, failed, &superblock, opening)?;
    check_quorum(&drives, &superblock, opening)?;
    Ok(Chosen { superblock, drives, refused })
}

async fn find(runtime: &Runtime, path: &str) -> Result<Found> {
    let drive = Drive::open(runtime, path, None).await?;
    let ring = drive.read_ring().await?;
    // An older superblock that this program knows is none to go on with.
    if let Some(version) = ring.other_version {
        return Err(of_other_version(path, &version));
    }
    if ring.valid.is_empty() {
        return Err(match ring.has_remains {
            true => Error::new(ErrorKind::Damaged, format!("drive {path} has a damaged superblock ring")),
            false => Error::new(ErrorKind::Invalid, format!("drive {path} carries no pool"))
                .and_do("name a drive of the pool"),
        });
    }
    Ok(Found { drive: Rc::new(drive), ring: ring.valid })
}

/// The refusal of a drive with a pool that another program must open.
pub(crate) fn of_other_version(path: &str, what: &str) -> Error {
    let action = "use the program that made the pool, or wipe the drive if nothing on it is needed";
    Error::new(ErrorKind::Damaged, format!("drive {path}: {what}")).and_do(action)
}

/// The superblock that counts. Without parity: the newest that a majority of the drives it names hold.
/// With parity: the newest; every drive that it does not call out had to hold it before it meant anything,
/// so as long as no more drives are missing than may be lost, one that has it is there.
fn decide(found: &[Found], failed: &[Error]) -> Result<Superblock> {
    let Some(first) = found.first().map(|found| &found.ring[0]) else {
        let none = || Error::new(ErrorKind::Invalid, "no drive is named".to_string());
        let first = cause(failed).cloned().unwrap_or_else(none);
        return Err(match failed.len() {
            0 | 1 => first,
            _ => Error { context: told(failed), ..first },
        });
    };
    for other in found {
        if other.ring[0].pool != first.pool {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "drive {} belongs to pool {} ({}), not to pool {} ({})",
                    other.drive.path(),
                    other.ring[0].name,
                    other.ring[0].pool,
                    first.name,
                    first.pool
                ),
            )
            .and_do("put the right drive back"));
        }
    }
    let mut candidates = without_unfinished_growth(found);
    // Of two with one generation the later opening's: the other may be of drives that were being added
    // when the pool stopped, and of which it knows nothing since.
    candidates.sort_by_key(|superblock| std::cmp::Reverse((superblock.generation, superblock.session)));
    if candidates[0].layout.is_some() {
        return Ok(candidates[0].clone());
    }
    for candidate in candidates {
        let holds = |found: &&Found| {
            found.ring.iter().any(|other| {
                other.generation == candidate.generation && other.content_hash() == candidate.content_hash()
            })
        };
        let counted = found.iter().filter(|found| !candidate.has_left(found.ring[0].drive));
        let holders = counted.filter(holds).count();
        if candidate.is_majority(holders) {
            return Ok(candidate.clone());
        }
        // Older ones count only where this one cannot have been decided.
        let absent = absent_of(candidate, found);
        if candidate.is_majority(holders + absent.len()) {
            return Err(refused_absent(candidate, &absent, failed));
        }
    }
    if let Some(error) = cause(failed) {
        return Err(error.clone());
    }
    Err(Error::new(
        ErrorKind::Damaged,
        format!(
            "pool {}: no superblock is on a majority of its {} drives; {} given",
            first.name,
            first.drive_count(),
            found.len()
        ),
    )
    .and_do("name all drives of the pool"))
}

/// Drives that a superblock counts on and nobody found.
fn absent_of(superblock: &Superblock, found: &[Found]) -> Vec<DriveIndex> {
    let is_found = |number: usize, id: u128| {
        let mut rings = found.iter().map(|found| &found.ring[0]);
        rings.any(|own| {
            own.drives.get(number).is_some_and(|entry| usize::from(own.drive.0) == number && entry.id == id)
        })
    };
    let drives = superblock.drives.iter().enumerate();
    let absent =
        drives.filter(|(number, entry)| entry.state != DriveState::Gone && !is_found(*number, entry.id));
    absent.map(|(number, _)| DriveIndex(number as u16)).collect()
}

/// The refusal to go on with a superblock that a newer one may have replaced.
fn refused_absent(newer: &Superblock, absent: &[DriveIndex], failed: &[Error]) -> Error {
    if let Some(error) = cause(failed) {
        return error.clone();
    }
    let numbers = absent.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let what = format!(
        "pool {}: number {numbers} of its drives is missing: what the others hold may be older",
        newer.name
    );
    Error::new(ErrorKind::NotFound, what).and_do("name the missing drives with the others")
}

/// Drives that are leaving, or have left, get no segment.
fn close_leaving(superblock: &Superblock, table: &mut SegmentTable) {
    for (drive, entry) in superblock.drives.iter().enumerate() {
        if matches!(entry.state, DriveState::Leaving | DriveState::Gone) {
            table.close_drive(drive);
        }
    }
}

/// Why a drive is missing: one that failed, before one that carries no pool, which may have left long ago.
fn cause(refused: &[Error]) -> Option<&Error> {
    refused.iter().find(|error| error.kind != ErrorKind::Invalid).or(refused.first())
}

/// Why drives cannot be used, in a line.
fn told(refused: &[Error]) -> String {
    refused.iter().map(|error| error.context.as_str()).collect::<Vec<_>>().join("; ")
}

/// The superblocks of a pool, but for those of a growth that was cut short. Drives that join hold the first
/// superblock that names them before any other does: while no older drive tells of them, they do not count.
/// Of older drives that have all left since, none can tell: what is found of them is what a wipe left over.
fn without_unfinished_growth(found: &[Found]) -> Vec<&Superblock> {
    let mut candidates: Vec<&Superblock> = found.iter().flat_map(|found| &found.ring).collect();
    loop {
        let counts = || candidates.iter().map(|superblock| superblock.drives.len());
        let most = counts().max().unwrap_or(0);
        let Some(before) = counts().filter(|count| *count < most).max() else { return candidates };
        let is_told = |superblock: &&Superblock| {
            let have_left = superblock.drives[..before].iter().all(|entry| entry.state == DriveState::Gone);
            usize::from(superblock.drive.0) < before || have_left
        };
        if candidates.iter().filter(|superblock| superblock.drives.len() == most).any(is_told) {
            return candidates;
        }
        candidates.retain(|superblock| superblock.drives.len() < most);
    }
}

/// The drives of the pool, and why the others that were named are none.
type Arranged = (Vec<KnownDrive>, Vec<Error>);

/// Puts the drives in the order of the pool's table and checks that as many are there, whole, as must be.
fn arrange(
    found: &[Found],
    failed: &[Error],
    superblock: &Superblock,
    opening: &Opening,
) -> Result<Arranged> {
    let cell_bytes = u64::from(superblock.cell_bytes);
    // One that has left is looked for no more; if it is there, its ring is still to be wiped.
    let needed = |index: usize| match superblock.drives[index].state {
        DriveState::Gone => 0,
        _ => CELLS_START_BYTES + u64::from(superblock.drives[index].cells) * cell_bytes,
    };
    let mut drives: Vec<KnownDrive> = (0..superblock.drives.len())
        .map(|index| KnownDrive {
            id: superblock.drives[index].id,
            number: DriveIndex(index as u16),
            confirmed: superblock.drives[index].confirmed,
            path: String::new(),
            size_bytes: needed(index),
            drive: None,
            state: superblock.drives[index].state,
            stale_from: superblock.layout.as_ref().map_or(0, |layout| layout.stale_from[index]),
            reason: (superblock.drives[index].state == DriveState::Out)
                .then(|| "it was out of service when the pool was opened".to_string()),
            away: (superblock.drives[index].state == DriveState::Out).then_some(Away::Before),
            generation: 0,
        })
        .collect();
    let mut refused = failed.to_vec();
    let told = generations::told(found);
    // One that a crash kept from counting tells all the same what each drive held when it was made.
    let newest = without_unfinished_growth(found).into_iter().max_by_key(|one| (one.generation, one.session));
    let newest = newest.unwrap_or(superblock).clone();
    let mut behind = Vec::new();
    for Found { drive, ring } in found {
        match place_in_pool(drive, &ring[0], superblock, needed) {
            Ok(index) => {
                let known = &mut drives[index];
                if known.drive.is_some() {
                    let twins = format!("drives {} and {} are copies of one drive", known.path, drive.path());
                    return Err(Error::new(ErrorKind::Damaged, twins));
                }
                known.path = drive.path().to_string();
                known.size_bytes = drive.size_bytes();
                known.drive = Some(drive.clone());
                known.generation = ring[0].generation;
                if generations::is_behind(&ring[0], &newest) {
                    behind.push((index, generations::stale_from(&ring[0])));
                }
            }
            // It may be one that was being added when the pool stopped: no harm while none is missing.
            Err(error) => refused.push(error),
        }
    }
    let is_restorable = restore_behind(&mut drives, &behind, superblock);
    if !is_restorable && !opening.is_older_accepted {
        return Err(generations::refused_behind(&told, superblock));
    }
    miss(&mut drives, &refused, superblock)?;
    Ok((drives, refused))
}

/// Which drive of the pool this is.
fn place_in_pool(
    drive: &Drive,
    newest: &Superblock,
    superblock: &Superblock,
    needed: impl Fn(usize) -> u64,
) -> Result<usize> {
    let index = usize::from(newest.drive.0);
    let own = newest.drives.get(index).map(|entry| entry.id);
    if superblock.drives.get(index).map(|entry| entry.id) != own {
        let context = format!("drive {} is not one of pool {}", drive.path(), superblock.name);
        return Err(Error::new(ErrorKind::Damaged, context));
    }
    if drive.size_bytes() < needed(index) {
        return Err(Error::new(
            ErrorKind::Damaged,
            format!(
                "drive {} is {} but pool {} needs {} of it: it was cut short",
                drive.path(),
                ByteCount(drive.size_bytes()),
                superblock.name,
                ByteCount(needed(index))
            ),
        ));
    }
    Ok(index)
}

/// Has what older drives lack restored, where the others can tell it; false where they cannot: then all is
/// left as the superblock says.
fn restore_behind(drives: &mut [KnownDrive], behind: &[(usize, u32)], superblock: &Superblock) -> bool {
    if behind.is_empty() {
        return true;
    }
    let stand_ins = superblock.layout.as_ref().map_or(&[][..], |layout| &layout.stand_ins);
    let is_there = |known: &KnownDrive| {
        known.drive.is_some()
            || known.state == DriveState::Gone
            || stand_ins.iter().any(|one| one.drive == known.number)
    };
    let is_behind = |index: usize| behind.iter().any(|(other, _)| *other == index);
    let lacking =
        |(index, known): &(usize, &KnownDrive)| lacks(known.state) || !is_there(known) || is_behind(*index);
    let count = drives.iter().enumerate().filter(lacking).count();
    if count > usize::from(superblock.protection.parity_strips()) {
        return false;
    }
    let is_spare_filling = is_spare_filling(drives, stand_ins);
    for (index, stale_from) in behind {
        let known = &mut drives[*index];
        let before = if lacks(known.state) { known.stale_from } else { u32::MAX };
        known.stale_from = if is_spare_filling { 0 } else { before.min(*stale_from) };
        known.state = DriveState::Rebuilding;
        known.reason = Some(format!(
            "it was away: it holds generation {}, the pool was at {}; what it lacks is being restored",
            known.generation, superblock.generation
        ));
    }
    true
}

/// Takes the drives that are not there out of service, if the pool can do without them.
fn miss(drives: &mut [KnownDrive], refused: &[Error], superblock: &Superblock) -> Result<()> {
    let why = told(refused);
    let mut missing = Vec::new();
    let stand_ins = superblock.layout.as_ref().map_or(&[][..], |layout| &layout.stand_ins);
    let is_spare_filling = is_spare_filling(drives, stand_ins);
    let is_in_spare_space = |index: usize| stand_ins.iter().any(|one| usize::from(one.drive.0) == index);
    let is_missing = |known: &KnownDrive| known.drive.is_none() && known.state != DriveState::Gone;
    let missing_drives = drives.iter_mut().enumerate().filter(|(_, known)| is_missing(known));
    for (index, known) in missing_drives.filter(|(index, _)| !is_in_spare_space(*index)) {
        missing.push(DriveIndex(index as u16).to_string());
        if known.state == DriveState::InService {
            known.stale_from = superblock.layout.as_ref().map_or(0, |layout| layout.settled_below);
        }
        if is_spare_filling {
            known.stale_from = 0;
        }
        if known.state != DriveState::Out {
            known.away = Some(Away::Missed);
        }
        known.state = DriveState::Out;
        known.reason = Some(match refused.len() {
            0 => "it was not named at the opening".to_string(),
            1 => why.clone(),
            _ => format!("nothing that was looked at is it: {why}"),
        });
    }
    let out = drives.iter().filter(|known| lacks(known.state)).count();
    if out <= usize::from(superblock.protection.parity_strips()) {
        return Ok(());
    }
    if let (None, Some(error)) = (&superblock.layout, cause(refused)) {
        return Err(error.clone());
    }
    let (name, drives) = (&superblock.name, superblock.drive_count());
    let numbers = missing.join(", ");
    let context = match superblock.protection.parity_strips() {
        0 => format!("pool {name} has {drives} drives; number {numbers} is missing and protection is none"),
        parity => {
            let missing = if numbers.is_empty() { String::new() } else { format!(" (missing: {numbers})") };
            let why = if why.is_empty() { why } else { format!(": {why}") };
            format!(
                "pool {name} has {drives} drives, {out} cannot serve{missing} and it survives {parity}{why}"
            )
        }
    };
    Err(Error::new(ErrorKind::NotFound, context).and_do("name the missing drives with the others"))
}
