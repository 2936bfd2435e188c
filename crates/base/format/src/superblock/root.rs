//! The root block of a superblock: what every program must be able to read.
//!
//! ```text
//!   0 u64 magic        8 u16 version    10 u16 zero       12 u32 body bytes
//!  16 u64 compatible  24 u64 read-only  32 u64 incompatible  40 u64 allowed
//!  48 u128 pool       64 u128 copy      80 u128 media key
//!  96 u64 generation 104 u32 session   108 u16 drive     110 u8 write shift  111 u8 clean
//! 112 u128 machine   128 u128 boot     144 u64 opened, unix seconds
//! 152 name (1 + 63)  216 writer (1 + 31)                 248 u64 keyed checksum of the body
//! 256 24 features of 32 bytes: u8 class (0: none), u8 bit, name (1 + 29)
//! 1024 reserved, carried                                4088 u64 public checksum of all before
//! ```
//!
//! Magic, version and checksum stand where version 1 had them, so that it says "another version". The write
//! shift is 12: structures start on blocks of 4 KiB.

use ashlar_units::{DriveIndex, Lsn, PoolId, SegmentId};

use super::{Carried, JournalPosition, Opener, ROOT_BYTES, SUPERBLOCK_BYTES, Superblock};
use crate::bytes::{Reader, Writer};
use crate::segment::{Place, Protection};
use crate::{Damage, DamageKind, FORMAT_VERSION, Kind, MediaKey, Pointer, checksum};

pub(super) const MAGIC: u64 = 0x4153_484c_4152_5331;
/// Seed of the public checksum: that of version 1.
const PUBLIC_SEED: u64 = 0x7375_7065;
const PUBLIC_CHECKSUM_AT: usize = ROOT_BYTES - 8;
const NAME_AT: usize = 152;
const WRITER_AT: usize = 216;
const BODY_CHECKSUM_AT: usize = 248;
const FEATURES_AT: usize = 256;
const FEATURE_BYTES: usize = 32;
const RESERVED_AT: usize = FEATURES_AT + FEATURES_MAX * FEATURE_BYTES;
const WRITE_SHIFT: u8 = 12;

/// Features that can be named.
pub const FEATURES_MAX: usize = 24;

/// What a program must do with a feature bit that it does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeatureClass {
    /// Ignore it.
    Compatible,
    /// Only read.
    ReadOnly,
    /// Not open the pool.
    Incompatible,
}

/// The name of a feature bit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feature {
    /// Its class.
    pub class: FeatureClass,
    /// Its number.
    pub bit: u8,
    /// Its name, at most 29 bytes.
    pub name: String,
}

impl Feature {
    fn encode(&self, writer: &mut Writer) {
        let end = writer.len() + FEATURE_BYTES;
        let class = match self.class {
            FeatureClass::Compatible => 1,
            FeatureClass::ReadOnly => 2,
            FeatureClass::Incompatible => 3,
        };
        writer.u8(class).u8(self.bit).name(&self.name).pad_to(end);
    }

    fn decode(bytes: &[u8]) -> Result<Option<Feature>, Damage> {
        let mut reader = Reader::new(bytes);
        let class = match reader.u8()? {
            1 => FeatureClass::Compatible,
            2 => FeatureClass::ReadOnly,
            3 => FeatureClass::Incompatible,
            _ => return Ok(None),
        };
        Ok(Some(Feature { class, bit: reader.u8()?, name: reader.name()? }))
    }
}

/// The root block of a superblock with this body, for one drive.
pub(super) fn encode(superblock: &Superblock, body: &[u8], drive: DriveIndex) -> Vec<u8> {
    assert!(superblock.features.len() <= FEATURES_MAX, "{} features", superblock.features.len());
    let mut writer = Writer::new();
    writer.u64(MAGIC).u16(FORMAT_VERSION).u16(0).u32(body.len() as u32);
    writer.u64(superblock.compatible).u64(superblock.read_only).u64(superblock.incompatible);
    writer.u64(superblock.allowed).u128(superblock.pool.0).u128(superblock.copy);
    writer.u128(superblock.key.raw()).u64(superblock.generation).u32(superblock.session);
    writer.u16(drive.0).u8(WRITE_SHIFT).u8(u8::from(superblock.is_clean));
    let Opener { machine, boot, opened_unix_seconds } = superblock.opener;
    writer.u128(machine).u128(boot).u64(opened_unix_seconds);
    writer.name(&superblock.name).pad_to(WRITER_AT).name(&superblock.writer).pad_to(BODY_CHECKSUM_AT);
    writer.u64(superblock.key.checksum(Kind::Superblock, body));
    superblock.features.iter().for_each(|feature| feature.encode(&mut writer));
    writer.pad_to(RESERVED_AT).put(&superblock.carried.root).pad_to(PUBLIC_CHECKSUM_AT);
    let sum = checksum(PUBLIC_SEED, writer.as_bytes());
    writer.u64(sum);
    writer.into_bytes()
}

/// Reads the root block of a slot: a superblock whose body is to be read yet, the body's length and its
/// checksum.
pub(super) fn decode(slot: &[u8]) -> Result<(Superblock, usize, u64), Damage> {
    let mut reader = Reader::new(slot);
    if reader.u64()? != MAGIC {
        return Err(Damage::new(DamageKind::Absent, "no superblock here"));
    }
    let root = slot.get(..ROOT_BYTES).ok_or(Damage::new(DamageKind::Truncated, "superblock ends early"))?;
    if checksum(PUBLIC_SEED, &root[..PUBLIC_CHECKSUM_AT]) != Reader::new(&root[PUBLIC_CHECKSUM_AT..]).u64()? {
        return Err(Damage::new(DamageKind::Checksum, "superblock checksum mismatch"));
    }
    let version = reader.u16()?;
    if version != FORMAT_VERSION {
        let context = format!(
            "the pool was written in format version {version}, and this program reads version {FORMAT_VERSION} only"
        );
        return Err(Damage::told(DamageKind::Version, context));
    }
    reader.u16()?;
    let body_bytes = reader.u32()? as usize;
    if body_bytes > SUPERBLOCK_BYTES - ROOT_BYTES {
        return Err(Damage::new(DamageKind::Impossible, "superblock is longer than its slot"));
    }
    let (compatible, read_only, incompatible) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let allowed = reader.u64()?;
    let (pool, copy) = (PoolId(reader.u128()?), reader.u128()?);
    let key = MediaKey::new(reader.u128()?);
    let (generation, session) = (reader.u64()?, reader.u32()?);
    let drive = DriveIndex(reader.u16()?);
    if reader.u8()? != WRITE_SHIFT {
        return Err(Damage::new(DamageKind::Version, "pool is written in units this program does not know"));
    }
    let is_clean = reader.u8()? != 0;
    let opener = Opener { machine: reader.u128()?, boot: reader.u128()?, opened_unix_seconds: reader.u64()? };
    let name = Reader::new(&root[NAME_AT..WRITER_AT]).name()?;
    let writer = Reader::new(&root[WRITER_AT..BODY_CHECKSUM_AT]).name()?;
    let body_sum = Reader::new(&root[BODY_CHECKSUM_AT..]).u64()?;
    let mut features = Vec::new();
    for bytes in root[FEATURES_AT..RESERVED_AT].chunks_exact(FEATURE_BYTES) {
        features.extend(Feature::decode(bytes)?);
    }
    let reserved = &root[RESERVED_AT..PUBLIC_CHECKSUM_AT];
    let used = reserved.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let carried = Carried { root: reserved[..used].to_vec(), ..Carried::default() };
    let superblock = Superblock {
        compatible,
        read_only,
        incompatible,
        allowed,
        features,
        pool,
        copy,
        key,
        name,
        writer,
        generation,
        session,
        opener,
        is_clean,
        drive,
        carried,
        ..blank()
    };
    Ok((superblock, body_bytes, body_sum))
}

/// A superblock whose body says nothing yet.
fn blank() -> Superblock {
    Superblock {
        compatible: 0,
        read_only: 0,
        incompatible: 0,
        allowed: 0,
        features: Vec::new(),
        pool: PoolId(0),
        copy: 0,
        key: MediaKey::new(0),
        name: String::new(),
        writer: String::new(),
        generation: 0,
        session: 0,
        opener: Opener::default(),
        protection: Protection::None,
        is_clean: false,
        segment_bytes: 0,
        cell_bytes: 0,
        fingerprint_key: 0,
        created_unix_seconds: 0,
        checkpoint: Lsn(0),
        journal: JournalPosition { segment: SegmentId(0), ..JournalPosition::default() },
        volume_table: Pointer::HOLE,
        segment_table: Pointer::HOLE,
        segment_table_place: Place::default(),
        relocation_table: Pointer::HOLE,
        notebook: Pointer::HOLE,
        segment_next: 0,
        volume_next: 0,
        previous_hash: 0,
        drive: DriveIndex(0),
        drives: Vec::new(),
        frontier: Vec::new(),
        layout: None,
        carried: Carried::default(),
    }
}
