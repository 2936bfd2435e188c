//! The FUSE target against the real kernel: files, loop devices, file systems, a killed server.
//!
//! Needs root, /dev/fuse and loop devices; without them each test says so and passes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use ashlar_block::{BlockDevice, Catalogue};
use ashlar_fuse::{FuseServer, Settings, TransportChoice};
use ashlar_layers::MemoryDevice;
use ashlar_runtime::{DriverChoice, Remote, ShardSettings, ShardThread, start_shard};
use ashlar_telemetry::Registry;

/// Tests run one by one: they share the kernel's switch for FUSE over io_uring.
static KERNEL: Mutex<()> = Mutex::new(());
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

thread_local! {
    /// The shelf of the shard that runs on this thread.
    static SHELF: Rc<Shelf> = Rc::default();
    static SERVER: RefCell<Option<Rc<FuseServer>>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Shelf(RefCell<BTreeMap<String, Rc<MemoryDevice>>>);

impl Catalogue for Shelf {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        self.0.borrow().get(name).map(|device| device.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        self.0.borrow().keys().cloned().collect()
    }
}

fn kernel() -> Option<MutexGuard<'static, ()>> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !is_root || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: needs root, /dev/fuse and loop devices");
        return None;
    }
    Some(KERNEL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A mount with a shard of its own; everything goes when it is dropped.
struct Mount {
    directory: PathBuf,
    remote: Remote,
    thread: Option<ShardThread>,
    stop: mpsc::Sender<()>,
    transport_line: String,
    is_over_io_uring: bool,
}

/// Every way requests can travel on this machine.
const WAYS: [(DriverChoice, TransportChoice); 3] = [
    (DriverChoice::Auto, TransportChoice::Uring),
    (DriverChoice::Auto, TransportChoice::Classic),
    (DriverChoice::Threads, TransportChoice::Uring),
];

impl Mount {
    fn new(name: &str, (driver, transport): (DriverChoice, TransportChoice)) -> Mount {
        let directory = std::env::temp_dir().join(format!("ashlar-fuse-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Mount::at(&directory, driver, transport)
    }

    fn at(directory: &Path, driver: DriverChoice, transport: TransportChoice) -> Mount {
        let settings = ShardSettings { driver, ..ShardSettings::default() };
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = start_shard(settings, move |runtime| {
            Box::pin(async move {
                runtime.run_blocking(move || stopped.recv().is_err()).await;
            })
        })
        .unwrap();
        let remote = thread.remote();
        let path = directory.to_str().unwrap().to_string();
        let mounted = remote.run(move |runtime| {
            Box::pin(async move {
                let settings = Settings { transport, ..Settings::default() };
                let shelf = SHELF.with(Rc::clone);
                let server =
                    FuseServer::mount(&runtime, &path, shelf, settings, Rc::new(Registry::new())).await;
                let server = Rc::new(server.unwrap());
                let facts = (server.transport_line().to_string(), server.is_over_io_uring());
                SERVER.with(|slot| *slot.borrow_mut() = Some(server));
                facts
            })
        });
        let (transport_line, is_over_io_uring) = mounted.wait().unwrap();
        let directory = directory.to_path_buf();
        Mount { directory, remote, thread: Some(thread), stop, transport_line, is_over_io_uring }
    }

    /// Does something to the memory devices, on their shard.
    fn shelf<T: Send + 'static>(&self, act: impl FnOnce(&Shelf) -> T + Send + 'static) -> T {
        self.remote.run(move |_| Box::pin(async move { SHELF.with(|shelf| act(shelf)) })).wait().unwrap()
    }

    fn create(&self, name: &'static str, size_bytes: u64, block: u32) -> PathBuf {
        self.shelf(move |shelf| {
            shelf.0.borrow_mut().insert(name.to_string(), Rc::new(MemoryDevice::new(size_bytes, block)));
        });
        self.directory.join(name)
    }

    fn allocated(&self, name: &'static str) -> u64 {
        self.shelf(move |shelf| shelf.0.borrow()[name].allocated_bytes())
    }

    fn unmount(&self) -> Result<(), String> {
        let unmounted = self.remote.run(|_| {
            Box::pin(async {
                let server = SERVER.with(|slot| slot.borrow().clone()).unwrap();
                server.unmount().await.map_err(|error| error.to_string())
            })
        });
        unmounted.wait().unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            drop(run_quietly("umount", &["-l", self.directory.to_str().unwrap()]));
            println!("left mounted: {error}");
        }
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
        drop(fs::remove_dir(&self.directory));
    }
}

/// A loop device that goes when dropped.
struct Loop(String);

impl Loop {
    fn new(file: &Path, block: u32, direct: &str) -> Loop {
        let block = block.to_string();
        let direct = format!("--direct-io={direct}");
        let arguments = ["--find", "--show", &direct, "--sector-size", &block, file.to_str().unwrap()];
        Loop(run("losetup", &arguments).trim().to_string())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(run_quietly("losetup", &["-d", &self.0]));
        let name = Path::new(&self.0).file_name().unwrap();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let end = Instant::now() + Duration::from_secs(5);
        while backing.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn run_quietly(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn noise(length: usize, mut seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        bytes.extend(seed.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Ordinary tools on the files themselves, whole blocks or not; names and sizes change under them.
#[test]
fn volumes_are_files_that_come_grow_and_go() {
    let Some(_kernel) = kernel() else { return };
    let before = fs::read_to_string(SWITCH).ok();
    for way in WAYS {
        let mount = Mount::new("files", way);
        println!("{way:?}: {}", mount.transport_line);
        assert_eq!(fs::read_to_string(SWITCH).ok(), before, "the switch is as it was");
        assert_eq!(fs::read_dir(&mount.directory).unwrap().count(), 0);
        let volume = mount.create("db", 4 << 20, 4096);
        mount.create("log", 1 << 20, 512);
        let mut names: Vec<_> =
            fs::read_dir(&mount.directory).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["db", "log"]);
        let source = mount.directory.with_extension("source");
        fs::write(&source, noise(4 << 20, 1)).unwrap();
        let (input, output) = (format!("if={}", source.display()), format!("of={}", volume.display()));
        run("dd", &[&input, &output, "bs=1M", "conv=notrunc", "status=none"]);
        run("cmp", &[source.to_str().unwrap(), volume.to_str().unwrap()]);
        // Blocks of 1000 bytes fit no logical block.
        fs::write(&source, noise(1_234_567, 2)).unwrap();
        run("dd", &[&input, &output, "bs=1000", "conv=notrunc,fsync", "status=none"]);
        let mut expected = noise(4 << 20, 1);
        expected[..1_234_567].copy_from_slice(&noise(1_234_567, 2));
        assert_eq!(fs::read(&volume).unwrap(), expected);
        assert!(fs::write(mount.directory.join("new"), b"no").is_err());
        assert!(fs::remove_file(&volume).is_err());
        assert!(fs::OpenOptions::new().write(true).open(&volume).unwrap().set_len(1).is_err());
        mount.shelf(|shelf| shelf.0.borrow()["db"].set_size(8 << 20));
        assert_eq!(fs::metadata(&volume).unwrap().len(), 8 << 20);
        mount.shelf(|shelf| drop(shelf.0.borrow_mut().remove("db")));
        assert!(!volume.exists());
        fs::remove_file(source).unwrap();
    }
    assert_eq!(fs::read_to_string(SWITCH).ok(), before);
}

/// `cp` of a shorter file once left the old end of the volume behind it, as if all of it were the copy. What
/// empties a file first is refused before a byte is changed; what writes in place goes on to work.
#[test]
fn a_volume_is_not_emptied_by_who_opens_it() {
    let Some(_kernel) = kernel() else { return };
    for way in WAYS {
        let mount = Mount::new("truncate", way);
        let volume = mount.create("v", 2 << 20, 4096);
        let (source, shown) = (mount.directory.with_extension("source"), volume.to_str().unwrap());
        fs::write(&source, noise(1 << 20, 5)).unwrap();
        let mut expected = noise(2 << 20, 4);
        fs::OpenOptions::new().write(true).open(&volume).unwrap().write_all(&expected).unwrap();
        let from = source.to_str().unwrap();
        let (input, output) = (format!("if={from}"), format!("of={shown}"));
        let script = |text: &str| ["-c", text, from, shown].map(str::to_string).to_vec();
        let refused = [
            ("cp", vec![from.to_string(), shown.to_string()]),
            ("cp", vec!["-f".to_string(), from.to_string(), shown.to_string()]),
            ("dd", vec![input.clone(), output.clone(), "status=none".to_string()]),
            ("sh", script("cat \"$0\" > \"$1\"")),
            ("truncate", vec!["-s".to_string(), "0".to_string(), shown.to_string()]),
            ("truncate", vec!["-s".to_string(), "3M".to_string(), shown.to_string()]),
        ];
        for (program, arguments) in refused {
            let output = Command::new(program).args(&arguments).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
            assert!(!output.status.success(), "{way:?} {program} {arguments:?} {said}");
            assert!(said.contains("not permitted"), "{program} {arguments:?}: {said}");
            assert!(fs::read(&volume).unwrap() == expected, "{way:?} {program} {arguments:?}");
        }
        // It opens without emptying, says that it may not cut off what follows, and writes where it was told.
        let sought = ["seek=1", "bs=512", "count=8", "status=none"];
        run("dd", &[&[input.as_str(), output.as_str()], &sought[..]].concat());
        expected[512..512 + 4096].copy_from_slice(&noise(1 << 20, 5)[..4096]);
        assert!(fs::read(&volume).unwrap() == expected, "{way:?} dd seek=1");
        // A loop device over it neither notices nor sees another size.
        let device = Loop::new(&volume, 512, "on");
        assert!(run_quietly("cp", &[from, shown]).is_none());
        assert!(fs::read(&device.0).unwrap() == expected, "{way:?}: through the loop device");
        drop(device);
        run("truncate", &["-s", "2M", shown]);
        run("dd", &[&input, &output, "bs=64k", "conv=notrunc", "status=none"]);
        expected[..1 << 20].copy_from_slice(&noise(1 << 20, 5));
        assert!(fs::read(&volume).unwrap() == expected, "{way:?} in place");
        let arguments = script("cat \"$0\" \"$0\" 1<> \"$1\"");
        run("sh", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        expected[1 << 20..].copy_from_slice(&noise(1 << 20, 5));
        assert!(fs::read(&volume).unwrap() == expected, "{way:?} in place by a shell");
        fs::remove_file(source).unwrap();
    }
}

#[test]
fn io_uring_carries_requests_where_the_kernel_offers_it() {
    let Some(_kernel) = kernel() else { return };
    if !Path::new(SWITCH).exists() {
        println!("skipped: this kernel has no FUSE over io_uring");
        return;
    }
    let mount = Mount::new("offer", WAYS[0]);
    assert!(mount.is_over_io_uring, "{}", mount.transport_line);
    assert!(mount.transport_line.starts_with("FUSE over io_uring"), "{}", mount.transport_line);
}

/// The peer that this project measured loses writes of 1 MiB and more here, and says nothing.
#[test]
fn direct_writes_through_a_loop_device_arrive_whole() {
    let Some(_kernel) = kernel() else { return };
    for way in WAYS {
        let mount = Mount::new("whole", way);
        let volume = mount.create("v", 16 << 20, 4096);
        let source = mount.directory.with_extension("source");
        for (round, size) in [4096usize, 65536, 1 << 20, 4 << 20].into_iter().enumerate() {
            for direct in ["on", "off"] {
                let bytes = noise(8 << 20, 7 + round as u64 + direct.len() as u64 * 100);
                fs::write(&source, &bytes).unwrap();
                let device = Loop::new(&volume, 4096, direct);
                let (input, output) = (format!("if={}", source.display()), format!("of={}", device.0));
                let block = format!("bs={size}");
                run("dd", &[&input, &output, &block, "oflag=direct", "conv=notrunc", "status=none"]);
                let mut through_loop = vec![0; bytes.len()];
                fs::File::open(&device.0).unwrap().read_exact(&mut through_loop).unwrap();
                assert!(through_loop == bytes, "{way:?} {size} direct {direct}: reads differ");
                drop(device);
                let mut in_file = vec![0; bytes.len()];
                fs::File::open(&volume).unwrap().read_exact(&mut in_file).unwrap();
                assert!(in_file == bytes, "{way:?} {size} direct {direct}: the file differs");
            }
        }
        fs::remove_file(source).unwrap();
    }
}

#[test]
fn discard_and_zeroing_on_the_loop_device_reach_the_volume() {
    let Some(_kernel) = kernel() else { return };
    for way in WAYS {
        for block in [512, 4096] {
            let mount = Mount::new("discard", way);
            let volume = mount.create("v", 8 << 20, block);
            let device = Loop::new(&volume, block, "on");
            let full = noise(8 << 20, 3);
            fs::write(&device.0, &full).unwrap();
            run("blockdev", &["--flushbufs", &device.0]);
            assert_eq!(mount.allocated("v"), 8 << 20);
            run("blkdiscard", &["--offset", "0", "--length", "2M", &device.0]);
            assert_eq!(mount.allocated("v"), 6 << 20, "discard gives the space back");
            run("blkdiscard", &["--zeroout", "--offset", "2M", "--length", "1M", &device.0]);
            run("fallocate", &["--punch-hole", "--offset", "4M", "--length", "1M", &device.0]);
            run("fallocate", &["--zero-range", "--offset", "6M", "--length", "1M", &device.0]);
            let mut expected = full;
            for range in [0..3 << 20, 4 << 20..5 << 20, 6 << 20..7 << 20] {
                expected[range].fill(0);
            }
            assert!(fs::read(&device.0).unwrap() == expected, "{way:?} {block}");
            assert!(fs::read(&volume).unwrap() == expected, "{way:?} {block}");
            // On the file itself at odd places, and looking for what is left.
            let odd = ["--punch-hole", "--keep-size", "--offset", "7340033", "--length", "9999"];
            run("fallocate", &[&odd[..], &[volume.to_str().unwrap()]].concat());
            expected[7_340_033..7_350_032].fill(0);
            let mut file = fs::File::open(&volume).unwrap();
            let mut in_file = Vec::new();
            file.read_to_end(&mut in_file).unwrap();
            assert!(in_file == expected, "{way:?} {block}");
            assert_eq!(seek(&mut file, 0, libc::SEEK_DATA), 3 << 20);
            assert_eq!(seek(&mut file, 3 << 20, libc::SEEK_HOLE), 4 << 20);
        }
    }
}

fn seek(file: &mut fs::File, offset: i64, whence: i32) -> u64 {
    // SAFETY: takes numbers only.
    let found = unsafe { libc::lseek(std::os::fd::AsRawFd::as_raw_fd(file), offset, whence) };
    assert!(found >= 0);
    file.seek(SeekFrom::Start(0)).unwrap();
    found as u64
}

#[test]
fn file_systems_live_on_a_volume_and_are_clean_afterwards() {
    let Some(_kernel) = kernel() else { return };
    for way in &WAYS[..2] {
        for (name, check) in [("ext4", ["e2fsck", "-f", "-n"]), ("xfs", ["xfs_repair", "-n", "-f"])] {
            let mount = Mount::new("fs", *way);
            let volume = mount.create("v", 400 << 20, 512);
            let device = Loop::new(&volume, 512, "on");
            run(&format!("mkfs.{name}"), &["-q", &device.0]);
            let target = mount.directory.with_extension("mnt");
            fs::create_dir_all(&target).unwrap();
            let shown = target.to_str().unwrap();
            run("mount", &["-o", "discard", &device.0, shown]);
            let script = "cd \"$0\" && for i in 1 2 3 4; do (mkdir d$i && for j in $(seq 60); do \
                head -c $((j * 3000)) /dev/urandom > d$i/f$j; done; sync; rm d$i/f1*; \
                cat d$i/f* > d$i/all; cat d$i/f* | cmp - d$i/all) & done; wait; \
                find . -type f | sort | xargs sha1sum";
            let sums = run("sh", &["-c", script, shown]);
            run("umount", &[shown]);
            run("mount", &[&device.0, shown]);
            let script = "cd \"$0\" && find . -type f | sort | xargs sha1sum";
            assert_eq!(run("sh", &["-c", script, shown]), sums, "{way:?} {name}");
            run("fstrim", &[shown]);
            run("umount", &[shown]);
            run(check[0], &[&check[1..], &[volume.to_str().unwrap()]].concat());
            fs::remove_dir(target).unwrap();
        }
    }
}

/// Not a test by itself: the server that the next test kills.
#[test]
fn child_serves_until_it_is_killed() {
    let Ok(directory) = std::env::var("ASHLAR_FUSE_TEST_DIRECTORY") else { return };
    let mount = Mount::at(Path::new(&directory), DriverChoice::Auto, TransportChoice::Uring);
    mount.create("v", 64 << 20, 4096);
    println!("serving");
    std::thread::sleep(Duration::from_secs(60));
}

/// After a SIGKILL whoever uses the device gets errors at once, nothing hangs, and everything can be
/// taken apart.
#[test]
fn a_killed_server_leaves_errors_and_nothing_that_hangs() {
    let Some(_kernel) = kernel() else { return };
    let directory = std::env::temp_dir().join(format!("ashlar-fuse-kill-{}", std::process::id()));
    let target = directory.with_extension("mnt");
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir_all(&target).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_serves_until_it_is_killed", "--nocapture"])
        .env("ASHLAR_FUSE_TEST_DIRECTORY", &directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let volume = directory.join("v");
    let end = Instant::now() + Duration::from_secs(20);
    while !volume.exists() {
        assert!(Instant::now() < end, "the child does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    let device = Loop::new(&volume, 4096, "on");
    run("mkfs.ext4", &["-q", &device.0]);
    run("mount", &[&device.0, target.to_str().unwrap()]);
    let writer = "while dd if=/dev/zero of=\"$0/file\" bs=64k count=64 conv=fsync status=none; do :; done";
    let mut load = Command::new("sh")
        .args(["-c", writer, target.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    load.wait().unwrap();
    // Past the page cache, which still answers for what it has read before.
    let input = format!("if={}", device.0);
    let direct = ["of=/dev/null", "bs=4096", "count=1", "skip=9000", "iflag=direct", "status=none"];
    assert!(run_quietly("dd", &[&[input.as_str()], &direct[..]].concat()).is_none());
    assert!(fs::read_dir(&directory).is_err());
    run("umount", &[target.to_str().unwrap()]);
    drop(device);
    run("umount", &["-l", directory.to_str().unwrap()]);
    assert!(killed.elapsed() < Duration::from_secs(10), "took {:?}", killed.elapsed());
    let listing = run("losetup", &["--all"]);
    assert!(!listing.contains(directory.to_str().unwrap()), "{listing}");
    fs::remove_dir(directory).unwrap();
    fs::remove_dir(target).unwrap();
}

#[test]
fn a_busy_mount_stays_served_and_a_used_one_can_be_aborted() {
    let Some(_kernel) = kernel() else { return };
    for way in WAYS {
        let mount = Mount::new("busy", way);
        let volume = mount.create("v", 1 << 20, 512);
        let mut file = fs::File::open(&volume).unwrap();
        let error = mount.unmount().unwrap_err();
        assert!(error.contains("1 files open"), "{error}");
        file.read_exact(&mut [0; 4096]).unwrap();
        let aborted = mount.remote.run(|_| {
            Box::pin(async {
                let server = SERVER.with(|slot| slot.borrow().clone()).unwrap();
                server.abort().await.map_err(|error| error.to_string())
            })
        });
        aborted.wait().unwrap().unwrap();
        assert!(file.read_exact(&mut [0; 4096]).is_err());
        assert!(fs::read_dir(&mount.directory).unwrap().next().is_none());
    }
}

#[test]
fn a_mount_point_that_is_no_live_directory_is_refused_with_its_reason() {
    let Some(_kernel) = kernel() else { return };
    let thread = start_shard(ShardSettings::default(), |runtime| {
        Box::pin(async move {
            for path in ["/nowhere/at/all", "/dev/null", "a\0b"] {
                let (shelf, registry) = (Rc::new(Shelf::default()), Rc::new(Registry::new()));
                let result = FuseServer::mount(&runtime, path, shelf, Settings::default(), registry).await;
                assert_eq!(result.err().unwrap().kind, ashlar_fuse::ErrorKind::MountPoint);
            }
        })
    });
    thread.unwrap().join();
}
