//! Identities: numbers that must not be mixed up, each a type of its own.

use std::fmt;

macro_rules! number_identity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number_identity!(
    /// A virtual segment number. Never reused: a freed place gets a new number.
    SegmentId(u32)
);
number_identity!(
    /// A volume or a snapshot image. Never reused within a pool.
    VolumeId(u64)
);
number_identity!(
    /// A drive's place in the pool's drive table.
    DriveIndex(u16)
);
number_identity!(
    /// Log sequence number: the order of every change of a pool. One number a journal record.
    Lsn(u64)
);

/// The identity of a pool, drawn at random when it is created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PoolId(pub u128);

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolId({self})")
    }
}

impl Lsn {
    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}
