//! Databases that were loaded once and are kept on their target for a later run: a directory with a copy of
//! their files, or a snapshot of their volumes.
//!
//! ```text
//! DIR/ashlar-lab-base-KIND-KEY/data, log     the files of a server that was stopped
//!                             /base.json     what made them; without it they were cut short
//! snapshot ashlar-lab-base-KIND-KEY          of a pool; base.json lies on the volume of the data
//! ```
//! Nobody works in a base: a run works in a copy or a clone of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind as IoKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ashlar_client::Client;
use ashlar_client::api::{AttachRequest, SnapshotCreate};
use serde::{Deserialize, Serialize};

use crate::copies::{MadeSnapshot, cloned_as, locked, remove_snapshot};
use crate::disks::OVER;
use crate::kind::Kind;
use crate::place::{Access, Laid, Refusal, remove_own};
use crate::volumes::{self, LOG_SUFFIX, MadeVolume, Volumes, plain_attachment};

/// What the names of bases begin with.
const PREFIX: &str = "ashlar-lab-base-";
/// What made a base.
const MANIFEST: &str = "base.json";
/// Version of the manifest, and of what is meant by a base.
const FORMAT: u32 = 1;
/// Below a base that is a directory.
const DATA: &str = "data";
const LOG: &str = "log";

/// What made a base: it is used only where all of that is the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    pub made_of: BTreeMap<String, String>,
    pub made_unix_seconds: u64,
    /// Of the data and the log.
    pub files: u64,
    pub bytes: u64,
}

/// A base that was found on a target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeptBase {
    pub name: String,
    /// The target as it was named.
    pub target: String,
    /// What is loaded, in words; absent where only its volumes tell it.
    pub of: Option<String>,
    pub made_unix_seconds: Option<u64>,
    /// Of its files; absent of a snapshot, which shares what it holds.
    pub bytes: Option<u64>,
    /// It was not cut short.
    pub is_whole: bool,
}

/// How files came from one place to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    /// Of the bytes: shared by the file system, and not written again.
    pub shared_bytes: u64,
}

/// Where a target keeps its bases.
#[derive(Clone)]
pub enum Shelf {
    Directory { named: String, path: PathBuf },
    Pool { named: String, client: Arc<Client>, pool: String },
}

impl Manifest {
    /// Of what is there.
    #[must_use]
    pub fn new(made_of: BTreeMap<String, String>, made_unix_seconds: u64, of: Copied) -> Manifest {
        let Copied { files, bytes, .. } = of;
        Manifest { format: FORMAT, made_of, made_unix_seconds, files, bytes }
    }

    /// What a base of this is called: the kind, and a digest of all that made it.
    #[must_use]
    pub fn name(kind: &str, made_of: &BTreeMap<String, String>) -> String {
        let text = serde_json::to_string(made_of).expect("it is plain data");
        format!("{PREFIX}{kind}-{:016x}", digest(text.as_bytes()))
    }

    /// Of a base, or of a volume that is a clone of one; `None` where there is none that can be read.
    #[must_use]
    pub fn read(directory: &Path) -> Option<Manifest> {
        let text = fs::read_to_string(directory.join(MANIFEST)).ok()?;
        let manifest: Manifest = serde_json::from_str(&text).ok()?;
        (manifest.format == FORMAT).then_some(manifest)
    }

    /// After all else of the base is on its drive.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        rustix::fs::syncfs(File::open(directory)?)?;
        let (path, part) = (directory.join(MANIFEST), directory.join(format!("{MANIFEST}.part")));
        let mut file = File::create(&part)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(part, path)?;
        File::open(directory)?.sync_all()
    }
}

/// FNV-1a, 64 bits. It only names: what made a base is compared as a whole.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Shelf {
    /// Of a target; `None` of one that keeps none.
    ///
    /// # Errors
    /// When there is no such target.
    pub fn of(named: &str, access: &Access) -> Result<Option<Shelf>, Refusal> {
        let refused = |what: String| Refusal(format!("{named}: {what}"));
        let directory = |path: &str| -> Result<Option<Shelf>, Refusal> {
            let path = fs::canonicalize(path).map_err(|error| refused(error.to_string()))?;
            Ok(Some(Shelf::Directory { named: named.to_string(), path }))
        };
        match Kind::of(named)? {
            Kind::Directory => directory(named),
            Kind::Disk => directory(named.split_once(OVER).map_or(named, |(_, over)| over)),
            Kind::Pool => {
                let (pool, _) = volumes::parse(Kind::rest(named))?;
                let client = access.array.clone().ok_or_else(|| refused("no array is known here".into()))?;
                client.pool(pool).map_err(|error| refused(error.to_string()))?;
                Ok(Some(Shelf::Pool { named: named.to_string(), client, pool: pool.to_string() }))
            }
            Kind::Device | Kind::Export | Kind::Model | Kind::Server => Ok(None),
        }
    }

    /// All that are there.
    ///
    /// # Errors
    /// When the target cannot be looked at.
    pub fn list(&self) -> Result<Vec<KeptBase>, Refusal> {
        let mut found = match self {
            Shelf::Directory { named, path } => {
                let unread = |error: io::Error| Refusal(format!("{named}: {error}"));
                let entries = fs::read_dir(path).map_err(unread)?.flatten();
                let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
                let names = names.filter(|name| name.starts_with(PREFIX) && path.join(name).is_dir());
                names.map(|name| in_directory(named, path, name)).collect::<Vec<_>>()
            }
            Shelf::Pool { named, client, pool } => {
                let snapshots = client.snapshots().map_err(|error| Refusal(format!("{named}: {error}")))?;
                let own = snapshots
                    .into_iter()
                    .filter(|snapshot| snapshot.pool == *pool && snapshot.name.starts_with(PREFIX));
                let base = |snapshot: ashlar_client::api::Snapshot| KeptBase {
                    name: snapshot.name,
                    target: named.clone(),
                    of: None,
                    made_unix_seconds: Some(snapshot.created_unix_seconds),
                    bytes: None,
                    is_whole: true,
                };
                own.map(base).collect()
            }
        };
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// One that was not cut short.
    ///
    /// # Errors
    /// When the target cannot be looked at.
    pub fn find(&self, name: &str) -> Result<Option<KeptBase>, Refusal> {
        Ok(self.list()?.into_iter().find(|base| base.name == name && base.is_whole))
    }

    /// The directory of a base, where it is one.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<PathBuf> {
        match self {
            Shelf::Directory { path, .. } => Some(path.join(name)),
            Shelf::Pool { .. } => None,
        }
    }

    /// Removes one.
    ///
    /// # Errors
    /// When it stays: says how to remove it.
    pub fn remove(&self, name: &str) -> Result<(), Refusal> {
        if !name.starts_with(PREFIX) || name.contains('/') {
            return Err(Refusal(format!("{name} is no base of the lab's")));
        }
        match self {
            Shelf::Directory { path, .. } => {
                // Whoever is cut off here leaves nothing that looks whole.
                let _was_cut_short = fs::remove_file(path.join(name).join(MANIFEST));
                remove_own(&path.join(name))
            }
            Shelf::Pool { named, client, pool } => {
                let found = client.pool(pool).map_err(|error| Refusal(format!("{named}: {error}")))?;
                let made = MadeSnapshot { name: name.to_string(), pool_id: found.id };
                remove_snapshot(client, &made)
            }
        }
    }

    /// Puts a copy of what lies there on the shelf, made in `own`, a directory of the same file system that
    /// goes when the run ends.
    ///
    /// # Errors
    /// When it cannot be made: then nothing of it is kept.
    pub fn put(
        &self,
        name: &str,
        (laid, own): (&Laid, &Path),
        made_of: &BTreeMap<String, String>,
        (now, is_stopped): (u64, &dyn Fn() -> bool),
    ) -> io::Result<Copied> {
        let Shelf::Directory { path, .. } = self else {
            return Err(io::Error::other("a pool keeps snapshots, and no copies"));
        };
        let part = own.join(format!("{name}.part"));
        let _of_a_run_before = fs::remove_dir_all(&part);
        fs::create_dir(&part)?;
        let mut copied = copy_tree(&laid.data, &part.join(DATA), is_stopped)?;
        if let Some(log) = &laid.log {
            copied = copied.and(copy_tree(log, &part.join(LOG), is_stopped)?);
        }
        Manifest::new(made_of.clone(), now, copied).write(&part)?;
        // One that is there was cut short, or is not what its name says.
        let place = path.join(name);
        let _absent = fs::remove_file(place.join(MANIFEST));
        let _absent = fs::remove_dir_all(&place);
        fs::rename(&part, &place)?;
        File::open(path)?.sync_all()?;
        Ok(copied)
    }

    /// Copies a base to where a run works.
    ///
    /// # Errors
    /// When it is not what its manifest says, or cannot be copied.
    pub fn take(
        &self,
        (name, manifest): (&str, &Manifest),
        laid: &Laid,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<Copied> {
        let Some(base) = self.path_of(name) else {
            return Err(io::Error::other("a pool keeps snapshots, and no copies"));
        };
        let mut there = count_tree(&base.join(DATA))?;
        if laid.log.is_some() {
            there = there.and(count_tree(&base.join(LOG))?);
        }
        if (there.files, there.bytes) != (manifest.files, manifest.bytes) {
            return Err(io::Error::new(
                IoKind::InvalidData,
                format!("{}: it holds other files than were kept", base.display()),
            ));
        }
        let mut copied = copy_tree(&base.join(DATA), &laid.data, is_stopped)?;
        if let Some(log) = &laid.log {
            copied = copied.and(copy_tree(&base.join(LOG), log, is_stopped)?);
        }
        Ok(copied)
    }
}

fn in_directory(named: &str, path: &Path, name: String) -> KeptBase {
    let manifest = Manifest::read(&path.join(&name));
    KeptBase {
        target: named.to_string(),
        of: manifest.as_ref().and_then(|manifest| manifest.made_of.get("workload").cloned()),
        made_unix_seconds: manifest.as_ref().map(|manifest| manifest.made_unix_seconds),
        bytes: count_tree(&path.join(&name)).ok().map(|counted| counted.bytes),
        is_whole: manifest.is_some(),
        name,
    }
}

impl Copied {
    fn and(self, other: Copied) -> Copied {
        Copied {
            files: self.files + other.files,
            bytes: self.bytes + other.bytes,
            shared_bytes: self.shared_bytes + other.shared_bytes,
        }
    }
}

/// What is below a directory.
///
/// # Errors
/// When something of it cannot be looked at.
pub fn count_tree(from: &Path) -> io::Result<Copied> {
    let mut counted = Copied::default();
    let mut waiting = vec![from.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                counted = counted.and(Copied { files: 1, bytes: entry.metadata()?.len(), shared_bytes: 0 });
            }
        }
    }
    Ok(counted)
}

/// Copies a directory with all that is below it, and its owners. Where the file system can, files share
/// their bytes with those that they are copies of.
fn copy_tree(from: &Path, to: &Path, is_stopped: &dyn Fn() -> bool) -> io::Result<Copied> {
    let mut copied = Copied::default();
    let mut waiting = vec![(from.to_path_buf(), to.to_path_buf())];
    while let Some((from, to)) = waiting.pop() {
        match fs::create_dir(&to) {
            Err(error) if error.kind() != IoKind::AlreadyExists => return Err(error),
            _ => owned_as(&to, &fs::metadata(&from)?)?,
        }
        for entry in fs::read_dir(&from)? {
            if is_stopped() {
                return Err(IoKind::Interrupted.into());
            }
            let entry = entry?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let found = entry.metadata()?;
            if found.is_dir() {
                waiting.push((source, target));
            } else if found.file_type().is_symlink() {
                symlink(fs::read_link(&source)?, &target)?;
                lchown(&target, Some(found.uid()), Some(found.gid()))?;
            } else if found.is_file() && entry.file_name() != MANIFEST {
                let shared_bytes = copy_file(&source, &target)?;
                owned_as(&target, &found)?;
                copied = copied.and(Copied { files: 1, bytes: found.len(), shared_bytes });
            }
        }
    }
    Ok(copied)
}

/// How many bytes are shared.
fn copy_file(from: &Path, to: &Path) -> io::Result<u64> {
    let (mut source, mut target) = (File::open(from)?, File::create(to)?);
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(source.metadata()?.len());
    }
    io::copy(&mut source, &mut target)?;
    Ok(0)
}

fn owned_as(path: &Path, like: &fs::Metadata) -> io::Result<()> {
    let now = fs::metadata(path)?;
    if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
        lchown(path, Some(like.uid()), Some(like.gid()))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(like.mode() & 0o7777))
}

impl Volumes {
    /// Keeps the volumes that are mounted there as a base of that name, and forgets one that has it.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn keep_as(&self, name: &str, laid: &Laid) -> Result<(), Refusal> {
        let made = self.made();
        let at = |mount: &PathBuf| made.iter().find(|volume| volume.mount.as_ref() == Some(mount));
        let volumes = [&laid.data].into_iter().chain(&laid.log).filter_map(at);
        let volumes = volumes.map(|volume| volume.name.clone()).collect();
        remove_snapshot(&self.client, &MadeSnapshot { name: name.to_string(), pool_id: self.pool()?.id })?;
        let request = SnapshotCreate { name: name.to_string(), volumes };
        self.client.snapshot_create(&request).map(drop).map_err(|error| self.refusal(&error))
    }

    /// Clones of a base, mounted there.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn clone_base(&self, name: &str, mount: &Path, log: Option<&Path>) -> Result<Laid, Refusal> {
        let pool_id = self.pool()?.id;
        let snapshot = self.client.snapshot(name).map_err(|error| self.refusal(&error))?;
        // In the order in which they were named: the data first.
        for (index, (suffix, at)) in [("", Some(mount)), (LOG_SUFFIX, log)].into_iter().enumerate() {
            let Some(at) = at else { continue };
            let of = snapshot.volumes.get(index).ok_or_else(|| {
                Refusal(format!("{}: snapshot {name} has not both volumes: delete it", self.named))
            })?;
            let (clone, from) = (self.next_name(suffix), format!("{of}@{name}"));
            let made = cloned_as(&self.client, (&clone, &from), &pool_id);
            let made = made.map_err(|error| self.refusal(&error))?;
            locked(&self.made).push(MadeVolume { mount: Some(at.to_path_buf()), ..made });
            let request = AttachRequest { mount: Some(at.display().to_string()), ..plain_attachment(&clone) };
            self.client.attach(&request).map_err(|error| self.refusal(&error))?;
        }
        Ok(Laid { data: mount.to_path_buf(), log: log.map(Path::to_path_buf) })
    }

    /// Takes the volumes that are mounted there away.
    ///
    /// # Errors
    /// When one stays: says how to remove it.
    pub fn forget_at(&self, laid: &Laid) -> Result<(), Refusal> {
        for at in [Some(&laid.data), laid.log.as_ref()].into_iter().flatten() {
            let made = self.made().into_iter().find(|volume| volume.mount.as_ref() == Some(at));
            made.map_or(Ok(()), |volume| self.forget(&volume.name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_of(seed: &str) -> BTreeMap<String, String> {
        [("workload", "points"), ("seed", seed)].map(|(key, value)| (key.into(), value.into())).into()
    }

    fn shelf(path: &Path) -> Shelf {
        Shelf::Directory { named: path.display().to_string(), path: path.to_path_buf() }
    }

    #[test]
    fn what_is_put_comes_back_as_it_was_and_what_was_cut_short_does_not() {
        let target = tempfile::tempdir().unwrap();
        let own = target.path().join("own");
        let laid = Laid { data: own.join("set-1"), log: Some(own.join("set-1-log")) };
        fs::create_dir_all(laid.data.join("pgdata/base")).unwrap();
        fs::create_dir_all(own.join("set-1-log/wal")).unwrap();
        fs::write(laid.data.join("pgdata/base/1"), vec![7; 10_000]).unwrap();
        fs::write(own.join("set-1-log/wal/1"), "log").unwrap();
        symlink(own.join("set-1-log/wal"), laid.data.join("pgdata/pg_wal")).unwrap();
        fs::set_permissions(laid.data.join("pgdata"), fs::Permissions::from_mode(0o700)).unwrap();
        let (shelf, name) = (shelf(target.path()), Manifest::name("points", &made_of("1")));
        assert_ne!(name, Manifest::name("points", &made_of("2")));
        let go_on = || false;
        let copied = shelf.put(&name, (&laid, &own), &made_of("1"), (5, &go_on)).unwrap();
        assert_eq!((copied.files, copied.bytes), (2, 10_003));
        let found = shelf.find(&name).unwrap().unwrap();
        assert_eq!((found.of.as_deref(), found.made_unix_seconds), (Some("points"), Some(5)));

        let base = shelf.path_of(&name).unwrap();
        let manifest = Manifest::read(&base).unwrap();
        assert_eq!(manifest.made_of, made_of("1"));
        let other = Laid { data: own.join("set-2"), log: Some(own.join("set-2-log")) };
        shelf.take((&name, &manifest), &other, &go_on).unwrap();
        assert_eq!(fs::read(other.data.join("pgdata/base/1")).unwrap(), vec![7; 10_000]);
        assert_eq!(fs::metadata(other.data.join("pgdata")).unwrap().mode() & 0o777, 0o700);
        assert!(other.data.join("pgdata/pg_wal").is_symlink() && own.join("set-2-log/wal/1").exists());

        // Somebody touched it.
        fs::write(base.join("data/pgdata/base/1"), "short").unwrap();
        let third = Laid { data: own.join("set-3"), log: Some(own.join("set-3-log")) };
        assert!(shelf.take((&name, &manifest), &third, &go_on).is_err() && !third.data.exists());
        // It was cut short: without its manifest it is found by whoever clears up, and by nobody else.
        fs::remove_file(base.join(MANIFEST)).unwrap();
        assert_eq!(shelf.find(&name).unwrap(), None);
        assert_eq!(shelf.list().unwrap().len(), 1);
        shelf.remove(&name).unwrap();
        assert!(shelf.list().unwrap().is_empty() && shelf.remove("own").is_err());
        // Whoever is stopped keeps nothing.
        let stopped = shelf.put(&name, (&laid, &own), &made_of("1"), (5, &|| true));
        assert!(stopped.is_err() && shelf.list().unwrap().is_empty());
    }
}
