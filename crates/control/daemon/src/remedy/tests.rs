//! Commands and options become what the API has, in every text of the sources.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use super::*;
use crate::problems::messages::source::literal;

#[test]
fn commands_become_requests_and_options_fields() {
    for (action, wanted) in [
        ("`ashlar volume list` shows those there are", "`GET /v1/volumes` shows those there are"),
        ("`ashlar volume list --deleted` shows them", "`GET /v1/deleted-volumes` shows them"),
        ("`ashlar detach db` first", "`DELETE /v1/attachments/db` first"),
        ("`ashlar pool show` says why", "`GET /v1/pools/{pool}` says why"),
        (
            "name every one: `ashlar pool import p --drive PATH ...`",
            "name every one: `POST /v1/pools/p/import` with `drives`",
        ),
        (
            "`ashlar pool replace-drive p 3 --with PATH` gives it a drive again",
            "`POST /v1/pools/p/drives/3/replace` with `path` gives it a drive again",
        ),
        (
            "`ashlar database expire dev --never` keeps it",
            "`PUT /v1/databases/dev/expiry` with `{}` keeps it",
        ),
        (
            "`ashlar pool scrub main --stop` ends it",
            "`PATCH /v1/pools/main/scrub` with `action: stop` ends it",
        ),
        (
            "`ashlar pool online-drive main 2 --drive /dev/x` takes it back",
            "`POST /v1/pools/main/drives/2/online` with `path` takes it back",
        ),
        ("name the one to use with --pool", "name the one to use with `pool`"),
        (
            "delete them first, or with it: --with-schedules; they stay",
            "delete them first, or with it: `with_schedules`; they stay",
        ),
        ("or give up what is on this one with `--force`", "or give up what is on this one with `force`"),
        ("`--format ext4` makes one", "`format: ext4` makes one"),
        ("unmount it and `losetup --detach /dev/loop0`", "unmount it and `losetup --detach /dev/loop0`"),
        ("start it with `ashlar serve`", "start it with `ashlar serve`"),
        ("take it away with `--burst none`", "take it away with `burst_seconds: 0`"),
        ("as with `--protection none`", "as with `protection: none`"),
        ("choose another", "choose another"),
        ("an odd ` mark and --force", "an odd ` mark and `force`"),
        ("", ""),
    ] {
        assert_eq!(in_requests(action), wanted);
    }
}

/// The operations and fields that the API describes.
#[test]
fn what_the_tables_name_is_there() {
    let operations = ashlar_api::operations();
    for (command, operation) in COMMANDS {
        let (method, path) = operation.split_once(' ').unwrap();
        assert!(operations.contains(&(method.to_string(), path.to_string())), "{command}: {operation}");
    }
    let document: serde_json::Value = serde_json::from_str(&ashlar_api::openapi_json()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap().values();
    let mut fields: Vec<String> = ashlar_api::query_parameters().into_values().flatten().collect();
    for schema in schemas {
        fields.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    }
    for (option, field, _) in OPTIONS {
        let name = field.split(':').next().unwrap_or_default();
        let is_there = name.is_empty() || name == "{}" || fields.iter().any(|one| one == name);
        assert!(is_there, "--{option}: {field}");
    }
    // The first that fits is taken.
    for (index, (command, _)) in COMMANDS.iter().enumerate() {
        let hides = |before: &&(&str, &str)| command.starts_with(&format!("{} ", before.0));
        let hidden = COMMANDS[..index].iter().find(hides).filter(|_| *command != SCRUB_CHANGE);
        assert!(hidden.is_none(), "{command} is behind {hidden:?}");
    }
}

/// What has no request: it is for the person at the machine.
const OF_THE_MACHINE: [&str; 6] = ["serve", "doctor", "inspect", "lab", "reference", "upgrade"];

#[test]
fn every_command_and_option_that_errors_name_has_words_over_rest() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    // Errors of these reach callers with what they say to do.
    let places = ["src", "../database/src", "../../store/engine/src", "../../media/pool/src"];
    let files = places.iter().flat_map(|place| {
        let place = own.join(place);
        sources(&place).into_iter().map(move |file| (place.clone(), file))
    });
    for (place, file) in files {
        let name = file.strip_prefix(&place).unwrap().display().to_string();
        // Help of settings and metrics, arguments of tools, and these tables.
        let is_other = [
            "settings.rs",
            "metrics.rs",
            "problems",
            "remedy",
            "attach",
            "subprocess.rs",
            "serve.rs",
            "state.rs",
        ];
        if is_other.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        texts.extend(literals(&text).into_iter().map(|literal| (name.clone(), literal)));
    }
    assert!(texts.len() > 1_000, "{} texts", texts.len());
    let mut seen = 0;
    for (file, text) in texts.iter().filter(|(_, text)| text.contains("`ashlar ") || text.contains(" --")) {
        let said = in_requests(text);
        seen += 1;
        for part in said.split("`ashlar ").skip(1) {
            let name = part.split([' ', '`']).next().unwrap();
            // `Error::not_found` says which list.
            let is_filled_in = name.starts_with('{');
            assert!(
                is_filled_in || OF_THE_MACHINE.contains(&name),
                "{file}: `ashlar {part} has no request: {text}"
            );
        }
        for word in said.split_whitespace().filter(|word| word.starts_with("--")) {
            let is_of_tool =
                ["losetup", "partx", "pg_checksums", "ashlar inspect"].iter().any(|tool| said.contains(tool));
            assert!(is_of_tool, "{file}: {word} has no field: {text}");
        }
    }
    assert!(seen > 60, "{seen} texts with commands");
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
    found
}

/// The strings of a source file, without comments.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '/' if rest.peek() == Some(&'/') => while rest.next().is_some_and(|next| next != '\n') {},
            // A letter in quotes, or the name of a lifetime.
            '\'' if rest.next_if_eq(&'\\').is_some() || rest.peek() == Some(&'"') => {
                rest.next();
            }
            '"' => found.push(literal(&mut rest)),
            _ => {}
        }
    }
    found
}
