//! Big-endian numbers out of and into CDBs, parameter lists and parameter data.

/// The `N` bytes at `at`; what lies beyond the end reads as zero, so that no length from the wire can panic.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    for (index, byte) in array.iter_mut().enumerate() {
        *byte = at.checked_add(index).and_then(|place| bytes.get(place)).copied().unwrap_or(0);
    }
    array
}

/// The byte at `at`, or zero beyond the end.
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Two bytes as a number.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

/// Three bytes as a number.
pub(crate) fn u24_at(bytes: &[u8], at: usize) -> u32 {
    let [high, middle, low] = array_at(bytes, at);
    u32::from_be_bytes([0, high, middle, low])
}

/// Four bytes as a number.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

/// Eight bytes as a number.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}

/// Writes `part` over the bytes at `at`.
pub(crate) fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

/// Text as SPC-4 4.3.1 wants it: printable ASCII, left-aligned, filled with spaces.
pub(crate) fn put_text(bytes: &mut [u8], text: &str) {
    bytes.fill(b' ');
    for (byte, character) in bytes.iter_mut().zip(text.bytes()) {
        *byte = if (0x20..0x7f).contains(&character) { character } else { b'?' };
    }
}

/// Cuts parameter data off at the allocation length (SPC-4 4.2.5.6).
pub(crate) fn truncated(mut data: Vec<u8>, allocation: usize) -> Vec<u8> {
    data.truncate(allocation);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_the_end_read_as_zero() {
        let bytes = [1, 2, 3];
        assert_eq!(
            (u16_at(&bytes, 0), u24_at(&bytes, 0), u32_at(&bytes, 0)),
            (0x0102, 0x0001_0203, 0x0102_0300)
        );
        assert_eq!((u64_at(&bytes, usize::MAX), u8_at(&bytes, 3)), (0, 0));
    }

    #[test]
    fn text_is_filled_cut_and_made_printable() {
        let mut bytes = [0; 4];
        put_text(&mut bytes, "a\u{e9}");
        assert_eq!(&bytes, b"a?? ");
        put_text(&mut bytes, "abcdef");
        assert_eq!(&bytes, b"abcd");
    }
}
