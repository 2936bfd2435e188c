//! The scenarios that are compiled in, by id.

use ashlar_report::nearest;

use crate::error::{Error, Result};
use crate::file::Scenario;

macro_rules! catalogue {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../../../../experiments/", $id, ".toml")))),*]
    };
}

/// Every `experiments/SEED/NAME.toml`; a test holds this list against the directory.
const CATALOGUE: &[(&str, &str)] = catalogue![
    "ashlar/any-placement",
    "ashlar/fill-level",
    "dell/cost-power-space",
    "dell/flash-vs-15k",
    "dell/flash-vs-15k-device",
    "emc/clone-speed",
    "emc/data-reduction",
    "emc/headline",
    "emc/restore",
    "emc/snapshot-count",
    "emc/snapshots",
    "emc/soak",
    "emc/staged-oltp",
    "emc/thin-provisioning",
    "emc/version-comparison",
    "fujitsu/block-and-au",
    "fujitsu/buffer-pool-extension",
    "fujitsu/in-memory-oltp",
    "fujitsu/lun-count",
    "fujitsu/server-scaling",
    "fujitsu/throughput",
    "kaminario/latency-under-load",
    "kaminario/mixed",
    "kaminario/olap-load",
    "kaminario/oltp-query",
    "kaminario/oltp-query-device",
    "kaminario/oltp-tpcc",
    "kaminario/rdm-vmfs",
];

pub fn ids() -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().map(|(id, _)| *id)
}

/// The file as it was written, for `ashlar lab export`.
pub fn text(id: &str) -> Result<&'static str> {
    let found = CATALOGUE.iter().find(|(known, _)| *known == id);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let near = nearest(id, ids()).expect("the catalogue is not empty");
        Error::request(format!("there is no scenario `{id}`; the nearest is `{near}`"))
    })
}

pub fn load(id: &str) -> Result<Scenario> {
    Scenario::parse(text(id)?)
}

#[cfg(test)]
mod tests;
