//! What stands on loop devices: partitions, device-mapper and md devices, further loop devices, btrfs.
//!
//! ```text
//!   btrfs, a mount ──► /dev/mapper/x ──► loop7p1 ──► loop7 ──► STATE/volumes/db
//! ```
//!
//! Read from /sys, which knows holders of a device whichever program made them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::mount::MountEntry;

/// A device of a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layer {
    /// Its name below /dev and /sys/class/block.
    pub name: String,
    /// `MAJOR:MINOR`, as mountinfo writes it.
    number: String,
    /// Which of the loop devices at the bottom carries it.
    pub bottom: usize,
    /// A loop device at the bottom, or a partition of one: no other driver is between.
    pub is_direct: bool,
    /// How a mount may name it.
    sources: Vec<PathBuf>,
}

/// Loop devices and everything that is built on them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Stack {
    pub layers: Vec<Layer>,
    /// File systems that show no device's number in mountinfo: btrfs, and whatever is like it.
    is_anonymous_known: BTreeSet<String>,
}

impl Stack {
    /// The stack above these devices.
    pub fn on<'a>(bottoms: impl IntoIterator<Item = &'a Path>) -> Stack {
        let mut stack = Stack { is_anonymous_known: file_systems_on_devices(), ..Stack::default() };
        for (bottom, device) in bottoms.into_iter().enumerate() {
            let Some(name) = device.file_name() else { continue };
            stack.add(name.to_string_lossy().into_owned(), bottom, true);
        }
        let loops = loops_by_backing();
        let btrfs = btrfs_members();
        let mut at = 0;
        // Ends, because each device is added once and there are finitely many.
        while let Some(layer) = stack.layers.get(at).cloned() {
            for partition in partitions(&layer.name) {
                stack.add(partition, layer.bottom, layer.is_direct);
            }
            for holder in entries(&class(&layer.name).join("holders")) {
                stack.add(holder, layer.bottom, false);
            }
            for source in &layer.sources {
                for above in loops.get(source).into_iter().flatten() {
                    stack.add(above.clone(), layer.bottom, false);
                }
            }
            for members in btrfs.iter().filter(|members| members.contains(&layer.name)) {
                // A btrfs of several devices names one of them in mountinfo, whichever it likes.
                stack.layers[at].sources.extend(members.iter().map(|name| Path::new("/dev").join(name)));
            }
            at += 1;
        }
        stack
    }

    fn add(&mut self, name: String, bottom: usize, is_direct: bool) {
        if self.layers.iter().any(|layer| layer.name == name) {
            return;
        }
        let read = |file: &str| fs::read_to_string(class(&name).join(file)).ok();
        let Some(number) = read("dev").map(|text| text.trim().to_string()) else { return };
        let mut sources = vec![Path::new("/dev").join(&name)];
        sources.extend(read("dm/name").map(|text| Path::new("/dev/mapper").join(text.trim())));
        self.layers.push(Layer { name, number, bottom, is_direct, sources });
    }

    /// The layer whose file system is mounted here.
    pub fn mounted(&self, entry: &MountEntry) -> Option<&Layer> {
        if let Some(layer) = self.layers.iter().find(|layer| layer.number == entry.device_number) {
            return Some(layer);
        }
        // btrfs shows a number of its own, so what it was mounted from must do.
        if !entry.device_number.starts_with("0:") || !self.is_anonymous_known.contains(&entry.file_system) {
            return None;
        }
        self.named(&entry.source)
    }

    /// True when a loop device of ours, or a partition of it, is mounted here.
    pub fn is_mounted_directly(&self, entry: &MountEntry) -> bool {
        self.mounted(entry).is_some_and(|layer| layer.is_direct)
    }

    /// The layer with this path below /dev.
    pub fn named(&self, path: &Path) -> Option<&Layer> {
        let named =
            |path: &Path| self.layers.iter().find(|layer| layer.sources.iter().any(|source| source == path));
        named(path).or_else(|| named(&fs::canonicalize(path).ok()?))
    }

    /// The layer with this device number.
    pub fn numbered(&self, number: &str) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.number == number)
    }
}

fn class(name: &str) -> PathBuf {
    Path::new("/sys/class/block").join(name)
}

/// Names in a directory; none when it is not there.
fn entries(directory: &Path) -> Vec<String> {
    let listing = fs::read_dir(directory).into_iter().flatten().flatten();
    listing.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn partitions(name: &str) -> Vec<String> {
    let directory = class(name);
    let found = entries(&directory).into_iter();
    found.filter(|entry| directory.join(entry).join("partition").exists()).collect()
}

/// Names of loop devices by the device or file they stand on.
fn loops_by_backing() -> BTreeMap<PathBuf, Vec<String>> {
    let mut loops = BTreeMap::<PathBuf, Vec<String>>::new();
    for name in entries(Path::new("/sys/block")) {
        if let Ok(backing) = fs::read_to_string(class(&name).join("loop/backing_file")) {
            loops.entry(PathBuf::from(backing.trim_end_matches('\n'))).or_default().push(name);
        }
    }
    loops
}

/// The devices of each btrfs that is mounted anywhere.
pub(super) fn btrfs_members() -> Vec<Vec<String>> {
    let base = Path::new("/sys/fs/btrfs");
    entries(base).into_iter().map(|name| entries(&base.join(name).join("devices"))).collect()
}

/// The file systems that live on a device, as the kernel lists them.
fn file_systems_on_devices() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with("nodev"));
    lines.map(|line| line.trim().to_string()).collect()
}
