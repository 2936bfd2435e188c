//! Which drives and directories those may name who are not root: paths are how a program that runs as root
//! would make, overwrite and cover files for anybody.

use std::path::{Component, Path, PathBuf};
use std::sync::{RwLock, RwLockReadGuard};

use ashlar_api::ErrorKind;
use glob::{MatchOptions, Pattern};

use crate::error::{Error, Result};

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// Root, or the user who runs the array, over the socket: could do it all without us.
    Owner,
    /// A user or a token of the array, which may what its role may. It names drives and directories as guests
    /// do.
    Person,
    /// Anybody else who was let in: by the token of a file, or as a member of the sockets' group.
    Guest,
}

/// What the settings let guests name.
#[derive(Default)]
pub(crate) struct Places(RwLock<Named>);

#[derive(Default)]
struct Named {
    drive_directories: Vec<PathBuf>,
    drive_globs: Vec<Pattern>,
    mount_directories: Vec<PathBuf>,
}

/// A star never stands for a slash.
const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl Places {
    /// Takes the settings `guest_drives` and `guest_mounts` apart; says which entry is wrong.
    pub(crate) fn new(drives: &[String], mounts: &[String]) -> std::result::Result<Places, String> {
        let mut places = Named::default();
        for text in drives {
            absolute("guest_drives", text)?;
            // Devices are named one by one or by stars; below a directory are files.
            if text.starts_with("/dev/") || text.contains(['*', '?', '[']) {
                let glob = Pattern::new(text).map_err(|why| format!("guest_drives: `{text}`: {why}"))?;
                places.drive_globs.push(glob);
            } else {
                places.drive_directories.push(PathBuf::from(text));
            }
        }
        for text in mounts {
            absolute("guest_mounts", text)?;
            places.mount_directories.push(PathBuf::from(text));
        }
        Ok(Places(RwLock::new(places)))
    }

    /// Lets guests name from now on what newer settings say.
    pub(crate) fn replace(&self, newer: Places) {
        let newer = newer.0.into_inner().expect("no holder of this lock panics");
        *self.0.write().expect("no holder of this lock panics") = newer;
    }

    fn named(&self) -> RwLockReadGuard<'_, Named> {
        self.0.read().expect("no holder of this lock panics")
    }

    /// Refuses a drive that this caller may not name.
    pub(crate) fn check_drive(&self, caller: Caller, path: &str) -> Result<()> {
        let is_allowed = caller == Caller::Owner || self.named().is_guest_drive(Path::new(path));
        is_allowed.then_some(()).ok_or_else(|| refused("drive", path, "guest_drives"))
    }

    /// The same for drives of one request.
    pub(crate) fn check_drives<'a>(
        &self,
        caller: Caller,
        mut paths: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        paths.try_for_each(|path| self.check_drive(caller, path))
    }

    /// Refuses a directory on which this caller may mount nothing.
    pub(crate) fn check_mount(&self, caller: Caller, path: &str) -> Result<()> {
        let is_below = |real: PathBuf| is_below(&real, &self.named().mount_directories);
        let is_allowed = caller == Caller::Owner || resolved(Path::new(path)).is_some_and(is_below);
        is_allowed.then_some(()).ok_or_else(|| refused("directory", path, "guest_mounts"))
    }
}

impl Named {
    /// What a link leads to counts, and a device only by a glob.
    fn is_guest_drive(&self, path: &Path) -> bool {
        let Some(real) = resolved(path) else { return false };
        let is_device = std::fs::metadata(&real).is_ok_and(|metadata| !metadata.is_file());
        let is_named = |path: &Path| self.drive_globs.iter().any(|glob| glob.matches_path_with(path, GLOB));
        is_named(&real)
            || (is_device && is_named(path))
            || (!is_device && is_below(&real, &self.drive_directories))
    }
}

fn absolute(setting: &str, text: &str) -> std::result::Result<(), String> {
    let is_plain = Path::new(text).components().all(|part| part != Component::ParentDir);
    if Path::new(text).is_absolute() && text != "/" && is_plain {
        return Ok(());
    }
    Err(format!("{setting}: `{text}` is not an absolute path below the root"))
}

fn refused(what: &str, path: &str, setting: &str) -> Error {
    Error::new(
        ErrorKind::Forbidden,
        format!("{what} `{}` is not below what the setting {setting} names", path.escape_debug()),
        "name it there, or ask as root over the socket",
    )
    .because(ashlar_api::Reason::PlaceNotAllowed)
}

fn is_below(real: &Path, directories: &[PathBuf]) -> bool {
    directories
        .iter()
        .filter_map(|directory| std::fs::canonicalize(directory).ok())
        .any(|directory| real != directory && real.starts_with(directory))
}

/// The path without links, where its end may be missing; `None` when it cannot be told.
fn resolved(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let mut missing = Vec::new();
    let mut there = path;
    // A link to nothing is there: it is no place to make something at.
    while there.symlink_metadata().is_err() {
        missing.push(there.file_name()?);
        there = there.parent()?;
    }
    let real = std::fs::canonicalize(there).ok()?;
    Some(missing.iter().rev().fold(real, |path, name| path.join(name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn guests_name_what_the_settings_name_and_nothing_a_link_leads_to() {
        let scratch = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(scratch.path()).unwrap();
        let text = |name: &str| root.join(name).to_str().unwrap().to_string();
        for name in ["drives", "drives2", "elsewhere"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("elsewhere/file"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere/file"), root.join("drives/link")).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), root.join("drives/folder")).unwrap();
        std::os::unix::fs::symlink(root.join("nowhere"), root.join("drives/dangling")).unwrap();
        std::os::unix::fs::symlink("/dev/null", root.join("drives/device")).unwrap();
        let drives = [text("drives"), "/dev/nul*".to_string()];
        let places = Places::new(&drives, &[text("drives")]).unwrap();
        let allowed = |path: &str| places.check_drive(Caller::Guest, path).is_ok();
        assert!(allowed(&text("drives/new.img")) && allowed(&text("drives/new/new.img")));
        assert!(allowed("/dev/null"));
        for path in [
            text("elsewhere/file"),
            text("elsewhere/new.img"),
            text("drives2/new.img"),
            text("drives"),
            text("drives/link"),
            text("drives/folder/new.img"),
            text("drives/dangling"),
            text("drives/../elsewhere/new.img"),
            "/dev/zero".to_string(),
            "/dev/nul/x".to_string(),
            "relative".to_string(),
            String::new(),
        ] {
            assert!(!allowed(&path), "{path}");
            assert!(places.check_drive(Caller::Owner, &path).is_ok());
            assert!(places.check_mount(Caller::Guest, &path).is_err(), "{path}");
        }
        // A link to a device whose name is allowed leads to that device.
        assert!(allowed(&text("drives/device")));
        assert!(places.check_mount(Caller::Guest, &text("drives/mnt")).is_ok());
        places.replace(Places::new(&[text("elsewhere")], &[]).unwrap());
        assert!(places.check_drive(Caller::Guest, &text("elsewhere/new.img")).is_ok());
        assert!(places.check_drive(Caller::Guest, &text("drives/new.img")).is_err());
        let nothing = Places::default();
        assert!(nothing.check_drive(Caller::Guest, &text("drives/new.img")).is_err());
        let error = nothing.check_mount(Caller::Guest, "/etc").unwrap_err();
        assert!(error.kind == ErrorKind::Forbidden && error.message.contains("guest_mounts"), "{error}");
    }

    #[test]
    fn entries_that_would_name_everything_are_refused() {
        for wrong in ["/", "srv", "", "/srv/../etc", "/dev/[", "/a/***"] {
            assert!(Places::new(&[wrong.to_string()], &[]).is_err(), "{wrong}");
        }
    }
}
