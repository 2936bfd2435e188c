//! Checks on documents and on the tree: links, decision records, the floor plan, root folders.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Findings, SourceFile, git};

/// The root's folders. One more needs a decision record, because each is one more place to look.
const ROOT_FOLDERS: [&str; 10] =
    [".cargo", ".ci", ".github", "console", "crates", "deploy", "docs", "experiments", "fuzz", "tests"];

/// Sections every decision record has, so that its price is never left out.
const RECORD_SECTIONS: [&str; 3] = ["## Context", "## Decision", "## Consequences"];

/// The floors that carry the determinism bans, each with a copy of the same file.
const BANNED_FLOORS: [&str; 4] = ["base", "media", "store", "targets"];

/// Areas of a commit title besides the names of crates.
const COMMIT_AREAS: [&str; 13] = [
    "bench",
    "ci",
    "console",
    "demo",
    "deploy",
    "docs",
    "experiments",
    "fuzz",
    "lab",
    "repo",
    "tests",
    "tidy",
    "xtask",
];

pub(super) fn check(root: &Path, files: &[SourceFile], findings: &mut Findings) -> Result<(), String> {
    let crates: BTreeSet<&str> = files.iter().filter_map(|file| crate_folder(&file.path)).collect();
    for file in files {
        let root_folder = file.path.split_once('/').map(|(folder, _)| folder);
        if root_folder.is_some_and(|folder| !ROOT_FOLDERS.contains(&folder)) {
            findings.add(&file.path, "an eighth root folder: it needs a decision record and a line in tidy");
        }
        if file.path.ends_with(".md") {
            check_links(root, file, findings);
        }
        if file.path.starts_with("docs/decisions/") && !file.path.ends_with("template.md") {
            check_record(file, findings);
        }
        if file.path == "ARCHITECTURE.md" {
            check_floor_plan(file, &crates, findings);
        }
    }
    check_bans(files, findings);
    check_record_numbers(files, findings);
    check_lock(&git(root, &["status", "--porcelain", "--untracked-files=no"])?, findings);
    // Advice only: a title cannot be mended without rewriting what others may have fetched.
    let title = git(root, &["log", "-1", "--format=%s"]).unwrap_or_default();
    if let Some(advice) = title_advice(title.trim(), &crates) {
        println!("tidy: note: {advice}");
    }
    Ok(())
}

/// `pool` for crates/media/pool/Cargo.toml, `xtask` for crates/xtask/Cargo.toml.
fn crate_folder(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?.rsplit('/').next()
}

/// Every relative link leads to a file.
fn check_links(root: &Path, file: &SourceFile, findings: &mut Findings) {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut is_code = false;
    for (index, line) in file.text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ', '#']).next().unwrap_or("");
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:") || target.is_empty();
            if !is_elsewhere && !root.join(folder).join(target).exists() {
                findings.at(&file.path, index, format!("the link to `{target}` leads nowhere"));
            }
        }
    }
}

/// A record is named by a number, states where it stands, and names its price.
fn check_record(file: &SourceFile, findings: &mut Findings) {
    let name = file.path.rsplit('/').next().unwrap_or("");
    if record_number(name).is_none() {
        findings.add(&file.path, "a record is called NNNN-what-was-decided.md");
    }
    let status = file.text.lines().find_map(|line| line.strip_prefix("Status: "));
    let is_known = status.is_some_and(|status| {
        matches!(status, "proposed" | "accepted" | "rejected")
            || status.strip_prefix("superseded by ").is_some_and(|number| number.parse::<u32>().is_ok())
    });
    if !is_known {
        findings.add(
            &file.path,
            "needs a line `Status: proposed`, `accepted`, `rejected` or `superseded by NNNN`",
        );
    }
    for section in RECORD_SECTIONS {
        if !file.text.lines().any(|line| line == section) {
            findings.add(&file.path, format!("needs a section `{section}`"));
        }
    }
}

fn record_number(name: &str) -> Option<u32> {
    let (number, rest) = name.split_once('-')?;
    let is_named = number.len() == 4 && rest.len() > ".md".len() && rest.ends_with(".md");
    if is_named { number.parse().ok() } else { None }
}

fn check_record_numbers(files: &[SourceFile], findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.starts_with("docs/decisions/")) {
        if let Some(number) = file.path.rsplit('/').next().and_then(record_number)
            && !seen.insert(number)
        {
            findings.add(&file.path, format!("number {number:04} is taken"));
        }
    }
}

/// Cargo mends a stale lock file without a word, so a build leaves it changed. With a change to a
/// manifest that is as it should be; without one, the last commit left it out.
fn check_lock(status: &str, findings: &mut Findings) {
    let changed: Vec<&str> = status.lines().filter_map(|line| line.get(3..)).collect();
    if changed.contains(&"Cargo.lock") && !changed.iter().any(|path| path.ends_with("Cargo.toml")) {
        findings.add("Cargo.lock", "the committed one is stale: commit what the build made of it");
    }
}

/// The floor plan in ARCHITECTURE.md, between the lines ```floors and ```, names every crate once.
fn check_floor_plan(file: &SourceFile, crates: &BTreeSet<&str>, findings: &mut Findings) {
    let after = file.text.lines().skip_while(|line| *line != "```floors").skip(1);
    let plan: Vec<&str> = after.take_while(|line| *line != "```").collect();
    // Indented lines are crates; a line at the margin is a floor.
    let rooms =
        plan.iter().filter(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next());
    let named: BTreeSet<&str> = rooms.collect();
    for missing in crates.iter().filter(|name| !named.contains(**name) && **name != "xtask") {
        findings.add(&file.path, format!("the floor plan does not show the crate {missing}"));
    }
    for extra in named.iter().filter(|name| !crates.contains(**name)) {
        findings.add(&file.path, format!("the floor plan shows {extra}, which does not exist"));
    }
}

fn check_bans(files: &[SourceFile], findings: &mut Findings) {
    let find = |path: &str| files.iter().find(|file| file.path == path).map(|file| &file.text);
    let first = find(&format!("crates/{}/clippy.toml", BANNED_FLOORS[0]));
    for floor in BANNED_FLOORS {
        let path = format!("crates/{floor}/clippy.toml");
        if first.is_none() || find(&path) != first {
            findings.add(&path, "the determinism bans differ from those of crates/base/clippy.toml");
        }
    }
}

/// `area: what changes`, or `area, area: ...`, at most 72 columns.
fn title_advice(title: &str, crates: &BTreeSet<&str>) -> Option<String> {
    let Some((areas, _)) = title.split_once(": ") else {
        return Some(format!("commit title `{title}` does not start with `area: `"));
    };
    let mut unknown = areas.split([',', '/']).map(str::trim);
    if let Some(area) = unknown.find(|area| !COMMIT_AREAS.contains(area) && !crates.contains(area)) {
        return Some(format!("commit title `{title}`: `{area}` is no crate and no known area"));
    }
    (title.chars().count() > 72).then(|| format!("commit title `{title}` is longer than 72 columns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_record_without_status_number_or_price_is_found() {
        let mut findings = Findings::default();
        check_record(&file("docs/decisions/one.md", "## Context\n## Decision\n"), &mut findings);
        assert_eq!(findings.lines.len(), 3, "{:?}", findings.lines);
        let good = "Status: superseded by 0007\n## Context\n## Decision\n## Consequences\n";
        let mut findings = Findings::default();
        check_record(&file("docs/decisions/0001-one.md", good), &mut findings);
        assert_eq!(findings.lines, Vec::<String>::new());
    }

    #[test]
    fn two_records_never_share_a_number() {
        let files = [file("docs/decisions/0001-a.md", ""), file("docs/decisions/0001-b.md", "")];
        let mut findings = Findings::default();
        check_record_numbers(&files, &mut findings);
        assert_eq!(findings.lines.len(), 1);
    }

    #[test]
    fn a_stale_lock_file_is_found_but_not_one_that_follows_a_manifest() {
        for (status, count) in [
            (" M Cargo.lock\n M README.md\n", 1),
            (" M Cargo.lock\n M crates/base/units/Cargo.toml\n", 0),
            (" M README.md\n", 0),
        ] {
            let mut findings = Findings::default();
            check_lock(status, &mut findings);
            assert_eq!(findings.lines.len(), count, "{status}");
        }
    }

    #[test]
    fn the_floor_plan_shows_what_exists_and_nothing_else() {
        let plan = "# A\n```floors\nbase\n  units  words\n  ghost  gone\n```\n";
        let mut findings = Findings::default();
        let crates = BTreeSet::from(["units", "pool", "xtask"]);
        check_floor_plan(&file("ARCHITECTURE.md", plan), &crates, &mut findings);
        assert_eq!(findings.lines.len(), 2, "{:?}", findings.lines);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text =
            "[a](Cargo.toml) [b](none.md#x) [c](https://example.org/none) [d](#here)\n```\n[e](no)\n```\n";
        let mut findings = Findings::default();
        check_links(root, &file("x.md", text), &mut findings);
        assert_eq!(findings.lines.len(), 1, "{:?}", findings.lines);
    }

    #[test]
    fn commit_titles_start_with_a_crate_or_an_area() {
        let crates = BTreeSet::from(["units", "block"]);
        assert_eq!(title_advice("units, block: sizes and the waist", &crates), None);
        assert!(title_advice("mend things", &crates).is_some());
        assert!(title_advice("stuff: mend things", &crates).is_some());
        assert!(title_advice(&format!("units: {}", "x".repeat(80)), &crates).is_some());
    }
}
