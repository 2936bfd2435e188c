//! A block that can be made anew from its pass and its place.

use std::fmt;

/// A page of PostgreSQL and SQL Server.
pub(crate) const BLOCK_BYTES: usize = 8 << 10;
/// Direct I/O wants memory and offsets in multiples of a drive's sector; none has more than this.
const ALIGNMENT: usize = 4096;
/// What every block of this test begins with.
const MAGIC: u64 = 0x6173_686c_6172_6c62;
/// The rest is noise up to here and zeroes behind: it compresses to half.
const NOISE_BYTES: usize = BLOCK_BYTES / 2;

/// What was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Right,
    /// Of an earlier pass.
    Old(u64),
    /// The offset at which it belongs.
    Elsewhere(u64),
    Zeroes,
    /// Its head is right.
    Torn,
    Rubbish,
}

/// Memory for one block, aligned for direct I/O.
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
}

impl Aligned {
    pub(crate) fn new() -> Aligned {
        let memory = vec![0; BLOCK_BYTES + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Aligned { memory, start }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + BLOCK_BYTES]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + BLOCK_BYTES]
    }

    pub(crate) fn fill(&mut self, pass: u64, place: u64) {
        let bytes = self.bytes_mut();
        bytes.fill(0);
        for (word, value) in bytes.chunks_exact_mut(8).zip([MAGIC, pass, place]) {
            word.copy_from_slice(&value.to_le_bytes());
        }
        // SplitMix64.
        let mut state = pass.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place;
        for word in bytes[24..NOISE_BYTES].chunks_exact_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
        }
    }

    /// What the bytes are, where this pass wrote this place.
    pub(crate) fn found(&self, pass: u64, place: u64) -> Found {
        let bytes = self.bytes();
        if bytes.iter().all(|byte| *byte == 0) {
            return Found::Zeroes;
        }
        let word = |index: usize| {
            let word = bytes[index * 8..][..8].try_into().expect("eight bytes");
            u64::from_le_bytes(word)
        };
        let (magic, found_pass, found_place) = (word(0), word(1), word(2));
        if magic != MAGIC {
            return Found::Rubbish;
        }
        let mut wanted = Aligned::new();
        wanted.fill(found_pass, found_place);
        match () {
            () if wanted.bytes() != bytes => Found::Torn,
            () if found_place != place => Found::Elsewhere(found_place.saturating_mul(BLOCK_BYTES as u64)),
            () if found_pass != pass => Found::Old(found_pass),
            () => Found::Right,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Right => f.write_str("what was written"),
            Found::Old(pass) => write!(f, "what pass {pass} wrote there"),
            Found::Elsewhere(offset) => write!(f, "what belongs at offset {offset}"),
            Found::Zeroes => f.write_str("zeroes"),
            Found::Torn => f.write_str("a part of it is something else"),
            Found::Rubbish => f.write_str("something that was never written"),
        }
    }
}
