//! One volume or snapshot image read from its first block to its last: every chunk verified, every range
//! that cannot be had told with its reason.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_format::catalogue::VolumeKind;
use ashlar_format::chunk::ChunkHeader;
use ashlar_units::{BLOCK_BYTES, BLOCK_BYTES_USIZE};
use serde::Serialize;

use crate::catalogue::Image;
use crate::map::{self, Leaf};
use crate::media::Media;
use crate::why::Why;

/// Decoded chunks kept, 16 MiB at most: the blocks of a chunk lie near each other unless overwritten.
const CHUNKS_KEPT: usize = 256;

/// A range of an image that cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GoneRange {
    /// Where it starts.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
    /// Why.
    pub why: Why,
    /// Why, in words.
    pub explanation: String,
}

/// What reading an image found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ImageCheck {
    /// A volume's name, or VOLUME@SNAPSHOT.
    pub name: String,
    /// `volume` or `snapshot`.
    pub kind: &'static str,
    /// Its size.
    pub size_bytes: u64,
    /// Mapped to data that was read and verified.
    pub data_bytes: u64,
    /// Zeroes that were written.
    pub zero_bytes: u64,
    /// Never written, or unmapped.
    pub hole_bytes: u64,
    /// What cannot be had.
    pub gone_bytes: u64,
    /// Chunks read and verified.
    pub chunks_verified: u64,
    /// Where it cannot be had.
    pub gone: Vec<GoneRange>,
}

/// The word for a kind of image.
pub(crate) fn kind_word(kind: VolumeKind) -> &'static str {
    match kind {
        VolumeKind::Volume => "volume",
        VolumeKind::Snapshot => "snapshot",
    }
}

type Chunk = Result<Rc<(ChunkHeader, Vec<u8>)>, Why>;

struct Reading<'a, S> {
    media: &'a Media,
    sink: S,
    kept: BTreeMap<Pointer, Chunk>,
    check: ImageCheck,
}

/// Reads an image; `sink` gets every block of data, by number.
pub(crate) fn read<E>(
    media: &Media,
    image: &Image,
    sink: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<ImageCheck, E> {
    let size_bytes = image.entry.size_bytes;
    let check = ImageCheck {
        name: image.name(),
        kind: kind_word(image.entry.kind),
        size_bytes,
        data_bytes: 0,
        zero_bytes: 0,
        hole_bytes: 0,
        gone_bytes: 0,
        chunks_verified: 0,
        gone: Vec::new(),
    };
    let mut reading = Reading { media, sink, kept: BTreeMap::new(), check };
    let blocks = size_bytes.div_ceil(BLOCK_BYTES);
    map::walk(media, &image.root, blocks, |range, leaf| reading.visit(range, leaf))?;
    Ok(reading.check)
}

impl<S> Reading<'_, S> {
    fn visit<E>(&mut self, range: Range<u64>, leaf: Leaf) -> Result<(), E>
    where
        S: FnMut(u64, &[u8]) -> Result<(), E>,
    {
        let bytes = (range.end - range.start) * BLOCK_BYTES;
        match leaf {
            Leaf::Hole => self.check.hole_bytes += bytes,
            Leaf::Zero => self.check.zero_bytes += bytes,
            Leaf::Lost(why) => self.note_gone(&range, why),
            Leaf::Data(pointer) => match self.chunk(pointer) {
                Ok(chunk) if chunk.0.has(pointer.block_index()) => {
                    let at = chunk.0.decoded_at(pointer.block_index());
                    (self.sink)(range.start, &chunk.1[at..at + BLOCK_BYTES_USIZE])?;
                    self.check.data_bytes += bytes;
                }
                Ok(_) => self.note_gone(&range, Why::Damaged),
                Err(why) => self.note_gone(&range, why),
            },
        }
        Ok(())
    }

    fn chunk(&mut self, pointer: Pointer) -> Chunk {
        let key = pointer.chunk();
        if let Some(kept) = self.kept.get(&key) {
            return kept.clone();
        }
        let chunk = self.media.read_chunk(pointer).map(Rc::new);
        self.check.chunks_verified += u64::from(chunk.is_ok());
        if self.kept.len() >= CHUNKS_KEPT {
            self.kept.clear();
        }
        self.kept.insert(key, chunk.clone());
        chunk
    }

    fn note_gone(&mut self, blocks: &Range<u64>, why: Why) {
        let offset_bytes = blocks.start * BLOCK_BYTES;
        let length_bytes = (blocks.end - blocks.start) * BLOCK_BYTES;
        self.check.gone_bytes += length_bytes;
        match self.check.gone.last_mut() {
            Some(last) if last.why == why && last.offset_bytes + last.length_bytes == offset_bytes => {
                last.length_bytes += length_bytes;
            }
            _ => {
                let explanation = why.to_string();
                self.check.gone.push(GoneRange { offset_bytes, length_bytes, why, explanation });
            }
        }
    }
}
