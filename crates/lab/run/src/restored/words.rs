//! Content that came back, in words.

use ashlar_report::nanos;
use ashlar_scenario::Returned;

use super::RestoreFigures;

/// For people.
pub(crate) fn name(returned: Returned) -> &'static str {
    match returned {
        Returned::BackMillis => "time until everything is back",
        Returned::ArrayMillis => "time of the array to set a volume back",
    }
}

/// A run in a few words.
pub(crate) fn short(found: &RestoreFigures) -> String {
    let whole = match found.offences.len() {
        0 => "as it was".to_string(),
        _ => format!("not as it was: {}", found.offences.join("; ")),
    };
    format!("back within {}, {whole}", nanos(found.back_nanos as f64))
}
