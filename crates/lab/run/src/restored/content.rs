//! Files whose every byte is known: written, changed, and held against what they were.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ashlar_statistics::random::SplitMix64;

use crate::{Result, jobs};

use super::{entries, unable};

/// Of a file system that the files are in.
pub(super) const DIRECTORY: &str = "files";
/// What comes behind the snapshot.
const ADDED: &str = "added-later";
/// Written and read so much at once.
const PIECE: usize = 1 << 20;
/// A page of a database, of which the second half repeats: it compresses to about a half.
const PAGE: usize = 8 << 10;

pub(super) struct Files {
    pub(super) seed: u64,
    pub(super) count: u64,
    /// Of each.
    pub(super) bytes: u64,
}

/// What a file holds, piece by piece.
struct Content {
    random: SplitMix64,
    left: u64,
}

impl Content {
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.left == 0 {
            return None;
        }
        let mut piece = vec![0; PIECE];
        for page in piece.chunks_exact_mut(PAGE) {
            let (own, repeated) = page.split_at_mut(PAGE / 2);
            own.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&self.random.next().to_le_bytes()));
            let word = self.random.next().to_le_bytes();
            repeated.chunks_exact_mut(8).for_each(|place| place.copy_from_slice(&word));
        }
        piece.truncate(self.left.min(PIECE as u64) as usize);
        self.left -= piece.len() as u64;
        Some(piece)
    }
}

impl Files {
    fn name(number: u64) -> String {
        format!("file-{number}")
    }

    fn content(&self, number: u64, written: &str) -> Content {
        let seed = jobs::mixed(self.seed, &format!("{number} {written}"));
        Content { random: SplitMix64::new(seed), left: self.bytes }
    }

    /// All of them, in a directory of their own.
    pub(super) fn write(&self, mount: &Path) -> Result<()> {
        let directory = mount.join(DIRECTORY);
        fs::create_dir(&directory).map_err(|error| unable(&directory, &error))?;
        (1..=self.count)
            .try_for_each(|number| put(&directory.join(Files::name(number)), self.content(number, "first")))
    }

    /// The first so many are written anew in their place, the last one is deleted, and one comes.
    pub(super) fn change(&self, mount: &Path, changed: u64) -> Result<()> {
        let directory = mount.join(DIRECTORY);
        for number in 1..=changed {
            put(&directory.join(Files::name(number)), self.content(number, "later"))?;
        }
        let last = directory.join(Files::name(self.count));
        fs::remove_file(&last).map_err(|error| unable(&last, &error))?;
        put(&directory.join(ADDED), self.content(0, "later"))
    }

    /// What is not as it was first written, in sentences.
    pub(super) fn differences(&self, mount: &Path) -> Result<Vec<String>> {
        let directory = mount.join(DIRECTORY);
        let mut expected: Vec<String> = (1..=self.count).map(Files::name).collect();
        let mut found = entries(&directory)?;
        expected.sort();
        found.sort();
        let mut offences: Vec<String> = found
            .iter()
            .filter(|name| !expected.contains(name))
            .map(|name| format!("{name} is there"))
            .collect();
        for number in 1..=self.count {
            let name = Files::name(number);
            match found.contains(&name) {
                true => offences.extend(difference(&directory.join(&name), self.content(number, "first"))?),
                false => offences.push(format!("{name} is not there")),
            }
        }
        Ok(offences)
    }
}

/// Deletes them all.
pub(super) fn remove(mount: &Path) -> Result<()> {
    let directory: PathBuf = mount.join(DIRECTORY);
    fs::remove_dir_all(&directory).map_err(|error| unable(&directory, &error))
}

fn put(path: &Path, mut content: Content) -> Result<()> {
    let mut file = File::create(path).map_err(|error| unable(path, &error))?;
    while let Some(piece) = content.next() {
        file.write_all(&piece).map_err(|error| unable(path, &error))?;
    }
    Ok(())
}

/// The first byte that is another one, or too much, or not there.
fn difference(path: &Path, mut content: Content) -> Result<Option<String>> {
    let mut file = File::open(path).map_err(|error| unable(path, &error))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (mut at, mut found) = (0, vec![0; PIECE]);
    while let Some(expected) = content.next() {
        let read = read_all(&mut file, &mut found[..expected.len()]).map_err(|error| unable(path, &error))?;
        let differs = expected.iter().zip(&found[..read]).position(|(one, other)| one != other);
        if let Some(place) = differs.or_else(|| (read < expected.len()).then_some(read)) {
            return Ok(Some(format!("{name} is another one from byte {}", at + place as u64)));
        }
        at += read as u64;
    }
    match file.read(&mut found[..1]).map_err(|error| unable(path, &error))? {
        0 => Ok(None),
        _ => Ok(Some(format!("{name} is longer than {at} bytes"))),
    }
}

/// Until it is full, or the file ends.
fn read_all(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_deleted_or_added_is_found() {
        let place = tempfile::tempdir().unwrap();
        let files = Files { seed: 7, count: 3, bytes: PIECE as u64 + 100 };
        files.write(place.path()).unwrap();
        assert_eq!(files.differences(place.path()).unwrap(), Vec::<String>::new());
        files.change(place.path(), 1).unwrap();
        let found = files.differences(place.path()).unwrap();
        assert_eq!(
            found,
            ["added-later is there", "file-1 is another one from byte 0", "file-3 is not there"]
        );
    }

    #[test]
    fn one_byte_is_found_wherever_it_is() {
        let place = tempfile::tempdir().unwrap();
        let files = Files { seed: 7, count: 2, bytes: PIECE as u64 + 100 };
        files.write(place.path()).unwrap();
        let path = place.path().join(DIRECTORY).join("file-2");
        let mut bytes = fs::read(&path).unwrap();
        bytes[PIECE + 99] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let is = |text: String| assert_eq!(files.differences(place.path()).unwrap(), [text]);
        is(format!("file-2 is another one from byte {}", PIECE + 99));
        fs::write(&path, &bytes[..PIECE]).unwrap();
        is(format!("file-2 is another one from byte {PIECE}"));
        bytes[PIECE + 99] ^= 1;
        bytes.push(0);
        fs::write(&path, &bytes).unwrap();
        is(format!("file-2 is longer than {} bytes", PIECE + 100));
    }
}
