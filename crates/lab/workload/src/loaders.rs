//! What loads tables, as text: whoever keeps what was loaded can tell whether the same would be loaded now.

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!($name))),*]
    };
}

/// Every file that decides what is in a table after it was loaded; a test holds the list against the crate.
const SOURCES: &[(&str, &str)] = &sources![
    "broker.rs",
    "broker/calendar.rs",
    "broker/load.rs",
    "broker/names.rs",
    "broker/origin.rs",
    "broker/past.rs",
    "broker/prices.rs",
    "broker/rows.rs",
    "broker/rows/fixed.rs",
    "broker/rows/growing.rs",
    "broker/rows/market.rs",
    "broker/rows/people.rs",
    "broker/schema.rs",
    "content.rs",
    "factload.rs",
    "factload/dimensions.rs",
    "factload/load.rs",
    "factload/origin.rs",
    "factload/schema.rs",
    "factload/source.rs",
    "factload/transform.rs",
    "fields.rs",
    "jobs.rs",
    "orders.rs",
    "orders/load.rs",
    "orders/names.rs",
    "orders/origin.rs",
    "orders/rows.rs",
    "orders/schema.rs",
    "orders/settings.rs",
    "points.rs",
    "points/keys.rs",
    "points/load.rs",
    "prepare.rs",
    "random.rs",
    "rows.rs",
    "rows/load.rs",
];

/// The text of all of them.
#[must_use]
pub fn loaders() -> String {
    SOURCES.iter().map(|(_, text)| *text).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Words in the paths of files that work on tables which are there, and load none.
    const NOT: [&str; 19] = [
        "broker/settings",
        "conditions",
        "desk",
        "driver",
        "error.rs",
        "exchange",
        "figures",
        "ledger",
        "lib.rs",
        "loader.rs",
        "loaders.rs",
        "pass.rs",
        "reader",
        "step.rs",
        "terminal",
        "tests",
        "trader",
        "transaction",
        "workload.rs",
    ];

    #[test]
    fn every_file_that_loads_is_in_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut waiting, mut found) = (vec![root.clone()], BTreeSet::new());
        while let Some(path) = waiting.pop() {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            let (below, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
            waiting.extend(below);
            found.extend(files.iter().map(|file| file.strip_prefix(&root).unwrap().display().to_string()));
        }
        found.retain(|file| !NOT.iter().any(|word| file.contains(word)));
        let listed: BTreeSet<String> = SOURCES.iter().map(|(name, _)| (*name).to_string()).collect();
        assert_eq!(found, listed);
    }
}
