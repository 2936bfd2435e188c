//! The parsers under test: one function and some valid encodings each.

mod media;
mod protocol;
mod scsi;

/// A parser under test.
pub struct Target {
    /// What `cargo xtask fuzz NAME` calls it.
    pub name: &'static str,
    /// Feeds it one input. It must return, whatever the bytes.
    pub run: fn(&[u8]),
    /// Valid encodings to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Target> {
    protocol::TARGETS.iter().chain(&scsi::TARGETS).chain(&media::TARGETS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_target_takes_its_seeds_and_their_ruins() {
        for target in super::all() {
            (target.run)(&[]);
            assert!(!(target.seeds)().is_empty(), "{}", target.name);
            for seed in (target.seeds)() {
                (target.run)(&seed);
                for cut in [1, seed.len() / 2, seed.len() - 1] {
                    (target.run)(&seed[..cut]);
                }
            }
        }
    }
}
