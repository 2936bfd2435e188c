//! What is in a row: bytes that compress as well as was asked for, and their checksum.
//!
//! The loads of `points` and `factload` fill their rows with it, and whoever reads a row checks it.

use crate::random::mixed;

/// What the payloads of a table are drawn from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Content {
    pub(crate) payload_size_bytes: usize,
    /// How many times smaller a fast compressor makes the rows, page by page: 1 is not compressible at all.
    pub(crate) compression: f64,
    pub(crate) seed: u64,
    /// What a row takes of a page beside its payload: headers and other columns.
    pub(crate) row_bytes: f64,
    /// What is left of a row by a compressor beside its random bytes: measured, for each kind of row.
    pub(crate) left_bytes: f64,
}

/// Random bytes and bytes that compress take turns within so many. Smaller ones cost a compressor more than
/// they hold; larger ones would leave whole sectors empty.
const TURN_BYTES: usize = 120;

/// How many bytes of a turn are random.
fn random_per_turn(content: &Content) -> usize {
    let payload = content.payload_size_bytes as f64;
    let random = (payload + content.row_bytes) / content.compression - content.left_bytes;
    (TURN_BYTES as f64 * random / payload).round().clamp(0.0, TURN_BYTES as f64) as usize
}

/// Appends the payload of a row.
pub(crate) fn payload(content: &Content, id: i64, bytes: &mut Vec<u8>) {
    let mut state = mixed(content.seed ^ mixed(id as u64));
    // The rest of a turn repeats a byte that is another one in the next row, or rows would be alike.
    let filler = (state >> 56) as u8;
    let random_per_turn = if content.compression > 1.0 { random_per_turn(content) } else { TURN_BYTES };
    for at in 0..content.payload_size_bytes {
        if at % TURN_BYTES >= random_per_turn {
            bytes.push(filler);
            continue;
        }
        let byte = at % TURN_BYTES % 8;
        if byte == 0 {
            state = mixed(state);
        }
        bytes.push((state >> (byte * 8)) as u8);
    }
}

/// Tells a payload from every other one, and from that of every other row. Not for media: whoever wants to
/// can make two alike.
pub(crate) fn checksum(id: i64, payload: &[u8]) -> i64 {
    let mut sum = mixed(id as u64 ^ (payload.len() as u64).rotate_left(32));
    let (words, rest) = payload.as_chunks::<8>();
    for word in words {
        sum = mixed(sum ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mixed(sum ^ u64::from_le_bytes(last)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(compression: f64, id: i64) -> Vec<u8> {
        let content =
            Content { payload_size_bytes: 960, compression, seed: 7, row_bytes: 64.0, left_bytes: 62.0 };
        let mut bytes = Vec::new();
        payload(&content, id, &mut bytes);
        bytes
    }

    #[test]
    fn a_row_has_its_own_payload_and_always_the_same() {
        assert_eq!(of(2.0, 5), of(2.0, 5));
        assert_ne!(of(2.0, 5), of(2.0, 6));
        assert_eq!(of(3.0, 1).len(), 960);
    }

    #[test]
    fn so_much_of_it_is_random() {
        for (compression, random) in [(1.0, 960), (2.0, 450), (3.0, 279), (4.0, 194)] {
            // What equals the byte before it is what a compressor takes away.
            let bytes = of(compression, 9);
            let repeated = bytes.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert!((960 - repeated).abs_diff(random) < 20, "{compression}: {repeated} repeated");
        }
    }

    #[test]
    fn a_checksum_sees_every_bit_the_length_and_the_row() {
        let bytes = of(2.0, 3)[..957].to_vec();
        let right = checksum(3, &bytes);
        assert_eq!(right, checksum(3, &bytes));
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(3, &wrong), right, "bit {bit}");
        }
        assert_ne!(checksum(4, &bytes), right);
        assert_ne!(checksum(3, &bytes[..956]), right);
        assert_ne!(checksum(3, &[&bytes[..], &[0]].concat()), right);
    }
}
