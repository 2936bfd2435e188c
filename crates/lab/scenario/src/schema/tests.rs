//! The schema against what the reader knows, and against every scenario there is.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::{TABLES, Table, schema};
use crate::workload::Workload;

/// The keys that the reader knows of a table: it lists them when it meets another.
fn known(error: &str) -> BTreeSet<String> {
    assert!(error.contains("unknown field `no-key`"), "{error}");
    error.split('`').skip(3).step_by(2).map(str::to_string).collect()
}

fn of_type<T: std::fmt::Debug + for<'de> Deserialize<'de>>(kind: Option<&str>) -> BTreeSet<String> {
    let kind = kind.map_or(String::new(), |kind| format!("kind = \"{kind}\"\n"));
    let read = toml::from_str::<T>(&format!("{kind}no-key = 1"));
    known(read.expect_err("it has no such key").message())
}

fn of_workload(kind: &str) -> BTreeSet<String> {
    let table = toml::from_str(&format!("kind = \"{kind}\"\nno-key = 1")).unwrap();
    known(Workload::from_table(table).expect_err("it has no such key").message())
}

fn read_keys((name, kind, _): &Table) -> BTreeSet<String> {
    match *name {
        "scenario" => of_type::<crate::file::Scenario>(None),
        "source" => of_type::<crate::file::Source>(None),
        "roles" => of_type::<crate::file::Roles>(None),
        "role" => of_type::<crate::file::Role>(None),
        "phases" => of_type::<crate::file::Phases>(None),
        "published" => of_type::<crate::file::Published>(None),
        "tsql" => of_type::<crate::file::TSql>(None),
        "copies" => of_type::<crate::held::Copied>(None),
        "snapshot" => of_type::<crate::file::Event>(*kind),
        "part" => of_type::<crate::mix::Part>(None),
        "layout" => of_type::<crate::workload::Layout>(None),
        "database" => of_type::<crate::several::One>(None),
        "piece" => of_type::<crate::bill::Piece>(None),
        "content-table" => of_type::<crate::workload::ContentForm>(None),
        engine if engine.starts_with("engine-") => of_type::<crate::file::Engine>(*kind),
        check if check.starts_with("check-") => of_type::<crate::file::Check>(*kind),
        workload => of_workload(workload),
    }
}

#[test]
fn every_table_has_the_keys_that_the_reader_knows() {
    for table in TABLES {
        let told: BTreeSet<String> = table.2.iter().map(|key| key.name.to_string()).collect();
        assert_eq!(told, read_keys(table), "{}", table.0);
    }
}

/// What a value breaks of a schema: the parts of draft 7 that ours has.
fn breaks(whole: &Value, rule: &Value, value: &Value) -> Option<String> {
    if let Some(name) = rule["$ref"].as_str() {
        let name = name.strip_prefix("#/definitions/").unwrap();
        return breaks(whole, whole["definitions"].get(name).expect(name), value);
    }
    if let Some(all) = rule["allOf"].as_array() {
        return all.iter().find_map(|rule| breaks(whole, rule, value));
    }
    for any in ["anyOf", "oneOf"] {
        if let Some(all) = rule[any].as_array() {
            let broken: Vec<String> = all.iter().filter_map(|rule| breaks(whole, rule, value)).collect();
            return (broken.len() == all.len()).then(|| broken.join(" and "));
        }
    }
    if let Some(wanted) = rule.get("const") {
        return (wanted != value).then(|| format!("{value} is not {wanted}"));
    }
    if let Some(words) = rule["enum"].as_array() {
        return (!words.contains(value)).then(|| format!("{value} is none of {words:?}"));
    }
    let is_type = match rule["type"].as_str().expect("every other rule has a type") {
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    if !is_type {
        return Some(format!("{value} is no {}", rule["type"]));
    }
    let of_items =
        value.as_array().and_then(|all| all.iter().find_map(|one| breaks(whole, &rule["items"], one)));
    let of_keys = || {
        value.as_object()?.iter().find_map(|(key, value)| match rule["properties"].get(key) {
            Some(rule) => breaks(whole, rule, value),
            None if rule["additionalProperties"].is_object() => {
                breaks(whole, &rule["additionalProperties"], value)
            }
            None => Some(format!("`{key}` is no key")),
        })
    };
    let lacks = || {
        let required = rule["required"].as_array()?.iter().filter_map(Value::as_str);
        required.into_iter().find(|key| value.get(key).is_none()).map(|key| format!("`{key}` is missing"))
    };
    of_items.or_else(of_keys).or_else(lacks)
}

fn verdict(text: &str) -> Option<String> {
    let whole: Value = serde_json::from_str(&schema()).unwrap();
    let value: toml::Value = toml::from_str(text).unwrap();
    breaks(&whole, &whole, &serde_json::to_value(value).unwrap())
}

#[test]
fn every_scenario_keeps_the_schema() {
    for id in crate::ids() {
        assert_eq!(verdict(crate::text(id).unwrap()), None, "{id}");
    }
}

#[test]
fn a_wrong_key_and_a_wrong_value_break_it() {
    let text = crate::text("emc/headline").unwrap();
    let without = text.replacen("question", "qestion", 1);
    assert_eq!(verdict(&without).unwrap(), "`qestion` is no key");
    let wrong = text.replacen("format   = 1", "format   = 2", 1);
    assert_eq!(verdict(&wrong).unwrap(), "2 is not 1");
}
