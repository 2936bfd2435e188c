//! What values of requests may be besides their types: added to the description in one place, so that whoever
//! keeps to it is not refused for a value.
//!
//! The program checks the same by the constants below. A test asks the program whatever the description
//! allows and whatever it does not (`tests/api/run.py`).

use utoipa::openapi::path::Parameter;
use utoipa::openapi::schema::{AdditionalProperties, KnownFormat, Object, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{OpenApi, RefOr, Schema};
use utoipa::{Modify, Number};

use crate::answers::operations;
use crate::{
    MARK_LETTERS_MAX, OBJECTIVE_MICROS_MAX, OBJECTIVE_SECONDS_MAX, OBJECTIVE_SECONDS_MIN,
    PASSWORD_LETTERS_MAX, PASSWORD_LETTERS_MIN, RANGES_MAX, TOKEN_SECONDS_MAX, UNIT_MAX,
};

/// The largest volume.
pub const VOLUME_BYTES_MAX: u64 = 256 << 40;
/// Longest time that a walk over a pool may take: an hour walks pools far larger than one thread serves well.
pub const WITHIN_SECONDS_MAX: u64 = 3600;
/// Longest time in which requests or sessions are looked at. Arbitrary: a request is not to be open for long.
pub const LOOK_SECONDS_MAX: u64 = 60;
/// Longest time that a start of a server may be given. Arbitrary: a day.
pub const START_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Longest time that the commands `freeze` and `thaw` may be given. Arbitrary: an hour.
pub const HOOK_SECONDS_MAX: u64 = 3600;
/// Longest time behind which a clone expires. Arbitrary: ten years.
pub const EXPIRY_SECONDS_MAX: u64 = 10 * 366 * 24 * 60 * 60;
/// The longest time between two snapshots of a schedule: a year.
pub const EVERY_SECONDS_MAX: u64 = 366 * 24 * 60 * 60;
/// The lowest port for programs that do not run as root.
pub const PORT_MIN: u16 = 1024;
/// The least memory of a server: for small buffers and a few sessions.
pub const MEMORY_BYTES_MIN: u64 = 128 << 20;
/// The longest floor of a volume: a second. Who waits for longer notices no windows of a tenth of one.
pub const FLOOR_MICROS_MAX: u64 = 1_000_000;
/// The longest idempotency key.
pub const KEY_BYTES_MAX: usize = 255;

/// Names of objects: `NAME_PATTERN` from end to end.
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$";
/// Names of new databases: what is made for their copies has longer ones.
const DATABASE_NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,45}$";
/// As `KEY_BYTES_MAX` says.
const KEY: &str = "^[!-~]{1,255}$";
/// RFC 9110, section 8.8.3, without letters that are not ASCII.
const TAGS: &str = r#"^(\*|(W/)?"[!#-~]*"([\t ]*,[\t ]*(W/)?"[!#-~]*")*)$"#;
/// Pairs of hexadecimal digits.
const CURSOR: &str = "^([0-9A-Fa-f]{2})+$";
/// `array`, `pool:NAME` or `volume:NAME`.
const FIGURES_OF: &str = r"^(array|(pool|volume):[\s\S]*)$";
/// One line that is not blank.
const LINE: &str = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$";
/// One line, or nothing.
const LINE_OR_NOTHING: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";
/// Parts as `hourly=24` with commas between.
const KEEP: &str = "^(seconds|minutes|hourly|daily|weekly|monthly|last)=[1-9][0-9]{0,4}\
    (,(seconds|minutes|hourly|daily|weekly|monthly|last)=[1-9][0-9]{0,4})*$";
/// An iSCSI name, at most 223 bytes.
const INITIATOR: &str = r"^([iI][qQ][nN]|[eE][uU][iI]|[nN][aA][aA])\.[!-+\--~]{1,219}$";
/// What CHAP calls a host.
const CHAP_USER: &str = "^[ -~]{1,255}$";
/// A secret of CHAP.
const SECRET: &str = "^[ -~]{12,255}$";
/// What a person types: no control characters.
const PASSWORD: &str = LINE_OR_NOTHING;
/// A path from the root on.
const ABSOLUTE: &str = r"^/[^\x00]*$";

/// What a value may be.
#[derive(Clone, Copy)]
enum Bound {
    /// From the first to the second.
    Range(u64, u64),
    /// A multiple of the first, up to the second.
    Steps(u64, u64),
    /// Above nothing, up to this.
    Above(u64),
    /// One of these.
    Either(&'static [u64]),
    /// A text of this pattern.
    Pattern(&'static str),
    /// A text of this pattern, of so many letters.
    Letters(&'static str, usize, usize),
    /// None of them twice.
    Different,
}

use Bound::{Above, Different, Either, Letters, Pattern, Range, Steps};

/// Of parameters and headers: the operation, or each that has such a one, and the name.
const PARAMETERS: &[(&str, &str, Bound)] = &[
    ("", "Idempotency-Key", Pattern(KEY)),
    ("", "If-Match", Pattern(TAGS)),
    ("", "cursor", Pattern(CURSOR)),
    ("", "within_seconds", Range(1, WITHIN_SECONDS_MAX)),
    ("history", "object", Pattern(FIGURES_OF)),
    ("latencies", "object", Pattern(FIGURES_OF)),
    ("pool_import", "pool", Pattern(NAME)),
    ("volume_profile", "seconds", Range(1, LOOK_SECONDS_MAX)),
    ("database_waits", "seconds", Range(1, LOOK_SECONDS_MAX)),
    ("volume_diff", "from_bytes", Steps(4096, u64::MAX)),
    ("volume_diff", "ranges_count", Range(1, RANGES_MAX)),
];

/// Of fields: the schema, or each request that has such a one, and the name.
const FIELDS: &[(&str, &str, Bound)] = &[
    ("", "start_timeout_seconds", Range(1, START_SECONDS_MAX)),
    ("", "expires_after_seconds", Range(1, EXPIRY_SECONDS_MAX)),
    ("", "port", Range(PORT_MIN as u64, u16::MAX as u64)),
    ("", "memory_bytes", Range(MEMORY_BYTES_MIN, u64::MAX)),
    ("", "mount", Pattern(ABSOLUTE)),
    ("", "from_directory", Pattern(ABSOLUTE)),
    ("ChapLogin", "secret", Pattern(SECRET)),
    ("ChapLogin", "user", Pattern(CHAP_USER)),
    ("CloneCreate", "floor_micros", Range(0, FLOOR_MICROS_MAX)),
    ("CloneCreate", "limit_bytes", Range(1, u64::MAX)),
    ("CloneCreate", "name", Pattern(NAME)),
    ("DatabaseClone", "name", Pattern(DATABASE_NAME)),
    ("DatabaseCreate", "log_floor_micros", Range(0, FLOOR_MICROS_MAX)),
    ("DatabaseCreate", "name", Pattern(DATABASE_NAME)),
    ("DatabaseFollow", "name", Pattern(DATABASE_NAME)),
    ("DatabaseHooks", "timeout_seconds", Range(1, HOOK_SECONDS_MAX)),
    ("DatabaseImport", "name", Pattern(DATABASE_NAME)),
    ("DatabaseSnapshot", "databases", Different),
    ("DriveChange", "endurance_bytes", Range(1, i64::MAX as u64)),
    ("DriveSpec", "path", Pattern(ABSOLUTE)),
    ("ExportCreate", "block_bytes", Either(&[512, 4096])),
    ("ExportCreate", "lun", Range(0, UNIT_MAX as u64)),
    ("HoldRequest", "reason", Letters(LINE_OR_NOTHING, 0, 200)),
    ("HostCreate", "initiator", Pattern(INITIATOR)),
    ("HostCreate", "name", Pattern(NAME)),
    ("MarkCreate", "text", Letters(LINE, 1, MARK_LETTERS_MAX)),
    ("ObjectiveSet", "for_percent", Above(100)),
    ("ObjectiveSet", "over_seconds", Range(OBJECTIVE_SECONDS_MIN, OBJECTIVE_SECONDS_MAX)),
    ("ObjectiveSet", "p99_micros", Range(1, OBJECTIVE_MICROS_MAX)),
    ("PasswordChange", "new_password", Letters(PASSWORD, PASSWORD_LETTERS_MIN, PASSWORD_LETTERS_MAX)),
    ("ReclaimRequest", "within_seconds", Range(1, WITHIN_SECONDS_MAX)),
    ("ScheduleChange", "every_seconds", Range(1, EVERY_SECONDS_MAX)),
    ("ScheduleChange", "keep", Pattern(KEEP)),
    ("ScheduleCreate", "every_seconds", Range(1, EVERY_SECONDS_MAX)),
    ("ScheduleCreate", "keep", Pattern(KEEP)),
    ("ScheduleCreate", "prove_every_count", Range(1, u32::MAX as u64)),
    ("SnapshotCreate", "volumes", Different),
    ("TokenCreate", "expires_after_seconds", Range(1, TOKEN_SECONDS_MAX)),
    ("TokenCreate", "name", Pattern(NAME)),
    ("UserChange", "password", Letters(PASSWORD, PASSWORD_LETTERS_MIN, PASSWORD_LETTERS_MAX)),
    ("UserCreate", "name", Pattern(NAME)),
    ("UserCreate", "password", Letters(PASSWORD, PASSWORD_LETTERS_MIN, PASSWORD_LETTERS_MAX)),
    ("VolumeCreate", "floor_micros", Range(0, FLOOR_MICROS_MAX)),
    ("VolumeCreate", "limit_bytes", Range(1, u64::MAX)),
    ("VolumeCreate", "logical_block_bytes", Either(&[512, 4096])),
    ("VolumeCreate", "size_bytes", Range(4096, VOLUME_BYTES_MAX)),
    ("VolumePolicy", "floor_micros", Range(0, FLOOR_MICROS_MAX)),
    ("VolumeResize", "size_bytes", Range(4096, VOLUME_BYTES_MAX)),
    ("VolumeUndelete", "name", Pattern(NAME)),
];

/// Adds the bounds to the description.
pub(crate) struct Bounds;

impl Modify for Bounds {
    fn modify(&self, openapi: &mut OpenApi) {
        for item in openapi.paths.paths.values_mut() {
            for (_, operation) in operations(item) {
                let id = operation.operation_id.clone().unwrap_or_default();
                for parameter in operation.parameters.iter_mut().flatten() {
                    let RefOr::T(Parameter { name, schema: Some(RefOr::T(schema)), .. }) = parameter else {
                        continue;
                    };
                    add(PARAMETERS, &id, name, schema);
                }
            }
        }
        let components = openapi.components.get_or_insert_default();
        for (name, schema) in &mut components.schemas {
            let RefOr::T(Schema::Object(object)) = schema else { continue };
            if !is_of_request(object) {
                continue;
            }
            for (field, schema) in &mut object.properties {
                if let RefOr::T(schema) = schema {
                    add(FIELDS, name, field, schema);
                }
            }
        }
    }
}

/// Only what is asked for takes no field that it does not know.
fn is_of_request(object: &Object) -> bool {
    matches!(object.additional_properties.as_deref(), Some(AdditionalProperties::FreeForm(false)))
}

fn add(bounds: &[(&str, &str, Bound)], of: &str, name: &str, schema: &mut Schema) {
    let found = bounds.iter().filter(|(place, known, _)| *known == name && [of, ""].contains(place));
    for (.., bound) in found {
        match schema {
            Schema::Object(object) => bind(object, *bound),
            Schema::Array(array) => array.unique_items |= matches!(bound, Different),
            // One of several schemas: no value of ours with a bound is.
            _ => {}
        }
    }
    if let Schema::Object(object) = schema {
        bind_type(object);
    }
}

fn bind(object: &mut Object, bound: Bound) {
    match bound {
        Range(least, most) => {
            object.minimum = Some(number(least));
            object.maximum = Some(number(most));
        }
        Steps(step, most) => {
            object.multiple_of = Some(number(step));
            object.maximum = Some(number(most / step * step));
        }
        Above(most) => {
            object.exclusive_minimum = Some(number(0));
            object.maximum = Some(number(most));
        }
        Either(values) => {
            // A list of values holds for what is left out, too.
            let is_optional =
                matches!(&object.schema_type, SchemaType::Array(all) if all.contains(&Type::Null));
            let absent = is_optional.then_some(serde_json::Value::Null);
            let values = values.iter().map(|value| (*value).into());
            object.enum_values = Some(values.chain(absent).collect());
        }
        Pattern(pattern) => object.pattern = Some(pattern.to_string()),
        Letters(pattern, least, most) => {
            object.pattern = Some(pattern.to_string());
            object.min_length = (least > 0).then_some(least);
            object.max_length = Some(most);
        }
        Different => {}
    }
}

/// What no bound says of a number its type does: none has a sign, and all their bits count.
fn bind_type(object: &mut Object) {
    let is_integer = match &object.schema_type {
        SchemaType::Type(of) => *of == Type::Integer,
        SchemaType::Array(all) => all.contains(&Type::Integer),
        SchemaType::AnyValue => false,
    };
    let is_long = matches!(&object.format, Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
    if is_integer && is_long && object.maximum.is_none() && object.enum_values.is_none() {
        object.format = Some(SchemaFormat::Custom("uint64".to_string()));
        object.maximum = Some(number(u64::MAX));
    }
}

fn number(value: u64) -> Number {
    Number::UInt(value as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::Value;

    use super::*;

    /// Operations or schemas, what is named there, and what is said of it.
    type Said = Vec<(String, String, Value)>;

    /// Of every parameter, and of every field of requests.
    fn described() -> (Said, Said) {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let (mut parameters, mut fields) = (Vec::new(), Vec::new());
        let text = |value: &Value| value.as_str().unwrap().to_string();
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                for one in operation["parameters"].as_array().into_iter().flatten() {
                    let place = (text(&operation["operationId"]), text(&one["name"]));
                    parameters.push((place.0, place.1, one["schema"].clone()));
                }
            }
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let is_of_request = schema["additionalProperties"] == false;
            let own = properties.map(|(field, schema)| (name.clone(), field.clone(), schema.clone()));
            fields.extend(own.filter(|_| is_of_request));
        }
        (parameters, fields)
    }

    #[test]
    fn every_bound_is_of_something_that_is_there() {
        let (parameters, fields) = described();
        for (bounds, there) in [(PARAMETERS, &parameters), (FIELDS, &fields)] {
            for (place, name, _) in bounds {
                let is_meant = |(of, known, _): &&(String, String, Value)| {
                    known == name && (place.is_empty() || of == place)
                };
                assert!(there.iter().any(|one| is_meant(&one)), "{place}.{name} is nowhere");
            }
        }
    }

    #[test]
    fn every_number_of_a_request_has_bounds() {
        let (parameters, fields) = described();
        for (of, name, schema) in parameters.iter().chain(&fields) {
            let is_integer = schema["type"] == "integer" || schema["type"][0] == "integer";
            let is_bound =
                !schema["enum"].is_null() || (!schema["maximum"].is_null() && !schema["minimum"].is_null());
            assert!(!is_integer || is_bound || schema["format"] == "int32", "{of}.{name}: {schema}");
        }
        let of = |place: &str, name: &str| {
            let mut all = parameters.iter().chain(&fields);
            all.find(|(of, known, _)| of == place && known == name).unwrap().2.clone()
        };
        assert_eq!(of("volume_diff", "from_bytes")["multipleOf"], 4096);
        assert_eq!(of("VolumeCreate", "logical_block_bytes")["enum"], serde_json::json!([512, 4096]));
        assert_eq!(of("ExportCreate", "block_bytes")["enum"], serde_json::json!([512, 4096, null]));
        assert_eq!(of("VolumeCreate", "limit_bytes")["maximum"], u64::MAX);
        assert_eq!(of("SnapshotCreate", "volumes")["uniqueItems"], true);
        assert_eq!(of("MarkCreate", "text")["maxLength"], MARK_LETTERS_MAX);
        assert_eq!(of("ObjectiveSet", "for_percent")["exclusiveMinimum"], 0);
        let (of_key, of_name) = (of("volume_create", "Idempotency-Key"), of("CloneCreate", "name"));
        assert_eq!(of_key["pattern"], format!("^[!-~]{{1,{KEY_BYTES_MAX}}}$"));
        assert_eq!(of_name["pattern"], format!("^{}$", crate::NAME_PATTERN));
    }
}
