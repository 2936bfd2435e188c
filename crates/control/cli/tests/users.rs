//! Whoever uses a volume is known, whichever way: nothing is taken away under them unless a person says so.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use support::nbd::Nbd;
use support::{Array, can_attach, has_program};

/// A process that ends with the test.
struct Other(Child);

impl Other {
    /// A process in a mount namespace of its own that keeps what is mounted now.
    fn in_own_mounts() -> Other {
        Other::with_mounts("private")
    }

    fn with_mounts(propagation: &str) -> Other {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", propagation, "sleep", "600"]);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let other = Other(child);
        let space = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while space(&other.0.id().to_string()) == space("self") || other.name() != "sleep" {
            assert!(Instant::now() < end, "unshare does not come to its program");
            thread::sleep(Duration::from_millis(5));
        }
        other
    }

    fn sees_mounted(&self, directory: &Path) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/mounts", self.0.id())).unwrap();
        text.lines().any(|line| line.split(' ').nth(1) == directory.to_str())
    }

    fn name(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/comm", self.0.id())).unwrap().trim().to_string()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn is_mounted(directory: &Path) -> bool {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
    text.lines().any(|line| line.split(' ').nth(1) == directory.to_str())
}

/// An array with a volume `db` of 256 MiB that has a snapshot `noon`.
fn array_with_volume() -> Array {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    array.good(&["snapshot", "create", "noon", "db"]);
    array
}

/// Every verb that takes a volume away is refused, and names `who`.
fn nothing_is_taken(array: &Array, who: &[&str]) {
    for arguments in [
        &["volume", "delete", "db", "--now", "--yes"][..],
        &["snapshot", "restore", "noon", "--no-backup", "--yes"],
        &["volume", "resize", "db", "--size", "128MiB", "--shrink", "--yes"],
        &["pool", "export", "main"],
    ] {
        array.refused(arguments, &[&["`db`"], who].concat());
    }
}

/// The loss: the second detach of a device that was mounted elsewhere said "detached", and from then on the
/// volume was deleted, restored, shrunk and mounted a second time under the first mount.
#[test]
fn a_mount_in_another_namespace_keeps_the_volume_attached_however_often_one_asks() {
    if !can_attach() || !has_program("unshare") {
        return;
    }
    let array = array_with_volume();
    let mount = array.path("mnt").display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount]);
    let other = Other::in_own_mounts();
    let who = other.0.id().to_string();
    for _ in 0..2 {
        array.refused(&["detach", "db"], &["db", &who, "sleep", &mount]);
        assert!(is_mounted(&array.path("mnt")), "a refusal changes nothing");
        nothing_is_taken(&array, &["attached", "ashlar detach db"]);
        array.refused(&["attach", "db"], &["attached"]);
    }
    let users = array.json(&["volume", "users", "db"]);
    let found = users.as_array().unwrap().iter().any(|user| {
        user["kind"] == "mount" && user["process_id"] == other.0.id() && user["path"] == mount.as_str()
    });
    assert!(found, "{users}");
    // A process that is about to leave its copies behind is waited for.
    let leaving = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(other);
    });
    array.good(&["detach", "db"]);
    leaving.join().unwrap();
    assert_eq!(array.json(&["volume", "users", "db"]), serde_json::json!([]));
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
}

/// As docs/restarts.md says of containers: what is mounted later is seen where the machine's mounts are
/// followed, and what follows does not keep the volume.
#[test]
fn who_follows_the_mounts_of_the_machine_sees_an_attached_volume_come_and_go() {
    if !can_attach() || !has_program("unshare") {
        return;
    }
    let array = array_with_volume();
    let mount = array.path("mnt");
    // Whatever this machine makes of its root: below this directory mounts are passed on.
    run("mount", &["--bind", mount_of(&array), mount_of(&array)]);
    run("mount", &["--make-shared", mount_of(&array)]);
    let (follower, other) = (Other::with_mounts("slave"), Other::with_mounts("private"));
    array.good(&["attach", "db", "--format", "ext4", "--mount", mount.to_str().unwrap()]);
    assert!(follower.sees_mounted(&mount) && !other.sees_mounted(&mount));
    array.good(&["detach", "db"]);
    assert!(!follower.sees_mounted(&mount));
    drop((follower, other));
    run("umount", &["-l", mount_of(&array)]);
}

/// The directory beside the state directory.
fn mount_of(array: &Array) -> &str {
    array.state().parent().unwrap().to_str().unwrap()
}

#[test]
fn a_process_with_the_device_open_is_named_and_the_volume_stays_attached() {
    if !can_attach() {
        return;
    }
    let array = array_with_volume();
    let device = array.good(&["attach", "db"]).trim().to_string();
    let open = File::open(&device).unwrap();
    let me = std::process::id().to_string();
    for _ in 0..2 {
        array.refused(&["detach", "db"], &["db", &me, &device]);
        nothing_is_taken(&array, &["attached"]);
    }
    drop(open);
    array.good(&["detach", "db"]);
    array.good(&["snapshot", "restore", "noon", "--no-backup", "--yes"]);
}

#[test]
fn a_device_that_stands_on_the_device_keeps_it() {
    if !can_attach() || !has_program("losetup") {
        return;
    }
    let array = array_with_volume();
    let device = array.good(&["attach", "db"]).trim().to_string();
    let output = Command::new("losetup").args(["--find", "--show", &device]).output().unwrap();
    let above = String::from_utf8(output.stdout).unwrap().trim().to_string();
    assert!(above.starts_with("/dev/loop"), "{above}");
    for _ in 0..2 {
        array.refused(&["detach", "db"], &["db", &above]);
    }
    run("losetup", &["--detach", &above]);
    array.good(&["detach", "db"]);
}

/// The loss: `losetup -d` of a mounted device only marks it, and the array took it for gone.
#[test]
fn a_mounted_device_that_was_told_to_go_is_still_unmounted_by_detach() {
    if !can_attach() || !has_program("losetup") {
        return;
    }
    let array = array_with_volume();
    let mount = array.path("mnt");
    let mount_text = mount.display().to_string();
    let out = array.good(&["attach", "db", "--format", "ext4", "--mount", &mount_text]);
    let device = out.lines().next().unwrap();
    run("losetup", &["--detach", device]);
    nothing_is_taken(&array, &["attached"]);
    std::fs::write(mount.join("file"), b"kept").unwrap();
    let open = File::open(mount.join("file")).unwrap();
    for _ in 0..2 {
        array.refused(&["detach", "db"], &["db", &std::process::id().to_string()]);
        nothing_is_taken(&array, &["attached"]);
    }
    drop(open);
    array.good(&["detach", "db"]);
    assert!(!is_mounted(&mount));
    array.good(&["attach", "db", "--mount", &mount_text]);
    assert_eq!(std::fs::read(mount.join("file")).unwrap(), b"kept");
    array.good(&["detach", "db"]);
}

#[test]
fn a_file_open_below_a_directory_that_was_unmounted_lazily_keeps_the_volume() {
    if !can_attach() || !has_program("umount") {
        return;
    }
    let array = array_with_volume();
    let mount = array.path("mnt");
    let mount_text = mount.display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount_text]);
    let open = File::create(mount.join("open")).unwrap();
    run("umount", &["--lazy", &mount_text]);
    for _ in 0..2 {
        array.refused(&["detach", "db"], &["db", &std::process::id().to_string()]);
        nothing_is_taken(&array, &["attached"]);
    }
    drop(open);
    array.good(&["detach", "db"]);
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
}

/// The loss: btrfs shows a device number of its own in mountinfo, so detach and stop never unmounted it: what
/// was not synced was lost, and the dead mount stayed.
#[test]
fn btrfs_is_unmounted_by_detach_by_a_stop_and_after_a_crash() {
    let has_btrfs = std::fs::read_to_string("/proc/filesystems").unwrap().contains("btrfs");
    if !can_attach() || !has_btrfs || !has_program("mkfs.btrfs") {
        return;
    }
    let mut array = array_with_volume();
    let mount = array.path("mnt");
    let mount_text = mount.display().to_string();
    let device = array.good(&["attach", "db"]);
    run("mkfs.btrfs", &["-q", device.trim()]);
    array.good(&["detach", "db"]);
    array.good(&["attach", "db", "--mount", &mount_text]);
    std::fs::write(mount.join("first"), b"kept").unwrap();
    let users = array.json(&["volume", "users", "db"]);
    assert!(users.to_string().contains(&mount_text), "{users}");
    array.good(&["detach", "db"]);
    assert!(!is_mounted(&mount));
    array.good(&["attach", "db", "--mount", &mount_text]);
    assert_eq!(std::fs::read(mount.join("first")).unwrap(), b"kept");
    std::fs::write(mount.join("second"), b"not synced").unwrap();
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    assert!(!is_mounted(&mount));
    array.start();
    array.wait_attached("db");
    assert_eq!(std::fs::read(mount.join("second")).unwrap(), b"not synced");
    array.kill();
    array.start();
    array.wait_attached("db");
    assert_eq!(std::fs::read(mount.join("second")).unwrap(), b"not synced");
    array.good(&["detach", "db"]);
}

/// A stop takes a busy file system out of sight; what was written to it by then is written out first.
#[test]
fn what_was_written_before_a_stop_is_there_though_a_file_was_still_open() {
    if !can_attach() {
        return;
    }
    let mut array = array_with_volume();
    let mount = array.path("mnt");
    let mount_text = mount.display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount_text]);
    let mut open = File::create(mount.join("open")).unwrap();
    open.write_all(b"not synced").unwrap();
    assert_eq!(array.terminate(), Some(1), "it says that the stop was not clean: {}", array.log());
    assert!(array.log().contains(&format!("process {}", std::process::id())), "{}", array.log());
    drop(open);
    array.start();
    array.wait_attached("db");
    assert_eq!(std::fs::read(mount.join("open")).unwrap(), b"not synced");
    array.good(&["detach", "db"]);
}

#[test]
fn an_open_file_of_a_volume_keeps_it_and_its_process_is_named() {
    if !can_attach() {
        return;
    }
    let array = array_with_volume();
    // The directory of volumes is mounted with the first attachment.
    array.good(&["attach", "db"]);
    array.good(&["detach", "db"]);
    let me = std::process::id().to_string();
    let file = File::options().read(true).write(true).open(array.state().join("volumes/db")).unwrap();
    nothing_is_taken(&array, &[&me, "volumes/db"]);
    array.refused(&["attach", "db"], &["db", &me]);
    drop(file);
    let file = File::open(array.state().join("volumes/db@noon")).unwrap();
    array.refused(&["snapshot", "delete", "noon", "--yes"], &["db@noon", &me]);
    array.refused(&["pool", "export", "main"], &["db@noon", &me]);
    array.good(&["snapshot", "delete", "noon", "--yes", "--force"]);
    drop(file);
    // A reader does not stand in the way of an attachment.
    let file = File::open(array.state().join("volumes/db")).unwrap();
    array.good(&["attach", "db"]);
    drop(file);
    array.good(&["detach", "db"]);
    array.good(&["volume", "delete", "db", "--now", "--yes"]);
}

#[test]
fn nbd_clients_keep_volumes_and_snapshots_until_they_are_disconnected() {
    let array = array_with_volume();
    let me = std::process::id().to_string();
    let reader = Nbd::connect(array.state(), "db@noon");
    array.refused(&["snapshot", "delete", "noon", "--yes"], &["db@noon", &me, "volume disconnect"]);
    array.refused(&["pool", "export", "main"], &["db@noon", "NBD"]);
    array.good(&["snapshot", "create", "other", "db"]);
    array.good(&["snapshot", "delete", "other", "--yes"]);
    drop(reader);
    let mut writer = Nbd::connect(array.state(), "db");
    writer.write(0, &[1; 4096]);
    nothing_is_taken(&array, &[&me, "NBD", "ashlar volume disconnect db"]);
    let users = array.json(&["volume", "users", "db"]);
    assert_eq!(users[0]["kind"], "nbd");
    assert_eq!(users[0]["process_id"], std::process::id());
    let done = array.json(&["volume", "disconnect", "db"]);
    assert_eq!((&done["cut"].as_array().unwrap().len(), &done["remaining"]), (&1, &serde_json::json!([])));
    assert!(writer.try_write(0, &[2; 4096]).is_err(), "it is cut off");
    let mut writer = Nbd::connect(array.state(), "db");
    array.good(&["snapshot", "restore", "noon", "--no-backup", "--yes", "--force"]);
    assert!(writer.try_write(0, &[2; 4096]).is_err(), "it is cut off");
    assert_eq!(Nbd::connect(array.state(), "db").read(0, 4096), [0; 4096]);
    let _reader = Nbd::connect(array.state(), "db@noon");
    array.good(&["pool", "export", "main", "--force", "--yes"]);
}

/// The loss: a host wrote over NBD beside the mounted file system.
#[test]
fn an_attached_volume_is_read_only_over_nbd_unless_it_is_shared() {
    if !can_attach() {
        return;
    }
    let array = array_with_volume();
    let mut writer = Nbd::connect(array.state(), "db");
    writer.write(0, &[1; 4096]);
    array.refused(&["attach", "db"], &["db", "NBD", "disconnect", "--shared"]);
    drop(writer);
    array.good(&["attach", "db"]);
    let mut reader = Nbd::connect(array.state(), "db");
    assert_eq!(reader.read(0, 4096), [1; 4096]);
    assert!(reader.is_refused(0, &[2; 4096]));
    let done = array.run(&["volume", "disconnect", "db"]);
    assert_eq!(done.status, 3, "{}{}", done.out, done.err);
    assert!(done.err.contains("attached"), "{}", done.err);
    array.good(&["detach", "db"]);
    Nbd::connect(array.state(), "db").write(0, &[3; 4096]);
    array.good(&["attach", "db", "--shared"]);
    Nbd::connect(array.state(), "db").write(0, &[4; 4096]);
    array.good(&["detach", "db"]);
}

#[test]
fn a_forced_detach_takes_it_out_of_sight_and_the_volume_is_known_to_be_used_until_the_last_user_goes() {
    if !can_attach() {
        return;
    }
    let array = array_with_volume();
    let mount = array.path("mnt");
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount.display().to_string()]);
    let open = File::create(mount.join("open")).unwrap();
    array.refused(&["detach", "db", "--force", "--yes"], &["db"]);
    assert!(!is_mounted(&mount));
    nothing_is_taken(&array, &["attached"]);
    array.refused(&["snapshot", "restore", "noon", "--no-backup", "--yes", "--force"], &["attached"]);
    drop(open);
    // The array may have seen the last user go before it is asked.
    let detached = array.run(&["detach", "db"]);
    assert!(detached.status == 0 || detached.err.contains("is not attached"), "{}", detached.err);
    array.good(&["snapshot", "restore", "noon", "--no-backup", "--yes"]);
}

/// The loss: a volume that was deleted by force under its mount came back under another name, was mounted a
/// second time, and both mounts wrote to it.
#[test]
fn who_had_a_volume_when_it_was_deleted_does_not_have_it_again_when_it_comes_back() {
    if !can_attach() {
        return;
    }
    let array = array_with_volume();
    let (old, new) = (array.path("old"), array.path("new"));
    array.good(&["attach", "db", "--format", "ext4", "--mount", &old.display().to_string()]);
    std::fs::write(old.join("rows"), [7; 8192]).unwrap();
    run("sync", &["-f", &old.display().to_string()]);
    let mut file = File::options().write(true).open(array.state().join("volumes/db@noon"));
    assert!(file.is_err(), "an image takes no writer");
    file = File::open(array.state().join("volumes/db"));
    array.run(&["volume", "delete", "db", "--force", "--yes"]);
    assert!(!array.good(&["volume", "list"]).contains("db "), "it is deleted");
    for name in ["db2", "db"] {
        array.good(&["volume", "undelete", "db", "--as", name]);
        let write = File::options().write(true).create(true).truncate(false).open(old.join("rows"));
        let written = write.and_then(|mut file| file.write_all(&[8; 8192]).and_then(|()| file.sync_all()));
        assert!(written.is_err(), "the mount from before writes to {name}");
        if name == "db2" {
            array.good(&["attach", name, "--mount", &new.display().to_string()]);
            assert_eq!(std::fs::read(new.join("rows")).unwrap(), [7; 8192]);
            array.good(&["detach", name]);
            array.good(&["volume", "delete", name, "--yes"]);
            array.good(&["volume", "undelete", name, "--as", "db"]);
            array.good(&["volume", "delete", "db", "--force", "--yes"]);
        }
    }
    drop(file);
    array.run(&["detach", "db", "--force", "--yes"]);
    array.run(&["detach", "db", "--force", "--yes"]);
    array.good(&["attach", "db", "--mount", &new.display().to_string()]);
    assert_eq!(std::fs::read(new.join("rows")).unwrap(), [7; 8192]);
    array.good(&["detach", "db"]);
}
