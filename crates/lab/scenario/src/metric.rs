//! Metrics as files name them: what is measured, and over which variants.
//!
//! `iops` is of every variant. `iops(flash)` is of those with the entry `flash`; beside a published value
//! stands the best of them. `iops.ratio(flash/hdd120)` divides the variants with the one entry by those with
//! the other, pair by pair within a repetition, for each combination of the other axes. `iops.under(1ms)` is
//! the most of any variant whose 99th percentile of latency stays under the bound.

use std::time::Duration;

use serde::Deserialize;

use crate::bill::{self, Amount, Per};
use crate::error::Error;
use crate::quantity::Quantity;

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Metric {
    /// As it was written.
    pub text: String,
    pub measured: Measured,
    pub over: Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measured {
    Iops,
    MegabytesPerSecond,
    TransactionsPerSecond,
    /// Of `orders`.
    NewOrdersPerMinute,
    /// Of `broker`.
    TradesPerSecond,
    /// Of `factload` and of the load of `mixed`; of `rows`, all steps together.
    RowsPerSecond,
    /// Of the reads of `mixed`, whatever runs beside them.
    ReadsPerSecond,
    ReadLatencyMillis,
    ReadLatencyP99Millis,
    /// Of `rows`, of one of its steps.
    UpdatedRowsPerSecond,
    SelectedRowsPerSecond,
    DeletedRowsPerSecond,
    ScannedRowsPerSecond,
    /// The mean, because that is what papers publish.
    LatencyMillis,
    LatencyP99Millis,
    /// Of the device below, the mean of reads and writes: as a host sees its disk.
    DeviceMillis,
    /// Transactions for each second of processor time of the servers.
    TransactionsPerProcessorSecond,
    /// Of `space`.
    Space(Taken),
    /// Of `restore`.
    Restored(Returned),
    /// Of a pool: bytes written to its drives for each byte that hosts wrote.
    DriveBytesPerHostByte,
    /// Of `bill`: worked out, not measured.
    Bill(Amount, Per),
}

/// How long content took to come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returned {
    /// Until the file system is mounted with everything in it, and all of it is on the drives.
    BackMillis,
    /// Of that, what the array took to set the volume back.
    ArrayMillis,
}

/// What databases took of a pool, and how it comes about: factors one behind the other, as a console
/// multiplies them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// On the drives, with metadata and parity.
    PhysicalMegabytes,
    /// Metadata of the array alone.
    MetadataMegabytes,
    /// To make a volume; the mean over all.
    CreateMillis,
    /// With a file system on it, mounted.
    ReadyMillis,
    /// Of the physical bytes: given back when everything was deleted and trimmed in the file systems.
    BackShare,
    /// Promised by what was written, zeroes with it.
    Thin,
    /// What volumes and snapshots hold by what they hold together.
    Snapshots,
    /// Written by what is stored once: zeroes and equal blocks.
    Dedupe,
    /// Of dedupe: zeroes alone.
    Zero,
    Compression,
    /// All factors together: what a console that counts thin space and snapshots shows.
    Overall,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Over {
    Every,
    Entry(String),
    Ratio(String, String),
    Under(Duration),
}

const MEASURED: [(&str, Measured); 31] = [
    ("iops", Measured::Iops),
    ("megabytes_per_second", Measured::MegabytesPerSecond),
    ("tps", Measured::TransactionsPerSecond),
    ("nopm", Measured::NewOrdersPerMinute),
    ("trades_per_second", Measured::TradesPerSecond),
    ("rows_per_second", Measured::RowsPerSecond),
    ("reads_per_second", Measured::ReadsPerSecond),
    ("read_latency_millis", Measured::ReadLatencyMillis),
    ("read_latency_p99_millis", Measured::ReadLatencyP99Millis),
    ("updated_rows_per_second", Measured::UpdatedRowsPerSecond),
    ("selected_rows_per_second", Measured::SelectedRowsPerSecond),
    ("deleted_rows_per_second", Measured::DeletedRowsPerSecond),
    ("scanned_rows_per_second", Measured::ScannedRowsPerSecond),
    ("latency_millis", Measured::LatencyMillis),
    ("latency_p99_millis", Measured::LatencyP99Millis),
    ("device_millis", Measured::DeviceMillis),
    ("tps_per_processor", Measured::TransactionsPerProcessorSecond),
    ("physical_megabytes", Measured::Space(Taken::PhysicalMegabytes)),
    ("metadata_megabytes", Measured::Space(Taken::MetadataMegabytes)),
    ("create_millis", Measured::Space(Taken::CreateMillis)),
    ("ready_millis", Measured::Space(Taken::ReadyMillis)),
    ("back_share", Measured::Space(Taken::BackShare)),
    ("thin", Measured::Space(Taken::Thin)),
    ("snapshots", Measured::Space(Taken::Snapshots)),
    ("dedupe", Measured::Space(Taken::Dedupe)),
    ("zero", Measured::Space(Taken::Zero)),
    ("compression", Measured::Space(Taken::Compression)),
    ("overall", Measured::Space(Taken::Overall)),
    ("back_millis", Measured::Restored(Returned::BackMillis)),
    ("array_millis", Measured::Restored(Returned::ArrayMillis)),
    ("drive_bytes_per_host_byte", Measured::DriveBytesPerHostByte),
];

fn measured(name: &str) -> Option<Measured> {
    let found = MEASURED.iter().find(|(known, _)| *known == name).map(|(_, measured)| *measured);
    found.or_else(|| bill::amount(name).map(|(amount, per)| Measured::Bill(amount, per)))
}

impl TryFrom<String> for Metric {
    type Error = Error;

    fn try_from(text: String) -> Result<Metric, Error> {
        let wrong = |reason: &str| Error::file(format!("metric `{text}`: {reason}"));
        let (head, inner) = match text.split_once('(') {
            None => (text.as_str(), None),
            Some((head, rest)) => {
                let inner = rest.strip_suffix(')').ok_or_else(|| wrong("expected `)` at the end"))?;
                (head, Some(inner))
            }
        };
        let (name, form) = head.split_once('.').unwrap_or((head, ""));
        let Some(measured) = measured(name) else {
            let known: Vec<&str> = MEASURED.iter().map(|(known, _)| *known).collect();
            return Err(wrong(&format!("`{name}` is not one of {}", known.join(", "))));
        };
        let over = match (form, inner) {
            ("", None) => Over::Every,
            ("", Some(entry)) => Over::Entry(entry.to_string()),
            ("ratio", Some(pair)) => {
                let (of, to) = pair.split_once('/').ok_or_else(|| wrong("a ratio is of two, as in (a/b)"))?;
                Over::Ratio(of.to_string(), to.to_string())
            }
            ("under", Some(bound)) => Over::Under(Quantity::parse(bound)?.to()?),
            _ => return Err(wrong("write name, name(entry), name.ratio(a/b) or name.under(1ms)")),
        };
        Ok(Metric { measured, over, text })
    }
}

impl Metric {
    /// The entries of the matrix without which this cannot be worked out.
    #[must_use]
    pub fn entries(&self) -> Vec<&str> {
        match &self.over {
            Over::Every | Over::Under(_) => Vec::new(),
            Over::Entry(entry) => vec![entry],
            Over::Ratio(of, to) => vec![of, to],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(text: &str) -> Over {
        Metric::try_from(text.to_string()).unwrap().over
    }

    #[test]
    fn metrics_read_in_their_four_forms() {
        assert_eq!(over("iops"), Over::Every);
        assert_eq!(over("latency_millis(d16)"), Over::Entry("d16".into()));
        assert_eq!(over("iops.ratio(v8-stripe/v4)"), Over::Ratio("v8-stripe".into(), "v4".into()));
        assert_eq!(over("iops.under(0.5ms)"), Over::Under(Duration::from_micros(500)));
    }

    #[test]
    fn other_metrics_are_refused() {
        for text in ["qps", "iops(a", "iops.ratio(a)", "iops.ratio", "iops.best(a)", "iops.under(3)", ""] {
            assert!(Metric::try_from(text.to_string()).is_err(), "{text}");
        }
    }
}
