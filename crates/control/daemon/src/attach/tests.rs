//! Loop devices and file systems on plain files, and on a FUSE mount whose server is killed.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use ashlar_block::{BlockDevice, Catalogue};
use ashlar_layers::MemoryDevice;

use super::loop_device::{attach, detach, find_devices, label_of, resize, volume_of_label};
use super::mount::{
    OwnMount, make_directory, make_file_system, mount, mounts_of_device, parse_mounts, unmount,
    unmount_lazily,
};
use super::*;

/// A directory that goes with the test, and what stands on it before it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("ashlar-attach-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("volumes")).unwrap();
        Scratch(fs::canonicalize(path).unwrap())
    }

    fn volume(&self, name: &str, size_bytes: u64) -> PathBuf {
        let path = self.0.join("volumes").join(name);
        File::create(&path).unwrap().set_len(size_bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(clean_stale(&self.0));
        drop(fs::remove_dir_all(&self.0));
    }
}

fn is_root_with_loop() -> bool {
    // SAFETY: takes nothing, changes nothing.
    let is_able = unsafe { libc::geteuid() } == 0 && Path::new("/dev/loop-control").exists();
    if !is_able {
        println!("skipped: needs root and loop devices");
    }
    is_able
}

fn options(logical_block_bytes: u32) -> AttachOptions {
    AttachOptions { logical_block_bytes, is_direct: true, is_read_only: false }
}

fn size_sectors(device: &Path) -> u64 {
    let name = device.file_name().unwrap();
    fs::read_to_string(Path::new("/sys/block").join(name).join("size")).unwrap().trim().parse().unwrap()
}

#[test]
fn mountinfo_is_read_with_its_escapes() {
    let text = b"36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 - ext3 /dev/root rw\n\
        37 35 7:3 / /a\\134b rw - xfs /dev/loop3 rw\nrubbish\n";
    let mounts = parse_mounts(text);
    assert_eq!(mounts.len(), 2);
    assert_eq!(mounts[0].directory, Path::new("/mnt two"));
    assert_eq!(mounts[0].file_system, "ext3");
    assert_eq!(
        (mounts[0].id, mounts[0].parent, mounts[0].source.as_path()),
        (36, 35, Path::new("/dev/root"))
    );
    assert_eq!((mounts[0].is_shared, mounts[1].is_shared), (true, false));
    assert_eq!(
        (mounts[1].device_number.as_str(), mounts[1].directory.as_path()),
        ("7:3", Path::new("/a\\b"))
    );
}

#[test]
fn labels_lead_back_to_the_volume() {
    let short = Path::new("/var/lib/ashlar/volumes/db");
    let long = PathBuf::from(format!("/{}/volumes/db", "x".repeat(80)));
    for file in [short, long.as_path()] {
        let label = label_of(file);
        assert!(label.len() <= 63);
        assert_eq!(volume_of_label(&label, file.parent().unwrap()).as_deref(), Some("db"));
        assert_eq!(volume_of_label(&label, Path::new("/elsewhere")), None);
    }
}

#[test]
fn a_file_is_attached_with_its_block_size_resized_found_and_detached() {
    if !is_root_with_loop() {
        return;
    }
    let scratch = Scratch::new("loop");
    for block in [512, 4096] {
        let file = scratch.volume(&format!("v{block}"), 8 << 20);
        let device = attach(&file, options(block)).unwrap();
        assert!(is_direct(&device));
        let name = device.file_name().unwrap();
        let shown = fs::read_to_string(Path::new("/sys/block").join(name).join("queue/logical_block_size"));
        assert_eq!(shown.unwrap().trim(), block.to_string());
        assert_eq!(find_devices(&file).unwrap(), std::slice::from_ref(&device));
        File::options().write(true).open(&file).unwrap().set_len(16 << 20).unwrap();
        resize(&device).unwrap();
        assert_eq!(size_sectors(&device), (16 << 20) / 512);
        detach(&device).unwrap();
        assert_eq!(find_devices(&file).unwrap(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_file_system_is_made_only_on_an_empty_device_and_a_mounted_one_is_not_detached() {
    if !is_root_with_loop() {
        return;
    }
    let scratch = Scratch::new("mkfs");
    for (file_system, size_bytes) in [(FileSystem::Ext4, 64 << 20), (FileSystem::Xfs, 320 << 20)] {
        let file = scratch.volume(file_system.name(), size_bytes);
        let device = attach(&file, options(4096)).unwrap();
        assert_eq!(probe(&device).unwrap(), None);
        make_directory(&scratch.0.join("mnt")).unwrap();
        assert_eq!(
            mount(&device, &scratch.0.join("mnt"), false, Trust::default()).unwrap_err().kind,
            ErrorKind::Invalid
        );
        make_file_system(&device, file_system, false).unwrap();
        assert_eq!(probe(&device).unwrap().as_deref(), Some(file_system.name()));
        assert_eq!(make_file_system(&device, file_system, false).unwrap_err().kind, ErrorKind::HasData);
        make_file_system(&device, file_system, true).unwrap();
        let directory = scratch.0.join("mnt");
        mount(&device, &directory, false, Trust::default()).unwrap();
        assert_eq!(detach(&device).unwrap_err().kind, ErrorKind::Busy);
        fs::write(directory.join("file"), b"kept").unwrap();
        unmount(&directory).unwrap();
        mount(&device, &directory, true, Trust::default()).unwrap();
        assert_eq!(fs::read(directory.join("file")).unwrap(), b"kept");
        assert!(fs::write(directory.join("other"), b"no").is_err());
        unmount(&directory).unwrap();
        detach(&device).unwrap();
    }
}

/// A device that cannot be let go stays as it was: it does not vanish later, under whoever counts on it.
#[test]
fn a_device_in_use_is_not_let_go_and_every_user_is_named() {
    if !is_root_with_loop() {
        return;
    }
    let scratch = Scratch::new("uses");
    let file = scratch.volume("v", 64 << 20);
    let device = attach(&file, options(4096)).unwrap();
    assert_eq!(uses_of_device(&device).unwrap(), []);
    let shell = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{command}; exec sleep 600")]).stdin(Stdio::null());
        shell.spawn().unwrap()
    };
    let mut child = shell(&format!("exec 3<{}", device.display()));
    let process = Process { id: child.id(), name: "sleep".to_string() };
    let expected = Use::Open { process, path: device.clone() };
    let end = Instant::now() + Duration::from_secs(20);
    while !uses_of_device(&device).unwrap().contains(&expected) {
        assert!(Instant::now() < end, "the child does not open {}", device.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..2 {
        let error = detach(&device).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.to_string().contains("(sleep)"), "{error}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(find_devices(&file).unwrap(), std::slice::from_ref(&device), "it did not go with its user");
    let above = attach(&device, options(4096)).unwrap();
    let found = uses_below(&scratch.0.join("volumes")).unwrap();
    let stands = Use::Device { device: above.clone() };
    assert!(
        found.iter().any(|found| found.file == "v" && found.using.as_ref() == Some(&stands)),
        "{found:?}"
    );
    make_file_system(&above, FileSystem::Ext4, false).unwrap();
    let directory = scratch.0.join("mnt");
    make_directory(&directory).unwrap();
    mount(&above, &directory, false, Trust::default()).unwrap();
    let uses = uses_of_device(&device).unwrap();
    assert_eq!(uses, [Use::Mounted { directory: directory.clone() }, stands], "{uses:?}");
    unmount(&directory).unwrap();
    detach(&above).unwrap();
    detach(&device).unwrap();
}

#[test]
fn what_a_killed_daemon_left_is_removed() {
    if !is_root_with_loop() {
        return;
    }
    let scratch = Scratch::new("stale");
    let (first, second) = (scratch.volume("a", 64 << 20), scratch.volume("b", 64 << 20));
    let mounted = attach(&first, options(512)).unwrap();
    let bare = attach(&second, options(512)).unwrap();
    make_file_system(&mounted, FileSystem::Ext4, false).unwrap();
    make_directory(&scratch.0.join("mnt")).unwrap();
    mount(&mounted, &scratch.0.join("mnt"), false, Trust::default()).unwrap();
    let report = clean_stale(&scratch.0).unwrap();
    assert_eq!(report.unmounted, [scratch.0.join("mnt")]);
    assert_eq!(report.detached.len(), 2);
    assert_eq!(report.lingering, Vec::<String>::new());
    assert!(find_attached(&scratch.0.join("volumes")).unwrap().is_empty());
    assert!(clean_stale(&scratch.0).unwrap().is_empty());
    let listing = Command::new("losetup").arg("--all").output().unwrap();
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    assert!(!listing.contains(&*scratch.0.to_string_lossy()), "{listing} {mounted:?} {bare:?}");
}

struct OneVolume(Rc<MemoryDevice>);

impl Catalogue for OneVolume {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        (name == "v").then(|| self.0.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        vec!["v".to_string()]
    }
}

/// Not a test by itself: the server that the next test kills.
#[test]
fn child_serves_a_volume_until_it_is_killed() {
    let Ok(directory) = std::env::var("ASHLAR_ATTACH_TEST_DIRECTORY") else { return };
    let shard = ashlar_runtime::start_shard(ashlar_runtime::ShardSettings::default(), |runtime| {
        Box::pin(async move {
            let volume = Rc::new(OneVolume(Rc::new(MemoryDevice::new(64 << 20, 4096))));
            let counters = Rc::new(ashlar_telemetry::Registry::new());
            let settings = ashlar_fuse::Settings::default();
            let mounted =
                ashlar_fuse::FuseServer::mount(&runtime, &directory, volume, settings, counters).await;
            let _server = mounted.unwrap();
            runtime.sleep(Duration::from_secs(60)).await;
        })
    });
    shard.unwrap().join();
}

/// The whole tower stands on a process that is gone: the FUSE directory answers nothing, the device
/// gives errors, a program has a file open in the file system above. It comes down without a wait.
#[test]
fn the_tower_above_a_killed_server_comes_down_at_once() {
    if !is_root_with_loop() || !Path::new("/dev/fuse").exists() {
        return;
    }
    let scratch = Scratch::new("killed");
    let (volumes, target) = (scratch.0.join("volumes"), scratch.0.join("mnt"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "attach::tests::child_serves_a_volume_until_it_is_killed", "--nocapture"])
        .env("ASHLAR_ATTACH_TEST_DIRECTORY", &volumes)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let file = volumes.join("v");
    let end = Instant::now() + Duration::from_secs(20);
    while !file.exists() {
        assert!(Instant::now() < end, "the child does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    let device = attach(&file, options(4096)).unwrap();
    make_file_system(&device, FileSystem::Ext4, false).unwrap();
    make_directory(&target).unwrap();
    mount(&device, &target, false, Trust::default()).unwrap();
    let mut open = File::create(target.join("open")).unwrap();
    std::io::Write::write_all(&mut open, &[1; 100_000]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    assert!(fs::read_dir(&volumes).is_err(), "the mount is dead");
    let report = clean_stale(&scratch.0).unwrap();
    assert_eq!(report.unmounted, [target.clone(), volumes.clone()]);
    assert_eq!(report.detached, std::slice::from_ref(&device));
    assert!(!report.lingering.is_empty(), "the open file is told of");
    assert!(fs::read_dir(&volumes).unwrap().next().is_none(), "the directory is itself again");
    assert!(open.sync_all().is_err());
    assert!(clean_stale(&scratch.0).unwrap().is_empty(), "what lingers is not taken up again");
    assert!(find_attached(&volumes).unwrap().iter().all(|attached| attached.is_leaving));
    assert_eq!(find_devices(&file).unwrap(), Vec::<PathBuf>::new(), "a dead one is nobody's device");
    drop(open);
    let end = Instant::now() + Duration::from_secs(5);
    while loop_device::is_attached(&device) {
        assert!(Instant::now() < end, "the device goes with its last user");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(killed.elapsed() < Duration::from_secs(12), "took {:?}", killed.elapsed());
    assert!(clean_stale(&scratch.0).unwrap().is_empty());
}

/// A process that serves a directory of volumes, and may be held. It is gone when this is, whatever happened:
/// whoever waits for it then goes on.
struct Foreign {
    child: Child,
    device: Option<PathBuf>,
    scratch: Scratch,
}

impl Foreign {
    fn serving() -> Foreign {
        use std::os::unix::process::CommandExt;

        let scratch = Scratch::new("foreign");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "attach::tests::child_serves_a_volume_until_it_is_killed", "--nocapture"])
            .env("ASHLAR_ATTACH_TEST_DIRECTORY", scratch.0.join("volumes"))
            .stdout(Stdio::null());
        // SAFETY: the call is one that may be made between fork and exec, and takes numbers only.
        unsafe {
            command.pre_exec(|| {
                // It does not outlive us, also when we are killed.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let foreign = Foreign { child: command.spawn().unwrap(), device: None, scratch };
        let end = Instant::now() + Duration::from_secs(20);
        while !foreign.file().exists() {
            assert!(Instant::now() < end, "the child does not serve");
            thread::sleep(Duration::from_millis(10));
        }
        foreign
    }

    fn file(&self) -> PathBuf {
        self.scratch.0.join("volumes/v")
    }

    fn hold(&self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // A held process takes this signal, too; the kernel then answers for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(device) = &self.device {
            let _ = loop_device::release(device);
        }
    }
}

/// Runs on a thread of its own, and takes no longer than this.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(10)).unwrap_or_else(|_| panic!("{what}: it waits"))
}

/// The driver was asked for the label of every loop device, which waits for whoever serves the device's file:
/// an array that hung held up the attach, the detach, the start and the stop of every other one.
#[test]
fn an_array_that_hangs_holds_up_no_other() {
    if !is_root_with_loop() || !Path::new("/dev/fuse").exists() {
        return;
    }
    let own = Scratch::new("beside");
    let volumes = own.0.join("volumes");
    let file = own.volume("w", 64 << 20);
    fs::write(own.0.join("drive"), [0; 4096]).unwrap();
    let mnt = own.0.join("mnt");
    make_directory(&mnt).unwrap();
    let mut foreign = Foreign::serving();
    let foreign_device = attach(&foreign.file(), options(4096)).unwrap();
    foreign.device = Some(foreign_device.clone());
    foreign.hold();
    for is_cut_off in [false, true] {
        if is_cut_off {
            // Its devices stand at no path then, and could be anybody's.
            unmount_lazily(&foreign.scratch.0.join("volumes")).unwrap();
        }
        let (file, volumes, mnt, own) = (file.clone(), volumes.clone(), mnt.clone(), own.0.clone());
        let begun = Instant::now();
        soon("all of an attachment's life", move || {
            let device = attach(&file, options(4096)).unwrap();
            make_file_system(&device, FileSystem::Ext4, true).unwrap();
            mount(&device, &mnt, false, Trust::default()).unwrap();
            assert_eq!(find_devices(&file).unwrap(), std::slice::from_ref(&device));
            assert!(uses_of_device(&device).unwrap().contains(&Use::Mounted { directory: mnt.clone() }));
            assert!(!uses_below(&volumes).unwrap().is_empty());
            let all = Own { volumes, socket: own.join("nbd.sock"), clients: Vec::new() };
            assert_eq!(below(&mnt.join("new"), &all).unwrap().volume.unwrap().volume, "w");
            assert_eq!(loop_device_on(&[&own.join("drive")], &all).unwrap(), None);
            assert_eq!(writer_of(&own.join("drive")), None);
            let mounted = OwnMount { directory: mnt.clone(), other: None };
            assert_eq!(mounts_of_device(&device).unwrap(), [mounted]);
            unmount(&mnt).unwrap();
            detach(&device).unwrap();
            clean_stale(&own).unwrap();
        });
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    }
    drop(foreign);
    let end = Instant::now() + Duration::from_secs(20);
    while loop_device::is_attached(&foreign_device) {
        assert!(Instant::now() < end, "{} stays", foreign_device.display());
        thread::sleep(Duration::from_millis(10));
    }
}
