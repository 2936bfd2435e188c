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
                    "bytes",
                    "millis",
                    "micros",
                    // Of a latency in `..._latency_micros`.
                    "p50",
                    "p99",
                    "max",
                ]
                .contains(&field.as_str());
            assert!(!is_number || has_unit, "{schema}.{field} is a number without a unit in its name");
        }
    }
}
