//! The chunk header: 32 bytes before 1 to 16 compressed blocks.
//!
//! ```text
//!  0 u16 magic      2 u8 codec       3 u8 blocks
//!  4 u32 segment    8 u32 offset / 64
//! 12 u32 payload bytes
//! 16 u64 owner: volume (low 28 bits) << 36 | first block (36 bits), a hint
//! 24 u64 checksum of bytes 0..24 and the payload
//! ```
//!
//! Segment and offset are the chunk's own address: with segment numbers never reused they tell a
//! lost or misdirected write from the real thing.

use ashlar_units::{BLOCK_BYTES_USIZE, SegmentId, VolumeId};
use xxhash_rust::xxh3::Xxh3;

use crate::bytes::Reader;
use crate::pointer::PLACE_UNIT_BYTES;
use crate::{Damage, DamageKind, Pointer};

/// Bytes of the header.
pub const CHUNK_HEADER_BYTES: usize = 32;
/// Blocks in a chunk at most.
pub const CHUNK_BLOCKS_MAX: usize = 16;
/// No chunk crosses a multiple of this many blocks (64 KiB), so that rewriting a region replaces
/// whole chunks instead of leaving parts of many alive.
pub const CHUNK_REGION_BLOCKS: u64 = 16;

const MAGIC: u16 = 0xc4a5;
const CHECKSUM_SEED: u64 = 0x0063_6875_6e6b;

/// How a chunk's blocks are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// As they are.
    None,
    /// LZ4 block format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    fn to_byte(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }

    /// The codec of a stored byte.
    pub fn from_byte(byte: u8) -> Result<Codec, Damage> {
        match byte {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Lz4),
            2 => Ok(Codec::Zstd),
            _ => Err(Damage::new(DamageKind::Version, "chunk codec is unknown")),
        }
    }
}

/// A decoded chunk header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// How the payload is stored.
    pub codec: Codec,
    /// Blocks in the chunk, 1 to 16.
    pub blocks: u8,
    /// Where the chunk lives.
    pub segment: SegmentId,
    /// Its offset in the segment.
    pub offset_bytes: u64,
    /// Bytes after the header.
    pub payload_bytes: u32,
    /// The volume that wrote it, low 28 bits: a hint.
    pub owner_volume: u32,
    /// The first block it was written for: a hint.
    pub owner_block: u64,
}

impl ChunkHeader {
    /// The owner field of a volume and block.
    #[must_use]
    pub fn owner_hint(volume: VolumeId) -> u32 {
        (volume.0 & 0xfff_ffff) as u32
    }

    /// Bytes of header and payload.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }

    /// Bytes of the blocks when decoded.
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        usize::from(self.blocks) * BLOCK_BYTES_USIZE
    }

    /// The pointer to the chunk's first block.
    #[must_use]
    pub fn pointer(&self) -> Pointer {
        Pointer::data(self.segment, self.offset_bytes, self.total_bytes())
    }

    /// Writes the header, checksum included, before a payload already in place.
    /// `chunk` is header room and payload.
    pub fn seal(&self, chunk: &mut [u8]) {
        assert_eq!(chunk.len() as u64, self.total_bytes(), "chunk and header disagree on the length");
        assert!(
            (1..=CHUNK_BLOCKS_MAX).contains(&usize::from(self.blocks)),
            "chunk of {} blocks",
            self.blocks
        );
        let (header, payload) = chunk.split_at_mut(CHUNK_HEADER_BYTES);
        header[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        header[2] = self.codec.to_byte();
        header[3] = self.blocks;
        header[4..8].copy_from_slice(&self.segment.0.to_le_bytes());
        let units = u32::try_from(self.offset_bytes / PLACE_UNIT_BYTES).expect("a segment is at most 64 MiB");
        header[8..12].copy_from_slice(&units.to_le_bytes());
        header[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        let owner = u64::from(self.owner_volume & 0xfff_ffff) << 36 | self.owner_block & 0xf_ffff_ffff;
        header[16..24].copy_from_slice(&owner.to_le_bytes());
        let sum = chunk_checksum(&header[..24], payload);
        header[24..32].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads a header, unverified: only its lengths may be used, to read the rest.
    pub fn peek(bytes: &[u8]) -> Result<ChunkHeader, Damage> {
        let mut reader = Reader::new(bytes);
        if reader.u16()? != MAGIC {
            return Err(Damage::new(DamageKind::Absent, "no chunk here"));
        }
        let codec_byte = reader.u8()?;
        let blocks = reader.u8()?;
        let segment = SegmentId(reader.u32()?);
        let offset_bytes = u64::from(reader.u32()?) * PLACE_UNIT_BYTES;
        let payload_bytes = reader.u32()?;
        let owner = reader.u64()?;
        reader.u64()?;
        Ok(ChunkHeader {
            codec: Codec::from_byte(codec_byte)?,
            blocks,
            segment,
            offset_bytes,
            payload_bytes,
            owner_volume: (owner >> 36) as u32,
            owner_block: owner & 0xf_ffff_ffff,
        })
    }

    /// Reads and verifies a chunk that a pointer led to. Returns the header and the payload.
    pub fn open(pointer: Pointer, bytes: &[u8]) -> Result<(ChunkHeader, &[u8]), Damage> {
        let (header, payload) = Self::open_any(bytes)?;
        if header.segment != pointer.segment() || header.offset_bytes != pointer.offset_bytes() {
            return Err(Damage::new(DamageKind::Misplaced, "chunk belongs to another place"));
        }
        if pointer.block_index() >= usize::from(header.blocks) {
            return Err(Damage::new(DamageKind::Impossible, "pointer names a block the chunk does not have"));
        }
        Ok((header, payload))
    }

    /// Reads and verifies a chunk wherever it says it lives.
    pub fn open_any(bytes: &[u8]) -> Result<(ChunkHeader, &[u8]), Damage> {
        let header = Self::peek(bytes)?;
        if !(1..=CHUNK_BLOCKS_MAX).contains(&usize::from(header.blocks)) {
            return Err(Damage::new(DamageKind::Impossible, "chunk has an impossible number of blocks"));
        }
        let mut reader = Reader::new(bytes);
        reader.take(CHUNK_HEADER_BYTES - 8)?;
        let stored = reader.u64()?;
        let payload = reader.take(header.payload_bytes as usize)?;
        if chunk_checksum(&bytes[..CHUNK_HEADER_BYTES - 8], payload) != stored {
            return Err(Damage::new(DamageKind::Checksum, "chunk checksum mismatch"));
        }
        Ok((header, payload))
    }
}

fn chunk_checksum(header: &[u8], payload: &[u8]) -> u64 {
    let mut state = Xxh3::with_seed(CHECKSUM_SEED);
    state.update(header);
    // Long inputs hash faster in one piece; the two-step form keeps the payload uncopied.
    state.update(&crate::checksum(CHECKSUM_SEED, payload).to_le_bytes());
    state.digest()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample() -> (ChunkHeader, Vec<u8>) {
        let header = ChunkHeader {
            codec: Codec::None,
            blocks: 2,
            segment: SegmentId(77),
            offset_bytes: 64 * 1000,
            payload_bytes: 8192,
            owner_volume: 5,
            owner_block: 123_456,
        };
        let mut bytes = vec![0x5a; header.total_bytes() as usize];
        header.seal(&mut bytes);
        (header, bytes)
    }

    #[test]
    fn a_sealed_chunk_opens_at_its_own_place_only() {
        let (header, bytes) = sample();
        let (opened, payload) = ChunkHeader::open(header.pointer(), &bytes).unwrap();
        assert_eq!(opened, header);
        assert_eq!(payload, &vec![0x5a; 8192][..]);
        let elsewhere = Pointer::data(SegmentId(78), 64 * 1000, 8224);
        assert_eq!(ChunkHeader::open(elsewhere, &bytes).unwrap_err().kind, DamageKind::Misplaced);
        let beyond = header.pointer().with_block_index(2);
        assert_eq!(ChunkHeader::open(beyond, &bytes).unwrap_err().kind, DamageKind::Impossible);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (header, bytes) = sample();
        for bit in (0..bytes.len() * 8).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(ChunkHeader::open(header.pointer(), &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_cut_chunk_is_truncated() {
        let (header, bytes) = sample();
        for length in [0, 1, 31, 32, 8000] {
            assert!(ChunkHeader::open(header.pointer(), &bytes[..length]).is_err());
        }
    }
}
