//! Reads by key: what is read is checked by whoever reads it.

use ashlar_workload::driver::{self, Outcome};
use ashlar_workload::points::{self, Points};

use super::{COMPRESSION, DatabaseFigures, Driving, Loading, ended};
use crate::Result;

/// Rows of 1 KB, eight of which fill a page.
const PAYLOAD_BYTES: i32 = 960;

pub(super) fn load(loading: &Loading<'_>, rows: u64) -> Result<()> {
    let shape = points::Shape {
        rows: rows as i64,
        payload_size_bytes: PAYLOAD_BYTES,
        compression: COMPRESSION,
        seed: loading.seed as i64,
    };
    let Loading { sessions, limit, .. } = *loading;
    let load = points::Load { shape, sessions, is_clustered: true, limit };
    points::load(&loading.server.address(), &load, loading.stop)?;
    Ok(())
}

pub(super) fn drive(driving: &Driving<'_>, has_ranges: bool) -> Result<(Outcome, DatabaseFigures)> {
    let settings = if has_ranges { points::Settings::mixed_sizes() } else { points::Settings::single_keys() };
    let workload = Points::open(&driving.server.address(), settings)?;
    let outcome = driver::run(&workload, driving.plan, driving.stop, &mut ())?;
    ended(&outcome)?;
    Ok((outcome, DatabaseFigures::default()))
}
