//! Volumes: create, resize, set.

use ashlar_api as api;
use ashlar_units::{BLOCK_BYTES, ByteCount};

use super::Service;
use super::users::Taking;
use crate::error::{Error, Result};
use crate::names;
use crate::tag::Seen;

impl Service {
    /// All volumes, by name.
    pub(crate) async fn volumes(&self) -> Result<Vec<api::Volume>> {
        let mut volumes = self.array.volumes().await?;
        let known = self.known();
        for volume in &mut volumes {
            volume.device = known
                .attached
                .get(&volume.name)
                .and_then(|slot| slot.attachment.as_ref())
                .map(|a| a.device.clone());
        }
        drop(known);
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// One volume.
    pub(crate) async fn volume(&self, name: &str) -> Result<api::Volume> {
        let mut volume = self.volume_uncounted(name).await?;
        volume.unique_bytes = self.array.unique_bytes(&volume.pool, name).await?;
        Ok(volume)
    }

    /// One volume without what takes long to count.
    async fn volume_uncounted(&self, name: &str) -> Result<api::Volume> {
        self.known().index.volume(name)?;
        let volumes = self.volumes().await?;
        volumes.into_iter().find(|volume| volume.name == name).ok_or_else(|| Error::not_found("volume", name))
    }

    /// Refuses a volume that is not as somebody saw it.
    pub(super) async fn check_volume_seen(&self, name: &str, seen: &Seen) -> Result<()> {
        if seen.is_said() {
            seen.check(&self.volume_uncounted(name).await?)?;
        }
        Ok(())
    }

    /// Makes a thin volume.
    pub(crate) async fn volume_create(&self, request: api::VolumeCreate) -> Result<api::Volume> {
        names::check("volume", &request.name)?;
        check_size(request.size_bytes)?;
        if ![512, 4096].contains(&request.logical_block_bytes) {
            return Err(Error::invalid(
                format!("a logical block of {} bytes is not possible", request.logical_block_bytes),
                "use 512 or 4096",
            ));
        }
        let _turn = self.change().await?;
        self.known().index.check_volume_free(&request.name)?;
        let pool = self.pool_for(request.pool.as_deref())?;
        let volume = self.array.volume_create(&pool, request).await?;
        self.known().index.add_volume(&volume.name, &pool);
        self.log
            .info(format!("volume {}", volume.name), format!("created, {}", ByteCount(volume.size_bytes)));
        Ok(volume)
    }

    /// The pool named, or the only one there is.
    pub(super) fn pool_for(&self, name: Option<&str>) -> Result<String> {
        if let Some(name) = name {
            self.check_open(name)?;
            return Ok(name.to_string());
        }
        let mut pools = self.open_pools();
        match (pools.pop(), pools.len()) {
            (None, _) => Err(Error::new(
                api::ErrorKind::NotFound,
                "there is no open pool",
                "make one with `ashlar pool create NAME --drive PATH,size=10GiB`",
            )),
            (Some(only), 0) => Ok(only),
            (Some(_), more) => {
                Err(Error::unfit(format!("there are {} pools", more + 1), "name the one to use with --pool"))
            }
        }
    }

    /// Changes a volume's size, and tells its device.
    pub(crate) async fn volume_resize(
        &self,
        name: &str,
        request: api::VolumeResize,
        seen: &Seen,
    ) -> Result<api::Volume> {
        check_size(request.size_bytes)?;
        let _turn = self.change().await?;
        let pool = self.known().index.volume(name)?;
        let volume = self.volume_uncounted(name).await?;
        seen.check(&volume)?;
        let before = volume.size_bytes;
        if request.size_bytes < before && !request.may_shrink {
            return Err(Error::unfit(
                format!(
                    "volume `{name}` has {}: {} would drop what lies beyond",
                    ByteCount(before),
                    ByteCount(request.size_bytes)
                ),
                "shrink its file system first, then allow it with --shrink",
            ));
        }
        if request.size_bytes < before {
            // A mounted file system would lose its end under its feet.
            self.check_unused(|image| image == name, Taking::Content, request.force).await?;
            if !request.force {
                self.check_end(name, before, request.size_bytes).await?;
            }
        }
        self.array.volume_resize(&pool, name, request.size_bytes).await?;
        self.resize_device(name).await?;
        self.log.info(
            format!("volume {name}"),
            format!("resized from {} to {}", ByteCount(before), ByteCount(request.size_bytes)),
        );
        self.volume_uncounted(name).await
    }

    /// Changes how a volume's data are reduced from now on, what it may take, what is kept for it
    /// and who goes first.
    pub(crate) async fn volume_set(
        &self,
        name: &str,
        request: api::VolumePolicy,
        seen: &Seen,
    ) -> Result<api::Volume> {
        if request == api::VolumePolicy::default() {
            return Err(Error::unfit(
                "nothing is to be changed",
                "name compression, dedupe, a limit, a reserve, a rate, a floor or a class",
            ));
        }
        let _turn = self.change().await?;
        let pool = self.known().index.volume(name)?;
        self.check_volume_seen(name, seen).await?;
        let volume = self.array.volume_set(&pool, name, request).await?;
        let dedupe = if volume.dedupe { "on" } else { "off" };
        let bytes =
            |bytes: Option<u64>| bytes.map_or("none".to_string(), |bytes| ByteCount(bytes).to_string());
        let (limit, reserve) = (bytes(volume.limit_bytes), bytes(volume.reserve_bytes));
        let reduction = format!("compression {}, dedupe {dedupe}", volume.compression.name());
        let (rates, precedence) = (rates_of(&volume), precedence_of(&volume));
        let what = format!("set to {reduction}, limit {limit}, reserve {reserve}, {rates}, {precedence}");
        self.log.info(format!("volume {name}"), what);
        self.volume_uncounted(name).await
    }

    /// Refuses a volume that is attached or about to be.
    pub(super) fn check_detached(&self, name: &str) -> Result<()> {
        if self.known().attached.contains_key(name) {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("volume `{name}` is attached"),
                format!("`ashlar detach {name}` first"),
            )
            .about(api::ObjectKind::Volume, name)
            .because(api::Reason::Attached));
        }
        Ok(())
    }
}

fn check_size(size_bytes: u64) -> Result<()> {
    if size_bytes == 0 {
        return Err(Error::invalid("a volume of 0 bytes is not possible", "name a size, as in 64GiB"));
    }
    if size_bytes > api::VOLUME_BYTES_MAX {
        let most = api::VOLUME_BYTES_MAX;
        return Err(Error::invalid(
            format!("{size_bytes} bytes are more than a volume can have"),
            format!("the largest is {}, {most} bytes", ByteCount(most)),
        ));
    }
    if !size_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(Error::invalid(
            format!("{size_bytes} bytes is not a multiple of {BLOCK_BYTES}"),
            format!("the next is {}", size_bytes.next_multiple_of(BLOCK_BYTES)),
        ));
    }
    Ok(())
}

/// Who goes first, for the log.
fn precedence_of(volume: &api::Volume) -> String {
    let floor =
        volume.floor_micros.map_or("no floor".to_string(), |micros| format!("a floor of {micros} us"));
    format!("{floor}, class {}", volume.class.name())
}

/// What hosts may ask of a volume, for the log.
fn rates_of(volume: &api::Volume) -> String {
    let requests = volume.requests_per_second.map(|requests| format!("{requests} requests a second"));
    let bytes = volume.bytes_per_second.map(|bytes| format!("{} a second", ByteCount(bytes)));
    let burst = volume.burst_seconds.map(|seconds| format!("a burst of {seconds} s"));
    let all: Vec<String> = [requests, bytes, burst].into_iter().flatten().collect();
    if all.is_empty() { "no limit of its rates".to_string() } else { all.join(", ") }
}
