//! What the workload writes: bytes that name the write and the address they belong to.
//!
//! Every 512-byte sector of a write carries the write's number and the sector's address in its first
//! words, and the rest follows from both. A wrong byte, a byte of another address and a byte of
//! another write are all told apart, and a failure names the write it found.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::chance::mix;

/// The unit of content. The smallest logical block.
pub const SECTOR_BYTES: usize = 512;

const WORDS: usize = SECTOR_BYTES / 8;
const ADDRESS_SALT: u64 = 0x5ec7_0000_0000_0000;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// How the bytes of a write look to a compressor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Texture {
    /// No repetition to find.
    Random,
    /// Shrinks to a few per cent.
    Compressible,
    /// The same word everywhere, the same in every sector: patterns, equal blocks.
    Fill,
    /// One of few contents that many writes share, to any volume; after a while it begins anew. So equal
    /// stretches occur at the same and at other addresses, ending wherever requests end.
    Repeated,
    /// Bytes that pass for structures of the pool, as [`note_forged`] was told.
    Forged,
}

/// A forged write: its first sector and its bytes.
type Forged = (u64, Rc<[u8]>);

thread_local! {
    /// Forged contents of this thread's seed, by the number of the write: a [`Value`] has no room for them.
    static FORGED: RefCell<BTreeMap<u32, Forged>> = const { RefCell::new(BTreeMap::new()) };
}

/// The bytes of a forged write whose first sector has this address.
pub fn note_forged(number: u32, first_sector: u64, bytes: &[u8]) {
    assert!(bytes.len().is_multiple_of(SECTOR_BYTES), "{} bytes", bytes.len());
    FORGED.with_borrow_mut(|forged| forged.insert(number, (first_sector, bytes.into())));
}

/// Another seed begins.
pub fn forget_forged() {
    FORGED.take();
}

/// Hands over the bytes from a sector on of a forged write.
fn with_forged<T>(number: u32, sector: u64, see: impl FnOnce(&[u8]) -> T) -> Option<T> {
    FORGED.with_borrow(|forged| {
        let (first, bytes) = forged.get(&number)?;
        let at = usize::try_from(sector.checked_sub(*first)?).ok()?.checked_mul(SECTOR_BYTES)?;
        bytes.get(at..).map(see)
    })
}

/// Sectors after which [`Texture::Repeated`] begins anew: 21 blocks, so that the same content falls into
/// chunks in different ways.
const REPEATED_SECTORS: u64 = 168;
/// How many contents of [`Texture::Repeated`] there are.
const REPEATED_CONTENTS: u64 = 5;

/// Sectors of what is copied as a whole: copies keep to them.
pub const COPIED_SECTORS: u64 = 8;
/// Where in a value stands how far its bytes were copied, and in how many bits.
const SHIFT_AT: u32 = 32;
const SHIFT_BITS: u32 = 24;
const SHIFT_MASK: u64 = ((1 << SHIFT_BITS) - 1) << SHIFT_AT;

/// The content of a logical block: what write it is from, its texture, and how many blocks of
/// [`COPIED_SECTORS`] from its address it was copied. Zero is all zero bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Value(u64);

impl Value {
    /// Unwritten, unmapped, zeroed.
    pub const ZERO: Value = Value(0);

    /// The content of write `number`.
    #[must_use]
    pub fn of_write(number: u32, texture: Texture) -> Value {
        let class: u64 = match texture {
            Texture::Random => 1,
            Texture::Compressible => 2,
            Texture::Fill => 3,
            Texture::Repeated => 4,
            Texture::Forged => 5,
        };
        // Few patterns, so that different writes produce equal blocks.
        let number = match texture {
            Texture::Fill => u64::from(number) % 4 + 1,
            Texture::Repeated => u64::from(number) % REPEATED_CONTENTS + 1,
            Texture::Random | Texture::Compressible | Texture::Forged => u64::from(number),
        };
        Value(class << 56 | number)
    }

    /// What a copy this many blocks further up holds.
    #[must_use]
    pub fn copied(self, blocks: i64) -> Value {
        match self.texture() {
            None | Some(Texture::Fill) => self,
            Some(_) => {
                let shift = self.shift() + blocks;
                assert!(
                    shift.unsigned_abs() < 1 << (SHIFT_BITS - 1),
                    "copied {shift} blocks from its address"
                );
                Value(self.as_written().0 | (shift as u64) << SHIFT_AT & SHIFT_MASK)
            }
        }
    }

    /// How many blocks from its address it is.
    fn shift(self) -> i64 {
        let unused = 64 - SHIFT_BITS - SHIFT_AT;
        ((self.0 << unused) as i64) >> (64 - SHIFT_BITS)
    }

    /// The content at its address.
    fn as_written(self) -> Value {
        Value(self.0 & !SHIFT_MASK)
    }

    fn texture(self) -> Option<Texture> {
        match self.0 >> 56 {
            1 => Some(Texture::Random),
            2 => Some(Texture::Compressible),
            3 => Some(Texture::Fill),
            4 => Some(Texture::Repeated),
            5 => Some(Texture::Forged),
            _ => None,
        }
    }

    /// The write this content names; `None` for what many writes share.
    #[must_use]
    pub fn write_number(self) -> Option<u32> {
        match self.texture() {
            Some(Texture::Random | Texture::Compressible | Texture::Forged) => Some(self.0 as u32),
            Some(Texture::Fill | Texture::Repeated) | None => None,
        }
    }

    /// True for a content that many writes share.
    #[must_use]
    pub fn is_shared(self) -> bool {
        matches!(self.texture(), Some(Texture::Fill | Texture::Repeated))
    }

    /// The address that goes into the content of a sector.
    fn address(self, sector: u64) -> u64 {
        let written = sector.wrapping_sub((self.shift() * COPIED_SECTORS as i64) as u64);
        if self.texture() == Some(Texture::Repeated) { written % REPEATED_SECTORS } else { written }
    }

    /// The write whose bytes were noted down.
    fn forged(self) -> Option<u32> {
        (self.texture() == Some(Texture::Forged)).then_some(self.0 as u32)
    }

    fn word(self, sector: u64, index: usize) -> u64 {
        let Some(texture) = self.texture() else { return 0 };
        match (texture, index) {
            (Texture::Fill, _) | (_, 0) => self.as_written().0,
            (_, 1) => sector ^ ADDRESS_SALT,
            (Texture::Random | Texture::Repeated, _) => {
                base(self, sector).wrapping_add(STEP.wrapping_mul(index as u64))
            }
            (Texture::Compressible, _) => base(self, sector),
            (Texture::Forged, _) => unreachable!("forged bytes are noted, not computed"),
        }
    }

    /// Fills whole sectors, the first of which has address `first_sector`.
    pub fn fill(self, first_sector: u64, bytes: &mut [u8]) {
        if let Some(number) = self.forged() {
            let length = bytes.len();
            let first_sector = self.address(first_sector);
            let copied = with_forged(number, first_sector, |forged| bytes.copy_from_slice(&forged[..length]));
            return copied.expect("forged bytes are noted before they are written");
        }
        for (sector, bytes) in (first_sector..).zip(bytes.chunks_exact_mut(SECTOR_BYTES)) {
            if self == Value::ZERO {
                bytes.fill(0);
                continue;
            }
            let sector = self.address(sector);
            let (start, step) = self.progression(sector);
            let mut word = start;
            for bytes in bytes.chunks_exact_mut(8) {
                bytes.copy_from_slice(&word.to_le_bytes());
                word = word.wrapping_add(step);
            }
            bytes[..8].copy_from_slice(&self.word(sector, 0).to_le_bytes());
            bytes[8..16].copy_from_slice(&self.word(sector, 1).to_le_bytes());
        }
    }

    /// True when whole sectors from `first_sector` hold exactly this content.
    #[must_use]
    pub fn matches(self, first_sector: u64, bytes: &[u8]) -> bool {
        if let Some(number) = self.forged() {
            let is_same = with_forged(number, self.address(first_sector), |forged| {
                forged.get(..bytes.len()) == Some(bytes)
            });
            return is_same == Some(true);
        }
        (first_sector..).zip(bytes.chunks_exact(SECTOR_BYTES)).all(|(sector, bytes)| {
            let sector = self.address(sector);
            let (start, step) = self.progression(sector);
            if read_word(bytes, 0) != self.word(sector, 0) || read_word(bytes, 1) != self.word(sector, 1) {
                return false;
            }
            let mut word = start.wrapping_add(step.wrapping_mul(2));
            // One accumulated difference instead of an early exit: the loop vectorises.
            let mut difference = 0;
            for bytes in bytes[16..].chunks_exact(8) {
                difference |= word ^ u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
                word = word.wrapping_add(step);
            }
            difference == 0
        })
    }

    /// Words two and up as a start and a step per word.
    fn progression(self, sector: u64) -> (u64, u64) {
        match self.texture() {
            None => (0, 0),
            Some(Texture::Fill) => (self.0, 0),
            Some(Texture::Compressible) => (base(self, sector), 0),
            Some(Texture::Random) => (base(self, sector), STEP),
            Some(Texture::Forged) => unreachable!("forged bytes are noted, not computed"),
            // Every other one shrinks.
            Some(Texture::Repeated) => (base(self, sector), if self.0 & 1 == 0 { 0 } else { STEP }),
        }
    }
}

fn base(value: Value, sector: u64) -> u64 {
    mix(value.as_written().0 ^ sector.rotate_left(32))
}

fn read_word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
}

/// The content a logical block claims to be, if its bytes bear the claim out at `first_sector`.
#[must_use]
pub fn recognise(first_sector: u64, bytes: &[u8]) -> Option<Value> {
    let value = Value(read_word(bytes, 0));
    if value.forged().is_none() && value.matches(first_sector, bytes) {
        return Some(value);
    }
    recognise_copied(value, first_sector, bytes).or_else(|| recognise_forged(first_sector, bytes))
}

/// The same of bytes that were copied to this address from the one that they tell.
fn recognise_copied(value: Value, sector: u64, bytes: &[u8]) -> Option<Value> {
    let sectors = sector.wrapping_sub(read_word(bytes, 1) ^ ADDRESS_SALT) as i64;
    let blocks = sectors / COPIED_SECTORS as i64;
    if value != value.as_written() || value.forged().is_some() {
        return None;
    }
    let fits = |blocks: i64| Some(value.copied(blocks)).filter(|value| value.matches(sector, bytes));
    match value.texture()? {
        // From any of the addresses that share a content: they come again.
        Texture::Repeated => (0..(REPEATED_SECTORS / COPIED_SECTORS) as i64).find_map(fits),
        _ if blocks.unsigned_abs() < 1 << (SHIFT_BITS - 1) => fits(blocks),
        _ => None,
    }
}

fn recognise_forged(sector: u64, bytes: &[u8]) -> Option<Value> {
    let numbers: Vec<u32> = FORGED.with_borrow(|forged| forged.keys().copied().collect());
    let mut values = numbers.into_iter().map(|number| Value::of_write(number, Texture::Forged));
    values.find(|value| value.matches(sector, bytes))
}

/// Says in words what a wrong block holds.
#[must_use]
pub fn describe(first_sector: u64, bytes: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (sector, bytes) in (first_sector..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
        let text = describe_sector(sector, bytes);
        if parts.last() != Some(&text) {
            parts.push(text);
        }
    }
    parts.join(", then ")
}

fn describe_sector(sector: u64, bytes: &[u8]) -> String {
    if let Some(value) = recognise(sector, bytes) {
        return value.to_string();
    }
    let value = Value(read_word(bytes, 0));
    let claimed = read_word(bytes, 1) ^ ADDRESS_SALT;
    if value.forged().is_none() && value.matches(claimed, bytes) {
        return format!("{value} of sector {claimed}");
    }
    format!("unknown bytes {:016x} {:016x}", read_word(bytes, 0), read_word(bytes, WORDS - 1))
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.texture() {
            None if self.0 == 0 => f.write_str("zeroes"),
            None => write!(f, "no value ({:x})", self.0),
            Some(Texture::Fill) => write!(f, "fill {}", self.0 & 0xff),
            Some(Texture::Repeated) => write!(f, "repeated content {}", self.0 & 0xff),
            Some(Texture::Forged) => write!(f, "forged write {}", self.0 as u32),
            Some(_) => write!(f, "write {}", self.0 as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_recognised_and_a_single_wrong_byte_is_not() {
        for texture in [Texture::Random, Texture::Compressible, Texture::Fill, Texture::Repeated] {
            let value = Value::of_write(77, texture);
            let mut bytes = vec![0; 4096];
            value.fill(8, &mut bytes);
            assert_eq!(recognise(8, &bytes), Some(value));
            for position in [0, 9, 513, 4095] {
                bytes[position] ^= 1;
                assert!(!value.matches(8, &bytes), "{texture:?} byte {position}");
                bytes[position] ^= 1;
            }
            assert_eq!(value.matches(16, &bytes), texture == Texture::Fill, "another address");
        }
        assert!(Value::ZERO.matches(0, &[0; 512]));
        assert!(!Value::ZERO.matches(0, &[1; 512]));
    }

    #[test]
    fn copied_content_is_that_of_the_address_it_came_from() {
        for texture in [Texture::Random, Texture::Compressible, Texture::Fill, Texture::Repeated] {
            let value = Value::of_write(77, texture);
            let mut bytes = vec![0; 4096];
            value.fill(80, &mut bytes);
            for blocks in [-3, 5] {
                let copied = value.copied(blocks);
                let sector = (80 + blocks * 8) as u64;
                assert!(copied.matches(sector, &bytes), "{texture:?} {blocks}");
                assert!(!value.matches(sector, &bytes) || texture == Texture::Fill, "{texture:?} {blocks}");
                assert_eq!(copied.copied(-blocks), value);
                let mut again = vec![0; 4096];
                copied.fill(sector, &mut again);
                assert_eq!(again, bytes);
                let recognised = recognise(sector, &bytes).unwrap();
                assert!(recognised.is_shared() == value.is_shared() && recognised.matches(sector, &bytes));
                assert_eq!(copied.write_number(), value.write_number());
                assert!(value.is_shared() || recognised == copied);
            }
        }
        assert_eq!(Value::ZERO.copied(9), Value::ZERO);
    }

    #[test]
    fn forged_content_is_what_was_noted_at_its_address() {
        forget_forged();
        let bytes: Vec<u8> = (0..2048).map(|index| (index % 251) as u8).collect();
        note_forged(9, 4, &bytes);
        let value = Value::of_write(9, Texture::Forged);
        let mut filled = vec![0; 1024];
        value.fill(5, &mut filled);
        assert_eq!(filled, bytes[512..1536]);
        assert_eq!(recognise(5, &filled), Some(value));
        assert!(!value.matches(4, &filled) && !value.matches(7, &filled) && !value.matches(3, &filled));
        forget_forged();
        assert_eq!(recognise(5, &filled), None);
    }

    #[test]
    fn a_block_of_another_address_is_named() {
        let mut bytes = vec![0; 512];
        Value::of_write(5, Texture::Random).fill(3, &mut bytes);
        assert_eq!(describe(9, &bytes), "write 5 of sector 3");
    }
}
