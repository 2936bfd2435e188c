//! The page of messages: every message that the API answers, with what to do about it.
//!
//! Messages are written where they arise. This reads the sources for them, as a reader would, and fails where
//! the page is stale, or where it finds no words.

#![allow(clippy::unwrap_used)]

mod resolve;
pub(crate) mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ashlar_api::ErrorKind;
use resolve::{said, wording};
use source::{Function, Source};

use crate::error::{Error, MEND};
use crate::remedy;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/messages.md");

/// Where messages of the API arise. What they take from below, of the system or of a server, is in braces.
const PLACES: [&str; 4] = ["src", "../database/src", "../../store/engine/src", "../../media/pool/src"];

/// A message, and what to do about it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Row {
    message: String,
    action: String,
    request: String,
}

/// Messages without words of their own. Fewer are better.
const PASSED_ON_MAX: usize = 22;

/// Of a kind that is found while it runs.
const OTHER: &str = "any-kind";

type Rows = BTreeMap<&'static str, BTreeSet<Row>>;

#[test]
fn the_page_of_messages_is_fresh() {
    let (rows, site_count) = rows();
    assert!(site_count > 350, "{site_count} places with messages");
    let text = page(&rows);
    // `ASHLAR_BLESS=1 cargo test -p ashlar-daemon --lib messages` writes it anew.
    if std::env::var_os("ASHLAR_BLESS").is_some() {
        std::fs::write(PAGE, &text).unwrap();
    }
    let kept = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(kept == text, "docs/reference/messages.md is stale: ASHLAR_BLESS=1 writes it anew");
}

/// A message without words of its own would be found for anything.
#[test]
fn every_message_has_words_and_says_what_to_do() {
    let (rows, _) = rows();
    let mut passed_on = Vec::new();
    for (kind, row) in rows.iter().flat_map(|(kind, rows)| rows.iter().map(move |row| (kind, row))) {
        if !has_words(&row.message) {
            passed_on.push(format!("{kind}: {} {}", row.message, row.action));
        }
        assert!(!row.action.is_empty(), "{kind}: `{}`: nothing is said to do", row.message);
        let is_request = !row.request.contains("`ashlar ") || row.request.contains("`ashlar {");
        let of_machine = ["serve", "doctor", "inspect", "lab", "upgrade"];
        let is_of_machine = of_machine.iter().any(|name| row.request.contains(&format!("`ashlar {name}")));
        assert!(is_request || is_of_machine, "`{}`: {}", row.message, row.request);
    }
    // What the system, a drive or a server said is passed on as it is, and what to do stands behind.
    assert!(passed_on.len() <= PASSED_ON_MAX, "{}:\n{}", passed_on.len(), passed_on.join("\n"));
}

#[test]
fn sources_are_read_as_they_are_meant() {
    let text = r#"
        const LIMIT: usize = 63;
        fn wrong(what: &str, n: u64) -> Error {
            Error::invalid(format!("{what} of {}: {n} is no number", path.display()), "give 1 to {LIMIT}")
        }
        fn of(name: &str, pool: Option<&str>) -> Result<()> {
            // Error::invalid("a comment", "x")
            let (what, action) = match pool {
                Some("x") => (format!("volume `{name}` is 'in' use"), "end \
                    that"),
                None => ("it is open".to_string(), "close it"),
            };
            let told = |why: &str| Error::new(api::ErrorKind::Busy, format!("pool: {why}"), format!("say {LIMIT}"));
            if a == "no" { return Err(told("it is full")); }
            wrong("a drive", 1)?;
            Err(Error::new(ErrorKind::Exists, what, action).over_rest("send DELETE"))
        }
        #[cfg(test)]
        mod tests { fn x() { Error::invalid("of a test", "x") } }"#
        .replace("        #[cfg(test)]\n        mod", "#[cfg(test)]\nmod");
    let mut rows = Rows::new();
    assert_eq!(read(&Source::read(&text), &[], Place::Daemon, &mut rows), 3);
    let all: Vec<String> = rows
        .iter()
        .flat_map(|(kind, rows)| {
            rows.iter().map(move |row| format!("{kind}|{}|{}|{}", row.message, row.action, row.request))
        })
        .collect();
    assert_eq!(
        all,
        [
            "busy|pool: it is full|say 63|say 63",
            "exists|it is open|close it; or: end that|send DELETE",
            "exists|volume `{name}` is 'in' use|close it; or: end that|send DELETE",
            "invalid|a drive of {path}: {n} is no number|give 1 to {LIMIT}|give 1 to {LIMIT}",
        ]
    );
}

/// Whether more than values that are filled in.
fn has_words(message: &str) -> bool {
    let words = message.split(['{', '}']).step_by(2).flat_map(str::chars);
    words.filter(|letter| letter.is_alphabetic()).count() >= 3
}

/// Whose constructors a file calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Daemon,
    Database,
    /// The engine and the pool: what to do follows from the kind, or stands behind.
    Engine,
}

fn rows() -> (Rows, usize) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut rows, mut site_count) = (Rows::new(), 0);
    for (place, of) in PLACES.iter().zip([Place::Daemon, Place::Database, Place::Engine, Place::Engine]) {
        // Where errors are made of what they are given.
        let files = files(&own.join(place)).into_iter().filter(|file| !file.ends_with("src/error.rs"));
        let mut sources: Vec<Source> =
            files.map(|file| Source::read(&std::fs::read_to_string(file).unwrap())).collect();
        let all: Vec<(String, String)> = sources.iter().flat_map(Source::constants).collect();
        let is_one = |name: &str| all.iter().filter(|(other, _)| other == name).count() == 1;
        let known: BTreeMap<_, _> = all.iter().filter(|(name, _)| is_one(name)).cloned().collect();
        sources.iter_mut().for_each(|source| source.others.clone_from(&known));
        site_count += sources.iter().map(|source| read(source, &sources, of, &mut rows)).sum::<usize>();
    }
    (rows, site_count)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests" || name == "messages");
        match path.is_dir() {
            _ if is_test => {}
            true => found.extend(files(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

/// Adds what a file says, in part by what others give its functions; how many places of it do.
fn read(source: &Source, others: &[Source], place: Place, rows: &mut Rows) -> usize {
    let mut site_count = 0;
    for at in 0..source.tokens.len() {
        let is_call =
            source.is_word(at, "Error") && source.is_sign(at + 1, ':') && source.is_sign(at + 4, '(');
        if !is_call {
            continue;
        }
        if let Some((kind, of_object)) = of_object(source, at) {
            site_count += 1;
            rows.entry(kind).or_default().extend(of_object);
        }
        let Some(site) = Site::read(source, place, at) else { continue };
        site_count += 1;
        for (message, action, request) in site.said(source, others, place) {
            // What passes on what was said elsewhere says nothing itself.
            if site.kind != OTHER || has_words(&message) {
                rows.entry(site.kind).or_default().insert(Row { message, action, request });
            }
        }
    }
    site_count
}

/// Of an object that is not there, or is, and of files of this machine.
fn of_object(source: &Source, at: usize) -> Option<(&'static str, Vec<Row>)> {
    let is = |name: &str| source.is_word(at + 3, name);
    let (arguments, _) = source.arguments(at + 4);
    let words = |position: usize| arguments.get(position).map(|range| said(source, range.clone()));
    let (mut kind, mut rows) = (None, Vec::new());
    for what in words(0)? {
        let errors: Vec<Error> = if is("not_found") {
            vec![Error::not_found(&what, "{name}")]
        } else if is("not_found_in") {
            words(2)?.iter().map(|action| Error::not_found_in(&what, "{name}", action)).collect()
        } else if is("exists") {
            vec![Error::exists(&what, "{name}", "{pool}")]
        } else if is("file") {
            FILE_TROUBLES.map(|trouble| Error::file(&what, Path::new("{path}"), &trouble.into())).to_vec()
        } else {
            return None;
        };
        kind = Some(errors.first()?.kind.name());
        let actions: Vec<&str> = errors.iter().map(|error| error.action.as_str()).collect();
        let message =
            errors[0].message.replace(&format!("{}", std::io::Error::from(FILE_TROUBLES[0])), "{error}");
        let action = actions.join("; or: ");
        rows.push(Row { message, request: remedy::in_requests(&action), action });
    }
    Some((kind?, rows))
}

/// What may be wrong with a file, of those that have something of their own to do, and one that has not.
const FILE_TROUBLES: [std::io::ErrorKind; 5] = [
    std::io::ErrorKind::PermissionDenied,
    std::io::ErrorKind::StorageFull,
    std::io::ErrorKind::NotFound,
    std::io::ErrorKind::ReadOnlyFilesystem,
    std::io::ErrorKind::Other,
];

/// A place where an error is made.
struct Site {
    at: usize,
    kind: &'static str,
    message: Range<usize>,
    /// None: it follows from the kind.
    action: Option<Range<usize>>,
    over_rest: Option<Range<usize>>,
}

impl Site {
    fn read(source: &Source, place: Place, at: usize) -> Option<Site> {
        let (arguments, behind) = source.arguments(at + 4);
        let is = |name: &str| source.is_word(at + 3, name);
        let (kind, arguments) = if is("new") {
            let first = arguments.first()?;
            let kind =
                ErrorKind::ALL.into_iter().find(|kind| source.is_word(first.end - 1, &format!("{kind:?}")));
            (kind.map_or(OTHER, ErrorKind::name), &arguments[1..])
        } else if is("invalid") || is("unfit") || is("refused") {
            (ErrorKind::Invalid.name(), &arguments[..])
        } else if is("failed") {
            (ErrorKind::Medium.name(), &arguments[..])
        } else if is("unauthorized") {
            (ErrorKind::Unauthorized.name(), &arguments[..])
        } else {
            return None;
        };
        let message = arguments.first()?.clone();
        let (mut action, mut over_rest, mut next) = (arguments.get(1).cloned(), None, behind);
        while source.is_sign(next, '.') && source.is_sign(next + 2, '(') {
            let (given, end) = source.arguments(next + 2);
            if source.is_word(next + 1, "and_do") {
                action = given.first().cloned();
            } else if source.is_word(next + 1, "over_rest") {
                over_rest = given.first().cloned();
            }
            next = end;
        }
        // Errors of other crates have other constructors of these names.
        let is_of_place = place == Place::Engine || action.is_some() || is("unauthorized");
        is_of_place.then_some(Site { at, kind, message, action, over_rest })
    }

    /// Message, what to do at the command line, and what to send.
    fn said(&self, source: &Source, others: &[Source], place: Place) -> Vec<(String, String, String)> {
        let default = match self.kind {
            "unauthorized" => Error::unauthorized("").action,
            kind => engine_remedy(kind),
        };
        let mut action = self.action.clone().map_or_else(|| vec![default], |range| said(source, range));
        if place == Place::Database {
            action
                .iter_mut()
                .filter(|action| action.is_empty())
                .for_each(|action| *action = MEND.to_string());
        }
        let request = self.over_rest.clone().map(|range| said(source, range).join("; or: "));
        let mut all = Vec::new();
        for message in said(source, self.message.clone()) {
            for (message, action) in self.of_callers(source, others, &message, &action) {
                let sent = request.clone().unwrap_or_else(|| remedy::in_requests(&action));
                all.push((message, action, sent));
            }
        }
        all
    }

    /// The same where a helper's callers say a part of it.
    fn of_callers(
        &self,
        source: &Source,
        others: &[Source],
        message: &str,
        actions: &[String],
    ) -> Vec<(String, String)> {
        let mut texts = vec![(message.to_string(), actions.join("; or: "))];
        for helper in source.functions_around(self.at) {
            let is_own = |other: &&Source| !other.functions.iter().any(|one| one.name == helper.name);
            let callers = others.iter().filter(|_| !helper.is_closure).filter(is_own);
            let callers: Vec<&Source> = callers.chain([source]).collect();
            texts = texts
                .into_iter()
                .flat_map(|(message, action)| told(&callers, helper, message, action))
                .collect();
        }
        texts
    }
}

/// A message and what to do, with what the callers of a helper give it as words of these.
fn told(callers: &[&Source], helper: &Function, message: String, action: String) -> Vec<(String, String)> {
    let is_open =
        |name: &String| [&message, &action].iter().any(|text| text.contains(&format!("{{{name}}}")));
    let open: Vec<_> = wording(helper).into_iter().filter(|(_, name)| is_open(name)).collect();
    let mut all = Vec::new();
    for source in callers.iter().filter(|_| !open.is_empty()) {
        for at in 0..source.tokens.len() {
            let is_call = source.is_word(at, &helper.name)
                && source.is_sign(at + 1, '(')
                && !(at > 0 && source.is_word(at - 1, "fn"))
                && !(at > 2 && source.is_word(at - 3, "Error"));
            if !is_call {
                continue;
            }
            let (given, _) = source.arguments(at + 1);
            let mut texts = vec![(message.clone(), action.clone())];
            for (position, name) in &open {
                let Some(range) = given.get(*position) else { continue };
                let (place, words) = (format!("{{{name}}}"), said(source, range.clone()));
                let with = |text: &str, word: &str| text.replace(&place, word);
                let each = |(message, action): &(String, String)| -> Vec<(String, String)> {
                    words.iter().map(|word| (with(message, word), with(action, word))).collect()
                };
                texts = texts.iter().flat_map(each).collect();
            }
            all.extend(texts);
        }
    }
    if all.is_empty() { vec![(message, action)] } else { all }
}

/// What to do about errors of the engine that do not say it.
fn engine_remedy(kind: &str) -> String {
    use ashlar_engine::ErrorKind as Of;
    let all = [
        Of::Invalid,
        Of::NotFound,
        Of::Exists,
        Of::NoSpace,
        Of::Damaged,
        Of::Medium,
        Of::ReadOnly,
        Of::Busy,
        Of::Closed,
        Of::Cancelled,
    ];
    let errors = all.map(|kind| crate::array::from_engine(ashlar_engine::Error::new(kind, "")));
    let found = errors.into_iter().find(|error| error.kind.name() == kind);
    found.map_or_else(|| "as its kind says".to_string(), |error| error.action)
}

fn page(rows: &Rows) -> String {
    let mut text = String::from(
        "# Messages\n\n\
         Generated from the sources; do not edit.\n\n\
         Every message that the API answers as `detail`, by its [kind](errors.md), and what to do about it: the\n\
         `remedy` for the command line, and for requests where other words say it there. In braces stands what is\n\
         filled in: names, numbers, words of the system or of a server. Messages about an object may have its name\n\
         in front, as in ``database `prod`: ``.\n",
    );
    for (kind, rows) in rows {
        writeln!(
            text,
            "\n## {kind}\n\n| message | at the command line | with requests |\n| --- | --- | --- |"
        )
        .unwrap();
        for Row { message, action, request } in rows {
            let request = if request == action { "the same" } else { request };
            writeln!(text, "| {} | {} | {} |", cell(message), cell(action), cell(request)).unwrap();
        }
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
