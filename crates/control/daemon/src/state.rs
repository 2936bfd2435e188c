//! The state directory: its lock, and the file that remembers the pools.
//!
//! ```text
//! STATE/lock         held while the array runs
//! STATE/pools.toml   known pools: name and drives; replaced as a whole, never edited in place
//! STATE/wear.toml    what was written to drives over their lives; a file of its own, written each minute
//! STATE/generations.toml   the newest state seen of each pool
//! STATE/marks.toml   marks of the time line that people made
//! STATE/attachments.toml   what is attached: the next array takes it over, or attaches it again
//! STATE/users.toml    STATE/users.copy.toml    users and tokens, twice; `access` says more
//! STATE/last-used.toml   when they logged in or were shown last
//! STATE/audit.log    who changed what, and in audit-refused.log who was not let in; `audit` says more
//! STATE/api.token    STATE/metrics.token    what opens the TCP addresses
//! STATE/api.sock     STATE/api.port    STATE/metrics.port    STATE/nbd.sock    STATE/keep.sock
//! STATE/work.lock    held by processes of the array while they work
//! STATE/keeper.log   STATE/volumes/    STATE/databases/
//! ```

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ashlar_api::{self as api, ErrorKind};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::at_once::open_at_once;
use crate::error::{Error, Result};
use crate::wear::Life;

/// Where the API's socket is inside the state directory.
pub const API_SOCKET: &str = "api.sock";
/// Holds the TCP port of the API while the array runs.
pub const API_PORT: &str = "api.port";
/// The same for the address of metrics.
pub(crate) const METRICS_PORT: &str = "metrics.port";
/// Holds the API's token unless the settings name another file.
pub const API_TOKEN: &str = "api.token";
/// The same for metrics.
pub const METRICS_TOKEN: &str = "metrics.token";
/// Where NBD's socket is.
pub const NBD_SOCKET: &str = "nbd.sock";
/// Where volumes are files.
pub const VOLUMES: &str = "volumes";
/// Where databases have their directories.
pub(crate) const DATABASES: &str = "databases";

/// Users and tokens.
pub(crate) const USERS: &str = "users.toml";
/// Their second copy.
pub(crate) const USERS_COPY: &str = "users.copy.toml";

const LOCK: &str = "lock";
const POOLS: &str = "pools.toml";
const GENERATIONS: &str = "generations.toml";
const ATTACHMENTS: &str = "attachments.toml";
const MARKS: &str = "marks.toml";
const LAST_USED: &str = "last-used.toml";
const WEAR: &str = "wear.toml";
/// Where a damaged one goes, for whoever wants to mend it.
const WEAR_DAMAGED: &str = "wear.toml.damaged";
/// The same of marks.
const MARKS_DAMAGED: &str = "marks.toml.damaged";
/// A UNIX socket's path holds 107 bytes and a zero (`sun_path` in unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// `/var/lib/ashlar` as root, `$XDG_STATE_HOME/ashlar` (or `~/.local/state/ashlar`) otherwise.
pub fn state_directory_default() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/ashlar"));
    }
    let not_empty = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base =
        not_empty("XDG_STATE_HOME").or_else(|| not_empty("HOME").map(|home| home.join(".local/state")));
    base.map(|base| base.join("ashlar")).ok_or_else(|| {
        Error::invalid("no state directory: neither XDG_STATE_HOME nor HOME is set", "name one with --state")
    })
}

/// A pool the array opens at its start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownPool {
    pub(crate) name: String,
    pub(crate) drives: Vec<String>,
    /// When the last scrub ended, or since when the pool is known.
    #[serde(default)]
    pub(crate) scrubbed_unix_seconds: u64,
    /// The identities of drives that were missing when it was opened and are taken back when they come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) awaited_drives: Vec<String>,
    /// Those of `drives` at which none served when the pool was last open: a start waits for none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) vacant_drives: Vec<String>,
    /// Where each drive was when it last served, by its identity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) last_paths: BTreeMap<String, String>,
}

/// A volume or snapshot that is attached, or is to be again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KnownAttachment {
    /// How it was asked for.
    pub(crate) request: api::AttachRequest,
    /// The volume whose file carries the device.
    pub(crate) carrier: String,
    pub(crate) pool: String,
    /// None while it is not attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
}

impl KnownAttachment {
    /// Of a volume that was about to be attached when its array ended: nobody knows how.
    pub(crate) fn unfinished(volume: &str, device: Option<String>) -> KnownAttachment {
        let request = api::AttachRequest { once: true, ..api::AttachRequest::plain(volume) };
        KnownAttachment { request, carrier: volume.to_string(), pool: String::new(), device }
    }
}

/// The file of attachments.
#[derive(Default, Serialize, Deserialize)]
struct Attached {
    #[serde(default)]
    attachment: Vec<KnownAttachment>,
}

/// The state file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(default)]
    pool: Vec<KnownPool>,
}

/// The file of marks that people made, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KnownMarks {
    /// The number of the last one that was made: none is given twice.
    #[serde(default)]
    pub(crate) last: u64,
    #[serde(default)]
    pub(crate) mark: Vec<KnownMark>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KnownMark {
    pub(crate) number: u64,
    pub(crate) unix_millis: u64,
    pub(crate) text: String,
    /// As in `volume db`; absent: the whole array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
}

/// The file of drives' lives. Fields it does not know it leaves out: it is worth less than a start.
#[derive(Default, Serialize, Deserialize)]
struct Lives {
    #[serde(default)]
    drive: Vec<Life>,
}

/// The state directory of a running array. Its lock goes with it.
pub(crate) struct State {
    directory: PathBuf,
    _lock: File,
}

impl State {
    /// Makes a database's directory with places to mount on. Its server runs under an account of its own: the
    /// way there is open to pass, not to read.
    pub(crate) fn open_site(&self, site: &Path, mounts: impl Iterator<Item = PathBuf>) -> Result<()> {
        const PASS: u32 = 0o011;
        let above = self.path(DATABASES);
        for directory in [above.as_path(), site].into_iter().map(Path::to_path_buf).chain(mounts) {
            let made = std::fs::DirBuilder::new().mode(0o711).create(&directory);
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::file("make", &directory, &error));
                }
                _ => {}
            }
        }
        for directory in [self.directory(), &above, site] {
            let open = || {
                let mode = std::fs::metadata(directory)?.permissions().mode() & 0o777;
                std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode | PASS))
            };
            open().map_err(|error| Error::file("open the way to", directory, &error))?;
        }
        Ok(())
    }

    /// Makes the directory if needed and locks it.
    pub(crate) fn open(directory: &Path) -> Result<State> {
        std::fs::DirBuilder::new()
            .recursive(true)
            // Whoever reaches the sockets in it may destroy every volume.
            .mode(0o700)
            .create(directory)
            .map_err(|error| Error::file("make state directory", directory, &error))?;
        let directory =
            std::fs::canonicalize(directory).map_err(|error| Error::file("find", directory, &error))?;
        let mode = std::fs::metadata(&directory)
            .map_err(|error| Error::file("look at", &directory, &error))?
            .permissions()
            .mode();
        // Whoever can rename what is in it can put a socket of his own in the place of ours.
        if mode & 0o002 != 0 {
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!("any user can change the state directory {}", directory.display()),
                "make it private: chmod 700",
            ));
        }
        // The one with the longest name.
        if directory.join(ashlar_keeper::SOCKET).as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            return Err(Error::invalid(
                format!("state directory {} is too long for a socket's path", directory.display()),
                format!(
                    "choose one with --state that leaves a socket's path within {SOCKET_PATH_BYTES_MAX} bytes"
                ),
            ));
        }
        let path = directory.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .read(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Error::file("open", &path, &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(served(&directory));
            }
            Err(error) => return Err(Error::file("lock", &path, &error.into())),
        }
        // Somebody may have removed the file that the other holds locked.
        if UnixStream::connect(directory.join(API_SOCKET)).is_ok() {
            return Err(served(&directory));
        }
        Ok(State { directory, _lock: lock })
    }

    /// The directory, absolute.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A path inside the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The known pools.
    pub(crate) fn load_pools(&self) -> Result<Vec<KnownPool>> {
        let path = self.path(POOLS);
        let Some(text) = read_if_there(&path)? else { return Ok(Vec::new()) };
        let action = "move it away and `ashlar pool import` the pools: the drives hold all that matters";
        parse(&path, &text, action).map(|remembered: Remembered| remembered.pool)
    }

    /// Replaces the known pools; durable when this returns.
    pub(crate) fn store_pools(&self, pools: &[KnownPool]) -> Result<()> {
        let remembered = Remembered { pool: pools.to_vec() };
        let text = toml::to_string(&remembered).expect("names and paths are plain text");
        let header = "# Pools that this array opens at its start. Written by ashlar.\n\n";
        self.replace(POOLS, &format!("{header}{text}"))
    }

    /// The newest generation seen of each pool, by its identity.
    pub(crate) fn load_generations(&self) -> Result<BTreeMap<String, u64>> {
        let path = self.path(GENERATIONS);
        let Some(text) = read_if_there(&path)? else { return Ok(BTreeMap::new()) };
        parse(&path, &text, "it is written anew at the next change")
    }

    /// Replaces them; durable when this returns.
    pub(crate) fn store_generations(&self, generations: &BTreeMap<String, u64>) -> Result<()> {
        let text = toml::to_string(generations).expect("numbers within what TOML holds");
        let header = "# The newest state seen of each pool. Written by ashlar.\n\n";
        self.replace(GENERATIONS, &format!("{header}{text}"))
    }

    /// What was attached when the last array ended, and what it had not attached again yet.
    pub(crate) fn load_attachments(&self) -> Result<Vec<KnownAttachment>> {
        let path = self.path(ATTACHMENTS);
        let Some(text) = read_if_there(&path)? else { return Ok(Vec::new()) };
        parse(&path, &text, "it is written anew at the next attach")
            .map(|attached: Attached| attached.attachment)
    }

    /// Replaces what is attached; durable when this returns.
    pub(crate) fn store_attachments(&self, attachments: Vec<KnownAttachment>) -> Result<()> {
        let text =
            toml::to_string(&Attached { attachment: attachments }).expect("names and paths are plain text");
        let header = "# What is attached, and is again after a restart. Written by ashlar.\n\n";
        self.replace(ATTACHMENTS, &format!("{header}{text}"))
    }

    /// The marks that people made. A damaged file is put aside.
    pub(crate) fn load_marks(&self) -> Result<KnownMarks> {
        let path = self.path(MARKS);
        let action = format!("what it held is in {MARKS_DAMAGED}; marks are kept from now on");
        let load = || match read_if_there(&path)? {
            Some(text) => parse(&path, &text, &action),
            None => Ok(KnownMarks::default()),
        };
        load().inspect_err(|error| {
            if error.kind == ErrorKind::Damaged {
                // Whether or not that works, the next writing replaces it.
                let _ = std::fs::rename(&path, self.path(MARKS_DAMAGED));
            }
        })
    }

    /// Replaces them; durable when this returns.
    pub(crate) fn store_marks(&self, marks: &KnownMarks) -> Result<()> {
        let text = toml::to_string(marks).expect("numbers within what TOML holds");
        let header = "# Marks of the time line that people made. Written by ashlar.\n\n";
        self.replace(MARKS, &format!("{header}{text}"))
    }

    /// What was written to drives over their lives. A damaged file is put aside.
    pub(crate) fn load_wear(&self) -> Result<Vec<Life>> {
        let path = self.path(WEAR);
        let Some(text) = read_if_there(&path)? else { return Ok(Vec::new()) };
        let action = format!("what it held is in {WEAR_DAMAGED}; declare endurances again");
        parse(&path, &text, &action).map(|lives: Lives| lives.drive).inspect_err(|_| {
            // Whether or not that works, the next writing replaces it.
            let _ = std::fs::rename(&path, self.path(WEAR_DAMAGED));
        })
    }

    /// Replaces what is known of drives' lives; durable when this returns.
    pub(crate) fn store_wear(&self, lives: Vec<Life>) -> Result<()> {
        let text = toml::to_string(&Lives { drive: lives }).expect("numbers within what TOML holds");
        let header = "# What was written to drives over their lives. Written by ashlar.\n\n";
        self.replace(WEAR, &format!("{header}{text}"))
    }

    /// A file of users and tokens, as it stands there.
    pub(crate) fn load_text(&self, name: &str) -> Result<Option<String>> {
        read_if_there(&self.path(name))
    }

    /// Replaces one; durable when this returns.
    pub(crate) fn store_text(&self, name: &str, text: &str) -> Result<()> {
        self.replace(name, text)
    }

    /// When users and tokens were used last, in seconds since 1970.
    pub(crate) fn load_uses(&self) -> Result<BTreeMap<String, u64>> {
        let path = self.path(LAST_USED);
        let Some(text) = read_if_there(&path)? else { return Ok(BTreeMap::new()) };
        parse(&path, &text, "it is written anew at the next use")
    }

    /// Replaces that; durable when this returns.
    pub(crate) fn store_uses(&self, uses: &BTreeMap<String, u64>) -> Result<()> {
        let text = toml::to_string(uses).expect("numbers within what TOML holds");
        let header = "# When users and tokens were used last. Written by ashlar.\n\n";
        self.replace(LAST_USED, &format!("{header}{text}"))
    }

    /// Writes a port where scripts find it.
    pub(crate) fn store_port(&self, name: &str, port: u16) -> Result<()> {
        self.replace(name, &format!("{port}\n"))
    }

    /// Removes what only a running array has.
    pub(crate) fn remove(&self, name: &str) {
        let path = self.path(name);
        // Absent is as good as removed, and a leftover is replaced at the next start.
        let _ = std::fs::remove_file(path);
    }

    /// Write aside, make durable, rename over, make the rename durable: after a crash the file is
    /// the old or the new one.
    fn replace(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        let aside = self.path(&format!("{name}.new"));
        let write = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&aside, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        write().map_err(|error| {
            // A full file system must get back what the half-written file took.
            let _ = std::fs::remove_file(&aside);
            Error::file("write", &path, &error)
        })
    }
}

fn served(directory: &Path) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!("another array serves the state directory {}", directory.display()),
        "`ashlar status` shows it, and every command talks to it",
    )
}

/// The text of a state file; `None` before it was first written. It does not wait for a writer of what is no
/// file.
fn read_if_there(path: &Path) -> Result<Option<String>> {
    let mut file = match open_at_once(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", path, &error)),
    };
    let metadata = file.metadata().map_err(|error| Error::file("look at", path, &error))?;
    if !metadata.is_file() {
        return Err(Error::new(
            ErrorKind::Damaged,
            format!("{} is no file", path.display()),
            "remove it: the array writes a file of that name",
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| Error::file("read", path, &error))?;
    // What is no text is no state file either: the parser says so, and what to do.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// What a state file says. One without a word was never written like that.
fn parse<T: DeserializeOwned>(path: &Path, text: &str, action: &str) -> Result<T> {
    let damaged = |what: &str| {
        let what = format!("state file {} is damaged: {what}", path.display());
        Error::new(ErrorKind::Damaged, what, action)
    };
    if text.trim().is_empty() {
        return Err(damaged("it is empty"));
    }
    toml::from_str(text).map_err(|error| damaged(error.message()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn pools_are_remembered_and_a_second_array_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let state = State::open(&scratch.path().join("deep/state")).unwrap();
        assert!(state.load_pools().unwrap().is_empty());
        let pools = vec![KnownPool {
            name: "main".into(),
            drives: vec!["/a b".into(), "/c\"d".into()],
            scrubbed_unix_seconds: 7,
            awaited_drives: vec!["0a".into()],
            vacant_drives: vec!["/a b".into()],
            last_paths: BTreeMap::from([("0a".into(), "/a b".into())]),
        }];
        state.store_pools(&pools).unwrap();
        assert_eq!(state.load_pools().unwrap(), pools);
        let error = State::open(state.directory()).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Busy);
        let directory = state.directory().to_path_buf();
        // Somebody removed the lock's file: who answers at the socket serves still.
        std::fs::remove_file(directory.join(LOCK)).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(directory.join(API_SOCKET)).unwrap();
        assert_eq!(State::open(&directory).err().unwrap().kind, ErrorKind::Busy);
        drop((state, listener));
        assert_eq!(State::open(&directory).unwrap().load_pools().unwrap(), pools);
    }

    /// The harm: an array without a word that it knows no pool any more; a start that hangs.
    #[test]
    fn an_empty_state_file_and_what_is_no_file_are_told() {
        let scratch = tempfile::tempdir().unwrap();
        let state = State::open(scratch.path()).unwrap();
        state.store_pools(&[]).unwrap();
        assert_eq!(state.load_pools().unwrap(), vec![]);
        std::fs::write(state.path(POOLS), "\n").unwrap();
        let told = state.load_pools().unwrap_err().to_string();
        assert!(told.contains("is damaged: it is empty"), "{told}");
        std::fs::remove_file(state.path(POOLS)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(state.path(POOLS)).status().unwrap();
        assert!(made.success());
        let told = state.load_pools().unwrap_err().to_string();
        assert!(told.contains("pools.toml is no file"), "{told}");
    }

    #[test]
    fn a_state_directory_that_anybody_can_change_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = State::open(scratch.path()).err().unwrap();
        assert!(error.kind == ErrorKind::Forbidden && error.action.contains("chmod 700"), "{error}");
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(State::open(scratch.path()).is_ok());
    }

    #[test]
    fn a_damaged_state_file_says_how_to_get_the_pools_back() {
        let scratch = tempfile::tempdir().unwrap();
        let state = State::open(scratch.path()).unwrap();
        std::fs::write(state.path(POOLS), "[[pool]]\nname = 7\n").unwrap();
        let error = state.load_pools().unwrap_err();
        assert!(error.action.contains("import"), "{error}");
    }

    #[test]
    fn a_path_too_long_for_sockets_is_refused_at_the_start() {
        let scratch = tempfile::tempdir().unwrap();
        let error = State::open(&scratch.path().join("x".repeat(120))).err().unwrap();
        assert!(error.message.contains("too long"), "{error}");
    }
}
