//! What databases took of a pool, in factors that stand one behind the other.

use ashlar_scenario::Taken;
use ashlar_target::Account;
use serde::{Deserialize, Serialize};

/// What one run found. The accounts are what the pool had more than before the run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SpaceFigures {
    /// `PostgreSQL 15.18`.
    pub engine: String,
    /// Each on a volume of its own.
    pub databases: u64,
    /// To make a volume; the mean.
    pub create_nanos: u64,
    /// With a file system on it, mounted.
    pub ready_nanos: u64,
    /// To make all volumes and to copy all databases.
    pub fill_seconds: f64,
    /// With all databases and snapshots there.
    pub taken: Account,
    /// When the snapshots and the databases were deleted and the file systems trimmed.
    pub emptied: Account,
    /// When the volumes were deleted.
    pub left: Account,
    /// Pages that were not read back as they were written, in sentences.
    pub offences: Vec<String>,
}

/// Each is what stands before it by what stands behind it, so that their product is the whole.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Factors {
    /// Promised by written.
    pub(crate) thin: f64,
    /// Written by written otherwise than as zeroes.
    pub(crate) zero: f64,
    /// What volumes and snapshots hold by what they hold together.
    pub(crate) snapshots: f64,
    /// Equal blocks.
    pub(crate) content: f64,
    pub(crate) compression: f64,
    /// Stored by what is on the drives: below 1, for metadata and parity.
    pub(crate) beside: f64,
}

impl Factors {
    /// `None` where nothing is stored.
    pub(crate) fn of(taken: &Account) -> Option<Factors> {
        let promised = taken.volumes_promised_bytes + taken.snapshots_promised_bytes;
        let nonzero = taken.written_bytes;
        let touched = nonzero + taken.zero_bytes;
        let once = nonzero - taken.snapshots_saved_bytes;
        let unique = once - taken.content_saved_bytes;
        let steps = [promised, touched, nonzero, once, unique, taken.stored_bytes, taken.physical_bytes()];
        if steps.iter().any(|step| *step <= 0) {
            return None;
        }
        let by = |index: usize| steps[index] as f64 / steps[index + 1] as f64;
        Some(Factors {
            thin: by(0),
            zero: by(1),
            snapshots: by(2),
            content: by(3),
            compression: by(4),
            beside: by(5),
        })
    }

    /// All of them.
    pub(crate) fn product(&self) -> f64 {
        let Factors { thin, zero, snapshots, content, compression, beside } = self;
        thin * zero * snapshots * content * compression * beside
    }
}

impl SpaceFigures {
    /// In the unit of the metric.
    pub(crate) fn value(&self, taken: Taken) -> Option<f64> {
        let physical = self.taken.physical_bytes() as f64;
        let factors = || Factors::of(&self.taken);
        match taken {
            Taken::PhysicalMegabytes => Some(physical / 1e6),
            Taken::MetadataMegabytes => Some(self.taken.metadata_bytes as f64 / 1e6),
            Taken::CreateMillis => Some(self.create_nanos as f64 / 1e6),
            Taken::ReadyMillis => Some(self.ready_nanos as f64 / 1e6),
            Taken::BackShare => Some(1.0 - self.emptied.physical_bytes() as f64 / physical),
            Taken::Thin => factors().map(|found| found.thin),
            Taken::Snapshots => factors().map(|found| found.snapshots),
            Taken::Dedupe => factors().map(|found| found.zero * found.content),
            Taken::Zero => factors().map(|found| found.zero),
            Taken::Compression => factors().map(|found| found.compression),
            Taken::Overall => factors().map(|found| found.product()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 60 promised of volumes and 300 of snapshots, 20 zeroes and 100 written, of which 70 are there because
    /// of snapshots and 10 are equal; 10 stored, with 2 of metadata and 4 of parity.
    fn account() -> Account {
        Account {
            volumes_promised_bytes: 60,
            snapshots_promised_bytes: 300,
            zero_bytes: 20,
            written_bytes: 100,
            snapshots_saved_bytes: 70,
            content_saved_bytes: 10,
            compression_saved_bytes: 10,
            stored_bytes: 10,
            metadata_bytes: 2,
            parity_bytes: 4,
            ..Account::default()
        }
    }

    #[test]
    fn the_product_of_the_factors_is_what_a_console_shows() {
        let factors = Factors::of(&account()).unwrap();
        assert_eq!((factors.thin, factors.zero, factors.compression), (3.0, 1.2, 2.0));
        assert!((factors.snapshots - 100.0 / 30.0).abs() < 1e-9 && (factors.content - 1.5).abs() < 1e-9);
        assert!((factors.product() - 360.0 / 16.0).abs() < 1e-9, "{factors:?}");
        assert_eq!(Factors::of(&Account::default()), None, "nothing is stored");
    }

    #[test]
    fn values_are_in_the_units_of_their_metrics() {
        let emptied = Account { stored_bytes: 2, metadata_bytes: 2, ..Account::default() };
        let figures =
            SpaceFigures { taken: account(), emptied, create_nanos: 2_000_000, ..SpaceFigures::default() };
        assert_eq!(figures.value(Taken::CreateMillis), Some(2.0));
        assert_eq!(figures.value(Taken::BackShare), Some(0.75));
        assert_eq!(figures.value(Taken::PhysicalMegabytes), Some(16e-6));
        assert!((figures.value(Taken::Dedupe).unwrap() - 1.8).abs() < 1e-9);
        assert_eq!(SpaceFigures::default().value(Taken::Overall), None);
    }
}
