//! Which names objects may have.

use crate::error::{Error, Result};

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 63;

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
    ))
}

#[cfg(test)]
mod tests {
    use super::check;

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
}
