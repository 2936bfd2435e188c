//! The chunk header: 32 bytes before 1 to 16 compressed blocks.
//!
//! ```text
//!  0 u16 magic      2 u8 codec (bit 6 reserved: sealed by a cipher)       3 u8 blocks
//!  4 u32 segment    8 u32 offset / 64
//! 12 u32 payload bytes
//!    of a trimmed chunk (bit 7 of the codec): u16 payload bytes, 14 u16 blocks kept
//! 16 u64 owner: volume (low 28 bits) << 36 | first block (36 bits), a hint
//! 24 u64 keyed checksum of bytes 0..24 and the payload
//! ```
//!
//! Segment and offset are the chunk's own address: with segment numbers never reused they tell a
//! lost or misdirected write from the real thing.
//!
//! A trimmed chunk is one of which the cleaner kept only the blocks that something refers to: bit i of
//! the mask says whether block i is there, and the payload holds those, in order. Pointers go on naming
//! blocks by their number in the whole chunk.

use ashlar_units::{BLOCK_BYTES_USIZE, SegmentId, VolumeId};

use crate::bytes::Reader;
use crate::pointer::PLACE_UNIT_BYTES;
use crate::{Damage, DamageKind, Kind, MediaKey, Pointer};

/// Bytes of the header.
pub const CHUNK_HEADER_BYTES: usize = 32;
/// Blocks in a chunk at most.
pub const CHUNK_BLOCKS_MAX: usize = 16;
/// No chunk crosses a multiple of this many blocks (64 KiB), so that rewriting a region replaces
/// whole chunks instead of leaving parts of many alive.
pub const CHUNK_REGION_BLOCKS: u64 = 16;

const MAGIC: u16 = 0xc4a5;
/// Bit of the codec byte: the chunk is trimmed.
const TRIMMED: u8 = 0x80;

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
    /// Blocks in the chunk as it was written, 1 to 16.
    pub blocks: u8,
    /// A bit for each of them that is still there.
    pub kept: u16,
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

    /// A bit for each of so many blocks.
    #[must_use]
    pub fn all_of(blocks: u8) -> u16 {
        u16::MAX >> (CHUNK_BLOCKS_MAX as u32 - u32::from(blocks).clamp(1, CHUNK_BLOCKS_MAX as u32))
    }

    /// Whether a block is there.
    #[must_use]
    pub fn has(&self, block_index: usize) -> bool {
        block_index < CHUNK_BLOCKS_MAX && self.kept >> block_index & 1 == 1
    }

    /// Where a block that is there lies among the decoded ones.
    #[must_use]
    pub fn decoded_at(&self, block_index: usize) -> usize {
        let before = self.kept & ((1 << block_index) - 1);
        before.count_ones() as usize * BLOCK_BYTES_USIZE
    }

    /// Bytes of the blocks that are there, when decoded.
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        self.kept.count_ones() as usize * BLOCK_BYTES_USIZE
    }

    /// The pointer to the chunk's first block.
    #[must_use]
    pub fn pointer(&self) -> Pointer {
        Pointer::data(self.segment, self.offset_bytes, self.total_bytes())
    }

    /// Writes the header, checksum included, before a payload already in place.
    /// `chunk` is header room and payload.
    pub fn seal(&self, key: &MediaKey, chunk: &mut [u8]) {
        assert_eq!(chunk.len() as u64, self.total_bytes(), "chunk and header disagree on the length");
        assert!(
            (1..=CHUNK_BLOCKS_MAX).contains(&usize::from(self.blocks)),
            "chunk of {} blocks",
            self.blocks
        );
        let all = Self::all_of(self.blocks);
        assert!(self.kept != 0 && self.kept & !all == 0, "{:#b} of {} blocks", self.kept, self.blocks);
        let (place, payload) = chunk.split_at_mut(CHUNK_HEADER_BYTES);
        let mut header = [0; CHUNK_HEADER_BYTES];
        header[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        let is_trimmed = self.kept != all;
        header[2] = self.codec.to_byte() | if is_trimmed { TRIMMED } else { 0 };
        header[3] = self.blocks;
        header[4..8].copy_from_slice(&self.segment.0.to_le_bytes());
        let units = u32::try_from(self.offset_bytes / PLACE_UNIT_BYTES).expect("a segment is at most 64 MiB");
        header[8..12].copy_from_slice(&units.to_le_bytes());
        header[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        if is_trimmed {
            assert!(self.payload_bytes <= u32::from(u16::MAX), "15 blocks are less than 64 KiB");
            header[14..16].copy_from_slice(&self.kept.to_le_bytes());
        }
        let owner = u64::from(self.owner_volume & 0xfff_ffff) << 36 | self.owner_block & 0xf_ffff_ffff;
        header[16..24].copy_from_slice(&owner.to_le_bytes());
        let sum = key.checksum_of(Kind::Chunk, &header[..24], payload);
        header[24..32].copy_from_slice(&sum.to_le_bytes());
        place.copy_from_slice(&header);
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
        let lengths = reader.u32()?;
        let (payload_bytes, kept) = match codec_byte & TRIMMED {
            0 => (lengths, Self::all_of(blocks)),
            _ => (lengths & 0xffff, (lengths >> 16) as u16),
        };
        let owner = reader.u64()?;
        reader.u64()?;
        Ok(ChunkHeader {
            codec: Codec::from_byte(codec_byte & !TRIMMED)?,
            blocks,
            kept,
            segment,
            offset_bytes,
            payload_bytes,
            owner_volume: (owner >> 36) as u32,
            owner_block: owner & 0xf_ffff_ffff,
        })
    }

    /// Reads and verifies a chunk with the block that a pointer names. Returns the header and the payload.
    pub fn open<'a>(
        key: &MediaKey,
        pointer: Pointer,
        bytes: &'a [u8],
    ) -> Result<(ChunkHeader, &'a [u8]), Damage> {
        let (header, payload) = Self::open_chunk_of(key, pointer, bytes)?;
        if !header.has(pointer.block_index()) {
            return Err(Damage::new(DamageKind::Impossible, "pointer names a block the chunk does not have"));
        }
        Ok((header, payload))
    }

    /// The same for any block of it.
    pub fn open_chunk_of<'a>(
        key: &MediaKey,
        pointer: Pointer,
        bytes: &'a [u8],
    ) -> Result<(ChunkHeader, &'a [u8]), Damage> {
        let (header, payload) = Self::open_any(key, bytes)?;
        if header.segment != pointer.segment() || header.offset_bytes != pointer.offset_bytes() {
            return Err(Damage::new(DamageKind::Misplaced, "chunk belongs to another place"));
        }
        Ok((header, payload))
    }

    /// Reads and verifies a chunk wherever it says it lives.
    pub fn open_any<'a>(key: &MediaKey, bytes: &'a [u8]) -> Result<(ChunkHeader, &'a [u8]), Damage> {
        let header = Self::peek(bytes)?;
        if !(1..=CHUNK_BLOCKS_MAX).contains(&usize::from(header.blocks)) {
            return Err(Damage::new(DamageKind::Impossible, "chunk has an impossible number of blocks"));
        }
        let is_trimmed = bytes.get(2).is_some_and(|byte| byte & TRIMMED != 0);
        let all = Self::all_of(header.blocks);
        if header.kept == 0 || header.kept & !all != 0 || is_trimmed && header.kept == all {
            return Err(Damage::new(DamageKind::Impossible, "chunk keeps blocks that it never had"));
        }
        if header.codec == Codec::None && header.payload_bytes as usize != header.decoded_bytes() {
            return Err(Damage::new(DamageKind::Impossible, "chunk stored as it is has no whole blocks"));
        }
        let mut reader = Reader::new(bytes);
        reader.take(CHUNK_HEADER_BYTES - 8)?;
        let stored = reader.u64()?;
        let payload = reader.take(header.payload_bytes as usize)?;
        if key.checksum_of(Kind::Chunk, &bytes[..CHUNK_HEADER_BYTES - 8], payload) != stored {
            return Err(Damage::new(DamageKind::Checksum, "chunk checksum mismatch"));
        }
        Ok((header, payload))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key() -> MediaKey {
        MediaKey::new(0x1234_5678 << 70)
    }

    fn sample() -> (ChunkHeader, Vec<u8>) {
        let header = ChunkHeader {
            codec: Codec::None,
            blocks: 2,
            kept: 0b11,
            segment: SegmentId(77),
            offset_bytes: 64 * 1000,
            payload_bytes: 8192,
            owner_volume: 5,
            owner_block: 123_456,
        };
        let mut bytes = vec![0x5a; header.total_bytes() as usize];
        header.seal(&key(), &mut bytes);
        (header, bytes)
    }

    #[test]
    fn a_sealed_chunk_opens_at_its_own_place_only() {
        let (header, bytes) = sample();
        let (opened, payload) = ChunkHeader::open(&key(), header.pointer(), &bytes).unwrap();
        assert_eq!(opened, header);
        assert_eq!(payload, &vec![0x5a; 8192][..]);
        let elsewhere = Pointer::data(SegmentId(78), 64 * 1000, 8224);
        assert_eq!(ChunkHeader::open(&key(), elsewhere, &bytes).unwrap_err().kind, DamageKind::Misplaced);
        let beyond = header.pointer().with_block_index(2);
        assert_eq!(ChunkHeader::open(&key(), beyond, &bytes).unwrap_err().kind, DamageKind::Impossible);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (header, bytes) = sample();
        for bit in (0..bytes.len() * 8).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(ChunkHeader::open(&key(), header.pointer(), &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_trimmed_chunk_has_what_was_kept() {
        let header = ChunkHeader { blocks: 16, kept: 0x8005, payload_bytes: 3 * 4096, ..sample().0 };
        let mut bytes = vec![0x5a; header.total_bytes() as usize];
        header.seal(&key(), &mut bytes);
        let last = header.pointer().with_block_index(15);
        let (opened, payload) = ChunkHeader::open(&key(), last, &bytes).unwrap();
        assert_eq!((opened, payload.len()), (header, 3 * 4096));
        assert_eq!(opened.decoded_bytes(), 3 * 4096);
        assert_eq!([0, 2, 15].map(|index| opened.decoded_at(index)), [0, 4096, 8192]);
        assert!(opened.has(2) && !opened.has(1) && !opened.has(16));
        let gone = header.pointer().with_block_index(1);
        assert_eq!(ChunkHeader::open(&key(), gone, &bytes).unwrap_err().kind, DamageKind::Impossible);
    }

    #[test]
    fn a_chunk_that_keeps_nothing_or_what_it_never_had_is_refused() {
        let whole =
            ChunkHeader { blocks: 4, kept: 0b0111, codec: Codec::Lz4, payload_bytes: 4096, ..sample().0 };
        for kept in [0_u16, 0b1_0000, 0b1111] {
            let mut bytes = vec![0; whole.total_bytes() as usize];
            whole.seal(&key(), &mut bytes);
            bytes[14..16].copy_from_slice(&kept.to_le_bytes());
            let sum = key().checksum_of(Kind::Chunk, &bytes[..24], &bytes[32..]);
            bytes[24..32].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(
                ChunkHeader::open_any(&key(), &bytes).unwrap_err().kind,
                DamageKind::Impossible,
                "{kept:#b}"
            );
        }
    }

    #[test]
    fn a_chunk_of_another_pool_or_with_half_a_block_is_refused() {
        let (header, bytes) = sample();
        let other = MediaKey::new(1);
        assert_eq!(ChunkHeader::open_any(&other, &bytes).unwrap_err().kind, DamageKind::Checksum);
        let half = ChunkHeader { payload_bytes: 161, ..header };
        let mut bytes = vec![0; half.total_bytes() as usize];
        half.seal(&key(), &mut bytes);
        assert_eq!(ChunkHeader::open_any(&key(), &bytes).unwrap_err().kind, DamageKind::Impossible);
    }

    #[test]
    fn a_cut_chunk_is_truncated() {
        let (header, bytes) = sample();
        for length in [0, 1, 31, 32, 8000] {
            assert!(ChunkHeader::open(&key(), header.pointer(), &bytes[..length]).is_err());
        }
    }
}
