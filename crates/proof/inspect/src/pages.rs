//! Page records and chunks as bytes: verified, then decompressed with codecs of our own choice.
//!
//! LZ4 is read by another implementation than the one that wrote it. Zstandard has but one that is kept
//! well; checksums and lengths stand between it and us.

use ashlar_format::chunk::{ChunkHeader, Codec};
use ashlar_format::overrides::{self, Override};
use ashlar_format::page::{PAGE_BYTES, PAGE_HEADER_BYTES, PageContent, PageHeader};
use ashlar_format::{Damage, DamageKind, MediaKey, Pointer};

/// What a reader expects a page record to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    pub(crate) content: PageContent,
    pub(crate) level: u8,
    pub(crate) index: u64,
}

/// A page record, verified.
pub(crate) enum Stored {
    Full(Vec<u8>),
    Delta(Pointer, Vec<Override>),
}

/// Verifies a page record and decompresses it. Tells how long it is, too.
pub(crate) fn open_record(
    key: &MediaKey,
    pointer: Pointer,
    expected: Expected,
    bytes: &[u8],
) -> Result<(Stored, u64), Damage> {
    let (header, payload) = PageHeader::open(key, pointer, bytes)?;
    let found = header.identity;
    if (found.content, found.level, found.index) != (expected.content, expected.level, expected.index) {
        return Err(Damage::new(DamageKind::Misplaced, "page record is another page"));
    }
    let length = (PAGE_HEADER_BYTES + payload.len()) as u64;
    if let Some(base) = header.base {
        return Ok((Stored::Delta(base, overrides::decode(payload)?), length));
    }
    Ok((Stored::Full(decompress(header.codec, payload, PAGE_BYTES)?), length))
}

/// Verifies a chunk that a pointer names and decompresses it.
pub(crate) fn open_chunk(
    key: &MediaKey,
    pointer: Pointer,
    bytes: &[u8],
) -> Result<(ChunkHeader, Vec<u8>), Damage> {
    let (header, payload) = ChunkHeader::open_chunk_of(key, pointer, bytes)?;
    let decoded = decompress(header.codec, payload, header.decoded_bytes())?;
    Ok((header, decoded))
}

fn decompress(codec: Codec, payload: &[u8], length: usize) -> Result<Vec<u8>, Damage> {
    let mut out = vec![0; length];
    let found = match codec {
        Codec::None => {
            out = payload.to_vec();
            Some(payload.len())
        }
        Codec::Lz4 => lz4_flex::block::decompress_into(payload, &mut out).ok(),
        Codec::Zstd => zstd_safe::decompress(&mut out[..], payload).ok(),
    };
    if found == Some(length) {
        return Ok(out);
    }
    Err(Damage::new(DamageKind::Impossible, "content does not decompress to its length"))
}
