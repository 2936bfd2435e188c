//! A disk from its opening to its end.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use ashlar_model::array::Counters as ModelCounters;
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::mount::{MountFlags, mount};

use crate::counters::{Counters, Tally};
use crate::error::{Error, ErrorKind, Result};
use crate::file_system::{FILE_NAME, OneFile};
use crate::left::{self, MOUNT_KIND};
use crate::loop_device::{self, LoopDevice};
use crate::medium::Medium;
use crate::mounts;
use crate::pace::Pace;
use crate::pacer::{Pacer, hurry};
use crate::spec::{BLOCK_BYTES, Kind, Spec};

/// Requests whose bytes are read or written at the same time: beyond that they wait for the file. Two cores
/// have no use for more, and a device below that takes a millisecond gives 8,000 a second.
const WORKERS: usize = 8;
/// A file of a log is 16 MiB: inodes for smaller ones would only have to be written.
const FEW_INODES: &[&str] = &["-i", "1048576"];
/// What is added to the file's name for the directory in which the kernel shows the disk.
const POINT_SUFFIX: &str = ".mount";

/// A block device that lives as long as this.
pub struct Disk {
    // In the order in which they go.
    device: LoopDevice,
    /// What is behind the first part of the drives, as a device of its own.
    second: Option<LoopDevice>,
    served: Served,
}

/// The file under the device, served by threads of this process.
struct Served {
    point: PathBuf,
    session: Option<BackgroundSession>,
    pacer: Option<Arc<Pacer>>,
    medium: Arc<Medium>,
    tally: Arc<Tally>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk")
            .field("device", &self.device.path)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

impl Disk {
    /// Makes or opens the file, serves it, and attaches it as a device. What a killed process left of disks
    /// in the same directory goes first.
    ///
    /// # Errors
    /// When the description is wrong, the file is in use, or this machine cannot do it (no root, no FUSE, no
    /// loop devices): the error's kind says which.
    pub fn open(spec: Spec) -> Result<Disk> {
        Disk::open_parted(spec, 0)
    }

    /// The same; its last bytes, so many, are a device of their own on the same drives.
    ///
    /// # Errors
    /// As of [`Disk::open`].
    pub fn open_parted(spec: Spec, second_bytes: u64) -> Result<Disk> {
        spec.check()?;
        let is_part = second_bytes < spec.size_bytes && second_bytes.is_multiple_of(BLOCK_BYTES);
        if !is_part {
            let what = format!("{second_bytes} bytes are no part of {}, or no whole blocks", spec.size_bytes);
            return Err(Error::new(ErrorKind::Description, what));
        }
        let served = Served::begin(&spec)?;
        let is_rotational = matches!(spec.kind, Kind::Model(_));
        let (file, first) = (served.point.join(FILE_NAME), spec.size_bytes - second_bytes);
        let device = LoopDevice::attach(&file, 0..first, is_rotational)?;
        let second = (second_bytes > 0)
            .then(|| LoopDevice::attach(&file, first..spec.size_bytes, is_rotational))
            .transpose()?;
        // What the kernel asked while it attached the file is nobody's request.
        served.medium.begin_counting();
        Ok(Disk { device, second, served })
    }

    /// The block device, `/dev/loopN`.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device.path
    }

    /// Makes an empty ext4 on it, with everything written that ext4 would else write later, while others
    /// measure. Nothing of it is held back.
    ///
    /// # Errors
    /// When `mkfs.ext4` is missing or says no.
    pub fn format(&self) -> Result<()> {
        self.unpaced(|| format(self.device(), &[]))
    }

    /// Mounts its ext4 at an existing directory. It is unmounted when the disk goes.
    ///
    /// # Errors
    /// When it has none, or the kernel says no.
    pub fn mount(&self, at: &Path) -> Result<()> {
        mount_ext4(self.device(), at)
    }

    /// Makes an ext4 for few large files on the second part, and mounts it.
    ///
    /// # Errors
    /// When there is no such part, or one of the programs says no.
    pub fn mount_second(&self, at: &Path) -> Result<()> {
        let Some(second) = &self.second else {
            return Err(Error::new(ErrorKind::Description, "it has one part".to_string()));
        };
        self.unpaced(|| format(&second.path, FEW_INODES))?;
        mount_ext4(&second.path, at)
    }

    /// Does something while no answer is held back, such as loading data; the model learns of none of it.
    /// What the kernel writes later takes its time again: end with a sync.
    pub fn unpaced<T>(&self, work: impl FnOnce() -> T) -> T {
        self.served.turn_pacer(false);
        let done = work();
        self.served.turn_pacer(true);
        done
    }

    /// What was asked of it so far, and how it kept to its times.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.served.tally.read();
        if let Some(model) = self.model_counters() {
            counters.cache_hits += model.flash_hits + model.read_cache_hits;
        }
        counters
    }

    /// What the model counted: cache hits and misses, requests of its drives. None for other kinds.
    #[must_use]
    pub fn model_counters(&self) -> Option<ModelCounters> {
        self.served.pacer.as_ref()?.of_model()
    }

    /// Lets a liar write down what it holds in memory, as any drive does in an idle time, or the file do it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn settle(&self) -> Result<()> {
        self.served.medium.settle().map_err(Error::system("write down what is held"))
    }

    /// Cuts the power if the disk has answered flushes without doing them: what it acknowledged is lost then.
    /// Says whether it did. Never of an honest disk.
    #[must_use]
    pub fn cut_power_in_lies(&self) -> bool {
        let is_cut = self.served.medium.cut_in_lies();
        if is_cut {
            self.served.turn_pacer(false);
        }
        is_cut
    }

    /// From now on every request fails. A liar loses what it holds in memory; an honest disk loses nothing.
    /// Close it and open it again to see what is left.
    pub fn cut_power(&self) {
        self.served.medium.cut();
        // Who waits is waiting for a disk that has no power: nobody measures that.
        self.served.turn_pacer(false);
    }

    /// Unmounts what is on it, writes down what a liar holds unless its power is cut, and takes it away.
    /// Nothing is held back any more.
    ///
    /// # Errors
    /// When somebody still uses it: then it is taken from them, and their requests fail.
    pub fn close(mut self) -> Result<()> {
        self.served.turn_pacer(false);
        let second = self.second.as_mut().map_or(Ok(()), LoopDevice::detach);
        self.device.detach()?;
        second?;
        self.settle()
    }
}

/// Everything that ext4 would else write later is written at once.
fn format(device: &Path, options: &[&str]) -> Result<()> {
    let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
    let mut command = Command::new("mkfs.ext4");
    loop_device::run(command.args(["-q", "-F", "-E", now]).args(options).arg(device)).map(drop)
}

fn mount_ext4(device: &Path, at: &Path) -> Result<()> {
    let failed = Error::system(format!("mount {} at {}", device.display(), at.display()));
    mount(device, at, "ext4", MountFlags::NOATIME, None).map_err(failed)
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.served.turn_pacer(false);
    }
}

impl Served {
    fn begin(spec: &Spec) -> Result<Served> {
        let backing = std::path::absolute(&spec.backing)
            .map_err(Error::system(format!("find {}", spec.backing.display())))?;
        let (Some(directory), Some(name)) = (backing.parent(), backing.file_name()) else {
            let what = format!("{}: name a file", spec.backing.display());
            return Err(Error::new(ErrorKind::Description, what));
        };
        left::remove_left(directory)?;
        let tally = Arc::new(Tally::default());
        let medium = Arc::new(Medium::open(spec, Arc::clone(&tally))?);
        let pacer = Pace::new(spec)?.map(|pace| Pacer::start(pace, Arc::clone(&tally))).transpose()?;
        let pacer = pacer.map(Arc::new);
        let mut point = name.to_os_string();
        point.push(POINT_SUFFIX);
        // The kernel tells paths without links, and so do we when we look for them.
        let real = directory.canonicalize();
        let point = real.map_err(Error::system(format!("find {}", directory.display())))?.join(point);
        fs::create_dir_all(&point).map_err(Error::system(format!("make {}", point.display())))?;
        let mut served = Served { point, session: None, pacer, medium, tally };
        served.mount(spec.size_bytes)?;
        Ok(served)
    }

    fn mount(&mut self, size_bytes: u64) -> Result<()> {
        let unsupported = |error: Error| error.of_kind(ErrorKind::Unsupported);
        let fuse = File::options().read(true).write(true).open("/dev/fuse");
        let fuse = fuse.map_err(Error::system("open /dev/fuse")).map_err(unsupported)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&fuse);
        let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0,default_permissions");
        let data = CString::new(data).map_err(Error::system("say how to mount"))?;
        let (source, flags) = (left::own_source()?, MountFlags::NOSUID | MountFlags::NODEV);
        let failed = Error::system(format!("mount {}", self.point.display()));
        mount(source, &self.point, MOUNT_KIND, flags, data.as_c_str())
            .map_err(failed)
            .map_err(unsupported)?;
        let file = OneFile {
            size_bytes,
            medium: Arc::clone(&self.medium),
            pacer: self.pacer.clone(),
            tally: Arc::clone(&self.tally),
        };
        let mut config = Config::default();
        config.n_threads = Some(WORKERS);
        let session = Session::from_fd(file, fuse.into(), SessionACL::Owner, config);
        // From a thread of its own, whose priority those that serve inherit.
        let spawn = move || {
            hurry();
            session.and_then(Session::spawn)
        };
        let panicked = |_| Err(std::io::Error::other("a thread panicked"));
        let session = thread::spawn(spawn).join().unwrap_or_else(panicked);
        self.session = Some(session.map_err(Error::system("serve FUSE"))?);
        Ok(())
    }

    fn turn_pacer(&self, is_on: bool) {
        if let Some(pacer) = &self.pacer {
            pacer.turn(is_on);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Cut, not only unmounted: a copy of the mount in another namespace (any container that was started
        // meanwhile has one) would keep the connection, and our threads, for ever.
        mounts::abort(&self.point);
        mounts::hide(&self.point);
        if let Some(session) = self.session.take() {
            let _is_ended = session.join();
        }
        let _settled = self.medium.settle();
        let _not_empty = fs::remove_dir(&self.point);
    }
}
