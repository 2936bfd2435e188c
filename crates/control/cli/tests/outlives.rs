//! What is attached outlives the array: killed, stopped, without its keeper.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::{Array, can_attach};

/// An array whose attachments outlive it, with a volume mounted as ext4. Everything is taken down at the end.
struct Lasting {
    array: Array,
    mount: PathBuf,
}

impl Lasting {
    fn attached() -> Option<Lasting> {
        can_attach().then(|| {
            let mut array = Array::unstarted();
            array.configure("fuse_transport = \"classic\"\nattach_wait_seconds = 60\n");
            array.start();
            let drive = format!("{},size=1GiB", array.path("main.img").display());
            array.good(&["pool", "create", "main", "--drive", &drive]);
            array.good(&["volume", "create", "db", "--size", "512MiB"]);
            let mount = array.path("mnt");
            array.good(&["attach", "db", "--format", "ext4", "--mount", mount.to_str().unwrap()]);
            Lasting { array, mount }
        })
    }

    /// A program writes while the array ends in this way, and starts, so many times.
    fn writes_over(&mut self, times: u64, end: impl Fn(&mut Array)) {
        let writer = Writer::start(&self.mount);
        for round in 1..=times {
            writer.wait_for(round * 50);
            end(&mut self.array);
            let before = writer.count();
            std::thread::sleep(Duration::from_millis(50));
            assert!(writer.count() <= before + 1, "nobody serves");
            self.array.start();
            writer.wait_for(before + 20);
        }
        writer.end(&self.mount);
    }

    fn keeper(&self) -> u32 {
        let state = self.array.state().to_str().unwrap();
        let found = Command::new("pgrep").args(["-f", &format!("keep --state {state}")]).output().unwrap();
        String::from_utf8_lossy(&found.stdout).trim().parse().unwrap()
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let _gone = self.array.run(&["detach", "db", "--force", "--yes"]);
    }
}

/// A program that writes and syncs without end, and counts.
struct Writer {
    is_working: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<std::io::Result<()>>,
}

impl Writer {
    fn start(directory: &Path) -> Writer {
        let (is_working, written) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let path = directory.join("log");
        let (goes_on, count) = (is_working.clone(), written.clone());
        let thread = std::thread::spawn(move || {
            let mut file = File::create(path)?;
            while goes_on.load(Ordering::Relaxed) {
                let number = count.load(Ordering::Relaxed) + 1;
                file.write_all(&number.to_le_bytes().repeat(64))?;
                file.sync_data()?;
                count.store(number, Ordering::Relaxed);
            }
            Ok(())
        });
        Writer { is_working, written, thread }
    }

    fn count(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn wait_for(&self, count: u64) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.count() < count {
            assert!(Instant::now() < end, "{} of {count} written", self.count());
            assert!(!self.thread.is_finished(), "the writer met an error");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it without an error, and compares all it wrote.
    fn end(self, directory: &Path) {
        self.is_working.store(false, Ordering::Relaxed);
        let written = self.written.clone();
        self.thread.join().unwrap().unwrap();
        // What is compared comes from the volume.
        let _ = fs::write("/proc/sys/vm/drop_caches", "3");
        let file = File::open(directory.join("log")).unwrap();
        let length = file.metadata().unwrap().len();
        assert!(length >= written.load(Ordering::Relaxed) * 512);
        let mut record = [0; 512];
        for number in 1..=written.load(Ordering::Relaxed) {
            file.read_exact_at(&mut record, (number - 1) * 512).unwrap();
            assert_eq!(record[..], number.to_le_bytes().repeat(64)[..], "record {number}");
        }
    }
}

#[test]
fn a_killed_array_is_a_pause_for_who_uses_its_volumes() {
    let Some(mut lasting) = Lasting::attached() else { return };
    lasting.writes_over(5, Array::kill);
    let attached = lasting.array.json(&["status"]);
    assert_eq!(attached["attachment_count"], 1, "{attached}");
    let volumes = lasting.array.json(&["volume", "list"]);
    assert!(volumes[0]["device"].as_str().unwrap().starts_with("/dev/loop"), "{volumes}");
    lasting.array.good(&["detach", "db"]);
    lasting.array.good(&["attach", "db", "--mount", lasting.mount.to_str().unwrap()]);
    assert!(lasting.mount.join("log").exists());
}

/// Wherever an attach is cut short, the next array starts, and goes on with what is attached.
#[test]
fn an_array_that_is_killed_while_it_attaches_is_a_pause() {
    let Some(mut lasting) = Lasting::attached() else { return };
    let mount = lasting.array.path("other").display().to_string();
    lasting.array.good(&["volume", "create", "other", "--size", "256MiB"]);
    lasting.array.good(&["attach", "other", "--format", "ext4"]);
    lasting.array.good(&["detach", "other"]);
    let writer = Writer::start(&lasting.mount);
    for round in 0..30 {
        let mut attach = Command::new(env!("CARGO_BIN_EXE_ashlar"));
        attach.arg("--state").arg(lasting.array.state()).args(["attach", "other", "--mount", &mount]);
        attach.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut attach = attach.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(2 * round));
        lasting.array.kill();
        attach.wait().unwrap();
        let before = writer.count();
        lasting.array.start();
        writer.wait_for(before + 5);
        let volumes = lasting.array.json(&["volume", "list"]);
        let other = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == "other").unwrap();
        if other["device"].is_string() {
            lasting.array.good(&["detach", "other"]);
        }
    }
    writer.end(&lasting.mount);
}

#[test]
fn an_orderly_stop_leaves_what_is_attached_to_the_next_start() {
    let Some(mut lasting) = Lasting::attached() else { return };
    lasting.writes_over(3, |array| assert_eq!(array.terminate(), Some(0)));
    assert!(lasting.array.log().contains("stays attached: its requests wait"));
    // Detached, nothing is left: the keeper ends with its array.
    lasting.array.good(&["detach", "db"]);
}

/// The harm: a token's file with a wrong mode, and all attached volumes ended with I/O errors.
#[test]
fn a_start_that_is_refused_leaves_what_is_attached_to_the_next_one() {
    let Some(mut lasting) = Lasting::attached() else { return };
    lasting.writes_over(2, |array| {
        array.terminate();
        let token = array.state().join("api.token");
        let allow = |mode| fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
        allow(0o644);
        let refused = array.serve_command().output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && told.contains("token file"), "{told}");
        allow(0o600);
    });
}

#[test]
fn a_keeper_that_is_killed_is_replaced() {
    let Some(mut lasting) = Lasting::attached() else { return };
    let writer = Writer::start(&lasting.mount);
    writer.wait_for(10);
    let first = lasting.keeper();
    signal(first, rustix::process::Signal::KILL);
    let end = Instant::now() + Duration::from_secs(20);
    while !lasting.array.log().contains("another keeps what is attached") {
        assert!(Instant::now() < end, "{}", lasting.array.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_ne!(lasting.keeper(), first);
    writer.wait_for(writer.count() + 10);
    lasting.array.kill();
    // One that does not answer may still have what is attached: nobody starts without asking.
    let second = lasting.keeper();
    signal(second, rustix::process::Signal::STOP);
    let refused = lasting.array.serve_command().stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("ashlar-keep") && said.contains("-CONT"), "{said}");
    signal(second, rustix::process::Signal::CONT);
    lasting.array.start();
    writer.wait_for(writer.count() + 10);
    writer.end(&lasting.mount);
}

fn signal(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// The same program stands for a newer one: what matters is that another process image takes over.
#[test]
fn an_upgrade_goes_on_in_the_same_process() {
    let Some(lasting) = Lasting::attached() else { return };
    let array = &lasting.array;
    let writer = Writer::start(&lasting.mount);
    writer.wait_for(20);
    let program = lasting.array.path("ashlar-new");
    fs::copy(env!("CARGO_BIN_EXE_ashlar"), &program).unwrap();
    let before = array.json(&["status"]);
    let done = array.json(&["upgrade", program.to_str().unwrap()]);
    assert!(done["pause_millis"].as_u64().unwrap() > 0, "{done}");
    let after = array.json(&["status"]);
    assert_eq!(before["process_id"], after["process_id"]);
    assert_ne!(before["started_unix_millis"], after["started_unix_millis"]);
    let running = fs::read_link(format!("/proc/{}/exe", array.pid())).unwrap();
    assert_eq!(running, program);
    writer.wait_for(writer.count() + 20);
    // What is no program of the array's is refused, and nothing happens.
    for (other, why) in
        [("/bin/true", "cannot take over"), ("/etc/passwd", "cannot take over"), ("/nowhere", "")]
    {
        array.refused(&["upgrade", other], &[other, why]);
    }
    writer.wait_for(writer.count() + 20);
    writer.end(&lasting.mount);
    // Of two at once one is told that it came second, or finds nobody: not both are done.
    let twice = [0, 1].map(|_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
        command.arg("--state").arg(array.state()).arg("upgrade").arg(&program);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    });
    let done = twice.map(|mut child| child.wait().unwrap().success());
    assert!(done.contains(&true), "{done:?}");
    array.wait_attached("db");
}

/// Nobody comes back: who waits hears so, and does not wait for ever.
#[test]
fn requests_do_not_wait_for_ever() {
    let Some(mut lasting) = Lasting::attached() else { return };
    lasting.array.terminate();
    lasting.array.configure("fuse_transport = \"classic\"\nattach_wait_seconds = 1\n");
    lasting.array.start();
    let writer = Writer::start(&lasting.mount);
    writer.wait_for(10);
    lasting.array.kill();
    assert!(writer.thread.join().unwrap().is_err(), "an error within the patience of this test");
    let _gone = Command::new("umount").args(["--lazy"]).arg(&lasting.mount).status();
    // The next array clears up, and attaches again.
    lasting.array.start();
    lasting.array.wait_attached("db");
    assert!(lasting.mount.join("log").exists());
    // No device of the one before is left.
    lasting.array.good(&["detach", "db"]);
    let devices = Command::new("losetup").args(["--noheadings", "--output", "BACK-FILE"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&devices.stdout).lines().any(|file| file == "/db"), "{devices:?}");
}
