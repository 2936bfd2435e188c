//! The inputs that reached something new, and what has been reached.

use std::path::PathBuf;

use crate::coverage;
use crate::random::Random;
use crate::targets::Target;

/// The inputs of one target.
pub struct Corpus {
    folder: PathBuf,
    inputs: Vec<Vec<u8>>,
    waiting: Vec<Vec<u8>>,
    seen: Vec<u8>,
}

impl Corpus {
    /// The target's valid encodings, and what earlier runs with `--keep` saved.
    pub fn load(target: &Target) -> Result<Corpus, String> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        let mut waiting = (target.seeds)();
        if let Ok(entries) = std::fs::read_dir(&folder) {
            let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths {
                let bytes =
                    std::fs::read(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
                waiting.push(bytes);
            }
        }
        // The empty input is always worth a try, and keeps the corpus from being empty.
        Ok(Corpus { folder, inputs: vec![Vec::new()], waiting, seen: Vec::new() })
    }

    /// What to run before any mutation. Each comes back through [`Corpus::offer`].
    pub fn initial(&mut self) -> Vec<Vec<u8>> {
        let waiting = std::mem::take(&mut self.waiting);
        // Seeds stay even where they reach nothing new: they are what mutation starts from.
        self.inputs.extend(waiting.iter().cloned());
        waiting
    }

    /// After a run: keeps the input if it reached something new.
    pub fn offer(&mut self, input: &[u8]) -> bool {
        let is_new = coverage::merge(&mut self.seen);
        if is_new {
            self.inputs.push(input.to_vec());
        }
        is_new
    }

    /// An input to change, and one to borrow from. The newest are the most promising.
    pub fn pick(&self, random: &mut Random) -> (&[u8], &[u8]) {
        let newest = self.inputs.len().saturating_sub(8);
        let index = match random.below(4) {
            0 => newest + random.below(self.inputs.len() - newest),
            _ => random.below(self.inputs.len()),
        };
        (&self.inputs[index], &self.inputs[random.below(self.inputs.len())])
    }

    /// Saves an input for later runs.
    pub fn keep(&self, input: &[u8]) -> Result<(), String> {
        let path = self.folder.join(format!("{:016x}.bin", ashlar_format::checksum(0, input)));
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(&path, input))
            .map_err(|error| format!("write {}: {error}", path.display()))
    }

    /// How many inputs there are.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// How many places were reached at least once.
    pub fn reached(&self) -> usize {
        self.seen.iter().filter(|seen| **seen != 0).count()
    }
}
