//! The API's types refuse what they should, and the checked-in description is fresh.

#![allow(clippy::unwrap_used)]

use crate::*;

/// Where the description is kept, from this crate's folder.
const OPENAPI_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/openapi.json");

#[test]
fn the_checked_in_openapi_description_is_fresh() {
    // `ASHLAR_BLESS=1 cargo test -p ashlar-api` writes it anew.
    if std::env::var_os("ASHLAR_BLESS").is_some() {
        std::fs::write(OPENAPI_FILE, openapi_json()).unwrap();
    }
    let kept = std::fs::read_to_string(OPENAPI_FILE).unwrap_or_default();
    assert!(
        kept == openapi_json(),
        "docs/reference/openapi.json is stale: ASHLAR_BLESS=1 cargo test -p ashlar-api writes it anew"
    );
}

#[test]
fn unknown_fields_of_requests_are_refused() {
    let text = r#"{"name":"db","size_bytes":4096,"sise":1}"#;
    let error = serde_json::from_str::<VolumeCreate>(text).unwrap_err().to_string();
    assert!(error.contains("sise"), "{error}");
}

#[test]
fn a_volume_request_has_the_documented_defaults() {
    let request: VolumeCreate = serde_json::from_str(r#"{"name":"db","size_bytes":4096}"#).unwrap();
    assert_eq!(request.logical_block_bytes, 4096);
    assert_eq!(request.compression, Compression::Lz4);
    assert!(!request.dedupe);
    assert_eq!(request.pool, None);
}

#[test]
fn every_operation_is_described_once() {
    let operations = operations();
    let unique: std::collections::BTreeSet<_> = operations.iter().collect();
    assert_eq!(unique.len(), operations.len());
    assert!(operations.contains(&("POST".to_string(), "/v1/pools/{pool}/check".to_string())));
}

#[test]
fn every_object_of_the_description_says_its_units() {
    // A bare `size` or `latency` would leave the reader guessing; names end in their unit.
    let document = serde_json::to_value(openapi()).unwrap();
    for (schema, body) in document["components"]["schemas"].as_object().unwrap() {
        for (field, kind) in body["properties"].as_object().into_iter().flatten() {
            let is_number = kind["type"] == "integer" || kind["type"][0] == "integer";
            let has_unit = [
                "_bytes",
                "_percent",
                "_seconds",
                "_millis",
                "_micros",
                "_count",
                "_replayed",
                "_per_second",
                "_id",
                "_number",
                "_version",
            ]
            .iter()
            .any(|unit| field.ends_with(unit))
                || field.starts_with("latency_micros_")
                || [
                    "id",
                    "port",
                    "number",
                    "width",
                    "sequence",
                    "generation",
                    "count",
                    "errors",
                    // SCSI's word for the number of a unit.
                    "lun",
                    "bytes",
                    "millis",
                    "micros",
                    // Of a latency in `..._latency_micros`.
                    "p50",
                    "p99",
                    "max",
                    // Of HTTP.
                    "status",
                ]
                .contains(&field.as_str());
            assert!(!is_number || has_unit, "{schema}.{field} is a number without a unit in its name");
        }
    }
}

/// The operations of the description, each with its method, path and what is said of it.
fn described() -> Vec<(String, String, serde_json::Value)> {
    let document = serde_json::to_value(openapi()).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.clone(), path.clone(), operation.clone()));
        }
    }
    all
}

fn parameters(operation: &serde_json::Value, place: &str) -> Vec<String> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let there = all.filter(|one| one["in"] == place);
    there.map(|one| one["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn every_refusal_of_the_description_is_a_problem() {
    let document = serde_json::to_value(openapi()).unwrap();
    for (method, path, operation) in described() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            if status.starts_with('2') {
                continue;
            }
            let response = match response["$ref"].as_str() {
                Some(place) => document.pointer(place.strip_prefix('#').unwrap()).unwrap(),
                None => response,
            };
            let kinds: Vec<&String> = response["content"].as_object().unwrap().keys().collect();
            assert_eq!(kinds, ["application/problem+json"], "{method} {path} {status}");
            let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(schema, "#/components/schemas/Problem", "{method} {path} {status}");
        }
        let has_body = operation.get("requestBody").is_some();
        for (status, is_there) in [("401", true), ("403", true), ("413", has_body), ("415", has_body)] {
            let found = operation["responses"].get(status).is_some();
            assert!(found || !is_there, "{method} {path}: {status} is not described");
        }
    }
}

#[test]
fn every_list_takes_pages_and_an_order_and_every_post_a_key() {
    let mut list_count = 0;
    for (method, path, operation) in described() {
        let query = parameters(&operation, "query");
        if query.iter().any(|name| name == "limit") {
            list_count += 1;
            for name in ["cursor", "sort", "order"] {
                assert!(query.iter().any(|one| one == name), "{path}: {name}");
            }
            assert!(operation["responses"]["200"]["headers"]["Link"].is_object(), "{path}");
        }
        let takes_key = parameters(&operation, "header").iter().any(|name| name == "Idempotency-Key");
        // What opens the array is told once.
        let is_secret = secret_operations().contains(&(method.to_uppercase(), path.clone()));
        let is_kept = method == "post" && !is_secret;
        assert_eq!(takes_key, is_kept, "{method} {path}");
        assert_eq!(operation["responses"].get("422").is_some(), is_kept, "{method} {path}");
    }
    assert_eq!(list_count, 17);
}

#[test]
fn what_heeds_if_match_is_a_change_and_what_is_made_has_an_address() {
    let conditional = conditional_operations();
    assert_eq!(conditional.len(), 20);
    for (method, path, operation) in described() {
        let heeds = parameters(&operation, "header").iter().any(|name| name == "If-Match");
        assert_eq!(heeds, conditional.contains(&(method.to_uppercase(), path.clone())), "{method} {path}");
        assert_eq!(operation["responses"].get("412").is_some(), heeds, "{method} {path}");
        if heeds {
            assert!(["put", "patch", "delete"].contains(&method.as_str()), "{method} {path}");
        }
        let made = &operation["responses"]["201"];
        let is_of_console = path.starts_with("/v1/console-") || path == "/v1/sessions";
        assert_eq!(
            made["headers"]["Location"].is_object(),
            made.is_object() && !is_of_console,
            "{method} {path}"
        );
    }
    let tagged = described().into_iter().filter(|(_, _, one)| {
        let responses = one["responses"].as_object().unwrap().values();
        responses.into_iter().any(|response| response["headers"]["ETag"].is_object())
    });
    assert_eq!(tagged.count(), 28);
    let long = described()
        .into_iter()
        .filter(|(_, _, one)| one["responses"]["202"]["headers"]["Location"].is_object());
    let long: Vec<_> = long.collect();
    assert_eq!(long.len(), 7);
    for (method, path, operation) in long {
        assert!(parameters(&operation, "query").contains(&"wait".to_string()), "{method} {path}");
        assert!(parameters(&operation, "header").contains(&"Prefer".to_string()), "{method} {path}");
    }
}

#[test]
fn kinds_and_reasons_are_called_as_they_are_written() {
    let mut names = std::collections::BTreeSet::new();
    for kind in ErrorKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert!(names.insert(kind.name()), "{}", kind.name());
        assert_eq!(kind.type_uri(), format!("/docs/reference/errors.md#{}", kind.name()));
    }
    let mut reasons = std::collections::BTreeSet::new();
    for reason in Reason::ALL {
        assert!(reasons.insert(serde_json::to_string(&reason).unwrap()));
    }
    assert!(root_operations().contains_key("stop") && !root_operations().contains_key("schedule_create"));
    let root_only: Vec<String> = root_only_operations().into_keys().collect();
    assert_eq!(root_only, ["database_commands", "upgrade"]);
}
