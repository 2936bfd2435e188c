//! Volumes as the API speaks of them, and as the engine does.

use std::time::Duration;

use ashlar_api as api;
use ashlar_engine as engine;

/// A volume, without how its floor is kept.
pub(super) fn volume_view(pool: &str, volume: engine::VolumeInfo) -> api::Volume {
    api::Volume {
        name: volume.name,
        pool: pool.to_string(),
        id: volume.id,
        size_bytes: volume.size_bytes,
        logical_block_bytes: volume.logical_block_bytes,
        profile: match volume.profile {
            engine::Profile::Oltp => api::Profile::Oltp,
            engine::Profile::General => api::Profile::General,
            engine::Profile::Bulk => api::Profile::Bulk,
        },
        compression: match volume.compression {
            engine::Compression::Off => api::Compression::Off,
            engine::Compression::Lz4 => api::Compression::Lz4,
            engine::Compression::Zstd => api::Compression::Zstd,
        },
        dedupe: volume.dedupe,
        written_bytes: volume.written_bytes,
        own_bytes: volume.own_bytes,
        limit_bytes: volume.allowance.limit_bytes,
        reserve_bytes: volume.allowance.reserve_bytes,
        requests_per_second: volume.rates.requests_per_second,
        bytes_per_second: volume.rates.bytes_per_second,
        burst_seconds: volume.rates.burst_seconds,
        floor_micros: volume.precedence.floor.map(micros),
        class: match volume.precedence.class {
            engine::Class::Normal => api::VolumeClass::Normal,
            engine::Class::Low => api::VolumeClass::Low,
        },
        floor: None,
        unique_bytes: None,
        origin: volume.origin,
        created_unix_seconds: volume.created_unix_seconds,
        device: None,
    }
}

/// How a volume's floor is kept.
pub(super) fn floor_view(status: engine::FloorStatus) -> api::VolumeFloor {
    api::VolumeFloor {
        request_count: status.requests,
        miss_count: status.misses,
        window_missed_count: status.windows_missed,
        depth_count: status.depth,
        pause_micros: status.pause.map(micros),
    }
}

pub(super) fn spec_of(request: api::VolumeCreate) -> engine::VolumeSpec {
    engine::VolumeSpec {
        name: request.name,
        size_bytes: request.size_bytes,
        logical_block_bytes: request.logical_block_bytes,
        profile: match request.profile {
            api::Profile::Oltp => engine::Profile::Oltp,
            api::Profile::General => engine::Profile::General,
            api::Profile::Bulk => engine::Profile::Bulk,
        },
        compression: compression_of(request.compression),
        dedupe: request.dedupe,
    }
}

pub(super) fn terms_of_new(request: &api::VolumeCreate) -> engine::Terms {
    engine::Terms {
        allowance: allowance_of(request.limit_bytes, request.reserve_bytes),
        precedence: precedence_of(request.floor_micros, request.class),
    }
}

pub(super) fn terms_of_clone(request: &api::CloneCreate) -> engine::Terms {
    engine::Terms {
        allowance: allowance_of(request.limit_bytes, request.reserve_bytes),
        precedence: precedence_of(request.floor_micros, request.class),
    }
}

pub(super) fn policy_of(request: &api::VolumePolicy) -> engine::VolumePolicy {
    let allowed = |most: Option<u64>| most.map(|most| Some(most).filter(|most| *most > 0));
    engine::VolumePolicy {
        compression: request.compression.map(compression_of),
        dedupe: request.dedupe,
        limit_bytes: allowed(request.limit_bytes),
        reserve_bytes: allowed(request.reserve_bytes),
        requests_per_second: allowed(request.requests_per_second),
        bytes_per_second: allowed(request.bytes_per_second),
        burst_seconds: allowed(request.burst_seconds),
        floor: allowed(request.floor_micros).map(|floor| floor.map(Duration::from_micros)),
        class: request.class.map(class_of),
    }
}

fn allowance_of(limit_bytes: Option<u64>, reserve_bytes: Option<u64>) -> engine::Allowance {
    let some = |bytes: Option<u64>| bytes.filter(|bytes| *bytes > 0);
    engine::Allowance { limit_bytes: some(limit_bytes), reserve_bytes: some(reserve_bytes) }
}

fn precedence_of(floor_micros: Option<u64>, class: api::VolumeClass) -> engine::Precedence {
    let floor = floor_micros.filter(|micros| *micros > 0).map(Duration::from_micros);
    engine::Precedence { floor, class: class_of(class) }
}

fn class_of(class: api::VolumeClass) -> engine::Class {
    match class {
        api::VolumeClass::Normal => engine::Class::Normal,
        api::VolumeClass::Low => engine::Class::Low,
    }
}

fn compression_of(compression: api::Compression) -> engine::Compression {
    match compression {
        api::Compression::Off => engine::Compression::Off,
        api::Compression::Lz4 => engine::Compression::Lz4,
        api::Compression::Zstd => engine::Compression::Zstd,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
