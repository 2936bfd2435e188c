//! What is written where, on directories that only look like the kernel's. The real ones are in `tests/`.

use std::fs;
use std::path::Path;

use super::tree::{Version, own_group};
use super::*;

fn tree(root: &Path, own: &str, is_root: bool) -> Tree {
    Tree { root: root.into(), own: own.into(), is_root }
}

fn read(path: std::path::PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The only group of ours below a directory.
fn ours(parent: &Path) -> std::path::PathBuf {
    let entries = fs::read_dir(parent).unwrap().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("ashlar-postgres-"));
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// A process that no Linux can have: these trees are fake, but signals would be real.
const NOBODY: i32 = 1 << 22 | 1;

fn all() -> Limits {
    Limits { memory_bytes: Some(300 << 20), cores: Some(1.5), cpuset: Some("0-1".into()) }
}

#[test]
fn version_two_is_written_as_its_manual_says_in_a_fake_tree() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
    fs::write(root.path().join("cgroup.subtree_control"), "cpu cpuset\n").unwrap();
    let tree = tree(root.path(), "user.slice", true);
    assert_eq!(tree.version(), Ok(Version::Two));
    let group = Group::make(&tree, &all()).unwrap();
    assert_eq!(read(root.path().join("cgroup.subtree_control")), "+memory", "what is on stays");
    let made = ours(root.path());
    assert_eq!(read(made.join("memory.max")), (300 << 20).to_string());
    assert_eq!(read(made.join("memory.swap.max")), "0");
    assert_eq!(read(made.join("cpu.max")), "150000 100000");
    assert_eq!(read(made.join("cpuset.cpus")), "0-1");
    group.put(Pid::from_raw(NOBODY).unwrap()).unwrap();
    assert_eq!(read(made.join("cgroup.procs")), NOBODY.to_string());

    fs::write(made.join("memory.current"), "1000\n").unwrap();
    fs::write(made.join("memory.peak"), "2000\n").unwrap();
    fs::write(made.join("cpu.stat"), "usage_usec 1500000\nuser_usec 1\n").unwrap();
    fs::write(made.join("memory.events"), "oom 3\noom_kill 1\n").unwrap();
    let usage = group.usage().unwrap();
    assert_eq!((usage.memory_bytes, usage.memory_bytes_peak), (1000, Some(2000)));
    assert_eq!((usage.cpu, usage.out_of_memory_kill_count), (Some(Duration::from_millis(1500)), 1));
    group.leave();
}

#[test]
fn version_two_of_a_user_is_made_where_it_was_handed_over_in_a_fake_tree() {
    let root = tempfile::tempdir().unwrap();
    let handed = root.path().join("user.slice/user@1000.service/app.slice");
    fs::create_dir_all(handed.join("shell.scope")).unwrap();
    fs::write(root.path().join("cgroup.controllers"), "memory\n").unwrap();
    fs::write(handed.join("cgroup.subtree_control"), "memory\n").unwrap();
    let tree = tree(root.path(), "user.slice/user@1000.service/app.slice/shell.scope", false);
    let group = Group::make(&tree, &Limits { memory_bytes: Some(1 << 30), ..Limits::default() }).unwrap();
    assert_eq!(read(ours(&handed).join("memory.max")), (1 << 30).to_string());
    group.leave();
}

#[test]
fn version_one_is_written_below_each_controller_in_a_fake_tree() {
    let root = tempfile::tempdir().unwrap();
    for controller in ["memory", "cpu", "cpuacct", "cpuset"] {
        fs::create_dir(root.path().join(controller)).unwrap();
    }
    fs::write(root.path().join("memory/memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
    fs::write(root.path().join("cpuset/cpuset.mems"), "0\n").unwrap();
    let group = Group::make(&tree(root.path(), "", true), &all()).unwrap();
    let limit = read(ours(&root.path().join("memory")).join("memory.limit_in_bytes"));
    assert_eq!(limit, (300 << 20).to_string());
    let cpu = ours(&root.path().join("cpu"));
    assert_eq!((read(cpu.join("cpu.cfs_quota_us")), read(cpu.join("cpu.cfs_period_us"))), {
        ("150000".to_string(), "100000".to_string())
    });
    let cpuset = ours(&root.path().join("cpuset"));
    assert_eq!((read(cpuset.join("cpuset.cpus")), read(cpuset.join("cpuset.mems"))), {
        ("0-1".to_string(), "0".to_string())
    });
    ours(&root.path().join("cpuacct"));
    group.leave();
}

#[test]
fn a_machine_without_control_groups_says_so() {
    let root = tempfile::tempdir().unwrap();
    let reason = Group::make(&tree(root.path(), "", true), &all()).unwrap_err();
    assert!(reason.contains("no control groups"), "{reason}");
    fs::write(root.path().join("cgroup.controllers"), "memory\n").unwrap();
    let reason = Group::make(&tree(root.path(), "a/b", false), &all()).unwrap_err();
    assert!(reason.contains("cgroup.subtree_control"), "{reason}");
}

#[test]
fn what_was_made_before_a_failure_is_removed_again() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("memory")).unwrap();
    fs::write(root.path().join("memory/memory.limit_in_bytes"), "").unwrap();
    let limits = Limits { cores: Some(1.0), ..Limits::default() };
    assert!(Group::make(&tree(root.path(), "", true), &limits).is_err(), "there is no cpu controller");
    assert_eq!(fs::read_dir(root.path().join("memory")).unwrap().count(), 1, "the limit's file alone");
}

#[test]
fn the_own_group_is_read_from_a_machine_of_either_version() {
    assert_eq!(own_group("0::/user.slice/session-3.scope\n"), "user.slice/session-3.scope");
    assert_eq!(own_group("4:memory:/a\n0::/\n"), "");
    assert_eq!(own_group("4:memory:/a\n"), "");
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    assert!(all().check().is_ok());
    assert!(Limits { memory_bytes: Some(1 << 20), ..Limits::default() }.check().is_err());
    assert!(Limits { cores: Some(0.0), ..Limits::default() }.check().is_err());
    assert!(Limits { cpuset: Some("0; rm".into()), ..Limits::default() }.check().is_err());
}
