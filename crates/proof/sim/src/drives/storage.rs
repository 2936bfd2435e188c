//! The simulator's storage: a set of simulated drives behind the runtime's drive requests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use ashlar_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock};
use ashlar_runtime::sim::{SimDriveId, SimOperation, SimStorage, SimTicket};
use ashlar_runtime::{Durability, Instant, OpenDrive};
use ashlar_units::BLOCK_BYTES;

use super::lanes::Lanes;
use super::late::LateWrites;
use super::{Crash, Drive, DriveCounters, FaultRates, Pace, Survival, TIMEOUT_MICROS};
use crate::chance::Chance;
use crate::forger::Sight;

/// Bytes a drive moves in a microsecond: about 2 GB/s.
const BYTES_PER_MICRO: u64 = 2000;

/// Blocks around a failed one that a sticky fault covers: an erase block's worth, arbitrary.
const STICKY_BLOCKS: u64 = 16;

/// Block behind the ring of superblocks.
const SUPERBLOCKS_END: u64 = SUPERBLOCK_SLOTS * SUPERBLOCK_BYTES as u64 / BLOCK_BYTES;

/// What becomes of a request; drawn when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Success,
    Failure(io::ErrorKind),
    Lost,
    Misdirected { block: u64 },
    Sync { covered: u64 },
    SyncFailure,
}

/// A place that fails until it is mended.
#[derive(Clone, Copy, Debug)]
struct BadPlace {
    drive: u32,
    first_block: u64,
    is_write: bool,
}

struct Slot {
    path: String,
    drive: Drive,
    is_open: bool,
    is_dead: bool,
    /// The pool promises to survive what happens to it.
    is_victim: bool,
    /// Somebody pulled it out.
    is_unplugged: bool,
    /// Somebody did so once: the pool promises to survive that, too.
    was_unplugged: bool,
    /// Requests to read it.
    reads: u64,
}

/// The drives of one simulated machine.
pub struct DriveArray {
    slots: Vec<Slot>,
    flights: BTreeMap<SimTicket, Fate>,
    /// Those of them that write a superblock.
    superblock_flights: BTreeSet<SimTicket>,
    bad_places: Vec<BadPlace>,
    chance: Chance,
    sector_bytes: usize,
    pace: Pace,
    rates: FaultRates,
    next_crash: Crash,
    counters: DriveCounters,
    errors_in_life: u64,
    /// Only these drives have faults, and the pool promises to survive them.
    victims: Option<Vec<String>>,
    /// The pool may do without some of the drives: they left, or are to.
    has_fewer: bool,
    /// A drive that may be lost did not hold what it was given.
    has_lied: bool,
    /// Where the journal is, when somebody watches it.
    sight: Option<Sight>,
    /// Writes of a killed process that are still to land, where that happens.
    late: Option<LateWrites>,
    /// How many requests each serves at a time.
    lanes: Lanes,
    /// Copies of drives that somebody made while the pool was down.
    copies: BTreeMap<String, Drive>,
    /// They are trimmed, and not written over before their first use.
    are_block_devices: bool,
}

impl DriveArray {
    /// No drives yet; they are made when they are first opened with a size.
    #[must_use]
    pub fn new(seed: u64, sector_bytes: usize, pace: Pace) -> DriveArray {
        DriveArray {
            slots: Vec::new(),
            flights: BTreeMap::new(),
            superblock_flights: BTreeSet::new(),
            bad_places: Vec::new(),
            chance: Chance::new(seed),
            sector_bytes,
            pace,
            rates: FaultRates::default(),
            next_crash: Crash::Power { survival_per_mille: 500 },
            counters: DriveCounters::default(),
            errors_in_life: 0,
            victims: None,
            has_fewer: false,
            has_lied: false,
            sight: None,
            late: None,
            lanes: Lanes::default(),
            copies: BTreeMap::new(),
            are_block_devices: false,
        }
    }

    /// Whether the drives are block devices, not files.
    pub fn be_block_devices(&mut self, are_block_devices: bool) {
        self.are_block_devices = are_block_devices;
    }

    /// Somebody pulls a drive out of the running machine.
    pub fn unplug(&mut self, path: &str) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.path == path) else { return };
        (slot.is_unplugged, slot.was_unplugged) = (true, true);
        self.counters.survivable += 1;
    }

    /// All drives that were pulled out are there again.
    pub fn plug_in(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.is_unplugged = false);
    }

    /// How often a drive was asked to read.
    #[must_use]
    pub fn reads_of(&self, path: &str) -> u64 {
        self.slots.iter().find(|slot| slot.path == path).map_or(0, |slot| slot.reads)
    }

    /// From now on it is watched where the journal is.
    pub fn watch(&mut self) {
        self.sight = Some(Sight::default());
    }

    /// From now on each drive serves so many requests at a time; otherwise none waits for another.
    #[cfg(test)]
    pub fn have_lanes(&mut self, count: usize) {
        self.lanes = Lanes::new(count);
    }

    /// From now on writes in flight may outlive a kill.
    pub fn let_writes_be_late(&mut self, seed: u64) {
        self.late = Some(LateWrites::new(seed));
    }

    fn land_late_writes(&mut self, now: Instant) {
        let Some(late) = &mut self.late else { return };
        while let Some(write) = late.pop_due(now) {
            let slot = &mut self.slots[write.drive as usize];
            if !slot.is_dead {
                let survival = Survival { per_mille: write.survival_per_mille };
                slot.drive.write_torn(write.offset / BLOCK_BYTES, &write.data, survival, &mut self.chance);
                self.counters.late_writes += 1;
            }
        }
    }

    /// Opens a drive whoever else has it open: by another path, from another machine.
    pub fn open_unlocked(&mut self, path: &str, options: &OpenDrive) -> io::Result<(SimDriveId, u64)> {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.path == path) {
            slot.is_open = false;
        }
        self.open(path, options)
    }

    /// Whether a request has been started and is not finished.
    #[must_use]
    pub fn has_in_flight(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Whether a superblock is on its way to a drive, and all drives are there. It may be the one that calls
    /// half of them out, and without it the pool is rightly not opened.
    #[must_use]
    pub fn writes_superblock(&self) -> bool {
        !self.superblock_flights.is_empty()
            && self.slots.iter().all(|slot| !slot.is_dead && !slot.is_unplugged)
    }

    /// The last journal group that was written, if that is watched and one was.
    #[must_use]
    pub fn sight(&self) -> Option<&Sight> {
        self.sight.as_ref().filter(|sight| sight.end > 0)
    }

    /// The newest superblock on each drive that is there and has one.
    #[must_use]
    pub fn newest_superblocks(&self) -> Vec<Superblock> {
        let newest_of = |slot: &Slot| {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            let ring = (0..SUPERBLOCK_SLOTS).filter_map(|number| {
                slot.drive.read(number * SUPERBLOCK_BYTES as u64 / BLOCK_BYTES, &mut bytes);
                Superblock::decode(&bytes).ok()
            });
            ring.max_by_key(|found| found.generation)
        };
        self.slots.iter().filter(|slot| !slot.is_dead).filter_map(newest_of).collect()
    }

    /// From now on the pool may do without some of the drives.
    pub fn expect_fewer(&mut self) {
        self.has_fewer = true;
    }

    /// Whether the pool may do without some of the drives.
    #[must_use]
    pub fn has_fewer(&self) -> bool {
        self.has_fewer
    }

    /// Only these drives have faults from now on, and the pool must survive all of them.
    pub fn limit_faults_to(&mut self, victims: Option<Vec<String>>) {
        self.victims = victims;
        for slot in &mut self.slots {
            slot.is_victim = is_victim(self.victims.as_deref(), &slot.path);
        }
    }

    /// Every drive there is or was, by its path.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.slots.iter().map(|slot| slot.path.clone()).collect()
    }

    /// Whether a drive that may be lost ever did not hold what it was given: there is damage to be found.
    #[must_use]
    pub fn has_lied(&self) -> bool {
        self.has_lied
    }

    /// The size of a drive, while it answers.
    #[must_use]
    pub fn size_of(&self, path: &str) -> Option<u64> {
        let mut slots = self.slots.iter();
        slots.find(|slot| slot.path == path && !slot.is_dead).map(|slot| slot.drive.size_bytes())
    }

    /// What the blocks of a drive hold, for who looks on from outside. False when it does not answer.
    pub fn look_at(&self, path: &str, first_block: u64, into: &mut [u8]) -> bool {
        let Some(slot) = self.slots.iter().find(|slot| slot.path == path) else { return false };
        slot.drive.read(first_block, into);
        !slot.is_dead
    }

    /// Drives that may fail and answer, by their paths.
    #[must_use]
    pub fn victims_there(&self) -> Vec<String> {
        let there = self.slots.iter().filter(|slot| slot.is_victim && !slot.is_dead);
        there.map(|slot| slot.path.clone()).collect()
    }

    /// A copy of a drive is made and kept.
    pub fn copy_away(&mut self, path: &str) {
        let Some(slot) = self.slots.iter().find(|slot| slot.path == path) else { return };
        self.copies.insert(path.to_string(), slot.drive.clone());
    }

    /// True when there is a copy of a drive.
    pub fn has_copy(&self, path: &str) -> bool {
        self.copies.contains_key(path)
    }

    /// A drive gets the content of its copy; false when there is none.
    pub fn bring_back_copy(&mut self, path: &str) -> bool {
        let Some(index) = self.slots.iter().position(|slot| slot.path == path) else { return false };
        let Some(copy) = self.copies.remove(path) else { return false };
        // What is still on its way goes to the drive that was there before.
        self.late.iter_mut().for_each(|late| late.forget(index as u32));
        let slot = &mut self.slots[index];
        (slot.was_unplugged, self.counters.survivable) = (true, self.counters.survivable + 1);
        slot.drive = copy;
        true
    }

    /// Bits of so many blocks of a drive change; those before `from` are spared.
    pub fn spoil(&mut self, path: &str, blocks: u64, from: u64) {
        let Some(drive) = self.slots.iter().position(|slot| slot.path == path) else { return };
        for _ in 0..blocks {
            let target = &mut self.slots[drive].drive;
            let Some(block) = target.pick_written(&mut self.chance) else { return };
            if block < from {
                continue;
            }
            target.rot(block, &mut self.chance);
            self.count_damage(drive);
        }
    }

    /// True for drives that are there and answer.
    #[must_use]
    pub fn is_usable(&self, path: &str) -> bool {
        self.slots.iter().any(|slot| slot.path == path && !slot.is_dead && !slot.is_unplugged)
    }

    /// A path that no drive has yet, for one that takes the place of this one: the same faults await it.
    #[must_use]
    pub fn new_path(&self, number: usize) -> String {
        format!("drive-{number}+{}", self.slots.len())
    }

    /// Paths that no drive has yet, for so many that join a pool of so many.
    #[must_use]
    pub fn joining_paths(&self, drives: usize, joining: usize) -> Vec<String> {
        (drives..drives + joining).map(|number| format!("drive-{number}+{}", self.slots.len())).collect()
    }

    fn can_fail(&self, drive: u32) -> bool {
        self.victims.is_none() || self.slots[drive as usize].is_victim
    }

    fn count_error(&mut self, drive: usize) {
        if self.slots[drive].is_victim || self.slots[drive].was_unplugged {
            self.counters.survivable += 1;
            return;
        }
        self.counters.errors += 1;
        self.errors_in_life += 1;
    }

    fn count_damage(&mut self, drive: usize) {
        if self.slots[drive].is_victim {
            self.counters.survivable += 1;
            self.has_lied = true;
            return;
        }
        self.counters.damages += 1;
    }

    fn maybe_die(&mut self, drive: u32) {
        if self.slots[drive as usize].is_victim && self.draw(self.rates.death) {
            self.slots[drive as usize].is_dead = true;
            self.counters.deaths += 1;
        }
    }

    /// From now on requests fail at these rates.
    pub fn arm(&mut self, rates: FaultRates) {
        self.rates = rates;
    }

    /// No more faults; places that failed work again with what they held.
    pub fn mend(&mut self) {
        self.rates = FaultRates::default();
        self.bad_places.clear();
        self.plug_in();
    }

    /// How the machine will stop when the simulation is dropped.
    pub fn set_next_crash(&mut self, crash: Crash) {
        self.next_crash = crash;
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        self.counters
    }

    /// Errors reported since the machine last started.
    #[must_use]
    pub fn errors_in_life(&self) -> u64 {
        self.errors_in_life
    }

    /// True once a drive lied: from then on errors and lost data are permitted.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.counters.damages > 0
    }

    fn duration_micros(&mut self, drive: SimDriveId, bytes: u64) -> u64 {
        let (low, high) = self.pace.usual_micros;
        let base = if self.chance.per_mille(self.pace.slow_per_mille) {
            self.chance.between(high, self.pace.slow_micros_max)
        } else {
            self.chance.between(low, high)
        };
        let slowness = if self.slots[drive.0 as usize].is_victim { self.rates.slowness } else { 0 };
        (base + bytes / BYTES_PER_MICRO) * slowness.max(1)
    }

    fn draw(&mut self, per_million: u64) -> bool {
        per_million > 0 && self.chance.below(1_000_000) < per_million
    }

    fn is_bad(&self, drive: u32, first_block: u64, blocks: u64, is_write: bool) -> bool {
        self.bad_places.iter().any(|place| {
            place.drive == drive
                && place.is_write == is_write
                && place.first_block < first_block + blocks
                && first_block < place.first_block + STICKY_BLOCKS
        })
    }

    fn maybe_stick(&mut self, drive: u32, first_block: u64, is_write: bool) {
        if self.chance.per_mille(self.rates.sticky_per_mille) {
            self.bad_places.push(BadPlace { drive, first_block, is_write });
        }
    }

    fn fate(&mut self, operation: &SimOperation) -> Fate {
        let drive = operation.drive();
        let silence = match operation {
            SimOperation::Sync { .. } => Fate::SyncFailure,
            _ => Fate::Failure(io::ErrorKind::Other),
        };
        if self.slots[drive.0 as usize].is_unplugged {
            return silence;
        }
        if !self.can_fail(drive.0) {
            return self.fate_without_faults(operation);
        }
        self.maybe_die(drive.0);
        if self.slots[drive.0 as usize].is_dead {
            return silence;
        }
        match operation {
            SimOperation::Read { drive, offset, into, .. } => {
                let (block, blocks) = (offset / BLOCK_BYTES, into.len() as u64 / BLOCK_BYTES);
                if self.draw(self.rates.read_error) {
                    self.maybe_stick(drive.0, block, false);
                    return Fate::Failure(io::ErrorKind::Other);
                }
                if self.is_bad(drive.0, block, blocks, false) {
                    return Fate::Failure(io::ErrorKind::Other);
                }
                Fate::Success
            }
            SimOperation::Write { drive, offset, data, .. } => {
                let (block, blocks) = (offset / BLOCK_BYTES, data.len() as u64 / BLOCK_BYTES);
                self.write_fate(drive.0, block, blocks)
            }
            SimOperation::Sync { drive } => {
                let of_blocks =
                    self.rates.sync_error_of_block * self.slots[drive.0 as usize].drive.cached_blocks();
                if self.draw(self.rates.sync_error + of_blocks) {
                    return Fate::SyncFailure;
                }
                Fate::Sync { covered: self.slots[drive.0 as usize].drive.completions() }
            }
            SimOperation::Discard { .. } => Fate::Success,
        }
    }

    fn fate_without_faults(&self, operation: &SimOperation) -> Fate {
        match operation {
            SimOperation::Sync { drive } => {
                Fate::Sync { covered: self.slots[drive.0 as usize].drive.completions() }
            }
            _ => Fate::Success,
        }
    }

    fn write_fate(&mut self, drive: u32, block: u64, blocks: u64) -> Fate {
        if self.draw(self.rates.no_space) {
            return Fate::Failure(io::ErrorKind::StorageFull);
        }
        if block + blocks <= SUPERBLOCKS_END && self.draw(self.rates.superblock_error) {
            let ring = (0..SUPERBLOCKS_END).step_by(STICKY_BLOCKS as usize);
            let bad = ring.map(|first_block| BadPlace { drive, first_block, is_write: true });
            self.bad_places.extend(bad);
        }
        if self.rates.superblock_error > 0 && self.is_bad(drive, block, blocks, true) {
            // Refused: nothing of it is stored, this time and later.
            return Fate::Failure(io::ErrorKind::StorageFull);
        }
        if self.draw(self.rates.write_timeout) {
            return Fate::Failure(io::ErrorKind::TimedOut);
        }
        if self.draw(self.rates.write_error) {
            self.maybe_stick(drive, block, true);
            return Fate::Failure(io::ErrorKind::Other);
        }
        if self.is_bad(drive, block, blocks, true) {
            return Fate::Failure(io::ErrorKind::Other);
        }
        if self.draw(self.rates.lost_write) {
            return Fate::Lost;
        }
        if self.draw(self.rates.misdirected_write) {
            let size_blocks = self.slots[drive as usize].drive.size_bytes() / BLOCK_BYTES;
            // Half near the target (a wrong low address bit), half anywhere.
            let place = if self.chance.one_in(2) {
                (block + self.chance.between(1, 8)).min(size_blocks - blocks)
            } else {
                self.chance.below(size_blocks - blocks + 1)
            };
            return Fate::Misdirected { block: place };
        }
        Fate::Success
    }

    fn finish_write(
        &mut self,
        drive: usize,
        block: u64,
        data: &[u8],
        durability: Durability,
        fate: Fate,
    ) -> io::Result<()> {
        let is_durable = durability == Durability::Durable;
        let target = &mut self.slots[drive].drive;
        match fate {
            Fate::Success => target.write(block, data, is_durable),
            Fate::Failure(kind) => {
                if kind != io::ErrorKind::StorageFull {
                    let survival = Survival { per_mille: *self.chance.pick(&[0, 500, 1000]) };
                    target.write_torn(block, data, survival, &mut self.chance);
                }
                self.count_error(drive);
                return Err(io::Error::new(kind, "simulated drive error on write"));
            }
            Fate::Lost => self.count_damage(drive),
            Fate::Misdirected { block: elsewhere } => {
                target.write(elsewhere, data, is_durable);
                self.count_damage(drive);
            }
            Fate::Sync { .. } | Fate::SyncFailure => unreachable!("a write has a write's fate"),
        }
        Ok(())
    }

    fn finish_sync(&mut self, drive: usize, fate: Fate) -> io::Result<()> {
        let target = &mut self.slots[drive].drive;
        match fate {
            Fate::Sync { covered } => {
                target.sync(covered);
                Ok(())
            }
            Fate::Success | Fate::Failure(_) | Fate::Lost | Fate::Misdirected { .. } | Fate::SyncFailure => {
                target.fail_sync(&mut self.chance);
                self.count_error(drive);
                Err(io::Error::other("simulated drive error on sync"))
            }
        }
    }

    fn maybe_rot(&mut self, drive: usize) {
        if self.can_fail(drive as u32) && self.draw(self.rates.bit_rot) {
            let target = &mut self.slots[drive].drive;
            if let Some(block) = target.pick_written(&mut self.chance) {
                target.rot(block, &mut self.chance);
                self.count_damage(drive);
            }
        }
    }
}

/// Whether a drive, or the one whose place it took, may fail.
fn is_victim(victims: Option<&[String]>, path: &str) -> bool {
    victims.is_some_and(|victims| victims.iter().any(|victim| victim == kind_of(path)))
}

/// The path of the drive that was first where this one is now.
#[must_use]
pub fn kind_of(path: &str) -> &str {
    path.split('+').next().unwrap_or(path)
}

impl SimStorage for DriveArray {
    fn open(&mut self, path: &str, options: &OpenDrive) -> io::Result<(SimDriveId, u64)> {
        let known = self.slots.iter().position(|slot| slot.path == path);
        let index = match (known, options.create_size_bytes) {
            (Some(index), _) => index,
            (None, Some(size_bytes)) => {
                let drive = Drive::new(size_bytes, self.sector_bytes);
                let is_victim = is_victim(self.victims.as_deref(), path);
                self.slots.push(Slot {
                    path: path.to_string(),
                    drive,
                    is_open: false,
                    is_dead: false,
                    is_victim,
                    is_unplugged: false,
                    was_unplugged: false,
                    reads: 0,
                });
                self.slots.len() - 1
            }
            (None, None) => {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("{path}: no such drive")));
            }
        };
        let slot = &mut self.slots[index];
        if slot.is_dead || slot.is_unplugged {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{path}: no such drive")));
        }
        if slot.is_open {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{path}: in use")));
        }
        slot.is_open = true;
        Ok((SimDriveId(index as u32), slot.drive.size_bytes()))
    }

    fn start(&mut self, now: Instant, ticket: SimTicket, operation: &SimOperation) -> u64 {
        self.land_late_writes(now);
        if let (Some(sight), SimOperation::Write { drive, offset, data, .. }) = (&mut self.sight, operation) {
            sight.see(drive.0, *offset, data);
        }
        let fate = self.fate(operation);
        let is_late = matches!(fate, Fate::Failure(io::ErrorKind::TimedOut));
        self.flights.insert(ticket, fate);
        if let SimOperation::Read { drive, .. } = operation {
            self.slots[drive.0 as usize].reads += 1;
        }
        if let SimOperation::Write { offset, .. } = operation
            && offset / BLOCK_BYTES < SUPERBLOCKS_END
        {
            self.superblock_flights.insert(ticket);
        }
        let bytes = match operation {
            SimOperation::Read { into, .. } => into.len() as u64,
            SimOperation::Write { data, .. } => data.len() as u64,
            SimOperation::Sync { .. } | SimOperation::Discard { .. } => 0,
        };
        let micros = match is_late {
            true => self.chance.between(TIMEOUT_MICROS.0, TIMEOUT_MICROS.1),
            false => self.duration_micros(operation.drive(), bytes),
        };
        self.lanes.end_of(operation.drive().0, now.as_nanos(), micros * 1000)
    }

    fn finish(&mut self, now: Instant, ticket: SimTicket, operation: &mut SimOperation) -> io::Result<()> {
        self.land_late_writes(now);
        let fate = self.flights.remove(&ticket).expect("every request was started");
        self.superblock_flights.remove(&ticket);
        let drive = operation.drive().0 as usize;
        self.maybe_rot(drive);
        match operation {
            SimOperation::Read { offset, into, .. } => {
                self.counters.reads += 1;
                if let Fate::Failure(kind) = fate {
                    self.count_error(drive);
                    return Err(io::Error::new(kind, "simulated drive error on read"));
                }
                self.slots[drive].drive.read(*offset / BLOCK_BYTES, into);
                Ok(())
            }
            SimOperation::Write { offset, data, durability, .. } => {
                self.counters.writes += 1;
                self.finish_write(drive, *offset / BLOCK_BYTES, data, *durability, fate)
            }
            SimOperation::Sync { .. } => {
                self.counters.syncs += 1;
                self.finish_sync(drive, fate)
            }
            SimOperation::Discard { offset, len, .. } => {
                self.counters.discards += 1;
                self.slots[drive].drive.discard(*offset / BLOCK_BYTES, *len / BLOCK_BYTES);
                Ok(())
            }
        }
    }

    fn crash(&mut self, now: Instant, in_flight: Vec<(SimTicket, SimOperation)>) {
        let per_mille = match self.next_crash {
            Crash::Kill => 500,
            Crash::Power { survival_per_mille } => survival_per_mille,
        };
        let survival = Survival { per_mille };
        // Those of other machines go on.
        for (ticket, _) in &in_flight {
            self.flights.remove(ticket);
            self.superblock_flights.remove(ticket);
        }
        let mut writes: Vec<SimOperation> = in_flight.into_iter().map(|(_, operation)| operation).collect();
        match (&mut self.late, self.next_crash) {
            (Some(late), Crash::Kill) => writes = late.take_some(now, writes),
            (Some(late), Crash::Power { .. }) => late.lose_power(),
            (None, _) => {}
        }
        // Overlapping requests in flight reach the medium in any order.
        for index in (1..writes.len()).rev() {
            writes.swap(index, self.chance.below(index as u64 + 1) as usize);
        }
        for operation in writes {
            if let SimOperation::Write { drive, offset, data, .. } = operation {
                self.counters.writes_in_flight_at_crash += 1;
                let target = &mut self.slots[drive.0 as usize].drive;
                target.write_torn(offset / BLOCK_BYTES, &data, survival, &mut self.chance);
            }
        }
        for slot in &mut self.slots {
            slot.is_open = false;
            if let Crash::Power { .. } = self.next_crash {
                self.counters.blocks_lost_at_crash += slot.drive.lose_power(survival, &mut self.chance);
            }
        }
        self.errors_in_life = 0;
    }

    fn is_first_write_slow(&self, _drive: SimDriveId) -> bool {
        !self.are_block_devices
    }

    fn close(&mut self, drive: SimDriveId) {
        self.slots[drive.0 as usize].is_open = false;
    }
}
