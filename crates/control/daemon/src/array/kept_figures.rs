//! Figures of what hosts did, kept in their pool: in two slots of a hidden volume, by turns.

use std::rc::Rc;

use ashlar_api as api;
use ashlar_block::BlockDevice;
use ashlar_engine::{Compression, Engine, Profile, VolumeSpec};
use ashlar_figures::Slot;

use super::{Array, from_engine};
use crate::error::{Error, Result};
use crate::names::FIGURES;

/// Room of one slot. Arbitrary: some hundred series.
const SLOT_BYTES: u64 = 32 << 20;
const SLOTS: u64 = 2;
const BLOCK_BYTES: usize = 4096;
/// Written and read at once. Arbitrary: hosts' requests go in between.
const PIECE_BYTES: usize = 128 << 10;
/// Most bytes of series.
pub(crate) const SERIES_BYTES_MAX: usize = SLOT_BYTES as usize / 2;

impl Array {
    /// What a pool keeps; `None` where that is nothing.
    pub(crate) async fn figures_kept(&self, pool: &str) -> Result<Option<Slot>> {
        let pool = pool.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let Some(device) = shard.engine(&pool)?.device(FIGURES) else { return Ok(None) };
                newest(device.as_ref()).await.map_err(|error| unusable(&pool, &error))
            })
        })
        .await
    }

    /// Keeps a slot in a pool, in place of the one before the last.
    pub(crate) async fn figures_keep(&self, pool: &str, slot: Slot) -> Result<()> {
        let pool = pool.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let device = figures_volume(&shard.engine(&pool)?).await?;
                write(device.as_ref(), &slot).await.map_err(|error| unusable(&pool, &error))
            })
        })
        .await
    }
}

async fn figures_volume(engine: &Engine) -> Result<Rc<dyn BlockDevice>> {
    if let Some(device) = engine.device(FIGURES) {
        return Ok(device);
    }
    let spec = VolumeSpec {
        name: FIGURES.to_string(),
        size_bytes: SLOTS * SLOT_BYTES,
        logical_block_bytes: BLOCK_BYTES as u32,
        profile: Profile::General,
        compression: Compression::Lz4,
        dedupe: false,
    };
    engine.volume_create(spec).await.map_err(from_engine)?;
    engine.device(FIGURES).ok_or_else(|| Error::not_found("volume", FIGURES))
}

async fn newest(device: &dyn BlockDevice) -> ashlar_block::Result<Option<Slot>> {
    let mut newest: Option<Slot> = None;
    for number in 0..SLOTS {
        let found = read(device, number * SLOT_BYTES).await?;
        newest = newest.into_iter().chain(found).max_by_key(|slot| slot.sequence);
    }
    Ok(newest)
}

async fn read(device: &dyn BlockDevice, offset: u64) -> ashlar_block::Result<Option<Slot>> {
    let mut beginning = vec![0; BLOCK_BYTES];
    device.read(offset, &mut beginning).await?;
    let Some(length) = Slot::length(&beginning).filter(|length| *length as u64 <= SLOT_BYTES) else {
        return Ok(None);
    };
    let mut bytes = vec![0; length.next_multiple_of(BLOCK_BYTES)];
    let mut at = offset;
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        device.read(at, piece).await?;
        at += piece.len() as u64;
    }
    Ok(Slot::decode(&bytes))
}

async fn write(device: &dyn BlockDevice, slot: &Slot) -> ashlar_block::Result<()> {
    let mut bytes = slot.encode();
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    let mut at = slot.sequence % SLOTS * SLOT_BYTES;
    for piece in bytes.chunks(PIECE_BYTES) {
        device.write(at, piece, false).await?;
        at += piece.len() as u64;
    }
    device.flush().await
}

fn unusable(pool: &str, error: &ashlar_block::Error) -> Error {
    Error::new(
        api::ErrorKind::Medium,
        format!("figures kept in pool `{pool}`: {error}"),
        format!("`ashlar pool show {pool}` tells its state"),
    )
}
