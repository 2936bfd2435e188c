//! Chunks that move are cold: they are compressed better on the way.
//!
//! LZ4 serves hot data, since it decodes three times as fast; what survived until its segment was worth
//! emptying is seldom read. Only payload, codec and length of the header change: the chunk keeps its
//! address, its blocks and their places in it.

use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, Codec};
use ashlar_reduction as reduction;

/// A saving below one part in this many is not worth the slower decoding.
const SAVING_FRACTION_MIN: usize = 16;

/// Buffers, kept from one chunk to the next.
#[derive(Default)]
pub(super) struct Recompressor {
    decoded: Vec<u8>,
    packed: Vec<u8>,
    back: Vec<u8>,
    record: Vec<u8>,
    /// Bytes saved since the start.
    pub(super) saved_bytes: u64,
}

impl Recompressor {
    /// The same chunk in fewer bytes, or `record` as it is.
    pub(super) fn improve<'a>(&'a mut self, record: &'a [u8]) -> &'a [u8] {
        if self.pack(record).is_some() { &self.record } else { record }
    }

    fn pack(&mut self, record: &[u8]) -> Option<()> {
        let (header, payload) = ChunkHeader::open_any(record).ok()?;
        if header.codec != Codec::Lz4 {
            return None;
        }
        self.decoded.resize(header.decoded_bytes(), 0);
        reduction::decompress(Codec::Lz4, payload, &mut self.decoded).ok()?;
        self.packed.resize(header.decoded_bytes(), 0);
        let length = reduction::compress(Codec::Zstd, &self.decoded, &mut self.packed)?;
        if length + payload.len() / SAVING_FRACTION_MIN > payload.len() {
            return None;
        }
        // The original goes for good: what cannot be read back does not take its place.
        self.back.resize(header.decoded_bytes(), 0);
        reduction::decompress(Codec::Zstd, &self.packed[..length], &mut self.back).ok()?;
        if self.back != self.decoded {
            return None;
        }
        let header = ChunkHeader { codec: Codec::Zstd, payload_bytes: length as u32, ..header };
        self.record.resize(CHUNK_HEADER_BYTES + length, 0);
        self.record[CHUNK_HEADER_BYTES..].copy_from_slice(&self.packed[..length]);
        header.seal(&mut self.record);
        self.saved_bytes += (payload.len() - length) as u64;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ashlar_format::Pointer;
    use ashlar_units::SegmentId;

    fn chunk(content: &[u8], codec: Codec) -> (Pointer, Vec<u8>) {
        let mut packed = vec![0; content.len()];
        let length = reduction::compress(codec, content, &mut packed).unwrap_or(content.len());
        let payload = if codec == Codec::None { content } else { &packed[..length] };
        let header = ChunkHeader {
            codec,
            blocks: (content.len() / 4096) as u8,
            segment: SegmentId(7),
            offset_bytes: 640,
            payload_bytes: payload.len() as u32,
            owner_volume: 3,
            owner_block: 99,
        };
        let mut record = vec![0; CHUNK_HEADER_BYTES];
        record.extend_from_slice(payload);
        header.seal(&mut record);
        (header.pointer(), record)
    }

    fn prose(length: usize) -> Vec<u8> {
        let words = ["select ", "from ", "accounts ", "where ", "balance ", "is ", "branch ", "teller "];
        let mut state = 1_u32;
        let mut text = Vec::new();
        while text.len() < length {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.extend_from_slice(words[(state >> 29) as usize].as_bytes());
            text.extend_from_slice((state >> 20).to_string().as_bytes());
        }
        text.truncate(length);
        text
    }

    #[test]
    fn a_chunk_gets_smaller_and_stays_itself() {
        let content = prose(16 << 10);
        let (pointer, record) = chunk(&content, Codec::Lz4);
        let mut recompressor = Recompressor::default();
        let better = recompressor.improve(&record).to_vec();
        assert!(better.len() < record.len() * 9 / 10, "{} of {}", better.len(), record.len());
        let (header, payload) = ChunkHeader::open(pointer.with_block_index(3), &better).unwrap();
        let mut back = vec![0; content.len()];
        reduction::decompress(header.codec, payload, &mut back).unwrap();
        assert_eq!((back, header.owner_block), (content, 99));
        assert_eq!(recompressor.saved_bytes, (record.len() - better.len()) as u64);
    }

    #[test]
    fn what_is_not_lz4_or_does_not_shrink_is_left_alone() {
        let mut recompressor = Recompressor::default();
        for codec in [Codec::None, Codec::Zstd] {
            let (_, record) = chunk(&prose(8 << 10), codec);
            assert_eq!(recompressor.improve(&record), record);
        }
        assert_eq!(recompressor.improve(b"no chunk at all"), b"no chunk at all");
        let (_, mut damaged) = chunk(&prose(8 << 10), Codec::Lz4);
        damaged[40] ^= 1;
        assert_eq!(recompressor.improve(&damaged.clone()), damaged);
    }
}
