//! Drives that come late, pools that stop and come back, and a stop that ends whatever others hold.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::frozen::Frozen;
use support::nbd::Nbd;
use support::{Array, can_attach};

const BLOCK: usize = 4096;

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

fn until(array: &Array, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(40);
    while !is_so() {
        assert!(Instant::now() < end, "{what}:\n{}", array.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn state(array: &Array, pool: &str) -> String {
    array.json(&["pool", "show", pool])["state"].as_str().unwrap().to_string()
}

fn metric(array: &Array, line: &str) -> bool {
    array.http("GET", "/metrics", None).1.lines().any(|other| other == line)
}

/// Two pools: `main`, and `late` on the file `late.img` with a volume `lv`.
fn two_pools() -> Array {
    let array = Array::with_pool();
    let drive = format!("{},size=256MiB", text(array.path("late.img")));
    array.good(&["pool", "create", "late", "--drive", &drive]);
    array.good(&["volume", "create", "lv", "--size", "64MiB", "--pool", "late"]);
    array
}

/// The harm: a pool whose drive was slow at boot stayed closed until somebody came.
#[test]
fn a_pool_opens_by_itself_when_its_drive_comes() {
    let mut array = two_pools();
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("late.img"), array.path("away.img")).unwrap();
    let path = array.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let begun = Instant::now();
    array.start_notifying(&path);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Everything else serves at once.
    assert_eq!(state(&array, "main"), "online");
    array.good(&["volume", "create", "v", "--size", "64MiB", "--pool", "main"]);
    let pool = array.json(&["pool", "show", "late"]);
    assert_eq!(pool["state"], "waiting", "{pool}");
    assert!(pool["reason"].as_str().unwrap().contains("late.img"), "{pool}");
    assert!(array.good(&["status"]).contains("waiting") && array.good(&["pool", "list"]).contains("waiting"));
    assert!(metric(&array, "ashlar_pool_waiting{pool=\"late\"} 1"));
    assert!(metric(&array, "ashlar_pool_waiting{pool=\"main\"} 0"));
    if support::has_program("nbdinfo") {
        let uri = format!("nbd+unix:///lv?socket={}", text(array.state().join("nbd.sock")));
        let asked = Command::new("nbdinfo").env("LIBNBD_DEBUG", "1").arg(&uri).output().unwrap();
        let told = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(told.contains("pool late is not open"), "{told}");
    }
    assert!(array.good(&["events"]).contains("late.img"));
    array.refused(&["volume", "show", "lv"], &["lv"]);
    let hear = || {
        let mut heard = [0_u8; 256];
        let length = socket.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    assert!(hear().contains("EXTEND_TIMEOUT_USEC="));
    std::fs::rename(array.path("away.img"), array.path("late.img")).unwrap();
    until(&array, "it does not open", || state(&array, "late") == "online");
    assert_eq!(array.json(&["volume", "show", "lv"])["pool"], "late");
    let end = Instant::now() + Duration::from_secs(20);
    while hear() != "READY=1" {
        assert!(Instant::now() < end, "{}", array.log());
    }
    assert!(metric(&array, "ashlar_pool_waiting{pool=\"late\"} 0"));
    assert!(array.good(&["events"]).contains("opened in"));
}

#[test]
fn a_busy_drive_holds_up_nothing_and_its_pool_opens_when_it_is_let_go() {
    let mut array = two_pools();
    array.kill();
    let held = std::fs::File::open(array.path("late.img")).unwrap();
    held.lock().unwrap();
    let begun = Instant::now();
    array.start();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((state(&array, "main"), state(&array, "late")), ("online".into(), "waiting".into()));
    // What a person does meanwhile is not in its way.
    array.good(&["volume", "create", "v", "--size", "64MiB", "--pool", "main"]);
    array.refused(&["pool", "import", "late"], &["in use"]);
    assert_eq!(state(&array, "late"), "waiting");
    drop(held);
    until(&array, "it does not open", || state(&array, "late") == "online");
    assert_eq!(array.terminate(), Some(0));
}

#[test]
fn a_pool_waits_a_moment_for_a_drive_it_can_do_without() {
    let mut array = Array::unstarted();
    array.configure("missing_drive_wait_seconds = 5\n");
    array.start();
    let mut arguments = vec!["pool".to_string(), "create".into(), "main".into()];
    arguments.extend(["--protection".to_string(), "single".into()]);
    for number in 0..3 {
        let drive = format!("{},size=64MiB", text(array.path(&format!("{number}.img"))));
        arguments.extend(["--drive".to_string(), drive]);
    }
    array.good(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let (drive, away) = (array.path("2.img"), array.path("away.img"));
    // It comes in time.
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(&drive, &away).unwrap();
    array.start();
    assert_eq!(state(&array, "main"), "waiting");
    std::fs::rename(&away, &drive).unwrap();
    until(&array, "it does not open", || state(&array, "main") == "online");
    // It does not.
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(&drive, &away).unwrap();
    let begun = Instant::now();
    array.start();
    until(&array, "it does not open", || state(&array, "main") == "degraded");
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    // Whoever was out before is not waited for again, however the array ended.
    let known = array.state().join("pools.toml");
    until(&array, "it is not noted", || std::fs::read_to_string(&known).unwrap().contains("vacant"));
    array.kill();
    let begun = Instant::now();
    array.start();
    until(&array, "it does not open", || state(&array, "main") == "degraded");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    // One that came back is.
    std::fs::rename(&away, &drive).unwrap();
    until(&array, "it is not taken back", || state(&array, "main") == "online");
    until(&array, "it is not noted", || !std::fs::read_to_string(&known).unwrap().contains("vacant"));
    array.kill();
    std::fs::rename(&drive, &away).unwrap();
    array.start();
    assert_eq!(state(&array, "main"), "waiting");
}

/// A pool `main` of four drives `0.img` to `3.img` that can lose two, with a volume `v`.
fn four_drives() -> Array {
    let array = Array::started();
    let mut arguments = vec!["pool".to_string(), "create".into(), "main".into()];
    arguments.extend(["--protection".to_string(), "dual".into()]);
    for number in 0..4 {
        let drive = format!("{},size=64MiB", text(array.path(&format!("{number}.img"))));
        arguments.extend(["--drive".to_string(), drive]);
    }
    array.good(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    array.good(&["volume", "create", "v", "--size", "32MiB"]);
    array
}

fn drive(array: &Array, number: usize) -> serde_json::Value {
    array.json(&["pool", "show", "main"])["drives"][number].clone()
}

/// The harm: a drive that was a minute late at boot stayed out until a person came, and a second loss then
/// took more than it should.
#[test]
fn a_drive_that_comes_after_its_pool_opened_without_it_is_taken_back() {
    let mut array = four_drives();
    let mut nbd = Nbd::connect(array.state(), "v");
    nbd.write(0, &[1; BLOCK]);
    drop(nbd);
    assert_eq!(array.terminate(), Some(0));
    for number in [1, 2] {
        let (there, away) = (array.path(&format!("{number}.img")), array.path(&format!("{number}.away")));
        std::fs::rename(there, away).unwrap();
    }
    array.start();
    assert_eq!(state(&array, "main"), "degraded");
    for number in [1, 2] {
        assert_eq!(drive(&array, number)["is_awaited"], true, "{}", drive(&array, number));
    }
    let shown = array.good(&["pool", "show", "main"]);
    assert!(shown.contains("taken back when it comes"), "{shown}");
    for number in [1, 2] {
        assert!(drive(&array, number)["last_path"].as_str().unwrap().ends_with(&format!("/{number}.img")));
        let line = shown.lines().find(|line| {
            line.contains(&format!("(not found, it was at {}", text(array.path(&format!("{number}.img")))))
        });
        assert!(
            line.is_some_and(|line| line.contains("nothing that was looked at is it: cannot open drive")),
            "{shown}"
        );
    }
    Nbd::connect(array.state(), "v").write(BLOCK as u64, &[2; BLOCK]);
    std::fs::rename(array.path("1.away"), array.path("1.img")).unwrap();
    until(&array, "it is not taken back", || drive(&array, 1)["state"] == "online");
    assert!(array.good(&["events"]).contains("drive 1 came"), "{}", array.log());
    // The other is missed once more, and what stands in its place is not it.
    assert_eq!(array.terminate(), Some(0));
    array.start();
    assert_eq!(drive(&array, 2)["is_awaited"], true, "{}", drive(&array, 2));
    std::fs::write(array.path("2.img"), vec![7_u8; 64 << 20]).unwrap();
    until(&array, "nobody says so", || array.log().contains("is not taken back"));
    assert_eq!(std::fs::read(array.path("2.img")).unwrap(), vec![7_u8; 64 << 20]);
    let there = text(array.path("2.img"));
    let advised = format!("ashlar pool replace-drive main 2 --with {there} --force");
    assert!(array.good(&["events"]).contains(&advised), "{}", array.log());
    std::fs::remove_file(array.path("2.img")).unwrap();
    // It is there again at a start.
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("2.away"), array.path("2.img")).unwrap();
    array.start();
    until(&array, "it is not taken back", || state(&array, "main") == "online");
    let mut nbd = Nbd::connect(array.state(), "v");
    assert_eq!((nbd.read(0, BLOCK), nbd.read(BLOCK as u64, BLOCK)), (vec![1; BLOCK], vec![2; BLOCK]));
    drop(nbd);
    assert_eq!(array.json(&["pool", "check", "main"])["errors"], serde_json::json!([]));
}

#[test]
fn a_drive_that_a_person_took_out_or_that_failed_stays_out() {
    let mut array = four_drives();
    // One is missed at the opening, and a person wants it so.
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(array.path("1.img"), array.path("1.away")).unwrap();
    array.start();
    assert_eq!(drive(&array, 1)["is_awaited"], true);
    array.good(&["pool", "offline-drive", "main", "1", "--yes"]);
    let one = drive(&array, 1);
    assert!(one["is_awaited"].is_null() && one["reason"] == "it was taken out of service", "{one}");
    // The other fails a write.
    let Some(frozen) = Frozen::new(&array.path("2.img")) else { return };
    Nbd::connect(array.state(), "v").write(0, &[3; 16 * BLOCK]);
    until(&array, "it does not fail", || drive(&array, 2)["state"] == "out");
    drop(frozen);
    std::fs::rename(array.path("1.away"), array.path("1.img")).unwrap();
    let stays_out = |array: &Array| {
        // Longer than two looks.
        std::thread::sleep(Duration::from_secs(5));
        for number in [1, 2] {
            let drive = drive(array, number);
            assert!(drive["state"] == "out" && drive["is_awaited"].is_null(), "{drive}");
        }
    };
    stays_out(&array);
    assert_eq!(array.terminate(), Some(0));
    array.start();
    stays_out(&array);
    // A person takes them back.
    array.good(&["pool", "online-drive", "main", "1", "--wait"]);
    array.good(&["pool", "online-drive", "main", "2", "--wait"]);
    assert_eq!(state(&array, "main"), "online");
}

#[test]
fn a_pool_that_waits_may_be_opened_elsewhere_or_forgotten_and_the_wait_may_be_switched_off() {
    let mut array = two_pools();
    assert_eq!(array.terminate(), Some(0));
    let (drive, away) = (array.path("late.img"), array.path("away.img"));
    std::fs::rename(&drive, &away).unwrap();
    array.start();
    array.good(&["pool", "import", "late", "--drive", &text(&away)]);
    assert_eq!(state(&array, "late"), "online");
    assert_eq!(array.terminate(), Some(0));
    std::fs::rename(&away, &drive).unwrap();
    array.configure("late_drive_minutes = 0\n");
    array.start();
    assert_eq!(state(&array, "late"), "failed");
    assert!(metric(&array, "ashlar_pool_waiting{pool=\"late\"} 0"));
    assert_eq!(array.terminate(), Some(0));
    array.configure("");
    array.start();
    assert_eq!(state(&array, "late"), "waiting");
    array.good(&["pool", "export", "late"]);
    assert_eq!(array.json(&["pool", "list"]).as_array().unwrap().len(), 1);
    assert_eq!(array.terminate(), Some(0));
}

/// The harm: a moment's error of its only drive closed a pool until the array was started anew.
#[test]
fn a_pool_that_stopped_comes_back_by_itself_when_its_drive_takes_writes() {
    let mut array = two_pools();
    let mut nbd = Nbd::connect(array.state(), "lv");
    nbd.write(0, &[1; BLOCK]);
    let Some(frozen) = Frozen::new(&array.path("late.img")) else { return };
    assert!(nbd.is_refused(BLOCK as u64, &[2; BLOCK]));
    until(&array, "it does not stop", || state(&array, "late") == "read-only");
    let reason = array.json(&["pool", "show", "late"])["reason"].as_str().unwrap().to_string();
    for word in ["late.img", "Operation not permitted", "pool reopen late"] {
        assert!(reason.contains(word), "`{word}` is not in: {reason}");
    }
    // Reads go on, whatever a person tries meanwhile.
    assert_eq!(nbd.read(0, BLOCK), [1; BLOCK]);
    array.refused(&["pool", "reopen", "late"], &["`late`", "late.img", "Operation not permitted"]);
    assert_eq!(nbd.read(0, BLOCK), [1; BLOCK]);
    drop(frozen);
    until(&array, "it does not come back", || state(&array, "late") == "online");
    // The same client goes on.
    nbd.write(BLOCK as u64, &[3; BLOCK]);
    assert_eq!((nbd.read(0, BLOCK), nbd.read(BLOCK as u64, BLOCK)), (vec![1; BLOCK], vec![3; BLOCK]));
    drop(nbd);
    assert_eq!(array.json(&["pool", "check", "late"])["errors"], serde_json::json!([]));
    assert!(array.log().contains("takes writes again"), "{}", array.log());
    assert_eq!(array.terminate(), Some(0));
    array.start();
    assert_eq!(Nbd::connect(array.state(), "lv").read(BLOCK as u64, BLOCK), [3; BLOCK]);
}

#[test]
fn a_pool_is_opened_again_when_a_person_says_so() {
    let array = two_pools();
    let mut nbd = Nbd::connect(array.state(), "lv");
    let Some(frozen) = Frozen::new(&array.path("late.img")) else { return };
    assert!(nbd.is_refused(0, &[2; BLOCK]));
    until(&array, "it does not stop", || state(&array, "late") == "read-only");
    drop(frozen);
    assert_eq!(array.json(&["pool", "reopen", "late"])["state"], "online");
    nbd.write(0, &[4; BLOCK]);
    array.good(&["volume", "create", "more", "--size", "64MiB", "--pool", "late"]);
    // One that takes writes is left alone.
    assert_eq!(array.json(&["pool", "reopen", "late"])["state"], "online");
    assert_eq!(nbd.read(0, BLOCK), [4; BLOCK]);
    array.refused(&["pool", "reopen", "nope"], &["`nope`"]);
}

/// The harm: `pool export` said that it failed, and had closed and forgotten the pool.
#[test]
fn a_pool_that_stopped_is_exported_as_any_other() {
    let array = two_pools();
    let mut nbd = Nbd::connect(array.state(), "lv");
    nbd.write(0, &[5; BLOCK]);
    let Some(frozen) = Frozen::new(&array.path("late.img")) else { return };
    assert!(nbd.is_refused(0, &[6; BLOCK]));
    until(&array, "it does not stop", || state(&array, "late") == "read-only");
    drop(nbd);
    until(&array, "it is in use", || array.run(&["pool", "export", "late"]).status == 0);
    assert_eq!(array.json(&["pool", "list"]).as_array().unwrap().len(), 1);
    drop(frozen);
    array.good(&["pool", "import", "late", "--drive", &text(array.path("late.img"))]);
    assert_eq!(Nbd::connect(array.state(), "lv").read(0, BLOCK), [5; BLOCK]);
}

/// A directory with a small file system of its own, until this is dropped.
struct SmallHost(std::path::PathBuf);

impl SmallHost {
    fn on(directory: std::path::PathBuf) -> SmallHost {
        std::fs::create_dir(&directory).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=300m", "none"];
        assert!(Command::new("mount").args(mount).arg(&directory).status().unwrap().success());
        SmallHost(directory)
    }

    /// Gives back what a drive's file does not use, and takes all room there is.
    fn fill(&self, drive: &Path) {
        let file = std::fs::File::options().read(true).write(true).open(drive).unwrap();
        let size = file.metadata().unwrap().len();
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let mut at = 0;
        while at < size {
            let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(at)).unwrap();
            let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(hole)).unwrap_or(size);
            if hole < data {
                rustix::fs::fallocate(&file, flags, hole, data - hole).unwrap();
            }
            at = data;
        }
        let mut filler = std::fs::File::create(self.0.join("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[1; BLOCK]).is_ok() {}
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The harm: a pool on a full file system was closed for good, and nobody was told why.
#[test]
fn a_pool_on_a_full_file_system_is_opened_to_read_and_comes_back_when_there_is_room() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to mount a small file system");
        return;
    }
    let mut array = Array::started();
    let host = SmallHost::on(array.path("host"));
    let drive = array.path("host/full.img");
    array.good(&["pool", "create", "full", "--drive", &format!("{},size=256MiB", text(&drive))]);
    array.good(&["volume", "create", "v", "--size", "64MiB"]);
    Nbd::connect(array.state(), "v").write(0, &[7; BLOCK]);
    array.kill();
    host.fill(&drive);
    array.start();
    let pool = array.json(&["pool", "show", "full"]);
    assert_eq!(pool["state"], "read-only", "{pool}\n{}", array.log());
    let reason = pool["reason"].as_str().unwrap();
    for word in ["full.img", "No space left", "make room", "pool reopen full"] {
        assert!(reason.contains(word), "`{word}` is not in: {reason}");
    }
    let mut nbd = Nbd::connect(array.state(), "v");
    assert_eq!(nbd.read(0, BLOCK), [7; BLOCK]);
    assert!(nbd.is_refused(0, &[8; BLOCK]));
    std::fs::remove_file(array.path("host/filler")).unwrap();
    until(&array, "it does not come back", || state(&array, "full") == "online");
    nbd.write(0, &[9; BLOCK]);
    assert_eq!(nbd.read(0, BLOCK), [9; BLOCK]);
    drop(nbd);
    assert_eq!(array.json(&["pool", "check", "full"])["errors"], serde_json::json!([]));
    assert_eq!(array.terminate(), Some(0));
    drop(host);
}

/// An attached volume goes on as well; its file system has to be mounted anew.
#[test]
fn an_attached_device_goes_on_when_its_pool_comes_back() {
    if !can_attach() {
        return;
    }
    let array = two_pools();
    let device = array.good(&["attach", "lv"]);
    let dd = |seek: &str| {
        let mut command = Command::new("dd");
        let output = format!("of={}", device.trim());
        command.args(["if=/dev/zero", &output, "bs=4096", "count=1", "oflag=direct", seek]);
        command.stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(dd("seek=1"));
    let Some(frozen) = Frozen::new(&array.path("late.img")) else { return };
    // Zeroes over zeroes need no write, so what is there must be given back.
    let mut nbd = Nbd::connect(array.state(), "lv");
    assert!(nbd.is_refused(0, &[1; BLOCK]));
    until(&array, "it does not stop", || {
        let _ = dd("seek=2");
        state(&array, "late") == "read-only"
    });
    drop(frozen);
    until(&array, "it does not come back", || state(&array, "late") == "online");
    until(&array, "the device does not go on", || dd("seek=3"));
    assert_eq!(array.json(&["volume", "show", "lv"])["device"], device.trim());
    array.good(&["detach", "lv"]);
}

/// A process that ends with the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process with a copy of all mounts.
fn with_own_mounts(propagation: &str, command: &str) -> Other {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", propagation, "sh", "-c", command]);
    let other = Other(unshare.stdin(Stdio::null()).spawn().unwrap());
    let space = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).unwrap();
    let name = || std::fs::read_to_string(format!("/proc/{}/comm", other.0.id())).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while space(&other.0.id().to_string()) == space("self") || name().trim() != "sleep" {
        assert!(Instant::now() < end, "unshare does not come to its program");
        std::thread::sleep(Duration::from_millis(5));
    }
    other
}

/// The harm: the stop waited for whoever else had a copy of the mount, and the pools stayed open for so long.
#[test]
fn a_stop_ends_while_another_mount_namespace_has_the_directory_of_volumes() {
    if !can_attach() {
        return;
    }
    for propagation in ["private", "slave"] {
        let mut array = Array::with_pool();
        array.good(&["volume", "create", "db", "--size", "64MiB"]);
        array.good(&["attach", "db"]);
        array.good(&["detach", "db"]);
        let other = with_own_mounts(propagation, "exec sleep 600");
        // One that also has a file open there, which the kernel counts.
        let volume = text(array.state().join("volumes/db"));
        let holder = with_own_mounts("private", &format!("exec 3<{volume}; exec sleep 600"));
        let begun = Instant::now();
        assert_eq!(array.terminate(), Some(0), "{}", array.log());
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let log = array.log();
        let process = format!("process {} (sleep)", other.0.id());
        assert!(log.contains(&process) && log.contains("mount namespace"), "{log}");
        assert!(log.contains("pool main: closed"), "{log}");
        array.start();
        let recovery = &array.json(&["pool", "show", "main"])["recovery"];
        assert_eq!(recovery["groups_replayed"], 0, "the pool was closed in order");
        array.good(&["attach", "db"]);
        array.good(&["detach", "db"]);
        drop((other, holder));
    }
}

/// Not even a process has to live there.
#[test]
fn a_stop_ends_while_a_mount_namespace_without_a_process_has_the_directory() {
    if !can_attach() {
        return;
    }
    let mut array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    array.good(&["attach", "db"]);
    array.good(&["detach", "db"]);
    let other = with_own_mounts("private", "exec sleep 600");
    let kept = std::fs::File::open(format!("/proc/{}/ns/mnt", other.0.id())).unwrap();
    drop(other);
    let begun = Instant::now();
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(kept);
}
