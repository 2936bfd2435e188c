//! Last names, made of three of ten syllables.

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The name of a number from 0 to 999.
pub(super) fn last_name(number: i32) -> String {
    let digit = |place: i32| SYLLABLES[(number / place % 10) as usize];
    [digit(100), digit(10), digit(1)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_syllable_for_each_digit() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
        let all: std::collections::BTreeSet<String> = (0..1000).map(last_name).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|name| name.len() <= 16));
    }
}
