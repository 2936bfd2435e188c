//! Reads by key: what is read is checked by whoever reads it.

use ashlar_workload::Listed;
use ashlar_workload::driver::{self, Outcome};
use ashlar_workload::points::{self, Points};

use super::{COMPRESSION, DatabaseFigures, Driving, Loading, ended};
use crate::Result;

/// Rows of 1 KB, eight of which fill a page.
const PAYLOAD_BYTES: i32 = 960;
const ROWS_PER_PAGE: u64 = 8;
/// PostgreSQL's.
const PAGE_BYTES: u64 = 8192;

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

fn settings(has_ranges: bool) -> points::Settings {
    if has_ranges { points::Settings::mixed_sizes() } else { points::Settings::single_keys() }
}

/// What a run asks of the server.
pub(crate) fn sql(has_ranges: bool) -> Vec<Listed> {
    points::statements(&settings(has_ranges))
}

pub(super) fn drive(driving: &Driving<'_>, has_ranges: bool) -> Result<(Outcome, DatabaseFigures)> {
    let workload = open(driving, has_ranges)?;
    let outcome = driver::run(&workload, driving.plan, driving.stop, &mut ())?;
    ended(&outcome)?;
    Ok((outcome, DatabaseFigures::default()))
}

pub(super) fn open(driving: &Driving<'_>, has_ranges: bool) -> Result<Points> {
    Ok(Points::open(&driving.server.address(), settings(has_ranges))?)
}

/// Of the pages that hold what a read of this kind asks for.
pub(super) fn bytes_of(kind: &str) -> u64 {
    let settings = settings(true);
    let [_, range] = points::KINDS;
    let pages = match kind == range {
        true => u64::from(settings.range_rows).div_ceil(ROWS_PER_PAGE),
        false => settings.keys_per_read as u64,
    };
    pages * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_as_large_as_those_of_the_paper() {
        assert_eq!(points::KINDS.map(bytes_of), [8 << 10, 64 << 10]);
    }
}
