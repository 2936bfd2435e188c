//! Text of login and text requests: keys with values (RFC 7143 6.1 and 6.2).

/// "A key-name MUST NOT be longer than 63 bytes" (6.1).
const KEY_BYTES_MAX: usize = 63;
/// "A value MUST NOT be longer than 8192 bytes unless stated otherwise" (6.2).
const VALUE_BYTES_MAX: usize = 8192;
/// Keys in one text. There are some forty in the standard.
const PAIRS_MAX: usize = 256;

/// Why a text cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable(pub &'static str);

/// The pairs, in order. Each ends with a NUL, the last one too.
pub fn pairs(text: &[u8]) -> Result<Vec<(&str, &str)>, Unreadable> {
    let mut pairs = Vec::new();
    // Some initiators fill up with further NULs.
    for pair in text.split(|byte| *byte == 0).filter(|pair| !pair.is_empty()) {
        let pair = std::str::from_utf8(pair).map_err(|_| Unreadable("text is not UTF-8"))?;
        let (key, value) = pair.split_once('=').ok_or(Unreadable("a key without a value"))?;
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(is_key_byte) {
            return Err(Unreadable("a name that can be no key"));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Unreadable("a value of more than 8192 bytes"));
        }
        if pairs.len() == PAIRS_MAX {
            return Err(Unreadable("too many keys"));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-+@_/".contains(&byte)
}

/// Appends a pair.
pub fn put(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend_from_slice(key.as_bytes());
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    text.push(0);
}

/// A number: decimal, or hexadecimal with `0x` (6.1, numerical-value).
#[must_use]
pub fn number(value: &str) -> Option<u32> {
    let (digits, radix) = match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    // `from_str_radix` takes a sign, the standard does not.
    digits.bytes().next().filter(u8::is_ascii_alphanumeric)?;
    u32::from_str_radix(digits, radix).ok()
}

/// Yes or No.
#[must_use]
pub fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// Bytes: hexadecimal with `0x`, or base64 with `0b` (6.1, binary-value).
#[must_use]
pub fn binary(value: &str) -> Option<Vec<u8>> {
    if let Some(digits) = value.strip_prefix("0x").or(value.strip_prefix("0X")) {
        return hexadecimal(digits.as_bytes());
    }
    base64(value.strip_prefix("0b").or(value.strip_prefix("0B"))?.as_bytes())
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.is_empty() {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    // An odd number of digits lacks a leading zero.
    let (first, rest) = digits.split_at(digits.len() % 2);
    let mut bytes = Vec::with_capacity(digits.len() / 2 + 1);
    if let [digit] = first {
        bytes.push(nibble(*digit)?);
    }
    for pair in rest.chunks_exact(2) {
        bytes.push(nibble(pair[0])? << 4 | nibble(pair[1])?);
    }
    Some(bytes)
}

fn base64(characters: &[u8]) -> Option<Vec<u8>> {
    if characters.is_empty() || !characters.len().is_multiple_of(4) {
        return None;
    }
    let value = |character: u8| match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let filled = characters.iter().rev().take_while(|character| **character == b'=').count();
    if filled > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(characters.len() / 4 * 3);
    let last = characters.len() - 4;
    for (index, group) in characters.chunks_exact(4).enumerate() {
        let meant = if index * 4 == last { 4 - filled } else { 4 };
        let mut word = 0_u32;
        for (place, character) in group.iter().enumerate() {
            let bits = if place < meant { value(*character)? } else { 0 };
            word = word << 6 | u32::from(bits);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..meant]);
    }
    Some(bytes)
}

/// Bytes as hexadecimal with `0x`.
#[must_use]
pub fn to_binary(bytes: &[u8]) -> String {
    let mut value = String::with_capacity(2 + 2 * bytes.len());
    value.push_str("0x");
    for byte in bytes {
        value.push(char::from_digit(u32::from(byte >> 4), 16).expect("four bits are a digit"));
        value.push(char::from_digit(u32::from(byte & 15), 16).expect("four bits are a digit"));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_in_order_and_empty_ones_are_skipped() {
        assert_eq!(pairs(b"A=1\0B=x=y\0\0\0"), Ok(vec![("A", "1"), ("B", "x=y")]));
        assert_eq!(pairs(b""), Ok(vec![]));
        for wrong in [&b"A\0"[..], b"=1\0", b"A b=1\0", b"A=\xff\0"] {
            assert!(pairs(wrong).is_err(), "{wrong:?}");
        }
        let long = format!("{}=1\0", "k".repeat(64));
        assert!(pairs(long.as_bytes()).is_err());
        assert!(pairs("a=1\0".repeat(257).as_bytes()).is_err());
        assert_eq!(pairs("a=1\0".repeat(256).as_bytes()).map(|pairs| pairs.len()), Ok(256));
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_unsigned() {
        assert_eq!(
            [number("0"), number("262144"), number("0x40000")],
            [Some(0), Some(262_144), Some(0x40000)]
        );
        for wrong in ["", "0x", "+1", "-1", "1k", "4294967296", " 1"] {
            assert_eq!(number(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn binary_values_have_two_spellings() {
        assert_eq!(binary("0x0aFf"), Some(vec![0x0a, 0xff]));
        assert_eq!(binary("0xaff"), Some(vec![0x0a, 0xff]));
        // RFC 4648 section 10.
        for (text, bytes) in [("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(binary(&format!("0b{text}")).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        for wrong in ["", "12", "0x", "0b", "0xg0", "0bZm9", "0bZ===", "0bZm=v", "0b===="] {
            assert_eq!(binary(wrong), None, "{wrong:?}");
        }
        assert_eq!(to_binary(&[0x0a, 0xff]), "0x0aff");
    }
}
