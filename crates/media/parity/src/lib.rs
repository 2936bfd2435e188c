//! P and Q of a row of columns, and columns back from them.
//!
//! Called by `pool` (writing full rows, degraded reads, rebuild, scrub) and by whoever verifies it. Pure
//! functions over bytes: no I/O, no clock, no allocation.
//!
//! ```text
//! row:   D0  D1  ...  Dk-1   P   Q        equal lengths, k + parity columns at most 24
//!
//!   P =       D0 +       D1 + ... +           Dk-1
//!   Q = 2^0 * D0 + 2^1 * D1 + ... + 2^(k-1) * Dk-1
//! ```
//!
//! Bytes are elements of the field with 256 elements given by 0x11d; adding is exclusive or. As 2^0, 2^1, ...
//! differ, P and Q are two independent equations: any two columns follow from the others. This is the code
//! of Linux's RAID-6 (H. P. Anvin, "The mathematics of RAID-6"; why: docs/decisions/0017). A row with single
//! protection has P alone.
//!
//! A [`Kernel`] is one way of computing it. All give the same bytes; [`Kernel::detect`] takes the fastest.
//! How they differ is in `portable`, `avx2` and `avx512`; what they share in `strips`. `unsafe` stands only
//! in the two vector modules: vector instructions, and choosing among them when running, have no safe form.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod field;
mod lanes;
mod portable;
mod reconstruct;
mod strips;
#[cfg(test)]
mod tests;

use lanes::Lanes;
use strips::Pass;

pub use reconstruct::Column;

/// Most columns of a row, parity included. Every added column makes a second and third loss in it likelier;
/// 22 + 2 already keeps 92 % of the space for data.
pub const WIDTH_MAX: usize = 24;

/// Lengths of columns are multiples of this: the widest vector.
pub const LENGTH_UNIT_BYTES: usize = 64;

/// A way of computing parity that this processor can take.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    instructions: Instructions,
}

#[derive(Clone, Copy, Debug)]
enum Instructions {
    Portable(portable::Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
}

impl Kernel {
    /// The fastest.
    #[must_use]
    pub fn detect() -> Kernel {
        Kernel::all().last().expect("the portable kernel is always there")
    }

    /// All that this processor can take, the fastest last. For tests and benchmarks.
    pub fn all() -> impl Iterator<Item = Kernel> {
        let portable = Some(Instructions::Portable(portable::Portable));
        #[cfg(target_arch = "x86_64")]
        let vector = [
            avx2::Avx2::detect().map(Instructions::Avx2),
            avx512::Avx512::detect().map(Instructions::Avx512),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let vector = [];
        let all = std::iter::once(portable).chain(vector).flatten();
        all.map(|instructions| Kernel { instructions })
    }

    /// What the operator's reports call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.instructions {
            Instructions::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_) => "avx512",
        }
    }

    /// Computes P, and Q where the row has it. All columns have one length, a multiple of
    /// [`LENGTH_UNIT_BYTES`].
    pub fn generate(self, data: &[&[u8]], p: &mut [u8], q: Option<&mut [u8]>) {
        let width = data.len() + 1 + usize::from(q.is_some());
        assert!(!data.is_empty(), "a row without data columns");
        assert!(width <= WIDTH_MAX, "{width} columns, at most {WIDTH_MAX}");
        check_length(p.len());
        let q_length = q.as_deref().map_or(p.len(), <[u8]>::len);
        assert!(q_length == p.len(), "Q of {q_length} bytes beside P of {}", p.len());
        for column in data {
            assert!(column.len() == p.len(), "a column of {} bytes beside P of {}", column.len(), p.len());
        }
        self.encode(data, Some(p), q);
    }

    fn run(self, pass: Pass<'_>) {
        pass.check();
        match self.instructions {
            Instructions::Portable(lanes) => lanes.run(pass),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(lanes) => lanes.run(pass),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(lanes) => lanes.run(pass),
        }
    }
}

fn check_length(length: usize) {
    assert!(length.is_multiple_of(LENGTH_UNIT_BYTES), "{length} bytes are no whole {LENGTH_UNIT_BYTES}");
}
