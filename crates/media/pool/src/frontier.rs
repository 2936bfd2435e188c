//! The frontier: places that may be opened before the next superblock, listed in it, so that
//! recovery looks for unsealed segments nowhere else.

use std::collections::VecDeque;

use ashlar_format::MediaKey;
use ashlar_format::pointer::SEGMENT_IN_MEMORY;
use ashlar_format::segment::{Place, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use ashlar_format::superblock::{FRONTIER_MAX, FrontierEntry};
use ashlar_units::{Fault, SegmentId, planted};

use crate::table::SegmentTable;

/// Unopened places a superblock lists. At the usual 64 MiB this lets a gigabyte be written between
/// superblocks, and it bounds the headers that recovery probes.
const UNOPENED_TARGET: usize = 16;

/// Places prepared ahead of need: one for the journal, one for metadata.
const PREPARED_TARGET: usize = 2;

/// No segment gets this number or a higher one: pointers hold 30 bits, and the last number means a page in
/// memory. Nobody may come this far: who writes for hosts stops a million numbers before.
pub const SEGMENT_NUMBERS_END: u32 = SEGMENT_IN_MEMORY;

#[derive(Default)]
pub(crate) struct Frontier {
    /// Listed in the durable superblock and written over once where the drive needs that.
    prepared: VecDeque<FrontierEntry>,
    /// Being written over.
    preparing: Vec<FrontierEntry>,
    /// Listed in the durable superblock.
    openable: VecDeque<FrontierEntry>,
    /// Taken off the free list and listed in a superblock that is not durable yet.
    pending: Vec<FrontierEntry>,
    /// Opened since the last durable segment table: must stay listed.
    opened: Vec<FrontierEntry>,
}

impl Frontier {
    /// The list for the next superblock: opened, openable, topped up from free places while there are
    /// numbers for them.
    pub(crate) fn list(&mut self, table: &mut SegmentTable, segment_next: &mut u32) -> Vec<FrontierEntry> {
        while self.unopened_count() < UNOPENED_TARGET
            && self.total() < FRONTIER_MAX
            && *segment_next < SEGMENT_NUMBERS_END
        {
            let Some(place) = table.take_free() else { break };
            self.pending.push(FrontierEntry { segment: SegmentId(*segment_next), place });
            *segment_next +=
                u32::from(!planted(Fault::SegmentNumberTwice) || !segment_next.is_multiple_of(32));
        }
        self.opened.iter().chain(self.unopened_entries()).copied().collect()
    }

    fn unopened_entries(&self) -> impl Iterator<Item = &FrontierEntry> {
        self.prepared.iter().chain(&self.preparing).chain(&self.openable).chain(&self.pending)
    }

    fn total(&self) -> usize {
        self.opened.len() + self.unopened_count()
    }

    /// The superblock with this list is durable.
    pub(crate) fn make_openable(&mut self, listed: &[FrontierEntry]) {
        let (now, later) = self.pending.drain(..).partition(|entry| listed.contains(entry));
        self.pending = later;
        self.openable.extend::<Vec<FrontierEntry>>(now);
    }

    /// The next place to prepare, while fewer than the target are.
    pub(crate) fn start_preparing(&mut self) -> Option<FrontierEntry> {
        if self.prepared.len() + self.preparing.len() >= PREPARED_TARGET {
            return None;
        }
        let entry = self.openable.pop_front()?;
        self.preparing.push(entry);
        Some(entry)
    }

    /// The place may be opened, unless its drive is leaving by now.
    pub(crate) fn finish_preparing(&mut self, entry: FrontierEntry, table: &mut SegmentTable) {
        self.preparing.retain(|other| *other != entry);
        if table.is_closed(entry.place) {
            table.put_free(entry.place);
        } else {
            let at = self.prepared.partition_point(|other| other.segment < entry.segment);
            self.prepared.insert(at, entry);
        }
    }

    /// Gives the places of drives that are leaving back unopened. Their numbers are lost; those that are
    /// being prepared follow.
    pub(crate) fn drop_closed(&mut self, table: &mut SegmentTable) {
        let mut dropped = Vec::new();
        let mut stays = |entry: &FrontierEntry| {
            let stays = !table.is_closed(entry.place);
            if !stays {
                dropped.push(entry.place);
            }
            stays
        };
        self.prepared.retain(&mut stays);
        self.openable.retain(&mut stays);
        self.pending.retain(&mut stays);
        dropped.into_iter().for_each(|place| table.put_free(place));
    }

    /// Whether a superblock written now would list a place of this drive.
    pub(crate) fn lists_drive(&self, drive: usize) -> bool {
        self.opened.iter().chain(self.unopened_entries()).any(|entry| is_on(entry, drive))
    }

    /// Whether waiting for the preparer will bring a place.
    pub(crate) fn is_place_coming(&self) -> bool {
        !self.preparing.is_empty() || !self.openable.is_empty()
    }

    /// Opens the next place, in the order of the numbers: one that is prepared before its turn waits.
    pub(crate) fn open(
        &mut self,
        table: &mut SegmentTable,
        kind: SegmentKind,
        birth: u64,
    ) -> Option<FrontierEntry> {
        let next = self.prepared.front()?.segment;
        if self.preparing.iter().any(|entry| entry.segment < next) {
            return None;
        }
        let entry = self.prepared.pop_front()?;
        table.set_open(entry.segment, entry.place, kind, birth);
        self.opened.push(entry);
        Some(entry)
    }

    /// Puts a place in again as already opened: recovery found its header.
    pub(crate) fn adopt_opened(&mut self, entry: FrontierEntry) {
        self.opened.push(entry);
    }

    /// The segment was not opened after all.
    pub(crate) fn abandon(&mut self, segment: SegmentId) {
        self.opened.retain(|entry| entry.segment != segment);
    }

    /// Whether another superblock would make places openable.
    pub(crate) fn can_extend(&self, table: &SegmentTable, segment_next: u32) -> bool {
        let has_free = table.free_count() > 0 && segment_next < SEGMENT_NUMBERS_END;
        !self.pending.is_empty() || has_free && self.total() < FRONTIER_MAX
    }

    pub(crate) fn opened_count(&self) -> usize {
        self.opened.len()
    }

    pub(crate) fn opened(&self) -> Vec<SegmentId> {
        self.opened.iter().map(|entry| entry.segment).collect()
    }

    pub(crate) fn forget(&mut self, mark: &[SegmentId]) {
        self.opened.retain(|entry| !mark.contains(&entry.segment));
    }

    /// Segments that have a number and a place and are not open yet.
    pub(crate) fn unopened(&self) -> impl Iterator<Item = SegmentId> {
        self.unopened_entries().map(|entry| entry.segment)
    }

    /// Places set aside and not opened.
    pub(crate) fn unopened_count(&self) -> usize {
        self.unopened_entries().count()
    }

    /// Those of them on a drive.
    pub(crate) fn unopened_on(&self, drive: usize) -> usize {
        self.unopened_entries().filter(|entry| is_on(entry, drive)).count()
    }
}

fn is_on(entry: &FrontierEntry, drive: usize) -> bool {
    usize::from(entry.place.drive.0) == drive
}

/// A segment just opened: the header block must be part of its first write.
#[derive(Clone, Copy, Debug)]
pub struct OpenedSegment {
    /// Its number.
    pub segment: SegmentId,
    /// Where content starts.
    pub content_start: u64,
    header: SegmentHeader,
}

impl OpenedSegment {
    pub(crate) fn new(header: SegmentHeader) -> OpenedSegment {
        OpenedSegment { segment: header.segment, content_start: SEGMENT_HEADER_BYTES, header }
    }

    /// The header block.
    #[must_use]
    pub fn header_block(&self, key: &MediaKey) -> Vec<u8> {
        self.header.encode(key)
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> Place {
        self.header.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The harm: a chunk that is younger than a clone had a smaller address than what the clone inherited.
    #[test]
    fn places_are_opened_in_the_order_of_their_numbers_whichever_is_prepared_first() {
        let mut table = SegmentTable::new(&[8]);
        table.finish_loading().unwrap();
        let (mut frontier, mut segment_next) = (Frontier::default(), 1);
        let listed = frontier.list(&mut table, &mut segment_next);
        frontier.make_openable(&listed);
        let (first, second) = (frontier.start_preparing().unwrap(), frontier.start_preparing().unwrap());
        frontier.finish_preparing(second, &mut table);
        assert_eq!(frontier.open(&mut table, SegmentKind::Journal, 1), None);
        assert!(frontier.is_place_coming());
        frontier.finish_preparing(first, &mut table);
        let mut opened = || frontier.open(&mut table, SegmentKind::Journal, 1);
        assert_eq!((opened(), opened(), opened()), (Some(first), Some(second), None));
    }
}
