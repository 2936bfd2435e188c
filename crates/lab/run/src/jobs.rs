//! What fio does for a data set and for a run: where the bytes lie, and the jobs over them.
//!
//! On a directory each file of the workload is a file, with jobs of its own. A device has no files: the jobs
//! of all files work on one stretch of it, with as many threads as all of them had. On volumes each file has
//! its own stretch of one volume or of several, as the layout says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_fio::{Cell, Content, Job, Medium, Offered, Pattern, Spread, Sync};
use ashlar_scenario::{
    Content as Asked, DataSet, IoLoad, Layout, Map, Operation, Part, Pattern as Order, Plan, Precondition,
    Rate,
};
use ashlar_target::Ground;

/// Sizes are whole multiples of it, so that every request fits.
const UNIT_BYTES: u64 = 1 << 20;
/// How data sets are written: in pieces of this, so many at once.
const FILL_DEPTH: u32 = 4;
/// What an aged data set is overwritten with: a database's page, so many at once.
const AGE_BYTES: u64 = 8 << 10;
const AGE_DEPTH: u32 = 32;
/// Reads and writes with about the same sizes can be one job.
const SHARE_TOLERANCE: f64 = 0.005;

/// A part of what a data set lies on.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Area {
    /// The beginning of its jobs' names.
    name: String,
    on: Medium,
    /// On each device of it.
    offset_bytes: u64,
    size_bytes: u64,
    /// Files of the workload that it stands for.
    files: u64,
}

/// What a data set takes, all its files together.
pub(crate) fn size_bytes(set: &DataSet) -> u64 {
    file_bytes(set) * set.files
}

/// Of one file: the same on each volume that it lies on.
fn file_bytes(set: &DataSet) -> u64 {
    let Layout { volumes, map, .. } = set.layout;
    let pieces = match map {
        Map::Simple => 1,
        Map::Concat => (volumes / set.files).max(1),
        Map::Stripe => volumes,
    };
    let unit = UNIT_BYTES * pieces;
    (set.size.0 / set.files / unit).max(1) * unit
}

/// Where a data set lies on what was made for it.
pub(crate) fn areas(ground: &Ground, set: &DataSet) -> Vec<Area> {
    let file_bytes = file_bytes(set);
    let all = |on: Medium, offset_bytes: u64| {
        let size_bytes = file_bytes * set.files;
        vec![Area { name: "all".into(), on, offset_bytes, size_bytes, files: set.files }]
    };
    let file = |(number, on, offset_bytes): (u64, Medium, u64)| Area {
        name: format!("f{}", number + 1),
        on,
        offset_bytes,
        size_bytes: file_bytes,
        files: 1,
    };
    match ground {
        Ground::Files(paths) => {
            let of = |(number, path): (u64, &PathBuf)| file((number, path.clone().into(), 0));
            (0..).zip(paths).map(of).collect()
        }
        Ground::Device { path, offset_bytes } => all(path.clone().into(), *offset_bytes),
        Ground::Nothing => Vec::new(),
        Ground::Nbd { uri, offset_bytes } => all(Medium::Nbd(uri.clone()), *offset_bytes),
        Ground::Volumes(devices) => {
            (0..set.files).map(|number| file(on_volumes(devices, set, number, file_bytes))).collect()
        }
    }
}

/// The devices of a file, and where it begins on each of them.
fn on_volumes(devices: &[PathBuf], set: &DataSet, number: u64, file_bytes: u64) -> (u64, Medium, u64) {
    let volumes = devices.len() as u64;
    let several = |paths: &[PathBuf], unit_bytes| match paths {
        [path] => Medium::Path(path.clone()),
        paths => Medium::Striped { paths: paths.to_vec(), unit_bytes },
    };
    match set.layout.map {
        Map::Simple => {
            let device = &devices[(number % volumes) as usize];
            (number, Medium::Path(device.clone()), number / volumes * file_bytes)
        }
        Map::Concat => {
            let own = (volumes / set.files).max(1) as usize;
            let first = number as usize * own;
            let paths = &devices[first..first + own];
            // One behind the other: the unit is all that lies on one.
            (number, several(paths, file_bytes / own as u64), 0)
        }
        Map::Stripe => {
            let unit = set.layout.unit.map_or(UNIT_BYTES, |unit| unit.0);
            (number, several(devices, unit), number * (file_bytes / volumes))
        }
    }
}

impl Area {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Without its first bytes.
    pub(crate) fn behind(&self, bytes: u64) -> Area {
        let size_bytes = self.size_bytes.saturating_sub(bytes);
        Area { offset_bytes: self.offset_bytes + bytes, size_bytes, ..self.clone() }
    }
}

/// For copies of what an area lies on.
impl Area {
    /// The one device that it lies on.
    pub(crate) fn device(&self) -> Option<&Path> {
        match &self.on {
            Medium::Path(path) => Some(path),
            Medium::Striped { .. } | Medium::Nbd(_) => None,
        }
    }

    /// The same on another device.
    pub(crate) fn moved(&self, device: &Path) -> Area {
        Area { on: device.to_path_buf().into(), ..self.clone() }
    }

    /// One of so many parts of it; the last is as long as the others.
    pub(crate) fn part(&self, index: u64, count: u64) -> Area {
        let size_bytes = (self.size_bytes / count / AGE_BYTES).max(1) * AGE_BYTES;
        let offset_bytes = self.offset_bytes + index * size_bytes;
        Area { offset_bytes, size_bytes, ..self.clone() }
    }
}

/// Writes an area once at random.
pub(crate) fn overwrite_cell(area: &Area, set: &DataSet, name: &str, seed: u64) -> Cell<Spread> {
    let requests = (Pattern::Random, 0, vec![(AGE_BYTES, 100.0)]);
    Cell {
        name: format!("{}-{name}", area.name),
        jobs: vec![area.spread(name, 1, requests, Offered::Depth(AGE_DEPTH))],
        ramp: Duration::ZERO,
        time: None,
        content: content(set.content),
        seed,
    }
}

/// Writes an area once in order; then, where it is to be aged, once more at random.
pub(crate) fn fill_cells(area: &Area, set: &DataSet, seed: u64) -> Vec<Cell<Spread>> {
    let cell = |name: &str, pattern, block_bytes, depth, seed| Cell {
        name: format!("{}-{name}", area.name),
        jobs: vec![area.spread(name, 1, (pattern, 0, vec![(block_bytes, 100.0)]), Offered::Depth(depth))],
        ramp: Duration::ZERO,
        time: None,
        content: content(set.content),
        seed,
    };
    let mut cells = vec![cell("fill", Pattern::Sequential, UNIT_BYTES, FILL_DEPTH, seed)];
    if set.precondition == Precondition::Aged {
        cells.push(overwrite_cell(area, set, "age", mixed(seed, "age")));
    }
    cells
}

/// The test of a run.
pub(crate) fn cell(load: &IoLoad, areas: &[Area], plan: &Plan, seed: u64) -> Cell<Spread> {
    let groups = groups(&load.mix);
    let files: u64 = areas.iter().map(|area| area.files).sum();
    let mut jobs = Vec::new();
    for area in areas {
        for group in &groups {
            let threads = (load.threads * area.files) as u32;
            let depth = (load.outstanding as f64 * group.share).round().max(1.0) as u32;
            let offered = match load.rate {
                None => Offered::Depth(depth),
                Some(Rate(rate)) => Offered::Open {
                    per_second: rate * group.share * area.files as f64 / files as f64,
                    depth: load.outstanding as u32,
                },
            };
            let requests = (group.pattern, group.read_percent, group.blocks.clone());
            let spread = area.shifted(load.shift_bytes).spread(&group.name, threads, requests, offered);
            jobs.push(Spread { zipf: load.zipf, ..spread });
        }
    }
    Cell {
        name: "test".into(),
        jobs,
        ramp: plan.warmup,
        time: Some(plan.measure),
        content: content(load.set.content),
        seed,
    }
}

impl Area {
    /// The same, its beginning so many bytes farther; what is too much at the end is left out.
    fn shifted(&self, bytes: u64) -> Area {
        let less = bytes.next_multiple_of(UNIT_BYTES);
        let (offset_bytes, size_bytes) = (self.offset_bytes + bytes, self.size_bytes.saturating_sub(less));
        Area { offset_bytes, size_bytes, ..self.clone() }
    }

    fn spread(
        &self,
        name: &str,
        threads: u32,
        (pattern, read_percent, blocks): (Pattern, u32, Vec<(u64, f64)>),
        offered: Offered,
    ) -> Spread {
        let job = Job {
            name: format!("{}-{name}", self.name),
            on: self.on.clone(),
            size_bytes: self.size_bytes,
            pattern,
            read_percent,
            blocks,
            sync: Sync::Direct,
            offered,
        };
        Spread { job, threads, offset_bytes: self.offset_bytes, zipf: None }
    }
}

/// A seed of its own for each test: the same seed would write the same content again, which a target that
/// stores equal blocks once would notice. (FNV-1a, 31 bits of it.)
pub(crate) fn mixed(seed: u64, name: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash >> 33
}

fn content(asked: Asked) -> Content {
    match asked {
        Asked::Sqlio => Content::SAME,
        Asked::Made { compress, duplicates } => Content { compress, duplicates: 1.0 / (1.0 - duplicates) },
    }
}

/// Parts of a mix that one job can do: of one pattern, and of the same sizes in both directions.
struct Group {
    name: String,
    pattern: Pattern,
    /// Of all requests.
    share: f64,
    read_percent: u32,
    blocks: Vec<(u64, f64)>,
}

fn groups(mix: &[Part]) -> Vec<Group> {
    let mut groups = Vec::new();
    for (order, pattern, name) in
        [(Order::Random, Pattern::Random, "random"), (Order::Sequential, Pattern::Sequential, "sequential")]
    {
        let of = |operation| {
            blocks(mix.iter().filter(|part| (part.pattern, part.operation) == (order, operation)))
        };
        let ((reads, read), (writes, written)) = (of(Operation::Read), of(Operation::Write));
        let mut group = |name: &str, share: f64, read_percent, blocks: &[(u64, f64)]| {
            let (name, blocks) = (name.to_string(), blocks.to_vec());
            groups.push(Group { name, pattern, share, read_percent, blocks });
        };
        match (read > 0.0, written > 0.0) {
            (true, true) if is_alike(&reads, &writes) => {
                let percent = (100.0 * read / (read + written)).round().clamp(1.0, 99.0);
                group(name, read + written, percent as u32, &reads);
            }
            (true, true) => {
                group(&format!("{name}-read"), read, 100, &reads);
                group(&format!("{name}-write"), written, 0, &writes);
            }
            (true, false) => group(name, read, 100, &reads),
            (false, true) => group(name, written, 0, &writes),
            (false, false) => {}
        }
    }
    groups
}

/// Sizes with their percentages among themselves, and their share of all requests.
fn blocks<'a>(parts: impl Iterator<Item = &'a Part>) -> (Vec<(u64, f64)>, f64) {
    let mut sizes: BTreeMap<u64, f64> = BTreeMap::new();
    for part in parts {
        *sizes.entry(part.size.0).or_default() += part.share;
    }
    let whole: f64 = sizes.values().sum();
    (sizes.into_iter().map(|(size, share)| (size, 100.0 * share / whole)).collect(), whole)
}

fn is_alike(one: &[(u64, f64)], other: &[(u64, f64)]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|((size, percent), (other_size, other_percent))| {
            size == other_size && (percent - other_percent).abs() < 100.0 * SHARE_TOLERANCE
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_units::ByteCount;

    fn part(operation: Operation, pattern: Order, size: u64, share: f64) -> Part {
        Part { operation, pattern, size: ByteCount(size), share }
    }

    fn told(mix: &[Part]) -> Vec<(String, u32, usize)> {
        groups(mix).into_iter().map(|group| (group.name, group.read_percent, group.blocks.len())).collect()
    }

    #[test]
    fn a_mix_is_as_few_jobs_as_fio_can_do_it_with() {
        use Operation::{Read, Write};
        use Order::{Random, Sequential};
        let oltp = [part(Read, Random, 8192, 0.9), part(Write, Random, 8192, 0.1)];
        assert_eq!(told(&oltp), [("random".to_string(), 90, 1)]);
        let sizes = [part(Read, Random, 8192, 0.6), part(Read, Random, 65536, 0.4)];
        assert_eq!(told(&sizes), [("random".to_string(), 100, 2)]);
        let both = [part(Read, Random, 8192, 0.5), part(Read, Sequential, 8192, 0.5)];
        assert_eq!(told(&both), [("random".to_string(), 100, 1), ("sequential".to_string(), 100, 1)]);
        let unlike = [part(Read, Random, 8192, 0.5), part(Write, Random, 4096, 0.5)];
        assert_eq!(told(&unlike), [("random-read".to_string(), 100, 1), ("random-write".to_string(), 0, 1)]);
        let rare = [part(Read, Random, 8192, 0.999), part(Write, Random, 8192, 0.001)];
        assert_eq!(told(&rare), [("random".to_string(), 99, 1)], "a rare write is not lost");
    }

    #[test]
    fn every_test_has_a_seed_of_its_own() {
        let seeds = [mixed(1, "r1-a"), mixed(1, "r2-a"), mixed(2, "r1-a"), mixed(1, "r1-b")];
        let different: std::collections::BTreeSet<u64> = seeds.into_iter().collect();
        assert!(different.len() == 4 && seeds.iter().all(|seed| *seed < 1 << 31));
        assert_eq!(seeds[0], mixed(1, "r1-a"));
    }
}
