//! The media key: what every checksum of a pool is made with.
//!
//! Hosts choose the content of their blocks. With a checksum that anybody can compute they could write
//! blocks that pass for structures of the pool. So a pool draws 128 random bits when it is made, and its
//! checksums are XXH3-64 with secrets that are derived from them, one secret for each kind of structure. A
//! host never sees the key: it stands in the superblock and in segment headers, where no host data lie.

use std::fmt;

use twox_hash::XxHash3_64;

/// Kinds of structures: one never passes for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The superblock.
    Superblock,
    /// The block that says who has the pool open.
    Owner,
    /// The header of a segment.
    SegmentHeader,
    /// The footer of a segment.
    Footer,
    /// A journal group.
    Group,
    /// A chunk.
    Chunk,
    /// A page record.
    Page,
}

const KINDS: usize = Kind::Page as usize + 1;

/// Bytes of a secret: what XXH3 mixes into long inputs without starting over too often.
const SECRET_BYTES: usize = 192;

/// What the secrets are derived with. Arbitrary, and part of the format.
const DERIVE_SEED: u64 = 0x6d65_6469_616b_6579;

/// The key of a pool with the secrets derived from it.
#[derive(Clone)]
pub struct MediaKey {
    raw: u128,
    secrets: Box<[[u8; SECRET_BYTES]; KINDS]>,
}

impl MediaKey {
    /// The key of these bits.
    #[must_use]
    pub fn new(raw: u128) -> MediaKey {
        let mut secrets = Box::new([[0; SECRET_BYTES]; KINDS]);
        for (kind, secret) in secrets.iter_mut().enumerate() {
            for (index, word) in secret.chunks_exact_mut(8).enumerate() {
                let mut input = [0; 24];
                input[..16].copy_from_slice(&raw.to_le_bytes());
                input[16..20].copy_from_slice(&(kind as u32).to_le_bytes());
                input[20..].copy_from_slice(&(index as u32).to_le_bytes());
                let seed = DERIVE_SEED ^ (raw >> 64) as u64;
                word.copy_from_slice(&XxHash3_64::oneshot_with_seed(seed, &input).to_le_bytes());
            }
        }
        MediaKey { raw, secrets }
    }

    /// The bits, for the drives alone: they are never shown.
    #[must_use]
    pub fn raw(&self) -> u128 {
        self.raw
    }

    /// The checksum of a structure.
    #[must_use]
    pub fn checksum(&self, kind: Kind, bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_secret(&self.secrets[kind as usize], bytes).expect("a secret is long enough")
    }

    /// The checksum of a header of at most 56 bytes and a payload. The payload is hashed where it lies.
    #[must_use]
    pub fn checksum_of(&self, kind: Kind, header: &[u8], payload: &[u8]) -> u64 {
        let mut both = [0; 64];
        let length = header.len() + 8;
        assert!(length <= both.len(), "header of {} bytes", header.len());
        both[..header.len()].copy_from_slice(header);
        both[header.len()..length].copy_from_slice(&self.checksum(kind, payload).to_le_bytes());
        self.checksum(kind, &both[..length])
    }
}

impl PartialEq for MediaKey {
    fn eq(&self, other: &MediaKey) -> bool {
        self.raw == other.raw
    }
}

impl Eq for MediaKey {}

/// Says nothing of the key.
impl fmt::Debug for MediaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MediaKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_kinds_make_different_checksums() {
        let (one, other) = (MediaKey::new(1), MediaKey::new(1 << 100));
        for length in [0, 1, 16, 100, 300, 5000] {
            let bytes = vec![7; length];
            let sum = one.checksum(Kind::Chunk, &bytes);
            assert_eq!(sum, MediaKey::new(1).checksum(Kind::Chunk, &bytes), "{length}");
            assert_ne!(sum, other.checksum(Kind::Chunk, &bytes), "{length}");
            assert_ne!(sum, one.checksum(Kind::Page, &bytes), "{length}");
            assert_ne!(sum, XxHash3_64::oneshot(&bytes), "{length}");
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", MediaKey::new(0xfeed_beef)), "MediaKey");
    }

    #[test]
    fn header_and_payload_are_both_covered() {
        let key = MediaKey::new(5);
        let sum = key.checksum_of(Kind::Group, &[1; 56], &[2; 900]);
        assert_ne!(sum, key.checksum_of(Kind::Group, &[1; 55], &[2; 900]));
        assert_ne!(sum, key.checksum_of(Kind::Group, &[1; 56], &[2; 899]));
    }
}
