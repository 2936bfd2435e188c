//! What databases took of a pool, in words.

use ashlar_report::nanos;
use ashlar_scenario::{Measured, Plan, Taken, Variant};
use ashlar_statistics::compare::Better;
use ashlar_target::Account;

use super::{Factors, SpaceFigures};
use crate::answer::number;
use crate::figures::Figures;
use crate::outcome::Metrics;

/// For people.
pub(crate) fn name(taken: Taken) -> &'static str {
    match taken {
        Taken::PhysicalMegabytes => "MB on the drives, with metadata and parity",
        Taken::MetadataMegabytes => "MB of metadata",
        Taken::CreateMillis => "time to make a volume",
        Taken::ReadyMillis => "time to a mounted volume",
        Taken::BackShare => "share of the space given back by delete and trim",
        Taken::Thin => "factor of thin space",
        Taken::Snapshots => "factor of snapshots",
        Taken::Dedupe => "factor of dedupe, zeroes with it",
        Taken::Zero => "factor of zeroes",
        Taken::Compression => "factor of compression",
        Taken::Overall => "ratio of all promised to all stored",
    }
}

/// With its unit.
pub(crate) fn value(taken: Taken, value: f64) -> String {
    match taken {
        Taken::PhysicalMegabytes | Taken::MetadataMegabytes => format!("{} MB", number(value)),
        Taken::CreateMillis | Taken::ReadyMillis => nanos(value * 1e6),
        Taken::BackShare => format!("{} %", number(100.0 * value)),
        Taken::Thin
        | Taken::Snapshots
        | Taken::Dedupe
        | Taken::Zero
        | Taken::Compression
        | Taken::Overall => format!("{} : 1", number(value)),
    }
}

pub(crate) fn better(taken: Taken) -> Better {
    match taken {
        Taken::PhysicalMegabytes | Taken::MetadataMegabytes | Taken::CreateMillis | Taken::ReadyMillis => {
            Better::Lower
        }
        Taken::BackShare
        | Taken::Thin
        | Taken::Snapshots
        | Taken::Dedupe
        | Taken::Zero
        | Taken::Compression
        | Taken::Overall => Better::Higher,
    }
}

/// A variant's first run, of which there are accounts.
pub(crate) fn first<'a>(runs: &'a [Figures], variant: &Variant) -> Option<&'a SpaceFigures> {
    let of = |figures: &&Figures| figures.variant == variant.name && figures.space.is_some();
    runs.iter().filter(of).min_by_key(|figures| figures.repetition)?.space.as_ref()
}

/// What the first metric is made of, where it is the ratio that a console shows: of its first row.
pub(crate) fn within(metrics: &[Metrics], plan: &Plan, runs: &[Figures]) -> Option<String> {
    let first = metrics.first().filter(|first| first.metric.measured == Measured::Space(Taken::Overall))?;
    let row = first.rows.first()?;
    let is_it = |variant: &&Variant| variant.entries.join("-") == row.of && variant.target.id == row.target;
    let found = Factors::of(&self::first(runs, plan.variants.iter().find(is_it)?)?.taken)?;
    let Factors { thin, zero, snapshots, content, compression, beside } = found;
    let [thin, zero, snapshots, content, compression, beside, data] =
        [thin, zero, snapshots, content, compression, beside, zero * content * compression].map(number);
    Some(format!(
        "Thin space is {thin} of it and snapshots {snapshots}, and neither is data; of the data {data} : 1 is saved \
         (zeroes {zero}, equal blocks {content}, compression {compression}), and metadata and parity leave {beside} \
         of the whole."
    ))
}

/// A line for each variant: how its ratio comes about.
pub(crate) fn factors(plan: &Plan, runs: &[Figures]) -> Vec<String> {
    let line = |variant: &Variant| {
        let found = Factors::of(&first(runs, variant)?.taken)?;
        Some(format!("{}: {}", variant.name, sentence(&found)))
    };
    plan.variants.iter().filter_map(line).collect()
}

fn sentence(found: &Factors) -> String {
    let Factors { thin, zero, snapshots, content, compression, beside } = *found;
    let parts = [
        ("thin space", thin),
        ("snapshots", snapshots),
        ("zeroes", zero),
        ("equal blocks", content),
        ("compression", compression),
        ("metadata and parity", beside),
    ];
    let told: Vec<String> =
        parts.iter().map(|(what, factor)| format!("{what} {}", number(*factor))).collect();
    let data = zero * content * compression;
    format!("{} : 1 = {}; of the data itself {} : 1", number(found.product()), told.join(" x "), number(data))
}

/// From what is promised to what is on the drives.
pub(crate) fn waterfall(taken: &Account) -> [(&'static str, i64); 11] {
    let nonzero = taken.written_bytes;
    let once = nonzero - taken.snapshots_saved_bytes;
    [
        ("volumes, promised", taken.volumes_promised_bytes),
        ("with snapshots", taken.volumes_promised_bytes + taken.snapshots_promised_bytes),
        ("written", nonzero + taken.zero_bytes),
        ("not as zeroes", nonzero),
        ("without what snapshots share", once),
        ("without equal blocks", once - taken.content_saved_bytes),
        ("compressed", taken.stored_bytes),
        ("with what is stranded", taken.stored_bytes + taken.stranded_bytes),
        ("with metadata", taken.stored_bytes + taken.stranded_bytes + taken.metadata_bytes),
        ("with parity", taken.physical_bytes()),
        ("beside it, dead and not yet cleaned", taken.dead_bytes),
    ]
}
