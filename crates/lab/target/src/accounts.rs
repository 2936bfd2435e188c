//! The accounts of a pool: where the bytes of its volumes are, read when the pool has come to rest.
//!
//! What an experiment took is what the accounts have more than before it, so a pool may hold other volumes as
//! long as nobody works on them meanwhile.

use std::ops::Sub;
use std::path::Path;
use std::time::{Duration, Instant};

use ashlar_client::api::{
    AttachRequest, FileSystem, PoolSpace, SnapshotCreate, SpaceBasis, SpaceParts, VolumeSpace,
};
use serde::{Deserialize, Serialize};

use crate::copies::{MadeSnapshot, locked, remove_snapshot};
use crate::place::Refusal;
use crate::volumes::{BLOCK_BYTES, MadeVolume, Volumes, plain_attachment, remove};

/// For the pool to look at all that was written, and to count.
const REST_LIMIT: Duration = Duration::from_secs(300);
/// How often to look.
const REST_STEP: Duration = Duration::from_millis(300);
/// A count may take so long; then there is none.
const COUNT_SECONDS: u64 = 120;

/// The additive parts of a pool's accounts, or what they have more than at another moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// Sizes promised: of volumes.
    pub volumes_promised_bytes: i64,
    /// And of snapshots, as consoles count them.
    pub snapshots_promised_bytes: i64,
    /// Written as zeroes, in volumes and snapshots.
    pub zero_bytes: i64,
    /// Written otherwise, in volumes and snapshots.
    pub written_bytes: i64,
    /// Of that, held by several because of snapshots and clones, beyond the first time.
    pub snapshots_saved_bytes: i64,
    /// And because of equal content.
    pub content_saved_bytes: i64,
    pub compression_saved_bytes: i64,
    /// What is referred to, as stored.
    pub stored_bytes: i64,
    /// Stored beside it and not referred to any more.
    pub stranded_bytes: i64,
    pub metadata_bytes: i64,
    /// Of the metadata, maps of volumes and snapshots.
    pub map_bytes: i64,
    /// Columns of parity that go with all that is stored.
    pub parity_bytes: i64,
    /// Overwritten and deleted, and not yet cleaned: room that comes when it is needed.
    pub dead_bytes: i64,
}

/// A volume that was made, and how long that took.
#[derive(Clone, Debug)]
pub struct Timed {
    pub name: String,
    pub create: Duration,
    /// With a file system on it, mounted.
    pub ready: Duration,
}

impl Account {
    /// All that is on drives because of what is stored.
    #[must_use]
    pub fn physical_bytes(&self) -> i64 {
        self.stored_bytes + self.stranded_bytes + self.metadata_bytes + self.parity_bytes
    }

    pub(crate) fn of(space: &PoolSpace) -> Option<Account> {
        let is_exact = space.basis == SpaceBasis::Walk;
        let sharing = space.sharing_saved_bytes? as i64;
        let content = space.content_saved_bytes? as i64;
        let images = || space.volumes.iter().chain(&space.snapshots);
        let promised =
            |of: &[VolumeSpace]| of.iter().map(|image| image.provisioned_bytes as i64).sum::<i64>();
        let parts = &space.parts;
        let stranded = parts.stranded_bytes? as i64;
        let stored = (parts.data_alive_bytes + parts.recoverable_bytes?) as i64;
        let metadata = parts.metadata_alive_bytes as i64;
        let account = Account {
            volumes_promised_bytes: promised(&space.volumes),
            snapshots_promised_bytes: promised(&space.snapshots),
            zero_bytes: images()
                .map(|image| image.zero_bytes.map(|bytes| bytes as i64))
                .sum::<Option<_>>()?,
            written_bytes: space.written_bytes? as i64,
            snapshots_saved_bytes: sharing - content,
            content_saved_bytes: content,
            compression_saved_bytes: space.compression_saved_bytes?,
            stored_bytes: stored,
            stranded_bytes: stranded,
            metadata_bytes: metadata,
            map_bytes: space.map_page_bytes? as i64,
            parity_bytes: (parity_share(parts) * (stored + stranded + metadata) as f64) as i64,
            dead_bytes: parts.dead_bytes as i64,
        };
        is_exact.then_some(account)
    }

    /// What does not change when nothing is written; the rest moves with every checkpoint.
    fn settled_parts(&self) -> [i64; 5] {
        [
            self.written_bytes,
            self.content_saved_bytes,
            self.snapshots_saved_bytes,
            self.stored_bytes,
            self.stranded_bytes,
        ]
    }
}

/// Bytes of parity for each byte of the rest.
fn parity_share(parts: &SpaceParts) -> f64 {
    let beside = parts.superblock_bytes + parts.unusable_bytes + parts.spare_bytes + parts.parity_bytes;
    parts.parity_bytes as f64 / parts.physical_bytes.saturating_sub(beside).max(1) as f64
}

impl Sub for Account {
    type Output = Account;

    /// What came since another moment.
    fn sub(self, before: Account) -> Account {
        Account {
            volumes_promised_bytes: self.volumes_promised_bytes - before.volumes_promised_bytes,
            snapshots_promised_bytes: self.snapshots_promised_bytes - before.snapshots_promised_bytes,
            zero_bytes: self.zero_bytes - before.zero_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            snapshots_saved_bytes: self.snapshots_saved_bytes - before.snapshots_saved_bytes,
            content_saved_bytes: self.content_saved_bytes - before.content_saved_bytes,
            compression_saved_bytes: self.compression_saved_bytes - before.compression_saved_bytes,
            stored_bytes: self.stored_bytes - before.stored_bytes,
            stranded_bytes: self.stranded_bytes - before.stranded_bytes,
            metadata_bytes: self.metadata_bytes - before.metadata_bytes,
            map_bytes: self.map_bytes - before.map_bytes,
            parity_bytes: self.parity_bytes - before.parity_bytes,
            dead_bytes: self.dead_bytes - before.dead_bytes,
        }
    }
}

impl Volumes {
    /// A volume with an ext4, mounted there; how long each took.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn make_timed(&self, size_bytes: u64, mount: &Path, has_dedupe: bool) -> Result<Timed, Refusal> {
        let begun = Instant::now();
        let name = self.create((size_bytes.next_multiple_of(BLOCK_BYTES), has_dedupe), Some(mount))?;
        let create = begun.elapsed();
        let request = AttachRequest {
            format: Some(FileSystem::Ext4),
            mount: Some(mount.display().to_string()),
            ..plain_attachment(&name)
        };
        self.client.attach(&request).map_err(|error| self.refusal(&error))?;
        Ok(Timed { name, create, ready: begun.elapsed() })
    }

    /// A snapshot of these volumes at one moment.
    ///
    /// # Errors
    /// When the array refuses it or does not answer.
    pub fn snapshot_all(&self, name: &str, volumes: &[String]) -> Result<(), Refusal> {
        let pool_id = self.pool()?.id;
        locked(&self.snapshots).push(MadeSnapshot { name: name.to_string(), pool_id });
        let request = SnapshotCreate { name: name.to_string(), volumes: volumes.to_vec() };
        self.client.snapshot_create(&request).map(drop).map_err(|error| self.refusal(&error))
    }

    /// Deletes the snapshots that were made here.
    ///
    /// # Errors
    /// When one stays: says how to remove it.
    pub fn forget_snapshots(&self) -> Result<(), Refusal> {
        while let Some(last) = self.snapshots().last() {
            remove_snapshot(&self.client, last)?;
            locked(&self.snapshots).retain(|made| made != last);
        }
        Ok(())
    }

    /// Detaches and deletes a volume that was made here.
    ///
    /// # Errors
    /// When it stays: says how to remove it.
    pub fn forget(&self, name: &str) -> Result<(), Refusal> {
        let found: Option<MadeVolume> = self.made().into_iter().find(|volume| volume.name == name);
        let Some(volume) = found else { return Ok(()) };
        remove(&self.client, &volume)?;
        locked(&self.made).retain(|made| *made != volume);
        Ok(())
    }

    /// The accounts once nothing is waited for and two counts are the same.
    ///
    /// # Errors
    /// When the array does not answer, or the pool does not come to rest because somebody works on it.
    pub fn settled(&self) -> Result<Account, Refusal> {
        let begun = Instant::now();
        let mut before: Option<Account> = None;
        loop {
            let found = if self.is_looking()? { None } else { Some(self.account()?) };
            let parts = |account: &Account| account.settled_parts();
            if let Some(account) = found
                && before.as_ref().map(parts) == Some(parts(&account))
            {
                return Ok(account);
            }
            if begun.elapsed() > REST_LIMIT {
                return Err(Refusal(format!(
                    "{}: the pool has not come to rest within {} s: the accounts are of this experiment only \
                     where nobody else writes to the pool",
                    self.named,
                    REST_LIMIT.as_secs()
                )));
            }
            before = found;
            std::thread::sleep(REST_STEP);
        }
    }

    /// Dedupe has still to look at what was written.
    fn is_looking(&self) -> Result<bool, Refusal> {
        let dedupe = self.client.pool_dedupe(&self.pool).map_err(|error| self.refusal(&error))?;
        Ok(dedupe.queued_block_count > 0 || dedupe.rebuild_percent.is_some())
    }

    fn account(&self) -> Result<Account, Refusal> {
        let space = self.client.pool_space(&self.pool, Some(COUNT_SECONDS));
        let space = space.map_err(|error| self.refusal(&error))?;
        Account::of(&space).ok_or_else(|| {
            let why = space.reason.unwrap_or_else(|| "only an estimate".into());
            Refusal(format!("{}: the space of the pool could not be counted: {why}", self.named))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> PoolSpace {
        let image = |name: &str, written: u64, zero: u64| VolumeSpace {
            name: name.into(),
            provisioned_bytes: 1000,
            written_bytes: Some(written),
            zero_bytes: Some(zero),
            unwritten_bytes: Some(1000 - written - zero),
            shared_written_bytes: Some(0),
            only_bytes: Some(0),
        };
        PoolSpace {
            pool: "main".into(),
            basis: SpaceBasis::Walk,
            reason: None,
            parts: SpaceParts {
                physical_bytes: 6_100,
                data_alive_bytes: 300,
                stranded_bytes: Some(20),
                recoverable_bytes: Some(0),
                metadata_alive_bytes: 80,
                superblock_bytes: 100,
                parity_bytes: 2_000,
                ..SpaceParts::default()
            },
            map_page_bytes: Some(60),
            provisioned_bytes: 2000,
            written_bytes: Some(900),
            shared_bytes: Some(0),
            sharing_saved_bytes: Some(400),
            content_saved_bytes: Some(100),
            compression_saved_bytes: Some(200),
            volumes: vec![image("one", 300, 50), image("two", 300, 50)],
            snapshots: vec![image("one@s", 300, 50)],
            deleted_volumes: Vec::new(),
            duration_millis: 1,
        }
    }

    #[test]
    fn the_parts_of_an_account_sum_to_what_is_stored() {
        let account = Account::of(&space()).unwrap();
        let saved = account.snapshots_saved_bytes + account.content_saved_bytes;
        assert_eq!(account.written_bytes - saved - account.compression_saved_bytes, account.stored_bytes);
        assert_eq!((account.volumes_promised_bytes, account.snapshots_promised_bytes), (2000, 1000));
        assert_eq!(account.zero_bytes, 150);
        // A pool of 4,000 usable bytes and 2,000 of parity has half a byte of parity for each.
        assert_eq!(account.parity_bytes, 200);
        assert_eq!(account.physical_bytes(), 300 + 20 + 80 + 200);
        assert_eq!(account - account, Account::default());
    }

    #[test]
    fn an_estimate_is_no_account() {
        assert_eq!(Account::of(&PoolSpace { basis: SpaceBasis::LastMark, ..space() }), None);
        assert_eq!(Account::of(&PoolSpace { written_bytes: None, ..space() }), None);
    }
}
