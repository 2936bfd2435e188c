//! The second reader is judged as the engine is: what `ashlar inspect` tells of the drives as a life left
//! them, and what salvage would save, against the oracle.
//!
//! Demanded after a crash or a stop, of drives as they are, those that were away or replaced among them:
//! 1. While no more drives failed than the protection covers, every image holds what the oracle permits:
//!    what was acknowledged, of requests in flight either.
//! 2. While no drive lied, nothing is called damaged; while none failed, none is called lacking.
//! 3. Of drives spoilt on purpose, as many as the protection covers change nothing of 1. Where they are
//!    more, what is called whole is so all the same, and no byte is given out that was never written there.
//!
//! Called at the end of some lives. Reads only: nothing that happens later depends on it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use ashlar_inspect::{ImageCheck, JournalEnd, NamedSource, Pool, Report, Source};
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE};

use crate::chance::{Chance, mix};
use crate::drives::DriveArray;
use crate::forger::KeyKnown;
use crate::life::Machine;
use crate::oracle::{ImageKey, Listing, Oracle, Run};
use crate::scenario::Theme;

/// Lives of which one is looked at. Of 100 seeds a look at every third took 1.3 % more CPU time than none.
const LOOKED_AT_ONE_IN: u64 = 2;
/// Of these, those of which everything is compared with parity.
const DEEP_ONE_IN: u64 = 3;
/// Of these, those of which drives are spoilt, on top of whatever else they suffered.
const SPOILT_ONE_IN: u64 = 2;
const SALT: u64 = 0x1005_e1de;
/// Before this a drive holds superblocks.
pub const CELLS_START_BLOCK: u64 = (1 << 20) / BLOCK_BYTES;

/// A simulated drive, seen from outside.
struct Still {
    array: Rc<RefCell<DriveArray>>,
    path: String,
    size_bytes: u64,
    /// It holds rubbish from this block on.
    rubbish_from: Option<u64>,
}

impl Source for Still {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + into.len() as u64;
        if end > self.size_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let first = offset / BLOCK_BYTES;
        let mut blocks = vec![0; ((end.div_ceil(BLOCK_BYTES) - first) * BLOCK_BYTES) as usize];
        if !self.array.borrow().look_at(&self.path, first, &mut blocks) {
            return Err(io::Error::other("simulated drive is dead"));
        }
        for (block, bytes) in (first..).zip(blocks.chunks_exact_mut(BLOCK_BYTES_USIZE)) {
            if self.rubbish_from.is_some_and(|from| block >= from) {
                let words = bytes.chunks_exact_mut(8).enumerate();
                words.for_each(|(at, word)| {
                    word.copy_from_slice(&mix(block << 9 ^ at as u64 ^ SALT).to_le_bytes());
                });
            }
        }
        let start = (offset - first * BLOCK_BYTES) as usize;
        into.copy_from_slice(&blocks[start..start + into.len()]);
        Ok(())
    }
}

/// Looks at the drives of a machine that has just stopped.
pub fn look(machine: &Machine) {
    let mut chance = Chance::new(machine.record.digest() ^ SALT);
    let is_due = machine.scenario.theme.is_some_and(Theme::loses_drives) || chance.one_in(LOOKED_AT_ONE_IN);
    if !machine.maker.is_on_drives() || machine.record.has_failed() || !is_due {
        return;
    }
    let inspection = Inspection { machine, is_damaged: machine.array.borrow().is_damaged() };
    if let Err(wrong) = inspection.run(&mut chance) {
        machine.record.fail(format!("inspect: {wrong}"));
    }
}

struct Inspection<'a> {
    machine: &'a Machine,
    is_damaged: bool,
}

/// What is demanded of images.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// Everything, right.
    Exact,
    /// Exact if everything is called whole, and never what was never written there.
    Plausible,
}

impl Inspection<'_> {
    fn run(&self, chance: &mut Chance) -> Result<(), String> {
        let pool = match self.open(chance, &BTreeMap::new()) {
            Ok(pool) => pool,
            Err(_) if self.is_damaged => return Ok(()),
            Err(error) => return Err(error),
        };
        self.machine.record.add_probes(&[("looked at from outside", 1)]);
        let report = pool.report();
        if self.is_damaged {
            // Without redundancy acknowledged groups may be gone without a trace.
            return self.compare(&pool, &report, Demand::Plausible).map(|_| ());
        }
        self.compare(&pool, &report, Demand::Exact)?;
        let is_deep =
            self.machine.scenario.theme.is_some_and(Theme::loses_drives) || chance.one_in(DEEP_ONE_IN);
        self.judge_verdict(&pool, &report, is_deep)?;
        if chance.one_in(SPOILT_ONE_IN) {
            return self.spoil(&report, chance);
        }
        Ok(())
    }

    /// All drives there are or were, in any order. Those that are named hold rubbish from a block on.
    fn open(&self, chance: &mut Chance, rubbish: &BTreeMap<String, u64>) -> Result<Pool, String> {
        let array = &self.machine.array;
        let mut paths = array.borrow().paths();
        for index in (1..paths.len()).rev() {
            paths.swap(index, chance.below(index as u64 + 1) as usize);
        }
        let named = paths.into_iter().map(|path| {
            let size_bytes = array.borrow().size_of(&path);
            let source = size_bytes.map(|size_bytes| {
                let rubbish_from = rubbish.get(&path).copied();
                Box::new(Still { array: array.clone(), path: path.clone(), size_bytes, rubbish_from })
                    as Box<dyn Source>
            });
            let source = source.ok_or_else(|| io::Error::other("simulated drive is dead"));
            NamedSource { path: path.into(), source }
        });
        Pool::open_sources(named.collect()).map_err(|error| error.to_string())
    }

    /// Nothing is wrong that the protection does not cover.
    fn judge_verdict(&self, pool: &Pool, report: &Report, is_deep: bool) -> Result<(), String> {
        let redundancy = &report.redundancy;
        if redundancy.is_exceeded {
            return Err(format!("more is called lacking than may be: {:?}", redundancy.findings));
        }
        let array = self.machine.array.borrow();
        if array.counters().survivable == 0 && !redundancy.is_full() && self.machine.scenario.victims == 0 {
            return Err(format!("drives are called lacking that are not: {:?}", redundancy.findings));
        }
        self.machine.record.add_probes(&[
            ("looked at from outside: drives lack something", u64::from(!redundancy.is_full())),
            ("looked at from outside: end not understood", u64::from(is_unsure(report))),
        ]);
        if array.has_lied() {
            return Ok(());
        }
        drop(array);
        if !report.damage.is_empty() && !is_unsure(report) {
            return Err(format!("a pool without damage is called damaged: {:?}", report.damage));
        }
        if is_deep {
            let deep = pool.check_deep();
            if !deep.is_whole() {
                let gone = deep.images.iter().filter_map(|image| gone(image).err());
                let told: Vec<String> = deep.damage.iter().cloned().chain(gone).collect();
                return Err(format!("a pool without damage is called damaged: {told:?}"));
            }
        }
        Ok(())
    }

    /// Drives in service get rubbish, cells alone or superblocks, too; some more than the pool may lose.
    fn spoil(&self, report: &Report, chance: &mut Chance) -> Result<(), String> {
        let parity = u64::from(self.machine.scenario.layout.parity);
        let in_service = report.drives.iter().filter(|drive| drive.state == Some("in-service"));
        let mut paths: Vec<String> =
            in_service.filter_map(|drive| Some(drive.path.as_ref()?.display().to_string())).collect();
        let mut rubbish = BTreeMap::new();
        for _ in 0..chance.between(1, parity + 1) {
            if !paths.is_empty() {
                let path = paths.swap_remove(chance.below(paths.len() as u64) as usize);
                rubbish.insert(path, *chance.pick(&[0, CELLS_START_BLOCK, CELLS_START_BLOCK]));
            }
        }
        let lacking = report.redundancy.drives_promised - report.redundancy.drives_left;
        let is_covered = rubbish.len() as u64 + lacking <= parity && !self.machine.array.borrow().has_lied();
        let pool = match self.open(chance, &rubbish) {
            Ok(pool) => pool,
            Err(_) if !is_covered => return Ok(()),
            Err(error) => return Err(error),
        };
        let report = pool.report();
        let demand = if is_covered { Demand::Exact } else { Demand::Plausible };
        // With the key a host can make what looks like a chunk that is lost, and what a drive's superblock
        // alone told of another nobody knows any more: nothing is left to tell such cases apart.
        let is_key_leaked = self.machine.scenario.forger == Some(KeyKnown::Leaked);
        let are_superblocks_lost = parity > 0 && rubbish.values().any(|from| *from == 0);
        if !is_covered && (is_key_leaked || are_superblocks_lost) {
            return Ok(());
        }
        let is_whole = self
            .compare(&pool, &report, demand)
            .map_err(|wrong| format!("with rubbish on {rubbish:?}: {wrong}"))?;
        if !is_covered {
            let is_told = !is_whole || !report.damage.is_empty();
            self.machine.record.add_probes(&[
                ("looked at from outside: spoilt beyond protection", 1),
                ("looked at from outside: spoilt, and told by tables alone", u64::from(is_told)),
            ]);
        }
        Ok(())
    }

    /// Compares every image. Returns whether all of them are whole.
    fn compare(&self, pool: &Pool, report: &Report, demand: Demand) -> Result<bool, String> {
        // What it learns by this look counts for nothing later: the engine is free to decide otherwise.
        let oracle = RefCell::new(self.machine.oracle.borrow().clone());
        let listing = listing_of(report);
        let mut exact = oracle.borrow_mut().reconcile(&listing);
        // Where more is lacking than the protection covers, that is told, and what it means.
        let mut is_whole = report.damage.is_empty() && !report.redundancy.is_exceeded;
        let keys = match exact {
            Ok(()) => oracle.borrow().image_keys(),
            Err(_) => keys_of(&listing),
        };
        for key in keys {
            let wrong = Cell::new(None);
            let pieces = RefCell::new(Pieces::new(&oracle, &key, exact.is_ok()));
            let check = pool.read(&key.device_name(), |block, bytes| {
                if demand == Demand::Plausible
                    && let Err(what) = check_plausible(&oracle.borrow(), &listing, &key, block, bytes)
                {
                    wrong.set(Some(what));
                }
                pieces.borrow_mut().take(block, bytes);
            });
            let check = check.map_err(|error| error.to_string())?;
            if let Some(wrong) = wrong.take() {
                return Err(wrong);
            }
            is_whole &= check.gone.is_empty();
            if exact.is_ok() {
                exact = gone(&check).and_then(|()| pieces.into_inner().judge());
            }
        }
        exact = exact.and_then(|()| oracle.borrow_mut().check_exactness());
        match (exact, demand) {
            (Ok(()), _) => Ok(is_whole),
            (Err(wrong), Demand::Exact) => Err(wrong),
            // A drive that lost the last group of the journal unnoticed leaves nothing to be told.
            (Err(wrong), Demand::Plausible)
                if is_whole && !self.is_damaged && !self.machine.array.borrow().has_lied() =>
            {
                Err(format!("called whole, but {wrong}"))
            }
            (Err(_), Demand::Plausible) => Ok(false),
        }
    }
}

fn is_unsure(report: &Report) -> bool {
    report.damage.len() == 1 && report.journal.end == JournalEnd::Unsure
}

fn gone(check: &ImageCheck) -> Result<(), String> {
    match check.gone.first() {
        Some(range) => {
            Err(format!("{} at {} is gone: {}", check.name, range.offset_bytes, range.explanation))
        }
        None => Ok(()),
    }
}

fn listing_of(report: &Report) -> Listing {
    let mut listing = Listing::default();
    for image in &report.images {
        match image.name.split_once('@') {
            None if image.kind == "deleted" => {
                let name = image.name.split(':').next().unwrap_or_default();
                let of_volume = (image.size_bytes, image.logical_block_bytes);
                listing.deleted.insert(name.to_string(), of_volume);
            }
            None => {
                let of_volume = (image.size_bytes, image.logical_block_bytes);
                listing.volumes.insert(image.name.clone(), of_volume);
            }
            Some((volume, snapshot)) => {
                listing.snapshots.entry(snapshot.to_string()).or_default().push(volume.to_string());
            }
        }
    }
    listing.snapshots.values_mut().for_each(|volumes| volumes.sort());
    listing
}

fn keys_of(listing: &Listing) -> Vec<ImageKey> {
    let live = listing.volumes.keys().map(|name| ImageKey::Live(name.clone()));
    let frozen = listing.snapshots.iter().flat_map(|(snapshot, volumes)| {
        let of_volume =
            |volume: &String| ImageKey::Frozen { snapshot: snapshot.clone(), volume: volume.clone() };
        volumes.iter().map(of_volume)
    });
    live.chain(frozen).collect()
}

/// `found` are the images of the report. One that has other blocks is an earlier volume of the name.
fn check_plausible(
    oracle: &Oracle,
    found: &Listing,
    key: &ImageKey,
    block: u64,
    bytes: &[u8],
) -> Result<(), String> {
    let Some(image) = oracle.image(key) else { return Ok(()) };
    let (ImageKey::Live(volume) | ImageKey::Frozen { volume, .. }) = key;
    if found.volumes.get(volume).is_some_and(|(_, block_bytes)| *block_bytes != image.block_bytes) {
        return Ok(());
    }
    let unit_bytes = u64::from(image.unit_bytes);
    let run = Run { first: block * BLOCK_BYTES / unit_bytes, count: BLOCK_BYTES / unit_bytes };
    oracle.check_plausible(key, run, bytes)
}

/// An image as it is read, judged piece by piece: what lies before the block that was read last is complete.
struct Pieces<'a> {
    oracle: &'a RefCell<Oracle>,
    key: &'a ImageKey,
    /// What must be judged, in order, the next one last.
    runs: Vec<Run>,
    unit_bytes: u64,
    units: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
    /// Of a volume that may have two contents nothing can be judged before all of it is there.
    forked: Option<Vec<(Run, Vec<u8>)>>,
    wrong: Option<String>,
}

/// Longest piece.
const PIECE_BYTES: u64 = 64 << 10;

impl<'a> Pieces<'a> {
    fn new(oracle: &'a RefCell<Oracle>, key: &'a ImageKey, is_wanted: bool) -> Pieces<'a> {
        let known = oracle.borrow();
        let image = known.image(key).filter(|_| is_wanted);
        let (unit_bytes, units) =
            image.map_or((BLOCK_BYTES, 0), |image| (image.unit_bytes.into(), image.units()));
        let piece = PIECE_BYTES / unit_bytes;
        let mut runs: Vec<Run> = Vec::new();
        if image.is_some() {
            let mut starts: Vec<u64> = known
                .runs_to_verify(key)
                .into_iter()
                .flat_map(|run| run.first / piece..run.end().div_ceil(piece))
                .collect();
            starts.sort_unstable();
            starts.dedup();
            runs.extend(starts.into_iter().rev().map(|start| piece_at(start, piece, units)));
            runs.retain(|run| run.count > 0);
        }
        let forked = (image.is_some() && known.is_forked(key)).then(Vec::new);
        Pieces { oracle, key, runs, unit_bytes, units, blocks: BTreeMap::new(), forked, wrong: None }
    }

    fn take(&mut self, block: u64, bytes: &[u8]) {
        if self.units == 0 {
            return;
        }
        let piece = PIECE_BYTES / self.unit_bytes;
        let start = block * BLOCK_BYTES / PIECE_BYTES;
        while let Some(run) = self.runs.last().filter(|run| run.first / piece < start).copied() {
            self.judge_run(run);
            self.runs.pop();
        }
        if self.runs.last().is_none_or(|run| run.first / piece > start) {
            // Written by nobody the oracle knows.
            self.runs.push(piece_at(start, piece, self.units));
        }
        self.blocks.insert(block, bytes.to_vec());
    }

    fn judge_run(&mut self, run: Run) {
        let first = run.first * self.unit_bytes;
        let mut bytes = vec![0; (run.count * self.unit_bytes) as usize];
        let last = first + bytes.len() as u64;
        for (block, content) in std::mem::take(&mut self.blocks) {
            let at = block * BLOCK_BYTES;
            assert!((first..last).contains(&at), "block {block} is not of the piece at {first}");
            let end = (at + BLOCK_BYTES).min(last);
            bytes[(at - first) as usize..(end - first) as usize]
                .copy_from_slice(&content[..(end - at) as usize]);
        }
        if let Some(pieces) = &mut self.forked {
            pieces.push((run, bytes));
            return;
        }
        let mut oracle = self.oracle.borrow_mut();
        let id = oracle.read_begin(self.key, run);
        if let Err(wrong) = oracle.read_end(id, &bytes) {
            self.wrong.get_or_insert(wrong);
        }
    }

    fn judge(mut self) -> Result<(), String> {
        while let Some(run) = self.runs.pop() {
            self.judge_run(run);
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        match self.forked {
            Some(pieces) => self.oracle.borrow_mut().resolve_fork(&self.key.device_name(), &pieces),
            None => Ok(()),
        }
    }
}

fn piece_at(start: u64, piece: u64, units: u64) -> Run {
    let first = start * piece;
    Run { first, count: piece.min(units.saturating_sub(first)) }
}
