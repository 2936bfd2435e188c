//! Which names objects may have.

use crate::error::{Error, Result};

/// Longest name in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// Marks volumes that the array makes for itself: no name that a person gives begins with it.
const HIDDEN: char = '.';

/// True for the name of a volume that the array made for itself: it is in no list.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(HIDDEN)
}

/// The volume of a pool in which the array keeps figures of what hosts did.
pub(crate) const FIGURES: &str = ".figures";

/// The name of a volume through which a snapshot is mounted.
pub(crate) fn of_mounted_snapshot(number: u64) -> String {
    format!("{HIDDEN}mounted-snapshot-{number}")
}

/// Checks `[A-Za-z0-9][A-Za-z0-9._-]{0,62}`: safe as a file name, an export name and in a URL.
pub(crate) fn check(what: &str, name: &str) -> Result<()> {
    let is_first_good = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_rest_good = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_first_good && is_rest_good && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    // A name may be anything at all, also very long: show its beginning.
    let shown: String = name.chars().take(NAME_BYTES_MAX + 1).collect();
    Err(Error::invalid(
        format!("`{}` cannot be the name of a {what}", shown.escape_debug()),
        format!(
            "use 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores, the first a letter or digit"
        ),
    )
    .because(ashlar_api::Reason::WrongName))
}

#[cfg(test)]
mod tests {
    use super::{NAME_BYTES_MAX, check, is_hidden, of_mounted_snapshot};

    #[test]
    fn good_names_pass() {
        for name in ["a", "0", "db-1.main_x", &"x".repeat(63)] {
            assert!(check("volume", name).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_that_could_leave_their_place_are_refused() {
        for name in ["", ".", "..", "-x", ".x", "a/b", "a@b", "a b", "ä", "a\n", "a\0", &"x".repeat(64)] {
            let error = check("volume", name).expect_err("a bad name");
            assert!(error.action.contains("letters"), "{name}: {error}");
            assert!(error.message.len() < 400);
        }
    }
    #[test]
    fn what_the_array_makes_for_itself_has_a_name_that_nobody_can_give() {
        let name = of_mounted_snapshot(u64::MAX);
        assert!(is_hidden(&name) && name.len() <= NAME_BYTES_MAX, "{name}");
        assert!(check("volume", &name).is_err());
        assert!(!is_hidden("db.1"));
    }
}
