//! The fingerprint index: where blocks may be found again. Fixed memory, eight bytes an entry.
//!
//! ```text
//! entry    63..10 place (segment 30, offset / 64 20, block index 4)    9..0 tag of the fingerprint
//! bucket   8 entries, newest first, and a bit for each that says it was hit
//! ```
//!
//! Everything about it is a hint: an entry may name what is long gone, or another block whose tag is
//! the same (8 in 1024 look-ups of a full index). Whoever looks up reads what an entry names and
//! compares the bytes, so losing the index, or any entry, costs savings only.
//!
//! When a bucket is full, the oldest entry that was never hit goes; entries that were hit go only when
//! all of them were, and then one round later (second chance). So content that occurs once passes
//! through, and content that is written again and again stays. Nothing is allocated after the start,
//! and memory never touched is never taken from the system.

use ashlar_format::Pointer;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_units::SegmentId;

use crate::fingerprint::Fingerprint;

/// Entries of a bucket: 64 bytes, what a processor fetches at once.
const WAYS: usize = 8;
/// Bytes of a bucket: its entries and their bits.
const BUCKET_BYTES: u64 = WAYS as u64 * 8 + 1;
const TAG_BITS: u32 = 10;
const TAG_MASK: u128 = (1 << TAG_BITS) - 1;

/// Where a block is: a pointer without kind and length, 54 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockPlace(u64);

impl BlockPlace {
    /// The place a data pointer names.
    #[must_use]
    pub fn of(pointer: Pointer) -> BlockPlace {
        assert!(pointer.is_data(), "{pointer:?} names no block");
        let units = pointer.offset_bytes() / PLACE_UNIT_BYTES;
        BlockPlace(u64::from(pointer.segment().0) << 24 | units << 4 | pointer.block_index() as u64)
    }

    /// True when both are of one chunk.
    #[must_use]
    pub fn is_beside(self, other: BlockPlace) -> bool {
        self.0 >> 4 == other.0 >> 4
    }

    /// The segment its chunk was born in.
    #[must_use]
    pub fn segment(self) -> SegmentId {
        SegmentId((self.0 >> 24) as u32)
    }

    /// Where in that segment.
    #[must_use]
    pub fn offset_bytes(self) -> u64 {
        (self.0 >> 4 & 0xf_ffff) * PLACE_UNIT_BYTES
    }

    /// Which block of the chunk.
    #[must_use]
    pub fn block_index(self) -> usize {
        (self.0 & 0xf) as usize
    }
}

/// The index.
pub struct FingerprintIndex {
    /// 0 is empty: no chunk lies where a segment has its header.
    entries: Vec<[u64; WAYS]>,
    hits: Vec<u8>,
    sample_mask: u128,
    count: u64,
}

impl FingerprintIndex {
    /// An index of at most `bytes_max`. Only one in 2^`sample_shift` fingerprints is recorded; all can
    /// be looked up.
    #[must_use]
    pub fn new(bytes_max: u64, sample_shift: u8) -> FingerprintIndex {
        let buckets = (bytes_max / BUCKET_BYTES).max(1) as usize;
        // Zeroes from the allocator are pages not taken yet.
        FingerprintIndex {
            entries: vec![[0; WAYS]; buckets],
            hits: vec![0; buckets],
            sample_mask: (1 << sample_shift.min(32)) - 1,
            count: 0,
        }
    }

    /// Bytes it may come to take.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.entries.len() as u64 * BUCKET_BYTES
    }

    /// Entries in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Where blocks with this fingerprint may be, newest first.
    pub fn candidates(&self, fingerprint: Fingerprint) -> impl Iterator<Item = BlockPlace> {
        let tag = tag_of(fingerprint);
        let bucket = self.entries[self.bucket_of(fingerprint)];
        let is_one = move |entry: &u64| *entry != 0 && entry & TAG_MASK as u64 == tag;
        bucket.into_iter().filter(is_one).map(|entry| BlockPlace(entry >> TAG_BITS))
    }

    /// Records where a block is, unless sampling passes it over or it is known.
    pub fn insert(&mut self, fingerprint: Fingerprint, place: BlockPlace) {
        if fingerprint.0 >> TAG_BITS & self.sample_mask != 0 || self.find(fingerprint, place).is_some() {
            return;
        }
        let bucket = self.bucket_of(fingerprint);
        let (entries, hits) = (&mut self.entries[bucket], &mut self.hits[bucket]);
        let empty = entries.iter().position(|entry| *entry == 0);
        self.count += u64::from(empty.is_some());
        let never_hit = (0..WAYS).rev().find(|way| *hits >> way & 1 == 0);
        if empty.is_none() && never_hit.is_none() {
            *hits = 0;
        }
        let victim = empty.or(never_hit).unwrap_or(WAYS - 1);
        entries.copy_within(..victim, 1);
        entries[0] = place.0 << TAG_BITS | tag_of(fingerprint);
        // The bits below the victim's move along; the newcomer has none.
        let newer = *hits & mask(victim);
        *hits = *hits & !mask(victim + 1) | newer << 1;
    }

    /// An entry turned out to be right: it stays longer.
    pub fn note_hit(&mut self, fingerprint: Fingerprint, place: BlockPlace) {
        if let Some(way) = self.find(fingerprint, place) {
            let bucket = self.bucket_of(fingerprint);
            self.hits[bucket] |= 1 << way;
        }
    }

    /// Forgets an entry.
    pub fn remove(&mut self, fingerprint: Fingerprint, place: BlockPlace) {
        let Some(way) = self.find(fingerprint, place) else { return };
        let bucket = self.bucket_of(fingerprint);
        let (entries, hits) = (&mut self.entries[bucket], &mut self.hits[bucket]);
        entries.copy_within(way + 1.., way);
        entries[WAYS - 1] = 0;
        *hits = *hits & mask(way) | *hits >> 1 & !mask(way);
        self.count -= 1;
    }

    /// True when both would be found by the same look-up.
    #[must_use]
    pub fn is_same_entry(&self, one: Fingerprint, other: Fingerprint) -> bool {
        tag_of(one) == tag_of(other) && self.bucket_of(one) == self.bucket_of(other)
    }

    fn find(&self, fingerprint: Fingerprint, place: BlockPlace) -> Option<usize> {
        let wanted = place.0 << TAG_BITS | tag_of(fingerprint);
        self.entries[self.bucket_of(fingerprint)].iter().position(|entry| *entry == wanted)
    }

    fn bucket_of(&self, fingerprint: Fingerprint) -> usize {
        let high = (fingerprint.0 >> 64) as u64;
        ((u128::from(high) * self.entries.len() as u128) >> 64) as usize
    }
}

fn tag_of(fingerprint: Fingerprint) -> u64 {
    (fingerprint.0 & TAG_MASK) as u64
}

/// The bits below `way`.
fn mask(way: usize) -> u8 {
    ((1_u16 << way) - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> BlockPlace {
        let pointer = Pointer::data(SegmentId(number as u32 + 1), 64 * (number % 1000 + 1), 300);
        BlockPlace::of(pointer.with_block_index(number as usize % 16))
    }

    /// A spread-out fingerprint for a number.
    fn fingerprint(number: u64) -> Fingerprint {
        let word = |salt: u64| {
            let mixed = (number ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        Fingerprint(u128::from(word(1)) << 64 | u128::from(word(2)))
    }

    fn knows(index: &FingerprintIndex, number: u64) -> bool {
        index.candidates(fingerprint(number)).any(|found| found == place(number))
    }

    #[test]
    fn a_place_is_its_pointer_without_kind_and_length() {
        let pointer = Pointer::data(SegmentId(0x3fff_fffe), 64 * 0xf_ffff, 40_000).with_block_index(15);
        let place = BlockPlace::of(pointer);
        let parts = (place.segment(), place.offset_bytes(), place.block_index());
        assert_eq!(parts, (pointer.segment(), pointer.offset_bytes(), 15));
        assert_eq!(
            place,
            BlockPlace::of(Pointer::data(pointer.segment(), 64 * 0xf_ffff, 9).with_block_index(15))
        );
    }

    #[test]
    fn what_was_recorded_is_found_until_it_is_removed() {
        let mut index = FingerprintIndex::new(1 << 20, 0);
        assert!(index.bytes_max() <= 1 << 20);
        (0..10_000).for_each(|number| index.insert(fingerprint(number), place(number)));
        (0..10_000).for_each(|number| index.insert(fingerprint(number), place(number)));
        assert_eq!(index.count(), 10_000);
        assert!((0..10_000).all(|number| knows(&index, number)));
        (0..5_000).for_each(|number| index.remove(fingerprint(number), place(number)));
        assert_eq!(index.count(), 5_000);
        assert!((0..10_000).all(|number| knows(&index, number) == (number >= 5_000)));
    }

    #[test]
    fn memory_is_fixed_and_the_oldest_that_was_never_hit_goes_first() {
        let mut index = FingerprintIndex::new(BUCKET_BYTES, 0);
        (0..8).for_each(|number| index.insert(fingerprint(number), place(number)));
        index.note_hit(fingerprint(0), place(0));
        index.note_hit(fingerprint(2), place(2));
        (8..14).for_each(|number| index.insert(fingerprint(number), place(number)));
        let known: Vec<u64> = (0..14).filter(|number| knows(&index, *number)).collect();
        assert_eq!(known, [0, 2, 8, 9, 10, 11, 12, 13]);
        assert_eq!((index.count(), index.bytes_max()), (8, BUCKET_BYTES));
    }

    #[test]
    fn entries_that_were_all_hit_get_one_more_round() {
        let mut index = FingerprintIndex::new(BUCKET_BYTES, 0);
        (0..8).for_each(|number| {
            index.insert(fingerprint(number), place(number));
            index.note_hit(fingerprint(number), place(number));
        });
        index.insert(fingerprint(8), place(8));
        index.note_hit(fingerprint(5), place(5));
        (9..15).for_each(|number| index.insert(fingerprint(number), place(number)));
        let known: Vec<u64> = (0..15).filter(|number| knows(&index, *number)).collect();
        assert_eq!(known, [5, 8, 9, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn sampling_records_a_share_and_looks_everything_up() {
        let mut index = FingerprintIndex::new(1 << 20, 3);
        (0..8_000).for_each(|number| index.insert(fingerprint(number), place(number)));
        assert!((800..1200).contains(&index.count()), "{}", index.count());
        let found = (0..8_000).filter(|number| knows(&index, *number)).count() as u64;
        assert_eq!(found, index.count());
    }

    #[test]
    fn few_strangers_look_alike() {
        let mut index = FingerprintIndex::new(64 << 10, 0);
        (0..20_000).for_each(|number| index.insert(fingerprint(number), place(number)));
        let strangers =
            (100_000..200_000).filter(|number| index.candidates(fingerprint(*number)).count() > 0);
        // 8 in 1024.
        assert!((600..1000).contains(&strangers.count()));
    }
}
