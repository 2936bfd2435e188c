//! Disks that the lab answers for, in a directory: drives that are not there, limits, liars.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_disk::{Disk, Kind, Spec};

use crate::below::Footing;
use crate::place::{OWN_PREFIX, Refusal, remove_own};

/// What stands between the kind of a disk and the directory that holds its bytes.
pub const OVER: &str = " over ";
/// What a file system takes of a disk for itself.
const FILE_SYSTEM_BYTES: u64 = 128 << 20;
/// The lab asks for whole mebibytes.
const SIZE_STEP_BYTES: u64 = 1 << 20;

/// One for each data set.
pub struct Disks {
    pub(crate) named: String,
    kind: Kind,
    /// A directory of its own in the one that was named.
    own: PathBuf,
    /// With where their file systems are mounted.
    open: RefCell<Vec<(Disk, Vec<PathBuf>)>>,
}

impl std::fmt::Debug for Disks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Disks").field(&self.named).finish()
    }
}

/// Whether an address is of one.
#[must_use]
pub(crate) fn is_disk(address: &str) -> bool {
    ashlar_disk::SCHEMES.iter().any(|kind| address.starts_with(kind)) && address.contains(OVER)
}

/// Takes away what a killed process left of disks in a directory of the lab's.
///
/// # Errors
/// When something stays.
pub fn remove_disks(own: &Path) -> Result<(), Refusal> {
    if !own.is_dir() {
        return Ok(());
    }
    let removed = ashlar_disk::remove_left(own);
    removed.map(drop).map_err(|error| Refusal(format!("{}: {error}", own.display())))
}

impl Disks {
    pub(crate) fn open(named: &str) -> Result<Disks, Refusal> {
        let refused = |what: &str| Refusal(format!("{named}: {what}"));
        let (kind, over) = named.split_once(OVER).ok_or_else(|| refused("name a directory behind `over`"))?;
        let kind = Kind::parse(kind).map_err(|error| refused(&error.to_string()))?;
        let over = Path::new(over);
        if !over.is_dir() {
            return Err(refused("behind `over` stands a directory, which holds the bytes"));
        }
        let over = over.canonicalize().map_err(|error| refused(&error.to_string()))?;
        // Several kinds may have their bytes in the same directory.
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = over.join(format!("{OWN_PREFIX}{}-disks-{number}", std::process::id()));
        fs::create_dir(&own).map_err(|error| refused(&format!("make a directory in it: {error}")))?;
        Ok(Disks { named: named.to_string(), kind, own, open: RefCell::default() })
    }

    /// A device of this size.
    pub(crate) fn make(&self, number: usize, size_bytes: u64) -> Result<PathBuf, Refusal> {
        let disk = self.make_one(number, size_bytes)?;
        let device = disk.device().to_path_buf();
        self.open.borrow_mut().push((disk, Vec::new()));
        Ok(device)
    }

    /// One with room for so much, with an ext4, mounted.
    pub(crate) fn make_mounted(
        &self,
        number: usize,
        size_bytes: u64,
        mount: &Path,
    ) -> Result<PathBuf, Refusal> {
        let disk = self.make_one(number, size_bytes + FILE_SYSTEM_BYTES)?;
        self.mount(disk, mount, None)?;
        Ok(mount.to_path_buf())
    }

    /// Two on the same drives, one behind the other: of this size, and for a log.
    pub(crate) fn make_mounted_with_log(
        &self,
        number: usize,
        (size_bytes, log_bytes): (u64, u64),
        (mount, log): (&Path, &Path),
    ) -> Result<(), Refusal> {
        let size_bytes = (size_bytes + FILE_SYSTEM_BYTES).next_multiple_of(SIZE_STEP_BYTES);
        let log_bytes = log_bytes.next_multiple_of(SIZE_STEP_BYTES);
        let spec = self.spec(&number.to_string(), number, size_bytes + log_bytes);
        let disk = Disk::open_parted(spec, log_bytes).map_err(|error| self.refused(&error))?;
        self.mount(disk, mount, Some(log))
    }

    /// One for the log of a database that lies elsewhere.
    pub(crate) fn make_log(&self, number: usize, size_bytes: u64, mount: &Path) -> Result<(), Refusal> {
        let spec = self.spec(&format!("{number}-log"), number, size_bytes + FILE_SYSTEM_BYTES);
        let disk = Disk::open(spec).map_err(|error| self.refused(&error))?;
        self.mount(disk, mount, None)
    }

    fn mount(&self, disk: Disk, mount: &Path, log: Option<&Path>) -> Result<(), Refusal> {
        let mounts: Vec<PathBuf> = [Some(mount), log].into_iter().flatten().map(Path::to_path_buf).collect();
        mounts.iter().try_for_each(|at| fs::create_dir_all(at).map_err(|error| self.refused(&error)))?;
        let mounted = disk.format().and_then(|()| disk.mount(mount));
        let mounted = mounted.and_then(|()| log.map_or(Ok(()), |log| disk.mount_second(log)));
        mounted.map_err(|error| self.refused(&error))?;
        self.open.borrow_mut().push((disk, mounts));
        Ok(())
    }

    fn make_one(&self, number: usize, size_bytes: u64) -> Result<Disk, Refusal> {
        let spec = self.spec(&number.to_string(), number, size_bytes);
        Disk::open(spec).map_err(|error| self.refused(&error))
    }

    fn spec(&self, name: &str, number: usize, size_bytes: u64) -> Spec {
        Spec {
            backing: self.own.join(format!("disk-{name}")),
            size_bytes: size_bytes.next_multiple_of(SIZE_STEP_BYTES),
            kind: self.kind.clone(),
            seed: number as u64,
        }
    }

    fn refused(&self, error: &dyn std::fmt::Display) -> Refusal {
        Refusal(format!("{}: {error}", self.named))
    }

    /// Does something while no answer is held back, and has it written down.
    pub(crate) fn unpaced<T>(&self, work: impl FnOnce() -> T) -> T {
        let open = self.open.borrow();
        let Some((last, mounts)) = open.last() else { return work() };
        last.unpaced(|| {
            let done = work();
            for mount in mounts {
                let _not_all = fs::File::open(mount).and_then(|at| Ok(rustix::fs::syncfs(&at)?));
            }
            done
        })
    }

    /// Removes all of them.
    pub(crate) fn clear(&self) -> Result<(), Refusal> {
        loop {
            let Some((disk, mounts)) = self.open.borrow_mut().pop() else { break };
            let closed = disk.close();
            for mount in mounts {
                let _stays = fs::remove_dir(mount);
            }
            closed.map_err(|error| Refusal(format!("{}: {error}", self.named)))?;
        }
        remove_own(&self.own)
    }

    pub(crate) fn own(&self) -> &Path {
        &self.own
    }

    pub(crate) fn footing(&self) -> std::io::Result<Footing> {
        let below = Footing::of(&self.own)?;
        let of_disk = |(disk, _): &(Disk, _)| Footing::of_device(disk.device()).ok();
        let device = self.open.borrow().last().and_then(of_disk);
        Ok(Footing::of_disk(&self.kind.in_words(), below, device))
    }
}
