//! Carries out a request on a volume: a file takes any bytes, and so does a volume.
//!
//! Nothing is read, changed and written here: somebody may write the same block through another door,
//! and only the volume knows.

use std::rc::Rc;

use ashlar_block::{BlockDevice, ExtentKind};
use ashlar_telemetry::Operation as Counted;

use crate::error::Errno;
use crate::session::OpenFile;
use crate::wire;

/// Extents asked for at once while seeking; a thin volume has few, a fragmented one is asked again.
const SEEK_EXTENTS_MAX: usize = 64;

/// What is to be done on a volume. Offsets and sizes are the caller's, unchecked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read into the payload.
    Read { offset: u64, size: u32 },
    /// Write the first `size` bytes of the payload.
    Write { offset: u64, size: u32, is_durable: bool },
    /// Make completed writes durable.
    Flush,
    /// Make a range read as zeroes.
    Zero { offset: u64, length: u64, may_unmap: bool },
    /// Find the next data, or the next hole.
    Seek { offset: u64, is_hole_wanted: bool },
}

impl Operation {
    /// What the telemetry calls it, where it begins and how many bytes it asks for.
    #[must_use]
    pub fn counted(&self) -> (Counted, u64, u64) {
        match *self {
            Operation::Read { offset, size } => (Counted::Read, offset, u64::from(size)),
            Operation::Write { offset, size, .. } => (Counted::Write, offset, u64::from(size)),
            Operation::Flush => (Counted::Flush, 0, 0),
            Operation::Zero { offset, length, may_unmap: true } => (Counted::Unmap, offset, length),
            Operation::Zero { offset, length, may_unmap: false } => (Counted::WriteZeroes, offset, length),
            Operation::Seek { offset, .. } => (Counted::Extents, offset, 0),
        }
    }
}

/// A request on an open volume.
#[derive(Clone)]
pub struct VolumeWork {
    /// The open file; holding it keeps the device.
    pub file: Rc<OpenFile>,
    /// What to do.
    pub operation: Operation,
}

impl VolumeWork {
    /// Does the work. Write data are the front of `payload`; what is read or found goes there too.
    /// Gives the bytes of payload that form the reply.
    pub async fn perform(&self, payload: &mut [u8]) -> Result<usize, Errno> {
        let device = self.file.device.as_ref();
        if device.geometry().size_bytes == 0 {
            // Deleted. An end of file would be wrong: the loop driver fills a short read with zeroes
            // and calls it a success.
            return Err(Errno::GONE);
        }
        match self.operation {
            Operation::Read { offset, size } => read(device, offset, size as usize, payload).await,
            Operation::Write { offset, size, is_durable } => {
                let data = payload.get(..size as usize).ok_or(Errno::INVALID)?;
                self.write(offset, data, is_durable).await?;
                Ok(put(payload, wire::write_reply(size).as_bytes()))
            }
            Operation::Flush => {
                device.flush().await?;
                Ok(0)
            }
            Operation::Zero { offset, length, may_unmap } => {
                self.zero(offset, length, may_unmap).await?;
                Ok(0)
            }
            Operation::Seek { offset, is_hole_wanted } => {
                let found = seek(device, offset, is_hole_wanted).await?;
                Ok(put(payload, wire::lseek_reply(found).as_bytes()))
            }
        }
    }

    /// All of `data` or an error: a short write would be taken for a success by the loop driver.
    async fn write(&self, offset: u64, data: &[u8], is_durable: bool) -> Result<(), Errno> {
        let device = self.file.device.as_ref();
        let geometry = device.geometry();
        let length = data.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > geometry.size_bytes) {
            // What a block device says to a write past its end.
            return Err(Errno::NO_SPACE);
        }
        Ok(device.write(offset, data, is_durable).await?)
    }

    async fn zero(&self, offset: u64, length: u64, may_unmap: bool) -> Result<(), Errno> {
        let device = self.file.device.as_ref();
        let geometry = device.geometry();
        let end = offset.checked_add(length).ok_or(Errno::INVALID)?.min(geometry.size_bytes);
        if offset >= end {
            return Ok(());
        }
        match may_unmap {
            true => Ok(device.unmap(offset, end - offset).await?),
            false => Ok(device.write_zeroes(offset, end - offset, false).await?),
        }
    }
}

fn put(payload: &mut [u8], reply: &[u8]) -> usize {
    payload[..reply.len()].copy_from_slice(reply);
    reply.len()
}

/// Reads up to the end of the device; beyond it there is nothing, as in any file.
async fn read(
    device: &dyn BlockDevice,
    offset: u64,
    size: usize,
    payload: &mut [u8],
) -> Result<usize, Errno> {
    let geometry = device.geometry();
    let present = geometry.size_bytes.saturating_sub(offset).min(size as u64);
    let into = payload.get_mut(..present as usize).ok_or(Errno::INVALID)?;
    if into.is_empty() {
        return Ok(0);
    }
    device.read(offset, into).await?;
    Ok(into.len())
}

/// The next offset, from `offset` on, that is data, or that is not. The end of the file is a hole.
async fn seek(device: &dyn BlockDevice, offset: u64, is_hole_wanted: bool) -> Result<u64, Errno> {
    let geometry = device.geometry();
    if offset >= geometry.size_bytes {
        return Err(Errno::OUT_OF_RANGE);
    }
    let mut at = offset - offset % u64::from(geometry.logical_block_bytes);
    while at < geometry.size_bytes {
        let extents = device.extents(at, geometry.size_bytes - at, SEEK_EXTENTS_MAX).await?;
        let before = at;
        for extent in extents {
            // Zeroes read like a hole and need no copying, so they count as one.
            let is_hole = extent.kind != ExtentKind::Data;
            if is_hole == is_hole_wanted {
                return Ok(at.max(offset));
            }
            at = at.saturating_add(extent.length_bytes);
        }
        if at == before {
            // A device that names no extent breaks its contract; do not spin on it.
            return Err(Errno::MEDIUM);
        }
    }
    if is_hole_wanted { Ok(geometry.size_bytes) } else { Err(Errno::OUT_OF_RANGE) }
}
