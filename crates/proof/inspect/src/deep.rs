//! The long check: every image, every segment header, every relocation, all settled parity.

use ashlar_format::pointer::PLACE_UNIT_BYTES;
use ashlar_format::segment::{SegmentEntry, SegmentKind, SegmentState};
use serde::Serialize;

use crate::Pool;
use crate::image::ImageCheck;

/// What the long check found.
#[derive(Clone, Debug, Serialize)]
pub struct DeepReport {
    /// Every volume and snapshot, read.
    pub images: Vec<ImageCheck>,
    /// Segments whose header was read.
    pub segments: u64,
    /// Relocations whose page was read.
    pub relocations: u64,
    /// Stripes compared with their parity.
    pub stripes: u64,
    /// Stripes that do not agree with it, and hold something that is in use.
    pub stripes_disagreeing: u64,
    /// Stripes that do not agree with it, and hold nothing: what a crash cut off, or what is left of a former
    /// segment. A scrub sets them right.
    pub stripes_disagreeing_unused: u64,
    /// Stripes of which too few columns are there to tell.
    pub stripes_unproven: u64,
    /// What is wrong with segments and relocations.
    pub damage: Vec<String>,
}

impl DeepReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
            && self.stripes_disagreeing == 0
            && self.images.iter().all(|image| image.gone.is_empty())
    }
}

pub(crate) fn check(pool: &Pool) -> DeepReport {
    let mut report = DeepReport {
        images: pool.images().map(|image| pool.verify_image(image)).collect(),
        segments: 0,
        relocations: 0,
        stripes: 0,
        stripes_disagreeing: 0,
        stripes_disagreeing_unused: 0,
        stripes_unproven: 0,
        damage: Vec::new(),
    };
    for pointer in pool.media.relocation_pointers() {
        match pool.media.verify_relocations(pointer) {
            Ok(entries) => report.relocations += entries as u64,
            Err(why) => report.damage.push(format!("relocation page {pointer:?}: {why}")),
        }
    }
    // Last: what was read above is in use.
    check_segments(pool, &mut report);
    report
}

/// A journal segment without a footer was not closed by who wrote it, but by the next opening.
fn was_cut_off(entry: &SegmentEntry) -> bool {
    entry.state == SegmentState::Open || entry.kind == SegmentKind::Journal && !entry.has_footer
}

fn check_segments(pool: &Pool, report: &mut DeepReport) {
    let storage = &pool.media.storage;
    let settled_below = storage.superblock.layout.as_ref().map_or(0, |layout| layout.settled_below);
    for entry in pool.media.segments.by_number.values() {
        report.segments += 1;
        match storage.read_header(entry.place, entry.segment) {
            Ok(header) if header.kind == entry.kind => {}
            Ok(header) => report.damage.push(format!(
                "segment {}: its header calls it {:?}, the table {:?}",
                entry.segment, header.kind, entry.kind
            )),
            // Without it nothing is missed that cannot be read: it may not have been written at all when the
            // pool stopped.
            Err(_) if !storage.has_use(entry.place) => {}
            // It was being written when the pool stopped, this time or an earlier one; the group behind it
            // may be whole without.
            Err(_) if was_cut_off(entry) => {}
            Err(why) => report.damage.push(format!("header of segment {}: {why}", entry.segment)),
        }
        if entry.state != SegmentState::Sealed || entry.segment.0 >= settled_below {
            continue;
        }
        let used = u64::from(entry.used_units) * PLACE_UNIT_BYTES;
        let agreement = storage.compare(entry.place, entry.segment, used);
        report.stripes += agreement.compared;
        report.stripes_disagreeing += agreement.disagreeing;
        report.stripes_disagreeing_unused += agreement.disagreeing_unused;
        report.stripes_unproven += agreement.unproven;
        if agreement.disagreeing > 0 {
            let (count, segment) = (agreement.disagreeing, entry.segment);
            report.damage.push(format!("segment {segment}: {count} stripes disagree with their parity"));
        }
    }
}
