//! A tenant whose blocks pass for structures of the pool, against a real array: once they made the pool
//! refuse to open, and made the cleaner throw away a neighbour's live blocks.
//!
//! The forger reads the drive to aim, which no host can; a host could count its own writes. With the pool's
//! own key, read from the superblock, what it writes is to the last bit what the pool would write.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use ashlar_format::MediaKey;
use ashlar_format::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, Codec};
use ashlar_format::group::{GROUP_HEADER_BYTES, GroupHeader};
use ashlar_format::superblock::{CELLS_START_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_SLOTS, Superblock};
use ashlar_units::{Lsn, SegmentId};
use support::Array;
use support::nbd::Nbd;

const BLOCK: u64 = 4096;
const SEGMENT: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(180);
/// Where the payload of a group with one or two chunks begins: header, two records, chunk header.
const PAYLOAD_AT: u64 = 128 + CHUNK_HEADER_BYTES as u64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Wrong,
    Leaked,
}

/// The drive of a pool, read beside the array.
struct Drive(File);

/// Where the journal ends.
#[derive(Clone, Copy, Debug)]
struct End {
    segment: u32,
    offset: u64,
}

impl Drive {
    fn superblock(&self) -> Superblock {
        let slots = (0..SUPERBLOCK_SLOTS).filter_map(|slot| {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            self.0.read_exact_at(&mut bytes, slot * SUPERBLOCK_BYTES as u64).unwrap();
            Superblock::decode(&bytes).ok()
        });
        slots.max_by_key(|superblock| superblock.generation).unwrap()
    }

    fn key(&self, key: Key) -> MediaKey {
        let real = self.superblock().key;
        if key == Key::Leaked { real } else { MediaKey::new(real.raw() ^ 1) }
    }

    /// Behind the group with the highest sequence number.
    fn journal_end(&self) -> End {
        let size = self.0.metadata().unwrap().len();
        let mut bytes = vec![0; SEGMENT as usize];
        let mut newest: Option<GroupHeader> = None;
        let key = self.superblock().key;
        for cell in 0..(size - CELLS_START_BYTES) / SEGMENT {
            self.0.read_exact_at(&mut bytes, CELLS_START_BYTES + cell * SEGMENT).unwrap();
            for (index, block) in bytes.chunks(BLOCK as usize).enumerate() {
                let Ok(header) = GroupHeader::peek(block) else { continue };
                let is_newer = newest.is_none_or(|known| known.sequence < header.sequence);
                let is_forged = header.sequence >= FAR;
                let at = index * BLOCK as usize;
                if is_newer && !is_forged && GroupHeader::open(&key, &bytes[at..]).is_ok() {
                    newest = Some(header);
                }
            }
        }
        let newest = newest.unwrap();
        End { segment: newest.segment.0, offset: newest.offset_bytes + u64::from(newest.group_bytes) }
    }
}

/// A sequence number that no pool reaches.
const FAR: u64 = 1 << 62;

/// A group without records.
fn group(key: &MediaKey, session: u32, segment: u32, offset_bytes: u64) -> Vec<u8> {
    let header = GroupHeader {
        session,
        sequence: FAR,
        previous_hash: 0,
        first_lsn: Lsn(FAR),
        record_count: 0,
        header_bytes: GROUP_HEADER_BYTES as u32,
        group_bytes: BLOCK as u32,
        segment: SegmentId(segment),
        offset_bytes,
    };
    let mut group = vec![0; BLOCK as usize];
    header.seal(key, &[], &mut group);
    group.truncate(GROUP_HEADER_BYTES);
    group
}

/// Bytes that do not shrink, the same for the same number.
fn noise(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(next).take(BLOCK as usize / 8).flat_map(u64::to_le_bytes).collect()
}

fn array_with(size: &str) -> (Array, Drive) {
    let array = Array::started();
    let path = array.path("p.img");
    array.good(&["pool", "create", "p", "--drive", &format!("{},size={size}", path.display())]);
    (array, Drive(File::open(path).unwrap()))
}

/// Every block holds a group for its own place's next tenant, which would stand far behind the journal's end.
/// After a stop in order and a start the pool must be there.
fn forge_groups(known: Key) {
    const BLOCKS: u64 = 512;
    const WRITES: u64 = 14_000;
    const RESYNC: u64 = 500;
    let (mut array, drive) = array_with("41MiB");
    array.good(&["volume", "create", "v", "--size", "2MiB"]);
    let (key, session) = (drive.key(known), drive.superblock().session);
    let mut nbd = Nbd::connect(array.state(), "v");
    let mut end = drive.journal_end();
    for number in 0..WRITES {
        if number % RESYNC == 0 {
            end = drive.journal_end();
        }
        let mut bytes = noise(number);
        let at = (end.offset + PAYLOAD_AT).next_multiple_of(BLOCK);
        // The place is used again some forty numbers later; each block has a guess of its own.
        let guess = end.segment + 28 + (at / BLOCK / 2 % 24) as u32;
        let index = (at - end.offset - PAYLOAD_AT) as usize;
        let forged = group(&key, session, guess, at);
        bytes[index..index + forged.len()].copy_from_slice(&forged);
        nbd.write(number % BLOCKS * BLOCK, &bytes);
        end.offset += 2 * BLOCK;
        if end.offset + 3 * BLOCK > SEGMENT {
            end = End { segment: end.segment + 1, offset: BLOCK };
        }
    }
    drop(nbd);
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
    array.start();
    array.good(&["volume", "show", "v"]);
    let mut nbd = Nbd::connect(array.state(), "v");
    for block in 0..BLOCKS {
        assert!(nbd.try_read(block * BLOCK, BLOCK as usize).is_some(), "block {block}: {}", array.log());
    }
    array.good(&["pool", "check", "p"]);
}

/// Where a block's payload will lie that is written behind two others: each of them in a group of its own, or
/// both in one, or one of them in the block's.
fn guesses(end: End) -> [u64; 5] {
    let chunk = (CHUNK_HEADER_BYTES as u64 + BLOCK).next_multiple_of(64);
    let starts = [2 * BLOCK, 4 * BLOCK, 3 * BLOCK, 0].map(|before| end.offset + before + PAYLOAD_AT);
    let [one, two, both, none] = starts;
    // With three or four records in the group its chunks begin at 192.
    [one, two, both, one + 64 + chunk, none]
}

/// Chunk headers near the end of a forged block, one for each guess, that claim the rest of the block, the
/// zero bytes behind it and the first byte of the next chunk's header.
fn swallow(key: &MediaKey, end: End, block: &mut [u8]) {
    let mut room = block.len() as u64;
    for payload_at in guesses(end) {
        let next = (payload_at + BLOCK).next_multiple_of(64);
        let at = (payload_at + room - CHUNK_HEADER_BYTES as u64) / 64 * 64;
        // In the line of 1 KiB in which the next chunk begins: there the cleaner begins to look.
        if at < next / 1024 * 1024 {
            continue;
        }
        room = at - payload_at;
        let index = room as usize;
        let mut chunk = block[index..].to_vec();
        chunk.resize((next - at) as usize, 0);
        chunk.push(0xa5);
        let header = ChunkHeader {
            codec: Codec::Lz4,
            blocks: 1,
            kept: ChunkHeader::all_of(1),
            segment: SegmentId(end.segment),
            offset_bytes: at,
            payload_bytes: (chunk.len() - CHUNK_HEADER_BYTES) as u32,
            owner_volume: 0,
            owner_block: 0,
        };
        header.seal(key, &mut chunk);
        let length = block.len() - index;
        block[index..].copy_from_slice(&chunk[..length]);
    }
}

/// Mallory and Alice have a volume each, with default settings, and write at the same moments. What Mallory
/// wrote dies, of Alice's blocks one in five stays, and the segments are emptied: those must be there.
fn forge_chunks(known: Key) {
    const PAIRS: u64 = 200;
    const KEPT_ONE_IN: u64 = 5;
    let (array, drive) = array_with("65MiB");
    array.good(&["volume", "create", "alice", "--size", "16MiB"]);
    array.good(&["volume", "create", "mallory", "--size", "32MiB"]);
    let key = drive.key(known);
    let mut alice = Nbd::connect(array.state(), "alice");
    let mut mallory = Nbd::connect(array.state(), "mallory");
    let victim = |pair: u64| noise(1_000_000 + pair);
    for pair in 0..PAIRS {
        let mut block = noise(pair);
        swallow(&key, drive.journal_end(), &mut block);
        // Two in flight, so that the next ones wait for each other and share a group.
        for filler in [PAIRS + pair, 2 * PAIRS + pair] {
            mallory.send_write(filler * BLOCK, &noise(5_000_000 + filler));
        }
        mallory.send_write(pair * BLOCK, &block);
        alice.send_write(pair * BLOCK, &victim(pair));
        (0..3).for_each(|_| mallory.wait());
        alice.wait();
    }
    for pair in 0..PAIRS {
        for block in [pair, PAIRS + pair, 2 * PAIRS + pair] {
            mallory.write(block * BLOCK, &noise(2_000_000 + block));
        }
        if pair % KEPT_ONE_IN != 0 {
            alice.write(pair * BLOCK, &noise(3_000_000 + pair));
        }
    }
    empty_segments(&array, &mut mallory);
    for pair in (0..PAIRS).step_by(KEPT_ONE_IN as usize) {
        let read = alice.try_read(pair * BLOCK, BLOCK as usize);
        assert!(read.is_some_and(|bytes| bytes == victim(pair)), "alice's block {pair} is lost");
    }
    array.good(&["pool", "check", "p"]);
}

/// Writes until room is scarce and the cleaner has moved what is alive in some segments: those with the pairs
/// first, since little of them is.
fn empty_segments(array: &Array, mallory: &mut Nbd) {
    /// The pairs lie in three, and what else is emptied holds more.
    const SEGMENTS_EMPTIED: u64 = 8;
    const WRITTEN_FROM: u64 = 4 << 20;
    const WRITTEN_BLOCKS: u64 = (26 << 20) / BLOCK;
    let give_up = Instant::now() + PATIENCE;
    let emptied = || array.json(&["pool", "show", "p"])["counters"]["segments_emptied"].as_u64().unwrap();
    for number in 0.. {
        mallory.write(WRITTEN_FROM + number % WRITTEN_BLOCKS * BLOCK, &noise(4_000_000 + number));
        if number % 500 == 0 && emptied() >= SEGMENTS_EMPTIED {
            return;
        }
        assert!(Instant::now() < give_up, "{} segments are emptied", emptied());
    }
}

#[test]
fn groups_that_a_host_writes_with_a_key_of_its_own_do_not_stop_the_opening() {
    forge_groups(Key::Wrong);
}

#[test]
fn groups_that_a_host_writes_with_the_pools_key_do_not_stop_the_opening() {
    forge_groups(Key::Leaked);
}

#[test]
fn chunks_that_a_host_writes_with_a_key_of_its_own_cost_no_neighbour_a_block() {
    forge_chunks(Key::Wrong);
}

#[test]
fn chunks_that_a_host_writes_with_the_pools_key_cost_no_neighbour_a_block() {
    forge_chunks(Key::Leaked);
}
