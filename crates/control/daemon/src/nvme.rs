//! What an NVMe drive reports of its own wear, asked of the kernel.
//!
//! Whatever is no NVMe drive, or does not answer, reports nothing: no error leaves here. The call may take
//! as long as the drive's controller does; it is made on a thread that nothing waits for.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// `NVME_IOCTL_ADMIN_CMD` of <linux/nvme_ioctl.h>: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const NVME_IOCTL_ADMIN_CMD: libc::c_ulong = 0xC048_4E41;
/// Get Log Page: NVM Express Base Specification 2.0, section 5.16.
const GET_LOG_PAGE: u8 = 0x02;
/// SMART / Health Information: section 5.16.1.3.
const LOG_HEALTH: u32 = 0x02;
const LOG_HEALTH_BYTES: usize = 512;
/// The whole controller, not one namespace.
const NAMESPACE_ALL: u32 = 0xFFFF_FFFF;
/// A controller that has not answered by then is not asked for its health. Arbitrary.
const TIMEOUT_MILLIS: u32 = 5000;

/// Offset of Percentage Used, one byte.
const PERCENTAGE_USED: usize = 5;
/// Offset of Data Units Written, 16 bytes, little endian.
const DATA_UNITS_WRITTEN: usize = 48;
/// A data unit is a thousand units of 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;

/// What a drive reports of its wear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Health {
    /// Its estimate of the life used; 255 stands for all above 254.
    pub(crate) used_percent: u32,
    /// Written by hosts in its life; absent when it does not count.
    pub(crate) written_bytes: Option<u64>,
}

#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dwords_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    dwords_10_15: [u32; 6],
    timeout_millis: u32,
    result: u32,
}

const _: () = assert!(size_of::<AdminCommand>() == 72);

/// What the drive at a path reports; `None` when it is no NVMe drive or does not tell.
pub(crate) fn health(path: &Path) -> Option<Health> {
    if !is_nvme(path) {
        return None;
    }
    let drive = File::open(path).ok()?;
    let mut page = [0_u8; LOG_HEALTH_BYTES];
    let dwords = (LOG_HEALTH_BYTES / 4 - 1) as u32;
    let mut command = AdminCommand {
        opcode: GET_LOG_PAGE,
        namespace: NAMESPACE_ALL,
        address: page.as_mut_ptr() as u64,
        data_bytes: LOG_HEALTH_BYTES as u32,
        dwords_10_15: [LOG_HEALTH | dwords << 16, 0, 0, 0, 0, 0],
        timeout_millis: TIMEOUT_MILLIS,
        ..AdminCommand::default()
    };
    // SAFETY: `command` has the kernel's layout (asserted above) and names `page` with its length; both live
    // through the call. The opcode only reads from the drive.
    let status = unsafe { libc::ioctl(drive.as_raw_fd(), NVME_IOCTL_ADMIN_CMD, &raw mut command) };
    // Below zero the kernel refused, above it is the status of a drive that did.
    (status == 0).then(|| decode(&page))
}

/// True for block devices that the NVMe driver serves: other drivers may understand the number of the call
/// in another way.
fn is_nvme(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    if !metadata.file_type().is_block_device() {
        return false;
    }
    let number = metadata.rdev();
    let link = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let target = std::fs::read_link(link).ok();
    let name = target.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("nvme"))
}

/// The wear in a SMART / Health Information log page.
fn decode(page: &[u8; LOG_HEALTH_BYTES]) -> Health {
    let mut units = [0; 16];
    units.copy_from_slice(&page[DATA_UNITS_WRITTEN..DATA_UNITS_WRITTEN + 16]);
    // Zero says that the drive does not count.
    let units = Some(u128::from_le_bytes(units)).filter(|units| *units > 0);
    let bytes = |units: u128| u64::try_from(units.saturating_mul(DATA_UNIT_BYTES)).unwrap_or(u64::MAX);
    Health { used_percent: u32::from(page[PERCENTAGE_USED]), written_bytes: units.map(bytes) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The page of a drive at 310 K with all its spare, laid out as the specification's figure has it.
    fn page(used_percent: u8, units_read: u128, units_written: u128) -> [u8; LOG_HEALTH_BYTES] {
        let fields: [(usize, &[u8]); 10] = [
            (0, &[0]),                           // critical warning
            (1, &310_u16.to_le_bytes()),         // composite temperature
            (3, &[100]),                         // available spare
            (4, &[10]),                          // available spare threshold
            (5, &[used_percent]),                // percentage used
            (6, &[0]),                           // endurance group critical warning summary
            (32, &units_read.to_le_bytes()),     // data units read
            (48, &units_written.to_le_bytes()),  // data units written
            (64, &8_000_000_u128.to_le_bytes()), // host read commands
            (128, &4321_u128.to_le_bytes()),     // power on hours
        ];
        let mut page = [0; LOG_HEALTH_BYTES];
        for (offset, bytes) in fields {
            page[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        page
    }

    #[test]
    fn a_health_page_tells_what_is_used_and_written() {
        let health = decode(&page(7, 111, 2_000_000));
        assert_eq!(health, Health { used_percent: 7, written_bytes: Some(1_024_000_000_000) });
        assert_eq!(decode(&page(255, 1, 1)).used_percent, 255);
        assert_eq!(decode(&page(0, 5, 0)).written_bytes, None);
        assert_eq!(decode(&page(0, 5, u128::MAX)).written_bytes, Some(u64::MAX));
    }

    #[test]
    fn what_is_no_nvme_drive_reports_nothing() {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(health(scratch.path()), None);
        assert_eq!(health(Path::new("/dev/null")), None);
        assert_eq!(health(Path::new("/does/not/exist")), None);
    }
}
