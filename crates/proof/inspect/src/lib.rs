//! A second reader of drives: what a pool holds, what of it is damaged, and all that can be saved.
//!
//! Called by the command line. Depends on `format` and `parity` and on nothing else that `engine` is made
//! of, so that one bug cannot hide from both. It opens drives for reading only, and gives out nothing that
//! it has not verified.
//!
//! ```text
//! drives ─► storage (places, round damage) ─► segments, relocations ─► media (what pointers name)
//!                                                                        │
//!             journal ─► replay ─► catalogue (images with maps) ◄────────┤
//!                                    │                                   │
//!                                    └─► image (every block) ─► report, deep, salvage
//! ```

mod catalogue;
mod deep;
mod drives;
mod ends;
mod error;
mod image;
mod journal;
mod map;
mod media;
mod notebook;
mod pages;
mod redundancy;
mod replay;
mod report;
mod salvage;
mod segments;
mod source;
mod storage;
mod why;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use ashlar_format::notes::Note;
use ashlar_format::superblock::{JournalPosition, Superblock};
use ashlar_units::{Lsn, VolumeId};

pub use deep::DeepReport;
pub use drives::{DriveReport, SlotReport};
pub use error::{Error, ErrorKind, Result};
pub use image::{GoneRange, ImageCheck};
pub use journal::JournalEnd;
pub use notebook::NotesReport;
pub use redundancy::Redundancy;
pub use report::{
    ImageReport, JournalPlace, JournalReport, PoolReport, Report, SegmentCount, SegmentsReport, UnprovenRange,
};
pub use salvage::{Outcome, SalvageOptions, SalvageReport, Salvaged};
pub use source::{NamedSource, Source};
pub use why::Why;

use catalogue::{Catalogue, Image};
use journal::Journal;
use media::Media;
use notebook::Notebook;
use storage::Storage;

/// A pool as its drives tell it, the journal applied in memory.
pub struct Pool {
    media: Media,
    drives: Vec<DriveReport>,
    notes: Vec<String>,
    /// Volumes and snapshots of the checkpoint.
    checkpoint: BTreeMap<VolumeId, Image>,
    /// Where the journal behind it starts.
    journal_first: JournalPosition,
    journal: Journal,
    /// The same with the journal applied.
    catalogue: Catalogue,
}

/// The newest volume table before the superblock's that is whole. What it needs and the pool has given
/// up since may be gone; the journal says what came after, if it is there without a gap.
fn earlier_catalogue<'a>(media: &mut Media, older: &'a [Superblock]) -> Option<(Catalogue, &'a Superblock)> {
    media.segments.take_all_headers(&media.storage);
    let newest = media.storage.superblock.volume_table;
    let mut tried = older.iter().filter(|other| other.volume_table.is_page() && other.volume_table != newest);
    tried.find_map(|other| {
        let catalogue = Catalogue::load(media, other.volume_table);
        catalogue.is_complete().then_some((catalogue, other))
    })
}

impl Pool {
    /// Reads what these drives say. Missing and damaged ones are no error as long as one superblock is left.
    pub fn open(paths: &[PathBuf]) -> Result<Pool> {
        let is_served = source::are_served(paths);
        Pool::open_drives(paths.iter().map(|path| source::open(path)).collect(), is_served)
    }

    /// The same of drives that are no files, and that nobody writes to meanwhile.
    pub fn open_sources(sources: Vec<NamedSource>) -> Result<Pool> {
        Pool::open_drives(sources, false)
    }

    fn open_drives(named: Vec<NamedSource>, is_served: bool) -> Result<Pool> {
        let drives::Drives { superblock, older, sources, reports, standings, mut notes } =
            drives::open(named)?;
        let mut journal_first = superblock.journal;
        let mut media = Media::open(Storage::new(superblock, sources, standings, is_served));
        let mut catalogue = Catalogue::load(&media, media.storage.superblock.volume_table);
        let mut notebook = media.storage.superblock.notebook;
        if !catalogue.is_complete()
            && let Some((found, earlier)) = earlier_catalogue(&mut media, &older)
        {
            notes.append(&mut catalogue.damage);
            notes.push(format!(
                "volumes are told by the checkpoint of generation {} and the journal since",
                earlier.generation
            ));
            journal_first = earlier.journal;
            notebook = earlier.notebook;
            catalogue = found;
        }
        catalogue.notebook = Notebook::load(&media, notebook);
        let checkpoint = catalogue.images.clone();
        let journal = journal::read(&media, journal_first);
        for group in &journal.groups {
            for (index, record) in group.records.iter().enumerate() {
                let lsn = Lsn(group.first_lsn.0 + index as u64);
                replay::apply(&media, &mut catalogue, lsn, record);
            }
        }
        catalogue.name_origins();
        Ok(Pool { media, drives: reports, notes, checkpoint, journal_first, journal, catalogue })
    }

    /// What the pool is and holds, from its tables.
    #[must_use]
    pub fn report(&self) -> Report {
        report::make(self)
    }

    /// Every note, by key: what secrets say is printed by nobody.
    pub fn noted(&self) -> impl Iterator<Item = &Note> {
        self.catalogue.notebook.notes.values()
    }

    /// Reads and verifies a volume (NAME) or a snapshot image (VOLUME@SNAPSHOT).
    pub fn verify(&self, name: &str) -> Result<ImageCheck> {
        let image = self.image(name).ok_or_else(|| self.no_image(name))?;
        Ok(self.verify_image(image))
    }

    /// Reads a volume (NAME) or a snapshot image (VOLUME@SNAPSHOT): `sink` gets every block of data, by
    /// number. What it does not get is zeroes, or gone as the result says.
    pub fn read(&self, name: &str, mut sink: impl FnMut(u64, &[u8])) -> Result<ImageCheck> {
        let image = self.image(name).ok_or_else(|| self.no_image(name))?;
        let read = image::read(&self.media, image, |block, bytes| {
            sink(block, bytes);
            Ok::<(), Infallible>(())
        });
        let Ok(check) = read;
        Ok(check)
    }

    /// What is left of the pool's protection.
    #[must_use]
    pub fn redundancy(&self) -> Redundancy {
        redundancy::judge(&self.media.storage.superblock, &self.media.storage.standings, &self.drives)
    }

    /// Reads and verifies everything.
    #[must_use]
    pub fn check_deep(&self) -> DeepReport {
        deep::check(self)
    }

    /// Writes images of volumes, and of snapshots if asked, to files of a directory.
    pub fn salvage(&self, directory: &Path, options: &SalvageOptions) -> Result<SalvageReport> {
        salvage::salvage(self, directory, options)
    }

    fn images(&self) -> impl Iterator<Item = &Image> {
        self.catalogue.images.values()
    }

    fn image(&self, name: &str) -> Option<&Image> {
        self.images().find(|image| image.name() == name)
    }

    fn no_image(&self, name: &str) -> Error {
        let names: Vec<String> = self.images().map(Image::name).collect();
        let what = if names.is_empty() { "none was found".to_string() } else { names.join(", ") };
        Error::new(ErrorKind::Invalid, format!("no volume or snapshot `{name}`: there are: {what}"))
    }

    fn verify_image(&self, image: &Image) -> ImageCheck {
        let Ok(check) = image::read(&self.media, image, |_, _| Ok::<(), Infallible>(()));
        check
    }

    /// Whether an array has the pool open: what is read may change meanwhile.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.media.storage.is_served
    }

    /// What is no damage and yet worth knowing.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_served() {
            notes.push("the pool is served by an array: what it writes meanwhile is not told".to_string());
        } else if self.journal.end == JournalEnd::CutOff {
            notes.push(
                "the pool was stopped while it wrote: what was on its way to the drives is cut off, nobody \
                 was told that it was done, and nothing else is missing"
                    .to_string(),
            );
        }
        notes
    }

    /// What is damaged of the pool's own tables, and what a person must know.
    fn damage(&self) -> Vec<String> {
        let mut damage = self.notes.clone();
        damage.extend(self.media.segments.damage.iter().cloned());
        damage.extend(self.media.damage.iter().cloned());
        damage.extend(self.catalogue.notebook.damage.iter().map(|what| format!("{what}: notes are missing")));
        damage.extend(
            self.catalogue.damage.iter().map(|what| {
                format!("{what}: volumes and snapshots may be missing, and what comes from them")
            }),
        );
        let redundancy = self.redundancy();
        if redundancy.is_exceeded {
            damage.extend(redundancy.findings);
        }
        match self.journal.end {
            JournalEnd::Closed | JournalEnd::Plain | JournalEnd::CutOff => {}
            JournalEnd::Unsure => damage.push(
                "what lies behind the journal's last whole group is a write that was cut off when the pool \
                 stopped, or damage: then the last acknowledged writes are missing in the images"
                    .to_string(),
            ),
            JournalEnd::Unreadable => damage.push(
                "the journal may go on where drives are missing: acknowledged writes may be missing in all images"
                    .to_string(),
            ),
            JournalEnd::Damaged => damage.push(format!(
                "journal group {} is gone although later ones are whole: all images lack what was written since",
                self.journal.position.sequence
            )),
        }
        damage
    }
}
