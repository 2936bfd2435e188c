//! What is mounted where (`/proc/self/mountinfo`, proc(5)).

use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mount {
    /// Major and minor number of the device; not a block device's for overlay, btrfs and others.
    pub(crate) device: (u32, u32),
    pub(crate) at: PathBuf,
    pub(crate) kind: String,
    pub(crate) source: String,
    pub(crate) options: String,
}

/// The mount a path lies on: the last of the longest.
pub(crate) fn mount_of(table: &str, path: &Path) -> Option<Mount> {
    let mounts = table.lines().filter_map(parse).filter(|mount| path.starts_with(&mount.at));
    mounts.max_by_key(|mount| mount.at.components().count())
}

fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    let (major, minor) = left.get(2)?.split_once(':')?;
    let own = left.get(5)?;
    let of_file_system = right.get(2).unwrap_or(&"");
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        at: PathBuf::from(unescaped(left.get(4)?)),
        kind: (*right.first()?).to_string(),
        source: unescaped(right.get(1)?),
        options: join(own, of_file_system),
    })
}

/// Options of the mount and of its file system, each once.
fn join(own: &str, of_file_system: &str) -> String {
    let mut options: Vec<&str> = Vec::new();
    for option in own.split(',').chain(of_file_system.split(',')).filter(|option| !option.is_empty()) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescaped(text: &str) -> String {
    let replaced = text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    replaced.replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
        30 21 0:25 / /mnt/my\\040data rw,nosuid - btrfs /dev/loop0 rw,nosuid,compress=zstd:3\n\
        31 30 0:26 / /mnt/my\\040data rw - tmpfs none rw\n";

    #[test]
    fn a_path_lies_on_the_nearest_mount_and_the_last_of_two_at_one_place() {
        assert_eq!(mount_of(TABLE, Path::new("/srv/x")).unwrap().kind, "ext4");
        assert_eq!(mount_of(TABLE, Path::new("/mnt/my data/y")).unwrap().kind, "tmpfs");
    }

    #[test]
    fn options_are_told_once() {
        let mount = mount_of(TABLE, Path::new("/srv")).unwrap();
        assert_eq!(mount.options, "rw,relatime,discard");
        assert_eq!((mount.device, mount.source.as_str()), ((254, 0), "/dev/vda"));
    }
}
