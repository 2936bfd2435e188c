//! The command lines of fio and DiskSpd that do what a load does, as near as they can.
//!
//! For people to compare with; the lab's own jobs are written elsewhere. Whole percentages, because that is
//! what both tools take.

use std::collections::BTreeMap;

use ashlar_units::ByteCount;

use crate::mix::{Operation, Part, Pattern};
use crate::plan::Plan;
use crate::quantity::Rate;
use crate::workload::{Content, IoLoad};

/// One job; two side by side where a mix is random and sequential at once.
pub(super) fn fio(name: &str, load: &IoLoad, planned: &Plan) -> String {
    let set = &load.set;
    let files: Vec<String> = (1..=set.files).map(|file| format!("f{file}.dat")).collect();
    let (size, jobs) = (set.size.0 / set.files, set.files * load.threads);
    let (warmup, measure) = (planned.warmup.as_secs(), planned.measure.as_secs());
    let mut line = format!(
        "  fio --ioengine=libaio --direct=1 --filename={} --filesize={size} --numjobs={jobs} \
         --time_based --ramp_time={warmup} --runtime={measure} --norandommap --group_reporting",
        files.join(":")
    );
    if load.shift_bytes > 0 {
        line += &format!(" --offset={}", load.shift_bytes);
    }
    match set.content {
        Content::Sqlio => line += " --scramble_buffers=0",
        Content::Made { compress, duplicates } => {
            let compressed = percent(1.0 - 1.0 / compress);
            line += &format!(" --refill_buffers --buffer_compress_percentage={compressed}");
            line += &format!(" --dedupe_percentage={}", percent(duplicates));
        }
    }
    for pattern in [Pattern::Random, Pattern::Sequential] {
        let parts: Vec<Part> = load.mix.iter().filter(|part| part.pattern == pattern).copied().collect();
        if !parts.is_empty() {
            line += &format!(" --name={name}{}", fio_job(pattern, &parts, load, size));
        }
    }
    line + "\n"
}

fn fio_job(pattern: Pattern, parts: &[Part], load: &IoLoad, size: u64) -> String {
    let whole: f64 = parts.iter().map(|part| part.share).sum();
    let of = |operation: Operation| parts.iter().filter(move |part| part.operation == operation);
    let read: f64 = of(Operation::Read).map(|part| part.share).sum::<f64>() / whole;
    let prefix = if pattern == Pattern::Random { "rand" } else { "" };
    let depth = (load.outstanding as f64 * whole).round().max(1.0);
    let mut job = match percent(read) {
        100 => format!(" --rw={prefix}read"),
        0 => format!(" --rw={prefix}write"),
        read => format!(" --rw={prefix}rw --rwmixread={read}"),
    };
    job += &format!(" --iodepth={depth}");
    job += &match parts.iter().all(|part| part.size == parts[0].size) {
        true => format!(" --bs={}", short(parts[0].size.0)),
        false => format!(" --bssplit={},{}", split(of(Operation::Read)), split(of(Operation::Write))),
    };
    if pattern == Pattern::Sequential && load.threads > 1 {
        job += &format!(" --offset_increment={}", size / load.threads);
    }
    if let Some(zipf) = load.zipf {
        job += &format!(" --random_distribution=zipf:{zipf}");
    }
    if let Some(Rate(rate)) = load.rate {
        let jobs = (load.set.files * load.threads) as f64;
        let each = |share: f64| (rate * whole * share / jobs).round();
        job += &format!(" --rate_process=poisson --rate_iops={},{}", each(read), each(1.0 - read));
    }
    job
}

/// Sizes with their percentages of one direction, as `8k/95:64k/5`.
fn split<'a>(parts: impl Iterator<Item = &'a Part>) -> String {
    let mut sizes: BTreeMap<u64, f64> = BTreeMap::new();
    for part in parts {
        *sizes.entry(part.size.0).or_default() += part.share;
    }
    let whole: f64 = sizes.values().sum();
    let sizes = sizes.iter().map(|(size, share)| format!("{}/{}", short(*size), percent(share / whole)));
    sizes.collect::<Vec<_>>().join(":")
}

/// One command; one for each size and pattern, side by side, where there are several.
pub(super) fn diskspd(load: &IoLoad, planned: &Plan) -> String {
    let set = &load.set;
    let files: Vec<String> = (1..=set.files).map(|file| format!("f{file}.dat")).collect();
    let content = if set.content == Content::Sqlio { "" } else { " -Z1M" };
    let (warmup, measure) = (planned.warmup.as_secs(), planned.measure.as_secs());
    let mut groups: Vec<(Pattern, ByteCount)> = Vec::new();
    for part in &load.mix {
        if !groups.contains(&(part.pattern, part.size)) {
            groups.push((part.pattern, part.size));
        }
    }
    let mut lines = String::new();
    for (pattern, size) in groups {
        let parts = load.mix.iter().filter(|part| (part.pattern, part.size) == (pattern, size));
        let (mut share, mut written) = (0.0, 0.0);
        for part in parts {
            share += part.share;
            written += if part.operation == Operation::Write { part.share } else { 0.0 };
        }
        let block = short(size.0).to_uppercase();
        let access = if pattern == Pattern::Random { format!("-r{block}") } else { "-si".to_string() };
        let outstanding = (load.outstanding as f64 * share).round().max(1.0);
        let (size, threads, written) = (set.size.0 / set.files, load.threads, percent(written / share));
        lines += &format!(
            "  diskspd -c{size} -d{measure} -W{warmup} -b{block} {access} -o{outstanding} -t{threads} \
             -w{written} -Sh -L{content} -Rxml"
        );
        if load.shift_bytes > 0 {
            lines += &format!(" -B{}", load.shift_bytes);
        }
        if let Some(Rate(rate)) = load.rate {
            let each = rate * share / (set.files * threads) as f64;
            lines += &format!(" -g{}i", each.round());
        }
        lines += &format!(" {}\n", files.join(" "));
    }
    lines
}

fn percent(share: f64) -> u64 {
    (share * 100.0).round() as u64
}

/// A size of whole KiB as `8k`, another in bytes.
fn short(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{}k", bytes / 1024) } else { bytes.to_string() }
}
