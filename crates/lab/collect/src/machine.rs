//! What the kernel counts of the machine: processors, memory, pressures.

use std::fs;

use crate::sample::MachineSample;

/// Columns of `cpu` in /proc/stat (proc(5)): user and nice hold the guests, too.
const IDLE: usize = 3;
const IO_WAIT: usize = 4;
const STOLEN: usize = 7;
const COLUMNS: usize = 8;

/// Counters and levels of one moment.
#[derive(Clone, Default, Debug)]
pub(crate) struct Reading {
    /// In the kernel's ticks, of all processors.
    ticks: [u64; COLUMNS],
    available_bytes: u64,
    dirty_bytes: u64,
    /// Microseconds in which something waited for a processor, for memory, for a disk.
    pressures: [Option<u64>; 3],
}

impl Reading {
    pub(crate) fn now() -> Reading {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Reading::of(
            &text("/proc/stat"),
            &text("/proc/meminfo"),
            ["cpu", "memory", "io"].map(|of| text(&format!("/proc/pressure/{of}"))),
        )
    }

    fn of(stat: &str, memory: &str, pressures: [String; 3]) -> Reading {
        let mut ticks = [0; COLUMNS];
        let all = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        for (to, column) in ticks.iter_mut().zip(all.split_whitespace()) {
            *to = column.parse().unwrap_or(0);
        }
        let kibibytes = |name: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Reading {
            ticks,
            available_bytes: kibibytes("MemAvailable:").unwrap_or(0) << 10,
            dirty_bytes: kibibytes("Dirty:").unwrap_or(0) << 10,
            pressures: pressures.map(|text| waited_micros(&text)),
        }
    }

    pub(crate) fn since(&self, before: &Reading, seconds: f64) -> MachineSample {
        let ticks: Vec<u64> =
            self.ticks.iter().zip(before.ticks).map(|(now, then)| now.saturating_sub(then)).collect();
        let all = ticks.iter().sum::<u64>().max(1) as f64;
        let share = |column: usize| ticks[column] as f64 / all;
        let pressure = |of: usize| {
            let waited = self.pressures[of]?.saturating_sub(before.pressures[of]?);
            Some((waited as f64 / 1e6 / seconds).min(1.0))
        };
        MachineSample {
            busy: 1.0 - share(IDLE) - share(IO_WAIT) - share(STOLEN),
            waiting_for_disks: share(IO_WAIT),
            stolen: share(STOLEN),
            available_bytes: self.available_bytes,
            dirty_bytes: self.dirty_bytes,
            processor_pressure: pressure(0),
            memory_pressure: pressure(1),
            disk_pressure: pressure(2),
        }
    }
}

/// Of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`.
fn waited_micros(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(stat: &str, waited: u64) -> Reading {
        let line = format!("some avg10=1.00 avg60=2.00 avg300=0.50 total={waited}\nfull avg10=0 total=9\n");
        let memory = "MemTotal: 100 kB\nMemAvailable:    40 kB\nDirty:             3 kB\n";
        Reading::of(stat, memory, [line.clone(), String::new(), line])
    }

    #[test]
    fn shares_are_of_the_time_between_two_looks() {
        // user nice system idle iowait irq softirq steal guest guest_nice
        let before = reading("cpu  100 0 50 1000 20 0 0 10 7 0\ncpu0 1 2 3\n", 1_000_000);
        let after = reading("cpu  140 0 60 1030 30 0 0 20 9 0\ncpu0 1 2 3\n", 1_500_000);
        let sample = after.since(&before, 2.0);
        assert!((sample.busy - 0.5).abs() < 1e-9, "{sample:?}");
        assert!((sample.waiting_for_disks - 0.1).abs() < 1e-9 && (sample.stolen - 0.1).abs() < 1e-9);
        assert_eq!((sample.available_bytes, sample.dirty_bytes), (40 << 10, 3 << 10));
        assert_eq!((sample.processor_pressure, sample.memory_pressure), (Some(0.25), None));
        assert_eq!(sample.disk_pressure, Some(0.25));
    }

    #[test]
    fn this_machine_is_read() {
        let first = Reading::now();
        let until = std::time::Instant::now() + std::time::Duration::from_millis(60);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        let sample = Reading::now().since(&first, 0.06);
        assert!(sample.busy > 0.05 && sample.busy <= 1.0, "{sample:?}");
        assert!(sample.available_bytes > 0);
    }
}
