//! What a kernel must know: a vector of bytes, adding it, multiplying it. The rest is written once.
//!
//! A value of a type with [`Lanes`] is the proof that the processor has the instructions: it can only be had
//! from that type's `detect`. That is what makes the methods safe to call.

use crate::strips::Pass;

/// Arithmetic on vectors of field elements, one a byte.
///
/// Methods are inlined into [`Lanes::run`], where the compiler may use the instructions they need.
pub(crate) trait Lanes: Copy {
    /// Some bytes, processed at once.
    type Vector: Copy;
    /// A constant made ready for [`Lanes::multiply`].
    type Factor: Copy;
    /// Bytes of a vector; divides [`crate::LENGTH_UNIT_BYTES`].
    const BYTES: usize;

    /// Carries out a pass, compiled for these instructions.
    fn run(self, pass: Pass<'_>);

    fn zero(self) -> Self::Vector;

    /// The first bytes of a slice that is long enough.
    fn load(self, bytes: &[u8]) -> Self::Vector;

    fn store(self, vector: Self::Vector, bytes: &mut [u8]);

    /// a + b, which in this field is exclusive or.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// 2v
    fn double(self, v: Self::Vector) -> Self::Vector;

    fn factor(self, constant: u8) -> Self::Factor;

    fn multiply(self, v: Self::Vector, factor: Self::Factor) -> Self::Vector;

    /// a + b + c
    #[inline(always)]
    fn add3(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        self.add(self.add(a, b), c)
    }

    /// 4q + 2 high + low: Horner's rule for two columns at once.
    #[inline(always)]
    fn advance(self, q: Self::Vector, high: Self::Vector, low: Self::Vector) -> Self::Vector {
        self.add(self.double(self.add(self.double(q), high)), low)
    }
}
