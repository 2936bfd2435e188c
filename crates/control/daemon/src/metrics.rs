//! The counters as Prometheus text, and the reference page of every metric.

use std::fmt::Write;
use std::time::Duration;

use ashlar_api as api;
use ashlar_telemetry::{HistogramSnapshot, Operation, Snapshot};

use crate::doors::Crowd;

/// What the metrics are made from.
pub(crate) struct Readings {
    pub(crate) status: api::Status,
    pub(crate) pools: Vec<api::Pool>,
    pub(crate) volumes: Vec<api::Volume>,
    pub(crate) counters: Snapshot,
    pub(crate) crowds: Vec<Crowd>,
    pub(crate) schedules: Vec<ScheduleReading>,
    pub(crate) objectives: Vec<api::Objective>,
}

/// What is told of one schedule.
pub(crate) struct ScheduleReading {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) state: api::ScheduleState,
    pub(crate) snapshot_count: u64,
    pub(crate) last_unix_seconds: Option<u64>,
    pub(crate) failure_count: u64,
}

/// One metric: name, Prometheus type, labels, help.
struct Metric {
    name: &'static str,
    kind: &'static str,
    labels: &'static str,
    help: &'static str,
}

/// Of what a pool counts, what is a level or a maximum and does not only grow by what happens: metric and
/// counter. `ashlar_pool_work_total` and `ashlar_pool_work_bytes_total` are of the rest.
const LEVELS: [(&str, &str); 7] = [
    ("ashlar_pool_cache_bytes", "cache_bytes_used"),
    ("ashlar_pool_map_bytes", "map_bytes_used"),
    ("ashlar_pool_journal_queued_max", "journal_queued_max"),
    ("ashlar_pool_writes_waiting", "writes_waiting_for_room"),
    ("ashlar_pool_dedupe_index_bytes", "dedupe_index_bytes"),
    ("ashlar_pool_dedupe_index_entries", "dedupe_index_entries"),
    ("ashlar_pool_dedupe_blocks_queued", "dedupe_blocks_queued"),
];

const METRICS: [Metric; 59] = [
    Metric { name: "ashlar_build_info", kind: "gauge", labels: "version", help: "Always 1." },
    Metric { name: "ashlar_uptime_seconds", kind: "gauge", labels: "", help: "Since the start." },
    Metric {
        name: "ashlar_memory_resident_bytes",
        kind: "gauge",
        labels: "",
        help: "Memory of the process.",
    },
    Metric {
        name: "ashlar_cpu_seconds_total",
        kind: "counter",
        labels: "",
        help: "Processor time of the process.",
    },
    Metric {
        name: "ashlar_door_serving",
        kind: "gauge",
        labels: "door, address",
        help: "1 while the door serves, 0 otherwise.",
    },
    Metric {
        name: "ashlar_clients",
        kind: "gauge",
        labels: "door",
        help: "Clients connected to `nbd`, `iscsi`, `api` and `metrics`.",
    },
    Metric {
        name: "ashlar_clients_refused_total",
        kind: "counter",
        labels: "door",
        help: "Clients that found no place, because as many as the limit were connected.",
    },
    Metric {
        name: "ashlar_clients_cut_total",
        kind: "counter",
        labels: "door",
        help: "Clients cut off because they stalled in a login, a request or its answer.",
    },
    Metric {
        name: "ashlar_pool_online",
        kind: "gauge",
        labels: "pool",
        help: "1 while the pool takes reads and writes, 0 otherwise.",
    },
    Metric {
        name: "ashlar_pool_state",
        kind: "gauge",
        labels: "pool, state",
        help: "1 for the state the pool is in: `online`, `degraded`, `read-only`, `waiting`, `failed` or `opening`.",
    },
    Metric {
        name: "ashlar_pool_waiting",
        kind: "gauge",
        labels: "pool",
        help: "1 while the pool is opened as soon as its drives are there, 0 otherwise.",
    },
    Metric {
        name: "ashlar_pool_bytes",
        kind: "gauge",
        labels: "pool, part",
        help: "Bytes of each part of the pool; the parts but `physical` sum to `physical`. What larger drives \
               have beyond the others, and what is left at the drives' ends, is `unusable`.",
    },
    Metric {
        name: "ashlar_pool_dead_bytes",
        kind: "gauge",
        labels: "pool",
        help: "Bytes of the parts `data` and `metadata` that the cleaner found dead: room to be made.",
    },
    Metric {
        name: "ashlar_pool_provisioned_bytes",
        kind: "gauge",
        labels: "pool",
        help: "The sizes of the pool's volumes, added up: compare with the parts of `ashlar_pool_bytes`.",
    },
    Metric {
        name: "ashlar_pool_drives",
        kind: "gauge",
        labels: "pool, state",
        help: "Drives that are `online`, `rebuilding`, `leaving` or `out`.",
    },
    Metric {
        name: "ashlar_drive_bytes_total",
        kind: "counter",
        labels: "pool, drive, direction",
        help: "Bytes `read` from a drive since it was opened, and `written` to it since it joined its pool.",
    },
    Metric {
        name: "ashlar_drive_endurance_bytes",
        kind: "gauge",
        labels: "pool, drive",
        help: "What may be written to a drive in its life; absent unless declared.",
    },
    Metric {
        name: "ashlar_drive_worn_percent",
        kind: "gauge",
        labels: "pool, drive",
        help: "How much of a drive's life is used; absent unless it reports that or has an endurance.",
    },
    Metric {
        name: "ashlar_drive_worn_out_unix_seconds",
        kind: "gauge",
        labels: "pool, drive",
        help: "When a drive will be worn out at its rate so far; absent before a day is counted.",
    },
    Metric {
        name: "ashlar_drive_errors_total",
        kind: "counter",
        labels: "pool, drive",
        help: "Requests of a drive that failed since it was opened.",
    },
    Metric {
        name: "ashlar_drive_mended_blocks_total",
        kind: "counter",
        labels: "pool, drive",
        help: "Blocks of a drive written again because they were not what they should have been.",
    },
    Metric {
        name: "ashlar_drive_steered_reads_total",
        kind: "counter",
        labels: "pool, drive",
        help: "Reads that the other drives answered because this one was slow.",
    },
    Metric {
        name: "ashlar_pool_rebuild_bytes",
        kind: "gauge",
        labels: "pool, part",
        help: "Bytes the rebuild under way has to write (`total`) and has written (`done`); 0 without one.",
    },
    Metric {
        name: "ashlar_pool_work_total",
        kind: "counter",
        labels: "pool, work",
        help: "What the pool did since it was opened: `work` is a name of `counters` in `ashlar pool show --json`.",
    },
    Metric {
        name: "ashlar_pool_work_bytes_total",
        kind: "counter",
        labels: "pool, work",
        help: "The same of what is counted in bytes.",
    },
    Metric {
        name: "ashlar_pool_cache_bytes",
        kind: "gauge",
        labels: "pool",
        help: "Memory that holds blocks that were read.",
    },
    Metric {
        name: "ashlar_pool_map_bytes",
        kind: "gauge",
        labels: "pool",
        help: "Memory that holds map pages.",
    },
    Metric {
        name: "ashlar_pool_journal_queued_max",
        kind: "gauge",
        labels: "pool",
        help: "The most changes that waited for a journal group at once since the pool was opened.",
    },
    Metric {
        name: "ashlar_pool_writes_waiting",
        kind: "gauge",
        labels: "pool",
        help: "Writes that wait for room because the pool is full.",
    },
    Metric {
        name: "ashlar_pool_dedupe_index_bytes",
        kind: "gauge",
        labels: "pool",
        help: "Memory of the fingerprint index.",
    },
    Metric {
        name: "ashlar_pool_dedupe_index_entries",
        kind: "gauge",
        labels: "pool",
        help: "Fingerprints in the index.",
    },
    Metric {
        name: "ashlar_pool_dedupe_blocks_queued",
        kind: "gauge",
        labels: "pool",
        help: "Blocks that wait to be looked up by dedupe.",
    },
    Metric {
        name: "ashlar_volume_size_bytes",
        kind: "gauge",
        labels: "pool, volume",
        help: "Size the host sees.",
    },
    Metric {
        name: "ashlar_volume_written_bytes",
        kind: "gauge",
        labels: "pool, volume",
        help: "Bytes of the volume that hold data.",
    },
    Metric {
        name: "ashlar_volume_own_bytes",
        kind: "gauge",
        labels: "pool, volume",
        help: "Bytes on the drives of what the volume wrote itself and refers to.",
    },
    Metric {
        name: "ashlar_volume_limit_bytes",
        kind: "gauge",
        labels: "pool, volume",
        help: "What `ashlar_volume_own_bytes` may come to; absent without a limit.",
    },
    Metric {
        name: "ashlar_volume_reserve_bytes",
        kind: "gauge",
        labels: "pool, volume",
        help: "Bytes of the pool kept for the volume, its own included; absent without a reserve.",
    },
    Metric {
        name: "ashlar_volume_requests_per_second_limit",
        kind: "gauge",
        labels: "pool, volume",
        help: "Requests a second that hosts may make; absent without a limit.",
    },
    Metric {
        name: "ashlar_volume_bytes_per_second_limit",
        kind: "gauge",
        labels: "pool, volume",
        help: "Bytes a second that hosts may read and write; absent without a limit.",
    },
    Metric {
        name: "ashlar_volume_floor_seconds",
        kind: "gauge",
        labels: "pool, volume",
        help: "Within what time the volume's reads and writes should be answered; absent without a floor.",
    },
    Metric {
        name: "ashlar_volume_floor_requests_total",
        kind: "counter",
        labels: "pool, volume",
        help: "Reads and writes of a volume with a floor, since its pool was opened.",
    },
    Metric {
        name: "ashlar_volume_floor_misses_total",
        kind: "counter",
        labels: "pool, volume",
        help: "Those of them that took longer than the floor.",
    },
    Metric {
        name: "ashlar_volume_floor_windows_missed_total",
        kind: "counter",
        labels: "pool, volume",
        help: "Windows of time in which more than one in a hundred did.",
    },
    Metric {
        name: "ashlar_volume_floor_depth",
        kind: "gauge",
        labels: "pool, volume",
        help: "So many requests of others are served at a time for the floor; absent: it holds nobody back.",
    },
    Metric {
        name: "ashlar_volume_floor_pause_seconds",
        kind: "gauge",
        labels: "pool, volume",
        help: "With a depth of 1: each of them begins no sooner than this after the last one; absent without.",
    },
    Metric {
        name: "ashlar_pool_full_percent",
        kind: "gauge",
        labels: "pool",
        help: "How much of what hosts can use is alive or kept for some volume.",
    },
    Metric {
        name: "ashlar_schedules",
        kind: "gauge",
        labels: "state",
        help: "Schedules that are `active`, `paused`, `no-space` or `failing`.",
    },
    Metric {
        name: "ashlar_schedule_snapshots",
        kind: "gauge",
        labels: "pool, schedule",
        help: "Snapshots of a schedule that are there.",
    },
    Metric {
        name: "ashlar_schedule_last_snapshot_unix_seconds",
        kind: "gauge",
        labels: "pool, schedule",
        help: "When the newest snapshot of a schedule was taken: `time() -` it is its age. Absent without one.",
    },
    Metric {
        name: "ashlar_schedule_failures_total",
        kind: "counter",
        labels: "pool, schedule",
        help: "How often a snapshot of a schedule could not be taken, since the array's start.",
    },
    Metric {
        name: "ashlar_objective_met_ratio",
        kind: "gauge",
        labels: "pool, kind, name",
        help: "Share of the known minutes in which an objective of latency was met; `kind` is `database` or \
               `volume`.",
    },
    Metric {
        name: "ashlar_objective_left_ratio",
        kind: "gauge",
        labels: "pool, kind, name",
        help: "How much is left of the time in which an objective may be missed; 1 is all of it.",
    },
    Metric {
        name: "ashlar_objective_used_up",
        kind: "gauge",
        labels: "pool, kind, name",
        help: "1 where an objective was missed for longer than is permitted, 0 otherwise.",
    },
    Metric {
        name: "ashlar_objective_limit_seconds",
        kind: "gauge",
        labels: "pool, kind, name",
        help: "What the 99th percentile of an objective's requests is to stay below.",
    },
    Metric {
        name: "ashlar_objective_p99_seconds",
        kind: "gauge",
        labels: "pool, kind, name",
        help: "The 99th percentile of an objective's requests in the last seconds; absent without any.",
    },
    Metric {
        name: "ashlar_requests_total",
        kind: "counter",
        labels: "volume, door, operation",
        help: "Requests done.",
    },
    Metric {
        name: "ashlar_request_errors_total",
        kind: "counter",
        labels: "volume, door, operation",
        help: "Requests refused or failed.",
    },
    Metric {
        name: "ashlar_request_bytes_total",
        kind: "counter",
        labels: "volume, door, operation",
        help: "Bytes of the requests done.",
    },
    Metric {
        name: "ashlar_request_duration_seconds",
        kind: "histogram",
        labels: "volume, door, operation",
        help: "How long the requests done took.",
    },
];

/// Histogram bounds are powers of two nanoseconds, where the counted buckets end exactly: 8 us to 17 s.
const BOUND_BITS: std::ops::RangeInclusive<u32> = 13..=34;

/// The text that `/metrics` answers.
pub(crate) fn text(readings: &Readings) -> String {
    let mut text = String::new();
    for metric in &METRICS {
        writeln!(text, "# HELP {} {}\n# TYPE {0} {}", metric.name, metric.help, metric.kind)
            .expect("writing to a string cannot fail");
        for (labels, value) in samples(metric.name, readings) {
            sample(&mut text, metric.name, &labels, value);
        }
        if metric.kind == "histogram" {
            histograms(&mut text, metric.name, &readings.counters);
        }
    }
    text
}

type Labels = Vec<(&'static str, String)>;

fn sample(text: &mut String, name: &str, labels: &Labels, value: f64) {
    let inside: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
    let labels = if inside.is_empty() { String::new() } else { format!("{{{}}}", inside.join(",")) };
    writeln!(text, "{name}{labels} {value}").expect("writing to a string cannot fail");
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

// tidy: long because it is a table of every metric and where its values come from.
fn samples(name: &str, readings: &Readings) -> Vec<(Labels, f64)> {
    let status = &readings.status;
    let volume_samples = |value: fn(&api::Volume) -> Option<u64>| {
        let labels =
            |volume: &api::Volume| vec![("pool", volume.pool.clone()), ("volume", volume.name.clone())];
        let sample = |volume| Some((labels(volume), value(volume)? as f64));
        readings.volumes.iter().filter_map(sample).collect()
    };
    let request_samples = |value: fn(&ashlar_telemetry::OperationSnapshot) -> u64| {
        let mut all = Vec::new();
        for entry in &readings.counters.entries {
            for operation in Operation::ALL {
                let labels = request_labels(&entry.volume, &entry.door, operation);
                all.push((labels, value(entry.counters.of(operation)) as f64));
            }
        }
        all
    };
    match name {
        "ashlar_build_info" => vec![(vec![("version", status.version.clone())], 1.0)],
        "ashlar_uptime_seconds" => vec![(Vec::new(), status.uptime_seconds as f64)],
        "ashlar_memory_resident_bytes" => vec![(Vec::new(), status.memory_resident_bytes as f64)],
        "ashlar_cpu_seconds_total" => vec![(Vec::new(), status.cpu_micros as f64 / 1e6)],
        "ashlar_door_serving" => status
            .doors
            .iter()
            .map(|door| {
                let labels = vec![("door", door.name.clone()), ("address", door.address.clone())];
                (labels, f64::from(door.state == api::DoorState::Serving))
            })
            .collect(),
        "ashlar_clients" => crowds(readings, |crowd| Some(crowd.clients)),
        "ashlar_clients_refused_total" => crowds(readings, |crowd| Some(crowd.refused)),
        "ashlar_clients_cut_total" => crowds(readings, |crowd| crowd.cut),
        "ashlar_pool_online" => readings
            .pools
            .iter()
            .map(|pool| (vec![("pool", pool.name.clone())], f64::from(pool.state.takes_writes())))
            .collect(),
        "ashlar_pool_state" => readings.pools.iter().flat_map(pool_states).collect(),
        "ashlar_pool_waiting" => readings
            .pools
            .iter()
            .map(|pool| (vec![("pool", pool.name.clone())], f64::from(pool.state == api::PoolState::Waiting)))
            .collect(),
        "ashlar_pool_bytes" => readings.pools.iter().flat_map(pool_parts).collect(),
        "ashlar_pool_dead_bytes" => readings
            .pools
            .iter()
            .filter_map(|pool| Some((pool, pool.space.as_ref()?.dead_bytes)))
            .map(|(pool, bytes)| (vec![("pool", pool.name.clone())], bytes as f64))
            .collect(),
        "ashlar_pool_provisioned_bytes" => readings
            .pools
            .iter()
            .map(|pool| (vec![("pool", pool.name.clone())], pool.provisioned_bytes as f64))
            .collect(),
        "ashlar_pool_drives" => readings.pools.iter().flat_map(pool_drives).collect(),
        "ashlar_drive_bytes_total" => readings.pools.iter().flat_map(drive_bytes).collect(),
        "ashlar_drive_endurance_bytes" => drive_samples(readings, |drive| drive.endurance_bytes),
        "ashlar_drive_worn_percent" => drive_samples(readings, |drive| drive.worn_percent.map(u64::from)),
        "ashlar_drive_worn_out_unix_seconds" => drive_samples(readings, |drive| drive.worn_out_unix_seconds),
        "ashlar_drive_errors_total" => drive_samples(readings, |drive| Some(drive.error_count)),
        "ashlar_drive_mended_blocks_total" => drive_samples(readings, |drive| Some(drive.mended_block_count)),
        "ashlar_drive_steered_reads_total" => drive_samples(readings, |drive| Some(drive.steered_read_count)),
        "ashlar_pool_rebuild_bytes" => readings.pools.iter().flat_map(pool_rebuild).collect(),
        "ashlar_pool_work_total" => work(readings, |counter| !counter.contains("_bytes")),
        "ashlar_pool_work_bytes_total" => work(readings, |counter| counter.contains("_bytes")),
        "ashlar_volume_size_bytes" => volume_samples(|volume| Some(volume.size_bytes)),
        "ashlar_volume_written_bytes" => volume_samples(|volume| volume.written_bytes),
        "ashlar_volume_own_bytes" => volume_samples(|volume| Some(volume.own_bytes)),
        "ashlar_volume_limit_bytes" => volume_samples(|volume| volume.limit_bytes),
        "ashlar_volume_reserve_bytes" => volume_samples(|volume| volume.reserve_bytes),
        "ashlar_volume_requests_per_second_limit" => volume_samples(|volume| volume.requests_per_second),
        "ashlar_volume_bytes_per_second_limit" => volume_samples(|volume| volume.bytes_per_second),
        "ashlar_volume_floor_seconds" => in_seconds(floor_samples(readings, |volume, _| volume.floor_micros)),
        "ashlar_volume_floor_pause_seconds" => {
            in_seconds(floor_samples(readings, |_, floor| floor?.pause_micros))
        }
        "ashlar_volume_floor_requests_total" => {
            floor_samples(readings, |_, floor| Some(floor?.request_count))
        }
        "ashlar_volume_floor_misses_total" => floor_samples(readings, |_, floor| Some(floor?.miss_count)),
        "ashlar_volume_floor_windows_missed_total" => {
            floor_samples(readings, |_, floor| Some(floor?.window_missed_count))
        }
        "ashlar_volume_floor_depth" => floor_samples(readings, |_, floor| floor?.depth_count.map(u64::from)),
        "ashlar_pool_full_percent" => readings
            .pools
            .iter()
            .map(|pool| (vec![("pool", pool.name.clone())], f64::from(pool.full_percent)))
            .collect(),
        "ashlar_schedules" => schedule_states(readings),
        "ashlar_schedule_snapshots" => schedule_samples(readings, |one| Some(one.snapshot_count)),
        "ashlar_schedule_last_snapshot_unix_seconds" => {
            schedule_samples(readings, |one| one.last_unix_seconds)
        }
        "ashlar_schedule_failures_total" => schedule_samples(readings, |one| Some(one.failure_count)),
        "ashlar_objective_met_ratio" => objective_samples(readings, |one| Some(one.met_percent / 100.0)),
        "ashlar_objective_left_ratio" => objective_samples(readings, |one| Some(one.left_percent / 100.0)),
        "ashlar_objective_used_up" => objective_samples(readings, |one| Some(f64::from(one.is_used_up))),
        "ashlar_objective_limit_seconds" => {
            objective_samples(readings, |one| Some(one.p99_micros as f64 / 1e6))
        }
        "ashlar_objective_p99_seconds" => {
            objective_samples(readings, |one| Some(one.present_p99_micros? as f64 / 1e6))
        }
        "ashlar_requests_total" => request_samples(|counted| counted.completed),
        "ashlar_request_errors_total" => request_samples(|counted| counted.failed),
        "ashlar_request_bytes_total" => request_samples(|counted| counted.bytes),
        level => levels(readings, level),
    }
}

type FloorReading = Option<api::VolumeFloor>;

/// Of the volumes that have floors.
fn floor_samples(
    readings: &Readings,
    value: impl Fn(&api::Volume, FloorReading) -> Option<u64>,
) -> Vec<(Labels, f64)> {
    let sample = |volume: &api::Volume| {
        let labels = vec![("pool", volume.pool.clone()), ("volume", volume.name.clone())];
        Some((labels, value(volume, volume.floor)? as f64))
    };
    readings.volumes.iter().filter(|volume| volume.floor_micros.is_some()).filter_map(sample).collect()
}

fn in_seconds(micros: Vec<(Labels, f64)>) -> Vec<(Labels, f64)> {
    micros.into_iter().map(|(labels, micros)| (labels, micros / 1e6)).collect()
}

/// What pools did, by those of their counters that are no levels and are asked for.
fn work(readings: &Readings, is_asked_for: fn(&str) -> bool) -> Vec<(Labels, f64)> {
    let is_level = |name: &str| LEVELS.iter().any(|(_, level)| *level == name);
    let of_pool = |pool: &api::Pool| -> Vec<(Labels, f64)> {
        let counters = pool.counters.iter().filter(|(name, _)| is_asked_for(name) && !is_level(name));
        let labels = |counter: &str| vec![("pool", pool.name.clone()), ("work", counter.to_string())];
        counters.map(|(counter, value)| (labels(counter), *value as f64)).collect()
    };
    readings.pools.iter().flat_map(of_pool).collect()
}

/// The values of a metric of [`LEVELS`]; none of another.
fn levels(readings: &Readings, metric: &str) -> Vec<(Labels, f64)> {
    let Some((_, name)) = LEVELS.iter().find(|(level, _)| *level == metric) else { return Vec::new() };
    let sample = |pool: &api::Pool| {
        let value = pool.counters.get(*name)?;
        Some((vec![("pool", pool.name.clone())], *value as f64))
    };
    readings.pools.iter().filter_map(sample).collect()
}

fn crowds(readings: &Readings, value: impl Fn(&Crowd) -> Option<u64>) -> Vec<(Labels, f64)> {
    let sample = |crowd: &Crowd| Some((vec![("door", crowd.door.to_string())], value(crowd)? as f64));
    readings.crowds.iter().filter_map(sample).collect()
}

fn pool_parts(pool: &api::Pool) -> Vec<(Labels, f64)> {
    let Some(space) = &pool.space else { return Vec::new() };
    [
        ("physical", space.physical_bytes),
        ("free", space.free_bytes),
        ("kept", space.kept_bytes),
        ("data", space.data_bytes),
        ("metadata", space.metadata_bytes),
        ("journal", space.journal_bytes),
        ("reserve", space.reserve_bytes),
        ("superblock", space.superblock_bytes),
        ("unusable", space.unusable_bytes),
        ("parity", space.parity_bytes),
        ("spare", space.spare_bytes),
        ("freed", space.freed_bytes),
    ]
    .into_iter()
    .map(|(part, bytes)| (vec![("pool", pool.name.clone()), ("part", part.to_string())], bytes as f64))
    .collect()
}

fn pool_states(pool: &api::Pool) -> Vec<(Labels, f64)> {
    let labels = |state: &str| vec![("pool", pool.name.clone()), ("state", state.to_string())];
    let sample = |state: api::PoolState| (labels(state.name()), f64::from(state == pool.state));
    api::PoolState::ALL.into_iter().map(sample).collect()
}

fn pool_drives(pool: &api::Pool) -> Vec<(Labels, f64)> {
    let count = |state: &str| pool.drives.iter().filter(|drive| drive.state == state).count();
    let labels = |state: &str| vec![("pool", pool.name.clone()), ("state", state.to_string())];
    let states = ["online", "rebuilding", "moving", "spare", "leaving", "out"];
    states.into_iter().map(|state| (labels(state), count(state) as f64)).collect()
}

fn drive_labels(pool: &api::Pool, drive: &api::Drive) -> Labels {
    let number = drive.number.map(|number| number.to_string()).unwrap_or_default();
    vec![("pool", pool.name.clone()), ("drive", number)]
}

fn drive_samples(readings: &Readings, value: impl Fn(&api::Drive) -> Option<u64>) -> Vec<(Labels, f64)> {
    let of_pool = |pool: &api::Pool| -> Vec<(Labels, f64)> {
        let sample = |drive| value(drive).map(|value| (drive_labels(pool, drive), value as f64));
        pool.drives.iter().filter_map(sample).collect()
    };
    readings.pools.iter().flat_map(of_pool).collect()
}

fn drive_bytes(pool: &api::Pool) -> Vec<(Labels, f64)> {
    let samples = |drive: &api::Drive| {
        [("read", drive.read_bytes), ("written", drive.written_bytes)].map(|(direction, bytes)| {
            let mut labels = drive_labels(pool, drive);
            labels.push(("direction", direction.to_string()));
            (labels, bytes as f64)
        })
    };
    pool.drives.iter().flat_map(samples).collect()
}

fn schedule_states(readings: &Readings) -> Vec<(Labels, f64)> {
    use api::ScheduleState::{Active, Failing, NoSpace, Paused};
    let states = [(Active, "active"), (Paused, "paused"), (NoSpace, "no-space"), (Failing, "failing")];
    let count = |state| readings.schedules.iter().filter(|one| one.state == state).count();
    states.into_iter().map(|(state, name)| (vec![("state", name.to_string())], count(state) as f64)).collect()
}

fn schedule_samples(
    readings: &Readings,
    value: impl Fn(&ScheduleReading) -> Option<u64>,
) -> Vec<(Labels, f64)> {
    let sample = |one: &ScheduleReading| {
        let labels = vec![("pool", one.pool.clone()), ("schedule", one.name.clone())];
        Some((labels, value(one)? as f64))
    };
    readings.schedules.iter().filter_map(sample).collect()
}

fn objective_samples(
    readings: &Readings,
    value: impl Fn(&api::Objective) -> Option<f64>,
) -> Vec<(Labels, f64)> {
    let sample = |one: &api::Objective| {
        let kind = one.kind.name().to_string();
        let labels = vec![("pool", one.pool.clone()), ("kind", kind), ("name", one.name.clone())];
        Some((labels, value(one)?))
    };
    readings.objectives.iter().filter_map(sample).collect()
}

fn pool_rebuild(pool: &api::Pool) -> Vec<(Labels, f64)> {
    let (total, done) = pool.rebuild.as_ref().map_or((0, 0), |now| (now.total_bytes, now.done_bytes));
    let labels = |part: &str| vec![("pool", pool.name.clone()), ("part", part.to_string())];
    vec![(labels("total"), total as f64), (labels("done"), done as f64)]
}

fn request_labels(volume: &str, door: &str, operation: Operation) -> Labels {
    vec![
        ("volume", volume.to_string()),
        ("door", door.to_string()),
        ("operation", operation.name().to_string()),
    ]
}

fn histograms(text: &mut String, name: &str, counters: &Snapshot) {
    for entry in &counters.entries {
        for operation in Operation::ALL {
            let latency = &entry.counters.of(operation).latency;
            // Most volumes never see most requests; empty histograms would be most of the page.
            if latency.count() > 0 {
                histogram(text, name, request_labels(&entry.volume, &entry.door, operation), latency);
            }
        }
    }
}

fn histogram(text: &mut String, name: &str, labels: Labels, latency: &HistogramSnapshot) {
    let with_bound = |bound: String| {
        let mut labels = labels.clone();
        labels.push(("le", bound));
        labels
    };
    for bits in BOUND_BITS {
        let bound = Duration::from_nanos(1 << bits);
        let below: u64 = latency.buckets().filter(|(end, _)| *end < bound).map(|(_, count)| count).sum();
        sample(
            text,
            &format!("{name}_bucket"),
            &with_bound(format!("{}", bound.as_secs_f64())),
            below as f64,
        );
    }
    sample(text, &format!("{name}_bucket"), &with_bound("+Inf".to_string()), latency.count() as f64);
    sample(text, &format!("{name}_sum"), &labels, latency.sum().as_secs_f64());
    sample(text, &format!("{name}_count"), &labels, latency.count() as f64);
}

/// The text of `docs/reference/metrics.md`.
#[must_use]
pub fn metrics_reference() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Generated from the program by `ashlar reference`; do not edit.\n\n\
         `/metrics` answers in Prometheus' text format: over the socket, and to who shows a token at the addresses\n\
         of the settings `metrics` and `api`. For a collector give `metrics` an address and name the file\n\
         `metrics.token` as its `credentials_file`. Doors of requests are `nbd` and `fuse`; operations\n\
         are `read`, `write`, `flush`, `unmap`, `write_zeroes` and `extents`.\n\n\
         | metric | type | labels | meaning |\n| --- | --- | --- | --- |\n",
    );
    for metric in &METRICS {
        let labels = if metric.labels.is_empty() { "-" } else { metric.labels };
        writeln!(text, "| `{}` | {} | {labels} | {} |", metric.name, metric.kind, metric.help)
            .expect("writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn readings() -> Readings {
        let registry = ashlar_telemetry::Registry::new();
        let counters = registry.counters("nbd", "db");
        counters.completed(Operation::Read, 4096, Duration::from_micros(100));
        counters.completed(Operation::Read, 4096, Duration::from_secs(100));
        counters.failed(Operation::Write);
        let status = serde_json::json!({
            "version": "0.1.0", "process_id": 1, "state_directory": "/s", "uptime_seconds": 5,
            "io_driver": "io: threads", "memory_resident_bytes": 1, "cpu_micros": 2_500_000,
            "pools": [], "attachment_count": 0,
            "doors": [{"name": "nbd", "address": "a", "transport": "unix", "state": "serving"}],
        });
        let mut counters_of_pool = serde_json::json!({"checkpoints": 2, "moved_bytes": 8192});
        for (_, level) in LEVELS {
            counters_of_pool[level] = 3.into();
        }
        let pool = serde_json::json!({
            "name": "main", "id": "1", "generation": 3, "state": "online", "protection": "none",
                "drives": [{"number": 0, "path": "/d", "size_bytes": 1, "state": "online",
                    "endurance_bytes": 9, "worn_percent": 1, "worn_out_unix_seconds": 5}],
            "space": api::Space { physical_bytes: 10, free_bytes: 7, data_bytes: 3, ..api::Space::default() },
            "volume_count": 1, "snapshot_count": 0, "counters": counters_of_pool,
        });
        let volume = serde_json::json!({
            "name": "db", "pool": "main", "id": 1, "size_bytes": 8192, "logical_block_bytes": 4096,
            "profile": "oltp", "compression": "lz4", "dedupe": false, "written_bytes": 4096,
            "unique_bytes": 512, "created_unix_seconds": 0,
            "own_bytes": 4160, "limit_bytes": 1 << 20, "reserve_bytes": 1 << 19,
            "requests_per_second": 1000, "bytes_per_second": 1 << 27, "floor_micros": 2000,
            "floor": {"request_count": 9, "miss_count": 1, "window_missed_count": 1, "depth_count": 1, "pause_micros": 500},
        });
        Readings {
            status: serde_json::from_value(status).unwrap(),
            pools: vec![serde_json::from_value(pool).unwrap()],
            volumes: vec![serde_json::from_value(volume).unwrap()],
            counters: registry.snapshot(),
            crowds: vec![Crowd { door: "nbd", clients: 3, refused: 2, cut: Some(1) }],
            schedules: vec![ScheduleReading {
                name: "undo".to_string(),
                pool: "main".to_string(),
                state: api::ScheduleState::Active,
                snapshot_count: 3,
                last_unix_seconds: Some(7),
                failure_count: 1,
            }],
            objectives: vec![api::Objective {
                name: "db".to_string(),
                kind: api::ObjectiveKind::Volume,
                pool: "main".to_string(),
                volumes: vec!["db".to_string()],
                p99_micros: 2000,
                for_percent: 99.9,
                requests: api::ObjectiveRequests::All,
                over_seconds: 604_800,
                present_p99_micros: Some(500),
                is_met_now: true,
                met_percent: 100.0,
                covered_seconds: 60,
                missed_seconds: 0,
                permitted_seconds: 604,
                left_seconds: 604,
                left_percent: 100.0,
                is_used_up: false,
            }],
        }
    }

    #[test]
    fn every_metric_has_a_value_and_every_value_is_described() {
        let text = text(&readings());
        for metric in &METRICS {
            let has_sample = text.lines().any(|line| !line.starts_with('#') && line.starts_with(metric.name));
            assert!(has_sample, "{} has no sample", metric.name);
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let is_known = METRICS.iter().any(|metric| {
                metric.name == name
                    || ["_bucket", "_sum", "_count"].iter().any(|end| format!("{}{end}", metric.name) == name)
            });
            assert!(is_known, "{line}");
        }
    }

    /// The harm: a collector takes a level that goes down for a counter that began anew.
    #[test]
    fn what_may_go_down_is_a_gauge_and_no_counter() {
        let text = text(&readings());
        let has = |line: &str| text.lines().any(|found| found == line);
        assert!(has("ashlar_pool_work_total{pool=\"main\",work=\"checkpoints\"} 2"), "{text}");
        assert!(has("ashlar_pool_work_bytes_total{pool=\"main\",work=\"moved_bytes\"} 8192"), "{text}");
        assert!(!has("ashlar_pool_work_total{pool=\"main\",work=\"moved_bytes\"} 8192"), "one unit each");
        for (metric, counter) in LEVELS {
            assert!(has(&format!("{metric}{{pool=\"main\"}} 3")), "{metric}");
            assert!(has(&format!("# TYPE {metric} gauge")), "{metric}");
            assert!(!text.contains(&format!("work=\"{counter}\"")), "{counter}");
        }
    }

    #[test]
    fn histogram_buckets_count_what_lies_below_their_bound() {
        let text = text(&readings());
        let count = |bound: &str| {
            let marker = format!("le=\"{bound}\"}}");
            let line =
                text.lines().find(|line| line.contains("operation=\"read\"") && line.contains(&marker));
            line.unwrap_or_else(|| panic!("no bucket {bound}\n{text}"))
                .rsplit(' ')
                .next()
                .unwrap()
                .to_string()
        };
        assert_eq!(count("0.000065536"), "0");
        assert_eq!(count("0.000131072"), "1");
        assert_eq!(count("+Inf"), "2");
    }
}
