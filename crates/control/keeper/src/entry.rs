//! What is kept.

use std::os::fd::OwnedFd;

/// Longest name.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest note: a path fits.
pub const NOTE_BYTES_MAX: usize = 4096;

/// A descriptor that is kept.
#[derive(Debug)]
pub struct Entry {
    /// What the array calls it.
    pub name: String,
    /// For a FUSE connection, the directory that it is mounted on: it is cut off when nobody comes. Else
    /// empty.
    pub note: Vec<u8>,
    /// The descriptor.
    pub descriptor: OwnedFd,
}
