//! The kernel for processors with AVX-512 and GFNI: 64 bytes at once, products by one instruction.
//!
//! GFNI's own multiplication is of another field (polynomial 0x11b). Multiplying by a constant is linear over
//! bits, so the affine instruction does it in any field, given the constant's matrix.

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use crate::field::{MATRICES, matrix};
use crate::lanes::Lanes;
use crate::strips::{self, Pass};

/// Vectors of a strip. The four chains hide that the affine instruction takes several cycles.
const STRIP_VECTORS: usize = 4;

/// Vectors of a strip of a sum.
const SUM_STRIP_VECTORS: usize = 8;

/// The truth table of a ^ b ^ c.
const XOR3: i32 = 0x96;

/// Exists only where the processor has AVX-512 (its foundation) and GFNI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn detect() -> Option<Avx512> {
        (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("gfni")).then_some(Avx512(()))
    }
}

#[target_feature(enable = "avx512f,gfni")]
fn run(lanes: Avx512, pass: Pass<'_>) {
    strips::run::<Avx512, STRIP_VECTORS, SUM_STRIP_VECTORS>(lanes, pass);
}

impl Avx512 {
    #[inline(always)]
    fn by_matrix(self, v: __m512i, matrix: u64) -> __m512i {
        // SAFETY: `self` exists, so the processor has AVX-512F and GFNI.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(v, _mm512_set1_epi64(matrix as i64)) }
    }
}

impl Lanes for Avx512 {
    type Vector = __m512i;
    type Factor = __m512i;
    const BYTES: usize = 64;

    fn run(self, pass: Pass<'_>) {
        // SAFETY: `self` exists, so the processor has AVX-512F and GFNI.
        unsafe { run(self, pass) }
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` exists, so the processor has AVX-512F.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m512i {
        assert!(bytes.len() >= Self::BYTES);
        // SAFETY: `self` exists, so the processor has AVX-512F; 64 bytes are there, aligned or not.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m512i, bytes: &mut [u8]) {
        assert!(bytes.len() >= Self::BYTES);
        // SAFETY: `self` exists, so the processor has AVX-512F; 64 bytes are there, aligned or not.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` exists, so the processor has AVX-512F.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn double(self, v: __m512i) -> __m512i {
        self.by_matrix(v, const { matrix(2) })
    }

    #[inline(always)]
    fn factor(self, constant: u8) -> __m512i {
        // SAFETY: `self` exists, so the processor has AVX-512F.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(constant)] as i64) }
    }

    #[inline(always)]
    fn multiply(self, v: __m512i, factor: __m512i) -> __m512i {
        // SAFETY: `self` exists, so the processor has AVX-512F and GFNI.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(v, factor) }
    }

    #[inline(always)]
    fn add3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: `self` exists, so the processor has AVX-512F.
        unsafe { _mm512_ternarylogic_epi64::<XOR3>(a, b, c) }
    }

    /// Two products and one sum of three, instead of two products and two sums one after the other.
    #[inline(always)]
    fn advance(self, q: __m512i, high: __m512i, low: __m512i) -> __m512i {
        self.add3(self.by_matrix(q, const { matrix(4) }), self.double(high), low)
    }
}
