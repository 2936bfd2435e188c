//! A server sees its own volumes and those of no other database.
//!
//! ```text
//!   mount namespace of a server:  databases/        an empty directory in memory
//!                                 databases/NAME/   the database's own, with what is mounted below
//! ```
//!
//! So a clone cannot reach its source's files, whatever a superuser of it types. The namespace ends with the
//! last process of the server.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::{Error, Result};
use crate::site::Site;

/// A directory in memory that holds one directory.
const OPTIONS: &std::ffi::CStr = c"mode=0711,size=64k";

/// Hides other databases from this thread, and from every process that it starts from now on.
///
/// # Errors
/// When the kernel refuses: nobody else is changed then.
pub(crate) fn hide_others(site: &Site) -> Result<()> {
    hide(&site.directory).map_err(|error| {
        let what = format!("hide other databases from the server of `{}`: {error}", site.name);
        Error::failed(what, "the array must run as root, with the right to mount")
    })
}

fn hide(own: &Path) -> io::Result<()> {
    let all = own.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let state = all.parent().unwrap_or(all);
    // SAFETY: only the table of mounts becomes this thread's own; no file descriptor does.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // What is unmounted on this machine is unmounted here, and not the other way round.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let tree = open_tree(CWD, own, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE)?;
    let table = fs::read("/proc/self/mountinfo")?;
    let hidden = mounts(&table).into_iter().filter(|one| one.is_to_go(all, state));
    for one in hidden.collect::<Vec<_>>().into_iter().rev() {
        unmount(&one.point, UnmountFlags::DETACH)?;
    }
    mount("ashlar", all, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, OPTIONS)?;
    fs::create_dir(own)?;
    move_mount(&tree, "", CWD, own, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

struct Mount {
    point: PathBuf,
    /// What happens to it on the machine happens here, too.
    is_led: bool,
    source: String,
}

impl Mount {
    /// A copy that nobody would unmount keeps a volume from being detached for as long as the server runs.
    fn is_to_go(&self, all: &Path, state: &Path) -> bool {
        let is_of_array = || file_of_loop_device(&self.source).is_some_and(|file| file.starts_with(state));
        self.point.starts_with(all) || !self.is_led && is_of_array()
    }
}

/// Reads /proc/PID/mountinfo (proc_pid_mountinfo(5)).
fn mounts(table: &[u8]) -> Vec<Mount> {
    let of_line = |line: &[u8]| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = words.iter().position(|word| *word == b"-")?;
        Some(Mount {
            point: PathBuf::from(std::ffi::OsString::from_vec(unescaped(words.get(4)?))),
            is_led: words[..dash].iter().skip(6).any(|word| word.starts_with(b"master:")),
            source: String::from_utf8_lossy(words.get(dash + 2)?).into_owned(),
        })
    };
    table.split(|byte| *byte == b'\n').filter_map(of_line).collect()
}

/// A space is written as `\040`.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, more)) = rest.split_first() {
        let digits = (*first == b'\\').then(|| more.get(..3)).flatten();
        let code = digits.and_then(|three| u8::from_str_radix(std::str::from_utf8(three).ok()?, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[3..] } else { more };
    }
    out
}

fn file_of_loop_device(source: &str) -> Option<PathBuf> {
    let name = source.strip_prefix("/dev/").filter(|name| name.starts_with("loop"))?;
    let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(PathBuf::from(file.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_what_leads_them() {
        let table = b"36 35 98:0 /mnt1 /a\\040b rw master:1 - ext4 /dev/loop9999 rw\n\
            37 35 98:1 / /state/databases/x/data rw - ext4 /dev/vda rw\nrubbish\n";
        let found = mounts(table);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].point.as_path(), found[0].is_led), (Path::new("/a b"), true));
        assert_eq!(found[0].source, "/dev/loop9999");
        let (all, state) = (Path::new("/state/databases"), Path::new("/state"));
        assert!(!found[0].is_to_go(all, state) && found[1].is_to_go(all, state));
    }
}
