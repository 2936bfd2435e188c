//! What a server leaves to its successor: which files are open, under which numbers.
//!
//! The kernel keeps a connection while any process holds its descriptor. It goes on using the numbers of
//! nodes and handles that a dead server gave out; so they are written down before the answer that gives
//! them, into memory that outlives the process ([`Will`]).
//!
//! ```text
//!  magic 8 | sequence 8 | length 4 | zero 4 | checksum 8 | will      two slots, the newer whole one counts
//!  will: minor 4 | generation 4 | handle_next 8 | is drained 4 | count 4 | handles
//!  handle: handle 8 | node 8 | request 8 | pool 16 | image 8 | flags 1 | name length 1 | name
//! ```
//! All numbers are little-endian.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ashlar_block::Identity;

use crate::system;

/// Version of what a server leaves: another than this is not understood.
pub const HANDOVER_VERSION: u32 = 1;
const MAGIC: u64 = 0x6c69_7720_7273_6861 + HANDOVER_VERSION as u64;
const HEAD_BYTES: usize = 32;
/// Room of one slot: some ten thousand open files with the longest names. Arbitrary; it takes memory only
/// where it is written.
const SLOT_BYTES: u64 = 4 << 20;
/// Bytes of a handle before its name.
const HANDLE_BYTES: usize = 50;

const WRITABLE: u8 = 1 << 0;
const DIRECTORY: u8 = 1 << 1;
const IDENTIFIED: u8 = 1 << 2;

/// An open file or directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenHandle {
    /// Its number.
    pub handle: u64,
    /// The node it was opened by.
    pub node: u64,
    /// The number of the request that opened it: handed out again, it gets the same handle.
    pub request: u64,
    /// The volume's name; empty for the directory.
    pub name: String,
    /// The volume itself.
    pub identity: Option<Identity>,
    /// It was opened for writing.
    pub is_writable: bool,
    /// It is the directory.
    pub is_directory: bool,
}

/// What a successor must know of a session.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Will {
    /// Protocol minor version that INIT settled.
    pub minor: u32,
    /// How many servers the connection had before: their node numbers are never given again.
    pub generation: u32,
    /// No handle has this number or a higher one.
    pub handle_next: u64,
    /// Every request that was taken is answered.
    pub is_drained: bool,
    /// What is open.
    pub handles: Vec<OpenHandle>,
}

impl Will {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24 + self.handles.len() * (HANDLE_BYTES + 32));
        bytes.extend_from_slice(&self.minor.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.handle_next.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.is_drained).to_le_bytes());
        bytes.extend_from_slice(&(self.handles.len() as u32).to_le_bytes());
        for open in &self.handles {
            let identity = open.identity.unwrap_or(Identity { pool: 0, image: 0 });
            let flags = if open.is_writable { WRITABLE } else { 0 }
                | if open.is_directory { DIRECTORY } else { 0 }
                | if open.identity.is_some() { IDENTIFIED } else { 0 };
            for number in [open.handle, open.node, open.request] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&identity.pool.to_le_bytes());
            bytes.extend_from_slice(&identity.image.to_le_bytes());
            let name = open.name.as_bytes();
            bytes
                .extend_from_slice(&[flags, u8::try_from(name.len()).expect("names have 255 bytes at most")]);
            bytes.extend_from_slice(name);
        }
        bytes
    }

    /// From bytes; `None` when they are no will.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Will> {
        let mut fields = Fields(bytes);
        let (minor, generation, handle_next) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let is_drained = fields.u32()? != 0;
        let count = fields.u32()?;
        let handles = (0..count).map(|_| fields.handle()).collect::<Option<Vec<_>>>()?;
        fields.0.is_empty().then_some(Will { minor, generation, handle_next, is_drained, handles })
    }
}

/// Takes numbers off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn handle(&mut self) -> Option<OpenHandle> {
        let (handle, node, request) = (self.u64()?, self.u64()?, self.u64()?);
        let identity = Identity { pool: self.take().map(u128::from_le_bytes)?, image: self.u64()? };
        let [flags, length] = self.take()?;
        let (name, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(OpenHandle {
            handle,
            node,
            request,
            name: std::str::from_utf8(name).ok()?.to_string(),
            identity: (flags & IDENTIFIED != 0).then_some(identity),
            is_writable: flags & WRITABLE != 0,
            is_directory: flags & DIRECTORY != 0,
        })
    }
}

/// Memory that outlives this process while somebody else holds its descriptor.
pub struct Legacy {
    memory: OwnedFd,
    sequence: u64,
}

impl Legacy {
    /// New memory, with nothing in it.
    pub fn new() -> io::Result<Legacy> {
        let memory = system::sealed_memory(2 * SLOT_BYTES)?;
        Ok(Legacy { memory, sequence: 0 })
    }

    /// Memory of a predecessor, and its last will.
    pub fn of_predecessor(memory: OwnedFd) -> io::Result<(Legacy, Will)> {
        let newest =
            [0, 1].into_iter().filter_map(|slot| read_slot(memory.as_fd(), slot)).max_by_key(|(at, _)| *at);
        let (sequence, will) = newest.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the memory of open files does not hold what it should",
            )
        })?;
        Ok((Legacy { memory, sequence }, will))
    }

    /// For who keeps it.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Writes the next will beside the last one, which counts until this one is whole.
    pub fn write(&mut self, will: &Will) -> io::Result<()> {
        let bytes = will.encode();
        if (HEAD_BYTES + bytes.len()) as u64 > SLOT_BYTES {
            return Err(io::Error::other("more files are open than can be handed on"));
        }
        let sequence = self.sequence + 1;
        let mut slot = Vec::with_capacity(HEAD_BYTES + bytes.len());
        slot.extend_from_slice(&MAGIC.to_le_bytes());
        slot.extend_from_slice(&sequence.to_le_bytes());
        slot.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        slot.extend_from_slice(&[0; 4]);
        slot.extend_from_slice(&checksum(sequence, &bytes).to_le_bytes());
        slot.extend_from_slice(&bytes);
        system::write_memory(self.memory.as_fd(), &slot, sequence % 2 * SLOT_BYTES)?;
        self.sequence = sequence;
        Ok(())
    }
}

/// Sequence and will of a slot; `None` when it was not written, or not to its end.
fn read_slot(memory: BorrowedFd<'_>, slot: u64) -> Option<(u64, Will)> {
    let mut head = [0; HEAD_BYTES];
    system::read_memory(memory, &mut head, slot * SLOT_BYTES).ok()?;
    let mut fields = Fields(&head);
    let (magic, sequence, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let _zero = fields.u32()?;
    if magic != MAGIC || u64::from(length) > SLOT_BYTES - HEAD_BYTES as u64 {
        return None;
    }
    let mut bytes = vec![0; length as usize];
    system::read_memory(memory, &mut bytes, slot * SLOT_BYTES + HEAD_BYTES as u64).ok()?;
    (fields.u64()? == checksum(sequence, &bytes)).then_some(())?;
    Some((sequence, Will::decode(&bytes)?))
}

/// FNV-1a over sequence and bytes: tells a slot that a killed process left half written.
fn checksum(sequence: u64, bytes: &[u8]) -> u64 {
    let all = sequence.to_le_bytes();
    all.iter().chain(bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn will(files: u64) -> Will {
        let open = |number: u64| OpenHandle {
            handle: number,
            node: number << 32,
            request: number * 2,
            name: if number == 0 { String::new() } else { format!("volume-{number}") },
            identity: (number % 2 == 1)
                .then_some(Identity { pool: u128::MAX - u128::from(number), image: number }),
            is_writable: number % 3 == 1,
            is_directory: number == 0,
        };
        Will {
            minor: 42,
            generation: 3,
            handle_next: files,
            is_drained: files % 2 == 1,
            handles: (0..files).map(open).collect(),
        }
    }

    #[test]
    fn a_will_is_read_as_it_was_written_and_nothing_else_is_one() {
        let bytes = will(5).encode();
        assert_eq!(Will::decode(&bytes), Some(will(5)));
        for end in 0..bytes.len() {
            assert_eq!(Will::decode(&bytes[..end]), None);
        }
        assert_eq!(Will::decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn the_last_whole_will_counts() {
        let mut legacy = Legacy::new().unwrap();
        let again = |legacy: &Legacy| {
            Legacy::of_predecessor(legacy.descriptor().try_clone_to_owned().unwrap()).map(|(_, will)| will)
        };
        assert!(again(&legacy).is_err(), "nothing was left yet");
        legacy.write(&will(2)).unwrap();
        legacy.write(&will(3)).unwrap();
        assert_eq!(again(&legacy).unwrap(), will(3));
        // The next one was cut off.
        let (mut successor, _) =
            Legacy::of_predecessor(legacy.descriptor().try_clone_to_owned().unwrap()).unwrap();
        successor.write(&will(4)).unwrap();
        assert_eq!(again(&legacy).unwrap(), will(4));
        let at = successor.sequence % 2 * SLOT_BYTES + 40;
        system::write_memory(successor.memory.as_fd(), &[0xff], at).unwrap();
        assert_eq!(again(&legacy).unwrap(), will(3));
    }
}
