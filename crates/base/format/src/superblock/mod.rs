//! The superblock: who the pool is and where everything starts. One 64 KiB slot of a ring of eight.
//!
//! Slot `generation % 8` of every drive is written; the highest valid generation that a majority of
//! the drives its own drive table names agree on decides; with protection the highest of all. Drives that
//! have left are named so that places keep their numbers, and are not counted.
//!
//! A slot is a [root block](self::root) of 4 KiB, which programs of every version can read, and a
//! [body](self::body) of sections. Slots are 64 KiB apart so that drives with large sectors never tear two.
//! Feature flags follow the usual rule: unknown `compatible` bits are ignored, unknown `read_only` bits
//! allow reading only, unknown `incompatible` bits refuse the pool. What a program does not know it writes
//! again as it was.

mod body;
mod root;
#[cfg(test)]
mod tests;

use ashlar_units::{DriveIndex, Lsn, PoolId, SegmentId};

use crate::layout::Layout;
use crate::segment::{Place, Protection};
use crate::{Damage, DamageKind, Kind, MediaKey, Pointer};

pub use root::{FEATURES_MAX, Feature, FeatureClass};

/// The first eight bytes of a slot, as a number.
pub(crate) const SLOT_MAGIC: u64 = root::MAGIC;

/// Bytes from one slot to the next.
pub const SUPERBLOCK_BYTES: usize = 64 << 10;
/// Bytes of the root block, the first of a slot.
pub const ROOT_BYTES: usize = 4096;
/// Slots of the ring.
pub const SUPERBLOCK_SLOTS: u64 = 8;
/// Where the ring ends, and the owner block is.
pub const OWNER_START_BYTES: u64 = SUPERBLOCK_SLOTS * SUPERBLOCK_BYTES as u64;
/// Two areas of 64 KiB for wrapped keys start here, behind the owner block: reserved.
pub const KEYRING_START_BYTES: u64 = 576 << 10;
/// Everything that marks a drive as a pool's ends here.
pub const MARKS_END_BYTES: u64 = 704 << 10;
/// Where the first cell starts on a drive.
pub const CELLS_START_BYTES: u64 = 1 << 20;
/// Drives of a pool at most.
pub const DRIVES_MAX: usize = 48;
/// Frontier entries at most.
pub const FRONTIER_MAX: usize = 96;

const KNOWN_READ_ONLY: u64 = 0;

/// Blocks of different addresses may share a chunk: who does not know that would free what is shared.
pub const INCOMPATIBLE_SHARES: u64 = 1;
/// Volumes may be deleted and still come back: who does not know that would serve them, or two of one name.
pub const INCOMPATIBLE_DELETED: u64 = 2;
/// The journal may have records of copies: who does not know them would take the first for its end.
pub const INCOMPATIBLE_COPIES: u64 = 4;

const KNOWN_INCOMPATIBLE: u64 = INCOMPATIBLE_SHARES | INCOMPATIBLE_DELETED | INCOMPATIBLE_COPIES;
const KNOWN_FEATURES: [(FeatureClass, u8, &str); 3] = [
    (FeatureClass::Incompatible, 0, "shared-blocks"),
    (FeatureClass::Incompatible, 1, "deleted-volumes"),
    (FeatureClass::Incompatible, 2, "copied-blocks"),
];

/// One drive of the pool, as the pool knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveEntry {
    /// Drawn when the drive joined.
    pub id: u128,
    /// Cells it holds.
    pub cells: u32,
    /// What the pool may ask of it.
    pub state: DriveState,
    /// The newest superblock that it was known to hold when this one was made.
    pub confirmed: u64,
    /// Reserved bytes, as they were read.
    pub carried: [u8; 35],
}

impl DriveEntry {
    /// A drive with reserved bytes zero.
    #[must_use]
    pub fn new(id: u128, cells: u32, state: DriveState) -> DriveEntry {
        DriveEntry { id, cells, state, confirmed: 0, carried: [0; 35] }
    }
}

/// What a pool may ask of one of its drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveState {
    /// It holds everything it should.
    InService,
    /// It is gone, or was given up: what it holds is not counted on.
    Out,
    /// It is written again, and what it lacks is being restored: not read yet.
    Rebuilding,
    /// It is to leave: it holds what it should, and gets nothing new.
    Leaving,
    /// It has left. Its cells stay counted, so that places keep their numbers, and hold nothing.
    Gone,
}

impl DriveState {
    fn to_byte(self) -> u8 {
        match self {
            DriveState::InService => 0,
            DriveState::Out => 1,
            DriveState::Rebuilding => 2,
            DriveState::Leaving => 3,
            DriveState::Gone => 4,
        }
    }

    fn from_byte(byte: u8) -> Result<DriveState, Damage> {
        match byte {
            0 => Ok(DriveState::InService),
            1 => Ok(DriveState::Out),
            2 => Ok(DriveState::Rebuilding),
            3 => Ok(DriveState::Leaving),
            4 => Ok(DriveState::Gone),
            _ => Err(Damage::new(DamageKind::Version, "drive state is unknown")),
        }
    }
}

/// A place that may be opened as this segment before the next superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontierEntry {
    /// The number it will have.
    pub segment: SegmentId,
    /// Where it will be.
    pub place: Place,
}

/// Where replay starts: after the last group the checkpoint contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalPosition {
    /// The segment of the next group, if it fits there.
    pub segment: SegmentId,
    /// Its offset.
    pub offset_bytes: u64,
    /// Its sequence number.
    pub sequence: u64,
    /// The hash it must name as the one before.
    pub previous_hash: u64,
}

/// Which array has a pool open, or had it open last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opener {
    /// The machine.
    pub machine: u128,
    /// Its boot.
    pub boot: u128,
    /// When the pool was opened.
    pub opened_unix_seconds: u64,
}

/// What a superblock holds beyond what this program knows. It is written again as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    /// The rest of the root block.
    pub root: Vec<u8>,
    /// Sections of unknown kinds: kind and bytes.
    pub sections: Vec<(u16, Vec<u8>)>,
    /// What known sections have at their ends: kind and bytes.
    pub tails: Vec<(u16, Vec<u8>)>,
}

/// The superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Bits a program may ignore.
    pub compatible: u64,
    /// Bits without which a program may only read.
    pub read_only: u64,
    /// Bits without which a program must not open.
    pub incompatible: u64,
    /// Features that an operator allows: a feature's bit is set at its first use, if it is allowed.
    pub allowed: u64,
    /// Names of the bits that are set, for programs that do not know them.
    pub features: Vec<Feature>,
    /// The pool.
    pub pool: PoolId,
    /// Which copy of it: drives that were copied as a whole can get another.
    pub copy: u128,
    /// What checksums are made with.
    pub key: MediaKey,
    /// Its name.
    pub name: String,
    /// The program that wrote this.
    pub writer: String,
    /// Counts superblocks; the highest decides.
    pub generation: u64,
    /// Counts openings; never the same twice.
    pub session: u32,
    /// Who opened the pool last.
    pub opener: Opener,
    /// How the pool survives drives.
    pub protection: Protection,
    /// True when everything is in the checkpoint and nothing needs replay.
    pub is_clean: bool,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Bytes of one drive's part of a segment.
    pub cell_bytes: u32,
    /// Key of fingerprints.
    pub fingerprint_key: u64,
    /// When the pool was made.
    pub created_unix_seconds: u64,
    /// Everything up to here is in the checkpoint.
    pub checkpoint: Lsn,
    /// Where replay starts.
    pub journal: JournalPosition,
    /// Directory of the volume table.
    pub volume_table: Pointer,
    /// Directory of the segment table.
    pub segment_table: Pointer,
    /// Where that directory's segment lives: without the table nothing else could tell.
    pub segment_table_place: Place,
    /// Root of the relocation table; a hole until the cleaner has moved something.
    pub relocation_table: Pointer,
    /// Directory of the notebook; a hole while there are no notes.
    pub notebook: Pointer,
    /// The next segment number to give out.
    pub segment_next: u32,
    /// The next volume identity to give out.
    pub volume_next: u64,
    /// Hash of the superblock before.
    pub previous_hash: u64,
    /// Which drive this copy is on.
    pub drive: DriveIndex,
    /// All drives.
    pub drives: Vec<DriveEntry>,
    /// Places that may be opened before the next superblock.
    pub frontier: Vec<FrontierEntry>,
    /// Where the columns of rows are; only in pools with parity.
    pub layout: Option<Layout>,
    /// What this program does not know.
    pub carried: Carried,
}

impl Superblock {
    /// The slot as bytes: as many whole blocks as are needed, not more than a slot has.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.drives.len() <= DRIVES_MAX, "{} drives", self.drives.len());
        assert!(self.frontier.len() <= FRONTIER_MAX, "{} frontier entries", self.frontier.len());
        let body = body::encode(self);
        let mut slot = root::encode(self, &body, self.drive);
        slot.extend_from_slice(&body);
        slot.resize(slot.len().next_multiple_of(ROOT_BYTES), 0);
        assert!(slot.len() <= SUPERBLOCK_BYTES, "superblock of {} bytes", slot.len());
        slot
    }

    /// Drives that have not left.
    #[must_use]
    pub fn drive_count(&self) -> usize {
        self.drives.iter().filter(|drive| drive.state != DriveState::Gone).count()
    }

    /// Whether so many of the drives that have not left are more than half of them.
    #[must_use]
    pub fn is_majority(&self, holders: usize) -> bool {
        holders * 2 > self.drive_count()
    }

    /// True for drives that have left. Of drives that this superblock does not know it is not.
    #[must_use]
    pub fn has_left(&self, drive: DriveIndex) -> bool {
        self.drives.get(usize::from(drive.0)).is_some_and(|entry| entry.state == DriveState::Gone)
    }

    /// Sets feature bits that this program knows, with their names.
    pub fn set_incompatible(&mut self, bits: u64) {
        assert_eq!(bits & !KNOWN_INCOMPATIBLE, 0, "features {bits:#x} are not known");
        self.incompatible |= bits;
        for (class, bit, name) in KNOWN_FEATURES {
            let is_named = self.features.iter().any(|one| one.class == class && one.bit == bit);
            if self.incompatible >> bit & 1 == 1 && !is_named && self.features.len() < FEATURES_MAX {
                self.features.push(Feature { class, bit, name: name.to_string() });
            }
        }
    }

    /// True when a later program set a feature without which the pool may only be read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only & !KNOWN_READ_ONLY != 0
    }

    /// The names of the bits of a class that this program does not know.
    #[must_use]
    pub fn unknown_features(&self, class: FeatureClass) -> String {
        let bits = match class {
            FeatureClass::Compatible => self.compatible,
            FeatureClass::ReadOnly => self.read_only & !KNOWN_READ_ONLY,
            FeatureClass::Incompatible => self.incompatible & !KNOWN_INCOMPATIBLE,
        };
        let name = |bit: u8| {
            let named = self.features.iter().find(|one| one.class == class && one.bit == bit);
            named.map_or_else(|| format!("bit {bit}"), |one| one.name.clone())
        };
        let unknown = (0..64).filter(|bit| bits >> bit & 1 == 1);
        unknown.map(name).collect::<Vec<_>>().join(", ")
    }

    /// A hash that is the same on every drive of the pool.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        let body = body::encode(self);
        self.key.checksum(Kind::Superblock, &root::encode(self, &body, DriveIndex(0)))
    }

    /// Reads a slot. It may be cut behind its last whole block.
    pub fn decode(slot: &[u8]) -> Result<Superblock, Damage> {
        let (mut superblock, body_bytes, body_sum) = root::decode(slot)?;
        let body = slot.get(ROOT_BYTES..).and_then(|rest| rest.get(..body_bytes));
        let body = body.ok_or(Damage::new(DamageKind::Truncated, "superblock ends early"))?;
        if superblock.key.checksum(Kind::Superblock, body) != body_sum {
            return Err(Damage::new(DamageKind::Checksum, "superblock checksum mismatch"));
        }
        if superblock.incompatible & !KNOWN_INCOMPATIBLE != 0 {
            let names = superblock.unknown_features(FeatureClass::Incompatible);
            let context = format!("pool uses features that this program does not know: {names}");
            return Err(Damage::told(DamageKind::Version, context));
        }
        body::decode(&mut superblock, body)?;
        check(&superblock)?;
        Ok(superblock)
    }
}

/// What the sections of a superblock must agree on.
fn check(superblock: &Superblock) -> Result<(), Damage> {
    let impossible = |what| Err(Damage::new(DamageKind::Impossible, what));
    if superblock.layout.is_some() != (superblock.protection != Protection::None) {
        return impossible("protection without layout, or the reverse");
    }
    let parity = superblock.protection.parity_strips();
    if superblock.layout.as_ref().is_some_and(|layout| layout.width <= parity) {
        return impossible("rows without a data column");
    }
    if superblock.drives.is_empty() || usize::from(superblock.drive.0) >= superblock.drives.len() {
        return impossible("superblock of a drive that the pool does not have");
    }
    Ok(())
}
