//! What a pool is and holds, for people and scripts.

use ashlar_format::catalogue::VolumeEntry;
use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{SegmentKind, SegmentState};
use ashlar_units::BLOCK_BYTES;
use serde::Serialize;

use crate::Pool;
use crate::drives::{DriveReport, protection_word};
use crate::image::kind_word;
use crate::journal::JournalEnd;
use crate::notebook::NotesReport;
use crate::redundancy::Redundancy;

/// Everything that is told without reading data.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The superblock that counts.
    pub pool: PoolReport,
    /// Its drives, then paths that are none of them.
    pub drives: Vec<DriveReport>,
    /// The segment table.
    pub segments: SegmentsReport,
    /// Volumes and snapshots, with the journal applied.
    pub images: Vec<ImageReport>,
    /// Volumes and snapshots of the checkpoint that the journal deletes.
    pub deleted_by_journal: Vec<String>,
    /// Notes by kind, with the journal applied.
    pub notebook: Vec<NotesReport>,
    /// The journal behind the checkpoint.
    pub journal: JournalReport,
    /// What is left of the pool's protection.
    pub redundancy: Redundancy,
    /// What is damaged of the pool's own tables, and what a person must know.
    pub damage: Vec<String>,
    /// What is no damage and yet worth knowing.
    pub notes: Vec<String>,
}

/// What the superblock says.
#[derive(Clone, Debug, Serialize)]
pub struct PoolReport {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The superblock's generation.
    pub generation: u64,
    /// Openings so far.
    pub session: u32,
    /// `none`, `single` or `dual`.
    pub protection: &'static str,
    /// Columns of a row, parity included; 1 without protection.
    pub width: u8,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Whether it was closed.
    pub is_clean: bool,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// Everything before this LSN is in the checkpoint.
    pub checkpoint_lsn: u64,
    /// Incompatible feature bits.
    pub incompatible_features: u64,
    /// Pages of the relocation table.
    pub relocation_pages: usize,
}

/// Segments, counted.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentsReport {
    /// Places that the pool has.
    pub places: usize,
    /// Those that are free.
    pub free: usize,
    /// The others, by kind and state.
    pub in_use: Vec<SegmentCount>,
    /// Opened since the table was written.
    pub from_frontier: Vec<u32>,
    /// May have been opened since: their places cannot be read.
    pub frontier_unreadable: Vec<u32>,
}

/// Segments of one kind and state.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentCount {
    /// `journal`, `metadata` or `moved`.
    pub kind: &'static str,
    /// `open` or `sealed`.
    pub state: &'static str,
    /// How many.
    pub segments: usize,
    /// Bytes written to them.
    pub used_bytes: u64,
    /// Bytes alive by the cleaner's last mark.
    pub live_bytes: u64,
}

/// A volume or a snapshot image.
#[derive(Clone, Debug, Serialize)]
pub struct ImageReport {
    /// A volume's name, VOLUME@SNAPSHOT, or VOLUME:NUMBER of one that is deleted and may come back.
    pub name: String,
    /// `volume`, `snapshot` or `deleted`.
    pub kind: &'static str,
    /// Its identity.
    pub id: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of its logical block.
    pub logical_block_bytes: u32,
    /// Bytes mapped to data at the checkpoint; absent when not counted, or made since.
    pub written_bytes: Option<u64>,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// What it was made from.
    pub origin: Option<String>,
    /// Whether the checkpoint has it; if not the journal made it.
    pub is_in_checkpoint: bool,
}

/// The journal behind the checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct JournalReport {
    /// Where it starts: segment, offset and sequence number of the first group.
    pub first: JournalPlace,
    /// Behind its last group.
    pub final_place: JournalPlace,
    /// Groups that count.
    pub groups: u64,
    /// Their records.
    pub records: u64,
    /// Why it ends there.
    pub end: JournalEnd,
    /// Whole groups found behind the end, which cannot count.
    pub groups_behind: u64,
    /// Ranges written last whose groups are not whole. If the pool merely stopped, nobody was told that
    /// they were written; if drives were damaged, an acknowledged write may be among them.
    pub unproven: Vec<UnprovenRange>,
}

/// A place in the journal.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct JournalPlace {
    /// The segment.
    pub segment: u32,
    /// The offset in it.
    pub offset_bytes: u64,
    /// The group's number.
    pub sequence: u64,
}

/// A range whose last write may be missing.
#[derive(Clone, Debug, Serialize)]
pub struct UnprovenRange {
    /// The volume.
    pub name: String,
    /// Where it starts.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
}

/// `written_blocks` of an entry that is not counted.
const WRITTEN_UNKNOWN: u64 = u64::MAX;

pub(crate) fn make(pool: &Pool) -> Report {
    let superblock = &pool.media.storage.superblock;
    Report {
        pool: PoolReport {
            id: superblock.pool.to_string(),
            name: superblock.name.clone(),
            generation: superblock.generation,
            session: superblock.session,
            protection: protection_word(superblock.protection),
            width: superblock.layout.as_ref().map_or(1, |layout| layout.width),
            segment_bytes: u64::from(superblock.segment_bytes),
            is_clean: superblock.is_clean,
            created_unix_seconds: superblock.created_unix_seconds,
            checkpoint_lsn: superblock.checkpoint.0,
            incompatible_features: superblock.incompatible,
            relocation_pages: pool.media.relocation_pages(),
        },
        drives: pool.drives.clone(),
        segments: segments(pool),
        images: pool.catalogue.images.values().map(|image| image_report(pool, image)).collect(),
        deleted_by_journal: pool
            .checkpoint
            .values()
            .filter(|image| !pool.catalogue.images.contains_key(&image.entry.id))
            .map(|image| image.name())
            .collect(),
        notebook: pool.catalogue.notebook.report(),
        journal: journal(pool),
        redundancy: pool.redundancy(),
        damage: pool.damage(),
        notes: pool.notes(),
    }
}

fn image_report(pool: &Pool, image: &crate::catalogue::Image) -> ImageReport {
    let VolumeEntry { id, kind, size_bytes, created_unix_seconds, origin_name, .. } = &image.entry;
    let before = pool.checkpoint.get(id);
    let written = before.map(|image| image.entry.written_blocks).filter(|blocks| *blocks != WRITTEN_UNKNOWN);
    ImageReport {
        name: image.name(),
        kind: if image.entry.deleted().is_some() { "deleted" } else { kind_word(*kind) },
        id: id.0,
        size_bytes: *size_bytes,
        logical_block_bytes: 1 << image.entry.logical_block_shift,
        written_bytes: written.map(|blocks| blocks.saturating_mul(BLOCK_BYTES)),
        created_unix_seconds: *created_unix_seconds,
        origin: (!origin_name.is_empty()).then(|| origin_name.clone()),
        is_in_checkpoint: before.is_some(),
    }
}

fn segments(pool: &Pool) -> SegmentsReport {
    let segments = &pool.media.segments;
    let kinds = [
        (SegmentKind::Journal, "journal"),
        (SegmentKind::Metadata, "metadata"),
        (SegmentKind::Moved, "moved"),
    ];
    let states = [(SegmentState::Open, "open"), (SegmentState::Sealed, "sealed")];
    let mut in_use = Vec::new();
    for (kind, kind_name) in kinds {
        for (state, state_name) in states {
            let entries = segments.by_number.values();
            let these: Vec<_> = entries.filter(|entry| entry.kind == kind && entry.state == state).collect();
            if these.is_empty() {
                continue;
            }
            let bytes = |units: u64| units * PLACE_UNIT_BYTES;
            in_use.push(SegmentCount {
                kind: kind_name,
                state: state_name,
                segments: these.len(),
                used_bytes: bytes(these.iter().map(|entry| u64::from(entry.used_units)).sum()),
                live_bytes: bytes(these.iter().map(|entry| u64::from(entry.live_units)).sum()),
            });
        }
    }
    SegmentsReport {
        places: pool.media.storage.place_count(),
        free: segments.free,
        in_use,
        from_frontier: segments.from_frontier.iter().map(|segment| segment.0).collect(),
        frontier_unreadable: segments.frontier_unreadable.iter().map(|segment| segment.0).collect(),
    }
}

/// The journal's part of a report.
pub(crate) fn journal(pool: &Pool) -> JournalReport {
    let place = |position: ashlar_format::superblock::JournalPosition| JournalPlace {
        segment: position.segment.0,
        offset_bytes: position.offset_bytes,
        sequence: position.sequence,
    };
    let journal = &pool.journal;
    let name_of = |unproven: &crate::journal::Unproven| {
        let image = pool.catalogue.images.get(&unproven.volume);
        image.map_or_else(|| format!("volume {}", unproven.volume), |image| image.name())
    };
    JournalReport {
        first: place(pool.journal_first),
        final_place: place(journal.position),
        groups: journal.groups.len() as u64,
        records: journal.groups.iter().map(|group| group.records.len() as u64).sum(),
        end: journal.end,
        groups_behind: journal.behind,
        unproven: journal
            .unproven
            .iter()
            .map(|unproven| UnprovenRange {
                name: name_of(unproven),
                offset_bytes: unproven.first_block * BLOCK_BYTES,
                length_bytes: unproven.blocks.saturating_mul(BLOCK_BYTES),
            })
            .collect(),
    }
}
