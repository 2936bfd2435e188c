//! The parsers under test: one function and some valid encodings each.
//!
//! A decoder of the media format is fed twice: the bytes as they are, and with the checksum put right.
//! What it accepts must encode to the same thing again.

use ashlar_format::bytes::{Reader, Writer};
use ashlar_format::chunk::{ChunkHeader, Codec};
use ashlar_format::page::{PageContent, PageHeader, PageIdentity, pointers_from_bytes, pointers_to_bytes};
use ashlar_format::segment::{
    FooterEntry, Place, SegmentEntry, SegmentHeader, SegmentKind, decode_footer, encode_footer,
};
use ashlar_format::{Pointer, PointerKind};
use ashlar_units::{DriveIndex, Lsn, PoolId, SegmentId};

use crate::seal;

/// A parser under test.
pub struct Target {
    /// What `cargo xtask fuzz NAME` calls it.
    pub name: &'static str,
    /// Feeds it one input. It must return, whatever the bytes.
    pub run: fn(&[u8]),
    /// Valid encodings to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: [Target; 6] = [
    Target { name: "chunk", run: chunk, seeds: chunk_seeds },
    Target { name: "page", run: page, seeds: page_seeds },
    Target { name: "segment-header", run: segment_header, seeds: segment_header_seeds },
    Target { name: "segment-footer", run: segment_footer, seeds: segment_footer_seeds },
    Target { name: "segment-entry", run: segment_entry, seeds: segment_entry_seeds },
    Target { name: "decompress", run: decompress, seeds: decompress_seeds },
];

fn chunk(data: &[u8]) {
    let _ = ChunkHeader::open_any(data);
    let mut bytes = data.to_vec();
    if bytes.len() < 32 {
        return;
    }
    seal::chunk(&mut bytes);
    let Ok((header, payload)) = ChunkHeader::open_any(&bytes) else { return };
    let mut again = vec![0; 32];
    again.extend_from_slice(payload);
    header.seal(&mut again);
    assert_eq!(again, bytes[..again.len()], "an accepted chunk encodes to itself");
}

fn chunk_seeds() -> Vec<Vec<u8>> {
    [(Codec::None, 1, 4096), (Codec::Lz4, 16, 900), (Codec::Zstd, 3, 77)]
        .into_iter()
        .map(|(codec, blocks, payload_bytes)| {
            let header = ChunkHeader {
                codec,
                blocks,
                segment: SegmentId(77),
                offset_bytes: 64_000,
                payload_bytes,
                owner_volume: 5,
                owner_block: 123_456,
            };
            let mut bytes = vec![0x5a; header.total_bytes() as usize];
            header.seal(&mut bytes);
            bytes
        })
        .collect()
}

fn page(data: &[u8]) {
    let _ = PageHeader::open_any(data);
    let mut bytes = data.to_vec();
    if bytes.len() < 64 {
        return;
    }
    seal::page(&mut bytes);
    let Ok((header, payload)) = PageHeader::open_any(&bytes) else { return };
    // The base of a DELTA is reserved: ignored when reading FULL, zero when writing.
    let again = header.seal(payload);
    assert_eq!(again[..40], bytes[..40], "an accepted page record encodes to itself");
    if let Ok(pointers) = pointers_from_bytes(payload) {
        assert_eq!(pointers_to_bytes(&pointers), payload);
        for pointer in pointers.iter() {
            walk(*pointer);
        }
    }
}

/// A pointer from a drive may hold anything; its parts are always in range.
fn walk(pointer: Pointer) {
    match pointer.kind() {
        PointerKind::Hole | PointerKind::Zero => {}
        PointerKind::Data | PointerKind::Page => {
            assert!(pointer.block_index() < 16);
            assert!(pointer.length_bytes_max() <= ashlar_format::pointer::POINTED_BYTES_MAX);
            assert!(pointer.offset_bytes() < ashlar_format::pointer::SEGMENT_BYTES_MAX);
        }
    }
    let _ = format!("{pointer:?}");
}

fn page_seeds() -> Vec<Vec<u8>> {
    let mut pointers = [Pointer::HOLE; 512];
    pointers[1] = Pointer::data(SegmentId(3), 4096, 5000).with_block_index(2);
    pointers[2] = Pointer::page(SegmentId(9), 64, 300);
    pointers[3] = Pointer::ZERO;
    let contents =
        [PageContent::Map, PageContent::VolumeTable, PageContent::SegmentTable, PageContent::Directory];
    contents
        .into_iter()
        .map(|content| {
            let identity = PageIdentity { content, level: 1, tree: 9, index: 4 };
            let header = PageHeader {
                identity,
                codec: Codec::None,
                session: 3,
                birth: Lsn(1000),
                segment: SegmentId(12),
                offset_bytes: 4160,
            };
            header.seal(&pointers_to_bytes(&pointers))
        })
        .collect()
}

const SEGMENT_HEADER_SEED: u64 = 0x7365_6768;
const SEGMENT_HEADER_CHECKSUM_AT: usize = 56;

fn segment_header(data: &[u8]) {
    let _ = SegmentHeader::decode(data);
    let mut bytes = data.to_vec();
    seal::prefix(SEGMENT_HEADER_SEED, SEGMENT_HEADER_CHECKSUM_AT, &mut bytes);
    if let Ok(header) = SegmentHeader::decode(&bytes) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
}

fn segment_header_seeds() -> Vec<Vec<u8>> {
    [SegmentKind::Journal, SegmentKind::Metadata]
        .into_iter()
        .map(|kind| {
            let place = Place { drive: DriveIndex(3), cell: 99 };
            let pool = PoolId(0x1234_5678_9abc);
            let header =
                SegmentHeader { pool, segment: SegmentId(42), kind, place, session: 7, first_group: 1 << 40 };
            // The rest of the block is padding: a short input mutates where it matters.
            header.encode()[..SEGMENT_HEADER_CHECKSUM_AT + 8].to_vec()
        })
        .collect()
}

const SEGMENT_FOOTER_SEED: u64 = 0x7365_6766;

fn segment_footer(data: &[u8]) {
    let segment = SegmentId(8);
    let _ = decode_footer(segment, data);
    let mut bytes = data.to_vec();
    let at = bytes.len().saturating_sub(8);
    seal::prefix(SEGMENT_FOOTER_SEED, at, &mut bytes);
    if let Ok(entries) = decode_footer(segment, &bytes) {
        assert_eq!(decode_footer(segment, &encode_footer(segment, &entries)), Ok(entries));
    }
}

fn segment_footer_seeds() -> Vec<Vec<u8>> {
    [0_u32, 1, 7]
        .into_iter()
        .map(|count| {
            let entry = |index| FooterEntry {
                offset_units: index * 65,
                length_bytes: 4128,
                owner: u64::from(index),
                fingerprint: 3,
            };
            encode_footer(SegmentId(8), &(0..count).map(entry).collect::<Vec<_>>())
        })
        .collect()
}

fn segment_entry(data: &[u8]) {
    let mut reader = Reader::new(data);
    while let Ok(entry) = SegmentEntry::decode(&mut reader) {
        let mut writer = Writer::new();
        entry.encode(&mut writer);
        assert_eq!(SegmentEntry::decode(&mut Reader::new(writer.as_bytes())), Ok(entry));
    }
}

fn segment_entry_seeds() -> Vec<Vec<u8>> {
    let mut writer = Writer::new();
    SegmentEntry::free(Place { drive: DriveIndex(2), cell: 11 }).encode(&mut writer);
    vec![writer.into_bytes()]
}

/// First byte the codec, second the number of blocks the header promises.
fn decompress(data: &[u8]) {
    let [codec, blocks, input @ ..] = data else { return };
    let Some(codec) = ashlar_reduction::Codec::from_code(codec % 3) else { return };
    let mut out = vec![0; (usize::from(blocks % 16) + 1) * 4096];
    let _ = ashlar_reduction::decompress(codec, input, &mut out);
}

fn decompress_seeds() -> Vec<Vec<u8>> {
    let text: Vec<u8> = (0..4096_u32).flat_map(|n| [(n / 100) as u8, 7, (n % 3) as u8, 0]).collect();
    let mut seeds = Vec::new();
    for codec in [ashlar_reduction::Codec::Lz4, ashlar_reduction::Codec::Zstd] {
        let mut out = vec![0; text.len()];
        if let Some(length) = ashlar_reduction::compress(codec, &text, &mut out) {
            let mut seed = vec![codec.code(), 3];
            seed.extend_from_slice(&out[..length]);
            seeds.push(seed);
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_takes_its_seeds_and_their_ruins() {
        for target in TARGETS {
            (target.run)(&[]);
            assert!(!(target.seeds)().is_empty(), "{}", target.name);
            for seed in (target.seeds)() {
                (target.run)(&seed);
                for cut in [1, seed.len() / 2, seed.len() - 1] {
                    (target.run)(&seed[..cut]);
                }
            }
        }
    }

    /// If the format's recipe changes and `seal` does not, fuzzing would stop at the checksum unnoticed.
    #[test]
    fn the_seals_know_the_formats_checksums() {
        for mut seed in chunk_seeds() {
            seed[24] ^= 1;
            assert!(ChunkHeader::open_any(&seed).is_err());
            seal::chunk(&mut seed);
            assert!(ChunkHeader::open_any(&seed).is_ok());
        }
        for mut seed in page_seeds() {
            seed[56] ^= 1;
            seal::page(&mut seed);
            assert!(PageHeader::open_any(&seed).is_ok());
        }
        for mut seed in segment_header_seeds() {
            seed[56] ^= 1;
            seal::prefix(SEGMENT_HEADER_SEED, 56, &mut seed);
            assert!(SegmentHeader::decode(&seed).is_ok());
        }
        for mut seed in segment_footer_seeds() {
            let at = seed.len() - 8;
            seed[at] ^= 1;
            seal::prefix(SEGMENT_FOOTER_SEED, at, &mut seed);
            assert!(decode_footer(SegmentId(8), &seed).is_ok());
        }
    }
}
