//! Tables on drives: pages found through a two-level directory whose root the superblock names.
//!
//! The directories of the volume table and of the notebook are pages of 512 pointers. The segment table
//! cannot be found through itself, so its directories name the place beside each pointer: 256 entries of
//! 16 bytes.

use std::collections::BTreeSet;

use ashlar_format::bytes::{Reader, Writer};
use ashlar_format::page::{PAGE_BYTES, PageContent, PageIdentity};
use ashlar_format::segment::Place;
use ashlar_format::{Damage, Pointer};
use ashlar_units::{DriveIndex, SegmentId};

/// Tree numbers of table pages, below any volume's.
const VOLUME_TABLE_TREE: u64 = 0;
const SEGMENT_TABLE_TREE: u64 = u64::MAX;
const NOTEBOOK_TREE: u64 = u64::MAX - 2;

/// A pointer and where its segment lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Located {
    pub(crate) pointer: Pointer,
    pub(crate) place: Place,
}

impl Default for Located {
    fn default() -> Located {
        Located { pointer: Pointer::HOLE, place: Place::default() }
    }
}

/// Where the pages of one table are.
#[derive(Clone)]
pub(crate) struct TableDirectory {
    pub(crate) content: PageContent,
    pages: Vec<Located>,
    directories: Vec<Located>,
    changed: BTreeSet<usize>,
}

impl TableDirectory {
    pub(crate) fn new(content: PageContent) -> TableDirectory {
        TableDirectory { content, pages: Vec::new(), directories: Vec::new(), changed: BTreeSet::new() }
    }

    fn fan_out(&self) -> usize {
        match self.content {
            PageContent::SegmentTable => PAGE_BYTES / 16,
            _ => PAGE_BYTES / 8,
        }
    }

    fn tree(&self) -> u64 {
        match self.content {
            PageContent::SegmentTable => SEGMENT_TABLE_TREE,
            PageContent::Notebook => NOTEBOOK_TREE,
            _ => VOLUME_TABLE_TREE,
        }
    }

    /// Who a table page is.
    pub(crate) fn page_identity(&self, page: usize) -> PageIdentity {
        PageIdentity { content: self.content, level: 0, tree: self.tree(), index: page as u64 }
    }

    /// Who a directory is; the root has level 2.
    pub(crate) fn directory_identity(&self, level: u8, index: usize) -> PageIdentity {
        PageIdentity { content: PageContent::Directory, level, tree: self.tree(), index: index as u64 }
    }

    pub(crate) fn pages(&self) -> &[Located] {
        &self.pages
    }

    /// Everything of this table that is on drives, the root not included.
    pub(crate) fn all(&self) -> impl Iterator<Item = Pointer> {
        self.pages.iter().chain(&self.directories).map(|located| located.pointer)
    }

    /// A page is now here.
    pub(crate) fn set_page(&mut self, page: usize, located: Located) {
        if self.pages.len() <= page {
            self.pages.resize(page + 1, Located::default());
        }
        self.pages[page] = located;
        self.changed.insert(page / self.fan_out());
    }

    /// Has what lies in `segment` written anew, so that it empties: directories by the next checkpoint,
    /// the pages returned by whoever owns their content.
    pub(crate) fn rewrite_records_in(&mut self, segment: SegmentId, root: Pointer) -> Vec<usize> {
        let is_there = |pointer: Pointer| pointer.is_page() && pointer.segment() == segment;
        let stale = self.directories.iter().enumerate().filter(|(_, located)| is_there(located.pointer));
        let stale: Vec<usize> = stale.map(|(index, _)| index).collect();
        self.changed.extend(stale);
        if is_there(root) && !self.directories.is_empty() {
            // The root is written whenever a directory is.
            self.changed.insert(0);
        }
        let pages = self.pages.iter().enumerate().filter(|(_, located)| is_there(located.pointer));
        pages.map(|(page, _)| page).collect()
    }

    /// Directories that changed since they were written.
    pub(crate) fn changed_directories(&self) -> Vec<usize> {
        self.changed.iter().copied().collect()
    }

    /// A directory's bytes.
    pub(crate) fn encode_directory(&self, index: usize) -> Vec<u8> {
        let fan_out = self.fan_out();
        self.encode(self.pages.iter().skip(index * fan_out).take(fan_out))
    }

    /// A directory is now here.
    pub(crate) fn set_directory(&mut self, index: usize, located: Located) {
        if self.directories.len() <= index {
            self.directories.resize(index + 1, Located::default());
        }
        self.directories[index] = located;
        self.changed.remove(&index);
    }

    /// The root directory's bytes.
    pub(crate) fn encode_root(&self) -> Vec<u8> {
        assert!(self.directories.len() <= self.fan_out(), "table has outgrown its directory");
        self.encode(self.directories.iter())
    }

    fn encode<'a>(&self, entries: impl Iterator<Item = &'a Located>) -> Vec<u8> {
        let mut writer = Writer::new();
        for located in entries {
            writer.u64(located.pointer.0);
            if self.content == PageContent::SegmentTable {
                writer.u16(located.place.drive.0).u16(0).u32(located.place.cell);
            }
        }
        writer.pad_to(PAGE_BYTES);
        writer.into_bytes()
    }

    /// Reads a directory page: its entries, trailing empty ones cut.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Vec<Located>, Damage> {
        let mut reader = Reader::new(bytes);
        let mut entries = Vec::with_capacity(self.fan_out());
        for _ in 0..self.fan_out() {
            let pointer = Pointer(reader.u64()?);
            let mut place = Place::default();
            if self.content == PageContent::SegmentTable {
                let drive = DriveIndex(reader.u16()?);
                reader.u16()?;
                place = Place { drive, cell: reader.u32()? };
            }
            entries.push(Located { pointer, place });
        }
        while entries.last().is_some_and(|entry| !entry.pointer.is_page()) {
            entries.pop();
        }
        Ok(entries)
    }

    /// Takes the directories as read from drives.
    pub(crate) fn load(&mut self, directories: Vec<Located>, pages: Vec<Located>) {
        self.directories = directories;
        self.pages = pages;
        self.changed.clear();
    }

    /// How many pages a directory holds.
    pub(crate) fn directory_fan_out(&self) -> usize {
        self.fan_out()
    }
}

/// The tables of a pool and where their roots are.
pub(crate) struct Tables {
    pub(crate) volumes: TableDirectory,
    pub(crate) segments: TableDirectory,
    pub(crate) notebook: TableDirectory,
    pub(crate) volume_root: Pointer,
    pub(crate) segment_root: Pointer,
    /// A hole while there are no notes.
    pub(crate) notebook_root: Pointer,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        Tables {
            volumes: TableDirectory::new(PageContent::VolumeTable),
            segments: TableDirectory::new(PageContent::SegmentTable),
            notebook: TableDirectory::new(PageContent::Notebook),
            volume_root: Pointer::HOLE,
            segment_root: Pointer::HOLE,
            notebook_root: Pointer::HOLE,
        }
    }

    /// Every table and directory page of the last checkpoint.
    pub(crate) fn all(&self) -> Vec<Pointer> {
        let roots = [self.volume_root, self.segment_root, self.notebook_root];
        let all = roots.into_iter().chain(self.volumes.all()).chain(self.segments.all());
        all.chain(self.notebook.all()).filter(|pointer| pointer.is_page()).collect()
    }
}
