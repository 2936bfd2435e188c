//! Everything that is on a drive: structs, versions, checksums. Bytes in, bytes out.
//!
//! Called by `pool`, `journal` and `engine`; `inspect` reads drives with this and `parity` alone. It
//! never reads or writes a drive and holds no policy. Every decoder checks magic, version, identity
//! and checksum and answers rubbish with [`Damage`], never with a panic.
//!
//! ```text
//! drive:    superblock ring (8 x 64 KiB) · owner block · pad to 1 MiB · cell 0 · cell 1 · ...
//! cell:     one drive's part of a segment; with protection `none` a cell holds a whole segment, else a
//!           column of it: every k-th block, or parity
//! segment:  header (4 KiB) · journal groups, page records or moved chunks and records
//!           · footer (at the end, when sealed)
//! group:    header and descriptors · chunks                 (4 KiB aligned, hash-chained)
//! chunk:    header (32 B) · compressed blocks               (64 B aligned)
//! record:   header (64 B) · page, or overrides of a base    (64 B aligned)
//! ```

pub mod allowance;
pub mod bytes;
pub mod catalogue;
pub mod chunk;
pub mod damage;
pub mod group;
pub mod hold;
pub mod key;
pub mod layout;
pub mod note_kind;
pub mod notes;
pub mod overrides;
pub mod owner;
pub mod page;
pub mod pointer;
pub mod relocation;
pub mod rows;
pub mod segment;
pub mod superblock;
pub mod traces;

pub use damage::{Damage, DamageKind};
pub use key::{Kind, MediaKey};
pub use pointer::{Pointer, PointerKind};

use twox_hash::XxHash3_64;

/// The version of everything on a drive. A change of any layout raises it and adds a golden pool.
pub const FORMAT_VERSION: u16 = 2;

/// A checksum that needs no key: XXH3-64. Of structures only the root block of a superblock has it, so that
/// programs that know nothing of the key can tell what they see. All else is summed with the [`MediaKey`].
#[must_use]
pub fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}
