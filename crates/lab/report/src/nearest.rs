//! The known word that somebody most likely meant.

/// The name with the fewest letters to change, of two as near the first.
#[must_use]
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
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

    #[test]
    fn the_distance_counts_letters_changed_added_and_left_out() {
        for (from, to, letters) in
            [("", "abc", 3), ("abc", "", 3), ("mix", "mix", 0), ("kitten", "sitting", 3), ("rat", "rate", 1)]
        {
            assert_eq!(distance(from, to), letters, "{from} {to}");
        }
    }
}
