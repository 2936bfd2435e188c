//! The keys of a scenario's file as a JSON schema, for editors that complete and check TOML.
//!
//! Kept by hand, because what a value may be written as is known to code that reads it and not to its type; a
//! test holds the keys of every table against those that the reader knows. Draft 7, which editors understand.

use serde_json::{Map, Value, json};

#[cfg(test)]
mod tests;

/// A key of a table.
struct Key {
    name: &'static str,
    is_required: bool,
    /// The name of a definition, behind `[]` where it is a list.
    kind: &'static str,
    says: &'static str,
}

const fn must(name: &'static str, kind: &'static str, says: &'static str) -> Key {
    Key { name, is_required: true, kind, says }
}

const fn may(name: &'static str, kind: &'static str, says: &'static str) -> Key {
    Key { name, is_required: false, kind, says }
}

/// A table with fixed keys: its name here, the value of its `kind` where it has one, and its keys.
type Table = (&'static str, Option<&'static str>, &'static [Key]);

const TABLES: &[Table] = &[
    ("scenario", None, SCENARIO),
    ("source", None, SOURCE),
    ("engine-none", Some("none"), &[]),
    ("engine-postgres", Some("postgres"), POSTGRES),
    ("roles", None, ROLES),
    ("role", None, &[must("files", "count", "How many files the data lie in.")]),
    ("phases", None, PHASES),
    ("snapshot", Some("snapshot"), &[must("at", "share", "When, as a share of the measured time.")]),
    ("published", None, PUBLISHED),
    ("tsql", None, TSQL),
    ("check-latency", Some("latency"), LATENCY),
    ("check-ratio", Some("ratio"), RATIO),
    ("check-value", Some("value"), VALUE),
    ("check-offered", Some("offered"), &[]),
    ("check-steady", Some("steady"), &[]),
    ("check-plausible", Some("plausible"), &[]),
    ("check-consistency", Some("consistency"), &[]),
    ("check-undisturbed", Some("undisturbed"), UNDISTURBED),
    ("io", Some("io"), IO),
    ("orders", Some("orders"), ORDERS),
    ("points", Some("points"), POINTS),
    ("broker", Some("broker"), BROKER),
    ("factload", Some("factload"), FACTLOAD),
    ("mixed", Some("mixed"), MIXED),
    ("rows", Some("rows"), ROWS),
    ("space", Some("space"), SPACE),
    ("restore", Some("restore"), RESTORE),
    ("databases", Some("databases"), DATABASES),
    ("database", None, DATABASE),
    ("bill", Some("bill"), BILL),
    ("part", None, PART),
    ("layout", None, LAYOUT),
    ("content-table", None, CONTENT),
    ("copies", None, COPIES),
    ("piece", None, PIECE),
];

const SCENARIO: &[Key] = &[
    must("format", "format", "The version of this format."),
    must("id", "text", "As seed/name."),
    must("title", "text", "For a heading."),
    must("question", "text", "What the report's first sentence answers."),
    may("source", "source", "The paper; our own experiments have none."),
    may("missing", "[]text", "What the paper leaves out."),
    may("contradictions", "[]text", "Where the paper contradicts itself."),
    may("rerun", "[]text", "How the rerun differs from the paper, and why."),
    may("claims", "[]text", "What the paper claims and nobody can check here."),
    may("engine", "engine", "What stands between the workload and the target."),
    must("workload", "workload", "What is done to the target."),
    may("roles", "roles", "Where files go."),
    may("matrix", "matrix", "What varies: each key is a dimension, each of its tables an entry."),
    may("phases", "phases", "How long a run takes, and how often; only what is worked out has none."),
    may("event", "[]snapshot", "What is done while a run measures."),
    must("budget", "scaled-time", "The longest time; the plan is cut to it."),
    may("published", "[]published", "What the paper found; shown beside our numbers."),
    may("check", "[]check", "Rules that give a verdict."),
    may("tsql", "[]tsql", "The paper's steps on SQL Server: shown, and not run."),
];

const SOURCE: &[Key] = &[
    must("paper", "text", "Its title and date."),
    must("defined", "text", "What the paper says it did."),
    may("figures", "[]text", "Numbers of its figures."),
    may("tables", "[]text", "Numbers of its tables."),
];

const POSTGRES: &[Key] = &[
    may("memory", "scaled-size", "Of the server with all its processes and cached pages."),
    may("settings", "settings", "Names and values as PostgreSQL takes them."),
];

const ROLES: &[Key] = &[
    may("data", "role", "Files of data."),
    may("log", "log-role", "Where the write-ahead log of a database lies."),
];

const PHASES: &[Key] = &[
    must("warmup", "scaled-time", "Before anything is counted."),
    must("measure", "scaled-time", "What is counted."),
    must("repeat", "scaled-count", "How often each variant is run."),
];

const PUBLISHED: &[Key] = &[
    must("metric", "metric", "What it is of."),
    may("value", "number", "Left out where it was lost with a figure."),
    may("note", "text", "What is to be known of it."),
];

const TSQL: &[Key] =
    &[must("step", "text", "What it is for."), must("text", "text", "Transact-SQL, as it is typed.")];

const LATENCY: &[Key] = &[
    must("max", "time", "Never above it."),
    must("sustained", "time", "Above it only for less than `grace`."),
    must("grace", "time", "How long it may be above `sustained`."),
    may("only", "[]text", "Of the variants with one of these entries."),
];

const RATIO: &[Key] = &[
    must("of", "metric", "A ratio, as in iops.ratio(a/b)."),
    may("at_least", "share", "One of these three is given."),
    may("at_most", "share", "One of these three is given."),
    may("equal_within", "share", "One of these three is given: the ratio is 1, give or take this."),
    may("note", "text", "What is to be known of it."),
];

const VALUE: &[Key] = &[
    must("of", "metric", "Of every run, or of the runs of an entry."),
    may("at_least", "share", "One of these two is given."),
    may("at_most", "share", "One of these two is given."),
    may("note", "text", "What is to be known of it."),
];

const UNDISTURBED: &[Key] = &[must("at_least", "share", "Of the rate before a snapshot, behind it.")];

const IO: &[Key] = &[
    must("data", "scaled-size", "Of all files together."),
    must("mix", "[]part", "Which requests, in which shares."),
    may("mix_by", "mix-by", "What the shares are shares of."),
    must("outstanding", "scaled-count", "Requests under way in each thread."),
    may("threads", "scaled-count", "Of each file."),
    may("rate", "rate", "Requests come at this rate, whatever the target does: 1000/s, or 50% of ENTRY."),
    may("layout", "layout", "How files lie on volumes."),
    must("content", "content", "What written blocks hold."),
    may("precondition", "precondition", "How the data were written before."),
    may("shift", "scaled-size", "Every request begins so many bytes behind a multiple of its size."),
    may("grows", "boolean", "Variants that differ in size share one data set, which grows."),
    may("zipf", "share", "The exponent of Zipf's law that random places follow."),
    may("copies", "copies", "What the array has of the volume meanwhile."),
];

const ORDERS: &[Key] = &[
    must("warehouses", "scaled-count", "About 111 MiB each."),
    must("users", "scaled-count", "Sessions at a time."),
    may("pauses", "boolean", "Users key in and think."),
    may("rate", "rate", "Transactions come at this rate."),
    may("cores", "scaled-count", "Processors that the server is kept on; with `busy`."),
    may("busy", "share", "Transactions come at the rate that keeps them so busy."),
];

const POINTS: &[Key] = &[
    must("data", "scaled-size", "Of all rows."),
    must("users", "scaled-count", "Sessions at a time."),
    may("ranges", "boolean", "Three of ten bytes in short ranges."),
    may("rate", "rate", "Reads come at this rate."),
];

const BROKER: &[Key] = &[
    must("data", "scaled-size", "Of all tables."),
    must("users", "scaled-count", "Sessions at a time."),
    may("trade_days", "scaled-count", "Of past trades."),
    may("rate", "rate", "Transactions come at this rate."),
];

const FACTLOAD: &[Key] =
    &[must("data", "scaled-size", "Of all sources."), must("users", "scaled-count", "Loaders at a time.")];

const MIXED: &[Key] = &[
    must("data", "scaled-size", "Of rows that are read by key, and of sources: a half each."),
    must("readers", "scaled-count", "Sessions that read at a time."),
    must("loaders", "scaled-count", "Sessions that load at a time."),
    may("ranges", "boolean", "Three of ten bytes are read in short ranges."),
    may("works", "mixed-works", "Which of them run; both where it is left out."),
];

const ROWS: &[Key] = &[
    must("data", "scaled-size", "Of the table with its indexes."),
    must("buffers", "scaled-size", "Shared buffers of the server."),
    must("job", "rows-job", "What is done with the rows."),
    may("call", "rows-call", "How the server is asked."),
    must("groups", "scaled-count", "Groups of a hundred rows that are selected in each pass."),
    may("durable", "boolean", "Changes are logged, and commits wait for the log."),
    may("prewarm", "boolean", "The table is read into the buffers before each pass."),
];

const SPACE: &[Key] = &[
    must("data", "scaled-size", "Of all databases together, as loaded."),
    may("sizes", "[]count", "Relative to each other."),
    may("twins", "count", "How often there is a database of each size."),
    may("made", "origin", "How a twin comes to be."),
    may("change", "share", "Of the rows of a twin that are changed behind the copy."),
    may("provisioned", "share", "A volume is so many times as large as it has to be."),
    may("log", "share", "Of the tables: a log that is written full of zeroes before."),
    may("snapshots", "count", "Of all volumes, taken when everything is there."),
    may("dedupe", "boolean", "Volumes look for equal blocks."),
];

const RESTORE: &[Key] = &[
    must("data", "scaled-size", "Of all files together."),
    must("files", "count", "How many."),
    must("changed", "share", "Of the files: written anew behind the snapshot."),
    may("way", "way", "How the content comes back."),
];

const COPIES: &[Key] = &[
    may("snapshots", "scaled-count", "Held meanwhile; before each a part of the data is overwritten."),
    may("clone", "clone-use", "A clone that is there, or is what requests go to."),
];

const DATABASES: &[Key] = &[
    must("data", "scaled-size", "Of all that are loaded."),
    must("database", "[]database", "In the order in which they are started."),
    must("loaded", "scaled-count", "The first so many of them are loaded."),
    must("running", "scaled-count", "The first so many of those are started in a run."),
    may("users_by", "scaled-count", "Users of each database are divided by it."),
    may("stagger", "scaled-time", "Between the start of a database and the next one's."),
    may("rate", "rate", "Of each user, whether transactions before are done or not."),
    may("version", "version", "Of the servers, where several are installed."),
];

const DATABASE: &[Key] = &[
    must("name", "text", "Of the database."),
    must("size", "count", "Relative to the others."),
    must("users", "count", "Who work on it."),
    must("server", "text", "Which server it is on."),
];

const BILL: &[Key] = &[
    must("values", "text", "Where the values come from, in a word: illustrative, quoted."),
    must("currency", "text", "Of all prices."),
    may("rates_of", "[]text", "Experiments whose results tell what the arrays do."),
    may("reduction", "share", "Bytes of hosts in one byte of the array."),
    may("parts", "[]piece", "What the array is made of."),
];

const PART: &[Key] = &[
    must("op", "operation", "What is done."),
    must("pattern", "pattern", "Where."),
    must("bs", "size", "Of a request."),
    must("share", "share", "All shares sum to 1."),
];

const LAYOUT: &[Key] = &[
    may("volumes", "count", "Of the target."),
    may("map", "map", "How files lie on them."),
    may("unit", "size", "Of a stripe."),
    may("block", "size", "The smallest request that a volume takes."),
    may("cluster", "size", "Files lie on an ext4 that hands out so many bytes at once."),
    may("file_system", "file-system", "On a volume that is made for it."),
];

const CONTENT: &[Key] = &[
    must("compress", "share", "Size before by size after."),
    may("duplicates", "share", "Of blocks that exist already."),
    may("unique", "boolean", "No block is there twice."),
];

const PIECE: &[Key] = &[
    must("name", "text", "Of the part."),
    must("count", "count", "How many of them."),
    may("units", "share", "Of rack space, each."),
    must("watts_idle", "share", "Each."),
    must("watts_busy", "share", "Each."),
    must("price", "share", "Each."),
    may("usable", "size", "Left for data, of each."),
];

/// The whole schema, as `ashlar lab explain --schema` prints it.
#[must_use]
pub fn schema() -> String {
    let mut definitions = plain();
    for (name, kind, keys) in TABLES {
        definitions.insert((*name).to_string(), table(*kind, keys));
    }
    for (name, literal) in [("scaled-size", "size"), ("scaled-time", "time"), ("scaled-count", "count")] {
        definitions.insert(name.to_string(), scaled(literal));
    }
    definitions.insert("engine".into(), one_of(&["engine-none", "engine-postgres"]));
    definitions.insert("check".into(), one_of(&kinds_of("check-")));
    let workloads = [
        "io",
        "orders",
        "points",
        "broker",
        "factload",
        "mixed",
        "rows",
        "space",
        "restore",
        "databases",
        "bill",
    ];
    // An entry of the matrix may have any of their keys, so none of them is required.
    definitions.insert("workload".into(), workload(&workloads, &["kind"]));
    definitions.insert("entry".into(), entry(&workloads));
    definitions
        .insert("content".into(), json!({ "anyOf": [{ "const": "sqlio" }, reference("content-table")] }));
    let whole = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A scenario of the Ashlar lab",
        "$ref": "#/definitions/scenario",
        "definitions": definitions,
    });
    serde_json::to_string_pretty(&whole).expect("a schema is plain data") + "\n"
}

/// What is no table.
fn plain() -> Map<String, Value> {
    let quantity = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    let words = |words: &[&str]| json!({ "enum": words });
    let number = || json!({ "type": "number", "minimum": 0 });
    let all = json!({
        "text": { "type": "string" },
        "boolean": { "type": "boolean" },
        "number": { "type": "number" },
        "format": { "const": 1 },
        "count": { "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 1_000_000 }, quantity("^[0-9]+$")] },
        "share": { "anyOf": [number(), quantity("^[0-9.]+ *%?$")] },
        "size": quantity("^[0-9.]+ *(B|k|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"),
        "time": quantity("^[0-9.]+ *(ms|s|m|h)$"),
        "rate": {
            "anyOf": [
                quantity("^[0-9.]+ *(/s|%? of [a-z0-9-]+)$"),
                { "type": "object", "properties": presets(&quantity("^[0-9.]+ */s$")), "additionalProperties": false },
            ]
        },
        "metric": quantity("^[a-z0-9_]+(\\([a-z0-9-]+\\)|\\.ratio\\([a-z0-9-]+/[a-z0-9-]+\\)|\\.under\\([0-9.]+(ms|s)\\))?$"),
        "settings": { "type": "object", "additionalProperties": { "type": "string" } },
        "matrix": {
            "type": "object",
            "additionalProperties": { "type": "array", "minItems": 1, "items": reference("entry") },
        },
        "operation": words(&["read", "write"]),
        "pattern": words(&["random", "sequential"]),
        "mix-by": words(&["count", "bytes"]),
        "rows-job": words(&["change", "read"]),
        "rows-call": words(&["statements", "procedure"]),
        "mixed-works": words(&["reads", "load", "both"]),
        "way": words(&["snapshot", "copy"]),
        "clone-use": words(&["beside", "measured"]),
        "origin": words(&["apart", "copied", "changed"]),
        "version": words(&["any", "each", "newer", "older"]),
        "log-role": words(&["with-data", "apart"]),
        "map": words(&["simple", "concat", "stripe"]),
        "file-system": words(&["none", "ext4"]),
        "precondition": words(&["ordered", "aged"]),
    });
    if let Value::Object(map) = all { map } else { Map::new() }
}

fn reference(kind: &str) -> Value {
    match kind.strip_prefix("[]") {
        Some(item) => json!({ "type": "array", "items": reference(item) }),
        None => json!({ "$ref": format!("#/definitions/{kind}") }),
    }
}

fn properties(keys: &[Key]) -> Map<String, Value> {
    let property = |key: &Key| {
        // Beside a reference draft 7 sees nothing else.
        let value = json!({ "description": key.says, "allOf": [reference(key.kind)] });
        (key.name.to_string(), value)
    };
    keys.iter().map(property).collect()
}

fn table(kind: Option<&str>, keys: &[Key]) -> Value {
    let mut properties = properties(keys);
    let mut required: Vec<&str> = keys.iter().filter(|key| key.is_required).map(|key| key.name).collect();
    if let Some(kind) = kind {
        properties.insert("kind".into(), json!({ "const": kind }));
        required.push("kind");
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A literal, or a table of presets with a default or an invariant.
fn scaled(literal: &str) -> Value {
    let table = json!({
        "type": "object",
        "properties": presets(&reference(literal)),
        "additionalProperties": false,
    });
    json!({ "anyOf": [reference(literal), table] })
}

fn presets(literal: &Value) -> Map<String, Value> {
    let mut keys: Map<String, Value> = ["xs", "s", "m", "l", "paper", "default"]
        .map(|key| (key.to_string(), literal.clone()))
        .into_iter()
        .collect();
    let says = "A sum over data, users, cores, memory and space, as in data/17.";
    keys.insert("invariant".into(), json!({ "type": "string", "description": says }));
    keys
}

fn kinds_of(prefix: &str) -> Vec<&'static str> {
    TABLES.iter().map(|(name, ..)| *name).filter(|name| name.starts_with(prefix)).collect()
}

fn one_of(names: &[&str]) -> Value {
    let all: Vec<Value> = names.iter().map(|name| reference(name)).collect();
    json!({ "oneOf": all })
}

/// Any key of any of them, as the matrix may bring what the file leaves out.
fn workload(kinds: &[&str], required: &[&str]) -> Value {
    let mut all = properties_of(kinds);
    all.insert("kind".into(), json!({ "enum": kinds }));
    json!({ "type": "object", "properties": all, "required": required, "additionalProperties": false })
}

fn entry(kinds: &[&str]) -> Value {
    let mut all = properties_of(kinds);
    let says = "A target of its own; @target is what the user gave.";
    all.insert("id".into(), json!({ "type": "string", "pattern": "^[a-z0-9-]+$" }));
    all.insert("use".into(), json!({ "type": "string", "description": says }));
    json!({ "type": "object", "properties": all, "required": ["id"], "additionalProperties": false })
}

fn properties_of(kinds: &[&str]) -> Map<String, Value> {
    let of = TABLES.iter().filter(|(name, ..)| kinds.contains(name));
    of.flat_map(|(_, _, keys)| properties(keys)).collect()
}
