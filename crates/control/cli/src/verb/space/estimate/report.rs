//! An estimate as numbers with their units in their names, and as a page for people.

use std::time::Duration;

use ashlar_reduction::estimate::{CONFIDENCE_PERCENT, CaseEstimate, Coverage, Estimate, Interval};
use ashlar_reduction::{Codec, Profile, chunk_blocks_max};
use ashlar_units::BLOCK_BYTES;
use serde::Serialize;

use super::scan::Plan;
use super::target::Target;
use crate::output::{fields, size, table};

/// Bytes of memory for each distinct block that the dedupe index knows.
const INDEX_ENTRY_BYTES: u64 = 8;

/// A number and the range that holds the truth with `confidence_percent`.
#[derive(Clone, Copy, Serialize)]
struct Range<T> {
    value: T,
    low: T,
    high: T,
}

/// What storing a target would take.
#[derive(Serialize)]
pub struct Report {
    target: String,
    kind: &'static str,
    size_bytes: u64,
    read_bytes: u64,
    sampled_bytes: u64,
    elapsed_millis: u64,
    confidence_percent: u32,
    /// Files of a directory that changed meanwhile and were taken for zeroes in part.
    changed_files: u64,
    zero_share: Range<f64>,
    compression: Vec<Compression>,
    dedupe: Dedupe,
}

#[derive(Serialize)]
struct Compression {
    profile: &'static str,
    chunk_bytes_max: u64,
    codec: &'static str,
    /// Bytes of data, without zero blocks, for one byte stored; absent without data.
    ratio: Option<Range<f64>>,
    stored_bytes: Range<u64>,
    /// Share of the target's size that takes no space, zero blocks included.
    saved_share: Range<f64>,
    compress_micros_per_gib: Option<u64>,
}

/// Shares are of the blocks that are not zero, before compression.
#[derive(Serialize)]
struct Dedupe {
    block_bytes: u64,
    /// Absent where only a part was read: it is unknown.
    saved_share: Option<Range<f64>>,
    /// The same when a block counts only together with a neighbour.
    saved_share_run_2: Option<Range<f64>>,
    /// Copies that were seen, at the least.
    saved_share_min: f64,
    distinct_blocks: Option<Range<u64>>,
    index_bytes: Option<Range<u64>>,
    fingerprint_micros_per_gib: Option<u64>,
}

impl<T> Range<T> {
    fn of(interval: Interval, number: impl Fn(f64) -> T) -> Range<T> {
        Range { value: number(interval.value), low: number(interval.low), high: number(interval.high) }
    }
}

fn shares(interval: Interval) -> Range<f64> {
    Range::of(interval, |share| share)
}

fn counts(interval: Interval) -> Range<u64> {
    Range::of(interval, |count| count.round() as u64)
}

fn micros(duration: Option<Duration>) -> Option<u64> {
    duration.map(|duration| duration.as_micros() as u64)
}

impl Report {
    pub fn new(name: &str, target: &Target, plan: &Plan, estimate: &Estimate, elapsed: Duration) -> Report {
        let size_bytes = target.content.size_bytes();
        Report {
            target: name.to_string(),
            kind: target.kind,
            size_bytes,
            read_bytes: plan.read_bytes(),
            sampled_bytes: estimate.drawn_bytes,
            elapsed_millis: elapsed.as_millis() as u64,
            confidence_percent: CONFIDENCE_PERCENT,
            changed_files: target.content.changed_files(),
            zero_share: shares(estimate.zero_share),
            compression: estimate.cases.iter().map(|case| compression(case, size_bytes)).collect(),
            dedupe: dedupe(plan, estimate),
        }
    }
}

fn compression(case: &CaseEstimate, size_bytes: u64) -> Compression {
    let profile = match case.profile {
        Profile::Oltp => "oltp",
        Profile::General => "general",
        Profile::Bulk => "bulk",
    };
    let codec = match case.codec {
        Codec::None => "off",
        Codec::Lz4 => "lz4",
        Codec::Zstd => "zstd",
    };
    Compression {
        profile,
        chunk_bytes_max: chunk_blocks_max(case.profile) * BLOCK_BYTES,
        codec,
        ratio: case.ratio.map(shares),
        stored_bytes: counts(case.stored_bytes),
        saved_share: shares(case.stored_bytes.map(|bytes| bytes / size_bytes as f64).rest()),
        compress_micros_per_gib: micros(case.compress_per_gib),
    }
}

fn dedupe(plan: &Plan, estimate: &Estimate) -> Dedupe {
    let population = plan.population();
    let found = &estimate.dedupe;
    let is_known = population.coverage == Coverage::All && found.data_blocks > 0;
    let saved = |stored: Interval| stored.map(|blocks| blocks / found.data_blocks as f64).rest();
    // Of all data there can be: what was not read may hold no further copy.
    let blocks = (population.region_blocks + population.hole_blocks) as f64;
    let data_blocks = (blocks * (1.0 - estimate.zero_share.low)).max(1.0);
    let copies_min = found.data_blocks as f64 - found.distinct_blocks.high;
    let distinct = is_known.then_some(found.distinct_blocks);
    Dedupe {
        block_bytes: BLOCK_BYTES,
        saved_share: distinct.map(saved).map(shares),
        saved_share_run_2: is_known.then(|| shares(saved(found.stored_blocks_run_2))),
        saved_share_min: copies_min / data_blocks,
        distinct_blocks: distinct.map(counts),
        index_bytes: distinct.map(|blocks| counts(blocks.map(|count| count * INDEX_ENTRY_BYTES as f64))),
        fingerprint_micros_per_gib: micros(estimate.fingerprint_per_gib),
    }
}

/// The page for people.
pub fn text(report: &Report) -> String {
    let seconds = report.elapsed_millis as f64 / 1e3;
    let mut pairs = vec![
        ("target", format!("{} ({}, {})", report.target, report.kind, size(report.size_bytes))),
        (
            "read",
            format!(
                "{} in {seconds:.1} s, codecs tried on {}",
                size(report.read_bytes),
                size(report.sampled_bytes)
            ),
        ),
        ("zero blocks", percent(report.zero_share)),
    ];
    if report.changed_files > 0 {
        let count = report.changed_files;
        pairs.push(("changed", format!("{count} files while they were read: taken for zeroes in part")));
    }
    let mut text = fields(&pairs);
    text.push('\n');
    text.push_str(&compression_table(&report.compression));
    text.push('\n');
    text.push_str(&fields(&dedupe_fields(&report.dedupe)));
    text.push_str(&format!(
        "\nIn brackets: where the truth is with {} %, unless that is the number itself. Ratios are of data\n\
         without zero blocks, headers counted; shares of dedupe are of the same data before compression.\n",
        report.confidence_percent
    ));
    text
}

fn compression_table(cases: &[Compression]) -> String {
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let ratio = case.ratio.map(|ratio| range(ratio, |number| format!("{number:.2}")));
            vec![
                case.profile.to_string(),
                size(case.chunk_bytes_max),
                case.codec.to_string(),
                ratio.unwrap_or_else(|| "-".to_string()),
                range(case.stored_bytes, size),
                percent(case.saved_share),
                cpu(case.compress_micros_per_gib),
            ]
        })
        .collect();
    table(&["PROFILE", "CHUNK", "CODEC", "RATIO", "STORED", "SAVED", "CPU"], &[], &rows)
}

fn dedupe_fields(dedupe: &Dedupe) -> Vec<(&'static str, String)> {
    let cpu = format!("{} to fingerprint", cpu(dedupe.fingerprint_micros_per_gib));
    let (Some(saved), Some(run), Some(index)) =
        (dedupe.saved_share, dedupe.saved_share_run_2, dedupe.index_bytes)
    else {
        let unknown =
            format!("unknown without reading everything; at least {:.2} %", dedupe.saved_share_min * 100.0);
        return vec![("dedupe saves", unknown), ("dedupe costs", cpu)];
    };
    vec![
        ("dedupe saves", format!("{} of the blocks of {}", percent(saved), size(dedupe.block_bytes))),
        ("in runs of 2", format!("{}, when a block counts only with a neighbour", percent(run))),
        ("dedupe costs", format!("{} of memory for its index, {cpu}", range(index, size))),
    ]
}

fn percent(share: Range<f64>) -> String {
    format!("{} %", range(share, |share| format!("{:.2}", share * 100.0)))
}

/// `value (low to high)`; only the value where the three print the same.
fn range<T: Copy>(numbers: Range<T>, print: impl Fn(T) -> String) -> String {
    let [value, low, high] = [numbers.value, numbers.low, numbers.high].map(print);
    if low == high { value } else { format!("{value} ({low} to {high})") }
}

fn cpu(micros_per_gib: Option<u64>) -> String {
    micros_per_gib.map_or_else(|| "-".to_string(), |micros| format!("{:.2} s/GiB", micros as f64 / 1e6))
}
