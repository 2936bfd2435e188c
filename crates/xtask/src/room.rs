//! Whether the disks have the room that the steps take: a full disk fails tests in places that do not say so.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What tests ask for at once, in files of drives and databases.
const TESTS_GIB: u64 = 10;
/// And what the build leaves below `target/`, which often lies on the same disk.
const BUILD_GIB: u64 = 6 + TESTS_GIB;
const GIB: u64 = 1 << 30;

/// Says where less is free than the steps take.
pub fn warn(root: &Path) {
    for (place, wanted) in [
        (root.to_path_buf(), BUILD_GIB),
        (std::env::temp_dir(), TESTS_GIB),
        (PathBuf::from("/var/tmp"), TESTS_GIB),
    ] {
        match free_bytes(&place) {
            Some(free) if free < wanted * GIB => println!(
                "ci: {:.1} GiB are free in {}, and a run takes up to {wanted}: tests may fail for want of it",
                free as f64 / GIB as f64,
                place.display()
            ),
            _ => {}
        }
    }
}

/// What a user may write there, as `df` tells.
fn free_bytes(place: &Path) -> Option<u64> {
    let told = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(place).output().ok()?;
    String::from_utf8_lossy(&told.stdout).lines().nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_directory_is_known_and_of_none_is_not() {
        assert!(free_bytes(Path::new("/")).is_some_and(|free| free > 0));
        assert_eq!(free_bytes(Path::new("/no/such/place")), None);
    }
}
