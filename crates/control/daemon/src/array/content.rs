//! What volumes hold, as far as the control side must know it before it lets something happen to them.

use ashlar_api as api;
use ashlar_block::{BlockDevice, Catalogue, ExtentKind};

use crate::array::Array;
use crate::error::{Error, Result};

/// Extents asked for at once. Arbitrary.
const EXTENTS_MAX: usize = 1024;
/// Data read at once while looking for the first byte that is not zero. Arbitrary.
const PIECE_BYTES: u64 = 256 << 10;

impl Array {
    /// Where the first byte of a volume lies that is not zero; `None` when all of it reads as zeroes.
    ///
    /// Holes and zeroes are told by the map, so only what was written as data and is zero is read.
    pub(crate) async fn first_data(&self, name: &str) -> Result<Option<u64>> {
        let name = name.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let device = shard.device(&name).ok_or_else(|| Error::not_found("volume", &name))?;
                let found = first_data(device.as_ref()).await;
                found.map_err(|error| unreadable(&name, &error))
            })
        })
        .await
    }

    /// The first bytes of a volume, at most so many.
    pub(crate) async fn first_bytes(&self, name: &str, length: usize) -> Result<Vec<u8>> {
        let name = name.to_string();
        self.run(move |_, shard| {
            Box::pin(async move {
                let device = shard.device(&name).ok_or_else(|| Error::not_found("volume", &name))?;
                let size_bytes = device.geometry().size_bytes;
                let mut bytes = vec![0; length.min(usize::try_from(size_bytes).unwrap_or(length))];
                let read = device.read(0, &mut bytes).await;
                read.map(|()| bytes).map_err(|error| unreadable(&name, &error))
            })
        })
        .await
    }
}

async fn first_data(device: &dyn BlockDevice) -> ashlar_block::Result<Option<u64>> {
    let size_bytes = device.geometry().size_bytes;
    let mut at = 0;
    while at < size_bytes {
        for extent in device.extents(at, size_bytes - at, EXTENTS_MAX).await? {
            if extent.kind == ExtentKind::Data
                && let Some(found) = first_not_zero(device, at, extent.length_bytes).await?
            {
                return Ok(Some(found));
            }
            at += extent.length_bytes;
        }
    }
    Ok(None)
}

async fn first_not_zero(
    device: &dyn BlockDevice,
    offset: u64,
    length: u64,
) -> ashlar_block::Result<Option<u64>> {
    let mut piece = vec![0; length.min(PIECE_BYTES) as usize];
    let mut done = 0;
    while done < length {
        let part = &mut piece[..(length - done).min(PIECE_BYTES) as usize];
        device.read(offset + done, part).await?;
        if let Some(place) = part.iter().position(|byte| *byte != 0) {
            return Ok(Some(offset + done + place as u64));
        }
        done += part.len() as u64;
    }
    Ok(None)
}

fn unreadable(name: &str, error: &ashlar_block::Error) -> Error {
    Error::new(
        api::ErrorKind::Damaged,
        format!("what volume `{name}` holds cannot be read: {error}"),
        "`ashlar pool check` says what is damaged",
    )
}
