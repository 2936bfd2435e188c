//! What a decoder says of bytes that are not what they should be.

use std::borrow::Cow;
use std::fmt;

/// The kinds of damage a caller tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamageKind {
    /// The magic is missing: nothing of this kind was ever written here.
    Absent,
    /// The bytes end before the structure does.
    Truncated,
    /// The checksum does not match: torn, rotten or overwritten.
    Checksum,
    /// Intact, but of another place, segment or pool: a misdirected or lost write.
    Misplaced,
    /// Intact, but says something that cannot be.
    Impossible,
    /// Written by a version this program does not know.
    Version,
}

/// Damage found while decoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// What the caller acts on.
    pub kind: DamageKind,
    /// What a person reads.
    pub context: Cow<'static, str>,
}

impl Damage {
    /// New damage.
    #[must_use]
    pub const fn new(kind: DamageKind, context: &'static str) -> Damage {
        Damage { kind, context: Cow::Borrowed(context) }
    }

    /// New damage whose description names what was found.
    #[must_use]
    pub fn told(kind: DamageKind, context: String) -> Damage {
        Damage { kind, context: Cow::Owned(context) }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Damage {}
