//! What was acknowledged as durable, and what of it is there after a loss of power.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;

use crate::block::{Aligned, BLOCK_BYTES, Found};
use crate::open;

/// So many blocks are written behind each other, and made durable together: a commit of a few pages.
const BLOCKS_PER_SYNC: u64 = 4;

/// What is left of blocks that were acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Left {
    pub right: u64,
    /// Nothing was ever written there, as far as one can see.
    pub zeroes: u64,
    /// Something else, such as what an earlier pass wrote.
    pub other: u64,
}

/// Writes `count` blocks that name their place and their pass, in order, with an fdatasync behind each few.
/// When it comes back every one of them was acknowledged.
///
/// # Errors
/// When it cannot be opened or written.
pub fn promise(path: &Path, count: u64, pass: u64) -> io::Result<()> {
    let (file, _) = open(path)?;
    let mut buffer = Aligned::new();
    for place in 0..count {
        buffer.fill(pass, place);
        file.write_all_at(buffer.bytes(), place * BLOCK_BYTES as u64)?;
        if (place + 1).is_multiple_of(BLOCKS_PER_SYNC) || place + 1 == count {
            file.sync_data()?;
        }
    }
    Ok(())
}

/// What is there of them.
///
/// # Errors
/// When it cannot be opened or read.
pub fn left(path: &Path, count: u64, pass: u64) -> io::Result<Left> {
    let (file, _): (File, bool) = open(path)?;
    let mut buffer = Aligned::new();
    let mut left = Left::default();
    for place in 0..count {
        file.read_exact_at(buffer.bytes_mut(), place * BLOCK_BYTES as u64)?;
        match buffer.found(pass, place) {
            Found::Right => left.right += 1,
            Found::Zeroes => left.zeroes += 1,
            Found::Old(_) | Found::Elsewhere(_) | Found::Torn | Found::Rubbish => left.other += 1,
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_of_a_promise_is_counted() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("data");
        promise(&path, 10, 1).unwrap();
        assert_eq!(left(&path, 10, 1).unwrap(), Left { right: 10, zeroes: 0, other: 0 });
        promise(&path, 4, 2).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0; BLOCK_BYTES], 2 * BLOCK_BYTES as u64).unwrap();
        file.sync_all().unwrap();
        assert_eq!(left(&path, 10, 2).unwrap(), Left { right: 3, zeroes: 1, other: 6 });
    }
}
