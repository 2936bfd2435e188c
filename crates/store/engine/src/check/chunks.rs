//! Chunks: each is read, and every block of it that something refers to.

use std::rc::Rc;

use ashlar_format::Pointer;
use ashlar_runtime::Priority;
use rustc_hash::FxHashMap;

use super::Check;
use crate::Result;
use crate::engine::Inner;
use crate::pace::AS_LONG;
use crate::read_path::open_chunk;

/// Chunks read at a time: one by one a check would take the drive's latency for each.
const CHUNKS_AT_ONCE: usize = 32;

/// Chunks that are remembered: 40 MB, and 16 GiB of small ones. Arbitrary. Beyond that chunks that images
/// share are read for each of them.
const VERIFIED_MAX: usize = 1 << 20;

/// Blocks that this check has verified, by their chunk: clones and snapshots share most of theirs.
#[derive(Default)]
pub(super) struct Verified(FxHashMap<Pointer, u16>);

impl Verified {
    /// Whether all of these blocks of a chunk are.
    fn has(&self, of_chunk: &[Pointer]) -> bool {
        let wanted = mask(of_chunk);
        self.0.get(&of_chunk[0].chunk()).is_some_and(|blocks| blocks & wanted == wanted)
    }

    fn note(&mut self, of_chunk: &[Pointer]) {
        let chunk = of_chunk[0].chunk();
        if self.0.len() < VERIFIED_MAX || self.0.contains_key(&chunk) {
            *self.0.entry(chunk).or_default() |= mask(of_chunk);
        }
    }
}

fn mask(of_chunk: &[Pointer]) -> u16 {
    of_chunk.iter().fold(0, |mask, pointer| mask | 1 << pointer.block_index())
}

impl Check<'_> {
    pub(super) async fn check_chunks(&mut self, name: &str, mut blocks: Vec<Pointer>) {
        blocks.sort_unstable();
        blocks.dedup();
        let chunks = blocks.chunk_by(|one, next| one.chunk() == next.chunk());
        let chunks: Vec<&[Pointer]> = chunks.filter(|of_chunk| !self.verified.has(of_chunk)).collect();
        let mut pace = self.inner.begin_pace();
        for at_once in chunks.chunks(CHUNKS_AT_ONCE) {
            let verify = |of_chunk: &&[Pointer]| {
                let verify = verify_chunk(Rc::clone(self.inner), of_chunk.to_vec());
                self.inner.runtime.spawn(Priority::Background, verify)
            };
            let verifications: Vec<_> = at_once.iter().map(verify).collect();
            for (of_chunk, verification) in at_once.iter().zip(verifications) {
                let pointer = of_chunk[0];
                self.check_place(pointer).await;
                match verification.await {
                    Ok(()) => {
                        self.verified.note(of_chunk);
                        self.report.chunks += 1;
                        self.report.live_bytes += pointer.length_bytes_max();
                    }
                    Err(error) => self.note_of(name, &error),
                }
            }
            pace = self.inner.give_way(pace, AS_LONG).await;
        }
    }
}

/// Reads the blocks of a chunk, all of the same.
async fn verify_chunk(inner: Rc<Inner>, blocks: Vec<Pointer>) -> Result<()> {
    let mut scratch = Vec::new();
    let prove = |bytes: &[u8]| {
        let chunk = open_chunk(inner.pool.key(), blocks[0], bytes, &mut scratch)?;
        blocks.iter().try_for_each(|pointer| chunk.block(*pointer).map(drop))
    };
    inner.media.read_proven(blocks[0], prove).await
}
