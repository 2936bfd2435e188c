//! What is on a disk after it was closed, cut off or abandoned; and that liars lie as told, the honest not.
#![allow(clippy::unwrap_used)]

mod bench;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use ashlar_disk::{Disk, ErrorKind, Kind, Liar, Spec, remove_left};
use bench::{Bench, run};

const SIZE: u64 = 64 << 20;
/// Where the test below finds the folder for its disk; unset, it has nothing to do.
const FOLDER: &str = "ASHLAR_DISK_TEST_FOLDER";

fn point(bench: &Bench) -> std::path::PathBuf {
    let point = bench.folder.path().join("point");
    fs::create_dir_all(&point).unwrap();
    point
}

/// Content that tells where it belongs.
fn content(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(300_000).collect()
}

/// A file whose bytes are durable, as far as the disk can be believed.
fn write(at: &Path, name: &str) {
    let mut file = File::create(at.join(name)).unwrap();
    file.write_all(&content(name)).unwrap();
    file.sync_all().unwrap();
    File::open(at).unwrap().sync_all().unwrap();
}

fn holds(at: &Path, name: &str) -> bool {
    fs::read(at.join(name)).is_ok_and(|bytes| bytes == content(name))
}

/// A block from the disk itself, past the kernel's cache.
fn block(disk: &Disk, index: u64) -> Vec<u8> {
    let mut command = Command::new("dd");
    command.args(["bs=4096", "count=1", "iflag=direct", "status=none"]).arg(format!("skip={index}"));
    run(command.arg(format!("if={}", disk.device().display()))).stdout
}

fn write_block(disk: &Disk, index: u64, byte: u8) {
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(disk.device()).unwrap();
    file.write_all_at(&[byte; 4096], index * 4096).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn two_file_systems_lie_on_the_same_drives() {
    let bench = Bench::new();
    let at = point(&bench);
    let of_log = bench.folder.path().join("point-log");
    fs::create_dir_all(&of_log).unwrap();
    let kind = Kind::parse("sim-hdd:drives=2,raid=1").unwrap();
    let spec = bench.spec(2 * SIZE, kind);
    let Some(disk) = bench.opened(Disk::open_parted(spec.clone(), SIZE)) else { return };
    disk.format().unwrap();
    disk.mount(&at).unwrap();
    disk.mount_second(&of_log).unwrap();
    write(&at, "data");
    write(&of_log, "log");
    let written = disk.counters().writes;
    write(&of_log, "more");
    assert!(disk.counters().writes > written, "both are requests of the same disk");
    assert!(holds(&at, "data") && holds(&of_log, "log"));
    disk.close().unwrap();
    for point in [&at, &of_log] {
        assert!(fs::read_dir(point).unwrap().next().is_none(), "it is unmounted");
    }
    assert!(Disk::open_parted(spec, 2 * SIZE).is_err(), "a part is smaller than the whole");
}

#[test]
fn an_ext4_and_its_files_survive_on_every_honest_disk() {
    let bench = Bench::new();
    let at = point(&bench);
    for kind in ["plain", "sim-hdd:drives=2,raid=1", "limit:iops=2000"] {
        let kind = || if kind == "plain" { Kind::Plain } else { Kind::parse(kind).unwrap() };
        let Some(disk) = bench.open(SIZE, kind()) else { return };
        disk.format().unwrap();
        disk.mount(&at).unwrap();
        write(&at, "a");
        fs::write(at.join("b"), content("b")).unwrap();
        disk.close().unwrap();
        assert!(fs::read_dir(&at).unwrap().next().is_none(), "it is unmounted");
        let disk = bench.open(SIZE, kind()).unwrap();
        disk.mount(&at).unwrap();
        assert!(holds(&at, "a") && holds(&at, "b"));
        let counters = disk.counters();
        assert!(counters.reads > 0 && counters.failed == 0 && counters.lies == 0, "{counters:?}");
        // Dropped with its file system still mounted.
        drop(disk);
        assert!(fs::read_dir(&at).unwrap().next().is_none());
        fs::remove_file(bench.folder.path().join("bytes")).unwrap();
    }
}

#[test]
fn a_power_cut_takes_from_the_flush_liar_what_was_fsynced_and_from_the_honest_nothing() {
    let bench = Bench::new();
    let at = point(&bench);
    for (kind, is_kept) in [(Kind::Plain, true), (Kind::Liar(Liar::Flush { true_every: 0 }), false)] {
        let Some(disk) = bench.open(SIZE, kind) else { return };
        disk.format().unwrap();
        disk.mount(&at).unwrap();
        write(&at, "before");
        disk.settle().unwrap();
        write(&at, "after");
        disk.cut_power();
        assert!(File::create(at.join("c")).and_then(|file| file.sync_all()).is_err(), "no power");
        disk.close().unwrap();
        let disk = bench.open(SIZE, Kind::Plain).unwrap();
        disk.mount(&at).unwrap();
        assert!(holds(&at, "before"));
        assert_eq!(holds(&at, "after"), is_kept);
        disk.close().unwrap();
        fs::remove_file(bench.folder.path().join("bytes")).unwrap();
    }
}

#[test]
fn every_second_flush_of_a_liar_can_be_true_and_one_that_is_switched_off_in_order_loses_nothing() {
    let bench = Bench::new();
    let kind = || Kind::Liar(Liar::Flush { true_every: 2 });
    let Some(disk) = bench.open(SIZE, kind()) else { return };
    // A flush each.
    write_block(&disk, 1, 1);
    write_block(&disk, 2, 2);
    write_block(&disk, 3, 3);
    assert_eq!((disk.counters().flushes, disk.counters().lies), (3, 2));
    disk.cut_power();
    disk.close().unwrap();
    let disk = bench.open(SIZE, kind()).unwrap();
    assert_eq!([1, 2, 3].map(|index| block(&disk, index)[0]), [1, 2, 0]);
    write_block(&disk, 3, 3);
    disk.close().unwrap();
    let disk = bench.open(SIZE, Kind::Plain).unwrap();
    assert_eq!(block(&disk, 3), [3; 4096]);
}

#[test]
fn a_stale_liar_returns_what_was_there_before_and_plain_does_not() {
    let bench = Bench::new();
    for (kind, seen) in [(Kind::Plain, 2), (Kind::Liar(Liar::Stale { share: 1.0 }), 1)] {
        let Some(disk) = bench.open(SIZE, kind) else { return };
        write_block(&disk, 7, 1);
        write_block(&disk, 7, 2);
        assert_eq!(block(&disk, 7), [seen; 4096]);
        assert_eq!(disk.counters().lies > 0, seen == 1);
        disk.close().unwrap();
    }
    let disk = bench.open(SIZE, Kind::Liar(Liar::Stale { share: 0.3 })).unwrap();
    write_block(&disk, 7, 3);
    let old = (0..40).filter(|_| block(&disk, 7)[0] == 2).count();
    assert!((4..22).contains(&old), "{old} of 40");
}

#[test]
fn a_memory_liar_reads_from_memory_and_loses_all() {
    let bench = Bench::new();
    let Some(disk) = bench.open(SIZE, Kind::Liar(Liar::Memory)) else { return };
    write_block(&disk, 7, 1);
    let hits = disk.counters().cache_hits;
    assert_eq!((block(&disk, 7), block(&disk, 900)), (vec![1; 4096], vec![0; 4096]));
    assert_eq!(disk.counters().cache_hits, hits + 1, "the second block was never read before");
    block(&disk, 900);
    assert_eq!(disk.counters().cache_hits, hits + 2);
    disk.cut_power();
    disk.close().unwrap();
    let disk = bench.open(SIZE, Kind::Plain).unwrap();
    assert_eq!(block(&disk, 7), [0; 4096]);
}

#[test]
fn two_disks_on_one_file_and_a_file_of_another_size_are_refused() {
    let bench = Bench::new();
    let Some(disk) = bench.open(SIZE, Kind::Plain) else { return };
    assert_eq!(Disk::open(bench.spec(SIZE, Kind::Plain)).unwrap_err().kind, ErrorKind::Busy);
    disk.close().unwrap();
    assert_eq!(Disk::open(bench.spec(SIZE * 2, Kind::Plain)).unwrap_err().kind, ErrorKind::Description);
}

#[test]
fn a_disk_is_taken_from_those_who_still_use_it() {
    let bench = Bench::new();
    let at = point(&bench);
    let Some(disk) = bench.open(SIZE, Kind::Plain) else { return };
    let device = disk.device().to_path_buf();
    disk.format().unwrap();
    disk.mount(&at).unwrap();
    let mut user = Command::new("sleep").arg("60").current_dir(&at).spawn().unwrap();
    assert_eq!(disk.close().unwrap_err().kind, ErrorKind::Busy);
    assert!(fs::read_dir(&at).unwrap().next().is_none(), "out of sight");
    user.kill().unwrap();
    user.wait().unwrap();
    // Its last user is gone: so is the device.
    let on = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
    let is_ours =
        || fs::read_to_string(&on).is_ok_and(|file| file.starts_with(bench.folder.path().to_str().unwrap()));
    for _ in 0..200 {
        if !is_ours() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!is_ours());
    bench.open(SIZE, Kind::Plain).unwrap().close().unwrap();
}

/// The other process of the test below: it opens a disk with an ext4, says so, writes on, and is killed.
#[test]
fn a_disk_that_another_test_kills() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let kind = Kind::parse("sim-hdd:drives=1,raid=0,model=7k2").unwrap();
    let disk = Disk::open(Spec { backing: folder.join("bytes"), size_bytes: SIZE, kind, seed: 1 }).unwrap();
    disk.format().unwrap();
    disk.mount(&folder.join("point")).unwrap();
    fs::write(folder.join("is-ready"), disk.device().display().to_string()).unwrap();
    loop {
        // This thread waits for its own disk when the kill comes: the worst that can be.
        write(&folder.join("point"), "a");
    }
}

#[test]
fn what_a_killed_process_left_is_removed_and_the_living_keep_theirs() {
    let bench = Bench::new();
    let (at, folder) = (point(&bench), bench.folder.path());
    let Some(disk) = bench.open(SIZE, Kind::Plain) else { return };
    assert!(remove_left(folder).unwrap().is_empty(), "we live");
    disk.close().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_disk_that_another_test_kills"]).env(FOLDER, folder).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !folder.join("is-ready").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the other process ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    child.kill().unwrap();
    // It cannot be waited for before: a thread of it may wait for its own disk.
    let mut removed = remove_left(folder).unwrap();
    while removed.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        removed = remove_left(folder).unwrap();
    }
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let device = fs::read_to_string(folder.join("is-ready")).unwrap();
    assert_eq!(removed, [Path::new(&device), &folder.join("bytes.mount")]);
    assert!(fs::read_dir(&at).unwrap().next().is_none(), "its file system is gone");
    assert!(!folder.join("bytes.mount").exists());
    let disk = bench.open(SIZE, Kind::Plain).unwrap();
    disk.mount(&at).unwrap();
    disk.close().unwrap();
}
