//! The kernel for processors with AVX2: 32 bytes at once, products by byte shuffles.

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use crate::field::{HALF_PRODUCTS, REDUCTION};
use crate::lanes::Lanes;
use crate::strips::{self, Pass};

/// Vectors of a strip. P and Q of each stay in registers, of which there are 16.
const STRIP_VECTORS: usize = 2;

/// Vectors of a strip of a sum.
const SUM_STRIP_VECTORS: usize = 4;

/// Exists only where the processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }
}

#[target_feature(enable = "avx2")]
fn run(lanes: Avx2, pass: Pass<'_>) {
    strips::run::<Avx2, STRIP_VECTORS, SUM_STRIP_VECTORS>(lanes, pass);
}

/// Products with the low and with the high half of a byte, each table in both halves of a vector because
/// the shuffle looks up within halves.
#[derive(Clone, Copy)]
pub(crate) struct Factor {
    low: __m256i,
    high: __m256i,
}

impl Lanes for Avx2 {
    type Vector = __m256i;
    type Factor = Factor;
    const BYTES: usize = 32;

    fn run(self, pass: Pass<'_>) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { run(self, pass) }
    }

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m256i {
        assert!(bytes.len() >= Self::BYTES);
        // SAFETY: `self` exists, so the processor has AVX2; 32 bytes are there, aligned or not.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m256i, bytes: &mut [u8]) {
        assert!(bytes.len() >= Self::BYTES);
        // SAFETY: `self` exists, so the processor has AVX2; 32 bytes are there, aligned or not.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    /// As signed numbers, the bytes below zero are those whose highest bit falls out.
    #[inline(always)]
    fn double(self, v: __m256i) -> __m256i {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), v);
            let reductions = _mm256_and_si256(carries, _mm256_set1_epi8(REDUCTION as i8));
            _mm256_xor_si256(_mm256_add_epi8(v, v), reductions)
        }
    }

    #[inline(always)]
    fn factor(self, constant: u8) -> Factor {
        let table: &[u8; 32] = &HALF_PRODUCTS[usize::from(constant)];
        // SAFETY: `self` exists, so the processor has AVX2; both loads of 16 bytes lie within the table.
        unsafe {
            let low = _mm_loadu_si128(table.as_ptr().cast());
            let high = _mm_loadu_si128(table.as_ptr().add(16).cast());
            Factor { low: _mm256_broadcastsi128_si256(low), high: _mm256_broadcastsi128_si256(high) }
        }
    }

    #[inline(always)]
    fn multiply(self, v: __m256i, factor: Factor) -> __m256i {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe {
            let half = _mm256_set1_epi8(0x0f);
            // The shift is of wider lanes; what it brings in from the neighbour is masked away.
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(v), half);
            let low = _mm256_and_si256(v, half);
            _mm256_xor_si256(_mm256_shuffle_epi8(factor.low, low), _mm256_shuffle_epi8(factor.high, high))
        }
    }
}
