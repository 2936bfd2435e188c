//! A tenant whose blocks pass for structures of the pool, made with a key of its own or with the pool's.
//!
//! Hosts choose what they write, and the pool stores what does not shrink as it is. So a block may hold what
//! looks like a group, a chunk, a page record, a footer or a header, for the very address at which it comes
//! to lie, or for the segment that will lie there one day. None of it may ever be believed: the content of
//! volumes, `check` and the next opening are as ever. The workload asks for the bytes of a write; the forger
//! has no other way to the pool. Called by [`workload`](crate::workload).
//!
//! ```text
//!             the group that the forger's write will be in
//! +--------+---------+--------+-------------------------------------------------+-------+-----------
//! | header | records | chunk  | payload: what is forged, on places of 64 bytes, | zero  | chunk of
//! |        |         | header | groups and headers on those of 4096             | bytes | the victim
//! +--------+---------+--------+-------------------------------------------------+-------+-----------
//!                                                       the last one claims all this -----^
//! ```

mod shapes;
mod sight;

use ashlar_format::MediaKey;
use ashlar_format::group::{GROUP_HEADER_BYTES, Record};
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::SEGMENT_HEADER_BYTES;
use ashlar_format::superblock::Superblock;
use ashlar_units::BLOCK_BYTES;

use crate::chance::Chance;
use crate::drives::DriveArray;
use shapes::Forge;
pub use sight::Sight;

/// Writes after which the drives are looked at again.
const LOOK_EVERY: u64 = 32;

/// Records of the group that the forger's write will be in, at most: what hosts have in flight together.
const RECORDS_MAX: u64 = 4;

/// Bytes of a chunk header.
const CHUNK_HEADER_BYTES: u64 = ashlar_format::chunk::CHUNK_HEADER_BYTES as u64;

/// What a forger knows of the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKnown {
    /// All is right but the key.
    Wrong,
    /// The key leaked: to the last bit it is what the pool would write.
    Leaked,
}

/// What a forger goes for in a life. Not everything at once: what is lost first would hide the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Focus {
    /// The chunks of others that lie behind its own.
    Neighbours,
    /// The opening, by groups that seem to stand where the journal has not come to yet.
    Journal,
    /// Whatever the pool looks for.
    Everything,
}

/// Where a write's payload will lie, if the forger guessed right.
#[derive(Clone, Copy, Debug)]
struct Aim {
    segment: u32,
    /// Of the payload's first byte.
    offset: u64,
}

/// The forging tenant of one life of the machine.
pub struct Forger {
    chance: Chance,
    known: KeyKnown,
    focus: Focus,
    superblock: Option<Superblock>,
    writes: u64,
}

impl Forger {
    /// A forger that knows so much.
    #[must_use]
    pub fn new(known: KeyKnown, mut chance: Chance) -> Forger {
        let focus = *chance.pick(&[Focus::Neighbours, Focus::Journal, Focus::Everything]);
        Forger { chance, known, focus, superblock: None, writes: 0 }
    }

    /// Bytes for a write of this length that begins `skew` bytes behind the start of a block; `None` while
    /// there is nothing to go by.
    pub fn forge(&mut self, array: &DriveArray, skew: u64, length: usize) -> Option<Vec<u8>> {
        if self.writes.is_multiple_of(LOOK_EVERY) {
            self.superblock = array
                .newest_superblocks()
                .into_iter()
                .max_by_key(|one| one.generation)
                .or(self.superblock.take());
        }
        self.writes += 1;
        let (superblock, sight) = (self.superblock.as_ref()?, array.sight()?);
        let key = match self.known {
            KeyKnown::Wrong => MediaKey::new(superblock.key.raw() ^ 1 << 77),
            KeyKnown::Leaked => superblock.key.clone(),
        };
        let chance = &mut self.chance;
        let mut bytes = vec![0; length];
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&chance.next().to_le_bytes());
        }
        let aims = aims(chance, superblock, sight, skew, length);
        let aim = aims[0];
        let focus = self.focus;
        let is_sprayed = chance.one_in(if focus == Focus::Journal { 2 } else { 3 });
        let mut forge = Forge { chance, key: &key, superblock, sight, focus };
        let mut offset = aim.offset.next_multiple_of(PLACE_UNIT_BYTES);
        while offset + PLACE_UNIT_BYTES <= aim.offset + length as u64 {
            let rest = &mut bytes[(offset - aim.offset) as usize..];
            let taken = match is_sprayed {
                true => forge.spray(aim.segment, offset, rest),
                false => forge.shape(aim.segment, offset, rest),
            };
            offset = (offset + taken as u64).next_multiple_of(PLACE_UNIT_BYTES);
        }
        if self.focus == Focus::Neighbours {
            forge.swallow_next(&aims, &mut bytes);
        }
        Some(bytes)
    }
}

/// Guesses where the next write's payload will lie: behind the last group, with or without neighbours in its
/// own. The likeliest guess is the first more often than others.
fn aims(chance: &mut Chance, superblock: &Superblock, sight: &Sight, skew: u64, length: usize) -> Vec<Aim> {
    let neighbour = (CHUNK_HEADER_BYTES + BLOCK_BYTES).next_multiple_of(PLACE_UNIT_BYTES);
    // Where columns begin a forged group may have been taken for one of the journal.
    let segment = match sight.segment < superblock.segment_next {
        true => sight.segment,
        false => superblock.journal.segment.0,
    };
    let guess = |records: u64, before: u64| {
        let header = GROUP_HEADER_BYTES as u64 + records * Record::WRITE_BYTES as u64;
        let in_group =
            header.next_multiple_of(PLACE_UNIT_BYTES) + before * neighbour + CHUNK_HEADER_BYTES + skew;
        let end = sight.end + in_group + length as u64 + 2 * BLOCK_BYTES;
        match end > u64::from(superblock.segment_bytes) {
            true => Aim { segment: segment + 1, offset: SEGMENT_HEADER_BYTES + in_group },
            false => Aim { segment, offset: sight.end + in_group },
        }
    };
    let guesses = (1..=RECORDS_MAX).flat_map(|records| (0..records).map(move |before| (records, before)));
    let mut aims: Vec<Aim> = guesses.map(|(records, before)| guess(records, before)).collect();
    let first = if chance.one_in(2) { 0 } else { chance.below(aims.len() as u64) as usize };
    aims.swap(0, first);
    aims
}
