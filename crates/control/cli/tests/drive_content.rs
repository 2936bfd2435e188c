//! What may become a drive: nothing that stands on the array itself, nothing that somebody may miss, nothing
//! twice. What is refused is left as it was.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Array, can_attach, has_program};

const MIB: u64 = 1 << 20;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

fn sparse(path: &Path, bytes: u64) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
    file
}

/// Something made with one command that another takes away, however the test ends.
struct Made(&'static str, Vec<String>);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = Command::new(self.0).args(&self.1).status();
    }
}

/// A file system mounted on a directory.
fn mounted(what: &[&str], directory: &Path) -> Made {
    std::fs::create_dir_all(directory).unwrap();
    run("mount", &[what, &[&text(directory)]].concat());
    Made("umount", vec!["-l".to_string(), text(directory)])
}

fn loop_over(file: &Path) -> (String, Made) {
    let device = run("losetup", &["--find", "--show", &text(file)]);
    let made = Made("losetup", vec!["--detach".to_string(), device.clone()]);
    (device, made)
}

/// Three drives that survive one, and a volume.
fn protected() -> Array {
    let array = Array::started();
    let mut arguments = vec!["pool".to_string(), "create".into(), "main".into()];
    arguments.extend(["--protection".to_string(), "single".into()]);
    for number in 0..3 {
        arguments.extend([
            "--drive".to_string(),
            format!("{},size=256MiB", text(array.path(&format!("{number}.img")))),
        ]);
    }
    array.good(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    array.good(&["volume", "create", "db", "--size", "256MiB"]);
    array
}

/// Every verb that takes a drive refuses this one, forced or not, and soon.
fn never_taken(array: &Array, drive: &str, words: &[&str]) {
    let path = drive.split(',').next().unwrap();
    for arguments in [
        &["pool", "create", "p", "--drive", drive][..],
        &["pool", "create", "p", "--force", "--yes", "--drive", drive],
        &["pool", "add-drive", "main", "--drive", drive],
        &["pool", "add-drive", "main", "--force", "--yes", "--drive", drive],
        &["pool", "replace-drive", "main", "1", "--with", drive],
        &["pool", "replace-drive", "main", "1", "--force", "--yes", "--with", drive],
    ] {
        let begun = Instant::now();
        array.refused(arguments, words);
        assert!(begun.elapsed() < Duration::from_secs(20), "{arguments:?}");
    }
    if Path::new(path).exists() {
        array.refused(&["pool", "import", "p", "--drive", path], words);
    }
    assert_eq!(array.json(&["pool", "list"]).as_array().unwrap().len(), 1);
}

/// The harm: the pool waited for itself, and the machine had to be started anew.
#[test]
fn a_volume_of_the_array_is_no_drive_of_it_at_any_depth() {
    if !can_attach() {
        return;
    }
    let array = protected();
    let words = ["stands on volume `db`", "lies on no volume"];
    let (mount, bound) = (array.path("mnt"), array.path("bound"));
    let device = array.good(&["attach", "db", "--format", "ext4", "--mount", &text(&mount)]);
    let device = device.lines().next().unwrap().to_string();
    never_taken(&array, &text(array.state().join("volumes/db")), &words);
    never_taken(&array, &device, &words);
    let inner = mount.join("inner.img");
    sparse(&inner, 64 * MIB);
    never_taken(&array, &text(&inner), &words);
    never_taken(&array, &format!("{},size=64MiB", text(mount.join("new.img"))), &words);
    let link = array.path("link.img");
    std::os::unix::fs::symlink(&inner, &link).unwrap();
    never_taken(&array, &text(&link), &words);
    {
        let _bound = mounted(&["--bind", &text(array.state().join("volumes"))], &bound);
        never_taken(&array, &text(bound.join("db")), &words);
    }
    // A file system in a file in a file system on the volume, and a btrfs, which shows no device's number.
    for kind in ["ext4", "btrfs"] {
        if !has_program(&format!("mkfs.{kind}")) {
            continue;
        }
        sparse(&inner, 128 * MIB);
        run(&format!("mkfs.{kind}"), &["-q", &text(&inner)]);
        let (over, _loop) = loop_over(&inner);
        never_taken(&array, &over, &words);
        let deep = array.path("deep");
        let _mount = mounted(&[&over], &deep);
        let deepest = deep.join("deepest.img");
        sparse(&deepest, 64 * MIB);
        never_taken(&array, &text(&deepest), &words);
        if kind == "ext4" {
            for name in ["upper", "work", "lower"] {
                std::fs::create_dir(deep.join(name)).unwrap();
            }
            let options = format!("lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work", text(&deep));
            let _over = mounted(&["-t", "overlay", "-o", &options, "none"], &array.path("over"));
            never_taken(&array, &format!("{},size=64MiB", text(array.path("over/x.img"))), &words);
        }
    }
    array.good(&["detach", "db"]);
    // Another array's volume is a drive like any other.
    let other = Array::started();
    array.good(&["volume", "create", "lent", "--size", "128MiB"]);
    let device = array.good(&["attach", "lent"]);
    other.good(&["pool", "create", "p", "--drive", device.trim()]);
    other.good(&["pool", "export", "p"]);
    array.good(&["detach", "lent"]);
}

#[test]
fn what_somebody_may_miss_is_given_up_only_by_force() {
    let array = protected();
    let drive = array.path("given.img");
    let refused = |words: &[&str]| {
        let given = text(&drive);
        let all = [words, &["given.img", "--force"]].concat();
        array.refused(&["pool", "create", "p", "--drive", &given], &all);
        array.refused(&["pool", "add-drive", "main", "--drive", &given], &all);
        array.refused(&["pool", "replace-drive", "main", "1", "--with", &given], &all);
    };
    let taken = |more: &[&str]| {
        array.good(&[&["pool", "create", "p", "--drive", &text(&drive)], more].concat());
        array.good(&["pool", "delete", "p", "--yes"]);
    };
    // Never written, and zeroes however they came.
    sparse(&drive, 256 * MIB);
    taken(&[]);
    std::fs::write(&drive, vec![0; 64 << 20]).unwrap();
    taken(&[]);
    for at in [0, 5000, 3 * MIB, 100 * MIB, 256 * MIB - 4096] {
        sparse(&drive, 256 * MIB).write_all_at(&[7; 4096], at).unwrap();
        refused(&["unknown kind", &at.to_string()]);
        let mut kept = [0; 4096];
        File::open(&drive).unwrap().read_exact_at(&mut kept, at).unwrap();
        assert_eq!(kept, [7; 4096]);
        taken(&["--force", "--yes"]);
    }
    // Data in the middle of a file that is not sparse.
    let mut bytes = vec![0; 64 << 20];
    bytes[33 << 20..34 << 20].fill(9);
    std::fs::write(&drive, bytes).unwrap();
    refused(&["unknown kind"]);
    let makers: [(&str, &[&str]); 4] =
        [("mkfs.ext4", &["-qF"]), ("mkfs.xfs", &["-qf"]), ("mkfs.btrfs", &["-qf"]), ("mkswap", &[])];
    for (maker, options) in makers.into_iter().filter(|(maker, _)| has_program(maker)) {
        sparse(&drive, 512 * MIB);
        run(maker, &[options, &[&text(&drive)]].concat());
        refused(&[maker.trim_start_matches("mkfs.").trim_start_matches("mk")]);
        taken(&["--force", "--yes"]);
    }
    let mut table = [0; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&2048_u32.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    sparse(&drive, 256 * MIB).write_all_at(&table, 0).unwrap();
    refused(&["dos"]);
    // Another array's pool, which is not open.
    sparse(&drive, 256 * MIB);
    let other = Array::started();
    other.good(&["pool", "create", "theirs", "--drive", &text(&drive)]);
    array.refused(
        &["pool", "create", "p", "--force", "--yes", "--drive", &text(&drive)],
        &["given.img", "in use"],
    );
    other.good(&["pool", "export", "theirs"]);
    refused(&["theirs"]);
    other.good(&["pool", "import", "theirs", "--drive", &text(&drive)]);
    other.good(&["pool", "export", "theirs"]);
    taken(&["--force", "--yes"]);
    let body = format!(r#"{{"name":"p","drives":[{{"path":"{}"}}]}}"#, text(&drive));
    std::fs::write(&drive, vec![1; 64 << 20]).unwrap();
    assert_eq!(array.http("POST", "/v1/pools", Some(&body)).0, 409);
    assert_eq!(std::fs::read(&drive).unwrap(), vec![1; 64 << 20]);
}

#[test]
fn a_drive_of_the_pool_itself_is_not_wiped_by_force() {
    let mut array = protected();
    array.good(&["pool", "offline-drive", "main", "1", "--yes"]);
    let drive = text(array.path("1.img"));
    for force in [&[][..], &["--force", "--yes"]] {
        let words = ["1.img", "online-drive main 1"];
        array.refused(&[&["pool", "replace-drive", "main", "1", "--with", &drive], force].concat(), &words);
    }
    // Also one that the pool did not find at its start.
    std::fs::rename(array.path("1.img"), array.path("moved.img")).unwrap();
    assert_eq!(array.terminate(), Some(0));
    array.start();
    let moved = text(array.path("moved.img"));
    let replace = ["pool", "replace-drive", "main", "1", "--force", "--yes", "--with", &moved];
    array.refused(&replace, &["moved.img", "online-drive main 1"]);
    array.good(&["pool", "online-drive", "main", "1", "--drive", &moved, "--wait"]);
}

/// Once a create that failed left half a pool on the first of two paths of one file.
#[test]
fn one_file_by_two_paths_is_refused_and_left_as_it_was() {
    let array = protected();
    let drive = array.path("one.img");
    sparse(&drive, 128 * MIB);
    std::fs::hard_link(&drive, array.path("hard.img")).unwrap();
    std::os::unix::fs::symlink(&drive, array.path("soft.img")).unwrap();
    let mut others = vec![text(array.path("hard.img")), text(array.path("soft.img"))];
    let mut made = Vec::new();
    if can_attach() {
        made.push(mounted(&["--bind", &text(array.path(""))], Path::new("/tmp/ashlar-test-bound")));
        others.push("/tmp/ashlar-test-bound/one.img".to_string());
        let (device, over) = loop_over(&drive);
        let node = array.path("node");
        let number = std::fs::metadata(&device).unwrap().rdev();
        let (major, minor) = (rustix::fs::major(number).to_string(), rustix::fs::minor(number).to_string());
        run("mknod", &[&text(&node), "b", &major, &minor]);
        assert!(std::fs::metadata(&node).unwrap().file_type().is_block_device());
        array.refused(
            &["pool", "create", "p", "--drive", &device, "--drive", &text(&node)],
            &["one and the same"],
        );
        others.push(device);
        made.push(over);
    }
    for other in &others {
        let twice = ["pool", "create", "p", "--drive", &text(&drive), "--drive", other];
        let done = array.run(&twice);
        assert!(
            done.status == 1 && (done.err.contains("same") || done.err.contains("twice")),
            "{}",
            done.err
        );
        array.refused(
            &["pool", "add-drive", "main", "--drive", &text(&drive), "--drive", other],
            &["name each"],
        );
    }
    assert_eq!(std::fs::metadata(&drive).unwrap().blocks(), 0);
    drop(made);
    if can_attach() {
        let disk = array.path("disk.img");
        sparse(&disk, 256 * MIB);
        let (device, _over) = loop_over(&disk);
        run("mkfs.ext4", &["-q", &device]);
        let _mounted = mounted(&[&device], &array.path("on-disk"));
        let inner = array.path("on-disk/inner.img");
        array.good(&["pool", "create", "inner", "--drive", &format!("{},size=64MiB", text(&inner))]);
        let on_it = format!("on drive {device} lies {}", text(&inner));
        array.refused(&["pool", "create", "q", "--force", "--yes", "--drive", &device], &[&on_it, "`inner`"]);
        array.good(&["pool", "export", "inner"]);
    }
    // The same of drives that are in a pool already.
    array.good(&["pool", "create", "p", "--drive", &text(&drive)]);
    let hard = text(array.path("hard.img"));
    array.refused(
        &["pool", "create", "q", "--force", "--yes", "--drive", &hard],
        &["one.img", "`p`", "another path"],
    );
    array.refused(&["pool", "add-drive", "main", "--force", "--yes", "--drive", &hard], &["one.img", "`p`"]);
    std::fs::hard_link(array.path("2.img"), array.path("two.img")).unwrap();
    let two = text(array.path("two.img"));
    array.refused(&["pool", "replace-drive", "main", "1", "--with", &two], &["drive 2 of pool `main`"]);
}

#[test]
fn what_is_neither_a_file_nor_a_block_device_is_a_wrong_request() {
    let array = protected();
    run("mkfifo", &[&text(array.path("pipe"))]);
    std::fs::create_dir(array.path("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(array.path("socket")).unwrap();
    let socket = text(array.path("socket"));
    let (pipe, directory) = (text(array.path("pipe")), text(array.path("directory")));
    for (path, word) in
        [(&pipe, "pipe"), (&directory, "directory"), (&socket, "socket"), (&"/dev/zero".into(), "character")]
    {
        never_taken(&array, path, &[path, word]);
        for (where_to, body) in [
            ("/v1/pools", format!(r#"{{"name":"p","drives":[{{"path":"{path}"}}]}}"#)),
            ("/v1/pools/main/drives", format!(r#"{{"drives":[{{"path":"{path}"}}]}}"#)),
            ("/v1/pools/main/drives/1/replace", format!(r#"{{"path":"{path}"}}"#)),
            ("/v1/pools/p/import", format!(r#"{{"drives":["{path}"]}}"#)),
        ] {
            let (status, answer) = array.http("POST", where_to, Some(&body));
            assert_eq!(status, 400, "{where_to} {body}: {answer}");
        }
    }
}

/// A pool on a sparse file stopped when its host file system was full.
#[test]
fn a_sparse_file_gets_its_space_when_it_joins_or_is_refused_with_its_holes() {
    let array = protected();
    let blocks = |path: &PathBuf| std::fs::metadata(path).unwrap().blocks();
    let drive = array.path("sparse.img");
    sparse(&drive, 256 * MIB);
    array.good(&["pool", "create", "p", "--drive", &text(&drive)]);
    assert!(blocks(&drive) * 512 >= 256 * MIB, "{}", blocks(&drive));
    // What the engine refuses is left with its holes, too.
    let small = array.path("small.img");
    sparse(&small, 2 * MIB);
    array.refused(&["pool", "create", "q", "--drive", &text(&small)], &["2 MiB in all"]);
    assert_eq!(blocks(&small), 0);
    array.refused(
        &["pool", "replace-drive", "main", "1", "--with", &text(&small)],
        &["small.img", "at least"],
    );
    assert_eq!(blocks(&small), 0);
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to mount a small file system");
        return;
    }
    let host = array.path("host");
    let _mount = mounted(&["-t", "tmpfs", "-o", "size=64m", "none"], &host);
    let large = host.join("large.img");
    sparse(&large, 256 * MIB);
    for arguments in [
        &["pool", "create", "q", "--drive", &text(&large)][..],
        &["pool", "create", "q", "--force", "--yes", "--drive", &text(&large)],
        &["pool", "add-drive", "p", "--drive", &text(&large)],
        &["pool", "replace-drive", "main", "1", "--with", &text(&large)],
    ] {
        array.refused(arguments, &["large.img", "lacks 256 MiB", "64 MiB free"]);
    }
    assert_eq!(blocks(&large), 0);
}

/// The harm: a mount by a loop device went on writing over the pool that was made on its file.
#[test]
fn a_file_with_a_loop_device_over_it_is_no_drive_even_by_force() {
    if !can_attach() {
        return;
    }
    let array = Array::started();
    let file = array.path("used.img");
    sparse(&file, 64 * MIB);
    let device = run("losetup", &["--find", "--show", &text(&file)]);
    let _detached = Made("losetup", vec!["--detach".to_string(), device.clone()]);
    for force in [&[][..], &["--force", "--yes"]] {
        let create = ["pool", "create", "main", "--drive", &text(&file)];
        array.refused(
            &[&create[..], force].concat(),
            &["is in use: the loop device", &device, "losetup --detach"],
        );
    }
}

/// The harm: a virtual machine that had the disk open went on writing to it, and so did the pool.
#[test]
fn what_another_program_writes_is_no_drive_even_by_force() {
    let array = Array::started();
    let file = array.path("vm.img");
    let vm = sparse(&file, 64 * MIB);
    let me = format!("process {}", std::process::id());
    for force in [&[][..], &["--force", "--yes"]] {
        let create = ["pool", "create", "main", "--drive", &text(&file)];
        array.refused(&[&create[..], force].concat(), &["vm.img is in use", &me, "has", "open"]);
    }
    // Who only reads it, as udev and backups do, is in nobody's way.
    drop(vm);
    let _reader = std::fs::File::open(&file).unwrap();
    array.good(&["pool", "create", "main", "--drive", &text(&file)]);
}
