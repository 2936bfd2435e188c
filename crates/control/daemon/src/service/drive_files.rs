//! Drives that are files, and what somebody does to them while their pool is open: deleted, moved away, put
//! another in their place, cut short. The array goes on with the file it holds open, and nobody would notice
//! before its next start, when the data are gone.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use ashlar_api as api;
use tokio::task::JoinHandle;

use crate::log::Log;

/// Bits of a file's mode by which other users and its group read or change it.
const OF_OTHER_USERS: u32 = 0o066;

/// A drive as it was at the first look.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pool: String,
    drive: String,
    path: String,
}

/// What is at the path of a drive.
enum Found {
    Nothing,
    File {
        identity: Identity,
        length_bytes: u64,
        mode: u32,
    },
    /// No file, or it does not say.
    Else,
}

struct Watched {
    identity: Identity,
    /// What somebody did to it.
    trouble: Option<String>,
}

/// The drives that are files.
#[derive(Default)]
pub(super) struct DriveFiles {
    watched: BTreeMap<Key, Watched>,
    /// On a thread of its own: a server of files that does not answer holds up nobody else.
    look: Option<JoinHandle<Vec<(Key, u64, Found)>>>,
}

impl DriveFiles {
    /// Takes what the last look found, and looks again.
    pub(super) async fn watch(&mut self, pools: &[api::Pool], log: &Log) {
        match self.look.take() {
            Some(look) if !look.is_finished() => {
                self.look = Some(look);
                return;
            }
            Some(look) => {
                let found = look.await.unwrap_or_default();
                found
                    .into_iter()
                    .for_each(|(key, size_bytes, found)| self.judge(key, size_bytes, found, log));
            }
            None => {}
        }
        let drives = open_drives(pools);
        self.watched.retain(|key, _| drives.iter().any(|(drive, _)| drive == key));
        let look_at = |(key, size_bytes): (Key, u64)| {
            let found = look_at(&key.path);
            (key, size_bytes, found)
        };
        self.look =
            Some(tokio::task::spawn_blocking(move || drives.into_iter().map(look_at).collect::<Vec<_>>()));
    }

    fn judge(&mut self, key: Key, size_bytes: u64, found: Found, log: &Log) {
        let Some(watched) = self.watched.get_mut(&key) else {
            if let Found::File { identity, mode, .. } = found {
                if mode & OF_OTHER_USERS != 0 {
                    let path = &key.path;
                    let what = format!("drive {path}: other users can read or change it: chmod 600 {path}");
                    log.warning(format!("pool {}", key.pool), what);
                }
                self.watched.insert(key, Watched { identity, trouble: None });
            }
            return;
        };
        let object = format!("pool {}", key.pool);
        let (path, later) = (&key.path, "what is on it is lost when the array stops");
        let (what, loss) = match found {
            Found::Nothing => ("the file was deleted or moved away".to_string(), later),
            Found::File { identity, .. } if identity != watched.identity => {
                ("the file was replaced by another file".to_string(), later)
            }
            Found::File { length_bytes, .. } if length_bytes < size_bytes => {
                let what = format!("the file was cut short: {length_bytes} of {size_bytes} bytes are left");
                (what, "what was cut off is lost")
            }
            Found::Else => return,
            Found::File { .. } => {
                if watched.trouble.take().is_some() {
                    let what = format!("drive {path}: the file is there again, as long as it was");
                    let check = format!("`ashlar pool scrub {}` restores what was cut off", key.pool);
                    log.warning(object, format!("{what}: {check}, where there is protection"));
                }
                return;
            }
        };
        if watched.trouble.replace(what.clone()).is_none() {
            let advice = "replace the drive where there is protection, else copy the volumes to another pool";
            log.error(object, format!("drive {path}: {what}; {loss}: {advice}"));
        }
    }

    /// What somebody did to the files of drives, by pool and the drive's identity.
    pub(super) fn troubles(&self) -> BTreeMap<(String, String), String> {
        let troubled = self.watched.iter().filter_map(|(key, watched)| Some((key, watched.trouble.clone()?)));
        troubled.map(|(key, what)| ((key.pool.clone(), key.drive.clone()), what)).collect()
    }
}

/// The path of a drive whose file was deleted, while the array has it open.
pub(super) fn deleted(pool: &api::Pool) -> Option<&str> {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let paths: Vec<_> = open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    let is_deleted = |path: &&str| paths.contains(&format!("{path} (deleted)").into());
    pool.drives.iter().map(|drive| drive.path.as_str()).find(is_deleted)
}

/// Drives that pools hold open.
fn open_drives(pools: &[api::Pool]) -> Vec<(Key, u64)> {
    let of_pool = |pool: &api::Pool| {
        let open = pool.drives.iter().filter(|drive| drive.is_served() && !drive.path.is_empty());
        let keyed = open.map(|drive| {
            let key = Key { pool: pool.name.clone(), drive: drive.id.clone(), path: drive.path.clone() };
            (key, drive.size_bytes)
        });
        keyed.filter(|(key, _)| !key.drive.is_empty()).collect::<Vec<_>>()
    };
    pools.iter().flat_map(of_pool).collect()
}

fn look_at(path: &str) -> Found {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => {
            let identity = Identity { device: found.dev(), inode: found.ino() };
            Found::File { identity, length_bytes: found.len(), mode: found.mode() }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Found::Nothing,
        Ok(_) | Err(_) => Found::Else,
    }
}
