//! `ashlar lab` where a disk fills up while it works: the target's, or that of the results.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Done, can_attach, done, program};

/// Two data sets of 16 MiB, one of them written again before its run.
const FILES: &str = "format = 1\nid = \"test/full\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"10m\"\n\
    phases = { warmup = \"0.2s\", measure = \"1s\", repeat = 1 }\n\
    [workload]\nkind = \"io\"\ndata = \"16MiB\"\noutstanding = 4\ncontent = { compress = 2 }\n\
    [[matrix.test]]\nid = \"read\"\nmix = [{ op = \"read\", pattern = \"random\", bs = \"8k\", share = 1 }]\n\
    [[matrix.test]]\nid = \"write\"\nprecondition = \"aged\"\n\
    mix = [{ op = \"write\", pattern = \"random\", bs = \"8k\", share = 1 }]\n\
    [[check]]\nkind = \"value\"\nof = \"iops\"\nat_least = 1\n";

const ORDERS: &str = "format = 1\nid = \"test/full\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"10m\"\n\
    phases = { warmup = \"0.5s\", measure = \"20s\", repeat = 1 }\nengine = { kind = \"postgres\" }\n\
    workload = { kind = \"orders\", warehouses = 1, users = 2 }\n\
    [[published]]\nmetric = \"nopm\"\nnote = \"none\"\n";

/// A file system of its own, of so many bytes, and a place for the rest.
struct Ground {
    root: tempfile::TempDir,
    small: PathBuf,
}

impl Ground {
    fn new(size: &str) -> Ground {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let small = root.path().join("small");
        std::fs::create_dir(&small).unwrap();
        let ground = Ground { root, small };
        ground.mount(&format!("size={size},mode=755"));
        ground
    }

    fn mount(&self, options: &str) {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.small);
        assert!(command.status().unwrap().success());
    }

    fn scenario(&self, text: &str) -> String {
        let file = self.root.path().join("scenario.toml");
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// Takes what room there is, with a file of this name.
    fn fill(&self) -> PathBuf {
        let path = self.small.join("other");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[1; 1 << 16]).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
        path
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg(&self.small).status();
    }
}

fn started(arguments: &[&str]) -> Child {
    let mut command = Command::new(program());
    command.arg("lab").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn lab(arguments: &[&str]) -> Done {
    done(started(arguments).wait_with_output().unwrap())
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_target_that_fills_up_ends_the_run_which_goes_on_when_there_is_room() {
    if !can_attach() {
        return;
    }
    let ground = Ground::new("48m");
    let (file, output) = (ground.scenario(FILES), ground.root.path().join("result"));
    let (target, named) = (text(&ground.small), text(&output));
    let child = started(&["run", &file, "--target", &target, "-o", &named]);
    // The first of two data sets is being written.
    wait("a data set is begun", || output.join("data/set-1").is_dir());
    let other = ground.fill();
    let ended = done(child.wait_with_output().unwrap());
    assert_eq!(ended.status, 3, "{}{}", ended.out, ended.err);
    let words = ["/file-", "no space is left on its file system: make room there", "lab resume"];
    assert!(words.iter().all(|word| ended.err.contains(word)), "{}", ended.err);
    assert_eq!(names(&ground.small), ["other"], "nothing else stays");
    assert!(std::fs::read_to_string(output.join("report.html")).unwrap().contains("make room there"));

    std::fs::remove_file(other).unwrap();
    let gone_on = lab(&["resume", &named]);
    assert_eq!(gone_on.status, 0, "{}{}", gone_on.out, gone_on.err);
    assert!(names(&ground.small).is_empty(), "nothing stays");
}

#[test]
fn a_database_whose_disk_fills_up_is_told_and_goes() {
    if !can_attach() {
        return;
    }
    let ground = Ground::new("2g");
    let (file, output) = (ground.scenario(ORDERS), ground.root.path().join("result"));
    let (target, named) = (text(&ground.small), text(&output));
    let child = started(&["run", &file, "-s", "xs", "--target", &target, "-o", &named]);
    wait("it is driven", || output.join("runs/r1-small").is_dir());
    std::thread::sleep(Duration::from_secs(2));
    ground.fill();
    let ended = done(child.wait_with_output().unwrap());
    assert_eq!(ended.status, 3, "{}{}", ended.out, ended.err);
    assert!(
        ended.err.contains("No space left on device") && ended.err.contains("lab resume"),
        "{}",
        ended.err
    );
    assert_eq!(names(&ground.small), ["other"], "nothing else stays");
    assert!(ashlar_postgres::processes_below(&ground.small).is_empty(), "no server stays");
}

#[test]
fn results_without_room_are_kept_as_far_as_they_got_and_go_on() {
    if !can_attach() {
        return;
    }
    let ground = Ground::new("16m");
    let file = ground.scenario(FILES);
    let target = ground.root.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let output = ground.small.join("result");
    let (at, named) = (text(&target), text(&output));
    let child = started(&["run", &file, "--target", &at, "-o", &named]);
    wait("a run is made", || {
        ["read", "write"].iter().any(|id| output.join(format!("runs/r1-{id}-target/run.json")).is_file())
    });
    let other = ground.fill();
    let ended = done(child.wait_with_output().unwrap());
    assert!([2, 3].contains(&ended.status), "{}{}", ended.out, ended.err);
    let words = ["no space is left on its file system: make room there", "lab resume"];
    assert!(words.iter().all(|word| ended.err.contains(word)), "{}", ended.err);
    assert!(names(&target).is_empty(), "nothing stays");

    std::fs::remove_file(other).unwrap();
    let gone_on = lab(&["resume", &named]);
    assert_eq!(gone_on.status, 0, "{}{}", gone_on.out, gone_on.err);
    assert!(names(&target).is_empty() && output.join("report.html").is_file());
}
