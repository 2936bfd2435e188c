//! The kernel for every processor: eight bytes in a word, without `unsafe`.

use crate::field::REDUCTION;
use crate::lanes::Lanes;
use crate::strips::{self, Pass};

/// A byte in every byte of a word.
const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Words of a vector. Compilers make vector instructions of loops over four.
const WORDS: usize = 4;

/// Vectors of a strip: few, because these processors may have few registers.
const STRIP_VECTORS: usize = 2;

/// Vectors of a strip of a sum.
const SUM_STRIP_VECTORS: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

#[inline(always)]
fn each(a: [u64; WORDS], function: impl Fn(usize, u64) -> u64) -> [u64; WORDS] {
    let mut out = a;
    for (index, word) in out.iter_mut().enumerate() {
        *word = function(index, *word);
    }
    out
}

impl Lanes for Portable {
    type Vector = [u64; WORDS];
    /// For each bit of the constant, from the highest: all ones where it is set.
    type Factor = [u64; 8];
    const BYTES: usize = WORDS * 8;

    fn run(self, pass: Pass<'_>) {
        strips::run::<Portable, STRIP_VECTORS, SUM_STRIP_VECTORS>(self, pass);
    }

    #[inline(always)]
    fn zero(self) -> Self::Vector {
        [0; WORDS]
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> Self::Vector {
        let (words, _) = bytes.as_chunks::<8>();
        each([0; WORDS], |index, _| u64::from_ne_bytes(words[index]))
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector, bytes: &mut [u8]) {
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (target, word) in words[..WORDS].iter_mut().zip(vector) {
            *target = word.to_ne_bytes();
        }
    }

    #[inline(always)]
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        each(a, |index, word| word ^ b[index])
    }

    /// Every byte moves up by one bit; the bits that fell out become the reduction where they were set.
    #[inline(always)]
    fn double(self, v: Self::Vector) -> Self::Vector {
        each(v, |_, word| {
            let carries = word & repeat(0x80);
            // 0x80 - 0x01 = 0x7f, which covers the reduction; no borrow leaves the byte.
            const { assert!(REDUCTION & 0x80 == 0) };
            let masks = carries - (carries >> 7);
            ((word & repeat(0x7f)) << 1) ^ (masks & repeat(REDUCTION))
        })
    }

    #[inline(always)]
    fn factor(self, constant: u8) -> Self::Factor {
        let mut masks = [0; 8];
        for (index, mask) in masks.iter_mut().enumerate() {
            *mask = if constant >> (7 - index) & 1 == 1 { u64::MAX } else { 0 };
        }
        masks
    }

    /// Horner's rule over the bits of the constant.
    #[inline(always)]
    fn multiply(self, v: Self::Vector, factor: Self::Factor) -> Self::Vector {
        let mut product = self.zero();
        for mask in factor {
            product = self.double(product);
            product = each(product, |index, word| word ^ (v[index] & mask));
        }
        product
    }
}
