//! Words that never reach main, names that say nothing, and synonyms the glossary decided against.

use super::source::{mask, words_of};
use super::{Findings, SourceFile};

/// Files whose whole text is searched for the words of unfinished work.
const TEXT_ENDINGS: [&str; 6] = [".rs", ".sh", ".toml", ".yml", ".ts", ".tsx"];

/// Unfinished work, written in two halves so that this file passes its own check.
const UNFINISHED: [(&str, &str); 4] = [
    (concat!("FIX", "ME"), "mend it, or open an issue and write its number"),
    (concat!("dbg", "!("), "take it out"),
    (concat!("todo", "!("), "nothing unfinished on main"),
    (concat!("unimplemented", "!("), "nothing unfinished on main"),
];

/// Module names that only say that the thing has no name yet.
const EMPTY_NAMES: [&str; 8] = ["utils", "util", "common", "helpers", "helper", "misc", "manager", "core"];

/// Where the glossary is binding. The lab, the demo and tests speak of other systems' things too.
const GLOSSARY_FLOORS: [&str; 5] =
    ["crates/base/", "crates/media/", "crates/store/", "crates/targets/", "crates/control/"];

/// The losing synonym, the word to use. Only words that have no other honest meaning here.
const SYNONYMS: [(&str, &str); 12] = [
    ("disk", "drive (a device below us) or volume (what a host sees)"),
    ("disks", "drives (devices below us) or volumes (what a host sees)"),
    ("lun", "volume, or a target's own address type in crates/targets/scsi"),
    ("cblock", "chunk"),
    ("l2p", "map"),
    ("wal", "journal"),
    ("nvram", "journal"),
    ("gc", "cleaner"),
    ("defrag", "cleaner"),
    ("compactor", "cleaner"),
    ("resilver", "rebuild"),
    ("aggregate", "pool"),
];

/// What a line says to keep a word that has another meaning there.
const WORD_BECAUSE: &str = "tidy: word because";

pub(super) fn check_text(file: &SourceFile, findings: &mut Findings) {
    if !TEXT_ENDINGS.iter().any(|ending| file.path.ends_with(ending)) {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        for (word, way_out) in UNFINISHED {
            if line.contains(word) {
                findings.at(&file.path, index, format!("`{word}`: {way_out}"));
            }
        }
        if has_bare_todo(line) {
            findings.at(&file.path, index, concat!("TO", "DO without an issue: write it as (#n)"));
        }
    }
}

fn has_bare_todo(line: &str) -> bool {
    let word = concat!("TO", "DO");
    line.match_indices(word).any(|(at, _)| {
        let rest = &line[at + word.len()..];
        let is_whole = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let number = rest.strip_prefix("(#").and_then(|tail| tail.split_once(')'));
        let has_issue = number.is_some_and(|(digits, _)| digits.parse::<u32>().is_ok());
        is_whole && !has_issue
    })
}

pub(super) fn check_identifiers(file: &SourceFile, findings: &mut Findings) {
    for part in file.path.trim_end_matches(".rs").split('/') {
        if EMPTY_NAMES.contains(&part) {
            findings.add(&file.path, format!("a module called `{part}` has no name yet: say what it is"));
        }
    }
    let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let is_bound = !is_test && GLOSSARY_FLOORS.iter().any(|floor| file.path.starts_with(floor));
    let code = mask(&file.text);
    for (index, (line, full)) in code.lines().zip(file.text.lines()).enumerate() {
        let mut words = words_of(line).peekable();
        while let Some(word) = words.next() {
            let next = words.peek().copied().unwrap_or("");
            if word == "mod" && EMPTY_NAMES.contains(&next) {
                findings.at(&file.path, index, format!("a module called `{next}` has no name yet"));
            }
            if !is_bound || full.contains(WORD_BECAUSE) {
                continue;
            }
            for part in parts(word) {
                if let Some((losing, use_this)) = SYNONYMS.iter().find(|(losing, _)| *losing == part) {
                    let message = format!("`{word}`: the glossary has no `{losing}`, say {use_this}");
                    findings.at(&file.path, index, message);
                }
            }
        }
    }
}

/// The words of a snake_case or CamelCase identifier, in lower case.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(std::mem::take(&mut word));
        }
        if c != '_' {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    parts.push(word);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_of(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile { path: path.into(), text: text.into() };
        let mut findings = Findings::default();
        check_text(&file, &mut findings);
        check_identifiers(&file, &mut findings);
        findings.lines
    }

    #[test]
    fn unfinished_work_is_found_even_in_comments() {
        for (word, _) in UNFINISHED {
            assert_eq!(findings_of("crates/xtask/src/x.rs", &format!("// {word})")).len(), 1, "{word}");
        }
        let todo = concat!("TO", "DO");
        assert_eq!(findings_of("a.sh", &format!("# {todo}: later")).len(), 1);
        assert_eq!(findings_of("a.sh", &format!("# {todo}(#12): later, a{todo}S")).len(), 0);
    }

    #[test]
    fn losing_synonyms_are_found_as_words_and_not_inside_words() {
        let text = "fn gc_run(d: DiskTable) {}\n// the disk\nlet discard = wallet;";
        let findings = findings_of("crates/store/engine/src/x.rs", text);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(findings_of("crates/proof/demo/src/x.rs", text).len(), 0);
        let kept = "let wal = 1; // tidy: word because PostgreSQL calls it so";
        assert_eq!(findings_of("crates/store/engine/src/x.rs", kept).len(), 0);
    }

    #[test]
    fn a_module_without_a_name_is_refused() {
        assert_eq!(findings_of("crates/store/engine/src/utils.rs", "").len(), 1);
        assert_eq!(findings_of("crates/store/engine/src/lib.rs", "mod helpers {\n}").len(), 1);
    }

    #[test]
    fn identifiers_split_at_underscores_and_humps() {
        assert_eq!(parts("gc_runDiskTable2Lun"), ["gc", "run", "disk", "table2", "lun"]);
    }
}
