//! The one error of this crate, and the nearest known word to one that is not known.

use std::fmt;

/// What went wrong, in words for the person who wrote the address or the load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// What is wrong: the key or value, and what is allowed.
    pub context: String,
}

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The description of the array is wrong: mend the key that the context names.
    Description,
    /// The load does not fit the array: take a smaller region or block.
    Load,
    /// More is offered than the array can do, so the queue only grows: offer less.
    Overload,
}

/// A value, or the one error of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(crate) fn description(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Description, context: context.into() }
    }

    pub(crate) fn load(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Load, context: context.into() }
    }

    pub(crate) fn overload(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Overload, context: context.into() }
    }
}

/// The name with the fewest letters to change, of two as near the first.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names.min_by_key(|name| distance(word, name))
}

/// Levenshtein's distance, one row of the table at a time.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_has_the_fewest_letters_to_change() {
        let names = ["drives", "discipline", "depth"];
        assert_eq!(nearest("drive", names.into_iter()), Some("drives"));
        assert_eq!(nearest("dept", names.into_iter()), Some("depth"));
        assert_eq!(nearest("x", std::iter::empty()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
