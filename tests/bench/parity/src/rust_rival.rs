//! reed-solomon-simd: codes over 16-bit elements by fast transforms, made for many columns.

use std::hint::black_box;

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

const NAME: &str = "reed-solomon-simd takes these counts and lengths";

/// Its parity is of another code than ours, so nothing is compared.
pub fn encode<'a>(data: &'a [&'a [u8]], parity_count: usize) -> impl FnMut() + 'a {
    let mut encoder = ReedSolomonEncoder::new(data.len(), parity_count, data[0].len()).expect(NAME);
    move || {
        for column in data {
            encoder.add_original_shard(column).expect(NAME);
        }
        black_box(&encoder.encode().expect(NAME));
    }
}

/// The data columns `lost`, from the others and as many columns of parity.
pub fn decode<'a>(data: &'a [&'a [u8]], lost: &'a [usize], parity_count: usize) -> impl FnMut() + 'a {
    let length = data[0].len();
    let mut encoder = ReedSolomonEncoder::new(data.len(), parity_count, length).expect(NAME);
    for column in data {
        encoder.add_original_shard(column).expect(NAME);
    }
    let parity: Vec<Vec<u8>> = encoder.encode().expect(NAME).recovery_iter().map(<[u8]>::to_vec).collect();
    let mut decoder = ReedSolomonDecoder::new(data.len(), parity_count, length).expect(NAME);
    move || {
        for (index, column) in data.iter().enumerate().filter(|(index, _)| !lost.contains(index)) {
            decoder.add_original_shard(index, column).expect(NAME);
        }
        for (index, column) in parity.iter().enumerate().take(lost.len()) {
            decoder.add_recovery_shard(index, column).expect(NAME);
        }
        let decoded = decoder.decode().expect(NAME);
        for index in lost {
            // One byte is enough to see a wrong answer without charging for a look at all.
            let restored = black_box(decoded.restored_original(*index)).expect(NAME);
            assert!(restored[length / 2] == data[*index][length / 2], "reed-solomon-simd rebuilt wrongly");
        }
    }
}
