//! Writes blocks that name their place and their pass, reads them back, and says what came instead.
//!
//! fio compares, too, but it takes a block that an earlier pass wrote for one of this: what a target keeps
//! in a cache and forgets, or never wrote, would go unseen. Here every block says which pass over which
//! place it is, so that an old block, a block of another place and a block of zeroes are told apart.

mod block;
mod promise;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use block::{Aligned, BLOCK_BYTES, Found};
pub use promise::{Left, left, promise};
use serde::Serialize;

/// Passes over the same places. The second shows what the first left.
const PASSES: u64 = 2;
/// Wrong blocks that are told; the rest is counted.
const TOLD_MAX: usize = 8;
/// Of so many blocks one is read again right behind its write.
const READ_AT_ONCE: u64 = 16;

/// What was asked for and what came.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Compared {
    /// Reads that were compared.
    pub reads: u64,
    /// Those that were not what had been written last.
    pub wrong: u64,
    /// Of the wrong ones, those that were there before.
    pub old: u64,
    /// The first of them, in words.
    pub told: Vec<String>,
    /// Direct I/O was refused: what was compared may have come from this machine's memory.
    pub is_cached: bool,
}

/// Writes and compares `bytes` of a file or a device, from its beginning.
///
/// # Errors
/// When it cannot be opened, written or read. `None` when `is_interrupted` said so.
pub fn compare(path: &Path, bytes: u64, is_interrupted: impl Fn() -> bool) -> io::Result<Option<Compared>> {
    let (file, is_cached) = open(path)?;
    let count = bytes / BLOCK_BYTES as u64;
    assert!(count > 0, "{bytes} bytes are no block");
    let mut compared = Compared { is_cached, ..Compared::default() };
    let mut buffer = Aligned::new();
    for pass in 1..=PASSES {
        for number in 0..count {
            if is_interrupted() {
                return Ok(None);
            }
            let place = scattered(number, count, pass);
            buffer.fill(pass, place);
            file.write_all_at(buffer.bytes(), place * BLOCK_BYTES as u64)?;
            if number.is_multiple_of(READ_AT_ONCE) {
                compared.read(&file, &mut buffer, pass, place)?;
            }
        }
        file.sync_data()?;
        for number in 0..count {
            if is_interrupted() {
                return Ok(None);
            }
            compared.read(&file, &mut buffer, pass, scattered(number, count, pass + PASSES))?;
        }
    }
    Ok(Some(compared))
}

/// Past the page cache, where the file system can do that.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    // The place may be a device, and the file of an earlier test.
    options.read(true).write(true).create(true).truncate(false);
    match options.clone().custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(path) {
        Ok(file) => Ok((file, false)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok((options.open(path)?, true)),
        Err(error) => Err(error),
    }
}

/// A permutation of the places, another one for each `turn`: a multiplication by what shares no factor with
/// their count.
fn scattered(number: u64, count: u64, turn: u64) -> u64 {
    let mut step = (count * 7 / 11 + 2 * turn) | 1;
    while divisor(step, count) != 1 {
        step += 2;
    }
    (u128::from(number) * u128::from(step) % u128::from(count)) as u64
}

/// The greatest that both share (Euclid).
fn divisor(mut first: u64, mut second: u64) -> u64 {
    while second != 0 {
        (first, second) = (second, first % second);
    }
    first
}

impl Compared {
    fn read(&mut self, file: &File, buffer: &mut Aligned, pass: u64, place: u64) -> io::Result<()> {
        let offset = place * BLOCK_BYTES as u64;
        file.read_exact_at(buffer.bytes_mut(), offset)?;
        self.reads += 1;
        let found = buffer.found(pass, place);
        if found != Found::Right {
            self.wrong += 1;
            self.old += u64::from(matches!(found, Found::Old(_)));
            if self.told.len() < TOLD_MAX {
                self.told.push(format!("at offset {offset}, pass {pass}: {found}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_place_comes_once_in_each_turn() {
        for count in [1, 2, 3, 8, 100, 1024, 6561] {
            for turn in 1..=4 {
                let places: BTreeSet<u64> = (0..count).map(|number| scattered(number, count, turn)).collect();
                assert_eq!(places, (0..count).collect(), "{count} places");
            }
        }
    }

    /// Writes over the file while it is compared, after so many looks of the interruption.
    fn disturbed(after: u64, disturb: impl Fn(&Path)) -> Compared {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("data");
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get() == after {
                disturb(&path);
            }
            false
        };
        compare(&path, 64 * BLOCK_BYTES as u64, look).unwrap().unwrap()
    }

    #[test]
    fn an_honest_place_gives_back_what_was_written() {
        let compared = disturbed(0, |_| ());
        assert_eq!((compared.wrong, compared.reads), (0, 2 * (64 + 4)));
    }

    /// 64 writes, 64 reads, 64 writes: then the second pass is read.
    #[test]
    fn a_block_of_the_first_pass_is_not_taken_for_one_of_the_second() {
        let old = std::cell::RefCell::new(Vec::new());
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("data");
        let looks = Cell::new(0_u64);
        let look = || {
            looks.set(looks.get() + 1);
            match looks.get() {
                65 => *old.borrow_mut() = std::fs::read(&path).unwrap(),
                193 => {
                    let file = File::options().write(true).open(&path).unwrap();
                    let bytes = &old.borrow()[5 * BLOCK_BYTES..6 * BLOCK_BYTES];
                    file.write_all_at(bytes, 5 * BLOCK_BYTES as u64).unwrap();
                    file.sync_all().unwrap();
                }
                _ => {}
            }
            false
        };
        let compared = compare(&path, 64 * BLOCK_BYTES as u64, look).unwrap().unwrap();
        assert_eq!(compared.wrong, 1);
        assert_eq!(
            compared.told,
            [format!("at offset {}, pass 2: what pass 1 wrote there", 5 * BLOCK_BYTES)]
        );
    }

    #[test]
    fn zeroes_rubbish_and_blocks_of_other_places_are_told_apart() {
        let put = |path: &Path, bytes: &[u8]| {
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(bytes, 9 * BLOCK_BYTES as u64).unwrap();
            file.sync_all().unwrap();
        };
        let told = |bytes: &dyn Fn(&Path) -> Vec<u8>| {
            disturbed(65, |path| put(path, &bytes(path))).told.first().cloned().unwrap_or_default()
        };
        assert!(told(&|_| vec![0; BLOCK_BYTES]).ends_with("zeroes"));
        assert!(told(&|_| vec![0xa5; BLOCK_BYTES]).ends_with("something that was never written"));
        let other = |path: &Path| std::fs::read(path).unwrap()[3 * BLOCK_BYTES..4 * BLOCK_BYTES].to_vec();
        assert!(told(&other).ends_with(&format!("what belongs at offset {}", 3 * BLOCK_BYTES)));
        let torn = |path: &Path| {
            let mut bytes = std::fs::read(path).unwrap()[9 * BLOCK_BYTES..10 * BLOCK_BYTES].to_vec();
            bytes[BLOCK_BYTES - 1] ^= 1;
            bytes
        };
        assert!(told(&torn).ends_with("a part of it is something else"));
    }
}
