//! What somebody mounts upon or inside a volume's mount, or unmounts, behind the array's back. Needs root.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Array, can_attach, done};

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// A temporary file system of somebody else, with a file in it.
struct Foreign(PathBuf);

impl Foreign {
    fn on(directory: PathBuf) -> Foreign {
        std::fs::create_dir_all(&directory).unwrap();
        run("mount", &["-t", "tmpfs", "theirs", &directory.display().to_string()]);
        std::fs::write(directory.join("keep"), "keep").unwrap();
        Foreign(directory)
    }

    fn is_whole(&self) -> bool {
        std::fs::read_to_string(self.0.join("keep")).is_ok_and(|text| text == "keep")
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _gone_already = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mounted() -> (Array, PathBuf) {
    let array = Array::with_pool();
    array.good(&["volume", "create", "db", "--size", "64MiB"]);
    let mount = array.path("mnt");
    array.good(&["attach", "db", "--format", "ext4", "--mount", &mount.display().to_string()]);
    std::fs::write(mount.join("row"), "row").unwrap();
    run("sync", &["-f", &mount.display().to_string()]);
    (array, mount)
}

fn unmount(directory: &Path) {
    run("umount", &[&directory.display().to_string()]);
}

/// The loss: a detach, a stop and the start after a crash unmounted what somebody else had mounted there.
#[test]
fn what_is_mounted_upon_or_inside_a_mount_stays_and_is_named() {
    if !can_attach() {
        return;
    }
    for inside in ["", "sub"] {
        let (mut array, mount) = mounted();
        let foreign = Foreign::on(if inside.is_empty() { mount.clone() } else { mount.join(inside) });
        let place = foreign.0.display().to_string();
        for more in [&[][..], &["--force", "--yes"]] {
            array.refused(&[&["detach", "db"], more].concat(), &["something else is mounted on", &place]);
            assert!(foreign.is_whole(), "{more:?}");
        }
        assert!(array.good(&["volume", "users", "db"]).contains(&format!("umount {place}")));
        array.kill();
        array.start();
        assert!(foreign.is_whole(), "after a kill: {}", array.log());
        assert!(array.log().contains("stays mounted"), "{}", array.log());
        // It is not tried again behind our back.
        array.wait_for_log("volume db: not attached as it was before the start", 1);
        drop(foreign);
        unmount(&mount);
        array.good(&["attach", "db", "--mount", &mount.display().to_string()]);
        assert_eq!(std::fs::read_to_string(mount.join("row")).unwrap(), "row");
        let foreign = Foreign::on(mount.join("sub"));
        array.terminate();
        assert!(foreign.is_whole(), "after a stop: {}", array.log());
        drop(foreign);
        unmount(&mount);
    }
}

/// The loss: a second array took a living one for a killed one, and its mounts with it.
#[test]
fn a_living_array_is_known_though_its_lock_and_sockets_were_removed() {
    if !can_attach() {
        return;
    }
    let (array, mount) = mounted();
    for name in ["lock", "api.sock", "nbd.sock"] {
        std::fs::remove_file(array.state().join(name)).unwrap();
    }
    let second = done(array.serve_command().output().unwrap());
    assert_eq!(second.status, 1, "{}", second.err);
    let told = second.err;
    assert!(told.contains("an array serves") && told.contains("stop that array first"), "{told}");
    assert_eq!(std::fs::read_to_string(mount.join("row")).unwrap(), "row");
}

/// Nobody said why nothing could be attached any more.
#[test]
fn a_directory_of_volumes_that_was_unmounted_is_told() {
    if !can_attach() {
        return;
    }
    let (mut array, mount) = mounted();
    array.good(&["detach", "db"]);
    run("umount", &["-l", &array.state().join("volumes").display().to_string()]);
    let attach = ["attach", "db", "--mount", &mount.display().to_string()];
    array.refused(&attach, &["somebody unmounted", "volumes", "start it again"]);
    array.terminate();
    array.start();
    array.good(&attach);
    assert_eq!(std::fs::read_to_string(mount.join("row")).unwrap(), "row");
    array.good(&["detach", "db"]);
}

/// A container or a script mounted over a directory that was in use, and its files were out of sight.
#[test]
fn a_mount_that_hides_something_is_told() {
    if !can_attach() {
        return;
    }
    let (array, mount) = mounted();
    array.good(&["detach", "db"]);
    std::fs::create_dir_all(&mount).unwrap();
    std::fs::write(mount.join("below"), "below").unwrap();
    array.good(&["attach", "db", "--mount", &mount.display().to_string()]);
    array.wait_for_events(&["whose 1 entries are out of sight"]);
    array.good(&["detach", "db"]);
    assert_eq!(std::fs::read_to_string(mount.join("below")).unwrap(), "below");
}
