//! One image (a volume's live content or a snapshot of it) as the oracle knows it: for every logical
//! block the contents it may hold.
//!
//! Invariants:
//! 1. A block's cell holds at least one candidate; the true content is always among them.
//! 2. A missing page is all zeroes, written never.
//! 3. Copying an image shares its pages: snapshots of the model are as cheap as the real ones.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::content::{SECTOR_BYTES, Value, describe};

/// Logical blocks in a page of the model. Arbitrary: small enough to copy, large enough to be few.
pub const PAGE_UNITS: u64 = 64;

/// Number of an operation in the oracle's history. 0 stands for "before everything".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct OperationId(pub u32);

/// One content a block may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Candidate {
    /// The bytes.
    pub value: Value,
    /// The operation that put them there.
    pub operation: OperationId,
    /// When it became settled: a later write issued after this moment replaces it for sure.
    pub settled_at: u64,
    /// The life of the pool in which the operation failed half way; such a candidate may come and go
    /// until the pool is opened again. 0 when it is not such a one.
    pub doubtful_in_life: u32,
}

/// The contents a block may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    /// Exactly this.
    One(Candidate),
    /// Any of these, until a read tells.
    Any(Rc<[Candidate]>),
}

impl Cell {
    /// The candidates.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        match self {
            Cell::One(candidate) => std::slice::from_ref(candidate),
            Cell::Any(candidates) => candidates,
        }
    }

    fn from_list(list: &[Candidate]) -> Cell {
        match list {
            [] => unreachable!("invariant 1: a cell keeps at least one candidate"),
            [one] => Cell::One(*one),
            many => Cell::Any(many.into()),
        }
    }

    /// A write issued at `issued_at` is acknowledged: it replaces what was settled before its issue
    /// and stands beside what was settled since.
    pub fn settle(&mut self, new: Candidate, issued_at: u64) {
        if self.candidates().iter().all(|old| old.settled_at < issued_at) {
            *self = Cell::One(new);
            return;
        }
        let mut list: Vec<Candidate> =
            self.candidates().iter().copied().filter(|old| old.settled_at > issued_at).collect();
        list.push(new);
        *self = Cell::from_list(&list);
    }

    /// A write that may or may not have been applied.
    pub fn add(&mut self, new: Candidate) {
        if self.candidates().iter().any(|old| old.operation == new.operation && old.value == new.value) {
            return;
        }
        let mut list = self.candidates().to_vec();
        list.push(new);
        *self = Cell::from_list(&list);
    }

    /// A read saw `value` while nothing that could change the block was in flight.
    pub fn observe(&mut self, value: Value, life: u32) {
        let Cell::Any(candidates) = self else { return };
        if candidates.iter().any(|candidate| candidate.doubtful_in_life == life) {
            return;
        }
        let list: Vec<Candidate> =
            candidates.iter().copied().filter(|candidate| candidate.value == value).collect();
        if !list.is_empty() {
            *self = Cell::from_list(&list);
        }
    }
}

type Page = [Cell; PAGE_UNITS as usize];

/// A run of logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first block.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Run {
    /// The block after the last.
    #[must_use]
    pub fn end(self) -> u64 {
        self.first + self.count
    }

    /// True when the runs share a block.
    #[must_use]
    pub fn overlaps(self, other: Run) -> bool {
        self.first < other.end() && other.first < self.end()
    }

    /// The blocks in both runs.
    #[must_use]
    pub fn intersection(self, other: Run) -> Run {
        let first = self.first.max(other.first);
        Run { first, count: self.end().min(other.end()).saturating_sub(first) }
    }

    /// The blocks below `end`.
    #[must_use]
    pub fn up_to(self, end: u64) -> Run {
        Run { first: self.first, count: self.end().min(end).saturating_sub(self.first) }
    }

    /// The blocks from `first` on.
    #[must_use]
    pub fn from(self, first: u64) -> Run {
        let first = first.clamp(self.first, self.end());
        Run { first, count: self.end() - first }
    }

    /// True when the block is in the run.
    #[must_use]
    pub fn contains(self, unit: u64) -> bool {
        (self.first..self.end()).contains(&unit)
    }
}

/// The model of one image.
#[derive(Clone, Debug)]
pub struct Image {
    /// The unit of the model and of atomicity: a logical block, or less where hosts write parts of
    /// blocks.
    pub unit_bytes: u32,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The volumes this content descends from, itself included: whose bytes may ever appear here.
    pub lineage: Rc<[u32]>,
    pages: BTreeMap<u64, Rc<Page>>,
}

fn empty_page() -> Page {
    std::array::from_fn(|_| Cell::One(Candidate::default()))
}

impl Image {
    /// An image that was never written.
    #[must_use]
    pub fn new(unit_bytes: u32, block_bytes: u32, size_bytes: u64, incarnation: u32) -> Image {
        let lineage = Rc::from([incarnation]);
        Image { unit_bytes, block_bytes, size_bytes, lineage, pages: BTreeMap::new() }
    }

    /// Units in the image.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.size_bytes / u64::from(self.unit_bytes)
    }

    /// 512-byte sectors in a unit.
    #[must_use]
    pub fn unit_sectors(&self) -> u64 {
        u64::from(self.unit_bytes) / SECTOR_BYTES as u64
    }

    /// The same content as a volume of its own.
    #[must_use]
    pub fn descend(&self, incarnation: u32) -> Image {
        let lineage: Vec<u32> = self.lineage.iter().copied().chain([incarnation]).collect();
        Image { lineage: lineage.into(), ..self.clone() }
    }

    /// Changes every cell of the run. With `only_written` pages that do not exist stay so: right for
    /// changes to zeroes, which they hold already, and what makes unmapping a huge range cheap.
    pub fn change(&mut self, run: Run, only_written: bool, mut apply: impl FnMut(&mut Cell)) {
        if run.count == 0 {
            return;
        }
        let pages = run.first / PAGE_UNITS..=(run.end() - 1) / PAGE_UNITS;
        let mut change_page = |number: u64, page: &mut Rc<Page>| {
            let page = Rc::make_mut(page);
            let low = run.first.max(number * PAGE_UNITS) - number * PAGE_UNITS;
            let high = run.end().min((number + 1) * PAGE_UNITS) - number * PAGE_UNITS;
            page[low as usize..high as usize].iter_mut().for_each(&mut apply);
        };
        if only_written {
            for (number, page) in self.pages.range_mut(pages) {
                change_page(*number, page);
            }
        } else {
            for number in pages {
                change_page(number, self.pages.entry(number).or_insert_with(|| Rc::new(empty_page())));
            }
        }
    }

    /// Makes the pages of the run exist, so that later changes to zeroes are recorded there.
    pub fn touch(&mut self, run: Run) {
        self.change(run, false, |_| {});
    }

    /// The part of the image a read of `run` needs.
    #[must_use]
    pub fn excerpt(&self, run: Run) -> Image {
        let pages = run.first / PAGE_UNITS..=run.end() / PAGE_UNITS;
        Image {
            pages: self.pages.range(pages).map(|(number, page)| (*number, page.clone())).collect(),
            ..Image::new(self.unit_bytes, self.block_bytes, self.size_bytes, 0)
        }
    }

    /// This image, taken of a snapshot, replaces `before` by a restore that was issued at `issued_at`
    /// and is over now. What was settled in `before` since then may have come after it.
    pub fn become_restored(&mut self, before: &Image, restore: OperationId, issued_at: u64, now: u64) {
        let numbers: Vec<u64> = self.pages.keys().chain(before.pages.keys()).copied().collect();
        for number in numbers {
            let page = Rc::make_mut(self.pages.entry(number).or_insert_with(|| Rc::new(empty_page())));
            for (index, cell) in page.iter_mut().enumerate() {
                let restored = cell.candidates().iter();
                let restored = restored.map(|old| Candidate { operation: restore, settled_at: now, ..*old });
                let since = before.pages.get(&number).map_or(&[][..], |page| page[index].candidates());
                let since = since.iter().copied().filter(|candidate| candidate.settled_at > issued_at);
                let list: Vec<Candidate> = restored.chain(since).collect();
                *cell = Cell::from_list(&list);
            }
        }
    }

    /// Sets the size; what lies beyond it is gone for good.
    pub fn resize(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        let units = self.units();
        self.pages.split_off(&units.div_ceil(PAGE_UNITS));
        if !units.is_multiple_of(PAGE_UNITS) {
            let rest = Run { first: units, count: PAGE_UNITS - units % PAGE_UNITS };
            self.change(rest, true, |cell| *cell = Cell::One(Candidate::default()));
        }
    }

    /// The cell of a block.
    #[must_use]
    pub fn cell(&self, unit: u64) -> Cell {
        match self.pages.get(&(unit / PAGE_UNITS)) {
            Some(page) => page[(unit % PAGE_UNITS) as usize].clone(),
            None => Cell::One(Candidate::default()),
        }
    }

    /// The cells of what was ever written, each stretch with its first block.
    pub fn written_cells(&self) -> impl Iterator<Item = (u64, &[Cell])> {
        self.pages.iter().map(|(number, page)| (number * PAGE_UNITS, &page[..]))
    }

    /// The runs that were ever written, merged.
    #[must_use]
    pub fn written_runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for number in self.pages.keys() {
            let first = number * PAGE_UNITS;
            let count = PAGE_UNITS.min(self.units().saturating_sub(first));
            match runs.last_mut() {
                Some(last) if last.end() == first => last.count += count,
                _ if count > 0 => runs.push(Run { first, count }),
                _ => {}
            }
        }
        runs
    }

    /// Compares bytes read at `run` with what is permitted; `extra` adds the contents that requests
    /// in flight meanwhile may have put there. Returns the content seen of each block.
    pub fn compare(&self, run: Run, bytes: &[u8], extra: &[(Run, Value)]) -> Result<Vec<Value>, String> {
        let unit_bytes = self.unit_bytes as usize;
        assert_eq!(bytes.len() as u64, run.count * u64::from(self.unit_bytes), "bytes of the whole run");
        let mut seen = Vec::with_capacity(run.count as usize);
        let mut page: Option<(u64, Option<&Rc<Page>>)> = None;
        let zero = [Candidate::default()];
        for (unit, bytes) in (run.first..).zip(bytes.chunks_exact(unit_bytes)) {
            let number = unit / PAGE_UNITS;
            if page.is_none_or(|(known, _)| known != number) {
                page = Some((number, self.pages.get(&number)));
            }
            let candidates = match page {
                Some((_, Some(page))) => page[(unit % PAGE_UNITS) as usize].candidates(),
                _ => &zero,
            };
            let sector = unit * self.unit_sectors();
            let known = candidates.iter().map(|candidate| candidate.value);
            let flying = extra.iter().filter(|(run, _)| run.contains(unit)).map(|(_, value)| *value);
            let found = known.chain(flying).find(|value| value.matches(sector, bytes));
            let Some(value) = found else { return Err(self.explain(unit, bytes, candidates, extra)) };
            seen.push(value);
        }
        Ok(seen)
    }

    fn explain(&self, unit: u64, bytes: &[u8], candidates: &[Candidate], extra: &[(Run, Value)]) -> String {
        let mut permitted: Vec<String> = candidates.iter().map(|one| one.value.to_string()).collect();
        for (run, value) in extra {
            if run.contains(unit) {
                permitted.push(format!("{value} in flight"));
            }
        }
        permitted.dedup();
        format!(
            "block {unit} of {} bytes holds {}, permitted: {}",
            self.unit_bytes,
            describe(unit * self.unit_sectors(), bytes),
            permitted.join(" or ")
        )
    }

    /// Fixes what a read saw. `seen` is what [`Image::compare`] returned for `run`.
    pub fn observe(&mut self, run: Run, seen: &[Value], life: u32, mut is_fixed: impl FnMut(u64) -> bool) {
        for (unit, value) in (run.first..).zip(seen) {
            let Some(page) = self.pages.get_mut(&(unit / PAGE_UNITS)) else { continue };
            let index = (unit % PAGE_UNITS) as usize;
            if matches!(page[index], Cell::Any(_)) && is_fixed(unit) {
                Rc::make_mut(page)[index].observe(*value, life);
            }
        }
    }
}
