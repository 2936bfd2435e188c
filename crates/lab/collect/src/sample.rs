//! A sample: rates and shares over the time since the sample before.

use std::collections::BTreeMap;
use std::time::Instant;

use ashlar_target::{Counters, PoolCounters};
use serde::{Deserialize, Serialize};

use crate::machine::Reading as MachineReading;
use crate::server::Reading as ServerReading;

/// What was seen at one moment. What is not there is absent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since 1970, of this machine's clock.
    pub unix_millis: u64,
    /// Since the sample before: all rates are over them.
    pub seconds: f64,
    pub machine: MachineSample,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_disk: Option<DiskSample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySample>,
}

/// Of the machine (proc(5); pressures as the kernel's accounting/psi has them).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MachineSample {
    /// Shares of all processors' time.
    pub busy: f64,
    pub waiting_for_disks: f64,
    /// Taken by the host of a virtual machine.
    pub stolen: f64,
    pub available_bytes: u64,
    /// Written by programs and not yet by the kernel.
    pub dirty_bytes: u64,
    /// Shares of the time in which something waited for a processor, for memory, for a disk; absent where the
    /// kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_pressure: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_pressure: Option<f64>,
}

/// Of the target's device.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DiskSample {
    pub reads_per_second: f64,
    pub writes_per_second: f64,
    pub flushes_per_second: f64,
    pub read_bytes_per_second: f64,
    pub written_bytes_per_second: f64,
    /// Of reads and writes, on average; absent of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_millis: Option<f64>,
}

/// Of all servers together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ServerSample {
    /// Sessions at work now, by what each waits for, as `IO:DataFileRead`; `CPU:Running` waits for nothing.
    pub sessions: BTreeMap<String, u64>,
    /// Read from the kernel, as sessions report it: some a second late.
    pub read_bytes_per_second: f64,
    pub log_bytes_per_second: f64,
    /// A checkpoint is under way.
    pub is_checkpoint: bool,
}

/// Of the pool, with all its volumes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ArraySample {
    pub host_read_bytes_per_second: f64,
    pub host_written_bytes_per_second: f64,
    pub drive_read_bytes_per_second: f64,
    pub drive_written_bytes_per_second: f64,
}

/// What was counted until one moment.
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) unix_millis: u64,
    pub(crate) machine: MachineReading,
    pub(crate) disk: Option<Counters>,
    pub(crate) log_disk: Option<Counters>,
    pub(crate) server: Option<ServerReading>,
    pub(crate) array: Option<PoolCounters>,
}

impl Reading {
    /// What came since an earlier one.
    pub(crate) fn since(&self, before: &Reading) -> Sample {
        let seconds = (self.at - before.at).as_secs_f64().max(1e-9);
        Sample {
            unix_millis: self.unix_millis,
            seconds,
            machine: self.machine.since(&before.machine, seconds),
            disk: self.disk.zip(before.disk).map(|(now, then)| disk(now - then, seconds)),
            log_disk: self.log_disk.zip(before.log_disk).map(|(now, then)| disk(now - then, seconds)),
            server: self.server.as_ref().map(|now| now.since(before.server.as_ref(), seconds)),
            array: self.array.zip(before.array).map(|(now, then)| array(now - then, seconds)),
        }
    }
}

fn disk(counted: Counters, seconds: f64) -> DiskSample {
    let rate = |count: u64| count as f64 / seconds;
    DiskSample {
        reads_per_second: rate(counted.reads),
        writes_per_second: rate(counted.writes),
        flushes_per_second: rate(counted.flushes),
        read_bytes_per_second: rate(counted.read_bytes),
        written_bytes_per_second: rate(counted.written_bytes),
        latency_millis: counted.mean_millis(),
    }
}

fn array(counted: PoolCounters, seconds: f64) -> ArraySample {
    let rate = |count: u64| count as f64 / seconds;
    ArraySample {
        host_read_bytes_per_second: rate(counted.host_read_bytes),
        host_written_bytes_per_second: rate(counted.host_written_bytes),
        drive_read_bytes_per_second: rate(counted.drive_read_bytes),
        drive_written_bytes_per_second: rate(counted.drive_written_bytes),
    }
}
