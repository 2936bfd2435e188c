//! What a seed runs: the shape of the pool, the drives' habits, the workload's mix. Drawn from the
//! seed, so that different seeds stress different corners.

use crate::chance::Chance;
use crate::content::SECTOR_BYTES;
use crate::drives::{Crash, FaultRates, Pace};
use crate::forger::KeyKnown;
use crate::oracle::CHANGE_KINDS;
use crate::record::DRIVE_RESTORED;
use crate::system::PoolLayout;

/// Segments of the smallest pool.
const SEGMENTS_MIN: u64 = 24;

/// Segments of a pool that has places which were never used for a long time.
const SEGMENTS_FRESH: u64 = 160;

/// Segments of a spacious pool.
const SEGMENTS_SPACIOUS: u64 = 512;

/// So many seeds have one spacious pool among them. Arbitrary: they then take a fifth of all time.
const SPACIOUS_ONE_IN: u64 = 50;
const SPACIOUS_SALT: u64 = 0x5bac_1005;

/// Of the seeds whose hosts come by one of the targets, so many have hosts that come by both.
const BOTH_DOORS_ONE_IN: u64 = 2;
const BOTH_DOORS_SALT: u64 = 0xb07_d0025;
/// So many seeds have one with a forging tenant among them. Arbitrary.
const FORGER_ONE_IN: u64 = 8;
const FORGER_SALT: u64 = 0xf0e6_e400;

/// So many seeds have one whose writes outlive a kill among them; each life is then another machine's.
const LATE_ONE_IN: u64 = 4;
const LATE_SALT: u64 = 0x1a7e_0000;

/// So many seeds have one whose wall clock jumps among them. Arbitrary.
const CLOCK_ONE_IN: u64 = 4;
const CLOCK_SALT: u64 = 0xc10c_0000;

/// So many seeds have one whose drives are block devices among them. Arbitrary.
const BLOCK_DEVICES_ONE_IN: u64 = 2;
const BLOCK_DEVICES_SALT: u64 = 0xb10c_0000;

/// So many seeds have one whose hosts let the pool copy among them. Arbitrary.
const COPYING_ONE_IN: u64 = 3;
const COPYING_SALT: u64 = 0xc0b1_e500;

/// Of so many seeds each theme has some: see [`Theme::of_seed`]. Arbitrary.
const THEMES_ONE_IN: u64 = 24;
const THEME_SALT: u64 = 0x7e3e_0099;

/// What a seed aims at. Most do at everything, and meet what takes several rare events by luck alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Drives go and come back, again and again, and then others go: whatever was not restored is missed.
    Losses,
    /// The same while everything is moved again and again: drives are restored between the move of a segment
    /// and the checkpoint that makes it last.
    LossesUnderCleaning,
    /// Drives are exchanged for copies of themselves from just before, while the pool is down.
    Copies,
    /// The pool is full most of the time.
    Full,
    /// Drives fail flushes and superblocks, and nothing else.
    Flushes,
    /// Blocks that are dead are found by their content while the cleaner runs, again and again.
    Shares,
}

impl Theme {
    fn of_seed(seed: u64) -> Option<Theme> {
        match Chance::new(seed ^ THEME_SALT).below(THEMES_ONE_IN) {
            0..3 | 10..13 => Some(Theme::Losses),
            3..6 => Some(Theme::Full),
            6..8 => Some(Theme::Flushes),
            8..10 | 13..15 => Some(Theme::Shares),
            15..18 => Some(Theme::Copies),
            18..20 => Some(Theme::LossesUnderCleaning),
            _ => None,
        }
    }

    /// Drives are pulled out and returned.
    #[must_use]
    pub fn loses_drives(self) -> bool {
        matches!(self, Theme::Losses | Theme::LossesUnderCleaning)
    }
}

/// The faults of one life of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LifeFaults {
    /// Rates while the pool starts.
    pub while_starting: FaultRates,
    /// Rates while the workload runs.
    pub while_running: FaultRates,
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The workload stops, the pool is closed.
    Close,
    /// The machine stops after this many steps, wherever they lead, at the latest when the workload is
    /// done.
    Crash {
        /// Steps of the scheduler.
        after_steps: u64,
        /// Or, when that comes first, during a change of metadata. Changes are few and short; without
        /// aiming they are seldom hit.
        in_change: Option<Aim>,
        /// The workload goes on until then.
        is_endless: bool,
        /// In which way.
        how: Crash,
    },
}

/// A moment during a change of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aim {
    /// Of which kind, as in [`crate::oracle::Change::kind`]; `None`: any.
    pub kind: Option<usize>,
    /// Which of them in this life, from 1.
    pub number: u64,
    /// Steps after it was issued.
    pub steps: u64,
}

/// Weights of the data requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataMix {
    pub write: u64,
    pub read: u64,
    pub unmap: u64,
    pub write_zeroes: u64,
    pub flush: u64,
    pub invalid: u64,
    /// Copies inside the pool.
    pub copy: u64,
}

/// Weights of the changes of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeMix {
    pub volume_create: u64,
    pub volume_delete: u64,
    pub resize: u64,
    pub snapshot_create: u64,
    pub snapshot_delete: u64,
    pub snapshot_restore: u64,
    pub clone: u64,
    pub volume_set_aside: u64,
    pub volume_undelete: u64,
    pub deleted_give_up: u64,
    pub restore_keeping: u64,
    pub check: u64,
    pub verify_snapshot: u64,
    pub dedupe: u64,
    /// Batches of notes.
    pub notes: u64,
}

impl ChangeMix {
    fn draw(chance: &mut Chance) -> ChangeMix {
        ChangeMix {
            volume_create: 10,
            volume_delete: *chance.pick(&[1, 6]),
            resize: *chance.pick(&[0, 5]),
            snapshot_create: *chance.pick(&[10, 25]),
            snapshot_delete: *chance.pick(&[3, 12]),
            snapshot_restore: *chance.pick(&[0, 6, 15]),
            clone: *chance.pick(&[2, 10]),
            volume_set_aside: *chance.pick(&[0, 4]),
            volume_undelete: 4,
            deleted_give_up: *chance.pick(&[1, 3]),
            restore_keeping: *chance.pick(&[0, 4]),
            check: 2,
            verify_snapshot: 5,
            dedupe: *chance.pick(&[0, 4, 12]),
            notes: 12,
        }
    }
}

/// A seed's plan.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it aims at.
    pub theme: Option<Theme>,
    /// The pool.
    pub layout: PoolLayout,
    /// The drives are trimmed, and not written over before their first use.
    pub has_block_devices: bool,
    /// The drives' atom of storing.
    pub sector_bytes: usize,
    /// The drives' speed.
    pub pace: Pace,
    /// Lives of the machine before the final one.
    pub lives: u64,
    /// Faults are possible at all.
    pub faults: FaultClass,
    /// With parity: so many drives, the first ones, have all the faults, and may be lost; the others have
    /// none. Nothing they do may be noticed.
    pub victims: u64,
    /// Data requests in a life, about.
    pub requests: u64,
    /// Changes of metadata in a life, about.
    pub changes_max: u64,
    /// Data requests at the same time.
    pub depth: u64,
    /// Changes of metadata at the same time.
    pub change_depth: u64,
    /// Volumes the workload likes to have.
    pub volumes: u64,
    /// Snapshots the workload likes to have at most.
    pub snapshots_max: u64,
    /// Smallest and largest usual volume.
    pub volume_bytes_min: u64,
    pub volume_bytes_max: u64,
    /// Longest request.
    pub request_bytes_max: u64,
    /// Bytes of each of the places of a volume that hosts write to.
    pub region_bytes: u64,
    /// Of the writes, those of contents that others write, too.
    pub repeated_per_mille: u64,
    /// Data requests.
    pub data: DataMix,
    /// Changes.
    pub changes: ChangeMix,
    /// How hosts reach volumes.
    pub door: DoorKind,
    /// Writes in flight may land after a kill, while the next life runs.
    pub has_late_writes: bool,
    /// The wall clock jumps both ways.
    pub has_clock_jumps: bool,
    /// One of the hosts forges structures of the pool.
    pub forger: Option<KeyKnown>,
    /// Pause between changes, at most.
    pub change_pause_micros_max: u64,
    /// Steps of a life that ends with a crash, at least and at most, as powers of two.
    pub life_magnitudes: (u64, u64),
    /// Refusals after which a life has seen enough of a full pool: judging one takes long in a large pool.
    pub refusals_max: u64,
}

/// How hosts reach volumes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DoorKind {
    /// The engine's device itself.
    Direct,
    /// Through a session of the NBD target.
    Nbd,
    /// Through a session of the FUSE target, which takes parts of blocks.
    Fuse,
    /// Whole blocks by the one and parts of the same blocks by the other.
    Both,
}

/// Which faults a seed has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultClass {
    /// Crashes only.
    Crashes,
    /// Crashes and reported errors.
    Errors,
    /// Drives that lie, too.
    Damage,
}

impl Scenario {
    /// The plan of a seed.
    #[must_use]
    pub fn of_seed(seed: u64, chance: &mut Chance) -> Scenario {
        // A draw of its own: seeds that are not spacious are what they were before there were any.
        let is_spacious = Chance::new(seed ^ SPACIOUS_SALT).one_in(SPACIOUS_ONE_IN);
        let theme = Theme::of_seed(seed).filter(|_| !is_spacious);
        let mut scenario = Scenario::draw(chance, is_spacious, theme);
        // Files are prepared, with flushes of their own.
        scenario.has_block_devices = theme != Some(Theme::Flushes)
            && Chance::new(seed ^ BLOCK_DEVICES_SALT).one_in(BLOCK_DEVICES_ONE_IN);
        let is_for_both = Chance::new(seed ^ BOTH_DOORS_SALT).one_in(BOTH_DOORS_ONE_IN);
        if scenario.door != DoorKind::Direct && is_for_both {
            scenario.door = DoorKind::Both;
        }
        scenario.has_clock_jumps = Chance::new(seed ^ CLOCK_SALT).one_in(CLOCK_ONE_IN);
        scenario.has_late_writes = Chance::new(seed ^ LATE_SALT).one_in(LATE_ONE_IN);
        let mut chance = Chance::new(seed ^ COPYING_SALT);
        // What drives that lie make of a source is not known to the model.
        if scenario.faults != FaultClass::Damage && chance.one_in(COPYING_ONE_IN) {
            scenario.data.copy = *chance.pick(&[5, 30]);
        }
        let mut chance = Chance::new(seed ^ FORGER_SALT);
        if !is_spacious && theme.is_none() && chance.one_in(FORGER_ONE_IN) {
            scenario = scenario.with_forger(&mut chance);
        }
        scenario
    }

    /// True when hosts write parts of logical blocks.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        match self.door {
            DoorKind::Direct | DoorKind::Nbd => false,
            DoorKind::Fuse | DoorKind::Both => true,
        }
    }

    /// The largest unit in which the oracle tells contents apart.
    #[must_use]
    pub fn unit_bytes_max(&self) -> u32 {
        if self.has_parts() { SECTOR_BYTES as u32 } else { u32::MAX }
    }

    /// The same with a forging tenant, and short requests beside it: its blocks and those of others are to
    /// lie in one group.
    fn with_forger(self, chance: &mut Chance) -> Scenario {
        // Half of the forgers know the pool's key.
        let is_leaked = chance.one_in(2);
        Scenario {
            forger: Some(if is_leaked { KeyKnown::Leaked } else { KeyKnown::Wrong }),
            layout: PoolLayout {
                free_percent_wanted: *chance.pick(&[12, 95]),
                checkpoint_interval_millis: *chance.pick(&[5, 50]),
                ..self.layout
            },
            requests: *chance.pick(&[80, 400]),
            snapshots_max: *chance.pick(&[1, 3]),
            depth: *chance.pick(&[1, 1, 2, 4]),
            volumes: self.volumes.max(2),
            request_bytes_max: *chance.pick(&[8 << 10, 64 << 10]),
            door: if chance.one_in(2) { DoorKind::Direct } else { self.door },
            ..self
        }
    }

    // tidy: long because it names every field once.
    fn draw(chance: &mut Chance, is_spacious: bool, theme: Option<Theme>) -> Scenario {
        let parity: u64 = match theme {
            None => *chance.pick(&[0, 0, 0, 1, 2, 2]),
            Some(Theme::LossesUnderCleaning) => 1,
            Some(Theme::Losses | Theme::Copies) => *chance.pick(&[1, 2]),
            Some(Theme::Full) => *chance.pick(&[0, 0, 0, 1]),
            Some(Theme::Flushes | Theme::Shares) => 0,
        };
        let drives = match (theme, parity) {
            (_, 0) => *chance.pick(&[1, 1, 2, 3, 4]),
            (Some(Theme::Losses | Theme::LossesUnderCleaning | Theme::Copies), _) => {
                parity + *chance.pick(&[2, 3])
            }
            _ => parity + *chance.pick(&[2, 2, 3, 4, 6]),
        };
        let most_spares = if parity == 0 || theme.is_some() { 0 } else { (drives - parity - 2).min(2) };
        let spares = if chance.one_in(2) { chance.below(most_spares + 1) } else { 0 };
        let active = drives - spares;
        let width = if parity > 0 && chance.one_in(2) { chance.between(parity + 2, active) } else { active };
        let segment_bytes = match theme {
            Some(Theme::Flushes | Theme::Full | Theme::Shares) => 256 << 10,
            _ => *chance.pick(&[256 << 10, 256 << 10, 512 << 10, 1 << 20]),
        };
        // Room for some twenty-four to a hundred segments: small enough to be filled, large enough to work.
        let segments =
            if chance.one_in(2) { chance.between(SEGMENTS_MIN, 40) } else { chance.between(32, 96) };
        // Before the first segment lies the area of the superblocks; behind the last is any length.
        let segments_full = if parity == 0 { SEGMENTS_MIN + segments % 8 } else { SEGMENTS_MIN };
        let rest_bytes = (1 << 20) + chance.below(64) * 4096;
        // With parity a segment is spread over the data columns, and as much again for each of parity.
        let on_drives = segment_bytes * width / (width - parity).max(1);
        let column = if parity == 0 { segment_bytes } else { segment_bytes / (width - parity) };
        let drive_bytes_for = |segments: u64| {
            (segments * on_drives).div_ceil(active).next_multiple_of(column.next_multiple_of(4096))
                + if parity == 0 { 0 } else { column.next_multiple_of(4096) * width }
                + rest_bytes
        };
        let faults = *chance.pick(&[
            FaultClass::Crashes,
            FaultClass::Crashes,
            FaultClass::Crashes,
            FaultClass::Errors,
            FaultClass::Errors,
            FaultClass::Damage,
        ]);
        let scenario = Scenario {
            theme,
            has_block_devices: false,
            layout: PoolLayout {
                machine: 1,
                drives: (0..drives).map(|index| format!("drive-{index}")).collect(),
                drive_bytes: drive_bytes_for(segments),
                segment_bytes,
                parity: parity as u8,
                width: (parity > 0).then_some(width as u8),
                spares: spares as u8,
                cache_bytes: *chance.pick(&[64 << 10, 256 << 10, 4 << 20]),
                map_cache_bytes: *chance.pick(&[32 << 10, 128 << 10, 4 << 20]),
                checkpoint_interval_millis: *chance.pick(&[5, 50, 1_000, 30_000]),
                // Most of the pool: everything is moved again and again.
                free_percent_wanted: *chance.pick(&[1, 12, 50, 95]),
                // From none to one that knows everything; between them entries go stale before they go.
                dedupe_index_bytes: *chance.pick(&[0, 1 << 10, 16 << 10, 1 << 20, 1 << 20]),
                dedupe_run_blocks_min: *chance.pick(&[1, 1, 2, 4]),
                dedupe_sample_shift: *chance.pick(&[0, 0, 0, 2]),
                no_space_wait_millis: *chance.pick(&[0, 0, 300, 2_000]),
            },
            victims: chance.below(parity + 1),
            sector_bytes: *chance.pick(&[512, 4096]),
            pace: Pace {
                usual_micros: *chance.pick(&[(10, 60), (20, 400), (1, 3)]),
                slow_per_mille: *chance.pick(&[0, 5, 50]),
                slow_micros_max: *chance.pick(&[2_000, 40_000]),
            },
            lives: chance.between(3, 8),
            faults,
            requests: *chance.pick(&[20, 80, 200]),
            changes_max: *chance.pick(&[5, 15, 40]),
            depth: *chance.pick(&[1, 2, 4, 8, 16]),
            change_depth: *chance.pick(&[0, 1, 1, 2, 3]),
            volumes: *chance.pick(&[1, 2, 3, 4, 4]),
            snapshots_max: *chance.pick(&[1, 3, 6]),
            volume_bytes_min: 64 << 10,
            volume_bytes_max: *chance.pick(&[1 << 20, 4 << 20, 64 << 20, 1 << 40]),
            request_bytes_max: *chance.pick(&[8 << 10, 64 << 10, 256 << 10, 512 << 10]),
            region_bytes: 256 << 10,
            repeated_per_mille: *chance.pick(&[0, 300, 700, 950]),
            data: DataMix {
                write: 60,
                read: *chance.pick(&[5, 25]),
                unmap: *chance.pick(&[0, 3, 10]),
                write_zeroes: *chance.pick(&[0, 3, 10]),
                flush: *chance.pick(&[0, 3, 10]),
                invalid: 1,
                copy: 0,
            },
            changes: ChangeMix::draw(chance),
            door: *chance.pick(&[DoorKind::Direct, DoorKind::Direct, DoorKind::Nbd, DoorKind::Fuse]),
            forger: None,
            has_late_writes: false,
            has_clock_jumps: false,
            change_pause_micros_max: *chance.pick(&[100, 2_000, 20_000]),
            life_magnitudes: (4, 13),
            refusals_max: u64::MAX,
        };
        if is_spacious {
            scenario.made_spacious(drive_bytes_for(SEGMENTS_SPACIOUS))
        } else {
            match theme {
                Some(Theme::Losses) => scenario.made_for_losses(chance),
                Some(Theme::LossesUnderCleaning) => scenario.made_for_losses(chance).made_to_move(chance),
                Some(Theme::Copies) => scenario.made_for_copies(chance),
                Some(Theme::Full) => scenario.made_full(chance, drive_bytes_for(segments_full)),
                Some(Theme::Flushes) => scenario.made_for_flushes(chance, drive_bytes_for(SEGMENTS_FRESH)),
                Some(Theme::Shares) => scenario.made_for_shares(chance),
                None if chance.one_in(5) => scenario.made_to_fill(drive_bytes_for(SEGMENTS_MIN)),
                None => scenario,
            }
        }
    }

    /// The same with little that is read often, so that everything is looked at.
    fn made_for_losses(self, chance: &mut Chance) -> Scenario {
        Scenario {
            layout: PoolLayout {
                cache_bytes: 64 << 10,
                checkpoint_interval_millis: *chance.pick(&[5, 5, 50, 1_000]),
                free_percent_wanted: *chance.pick(&[1, 12, 50]),
                ..self.layout
            },
            // One write of a stripe may take so long that a whole rebuild fits into it.
            pace: Pace {
                usual_micros: *chance.pick(&[(1, 3), (10, 60)]),
                slow_per_mille: 50,
                slow_micros_max: 20_000,
            },
            victims: if chance.one_in(2) { 0 } else { self.victims },
            lives: chance.between(4, 6),
            requests: *chance.pick(&[80, 200]),
            depth: *chance.pick(&[1, 4, 8]),
            snapshots_max: 1,
            volume_bytes_max: 4 << 20,
            request_bytes_max: 64 << 10,
            life_magnitudes: (9, 13),
            ..self
        }
    }

    /// The same with a cleaner that is always at work, and hosts that always write.
    fn made_to_move(self, chance: &mut Chance) -> Scenario {
        Scenario {
            layout: PoolLayout {
                checkpoint_interval_millis: *chance.pick(&[5, 50]),
                free_percent_wanted: 95,
                ..self.layout
            },
            victims: 0,
            requests: 400,
            depth: *chance.pick(&[1, 4]),
            volume_bytes_max: 1 << 20,
            repeated_per_mille: 0,
            life_magnitudes: (12, 15),
            ..self
        }
    }

    /// The same with short lives. Where nothing but the opening writes a superblock, a copy from before it is
    /// a single one behind.
    fn made_for_copies(self, chance: &mut Chance) -> Scenario {
        let scenario = self.made_for_losses(chance);
        Scenario {
            layout: PoolLayout {
                checkpoint_interval_millis: *chance.pick(&[5, 30_000, 30_000]),
                ..scenario.layout
            },
            victims: 0,
            life_magnitudes: (7, 11),
            ..scenario
        }
    }

    /// The same with contents that come again, and a cleaner that is always at work.
    fn made_for_shares(self, chance: &mut Chance) -> Scenario {
        Scenario {
            layout: PoolLayout {
                cache_bytes: 64 << 10,
                checkpoint_interval_millis: *chance.pick(&[5, 50]),
                free_percent_wanted: 95,
                dedupe_index_bytes: 1 << 20,
                dedupe_run_blocks_min: 1,
                dedupe_sample_shift: 0,
                ..self.layout
            },
            // One read of a look may take so long that whole cycles fit into it.
            pace: Pace { usual_micros: (10, 60), slow_per_mille: 20, slow_micros_max: 40_000 },
            faults: FaultClass::Crashes,
            lives: 4,
            requests: 400,
            depth: *chance.pick(&[1, 4]),
            volumes: 2,
            snapshots_max: 1,
            volume_bytes_max: 1 << 20,
            request_bytes_max: 64 << 10,
            repeated_per_mille: *chance.pick(&[300, 900]),
            life_magnitudes: (12, 15),
            ..self
        }
    }

    /// The same with a small pool, and hosts that write more than it holds, everywhere and nothing twice.
    /// Half of these pools have so many images that their table takes several pages, and maps of many pages.
    fn made_full(self, chance: &mut Chance, drive_bytes: u64) -> Scenario {
        let is_wide = chance.one_in(2);
        Scenario {
            layout: PoolLayout { drive_bytes, ..self.layout },
            lives: 5,
            requests: if is_wide { 600 } else { 200 },
            refusals_max: 6,
            depth: *chance.pick(&[2, 8, 16]),
            change_depth: *chance.pick(&[0, 1, 2]),
            volumes: if is_wide { 6 } else { 2 },
            snapshots_max: if is_wide { 8 } else { 2 },
            volume_bytes_min: 4 << 20,
            volume_bytes_max: if is_wide { 256 << 20 } else { 8 << 20 },
            request_bytes_max: if is_wide { 32 << 10 } else { 512 << 10 },
            region_bytes: if is_wide { 48 << 20 } else { 3 << 19 },
            repeated_per_mille: 0,
            data: DataMix { unmap: 0, write_zeroes: 0, ..self.data },
            life_magnitudes: (10, 14),
            ..self
        }
    }

    /// The same with drives that often have something in their caches.
    fn made_for_flushes(self, chance: &mut Chance, drive_bytes: u64) -> Scenario {
        Scenario {
            layout: PoolLayout {
                drive_bytes,
                checkpoint_interval_millis: *chance.pick(&[5, 50, 1_000]),
                free_percent_wanted: *chance.pick(&[50, 95]),
                ..self.layout
            },
            faults: FaultClass::Errors,
            lives: 8,
            requests: 200,
            depth: *chance.pick(&[4, 8]),
            request_bytes_max: 256 << 10,
            life_magnitudes: (9, 13),
            ..self
        }
    }

    /// The same with a pool so large, and written so randomly, that the pages of its own tables take room as
    /// data do: those of a small pool fit one segment. It gets full, too. Few seeds are so, since each takes
    /// as long as dozens of others.
    fn made_spacious(self, drive_bytes: u64) -> Scenario {
        Scenario {
            layout: PoolLayout { drive_bytes, free_percent_wanted: 1, ..self.layout },
            lives: 2,
            life_magnitudes: (12, 19),
            requests: 20_000,
            refusals_max: 30,
            depth: self.depth.max(4),
            volumes: 1,
            snapshots_max: 1,
            changes_max: 5,
            volume_bytes_min: 512 << 20,
            volume_bytes_max: 1 << 30,
            request_bytes_max: 64 << 10,
            region_bytes: 96 << 20,
            repeated_per_mille: 0,
            data: DataMix { write: 60, read: 5, unmap: 0, write_zeroes: 0, flush: 1, invalid: 1, copy: 0 },
            ..self
        }
    }

    /// The same with drives of this size and hosts that write more than they hold, and nothing twice: the
    /// pool gets full, and is judged by when it says so.
    fn made_to_fill(self, drive_bytes: u64) -> Scenario {
        Scenario {
            layout: PoolLayout { drive_bytes, ..self.layout },
            requests: 400,
            volume_bytes_max: 16 << 20,
            request_bytes_max: 512 << 10,
            region_bytes: 4 << 20,
            repeated_per_mille: 0,
            ..self
        }
    }

    /// The drives that may be lost.
    #[must_use]
    pub fn victim_paths(&self) -> Option<Vec<String>> {
        (self.layout.parity > 0).then(|| self.layout.drives[..self.victims as usize].to_vec())
    }

    /// The faults of a life.
    #[must_use]
    pub fn draw_faults(&self, chance: &mut Chance) -> LifeFaults {
        let quiet = FaultRates::default();
        let errors = FaultRates {
            read_error: *chance.pick(&[0, 500, 5_000]),
            write_error: *chance.pick(&[0, 500, 5_000]),
            sync_error: *chance.pick(&[0, 500, 5_000]),
            no_space: *chance.pick(&[0, 0, 1_000]),
            sticky_per_mille: *chance.pick(&[0, 500]),
            ..quiet
        };
        let damage = FaultRates {
            lost_write: *chance.pick(&[0, 1_000, 4_000]),
            misdirected_write: *chance.pick(&[0, 1_000, 4_000]),
            bit_rot: *chance.pick(&[0, 1_000, 4_000]),
            ..if chance.one_in(4) { errors } else { quiet }
        };
        let is_armed = chance.one_in(2);
        let losses = FaultRates {
            death: *chance.pick(&[0, 0, 500, 5_000]),
            slowness: *chance.pick(&[0, 0, 30, 300]),
            ..if chance.one_in(2) { FaultRates { no_space: 0, ..errors } } else { quiet }
        };
        let losses = FaultRates {
            lost_write: damage.lost_write,
            misdirected_write: damage.misdirected_write,
            bit_rot: damage.bit_rot,
            ..losses
        };
        if let Some(rates) = self.rates_of_theme(chance) {
            return LifeFaults { while_starting: quiet, while_running: rates };
        }
        let is_within_promise = self.layout.parity > 0;
        let rates = match (self.faults, is_armed) {
            (_, true) if is_within_promise && self.victims > 0 => losses,
            (_, _) if is_within_promise => quiet,
            (FaultClass::Crashes, _) | (_, false) => quiet,
            (FaultClass::Errors, true) => errors,
            (FaultClass::Damage, true) => damage,
        };
        let mut while_starting = if chance.one_in(3) { rates } else { quiet };
        if rates.bit_rot > 0 && is_within_promise && chance.one_in(3) {
            // Starts are short, and what they read is little: so that they meet damage, too.
            while_starting.bit_rot = 300_000;
        }
        LifeFaults { while_starting, while_running: rates }
    }

    /// What goes wrong where a seed aims at that.
    fn rates_of_theme(&self, chance: &mut Chance) -> Option<FaultRates> {
        let quiet = FaultRates::default();
        match self.theme? {
            Theme::Losses if self.victims > 0 => Some(FaultRates {
                write_error: *chance.pick(&[0, 500, 5_000]),
                write_timeout: *chance.pick(&[20_000, 100_000]),
                sync_error: *chance.pick(&[0, 5_000, 20_000]),
                ..quiet
            }),
            Theme::Losses | Theme::LossesUnderCleaning | Theme::Copies | Theme::Full | Theme::Shares => {
                Some(quiet)
            }
            Theme::Flushes if chance.one_in(3) => {
                Some(FaultRates { superblock_error: *chance.pick(&[20_000, 100_000]), ..quiet })
            }
            Theme::Flushes => {
                Some(FaultRates { sync_error_of_block: *chance.pick(&[200, 500, 1_500]), ..quiet })
            }
        }
    }

    /// How a life ends.
    #[must_use]
    pub fn draw_ending(&self, chance: &mut Chance) -> Ending {
        let is_full = self.theme == Some(Theme::Full);
        // Behind an orderly stop an opening writes least: a copy from before it is hardest to tell.
        let is_for_copies = self.theme == Some(Theme::Copies);
        let close_one_in = match self.theme {
            Some(Theme::Copies) => 2,
            Some(Theme::Full) => 4,
            _ => 6,
        };
        if chance.one_in(close_one_in) {
            return Ending::Close;
        }
        let how = if chance.one_in(3) || self.has_late_writes && chance.one_in(2) {
            Crash::Kill
        } else {
            Crash::Power { survival_per_mille: *chance.pick(&[0, 0, 100, 500, 900, 1000]) }
        };
        // Evenly over the orders of magnitude: crashes while starting are as wanted as late ones.
        let magnitude = match is_full && chance.one_in(2) {
            // Each opening takes room, and no cleaner has time to give it back.
            true => chance.between(6, 10),
            false => chance.between(self.life_magnitudes.0, self.life_magnitudes.1),
        };
        let after_steps = chance.between(1 << magnitude, 2 << magnitude);
        let is_endless = !chance.one_in(4);
        // Without victims no drive is restored.
        if chance.one_in(2) && !is_for_copies {
            let steps = 1 << chance.between(0, 8);
            let kind = if self.theme.is_some_and(Theme::loses_drives) {
                Some(DRIVE_RESTORED)
            } else {
                (!chance.one_in(4)).then(|| chance.below(CHANGE_KINDS as u64) as usize)
            };
            let aim = Aim { kind, number: chance.between(1, 3), steps: chance.between(steps / 2, steps) };
            let after_steps = 2 << self.life_magnitudes.1;
            return Ending::Crash { after_steps, in_change: Some(aim), is_endless, how };
        }
        Ending::Crash { after_steps, in_change: None, is_endless, how }
    }
}
