//! What to do about a problem, in words of requests: errors say it in words of the command line, where
//! commands and options stand for operations and fields.
//!
//! A command is named in backquotes, as in `ashlar volume list`; an option with its two dashes. Both are
//! looked up here; a test finds every one that the sources name and that is not in these tables. What cannot
//! be said so is said by the error itself (`Error::over_rest`).

/// Commands, the longest of several that begin alike first, and the operations that do the same. What stands
/// behind a command is put in the place of `{...}`, in order.
const COMMANDS: &[(&str, &str)] = &[
    ("attach", "POST /v1/attachments"),
    ("client list", "GET /v1/clients"),
    ("client disconnect", "DELETE /v1/clients/{client}"),
    ("clone create", "POST /v1/clones"),
    ("console", "POST /v1/console-tickets"),
    ("database clone", "POST /v1/databases/{database}/clone"),
    ("database commands", "PUT /v1/databases/{database}/commands"),
    ("database create", "POST /v1/databases"),
    ("database delete", "DELETE /v1/databases/{database}"),
    ("database expire", "PUT /v1/databases/{database}/expiry"),
    ("database follow", "POST /v1/database-standbys"),
    ("database handover", "GET /v1/databases/{database}/handover"),
    ("database list", "GET /v1/databases"),
    ("database promote", "POST /v1/databases/{database}/promote"),
    ("database reset", "POST /v1/databases/{database}/reset"),
    ("database resize", "POST /v1/databases/{database}/resize"),
    ("database restore", "POST /v1/databases/{database}/restore"),
    ("database return", "POST /v1/databases/{database}/return"),
    ("database settings", "GET /v1/databases/{database}/settings"),
    ("database start", "POST /v1/databases/{database}/start"),
    ("database stop", "POST /v1/databases/{database}/stop"),
    ("database waits", "GET /v1/databases/{database}/waits"),
    ("detach", "DELETE /v1/attachments/{volume}"),
    ("events", "GET /v1/events"),
    ("export create", "POST /v1/exports"),
    ("export delete", "DELETE /v1/exports/{volume}"),
    ("export list", "GET /v1/exports"),
    ("host create", "POST /v1/hosts"),
    ("host delete", "DELETE /v1/hosts/{host}"),
    ("host list", "GET /v1/hosts"),
    ("host set", "PATCH /v1/hosts/{host}"),
    ("job cancel", "DELETE /v1/jobs/{job}"),
    ("job list", "GET /v1/jobs"),
    ("job show", "GET /v1/jobs/{job}"),
    ("mark list", "GET /v1/marks"),
    ("objective list", "GET /v1/objectives"),
    ("pool add-drive", "POST /v1/pools/{pool}/drives"),
    ("pool check", "POST /v1/pools/{pool}/check"),
    ("pool create", "POST /v1/pools"),
    ("pool delete", "DELETE /v1/pools/{pool}"),
    ("pool export", "POST /v1/pools/{pool}/export"),
    ("pool import", "POST /v1/pools/{pool}/import"),
    ("pool list", "GET /v1/pools"),
    ("pool offline-drive", "POST /v1/pools/{pool}/drives/{number}/offline"),
    ("pool online-drive", "POST /v1/pools/{pool}/drives/{number}/online"),
    ("pool remove-drive", "DELETE /v1/pools/{pool}/drives/{number}"),
    ("pool reopen", "POST /v1/pools/{pool}/reopen"),
    ("pool replace-drive", "POST /v1/pools/{pool}/drives/{number}/replace"),
    ("pool scrub", "POST /v1/pools/{pool}/scrub"),
    (SCRUB_CHANGE, "PATCH /v1/pools/{pool}/scrub"),
    ("pool show", "GET /v1/pools/{pool}"),
    ("reload", "POST /v1/reload"),
    ("schedule create", "POST /v1/schedules"),
    ("schedule list", "GET /v1/schedules"),
    ("schedule run", "POST /v1/schedules/{schedule}/run"),
    ("snapshot create", "POST /v1/snapshots"),
    ("snapshot list", "GET /v1/snapshots"),
    ("snapshot release", "DELETE /v1/snapshots/{snapshot}/hold"),
    ("snapshot", "GET /v1/snapshots/{snapshot}"),
    ("space reclaim", "POST /v1/space/reclaim"),
    ("space", "GET /v1/pools/{pool}/space"),
    ("status", "GET /v1/status"),
    ("stop", "POST /v1/stop"),
    ("token create", "POST /v1/tokens"),
    ("token delete", "DELETE /v1/tokens/{token}"),
    ("token list", "GET /v1/tokens"),
    ("user create", "POST /v1/users"),
    ("user list", "GET /v1/users"),
    ("user set", "PATCH /v1/users/{user}"),
    ("volume disconnect", "POST /v1/volumes/{volume}/disconnect"),
    ("volume list --deleted", "GET /v1/deleted-volumes"),
    ("volume list", "GET /v1/volumes"),
    ("volume set", "PUT /v1/volumes/{volume}/policy"),
    ("volume undelete", "POST /v1/deleted-volumes/{volume}/undelete"),
    ("volume users", "GET /v1/volumes/{volume}/users"),
];

/// `ashlar pool scrub` with one of these changes the scrub under way.
const SCRUB_CHANGE: &str = "pool scrub --pause";
const SCRUB_CHANGES: [&str; 3] = ["--pause", "--resume", "--stop"];

/// Options of one command that say something else than those of others.
const OWN_OPTIONS: &[(&str, &str, &str)] = &[
    ("pool online-drive", "--drive", "path"),
    ("database resize", "--size", "sizes_bytes"),
    ("export create", "--host", "hosts"),
];

/// Options, the fields or parameters that say the same, and whether a value stands behind.
const OPTIONS: &[(&str, &str, bool)] = &[
    ("accept-older-state", "accept_older_state", false),
    ("account", "account", true),
    ("as", "name", true),
    ("at", "snapshot", true),
    ("auto-grow-max", "auto_grow_max_bytes", true),
    ("bandwidth", "bytes_per_second", true),
    ("burst", "burst_seconds", true),
    ("chap-secret-file", "chap", true),
    ("chap-user", "chap", true),
    ("check", "check", true),
    ("class", "class", true),
    ("config", "configuration_directory", true),
    ("cores", "cores", true),
    ("deleted", "", false),
    ("detach", "detach", false),
    ("drive", "drives", true),
    ("engine", "engine", true),
    ("every", "every_seconds", true),
    ("floor", "floor_micros", true),
    ("force", "force", false),
    ("format", "format", true),
    ("from", "from", true),
    ("from-directory", "from_directory", true),
    ("host", "host", true),
    ("iops", "requests_per_second", true),
    ("keep", "keep", true),
    ("latest", "latest", false),
    ("limit", "limit_bytes", true),
    ("log-floor", "log_floor_micros", true),
    ("log-size", "log_size_bytes", true),
    ("logical", "is_logical", false),
    ("logical-block", "logical_block_bytes", true),
    ("mount", "mount", true),
    ("never", "{}", false),
    ("mutual-secret-file", "mutual_chap", true),
    ("mutual-user", "mutual_chap", true),
    ("no-chap", "without_chap", false),
    ("no-mutual", "without_mutual_chap", false),
    ("now", "now", false),
    ("of", "databases", true),
    ("password-file", "password", true),
    ("pause", "action: pause", false),
    ("pool", "pool", true),
    ("port", "port", true),
    ("protection", "protection", true),
    ("restart", "restart", false),
    ("resume", "action: resume", false),
    ("role", "role", true),
    ("shared", "shared", false),
    ("shrink", "may_shrink", false),
    ("size", "size_bytes", true),
    ("start-timeout", "start_timeout_seconds", true),
    ("stop", "action: stop", false),
    ("tablespace", "tablespaces", true),
    ("to", "snapshot", true),
    ("version", "major_version", true),
    ("with", "path", true),
    ("with-schedules", "with_schedules", false),
    ("within", "within_seconds", true),
];

/// What to do, with requests and fields in the place of commands and options.
pub(crate) fn in_requests(action: &str) -> String {
    let parts: Vec<&str> = action.split('`').collect();
    let mut said = String::with_capacity(action.len());
    for (index, part) in parts.iter().enumerate() {
        // Between the first and the second, the third and the fourth, and so on.
        let is_quoted = index % 2 == 1 && index + 1 < parts.len();
        match is_quoted {
            true => said.push_str(&quoted(part)),
            false => {
                let is_open = index % 2 == 1;
                said.push_str(if is_open { "`" } else { "" });
                said.push_str(&plain(part));
            }
        }
    }
    said
}

/// A command or an option in backquotes.
fn quoted(text: &str) -> String {
    let of_command = text.strip_prefix("ashlar ").and_then(command);
    of_command.or_else(|| option_alone(text)).unwrap_or_else(|| format!("`{text}`"))
}

/// `--format ext4` in backquotes is a field with its value.
fn option_alone(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let (field, _) = option(words.next()?)?;
    // At the command line no number is `none`, in a request it is 0.
    let is_number = ["_bytes", "_seconds", "_per_second", "_micros"].iter().any(|end| field.ends_with(end));
    let value: Vec<&str> = words.map(|word| if is_number && word == "none" { "0" } else { word }).collect();
    Some(match value.is_empty() {
        true => format!("`{field}`"),
        false => format!("`{field}: {}`", value.join(" ")),
    })
}

/// The operation that a command stands for, with the fields of its options.
fn command(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let begins = |name: &str| {
        let names: Vec<&str> = name.split(' ').collect();
        words.starts_with(&names)
    };
    let is_change = words.iter().any(|word| SCRUB_CHANGES.contains(word));
    let (name, operation) = COMMANDS.iter().find(|(name, _)| begins(name))?;
    let operation = match is_change && *name == "pool scrub" {
        true => {
            COMMANDS.iter().find(|(name, _)| *name == SCRUB_CHANGE).map_or(operation, |(_, change)| change)
        }
        false => operation,
    };
    let mut rest = words[name.split(' ').count()..].iter().peekable();
    let (mut values, mut fields) = (Vec::new(), Vec::new());
    while let Some(word) = rest.next() {
        match option(word) {
            Some((field, has_value)) => {
                let own = OWN_OPTIONS.iter().find(|(of, option, _)| of == name && option == word);
                let field = format!("`{}`", own.map_or(field, |(.., own)| *own));
                if field != "``" && !fields.contains(&field) {
                    fields.push(field);
                }
                rest.next_if(|next| has_value && !next.starts_with("--"));
            }
            None if *word == "..." => {}
            None => values.push(*word),
        }
    }
    let operation = filled(operation, &values);
    Some(match fields.is_empty() {
        true => format!("`{operation}`"),
        false => format!("`{operation}` with {}", fields.join(", ")),
    })
}

/// The values in the places of `{...}`; a place without a value stays.
fn filled(operation: &str, values: &[&str]) -> String {
    let mut values = values.iter();
    let part = |part: &str| match part.starts_with('{') {
        true => values.next().map_or(part.to_string(), |value| (*value).to_string()),
        false => part.to_string(),
    };
    operation.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Text with options in it.
fn plain(text: &str) -> String {
    let word = |word: &str| {
        let end = word.trim_end_matches([',', ';', ':', '.', ')']).len();
        let (name, punctuation) = word.split_at(end);
        match option(name) {
            Some((field, _)) => format!("`{field}`{punctuation}"),
            None => word.to_string(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn option(word: &str) -> Option<(&'static str, bool)> {
    let name = word.strip_prefix("--")?;
    let found = OPTIONS.iter().find(|(option, ..)| *option == name)?;
    Some((found.1, found.2))
}

#[cfg(test)]
mod tests;
