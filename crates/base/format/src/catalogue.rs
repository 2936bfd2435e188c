//! The volume table: one 256-byte entry for each volume and each snapshot image.
//!
//! ```text
//!  0 u64 id      8 u8 kind  9 u8 profile  10 u8 compression  11 u8 dedupe  12 u8 logical block shift
//! 13 u8 tier    14 u16 flags
//! 16 u64 created, unix seconds   24 u64 size bytes     32 u64 root pointer    40 u64 origin id
//! 48 u64 group (snapshots)       56 u64 birth LSN      64 u64 newest snapshot LSN
//! 72 u64 written blocks          80 name (1 + 63)     144 origin name (1 + 63)
//! 208 u64 deleted at            216 u32 key domain    220 u8 atomic write shift   221 u8 page shift
//! 222 u8 kind of page checksum  223 zero              224 u64 seconds seen deleted
//! 232 u64 own bytes             240 u64 own from      248 zero
//! ```
//!
//! Tier, flags and what follows the names are reserved: zero, and carried when they are not. Of the flags
//! the low byte must be understood: 1 says that the volume is deleted and may still come back; any other
//! (hidden, read-only, receiving) refuses the entry. A deleted volume keeps the name it had, which
//! another may have by now.

use ashlar_units::{Lsn, VolumeId};

use crate::bytes::{Reader, Writer};
use crate::{Damage, DamageKind, Pointer};

/// Bytes of an entry.
pub const VOLUME_ENTRY_BYTES: usize = 256;
/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 63;
/// Bytes of an origin's name at most.
pub const ORIGIN_BYTES_MAX: usize = 63;
/// Bytes of an entry that later programs may use: tier, flags, and all behind the names.
pub const CARRIED_BYTES: usize = 3 + (VOLUME_ENTRY_BYTES - CARRIED_FROM);
/// Bytes of a volume at most: what a map of five levels can address.
pub const VOLUME_BYTES_MAX: u64 = 1 << 48;

const CARRIED_FROM: usize = 208;
/// What a volume has of its own: counted, and so not carried.
const OWN_AT: usize = 232;
const OWN_END: usize = OWN_AT + 16;
/// The flag of a deleted volume, in the byte of flags that must be understood.
const FLAG_DELETED: u8 = 1;
/// Where that byte is in what is carried.
const FLAGS_AT: usize = 1;
const DELETED_AT: usize = 3;
const DELETED_SEEN: usize = DELETED_AT + (224 - CARRIED_FROM);

/// A volume that is served no more and may still come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deleted {
    /// When it was deleted, by the clock of the wall: to be told, not to be reckoned with.
    pub unix_seconds: u64,
    /// How long arrays that had the pool open have seen it so, as far as that is durable.
    pub seen_seconds: u64,
}

impl Deleted {
    /// What is carried, and that the volume is deleted, or is not.
    #[must_use]
    pub fn mark(carried: &[u8; CARRIED_BYTES], deleted: Option<Deleted>) -> [u8; CARRIED_BYTES] {
        let mut marked = *carried;
        marked[FLAGS_AT] = if deleted.is_some() { FLAG_DELETED } else { 0 };
        let Deleted { unix_seconds, seen_seconds } = deleted.unwrap_or_default();
        marked[DELETED_AT..DELETED_AT + 8].copy_from_slice(&unix_seconds.to_le_bytes());
        marked[DELETED_SEEN..DELETED_SEEN + 8].copy_from_slice(&seen_seconds.to_le_bytes());
        marked
    }

    /// Whether what is carried says that the volume is deleted.
    #[must_use]
    pub fn of(carried: &[u8; CARRIED_BYTES]) -> Option<Deleted> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| carried[at + index]));
        (carried[FLAGS_AT] & FLAG_DELETED != 0)
            .then(|| Deleted { unix_seconds: number(DELETED_AT), seen_seconds: number(DELETED_SEEN) })
    }
}

/// What an entry describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeKind {
    /// Writable.
    Volume,
    /// The image of one volume in a snapshot: never changes.
    Snapshot,
}

/// What a volume is for; decides the largest chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Small random pages: chunks up to 16 KiB.
    Oltp,
    /// Anything: chunks up to 32 KiB.
    General,
    /// Large sequential streams: chunks up to 32 KiB today, 64 KiB for cold data later.
    Bulk,
}

/// How a volume's chunks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not.
    Off,
    /// LZ4.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
}

impl Compression {
    /// The byte that stands for it on drives.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Compression::Off => 0,
            Compression::Lz4 => 1,
            Compression::Zstd => 2,
        }
    }

    /// The compression of a stored byte.
    pub fn from_byte(byte: u8) -> Result<Compression, Damage> {
        match byte {
            0 => Ok(Compression::Off),
            1 => Ok(Compression::Lz4),
            2 => Ok(Compression::Zstd),
            _ => Err(Damage::new(DamageKind::Version, "volume compression is unknown")),
        }
    }
}

/// A volume or a snapshot image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeEntry {
    /// Its identity; never reused.
    pub id: VolumeId,
    /// Volume or snapshot image.
    pub kind: VolumeKind,
    /// What it is for.
    pub profile: Profile,
    /// How it is compressed.
    pub compression: Compression,
    /// Whether equal blocks are looked for.
    pub dedupe: bool,
    /// 9 for 512-byte, 12 for 4096-byte logical blocks.
    pub logical_block_shift: u8,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// Its size.
    pub size_bytes: u64,
    /// The root of its map. On a drive never a memory page.
    pub root: Pointer,
    /// Snapshot: the volume. Clone: the snapshot image. 0: none.
    pub origin: VolumeId,
    /// Snapshots taken at one instant share this number: the id of the first image.
    pub group: VolumeId,
    /// The LSN of its creation.
    pub birth: Lsn,
    /// The LSN of the newest snapshot or clone taken of it: data older than this may be shared.
    pub newest_snapshot: Lsn,
    /// Blocks mapped to data.
    pub written_blocks: u64,
    /// Bytes of the chunks that it wrote itself and still refers to: those born at `own_from` and later. At
    /// most so many where `written_blocks` is not known.
    pub own_bytes: u64,
    /// Where chunks are born that it writes itself, as [`Pointer::birth_place`] tells it: what a clone found
    /// when it was made lies before that. 0: all it has is its own.
    pub own_from: u64,
    /// Volume: its name. Snapshot image: the snapshot's name.
    pub name: String,
    /// Snapshot image: the volume's name at that time. Clone: what it was made from.
    pub origin_name: String,
    /// Bytes 13 to 15 and 208 to 255, as they were read, without what it has of its own.
    pub carried: [u8; CARRIED_BYTES],
}

/// Refuses sizes that no volume has.
pub(crate) fn check_size(size_bytes: u64) -> Result<u64, Damage> {
    if size_bytes > VOLUME_BYTES_MAX {
        return Err(Damage::new(DamageKind::Impossible, "volume is larger than any can be"));
    }
    Ok(size_bytes)
}

impl VolumeEntry {
    /// `VOLUME`, `VOLUME@SNAPSHOT` for the image of one volume, or `VOLUME:NUMBER` of a deleted volume, whose
    /// name may be another's by now.
    #[must_use]
    pub fn full_name(&self) -> String {
        match self.kind {
            VolumeKind::Volume if self.deleted().is_some() => format!("{}:{}", self.name, self.id.0),
            VolumeKind::Volume => self.name.clone(),
            VolumeKind::Snapshot => format!("{}@{}", self.origin_name, self.name),
        }
    }

    /// Whether it is a volume that hosts may use.
    #[must_use]
    pub fn is_alive_volume(&self) -> bool {
        self.kind == VolumeKind::Volume && self.deleted().is_none()
    }

    /// Since when a volume is deleted that may still come back.
    #[must_use]
    pub fn deleted(&self) -> Option<Deleted> {
        Deleted::of(&self.carried).filter(|_| self.kind == VolumeKind::Volume)
    }

    /// Appends the entry, 256 bytes.
    pub fn encode(&self, writer: &mut Writer) {
        let start = writer.len();
        let kind = match self.kind {
            VolumeKind::Volume => 1,
            VolumeKind::Snapshot => 2,
        };
        let profile = match self.profile {
            Profile::Oltp => 1,
            Profile::General => 2,
            Profile::Bulk => 3,
        };
        let compression = self.compression.to_byte();
        assert!(self.name.len() <= NAME_BYTES_MAX, "name `{}` is too long", self.name);
        assert!(self.origin_name.len() <= ORIGIN_BYTES_MAX, "origin `{}` is too long", self.origin_name);
        writer.u64(self.id.0).u8(kind).u8(profile).u8(compression).u8(u8::from(self.dedupe));
        writer.u8(self.logical_block_shift).put(&self.carried[..3]);
        writer.u64(self.created_unix_seconds).u64(self.size_bytes).u64(self.root.0).u64(self.origin.0);
        writer.u64(self.group.0).u64(self.birth.0).u64(self.newest_snapshot.0).u64(self.written_blocks);
        writer.name(&self.name).pad_to(start + 80 + 1 + NAME_BYTES_MAX);
        let carried = &self.carried[3..];
        writer.name(&self.origin_name).pad_to(start + CARRIED_FROM).put(&carried[..OWN_AT - CARRIED_FROM]);
        writer.u64(self.own_bytes).u64(self.own_from).put(&carried[OWN_END - CARRIED_FROM..]);
    }

    /// An empty place in the table.
    pub fn encode_empty(writer: &mut Writer) {
        writer.pad_to(writer.len() + VOLUME_ENTRY_BYTES);
    }

    /// Reads an entry; `None` for an empty place.
    pub fn decode(bytes: &[u8]) -> Result<Option<VolumeEntry>, Damage> {
        if bytes.len() != VOLUME_ENTRY_BYTES {
            return Err(Damage::new(DamageKind::Truncated, "volume entry ends early"));
        }
        let unknown = |what| Damage::new(DamageKind::Version, what);
        let mut reader = Reader::new(bytes);
        let id = VolumeId(reader.u64()?);
        let kind = match reader.u8()? {
            0 => return Ok(None),
            1 => VolumeKind::Volume,
            2 => VolumeKind::Snapshot,
            _ => return Err(unknown("volume kind is unknown")),
        };
        let profile = match reader.u8()? {
            1 => Profile::Oltp,
            2 => Profile::General,
            3 => Profile::Bulk,
            _ => return Err(unknown("volume profile is unknown")),
        };
        let compression = Compression::from_byte(reader.u8()?)?;
        let dedupe = reader.u8()? != 0;
        let logical_block_shift = reader.u8()?;
        if !matches!(logical_block_shift, 9 | 12) {
            return Err(Damage::new(DamageKind::Impossible, "logical block is neither 512 nor 4096"));
        }
        let mut carried = [0; CARRIED_BYTES];
        carried[..3].copy_from_slice(reader.take(3)?);
        carried[3..].copy_from_slice(&bytes[CARRIED_FROM..]);
        let carried = without_own(carried);
        if carried[FLAGS_AT] & !FLAG_DELETED != 0 {
            return Err(unknown("volume has flags that this program does not know"));
        }
        let created_unix_seconds = reader.u64()?;
        let size_bytes = check_size(reader.u64()?)?;
        let root = Pointer(reader.u64()?);
        let origin = VolumeId(reader.u64()?);
        let group = VolumeId(reader.u64()?);
        let birth = Lsn(reader.u64()?);
        let newest_snapshot = Lsn(reader.u64()?);
        let written_blocks = reader.u64()?;
        let name = Reader::new(&bytes[80..144]).name()?;
        let origin_name = Reader::new(&bytes[144..CARRIED_FROM]).name()?;
        let mut own = Reader::new(&bytes[OWN_AT..OWN_END]);
        let (own_bytes, own_from) = (own.u64()?, own.u64()?);
        Ok(Some(VolumeEntry {
            id,
            kind,
            profile,
            compression,
            dedupe,
            logical_block_shift,
            created_unix_seconds,
            size_bytes,
            root,
            origin,
            group,
            birth,
            newest_snapshot,
            written_blocks,
            own_bytes,
            own_from,
            name,
            origin_name,
            carried,
        }))
    }
}

/// Carried bytes without those that say what the volume has of its own: they have fields.
pub(crate) fn without_own(mut carried: [u8; CARRIED_BYTES]) -> [u8; CARRIED_BYTES] {
    carried[3 + OWN_AT - CARRIED_FROM..3 + OWN_END - CARRIED_FROM].fill(0);
    carried
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(crate) fn sample() -> VolumeEntry {
        VolumeEntry {
            id: VolumeId(9),
            kind: VolumeKind::Snapshot,
            profile: Profile::Oltp,
            compression: Compression::Zstd,
            dedupe: true,
            logical_block_shift: 12,
            created_unix_seconds: 1_700_000_000,
            size_bytes: 1 << 48,
            root: Pointer::ZERO,
            origin: VolumeId(3),
            group: VolumeId(8),
            birth: Lsn(99),
            newest_snapshot: Lsn(98),
            written_blocks: 12,
            own_bytes: 77 << 20,
            own_from: 5 << 20,
            name: "n".repeat(NAME_BYTES_MAX),
            origin_name: "o".repeat(ORIGIN_BYTES_MAX),
            carried: {
                let mut carried = [9; CARRIED_BYTES];
                carried[1] = 0;
                carried[27..43].fill(0);
                carried
            },
        }
    }

    #[test]
    fn entries_are_256_bytes_and_survive_the_trip() {
        let mut writer = Writer::new();
        sample().encode(&mut writer);
        VolumeEntry::encode_empty(&mut writer);
        let bytes = writer.into_bytes();
        assert_eq!(bytes.len(), 2 * VOLUME_ENTRY_BYTES);
        assert_eq!(VolumeEntry::decode(&bytes[..256]).unwrap(), Some(sample()));
        assert_eq!(VolumeEntry::decode(&bytes[256..]).unwrap(), None);
    }

    #[test]
    fn a_deleted_volume_says_so_and_since_when() {
        let deleted = Deleted { unix_seconds: 1_800_000_000, seen_seconds: 3_601 };
        let mut entry = VolumeEntry { kind: VolumeKind::Volume, ..sample() };
        let before = entry.carried;
        entry.carried = Deleted::mark(&before, Some(deleted));
        let mut writer = Writer::new();
        entry.encode(&mut writer);
        let bytes = writer.into_bytes();
        // Written on drives: these never change.
        assert_eq!((bytes[14], bytes[15]), (1, 9));
        assert_eq!(bytes[208..216], 1_800_000_000_u64.to_le_bytes());
        assert_eq!(bytes[224..232], 3_601_u64.to_le_bytes());
        let read = VolumeEntry::decode(&bytes).unwrap().unwrap();
        assert_eq!((read.deleted(), read.is_alive_volume()), (Some(deleted), false));
        let back = Deleted::mark(&read.carried, None);
        assert_eq!((Deleted::of(&back), back[2], back[11]), (None, before[2], before[11]));
        // No image is deleted and may come back.
        assert_eq!(VolumeEntry { kind: VolumeKind::Snapshot, ..read }.deleted(), None);
    }

    #[test]
    fn impossible_entries_are_damage() {
        let mut writer = Writer::new();
        sample().encode(&mut writer);
        let bytes = writer.into_bytes();
        for (index, value) in [(8, 9), (9, 0), (10, 7), (12, 10), (14, 2), (31, 1), (80, 255)] {
            let mut damaged = bytes.clone();
            damaged[index] = value;
            assert!(VolumeEntry::decode(&damaged).is_err(), "byte {index}");
        }
    }
}
