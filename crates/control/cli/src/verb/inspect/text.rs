//! What `ashlar inspect` tells people.

use std::fmt::Write;

use ashlar_inspect::{
    DeepReport, DriveReport, GoneRange, ImageCheck, JournalEnd, JournalReport, NotesReport, Outcome,
    Redundancy, Report, SalvageReport,
};

use super::Found;
use crate::output::{fields, size, table, utc};

/// Ranges shown of one image; `--json` and the report file have all.
const RANGES_SHOWN: usize = 20;

pub(super) fn found(found: &Found) -> String {
    let report = &found.report;
    let mut text = pool(report);
    text += &format!("\n{}", drives(&report.drives));
    text += &format!("\n{}", segments(report));
    text += &format!("\n{}", images(report));
    if !report.notebook.is_empty() {
        text += &format!("\n{}", notebook(report));
    }
    text += &format!("\n{}", journal(&report.journal));
    if !found.verified.is_empty() {
        text += &format!("\n{}", checks(&found.verified));
    }
    if let Some(deep) = &found.deep {
        text += &format!("\n{}", deep_text(deep));
    }
    text += &damage(&report.damage);
    text += &findings(&report.redundancy);
    text += &notes(&report.notes);
    if found.is_whole() {
        text += "nothing that was read is damaged or gone\n";
    }
    text
}

fn findings(redundancy: &Redundancy) -> String {
    // Beyond what protection covers they are told as damage.
    let told = redundancy.findings.iter().filter(|_| !redundancy.is_exceeded);
    told.map(|what| format!("FINDING {what}\n")).collect()
}

/// How many there are; what they say is for those whose they are.
fn notebook(report: &Report) -> String {
    let row = |notes: &NotesReport| {
        let unknown = || format!("unknown ({:#06x})", notes.kind);
        let name = notes.name.map_or_else(unknown, str::to_string);
        vec![
            name,
            notes.notes.to_string(),
            size(notes.bytes),
            if notes.is_secret { "yes" } else { "no" }.into(),
        ]
    };
    let rows: Vec<Vec<String>> = report.notebook.iter().map(row).collect();
    table(&["NOTES", "COUNT", "SIZE", "SECRET"], &[1, 2], &rows)
}

fn notes(notes: &[String]) -> String {
    notes.iter().map(|what| format!("NOTE {what}\n")).collect()
}

fn pool(report: &Report) -> String {
    let pool = &report.pool;
    fields(&[
        ("pool", pool.name.clone()),
        ("identity", pool.id.clone()),
        ("made", utc(pool.created_unix_seconds)),
        ("protection", format!("{}, rows of {}", pool.protection, pool.width)),
        ("superblock", format!("generation {}, session {}", pool.generation, pool.session)),
        ("checkpoint", format!("LSN {}", pool.checkpoint_lsn)),
        ("closed", if pool.is_clean { "yes" } else { "no" }.to_string()),
        ("segment size", size(pool.segment_bytes)),
        ("relocations", format!("{} pages", pool.relocation_pages)),
    ])
}

fn drives(drives: &[DriveReport]) -> String {
    let rows: Vec<Vec<String>> = drives
        .iter()
        .map(|drive| {
            let number = drive.number.map_or("-".to_string(), |number| number.to_string());
            let absent = if drive.state == Some("gone") { "-" } else { "MISSING" };
            let path = drive.path.as_ref().map_or(absent.to_string(), |path| path.display().to_string());
            let valid: Vec<u64> = drive.slots.iter().filter_map(|slot| slot.generation).collect();
            let newest = valid.iter().max().map_or("-".to_string(), u64::to_string);
            let damaged = drive.slots.iter().filter(|slot| slot.damage.is_some()).count();
            vec![
                number,
                path,
                drive.size_bytes.map_or("-".to_string(), size),
                drive.state.unwrap_or("-").to_string(),
                newest,
                valid.len().to_string(),
                damaged.to_string(),
                drive.notes.join("; "),
            ]
        })
        .collect();
    table(
        &["DRIVE", "PATH", "SIZE", "STATE", "GENERATION", "SLOTS", "DAMAGED", "NOTES"],
        &[0, 2, 4, 5, 6],
        &rows,
    )
}

fn segments(report: &Report) -> String {
    let segments = &report.segments;
    let mut rows: Vec<Vec<String>> = segments
        .in_use
        .iter()
        .map(|count| {
            vec![
                count.kind.to_string(),
                count.state.to_string(),
                count.segments.to_string(),
                size(count.used_bytes),
                size(count.live_bytes),
            ]
        })
        .collect();
    rows.push(vec!["free".into(), "-".into(), segments.free.to_string(), "-".into(), "-".into()]);
    let mut text = table(&["SEGMENTS", "STATE", "COUNT", "WRITTEN", "ALIVE"], &[2, 3, 4], &rows);
    if !segments.frontier_unreadable.is_empty() {
        let count = segments.frontier_unreadable.len();
        let _ = writeln!(text, "{count} places that may have been opened since cannot be read");
    }
    text
}

fn images(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .images
        .iter()
        .map(|image| {
            vec![
                image.name.clone(),
                image.kind.to_string(),
                size(image.size_bytes),
                image.written_bytes.map_or("-".to_string(), size),
                utc(image.created_unix_seconds),
                if image.is_in_checkpoint { "checkpoint" } else { "journal" }.to_string(),
            ]
        })
        .collect();
    let mut text = table(&["NAME", "KIND", "SIZE", "WRITTEN", "MADE", "FOUND IN"], &[2, 3], &rows);
    if !report.deleted_by_journal.is_empty() {
        let _ = writeln!(text, "deleted since the checkpoint: {}", report.deleted_by_journal.join(", "));
    }
    text
}

fn journal(journal: &JournalReport) -> String {
    let end = match journal.end {
        JournalEnd::Closed => "the pool was closed",
        JournalEnd::Plain => "nothing follows",
        JournalEnd::CutOff => "what follows was not acknowledged",
        JournalEnd::Unsure => "nothing WHOLE follows: cut off when the pool stopped, or damaged",
        JournalEnd::Unreadable => "MAY GO ON where drives are missing",
        JournalEnd::Damaged => "CUT SHORT by damage, later groups are whole",
    };
    let place = |at: &ashlar_inspect::JournalPlace| {
        format!("segment {} at {}, group {}", at.segment, at.offset_bytes, at.sequence)
    };
    let mut text = fields(&[
        ("journal from", place(&journal.first)),
        ("to", place(&journal.final_place)),
        ("groups", format!("{} with {} records", journal.groups, journal.records)),
        ("end", end.to_string()),
    ]);
    for range in journal.unproven.iter().take(RANGES_SHOWN) {
        let (name, offset, length) = (&range.name, range.offset_bytes, range.length_bytes);
        let _ = writeln!(text, "last write not whole: {name} at {offset}, {length} bytes");
    }
    text
}

fn checks(images: &[ImageCheck]) -> String {
    let mut text = String::new();
    let rows: Vec<Vec<String>> = images
        .iter()
        .map(|image| {
            vec![
                image.name.clone(),
                size(image.size_bytes),
                size(image.data_bytes),
                size(image.gone_bytes),
                image.chunks_verified.to_string(),
            ]
        })
        .collect();
    text += &table(&["VERIFIED", "SIZE", "DATA", "GONE", "CHUNKS"], &[1, 2, 3, 4], &rows);
    for image in images {
        text += &ranges(&image.name, &image.gone);
    }
    text
}

fn ranges(name: &str, gone: &[GoneRange]) -> String {
    let mut text = String::new();
    for range in gone.iter().take(RANGES_SHOWN) {
        let (offset, length, why) = (range.offset_bytes, range.length_bytes, &range.explanation);
        let _ = writeln!(text, "GONE {name} at {offset}, {length} bytes: {why}");
    }
    if gone.len() > RANGES_SHOWN {
        let _ = writeln!(text, "and {} more ranges of {name}: --json names all", gone.len() - RANGES_SHOWN);
    }
    text
}

fn deep_text(deep: &DeepReport) -> String {
    let mut text = checks(&deep.images);
    text += &fields(&[
        ("segment headers", deep.segments.to_string()),
        ("relocations", deep.relocations.to_string()),
        ("stripes compared", deep.stripes.to_string()),
        ("disagreeing", deep.stripes_disagreeing.to_string()),
        ("disagreeing, unused", deep.stripes_disagreeing_unused.to_string()),
        ("not comparable", deep.stripes_unproven.to_string()),
    ]);
    text + &damage(&deep.damage)
}

fn damage(damage: &[String]) -> String {
    damage.iter().map(|what| format!("DAMAGE {what}\n")).collect()
}

pub(super) fn salvaged(report: &SalvageReport) -> String {
    let rows: Vec<Vec<String>> = report
        .images
        .iter()
        .map(|image| {
            let outcome = match image.outcome {
                Outcome::Whole => "whole",
                Outcome::Part => "PART",
                Outcome::Nothing => "NOTHING",
            };
            vec![
                image.check.name.clone(),
                outcome.to_string(),
                size(image.check.data_bytes),
                size(image.check.gone_bytes),
                image.file.display().to_string(),
            ]
        })
        .collect();
    let mut text = table(&["NAME", "SAVED", "DATA", "GONE", "FILE"], &[2, 3], &rows);
    for image in &report.images {
        text += &ranges(&image.check.name, &image.check.gone);
    }
    text += &format!("\n{}", journal(&report.journal));
    text += &damage(&report.damage);
    text += &findings(&report.redundancy);
    text + &notes(&report.notes)
}
