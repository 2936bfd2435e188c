//! Who may depend on whom: the floor plan as a table, checked against `cargo metadata`.
//!
//! The rules behind the table, by number (ARCHITECTURE.md draws them):
//! 1. Arrows point down, or inside a floor as drawn. Dev-dependencies are no exception.
//! 2. The engine and the targets never name each other; they meet in `daemon` and in `sim`.
//! 3. Base (but for `runtime`), parity and reduction do no I/O.
//! 4. The world is reached only through `runtime` (kept by clippy.toml, not here).
//! 5. `inspect` reads with `format` and `parity` only; the lab and `demo` use the product only
//!    as any client does. A referee does not wear a team's shirt.
//! 6. `api` holds no behaviour.
//! 7. A third-party dependency is in a floor's list here, with its reason in the root Cargo.toml.
//! 8. Planted faults are turned on by the simulator's own program and by nothing that ships.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Findings;

/// A crate and the crates it may name, dev-dependencies included.
const LAYERS: [(&str, &[&str]); 46] = [
    // Floor 0: words everyone speaks. Only `runtime` touches the world.
    ("units", &[]),
    ("runtime", &["units"]),
    ("block", &["units"]),
    ("telemetry", &["units"]),
    ("format", &["units"]),
    ("layers", &["units", "runtime", "block", "telemetry"]),
    // Floor 1: drives into dependable space.
    ("parity", &["units"]),
    ("drive", &["units", "runtime", "format", "telemetry"]),
    ("pool", &["units", "runtime", "format", "telemetry", "drive", "parity"]),
    // Floor 2: space into volumes.
    ("reduction", &["units", "format"]),
    ("map", &["units", "format"]),
    ("journal", &["units", "runtime", "format", "telemetry", "pool", "drive"]),
    (
        "engine",
        &[
            "units",
            "runtime",
            "block",
            "format",
            "telemetry",
            "layers",
            "drive",
            "pool",
            "journal",
            "map",
            "reduction",
        ],
    ),
    // Floor 2, the other wing: the targets.
    ("nbd", &["units", "runtime", "block", "telemetry", "layers"]),
    ("fuse", &["units", "runtime", "block", "telemetry", "layers"]),
    ("scsi", &["runtime", "block", "layers"]),
    ("iscsi", &["runtime", "block", "telemetry", "layers", "scsi"]),
    // What lives on volumes: other people's programs, driven as any user drives them.
    ("programs", &[]),
    ("postgres", &["programs"]),
    // Floor 3: the array as a product.
    ("api", &["units"]),
    ("client", &["units", "api"]),
    ("keeper", &[]),
    ("database", &["programs", "postgres"]),
    ("schedule", &[]),
    ("figures", &["telemetry", "api"]),
    ("console", &[]),
    (
        "daemon",
        &[
            "units",
            "runtime",
            "block",
            "format",
            "telemetry",
            "layers",
            "drive",
            "pool",
            "engine",
            "nbd",
            "scsi",
            "iscsi",
            "fuse",
            "api",
            "client",
            "keeper",
            "database",
            "schedule",
            "figures",
            "console",
        ],
    ),
    (
        "cli",
        &[
            "units",
            "format",
            "telemetry",
            "reduction",
            "api",
            "client",
            "daemon",
            "sim",
            "demo",
            "inspect",
            "doctor",
            "programs",
            "report",
            "run",
            "selftest",
            "scenario",
            "target",
            "postgres",
            "workload",
            "keeper",
            "schedule",
        ],
    ),
    // Floor 4: does it work.
    ("inspect", &["units", "format", "parity"]),
    (
        "sim",
        &[
            "units",
            "runtime",
            "block",
            "format",
            "telemetry",
            "layers",
            "drive",
            "parity",
            "pool",
            "reduction",
            "map",
            "journal",
            "engine",
            "nbd",
            "scsi",
            "fuse",
            "inspect",
        ],
    ),
    // Floor 4, beside it: does what the papers claim hold, here and on any other target.
    ("statistics", &[]),
    ("report", &[]),
    ("scenario", &["units", "report", "statistics"]),
    ("model", &["report", "statistics"]),
    ("disk", &["model", "statistics"]),
    ("target", &["client", "report", "model", "disk", "postgres"]),
    ("compare", &[]),
    ("fio", &["programs", "statistics"]),
    ("doctor", &["programs", "statistics", "target", "report", "fio", "compare"]),
    ("workload", &["programs", "postgres", "statistics"]),
    ("collect", &["programs", "postgres", "target"]),
    (
        "selftest",
        &["programs", "postgres", "compare", "collect", "disk", "fio", "model", "report", "workload"],
    ),
    (
        "run",
        &[
            "units",
            "programs",
            "postgres",
            "scenario",
            "target",
            "fio",
            "workload",
            "collect",
            "model",
            "statistics",
            "report",
        ],
    ),
    ("demo", &["programs", "postgres"]),
    (
        "fuzz",
        &[
            "units",
            "runtime",
            "block",
            "format",
            "layers",
            "reduction",
            "map",
            "nbd",
            "fuse",
            "scsi",
            "iscsi",
        ],
    ),
    ("xtask", &[]),
];

/// Crates of floors 0 to 2: their whole dependency tree is free of [`FORBIDDEN_BELOW`].
const LOWER_FLOORS: [&str; 17] = [
    "units",
    "runtime",
    "block",
    "telemetry",
    "format",
    "layers",
    "parity",
    "drive",
    "pool",
    "reduction",
    "map",
    "journal",
    "engine",
    "nbd",
    "fuse",
    "scsi",
    "iscsi",
];

/// Runtimes and servers of the control floor. Below it they would bring a clock of their own.
const FORBIDDEN_BELOW: [&str; 9] =
    ["tokio", "hyper", "axum", "reqwest", "tower", "async-std", "smol", "rand", "rayon"];

/// The feature of `units` and `sim` that makes known mistakes possible.
const PLANTED_FEATURE: &str = "planted-faults";

/// Third-party crates by the floor that may name them. The reason stands in the root Cargo.toml.
const THIRD_PARTY: [(&str, &[&str]); 43] = [
    ("io-uring", &["base"]),
    ("libc", &["base", "media", "targets", "control"]),
    ("rustix", &["control", "hosts", "lab", "proof"]),
    ("twox-hash", &["base", "store", "control"]),
    ("rustc-hash", &["base", "media", "store"]),
    ("lz4-sys", &["store"]),
    ("zstd-safe", &["store", "inspect"]),
    ("lz4_flex", &["store", "inspect"]),
    ("signal-hook", &["hosts"]),
    ("serde", &["control", "hosts", "lab", "proof"]),
    ("serde_json", &["control", "lab", "proof", "xtask"]),
    ("serde_path_to_error", &["control"]),
    ("toml", &["control", "lab", "proof"]),
    ("utoipa", &["control"]),
    ("tokio", &["control", "hosts", "lab"]),
    ("tokio-postgres", &["hosts"]),
    ("rustls", &["control", "hosts"]),
    ("rcgen", &["control"]),
    ("tokio-rustls", &["control", "hosts"]),
    ("fuser", &["lab"]),
    ("bytes", &["hosts"]),
    ("rand", &["lab"]),
    ("rand_pcg", &["lab"]),
    ("futures-util", &["hosts", "control"]),
    ("flate2", &["control"]),
    ("sha2", &["control", "targets"]),
    ("md-5", &["targets"]),
    ("sha1", &["targets"]),
    ("crc32c", &["targets"]),
    ("argon2", &["control"]),
    ("x509-parser", &["control"]),
    ("axum", &["control"]),
    ("subtle", &["control", "targets"]),
    ("glob", &["control"]),
    ("hyper", &["control", "lab"]),
    ("hyper-util", &["control", "lab"]),
    ("http-body-util", &["control", "lab"]),
    ("clap", &["control"]),
    ("clap_complete", &["control"]),
    ("clap_mangen", &["control"]),
    ("tar", &["control"]),
    ("mimalloc", &["control", "proof"]),
    ("tempfile", &["media", "store", "control", "hosts", "lab", "proof"]),
];

pub(super) fn check(root: &Path, findings: &mut Findings) -> Result<(), String> {
    let metadata = metadata(root)?;
    let members = members(&metadata);
    check_edges(&members, findings);
    check_reach(&metadata, findings);
    check_planted(&metadata, findings);
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))
        .map_err(|error| format!("read Cargo.toml: {error}"))?;
    check_reasons(&manifest, findings);
    Ok(())
}

/// A workspace member and what it names.
struct Member {
    name: String,
    /// The member's folder seen from the root, or the package name where it is not under crates/.
    floor: String,
    ours: BTreeSet<String>,
    foreign: BTreeSet<String>,
}

fn metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("read cargo metadata: {error}"))
}

fn members(metadata: &Value) -> Vec<Member> {
    let ids: BTreeSet<&str> = texts(&metadata["workspace_members"]).collect();
    let mut members = Vec::new();
    for package in list(&metadata["packages"]) {
        if !ids.contains(text(&package["id"])) {
            continue;
        }
        let mut ours = BTreeSet::new();
        let mut foreign = BTreeSet::new();
        for dependency in list(&package["dependencies"]) {
            let name = text(&dependency["name"]);
            let is_ours = dependency["path"].is_string();
            if is_ours {
                ours.insert(short(name))
            } else {
                foreign.insert(name.to_string())
            };
        }
        let manifest = text(&package["manifest_path"]);
        let folders: Vec<&str> = manifest.split('/').rev().collect();
        // .../crates/FLOOR/NAME/Cargo.toml, or .../crates/xtask/Cargo.toml, or .../fuzz/Cargo.toml.
        let is_on_floor = folders.get(3) == Some(&"crates");
        let floor = if is_on_floor { folders[2].to_string() } else { short(text(&package["name"])) };
        members.push(Member { name: short(text(&package["name"])), floor, ours, foreign });
    }
    members
}

fn check_edges(members: &[Member], findings: &mut Findings) {
    for member in members {
        let place = format!("crate {}", member.name);
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == member.name) else {
            findings.add(&place, "is not in the table of tidy/layers.rs: place it on a floor first");
            continue;
        };
        for dependency in &member.ours {
            if !allowed.contains(&dependency.as_str()) {
                findings.add(&place, format!("may not depend on {dependency}: see rules in tidy/layers.rs"));
            }
        }
        for dependency in &member.foreign {
            let entry = THIRD_PARTY.iter().find(|(name, _)| name == dependency);
            let is_allowed = entry.is_some_and(|(_, floors)| {
                floors.iter().any(|floor| *floor == member.floor || *floor == member.name)
            });
            if !is_allowed {
                let floor = &member.floor;
                findings.add(
                    &place,
                    format!("{dependency} is not in the third-party list of `{floor}` in tidy/layers.rs"),
                );
            }
        }
    }
}

/// Rule 4 for the whole tree below a crate, build tools excepted.
fn check_reach(metadata: &Value, findings: &mut Findings) {
    let mut names = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        names.insert(text(&package["id"]), text(&package["name"]));
    }
    let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let normal = list(&node["deps"]).filter(|dep| {
            let mut kinds = list(&dep["dep_kinds"]);
            kinds.any(|kind| kind["kind"].is_null())
        });
        edges.insert(text(&node["id"]), normal.map(|dep| text(&dep["pkg"])).collect());
    }
    for start in texts(&metadata["workspace_members"]) {
        let name = short(names.get(start).copied().unwrap_or(""));
        if !LOWER_FLOORS.contains(&name.as_str()) {
            continue;
        }
        let mut seen = BTreeSet::from([start]);
        let mut waiting = vec![start];
        while let Some(id) = waiting.pop() {
            for next in edges.get(id).into_iter().flatten() {
                if seen.insert(*next) {
                    waiting.push(*next);
                }
            }
        }
        for id in seen {
            let reached = names.get(id).copied().unwrap_or("");
            if FORBIDDEN_BELOW.contains(&reached) {
                findings.add(&format!("crate {name}"), format!("reaches {reached}, forbidden below control"));
            }
        }
    }
}

/// Rule 8: no dependency turns planted faults on, and the only features that do are these two.
fn check_planted(metadata: &Value, findings: &mut Findings) {
    for package in list(&metadata["packages"]) {
        let name = short(text(&package["name"]));
        let place = format!("crate {name}");
        let turns_on = |features: &Value| texts(features).any(|feature| feature.contains(PLANTED_FEATURE));
        if list(&package["dependencies"]).any(|dependency| turns_on(&dependency["features"])) {
            findings.add(
                &place,
                format!("a dependency turns on {PLANTED_FEATURE}: only `sim` may, by its feature"),
            );
        }
        for (feature, of_others) in package["features"].as_object().into_iter().flatten() {
            let is_known = feature == PLANTED_FEATURE && ["units", "sim"].contains(&name.as_str());
            if !is_known && (feature == PLANTED_FEATURE || turns_on(of_others)) {
                findings.add(&place, format!("feature {feature} turns on {PLANTED_FEATURE}: only `sim` may"));
            }
        }
    }
}

/// Every line of `[workspace.dependencies]` that is not ours has its reason right above it.
fn check_reasons(manifest: &str, findings: &mut Findings) {
    let mut is_inside = false;
    let mut above = "";
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            is_inside = line == "[workspace.dependencies]";
        } else if is_inside && line.contains('=') && !line.contains("path =") && !above.starts_with("# ") {
            let name = line.split(['=', ' ']).next().unwrap_or(line);
            findings.at("Cargo.toml", index, format!("{name}: say why in a `# reason` line above it"));
        }
        above = line;
    }
}

/// `ashlar-pool` and `pool` are the same crate.
fn short(name: &str) -> String {
    name.strip_prefix("ashlar-").unwrap_or(name).to_string()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    list(value).map(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges_of(name: &str, floor: &str, ours: &[&str], foreign: &[&str]) -> Vec<String> {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        let member =
            Member { name: name.into(), floor: floor.into(), ours: set(ours), foreign: set(foreign) };
        let mut findings = Findings::default();
        check_edges(&[member], &mut findings);
        findings.lines
    }

    #[test]
    fn the_engine_and_the_targets_never_name_each_other() {
        assert_eq!(edges_of("engine", "store", &["pool", "nbd"], &[]).len(), 1);
        assert_eq!(edges_of("nbd", "targets", &["block", "engine"], &[]).len(), 1);
        assert_eq!(edges_of("nbd", "targets", &["block", "runtime"], &[]).len(), 0);
    }

    #[test]
    fn a_crate_outside_the_floor_plan_is_refused() {
        assert_eq!(edges_of("scheduler", "store", &[], &[]).len(), 1);
    }

    #[test]
    fn a_third_party_crate_is_refused_on_a_floor_that_does_not_list_it() {
        assert_eq!(edges_of("engine", "store", &[], &["tokio"]).len(), 1);
    }

    #[test]
    fn the_table_has_no_cycle_because_each_crate_names_only_crates_above_it_in_the_table() {
        // `sim`, `demo`, `inspect` and `lab` stand below `cli`, which is the one that names them.
        for (index, (name, allowed)) in LAYERS.iter().enumerate() {
            for dependency in *allowed {
                let place = LAYERS.iter().position(|(other, _)| other == dependency);
                let place = place.expect("every crate named is in the table");
                assert!(place < index || *name == "cli", "{name} names {dependency}");
            }
        }
    }

    #[test]
    fn a_tree_that_reaches_tokio_from_below_is_found() {
        let metadata = serde_json::json!({
            "workspace_members": ["e", "d"],
            "packages": [
                {"id": "e", "name": "ashlar-engine"}, {"id": "d", "name": "ashlar-daemon"},
                {"id": "x", "name": "innocent"}, {"id": "t", "name": "tokio"}],
            "resolve": {"nodes": [
                {"id": "e", "deps": [{"pkg": "x", "dep_kinds": [{"kind": null}]}]},
                {"id": "d", "deps": [{"pkg": "t", "dep_kinds": [{"kind": null}]}]},
                {"id": "x", "deps": [{"pkg": "t", "dep_kinds": [{"kind": null}]}]},
                {"id": "t", "deps": []}]}
        });
        let mut findings = Findings::default();
        check_reach(&metadata, &mut findings);
        assert_eq!(findings.lines.len(), 1, "{:?}", findings.lines);
        assert!(findings.lines[0].contains("engine"));
    }

    #[test]
    fn planted_faults_are_the_simulators_alone() {
        let metadata = serde_json::json!({"packages": [
            {"name": "ashlar-units", "dependencies": [], "features": {"planted-faults": []}},
            {"name": "ashlar-sim", "dependencies": [],
             "features": {"planted-faults": ["ashlar-units/planted-faults"]}},
            {"name": "ashlar-engine", "dependencies": [{"features": ["planted-faults"]}], "features": {}},
            {"name": "ashlar-cli", "dependencies": [],
             "features": {"default": ["ashlar-sim/planted-faults"]}}]});
        let mut findings = Findings::default();
        check_planted(&metadata, &mut findings);
        assert_eq!(findings.lines.len(), 2, "{:?}", findings.lines);
        assert!(findings.lines[0].contains("engine") && findings.lines[1].contains("cli"));
    }

    #[test]
    fn a_third_party_line_without_a_reason_is_found() {
        let manifest =
            "[workspace.dependencies]\na = { path = \"a\" }\n# why b\nb = \"1\"\nc = \"1\"\n[x]\nd = 1\n";
        let mut findings = Findings::default();
        check_reasons(manifest, &mut findings);
        assert_eq!(findings.lines.len(), 1, "{:?}", findings.lines);
        assert!(findings.lines[0].contains("c:"));
    }
}
