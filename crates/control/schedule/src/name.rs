//! What a schedule's snapshots are called: `NAME.20261128T130507Z`.

use crate::calendar::{of_stamp, stamp};

/// Longest name of a schedule: its snapshots' names have 17 bytes more, `-9` where a clock was set back, and
/// a name has 63.
pub const NAME_BYTES_MAX: usize = 44;
/// How many of one second there may be: a clock that is set back comes to the same second again.
const OF_SECOND_MAX: u32 = 9;

/// A name for a snapshot that is taken now and that is not taken yet; `None` where too many of this second
/// are.
#[must_use]
pub fn snapshot_name(schedule: &str, now: u64, is_free: impl Fn(&str) -> bool) -> Option<String> {
    let plain = format!("{schedule}.{}", stamp(now));
    let numbered = (2..=OF_SECOND_MAX).map(|number| format!("{plain}-{number}"));
    std::iter::once(plain.clone()).chain(numbered).find(|name| is_free(name))
}

/// The time in the name of a snapshot, where it is one that this schedule gives.
#[must_use]
pub fn time_in_name(schedule: &str, snapshot: &str) -> Option<u64> {
    let rest = snapshot.strip_prefix(schedule)?.strip_prefix('.')?;
    match rest.split_once('-') {
        None => of_stamp(rest),
        Some((time, number)) => {
            let is_number = (2..=OF_SECOND_MAX).any(|known| known.to_string() == number);
            is_number.then(|| of_stamp(time)).flatten()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_carry_the_time_and_are_known_again() {
        let name = snapshot_name("prod", 1_795_871_107, |_| true).unwrap();
        assert_eq!(name, "prod.20261128T130507Z");
        assert_eq!(time_in_name("prod", &name), Some(1_795_871_107));
        let longest = snapshot_name(&"x".repeat(NAME_BYTES_MAX), 0, |name| name.ends_with("-9")).unwrap();
        assert!(longest.len() <= 63);
        assert_eq!(time_in_name(&"x".repeat(NAME_BYTES_MAX), &longest), Some(0));
    }

    #[test]
    fn a_second_that_comes_again_gets_another_name() {
        let name = snapshot_name("prod", 0, |name| !name.ends_with('Z')).unwrap();
        assert_eq!(name, "prod.19700101T000000Z-2");
        assert_eq!(time_in_name("prod", &name), Some(0));
        assert_eq!(snapshot_name("prod", 0, |_| false), None);
    }

    #[test]
    fn names_of_others_are_not_taken_for_its_own() {
        for other in [
            "prod",
            "prod.",
            "prod.nightly",
            "prod2.20261128T130507Z",
            "prod.x.20261128T130507Z",
            "prod.20261128T130507Z-1",
            "prod.20261128T130507Z-10",
            "prod.20261128T130507Z-02",
            "prod.20261128T130507",
            "prod.origin",
        ] {
            assert_eq!(time_in_name("prod", other), None, "{other}");
        }
    }
}
