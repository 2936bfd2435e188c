//! What a block device counted since it came (`/proc/diskstats`, the kernel's admin-guide/iostats).

use std::fs;
use std::ops::Sub;

/// Bytes of a sector in the kernel's counters, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;

/// Requests that reached a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Requests to make what its cache holds durable.
    pub flushes: u64,
    /// Time that all reads and all writes took together; those at the same time count each.
    #[serde(default)]
    pub read_millis: u64,
    #[serde(default)]
    pub write_millis: u64,
}

impl Counters {
    /// Of the device with this name now; `None` when there is none.
    #[must_use]
    pub fn of(device: &str) -> Option<Counters> {
        Counters::in_table(&fs::read_to_string("/proc/diskstats").ok()?, device)
    }

    /// Of reads and writes; `None` of none.
    #[must_use]
    pub fn mean_millis(&self) -> Option<f64> {
        let requests = self.reads + self.writes;
        (requests > 0).then(|| (self.read_millis + self.write_millis) as f64 / requests as f64)
    }

    pub(crate) fn in_table(table: &str, device: &str) -> Option<Counters> {
        let fields = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let line = table.lines().map(fields).find(|line| line.get(2).is_some_and(|name| name == device))?;
        let field = |index: usize| line.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        Some(Counters {
            reads: field(3),
            read_bytes: field(5) * SECTOR_BYTES,
            writes: field(7),
            written_bytes: field(9) * SECTOR_BYTES,
            flushes: field(18),
            read_millis: field(6),
            write_millis: field(10),
        })
    }
}

impl Sub for Counters {
    type Output = Counters;

    /// What came between two looks. A device that was taken away meanwhile counts from zero.
    fn sub(self, before: Counters) -> Counters {
        Counters {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
            read_millis: self.read_millis.saturating_sub(before.read_millis),
            write_millis: self.write_millis.saturating_sub(before.write_millis),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_by_its_fields() {
        let table = " 254       0 vda 32893131 4943841 984684490 17821566 15895167 412984 1103201744 9605627 \
                     0 2485752 28967481 311309 445 3464203672 340648 3700116 1199639\n";
        let counters = Counters::in_table(table, "vda").unwrap();
        assert_eq!((counters.reads, counters.writes), (32_893_131, 15_895_167));
        assert_eq!(counters.written_bytes, 1_103_201_744 * 512);
        assert_eq!(counters.flushes, 3_700_116);
        assert_eq!((counters.read_millis, counters.write_millis), (17_821_566, 9_605_627));
        let mean = (17_821_566.0 + 9_605_627.0) / (32_893_131.0 + 15_895_167.0);
        assert_eq!(counters.mean_millis(), Some(mean));
        assert_eq!(Counters::default().mean_millis(), None);
        assert_eq!(Counters::in_table(table, "vdb"), None);
    }
}
