//! What a disk is like, told by what it gives back: while it has power, and after it had none.

use ashlar_compare::{Compared, Left};
use ashlar_disk::{Disk, Kind, Spec};
use serde::Serialize;

use crate::{Error, Stage, Told, Unmade};

/// Of the disk; small, so that each block is written over soon.
const SIZE_BYTES: u64 = 64 << 20;
/// Written and compared.
const COMPARED_BYTES: u64 = 16 << 20;
/// Blocks that are promised before the power is cut. No multiple of what a liar may flush by chance.
const PROMISED: u64 = 2_500;
/// Of them: those of the comparison before have lower numbers.
const PASS: u64 = 100;

/// As far as one can tell from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nature {
    Honest,
    ReturnsOldBlocks,
    /// Something else than was written, and nothing older.
    ReturnsOtherBlocks,
    LosesSome,
    LosesAll,
}

impl Nature {
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Nature::Honest => "gives back what was written and keeps what it acknowledged",
            Nature::ReturnsOldBlocks => "returns old blocks",
            Nature::ReturnsOtherBlocks => "returns something that was not written there",
            Nature::LosesSome => "acknowledges before it is durable",
            Nature::LosesAll => "keeps everything in memory",
        }
    }

    /// Wrong reads come first: what such a disk loses cannot be told.
    fn of(compared: &Compared, left: Left) -> Nature {
        match (compared.wrong, compared.old, left) {
            (1.., 1.., _) => Nature::ReturnsOldBlocks,
            (1.., 0, _) => Nature::ReturnsOtherBlocks,
            (0, _, Left { right: 0, .. }) => Nature::LosesAll,
            (0, _, Left { zeroes: 0, other: 0, .. }) => Nature::Honest,
            (0, _, _) => Nature::LosesSome,
        }
    }
}

/// Asks a disk of this kind, which must be of this nature.
pub(crate) fn judged(stage: &Stage<'_>, kind: &Kind, wanted: Nature) -> std::result::Result<Told, Unmade> {
    let backing = stage.settings.directory.join("disk");
    let spec =
        |kind: &Kind| Spec { backing: backing.clone(), size_bytes: SIZE_BYTES, kind: kind.clone(), seed: 7 };
    let failed = |what: &'static str| move |error: std::io::Error| Error::io(what, &error);
    let disk = Disk::open(spec(kind))?;
    let device = disk.device().to_path_buf();
    let is_interrupted = || stage.launcher.is_interrupted();
    let compared = ashlar_compare::compare(&device, COMPARED_BYTES, is_interrupted);
    let compared = compared.map_err(failed("write and compare"))?.ok_or_else(Error::interrupted)?;
    ashlar_compare::promise(&device, PROMISED, PASS).map_err(failed("promise"))?;
    disk.cut_power();
    disk.close()?;
    // What is left is read by an honest disk over the same bytes.
    let disk = Disk::open(spec(&Kind::Plain))?;
    let left = ashlar_compare::left(disk.device(), PROMISED, PASS).map_err(failed("read what is left"))?;
    disk.close()?;
    let _absent = std::fs::remove_file(&backing);
    let found = Nature::of(&compared, left);
    let example = compared.told.first().map_or(String::new(), |told| format!(", such as {told}"));
    let told = format!(
        "it {}: {} of {} reads were wrong{example}; of {PROMISED} acknowledged blocks {} are there after a power cut",
        found.in_words(),
        compared.wrong,
        compared.reads,
        left.right
    );
    Ok((told, found == wanted))
}
