//! The rate of an open loop that is a share of what another run found.

use ashlar_scenario::{Load, Plan, Run, base_of};

use crate::record::Records;
use crate::{Error, Result};

/// The load of a run with its rate known: of the same repetition, on the same target.
pub(crate) fn resolved(plan: &Plan, run: &Run, records: &Records) -> Result<Load> {
    let load = &plan.variants[run.variant].load;
    let Some(share) = load.share() else { return Ok(load.clone()) };
    let base = base_of(&plan.variants, run.variant);
    let is_base = |other: &&Run| other.repetition == run.repetition && Some(other.variant) == base;
    let found = plan.runs.iter().find(is_base).and_then(|base| records.figures(&base.id));
    let per_second = found.map_or(0.0, |figures| figures.per_second() * share.share);
    if per_second <= 0.0 {
        return Err(Error::environment(format!(
            "{}: {} % of the rate of `{}` are wanted, and that run has found none",
            run.id,
            share.share * 100.0,
            share.of
        )));
    }
    Ok(load.at_rate(per_second))
}
