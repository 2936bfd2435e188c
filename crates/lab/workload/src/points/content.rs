//! What is in a row: bytes that compress as well as was asked for, and their checksum.

use crate::random::mixed;

use super::Shape;

/// Random bytes and bytes that compress take turns within so many. Smaller ones cost a compressor more than
/// they hold; larger ones would leave whole sectors empty.
const TURN_BYTES: usize = 120;

/// What a row takes of a page beside its payload: headers, id, checksum.
const ROW_BYTES: f64 = 64.0;

/// What is left of a row by a compressor beside its random bytes. Measured with 960 bytes of payload, single
/// pages of 8 KB: 78 by lz4, 46 by zstd -1.
const LEFT_BYTES: f64 = 62.0;

/// How many bytes of a turn are random.
fn random_per_turn(shape: &Shape) -> usize {
    let payload = f64::from(shape.payload_size_bytes);
    let random = (payload + ROW_BYTES) / shape.compression - LEFT_BYTES;
    (TURN_BYTES as f64 * random / payload).round().clamp(0.0, TURN_BYTES as f64) as usize
}

/// Appends the payload of a row.
pub(super) fn payload(shape: &Shape, id: i64, bytes: &mut Vec<u8>) {
    let mut state = mixed(shape.seed as u64 ^ mixed(id as u64));
    // The rest of a turn repeats a byte that is another one in the next row, or rows would be alike.
    let filler = (state >> 56) as u8;
    let random_per_turn = if shape.compression > 1.0 { random_per_turn(shape) } else { TURN_BYTES };
    for at in 0..shape.payload_size_bytes as usize {
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
pub(super) fn checksum(id: i64, payload: &[u8]) -> i64 {
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
        let shape = Shape { rows: 1, payload_size_bytes: 960, compression, seed: 7 };
        let mut bytes = Vec::new();
        payload(&shape, id, &mut bytes);
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
