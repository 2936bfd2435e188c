//! What the map answers when it cannot: a page is not loaded, or a loaded page is impossible.

use std::fmt;

use ashlar_format::Pointer;

/// A page on a drive is needed and not loaded. Read it, call
/// [`insert_clean`](crate::PageArena::insert_clean), and ask again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Where it is.
    pub pointer: Pointer,
    /// The level it must have; 0 is a leaf.
    pub level: u8,
    /// Which page of its level it is, counted from the start of the tree. With snapshots and clones the
    /// same page serves the same index of several trees.
    pub index: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "map page not loaded: level {} index {} at {:?}", self.level, self.index, self.pointer)
    }
}

impl std::error::Error for Missing {}

/// A page whose checksum was right but whose content cannot be a map page of this level: damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageInvalid {
    /// A slot holds a pointer that no page of this level may hold.
    Slot {
        /// The page.
        pointer: Pointer,
        /// The level it was loaded for.
        level: u8,
        /// Which of its pointers.
        slot: usize,
        /// What was there.
        found: Pointer,
    },
    /// The same page is already loaded at another level: two parents disagree about it.
    Level {
        /// The page.
        pointer: Pointer,
        /// The level it was loaded for now.
        level: u8,
        /// The level it has.
        loaded_level: u8,
    },
    /// The pointer does not lead to a page on a drive.
    Pointer {
        /// The pointer.
        pointer: Pointer,
    },
}

impl fmt::Display for PageInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageInvalid::Slot { pointer, level, slot, found } => {
                write!(f, "map page of level {level} at {pointer:?} holds {found:?} in slot {slot}")
            }
            PageInvalid::Level { pointer, level, loaded_level } => write!(
                f,
                "map page at {pointer:?} is loaded as level {loaded_level} and wanted as level {level}"
            ),
            PageInvalid::Pointer { pointer } => write!(f, "{pointer:?} does not lead to a map page"),
        }
    }
}

impl std::error::Error for PageInvalid {}
