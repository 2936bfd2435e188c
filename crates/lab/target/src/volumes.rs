//! Volumes of an Ashlar pool as a target: made, attached, watched and removed through the API, as any of its
//! clients would.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ashlar_client::api::{
    AttachRequest, Compression, ErrorKind, FileSystem, Pool, Profile, Protection, VolumeClass, VolumeCreate,
};
use ashlar_client::{Client, Error};
use serde::{Deserialize, Serialize};

use crate::copies::{Copies, Made, MadeSnapshot, locked, remove_snapshot};
use crate::place::{OWN_PREFIX, Refusal};

/// Volumes are whole multiples of it.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// What the name of a volume for a log ends with.
pub(crate) const LOG_SUFFIX: &str = "-log";
/// How long a device may be in use by a program that ends just now.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look.
const PATIENCE_STEP: Duration = Duration::from_millis(50);

/// Volumes that a test makes in a pool, each attached as a device of this machine.
pub struct Volumes {
    pub(crate) client: Arc<Client>,
    pub(crate) named: String,
    pub(crate) pool: String,
    /// What their names begin with.
    base: String,
    pub(crate) made: Made<MadeVolume>,
    pub(crate) snapshots: Made<MadeSnapshot>,
}

/// A volume that the lab made and will remove.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MadeVolume {
    pub name: String,
    /// Never used again in its pool: a volume that has the name later is another one.
    pub id: u64,
    /// Drawn when the pool was created, whatever it is called.
    pub pool_id: String,
    /// Where its file system is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<PathBuf>,
}

/// An array's pool as a report must state it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArrayPool {
    pub pool: String,
    /// Drawn when the pool was created.
    pub id: String,
    /// How many drives may fail.
    pub may_fail: u32,
    pub drives: Vec<String>,
    pub full_percent: u8,
    pub version: String,
}

/// What a pool counted since it was opened, of all its volumes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PoolCounters {
    pub host_read_bytes: u64,
    pub host_written_bytes: u64,
    pub drive_read_bytes: u64,
    pub drive_written_bytes: u64,
}

/// Asks a pool what it counted, from any thread.
pub struct Meter {
    client: Arc<Client>,
    pool: String,
}

impl Meter {
    /// So far; `None` where it does not say.
    #[must_use]
    pub fn counted(&self) -> Option<PoolCounters> {
        let pool = self.client.pool(&self.pool).ok()?;
        let of_hosts = |name: &str| pool.counters.get(name).copied().unwrap_or(0);
        Some(PoolCounters {
            host_read_bytes: of_hosts("host_bytes_read"),
            host_written_bytes: of_hosts("host_bytes_written"),
            drive_read_bytes: pool.drives.iter().map(|drive| drive.read_bytes).sum(),
            drive_written_bytes: pool.drives.iter().map(|drive| drive.written_bytes).sum(),
        })
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Volumes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volumes")
            .field("named", &self.named)
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

/// Of an address: the pool, and the volume that is named.
pub(crate) fn parse(rest: &str) -> Result<(&str, Option<&str>), Refusal> {
    let (pool, volume) = match rest.split_once('/') {
        Some((pool, volume)) => (pool, Some(volume)),
        None => (rest, None),
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    if is_name(pool) && volume.is_none_or(is_name) {
        return Ok((pool, volume));
    }
    Err(Refusal(format!(
        "ashlar:{rest}: name a pool as ashlar:POOL, or a volume in it as ashlar:POOL/VOLUME"
    )))
}

/// What a volume is to be, and the file system on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// 512 or 4096: the smallest request that the volume takes.
    pub block_bytes: u64,
    /// What the file system hands out to a file at once: a block of 4096 bytes, or several (bigalloc).
    pub cluster_bytes: u64,
}

impl Form {
    /// Everything that ext4 would else write later, while others measure, is written at once.
    fn make_ext4(self, device: &Path) -> Result<(), String> {
        let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let mut command = std::process::Command::new("mkfs.ext4");
        command.args(["-q", "-F", "-b", "4096", "-E", now]);
        if self.cluster_bytes > BLOCK_BYTES {
            command.args(["-O", "bigalloc", "-C", &self.cluster_bytes.to_string()]);
        }
        let ended = command.arg(device).output().map_err(|error| format!("mkfs.ext4: {error}"))?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(format!("mkfs.ext4: {}", String::from_utf8_lossy(&ended.stderr).trim())),
        }
    }
}

impl Volumes {
    pub(crate) fn new(named: &str, client: Arc<Client>, pool: &str, volume: Option<&str>) -> Volumes {
        let own = || format!("{OWN_PREFIX}{}", std::process::id());
        Volumes {
            client,
            named: named.to_string(),
            pool: pool.to_string(),
            base: volume.map_or_else(own, str::to_string),
            made: Made::default(),
            snapshots: Made::default(),
        }
    }

    /// So many volumes of this size each, as devices.
    pub(crate) fn make(&self, count: u64, size_bytes: u64) -> Result<Vec<PathBuf>, Refusal> {
        (0..count).map(|_| self.make_one(size_bytes.next_multiple_of(BLOCK_BYTES))).collect()
    }

    /// One of this size with an ext4, mounted.
    pub(crate) fn make_mounted(&self, size_bytes: u64, mount: &Path) -> Result<PathBuf, Refusal> {
        let name = self.create((size_bytes.next_multiple_of(BLOCK_BYTES), false), Some(mount))?;
        let request = AttachRequest {
            format: Some(FileSystem::Ext4),
            mount: Some(mount.display().to_string()),
            ..plain_attachment(&name)
        };
        self.client.attach(&request).map_err(|error| self.refusal(&error))?;
        Ok(mount.to_path_buf())
    }

    /// One for a log, with an ext4, mounted.
    pub(crate) fn make_log(&self, size_bytes: u64, mount: &Path) -> Result<(), Refusal> {
        let size_bytes = size_bytes.next_multiple_of(BLOCK_BYTES);
        let name = self.next_name(LOG_SUFFIX);
        let name = self.create_named(name, (size_bytes, BLOCK_BYTES as u32, false), Some(mount))?;
        let request = AttachRequest {
            format: Some(FileSystem::Ext4),
            mount: Some(mount.display().to_string()),
            ..plain_attachment(&name)
        };
        self.client.attach(&request).map(drop).map_err(|error| self.refusal(&error))
    }

    /// One of this size and with logical blocks of that, with an ext4 that hands out clusters, mounted.
    pub(crate) fn make_formatted(
        &self,
        size_bytes: u64,
        form: Form,
        mount: &Path,
    ) -> Result<PathBuf, Refusal> {
        let size_bytes = size_bytes.next_multiple_of(BLOCK_BYTES);
        let name = self.create_of((size_bytes, form.block_bytes as u32, false), Some(mount))?;
        let device = attach(&self.client, &name).map_err(|error| self.refusal(&error))?;
        let formatted = form.make_ext4(&device);
        detach(&self.client, &name).map_err(|error| self.refusal(&error))?;
        formatted.map_err(|what| Refusal(format!("{}: {what}", self.named)))?;
        let mounted = Some(mount.display().to_string());
        let request = AttachRequest { mount: mounted, ..plain_attachment(&name) };
        self.client.attach(&request).map_err(|error| self.refusal(&error))?;
        Ok(mount.to_path_buf())
    }

    fn make_one(&self, size_bytes: u64) -> Result<PathBuf, Refusal> {
        let name = self.create((size_bytes, false), None)?;
        attach(&self.client, &name).map_err(|error| self.refusal(&error))
    }

    /// Its name.
    pub(crate) fn create(
        &self,
        (size_bytes, dedupe): (u64, bool),
        mount: Option<&Path>,
    ) -> Result<String, Refusal> {
        self.create_of((size_bytes, BLOCK_BYTES as u32, dedupe), mount)
    }

    fn create_of(&self, form: (u64, u32, bool), mount: Option<&Path>) -> Result<String, Refusal> {
        self.create_named(self.next_name(""), form, mount)
    }

    /// Of the volume that is made next; what it is for stands at its end.
    pub(crate) fn next_name(&self, suffix: &str) -> String {
        match locked(&self.made).len() {
            0 => format!("{}{suffix}", self.base),
            before => format!("{}-{}{suffix}", self.base, before + 1),
        }
    }

    fn create_named(
        &self,
        name: String,
        (size_bytes, logical_block_bytes, dedupe): (u64, u32, bool),
        mount: Option<&Path>,
    ) -> Result<String, Refusal> {
        let request = VolumeCreate {
            name: name.clone(),
            size_bytes,
            pool: Some(self.pool.clone()),
            logical_block_bytes,
            // As the manual advises for databases: every experiment stands for one.
            profile: Profile::Oltp,
            compression: Compression::default(),
            dedupe,
            limit_bytes: None,
            reserve_bytes: None,
            floor_micros: None,
            class: VolumeClass::Normal,
        };
        let pool_id = self.pool()?.id;
        let volume = self.client.volume_create(&request).map_err(|error| self.refusal(&error))?;
        let (name_made, mount) = (name.clone(), mount.map(Path::to_path_buf));
        locked(&self.made).push(MadeVolume { name: name_made, id: volume.id, pool_id, mount });
        Ok(name)
    }

    /// The device that the last of them is.
    pub(crate) fn device(&self) -> Option<PathBuf> {
        let last = locked(&self.made).last()?.name.clone();
        Some(PathBuf::from(self.client.volume(&last).ok()?.device?))
    }

    /// What is there now and goes with [`Volumes::clear`].
    pub(crate) fn made(&self) -> Vec<MadeVolume> {
        locked(&self.made).clone()
    }

    /// Removes what was made; what could not be removed is tried again when this is called again.
    pub(crate) fn clear(&self) -> Result<(), Refusal> {
        loop {
            let Some(last) = locked(&self.made).last().cloned() else { break };
            remove(&self.client, &last)?;
            locked(&self.made).pop();
        }
        loop {
            let Some(last) = locked(&self.snapshots).last().cloned() else { return Ok(()) };
            remove_snapshot(&self.client, &last)?;
            locked(&self.snapshots).pop();
        }
    }

    /// The snapshots that were made and not yet removed.
    pub(crate) fn snapshots(&self) -> Vec<MadeSnapshot> {
        locked(&self.snapshots).clone()
    }

    /// For snapshots of the volume that is mounted there, and clones of them.
    pub(crate) fn copies(&self, mount: &Path) -> Option<Copies> {
        let made = locked(&self.made);
        let volume = made.iter().find(|volume| volume.mount.as_deref() == Some(mount))?;
        Some(Copies {
            client: self.client.clone(),
            named: self.named.clone(),
            volume: volume.name.clone(),
            log: None,
            pool_id: volume.pool_id.clone(),
            volumes: self.made.clone(),
            snapshots: self.snapshots.clone(),
        })
    }

    /// What a host can still write.
    pub(crate) fn room_bytes(&self) -> Result<u64, Refusal> {
        let pool = self.pool()?;
        let space = pool.space.ok_or_else(|| {
            Refusal(format!("{}: the pool is not open: {}", self.named, pool.reason.unwrap_or_default()))
        })?;
        Ok(space.free_bytes + space.dead_bytes)
    }

    pub(crate) fn facts(&self) -> Result<ArrayPool, Refusal> {
        let pool = self.pool()?;
        let status = self.client.status().map_err(|error| self.refusal(&error))?;
        Ok(ArrayPool {
            may_fail: match pool.protection {
                Protection::None => 0,
                Protection::Single => 1,
                Protection::Dual => 2,
            },
            drives: pool.drives.iter().map(|drive| drive.path.clone()).collect(),
            pool: pool.name,
            id: pool.id,
            full_percent: pool.full_percent,
            version: status.version,
        })
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter { client: self.client.clone(), pool: self.pool.clone() }
    }

    pub(crate) fn pool(&self) -> Result<Pool, Refusal> {
        self.client.pool(&self.pool).map_err(|error| self.refusal(&error))
    }

    pub(crate) fn refusal(&self, error: &Error) -> Refusal {
        Refusal(format!("{}: {error}", self.named))
    }
}

impl ArrayPool {
    pub(crate) fn in_words(&self) -> String {
        let drives = match self.drives.len() {
            1 => "1 drive".to_string(),
            count => format!("{count} drives"),
        };
        let may_fail = match self.may_fail {
            0 => "none may fail".to_string(),
            count => format!("{count} may fail"),
        };
        let Self { pool, version, full_percent, .. } = self;
        format!(
            "volumes of Ashlar {version}'s pool {pool} on {drives}, of which {may_fail}, {full_percent} % full"
        )
    }
}

impl std::ops::Sub for PoolCounters {
    type Output = PoolCounters;

    /// What came between two looks. A pool that was opened anew meanwhile counts from zero.
    fn sub(self, before: PoolCounters) -> PoolCounters {
        PoolCounters {
            host_read_bytes: self.host_read_bytes.saturating_sub(before.host_read_bytes),
            host_written_bytes: self.host_written_bytes.saturating_sub(before.host_written_bytes),
            drive_read_bytes: self.drive_read_bytes.saturating_sub(before.drive_read_bytes),
            drive_written_bytes: self.drive_written_bytes.saturating_sub(before.drive_written_bytes),
        }
    }
}

/// The volume as a device.
pub(crate) fn attach(client: &Client, volume: &str) -> Result<PathBuf, Error> {
    Ok(PathBuf::from(client.attach(&plain_attachment(volume))?.device))
}

pub(crate) fn plain_attachment(volume: &str) -> AttachRequest {
    // What a run makes ends with it.
    AttachRequest { once: true, ..AttachRequest::plain(volume) }
}

/// Detaches, and waits for who uses the device to end.
pub(crate) fn detach(client: &Client, volume: &str) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match client.detach(volume, false) {
            Err(error) if error.kind == ErrorKind::Busy && begun.elapsed() < PATIENCE => {
                std::thread::sleep(PATIENCE_STEP);
            }
            // It was not attached, or is gone.
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            answered => return answered,
        }
    }
}

/// Detaches and deletes a volume that the lab made, if it is still that one.
///
/// # Errors
/// When it is in use or the array does not answer: says what to do.
pub fn remove(client: &Client, volume: &MadeVolume) -> Result<(), Refusal> {
    let MadeVolume { name, id, pool_id, mount } = volume;
    let left = |error: Error| {
        Refusal(format!("volume {name} is left: {error}; then remove it with `ashlar volume delete {name}`"))
    };
    let is_it = || {
        Ok::<bool, Error>({
            let found = client.volume(name)?;
            found.id == *id && client.pool(&found.pool)?.id == *pool_id
        })
    };
    match is_it() {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(left(error)),
    }
    detach(client, name).map_err(left)?;
    // Nobody wants a test's data back, and the next test needs the room.
    client.volume_delete(name, false, true).map_err(left)?;
    if let Some(mount) = mount {
        // Made by the attach; not empty is not ours any more.
        let _stays = std::fs::remove_dir(mount);
    }
    Ok(())
}
