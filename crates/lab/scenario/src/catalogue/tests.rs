//! The catalogue against the directory, and every scenario at every preset.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_units::ByteCount;

use super::*;
use crate::plan::{Machine, Request, Target, plan};
use crate::scale::Preset;

/// A small machine with a slow target, so that the budgets hold on most.
const MACHINE: Machine =
    Machine { cores: 2, memory: ByteCount(8 << 30), bytes_per_second: ByteCount(200_000_000) };

fn targets(count: usize) -> Vec<Target> {
    let names = ["ashlar", "plain"].into_iter().take(count);
    names.map(|id| Target { id: id.to_string(), address: format!("/{id}"), ..Target::any() }).collect()
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_catalogue_is_the_directory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    let mut found = BTreeSet::new();
    for seed in files_below(&root).into_iter().filter(|path| path.is_dir()) {
        let scenarios =
            files_below(&seed).into_iter().filter(|path| path.extension() == Some("toml".as_ref()));
        for scenario in scenarios {
            let id = scenario.with_extension("").strip_prefix(&root).unwrap().display().to_string();
            assert_eq!(std::fs::read_to_string(&scenario).unwrap(), text(&id).unwrap(), "{id}");
            found.insert(id);
        }
    }
    assert_eq!(found, ids().map(str::to_string).collect());
}

#[test]
fn every_scenario_parses_under_its_own_id() {
    for id in ids() {
        assert_eq!(load(id).unwrap().id, id);
    }
}

#[test]
fn every_scenario_expands_at_every_preset_within_its_budget() {
    let targets = targets(2);
    for id in ids() {
        let scenario = load(id).unwrap();
        for preset in Preset::ALL {
            let request = Request { preset, seed: 1, targets: &targets[..1], machine: MACHINE };
            let planned = plan(&scenario, &request).unwrap();
            let (budget, cuts) = (planned.budget, &planned.cuts);
            assert!(planned.is_within_budget() && !planned.runs.is_empty(), "{id} at {preset}: {cuts:?}");
            let longest = match preset {
                Preset::Xs => Duration::from_secs(2 * 60),
                Preset::S => Duration::from_secs(18 * 60),
                Preset::M => Duration::from_secs(3600),
                Preset::L | Preset::Paper => Duration::MAX,
            };
            assert!(budget <= longest, "{id} at {preset}");
        }
    }
}

/// A target is never compared with itself alone, so two are what is usual.
#[test]
fn two_targets_at_s_keep_three_repetitions_and_more() {
    let targets = targets(2);
    for id in ids() {
        let request = Request { preset: Preset::S, seed: 1, targets: &targets, machine: MACHINE };
        let planned = plan(&load(id).unwrap(), &request).unwrap();
        // "No difference" takes more of them than a difference does.
        let least = match load(id).unwrap() {
            scenario if scenario.is_calculated() => 1,
            _ if id == "kaminario/rdm-vmfs" => 5,
            _ => 3,
        };
        assert!(planned.is_within_budget() && planned.repeat >= least, "{id}: {:?}", planned.cuts);
    }
}

#[test]
fn an_unknown_id_is_answered_with_the_nearest() {
    let said = load("emc/headlines").unwrap_err().to_string();
    assert_eq!(said, "there is no scenario `emc/headlines`; the nearest is `emc/headline`");
}
