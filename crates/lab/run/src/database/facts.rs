//! A load of facts: its sources made, driven, and every batch held against what it should have brought in.

use ashlar_scenario::SOURCES;
use ashlar_workload::driver::Outcome;
use ashlar_workload::factload::{self, FactLoad};

use super::{ANSWER_LIMIT, COMPRESSION, DatabaseFigures, Driving, Loading, broken, ended};
use crate::Result;
use crate::record::make;

/// One transaction each.
const ROWS_PER_BATCH: i32 = 10_000;

pub(super) fn load(loading: &Loading<'_>, rows_per_source: u64) -> Result<()> {
    make(&loading.sources)?;
    let half = (SOURCES / 2) as i16;
    let shape = factload::Shape {
        tables: half,
        files: half,
        rows_per_source: rows_per_source as i64,
        rows_per_batch: ROWS_PER_BATCH,
        compression: COMPRESSION,
        seed: loading.seed as i64,
    };
    let load = factload::Load {
        shape,
        files: loading.sources.clone(),
        sessions: loading.sessions,
        limit: loading.limit,
    };
    factload::load(&loading.server.address(), &load, loading.stop)?;
    Ok(())
}

pub(super) fn drive(driving: &Driving<'_>) -> Result<(Outcome, DatabaseFigures)> {
    let workload = open(driving)?;
    let found = workload.run(driving.plan, driving.stop, &mut ())?;
    ended(&found.outcome)?;
    let offences = broken(workload.check(&mut driving.server.session()?)?);
    let figures = DatabaseFigures {
        rows_per_second: Some(found.rows_per_second),
        bytes_per_second: Some((found.bytes_in_per_second, found.bytes_out_per_second)),
        offences: Some(offences),
        acknowledged: Some(workload.acknowledged()),
        ..DatabaseFigures::default()
    };
    Ok((found.outcome, figures))
}

pub(super) fn open(driving: &Driving<'_>) -> Result<FactLoad> {
    let mut settings = factload::Settings::new(&driving.sources);
    settings.limit = ANSWER_LIMIT;
    Ok(FactLoad::open(&driving.server.address(), settings)?)
}
