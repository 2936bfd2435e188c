//! Chunks that move are made smaller on the way: blocks that nothing refers to any more stay behind, and
//! what is cold is compressed better.
//!
//! LZ4 serves hot data, since it decodes three times as fast; what survived until its segment was worth
//! emptying is seldom read. Only payload, codec, length and the mask of blocks kept change in the header:
//! the chunk keeps its address, and its blocks their numbers.

use ashlar_format::MediaKey;
use ashlar_format::chunk::{CHUNK_BLOCKS_MAX, CHUNK_HEADER_BYTES, ChunkHeader, Codec};
use ashlar_reduction as reduction;
use ashlar_units::BLOCK_BYTES_USIZE;

/// A saving below one part in this many is not worth the slower decoding.
const SAVING_FRACTION_MIN: usize = 16;

/// Buffers, kept from one chunk to the next.
pub(super) struct Recompressor {
    key: MediaKey,
    decoded: Vec<u8>,
    packed: Vec<u8>,
    back: Vec<u8>,
    record: Vec<u8>,
    /// Bytes saved since the start by compressing better.
    pub(super) saved_bytes: u64,
    /// Blocks left out since the start.
    pub(super) trimmed_blocks: u64,
}

impl Recompressor {
    pub(super) fn new(key: &MediaKey) -> Recompressor {
        Recompressor {
            key: key.clone(),
            decoded: Vec::new(),
            packed: Vec::new(),
            back: Vec::new(),
            record: Vec::new(),
            saved_bytes: 0,
            trimmed_blocks: 0,
        }
    }

    /// The same chunk in fewer bytes, or `record` as it is. Blocks that are not `alive`, a bit each, are
    /// left out, unless none is: then it moves along as the neighbour of something alive.
    pub(super) fn fit<'a>(&'a mut self, record: &'a [u8], alive: u16, is_cold: bool) -> &'a [u8] {
        if self.pack(record, alive, is_cold).is_some() { &self.record } else { record }
    }

    fn pack(&mut self, record: &[u8], alive: u16, is_cold: bool) -> Option<()> {
        let (header, payload) = ChunkHeader::open_any(&self.key, record).ok()?;
        let kept = match header.kept & alive {
            0 => header.kept,
            kept => kept,
        };
        let is_trimmed = kept != header.kept;
        let is_better = is_cold && header.codec == Codec::Lz4;
        if !is_trimmed && !is_better {
            return None;
        }
        self.decode(&header, payload)?;
        self.keep_only(&header, kept);
        let codec = if is_better { Codec::Zstd } else { header.codec };
        self.packed.resize(self.decoded.len(), 0);
        let packed = reduction::compress(codec, &self.decoded, &mut self.packed);
        let (codec, new) = match packed {
            Some(length) => (codec, &self.packed[..length]),
            None => (Codec::None, &self.decoded[..]),
        };
        let saved_min = if is_trimmed { 1 } else { payload.len() / SAVING_FRACTION_MIN };
        if new.len() + saved_min > payload.len() {
            return None;
        }
        // The original goes for good: what cannot be read back does not take its place.
        self.back.resize(self.decoded.len(), 0);
        reduction::decompress(codec, new, &mut self.back).ok()?;
        if self.back != self.decoded {
            return None;
        }
        let sealed = ChunkHeader { codec, kept, payload_bytes: new.len() as u32, ..header };
        self.record.resize(CHUNK_HEADER_BYTES + new.len(), 0);
        self.record[CHUNK_HEADER_BYTES..].copy_from_slice(new);
        let saved_bytes = (payload.len() - new.len()) as u64;
        sealed.seal(&self.key, &mut self.record);
        self.trimmed_blocks += u64::from((header.kept & !kept).count_ones());
        self.saved_bytes += if is_trimmed { 0 } else { saved_bytes };
        Some(())
    }

    fn decode(&mut self, header: &ChunkHeader, payload: &[u8]) -> Option<()> {
        self.decoded.resize(header.decoded_bytes(), 0);
        reduction::decompress(header.codec, payload, &mut self.decoded).ok()
    }

    /// Moves the decoded blocks to be kept together.
    fn keep_only(&mut self, header: &ChunkHeader, kept: u16) {
        let mut end = 0;
        for index in (0..CHUNK_BLOCKS_MAX).filter(|index| kept >> index & 1 == 1) {
            let at = header.decoded_at(index);
            self.decoded.copy_within(at..at + BLOCK_BYTES_USIZE, end);
            end += BLOCK_BYTES_USIZE;
        }
        self.decoded.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ashlar_format::Pointer;
    use ashlar_units::SegmentId;

    const ALL: u16 = u16::MAX;

    fn key() -> MediaKey {
        MediaKey::new(9)
    }

    fn chunk(content: &[u8], codec: Codec) -> (Pointer, Vec<u8>) {
        let mut packed = vec![0; content.len()];
        let length = reduction::compress(codec, content, &mut packed).unwrap_or(content.len());
        let payload = if codec == Codec::None { content } else { &packed[..length] };
        let header = ChunkHeader {
            codec,
            blocks: (content.len() / 4096) as u8,
            kept: ChunkHeader::all_of((content.len() / 4096) as u8),
            segment: SegmentId(7),
            offset_bytes: 640,
            payload_bytes: payload.len() as u32,
            owner_volume: 3,
            owner_block: 99,
        };
        let mut record = vec![0; CHUNK_HEADER_BYTES];
        record.extend_from_slice(payload);
        header.seal(&key(), &mut record);
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
        let mut recompressor = Recompressor::new(&key());
        let better = recompressor.fit(&record, ALL, true).to_vec();
        assert!(better.len() < record.len() * 9 / 10, "{} of {}", better.len(), record.len());
        let (header, payload) = ChunkHeader::open(&key(), pointer.with_block_index(3), &better).unwrap();
        let mut back = vec![0; content.len()];
        reduction::decompress(header.codec, payload, &mut back).unwrap();
        assert_eq!((back, header.owner_block), (content, 99));
        assert_eq!(recompressor.saved_bytes, (record.len() - better.len()) as u64);
    }

    #[test]
    fn what_is_not_lz4_or_does_not_shrink_is_left_alone() {
        let mut recompressor = Recompressor::new(&key());
        for codec in [Codec::None, Codec::Zstd] {
            let (_, record) = chunk(&prose(8 << 10), codec);
            assert_eq!(recompressor.fit(&record, ALL, true), record);
        }
        assert_eq!(recompressor.fit(b"no chunk at all", 1, true), b"no chunk at all");
        let (_, mut damaged) = chunk(&prose(8 << 10), Codec::Lz4);
        damaged[40] ^= 1;
        assert_eq!(recompressor.fit(&damaged.clone(), ALL, true), damaged);
    }

    #[test]
    fn blocks_that_nothing_refers_to_stay_behind() {
        let content = prose(8 * 4096);
        for (codec, is_cold) in
            [(Codec::None, true), (Codec::Lz4, false), (Codec::Lz4, true), (Codec::Zstd, true)]
        {
            let (pointer, record) = chunk(&content, codec);
            let mut recompressor = Recompressor::new(&key());
            let once = recompressor.fit(&record, 0b1010_0001, is_cold).to_vec();
            let twice = recompressor.fit(&once, 0b1000_0011, false).to_vec();
            assert!(twice.len() < once.len() && once.len() < record.len(), "{codec:?}");
            assert_eq!(recompressor.trimmed_blocks, 5 + 1);
            for (record, kept) in [(&once, vec![0, 5, 7]), (&twice, vec![0, 7])] {
                let (header, payload) = ChunkHeader::open(&key(), pointer, record).unwrap();
                let mut back = vec![0; header.decoded_bytes()];
                reduction::decompress(header.codec, payload, &mut back).unwrap();
                for index in 0..8 {
                    assert_eq!(header.has(index), kept.contains(&index));
                }
                for index in kept {
                    let block = &back[header.decoded_at(index)..][..4096];
                    assert_eq!(block, &content[index * 4096..][..4096], "block {index}");
                }
            }
        }
    }

    #[test]
    fn a_dead_neighbour_moves_along_as_it_is() {
        let (_, record) = chunk(&prose(8 << 10), Codec::None);
        assert_eq!(Recompressor::new(&key()).fit(&record, 0b100, false), record);
    }
}
