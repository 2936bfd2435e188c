//! The loops, written once for all kernels: a row is gone through in strips, each byte read once.
//!
//! A strip is the same few vectors of every column. Its P and Q stay in registers while the columns go by, so
//! nothing is written but results, and the first-level cache need not hold a whole row.

use crate::lanes::Lanes;
use crate::{WIDTH_MAX, check_length};

/// Columns in order; an empty one counts as zeroes.
pub(crate) type Sources<'a> = &'a [&'a [u8]];

/// What one pass over a row computes.
pub(crate) enum Pass<'a> {
    /// The sum of all sources, at least one, none of which counts as zeroes.
    Sum { sources: Sources<'a>, target: &'a mut [u8] },
    /// Both syndromes, and what follows from them.
    Syndromes(Syndromes<'a>),
}

/// With s = p + sum of data columns and t = q + sum of 2^i * data column i, `finish` says what the targets
/// become. A target that nobody wants is `None`.
pub(crate) struct Syndromes<'a> {
    pub data: Sources<'a>,
    pub p: Option<&'a [u8]>,
    pub q: Option<&'a [u8]>,
    pub finish: Finish,
    pub first: Option<&'a mut [u8]>,
    pub second: Option<&'a mut [u8]>,
}

/// The last step of a pass; letters are constants of the field.
#[derive(Clone, Copy)]
pub(crate) enum Finish {
    /// s and t: P and Q of whole data.
    Plain,
    /// s and t + c s: one data column by P, and Q.
    Carry { c: u8 },
    /// x = a s + b t, and s + x: two data columns; or one by Q, and P.
    Split { a: u8, b: u8 },
}

/// Where columns that count as zeroes are read.
static ZEROES: [u8; STRIP_BYTES_MAX] = [0; STRIP_BYTES_MAX];
const STRIP_BYTES_MAX: usize = 512;

/// N vectors of one strip.
type Strip<L, const N: usize> = [<L as Lanes>::Vector; N];

/// Carries out a pass in strips of N vectors (S where there is only a sum, which takes fewer registers), and
/// what is left over in strips of one.
#[inline(always)]
pub(crate) fn run<L: Lanes, const N: usize, const S: usize>(lanes: L, pass: Pass<'_>) {
    const { assert!(N * L::BYTES <= STRIP_BYTES_MAX && S * L::BYTES <= STRIP_BYTES_MAX) };
    const { assert!(crate::LENGTH_UNIT_BYTES.is_multiple_of(L::BYTES)) };
    match pass {
        Pass::Sum { sources, target } => {
            let whole = target.len() / (S * L::BYTES) * (S * L::BYTES);
            for offset in (0..whole).step_by(S * L::BYTES) {
                sum_strip::<L, S>(lanes, sources, target, offset);
            }
            for offset in (whole..target.len()).step_by(L::BYTES) {
                sum_strip::<L, 1>(lanes, sources, target, offset);
            }
        }
        Pass::Syndromes(mut job) => {
            let length = job.length();
            let finish = Ready::new(lanes, job.finish);
            let whole = length / (N * L::BYTES) * (N * L::BYTES);
            for offset in (0..whole).step_by(N * L::BYTES) {
                syndrome_strip::<L, N>(lanes, &mut job, finish, offset);
            }
            for offset in (whole..length).step_by(L::BYTES) {
                syndrome_strip::<L, 1>(lanes, &mut job, finish, offset);
            }
        }
    }
}

impl Pass<'_> {
    /// What every loop below takes for granted. An overlong column would be summed in part, and a wrong
    /// parity be found when a drive is lost.
    pub(crate) fn check(&self) {
        match self {
            Pass::Sum { sources, target } => {
                let length = target.len();
                check_length(length);
                assert!((1..=WIDTH_MAX).contains(&sources.len()), "a sum of {} columns", sources.len());
                for source in *sources {
                    assert!(source.len() == length, "{} bytes summed into {length}", source.len());
                }
            }
            Pass::Syndromes(job) => job.check(),
        }
    }
}

impl Syndromes<'_> {
    fn check(&self) {
        let length = self.length();
        check_length(length);
        assert!((1..=WIDTH_MAX).contains(&self.data.len()), "syndromes of {} columns", self.data.len());
        for source in self.data.iter().filter(|source| !source.is_empty()) {
            assert!(length == 0 || source.len() == length, "{} bytes weighed for {length}", source.len());
        }
        for parity in [self.p, self.q].into_iter().flatten() {
            assert!(length == 0 || parity.len() == length, "{} bytes of parity for {length}", parity.len());
        }
        let second = self.second.as_deref().map_or(length, <[u8]>::len);
        assert!(second == length, "targets of {length} and {second} bytes");
    }

    /// The length of the targets: nothing is to be done without one.
    fn length(&self) -> usize {
        self.first.as_deref().or(self.second.as_deref()).map_or(0, <[u8]>::len)
    }
}

/// Short rows are little work, so here every instruction counts: no column that is zero, no sum with nothing.
#[inline(always)]
fn sum_strip<L: Lanes, const N: usize>(lanes: L, sources: Sources<'_>, target: &mut [u8], offset: usize) {
    let strip = |source: &'_ [u8]| -> Strip<L, N> {
        let bytes = &source[offset..offset + N * L::BYTES];
        std::array::from_fn(|index| vector(lanes, bytes, index))
    };
    let (first, others) = sources.split_first().expect("a sum of something");
    let mut sum = strip(first);
    let (pairs, last) = others.as_chunks::<2>();
    for [one, other] in pairs {
        let (one, other) = (strip(one), strip(other));
        sum = std::array::from_fn(|index| lanes.add3(sum[index], one[index], other[index]));
    }
    for other in last {
        let other = strip(other);
        sum = std::array::from_fn(|index| lanes.add(sum[index], other[index]));
    }
    put(lanes, sum, target, offset);
}

#[inline(always)]
fn syndrome_strip<L: Lanes, const N: usize>(
    lanes: L,
    job: &mut Syndromes<'_>,
    finish: Ready<L>,
    offset: usize,
) {
    let (mut s, mut t) = weigh::<L, N>(lanes, job.data, offset);
    if let Some(p) = job.p {
        s = added(lanes, s, p, offset);
    }
    if let Some(q) = job.q {
        t = added(lanes, t, q, offset);
    }
    for index in 0..N {
        (s[index], t[index]) = finish.apply(lanes, s[index], t[index]);
    }
    if let Some(first) = &mut job.first {
        put(lanes, s, first, offset);
    }
    if let Some(second) = &mut job.second {
        put(lanes, t, second, offset);
    }
}

/// Sum and weighted sum of the data columns. Horner's rule from the highest column down needs only doubling,
/// which is cheaper than products with 2^i on every processor; two columns a step need fewer sums.
#[inline(always)]
fn weigh<L: Lanes, const N: usize>(lanes: L, data: Sources<'_>, offset: usize) -> (Strip<L, N>, Strip<L, N>) {
    let (pairs, top) = data.as_chunks::<2>();
    let mut s = [lanes.zero(); N];
    let mut t = s;
    if let [top] = top {
        s = added(lanes, s, top, offset);
        t = s;
    }
    for [low, high] in pairs.iter().rev() {
        let low = strip_of::<L, N>(low, offset);
        let high = strip_of::<L, N>(high, offset);
        for index in 0..N {
            let (low, high) = (vector(lanes, low, index), vector(lanes, high, index));
            s[index] = lanes.add3(s[index], high, low);
            t[index] = lanes.advance(t[index], high, low);
        }
    }
    (s, t)
}

/// A [`Finish`] with its constants made ready.
#[derive(Clone, Copy)]
enum Ready<L: Lanes> {
    Plain,
    Carry { c: L::Factor },
    Split { a: L::Factor, b: L::Factor },
}

impl<L: Lanes> Ready<L> {
    #[inline(always)]
    fn new(lanes: L, finish: Finish) -> Ready<L> {
        match finish {
            Finish::Plain => Ready::Plain,
            Finish::Carry { c } => Ready::Carry { c: lanes.factor(c) },
            Finish::Split { a, b } => Ready::Split { a: lanes.factor(a), b: lanes.factor(b) },
        }
    }

    #[inline(always)]
    fn apply(self, lanes: L, s: L::Vector, t: L::Vector) -> (L::Vector, L::Vector) {
        match self {
            Ready::Plain => (s, t),
            Ready::Carry { c } => (s, lanes.add(t, lanes.multiply(s, c))),
            Ready::Split { a, b } => {
                let first = lanes.add(lanes.multiply(s, a), lanes.multiply(t, b));
                (first, lanes.add(s, first))
            }
        }
    }
}

/// A column's part of a strip. Zeroes are read like any column: a branch around them would keep vectors in
/// registers that instructions can take from memory.
#[inline(always)]
fn strip_of<L: Lanes, const N: usize>(source: &[u8], offset: usize) -> &[u8] {
    if source.is_empty() { &ZEROES[..N * L::BYTES] } else { &source[offset..offset + N * L::BYTES] }
}

#[inline(always)]
fn vector<L: Lanes>(lanes: L, strip: &[u8], index: usize) -> L::Vector {
    lanes.load(&strip[index * L::BYTES..][..L::BYTES])
}

#[inline(always)]
fn added<L: Lanes, const N: usize>(
    lanes: L,
    mut sum: Strip<L, N>,
    source: &[u8],
    offset: usize,
) -> Strip<L, N> {
    let strip = strip_of::<L, N>(source, offset);
    for (index, sum) in sum.iter_mut().enumerate() {
        *sum = lanes.add(*sum, vector(lanes, strip, index));
    }
    sum
}

#[inline(always)]
fn put<L: Lanes, const N: usize>(lanes: L, strip: Strip<L, N>, target: &mut [u8], offset: usize) {
    let target = &mut target[offset..offset + N * L::BYTES];
    for (index, vector) in strip.into_iter().enumerate() {
        lanes.store(vector, &mut target[index * L::BYTES..][..L::BYTES]);
    }
}
