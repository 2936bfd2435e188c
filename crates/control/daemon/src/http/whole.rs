//! Whole numbers of a body, however they are written: to JSON `3.0` and `3e2` are as whole as `3`, and some
//! programs write all numbers so.

/// Larger ones have no place in any field.
const NUMBER_MAX: f64 = u64::MAX as f64;

/// The same JSON with each whole number in digits alone; `None` where they are so already.
pub(super) fn in_digits(json: &[u8]) -> Option<Vec<u8>> {
    let mut written = Vec::with_capacity(json.len());
    let (mut rest, mut is_changed) = (json, false);
    while let Some(byte) = rest.first() {
        let length = match byte {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' => {
                rest.iter().take_while(|byte| b"+-.eE".contains(byte) || byte.is_ascii_digit()).count()
            }
            _ => 1,
        };
        let (token, behind) = rest.split_at(length);
        match digits(token).filter(|_| *byte != b'"') {
            Some(digits) => {
                written.extend_from_slice(digits.as_bytes());
                is_changed = true;
            }
            None => written.extend_from_slice(token),
        }
        rest = behind;
    }
    is_changed.then_some(written)
}

/// From one quote to the other, with both.
fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.iter().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return index + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// The digits of a number that is whole and written otherwise.
fn digits(token: &[u8]) -> Option<String> {
    let is_other = token.iter().any(|byte| b".eE".contains(byte));
    let value: f64 = std::str::from_utf8(token).ok().filter(|_| is_other)?.parse().ok()?;
    (value.fract() == 0.0 && value.abs() <= NUMBER_MAX).then(|| format!("{}", value as i128))
}

#[cfg(test)]
mod tests {
    use super::in_digits;

    #[test]
    fn whole_numbers_lose_their_point_and_texts_nothing() {
        for (given, wanted) in [
            (r#"{"a":3110.0}"#, r#"{"a":3110}"#),
            (r#"[1e3, -0.0, 2.50e1,7]"#, r#"[1000, 0, 25,7]"#),
            (r#"{"3.0":"4.0 \" 5.0","b\\":6.0}"#, r#"{"3.0":"4.0 \" 5.0","b\\":6}"#),
            ("1.0", "1"),
        ] {
            let written =
                in_digits(given.as_bytes()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            assert_eq!(written.as_deref(), Some(wanted), "{given}");
        }
        for same in [r#"{"a":1.5,"b":[2,-3]}"#, r#""1.0"#, "1e99", "1.2.0", "-", "", "x.0", "\"1.0\\\""] {
            assert_eq!(in_digits(same.as_bytes()), None, "{same}");
        }
    }
}
