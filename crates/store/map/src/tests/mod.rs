//! Tests of the map: single behaviours, the model test over random histories, and the read cache.
#![allow(clippy::unwrap_used)]

mod block_cache;
mod diff;
mod lineage;
mod model;
mod single;

use std::collections::{BTreeMap, BTreeSet};

use ashlar_format::Pointer;
use ashlar_units::SegmentId;

use crate::{
    Delta, Missing, PAGE_POINTERS, Page, PageArena, PageRecord, PageToWrite, ROOT_LEVEL, RecordForm,
    TrackedPage,
};

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

/// A page record, as a drive would hold it.
struct Record {
    level: u8,
    index: u64,
    form: Stored,
}

enum Stored {
    Full(Box<Page>),
    Delta(Delta),
}

/// Stands for the drives: records by their pointer.
#[derive(Default)]
pub(crate) struct Media {
    records: BTreeMap<u64, Record>,
    next_offset: u64,
    pub(crate) loads: u64,
    pub(crate) deltas: u64,
}

impl Media {
    /// A fresh place.
    pub(crate) fn assign(&mut self) -> Pointer {
        self.next_offset += 1;
        let (segment, offset) = (1 + (self.next_offset >> 10), self.next_offset & 1023);
        Pointer::page(SegmentId(segment as u32), offset * 4224, 4160)
    }

    /// Writes a page: as a DELTA where it must be, and where it may and the caller wants to.
    pub(crate) fn write(
        &mut self,
        place: Pointer,
        next: PageToWrite,
        record: PageRecord<'_>,
        is_delta_wanted: bool,
    ) -> RecordForm {
        let delta = record.delta.filter(|delta| delta.is_owed || is_delta_wanted);
        let (stored, form) = match delta {
            Some(delta) => {
                let base = self.page(delta.base, next.level, next.index);
                let page = TrackedPage::delta(delta.base, base, &delta.overrides);
                assert!(page.pointers() == record.pointers, "base and overrides are another page");
                self.deltas += 1;
                (Stored::Delta(delta), RecordForm::Delta)
            }
            None => (Stored::Full(Box::new(*record.pointers)), RecordForm::Full),
        };
        let record = Record { level: next.level, index: next.index, form: stored };
        assert!(self.records.insert(place.0, record).is_none());
        form
    }

    /// The page of a FULL record, which is there.
    fn page(&self, pointer: Pointer, level: u8, index: u64) -> Box<Page> {
        let record = self.records.get(&pointer.0).expect("the record was freed while in use");
        assert_eq!((record.level, record.index), (level, index));
        match &record.form {
            Stored::Full(page) => page.clone(),
            Stored::Delta(_) => panic!("the base of a delta is a delta"),
        }
    }

    pub(crate) fn read(&self, missing: Missing) -> TrackedPage {
        let Missing { pointer, level, index } = missing;
        let record = self.records.get(&pointer.0).expect("the record was freed while in use");
        assert_eq!((record.level, record.index), (level, index));
        match &record.form {
            Stored::Full(page) => TrackedPage::full(pointer, page.clone()),
            Stored::Delta(delta) => {
                TrackedPage::delta(delta.base, self.page(delta.base, level, index), &delta.overrides)
            }
        }
    }

    pub(crate) fn load(&mut self, arena: &mut PageArena, missing: Missing) {
        self.loads += 1;
        arena.insert_clean(missing.pointer, missing.level, self.read(missing)).unwrap();
    }

    /// The cleaner at its quickest: of the records there are, those go that no root uses.
    pub(crate) fn free_all_but(&mut self, roots: &[Pointer]) {
        let mut used = BTreeSet::new();
        let mut waiting: Vec<Missing> = roots
            .iter()
            .filter(|root| root.is_page())
            .map(|root| Missing { pointer: *root, level: ROOT_LEVEL, index: 0 })
            .collect();
        while let Some(at) = waiting.pop() {
            let page = self.read(at);
            used.extend(page.base().map(|base| base.0));
            if !used.insert(at.pointer.0) && page.base() != Some(at.pointer) || at.level == 0 {
                continue;
            }
            let children = page.pointers().iter().enumerate().filter(|(_, pointer)| pointer.is_page());
            waiting.extend(children.map(|(slot, pointer)| Missing {
                pointer: *pointer,
                level: at.level - 1,
                index: at.index * PAGE_POINTERS as u64 + slot as u64,
            }));
        }
        self.records.retain(|pointer, _| used.contains(pointer));
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
