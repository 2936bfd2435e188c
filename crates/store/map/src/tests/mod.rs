//! Tests of the map: single behaviours, the model test over random histories, and the read cache.
#![allow(clippy::unwrap_used)]

mod block_cache;
mod model;
mod single;

use std::collections::BTreeMap;

use ashlar_format::Pointer;
use ashlar_units::SegmentId;

use crate::{Missing, Page, PageArena, PageToWrite};

/// SplitMix64: seeded, so that a failing seed replays.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Stands for the drives: pages by their pointer.
#[derive(Default)]
pub(crate) struct Media {
    pages: BTreeMap<u64, (u8, u64, Box<Page>)>,
    next_offset: u64,
    pub(crate) loads: u64,
}

impl Media {
    /// A fresh place.
    pub(crate) fn assign(&mut self) -> Pointer {
        self.next_offset += 1;
        let (segment, offset) = (1 + (self.next_offset >> 10), self.next_offset & 1023);
        Pointer::page(SegmentId(segment as u32), offset * 4224, 4160)
    }

    pub(crate) fn write(&mut self, place: Pointer, next: PageToWrite, page: &Page) {
        assert!(self.pages.insert(place.0, (next.level, next.index, Box::new(*page))).is_none());
    }

    pub(crate) fn load(&mut self, arena: &mut PageArena, missing: Missing) {
        let (level, index, page) = &self.pages[&missing.pointer.0];
        assert_eq!((*level, *index), (missing.level, missing.index));
        self.loads += 1;
        arena.insert_clean(missing.pointer, missing.level, page.clone()).unwrap();
    }

    /// Asks again until every page is there.
    pub(crate) fn retry<T>(
        &mut self,
        arena: &mut PageArena,
        mut ask: impl FnMut(&mut PageArena) -> Result<T, Missing>,
    ) -> T {
        for _ in 0..1000 {
            match ask(arena) {
                Ok(answer) => return answer,
                Err(missing) => self.load(arena, missing),
            }
        }
        panic!("the pages of one operation evict each other");
    }
}

pub(crate) fn data(number: u64) -> Pointer {
    Pointer::data(SegmentId((number >> 20) as u32), (number & 0xf_ffff) * 64, 4096)
}
