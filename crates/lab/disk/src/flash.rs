//! A second level of flash in front of a disk: what was read once is answered from memory, in the time that
//! flash takes; writes go through.
//!
//! 1. It answers nothing that a write which was acknowledged has replaced.
//! 2. What is read while any write is under way is not let in: it may be older than the write.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ashlar_model::array::spec::Flash;

use crate::backing::Backing;
use crate::held::{blocks, parts};
use crate::locked;
use crate::spec::BLOCK_BYTES;

/// The cache with its blocks.
#[derive(Debug)]
pub(crate) struct FlashCache {
    flash: Flash,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    blocks: BTreeMap<u64, Block>,
    /// Blocks by when they were used last.
    order: BTreeMap<u64, u64>,
    used: u64,
    /// So many writes are under way, and so many were done.
    writing: u64,
    written: u64,
    /// Until when the transfers of hits take.
    free_at: Instant,
}

#[derive(Debug)]
struct Block {
    bytes: Box<[u8]>,
    used: u64,
}

impl FlashCache {
    pub(crate) fn new(flash: &Flash) -> FlashCache {
        let state = State {
            blocks: BTreeMap::new(),
            order: BTreeMap::new(),
            used: 0,
            writing: 0,
            written: 0,
            free_at: Instant::now(),
        };
        FlashCache { flash: flash.clone(), state: Mutex::new(state) }
    }

    /// Says whether the flash answered; then as much time has passed as it takes.
    pub(crate) fn read(&self, backing: &Backing, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        let begun = Instant::now();
        let before = {
            let mut state = locked(&self.state);
            if state.copy(offset, into) {
                let at = state.answer_at(begun, &self.flash, into.len());
                drop(state);
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                return Ok(true);
            }
            (state.writing == 0).then_some(state.written)
        };
        backing.read(offset, into)?;
        let mut state = locked(&self.state);
        if before == Some(state.written) && state.writing == 0 {
            let whole = parts(offset, into.len()).filter(|(_, within, _)| is_whole(within));
            for (block, _, part) in whole {
                state.let_in(block, &into[part]);
            }
            state.shrink(self.flash.size_bytes / BLOCK_BYTES);
        }
        Ok(false)
    }

    /// Through to the disk; what is in the flash is as it was written, or goes.
    pub(crate) fn write(&self, backing: &Backing, offset: u64, data: &[u8]) -> io::Result<()> {
        locked(&self.state).writing += 1;
        let done = backing.write(offset, data);
        let mut state = locked(&self.state);
        // Two at the same time may end in another order than the disk has them.
        let is_alone = state.writing == 1 && done.is_ok();
        for (block, within, part) in parts(offset, data.len()) {
            match state.blocks.get_mut(&block) {
                Some(held) if is_alone => held.bytes[within].copy_from_slice(&data[part]),
                Some(_) => state.remove(block),
                None => {}
            }
        }
        state.writing -= 1;
        state.written += 1;
        done
    }
}

fn is_whole(within: &std::ops::Range<usize>) -> bool {
    within.len() == BLOCK_BYTES as usize
}

impl State {
    /// All of these bytes, if all are there.
    fn copy(&mut self, offset: u64, into: &mut [u8]) -> bool {
        if !blocks(offset, into.len()).all(|block| self.blocks.contains_key(&block)) {
            return false;
        }
        for (block, within, part) in parts(offset, into.len()) {
            self.used += 1;
            let used = self.used;
            if let Some(held) = self.blocks.get_mut(&block) {
                into[part].copy_from_slice(&held.bytes[within]);
                self.order.remove(&held.used);
                held.used = used;
                self.order.insert(used, block);
            }
        }
        true
    }

    /// When the flash has answered so many bytes.
    fn answer_at(&mut self, begun: Instant, flash: &Flash, length: usize) -> Instant {
        let transfer = Duration::from_secs_f64(length as f64 / flash.bytes_per_second as f64);
        self.free_at = self.free_at.max(begun) + transfer;
        self.free_at + flash.latency
    }

    fn let_in(&mut self, block: u64, bytes: &[u8]) {
        self.remove(block);
        self.used += 1;
        self.order.insert(self.used, block);
        self.blocks.insert(block, Block { bytes: bytes.into(), used: self.used });
    }

    fn remove(&mut self, block: u64) {
        if let Some(held) = self.blocks.remove(&block) {
            self.order.remove(&held.used);
        }
    }

    /// Those that were used least recently go.
    fn shrink(&mut self, room: u64) {
        while self.blocks.len() as u64 > room {
            let Some((_, block)) = self.order.pop_first() else { return };
            self.blocks.remove(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Kind, Spec};

    const BLOCK: usize = BLOCK_BYTES as usize;

    fn bench(room: u64) -> (tempfile::TempDir, Backing, FlashCache) {
        let directory = tempfile::tempdir().expect("a directory");
        let spec = Spec {
            backing: directory.path().join("disk"),
            size_bytes: 64 * BLOCK_BYTES,
            kind: Kind::Plain,
            seed: 1,
        };
        let backing = Backing::open(&spec, true).expect("a file");
        let flash = Flash { size_bytes: room * BLOCK_BYTES, latency: Duration::ZERO, ..Flash::default() };
        (directory, backing, FlashCache::new(&flash))
    }

    #[test]
    fn what_was_read_is_a_hit_until_more_is_read_than_there_is_room_for() {
        let (_directory, backing, cache) = bench(2);
        let mut bytes = vec![0; BLOCK];
        let mut read = |block: u64| cache.read(&backing, block * BLOCK_BYTES, &mut bytes).unwrap();
        assert_eq!([read(0), read(0), read(1), read(0)], [false, true, false, true]);
        // The third takes the place of block 1, which was used before block 0.
        assert_eq!([read(2), read(0), read(1)], [false, true, false]);
    }

    #[test]
    fn a_write_goes_through_and_is_seen_in_the_flash() {
        let (_directory, backing, cache) = bench(8);
        let mut bytes = vec![0; 2 * BLOCK];
        assert!(!cache.read(&backing, 0, &mut bytes).unwrap());
        cache.write(&backing, 512, &[7; BLOCK]).unwrap();
        assert!(cache.read(&backing, 0, &mut bytes).unwrap(), "a write lets nothing out");
        let mut below = vec![0; 2 * BLOCK];
        backing.read(0, &mut below).unwrap();
        assert_eq!(bytes, below);
        assert_eq!((bytes[511], bytes[512], bytes[512 + BLOCK - 1], bytes[512 + BLOCK]), (0, 7, 7, 0));
        // A part of a block is not let in.
        assert!(!cache.read(&backing, 8 * BLOCK_BYTES, &mut bytes[..512]).unwrap());
        assert!(!cache.read(&backing, 8 * BLOCK_BYTES, &mut bytes[..512]).unwrap());
    }

    /// Writers and readers of the same blocks at the same time: afterwards the flash is what the disk is.
    #[test]
    fn nothing_older_than_a_write_stays_in_the_flash() {
        let (_directory, backing, cache) = bench(64);
        std::thread::scope(|scope| {
            for number in 0..3_u8 {
                let (cache, backing) = (&cache, &backing);
                scope.spawn(move || {
                    for round in 0..400_u64 {
                        let block = round % 4 * BLOCK_BYTES;
                        if number == 0 {
                            cache.read(backing, block, &mut [0; BLOCK]).unwrap();
                        } else {
                            cache.write(backing, block, &[number + (round % 80) as u8; BLOCK]).unwrap();
                        }
                    }
                });
            }
        });
        for block in 0..4 {
            let (mut cached, mut below) = (vec![0; BLOCK], vec![0; BLOCK]);
            cache.read(&backing, block * BLOCK_BYTES, &mut cached).unwrap();
            backing.read(block * BLOCK_BYTES, &mut below).unwrap();
            assert!(cached == below, "block {block}");
        }
    }

    #[test]
    fn a_hit_takes_the_time_of_the_flash() {
        let (_directory, backing, mut cache) = bench(8);
        cache.flash.latency = Duration::from_millis(5);
        let mut bytes = vec![0; BLOCK];
        cache.read(&backing, 0, &mut bytes).unwrap();
        let begun = Instant::now();
        assert!(cache.read(&backing, 0, &mut bytes).unwrap());
        assert!(begun.elapsed() >= Duration::from_millis(5), "{:?}", begun.elapsed());
    }
}
