//! Columns back from the others: which equations are at hand, and what solves them.
//!
//! With data columns x and y counted as zeroes, s = P + sum and t = Q + weighted sum leave
//!
//! ```text
//! Dx + Dy = s        2^x Dx + 2^y Dy = t
//! ```
//!
//! so with d = 2^(y-x): Dx = (d s + 2^-x t) / (d + 1) and Dy = s + Dx. One unknown data column is s by P,
//! and 2^-x t by Q; a parity column that is missing besides follows from the same two sums. Every case is
//! one pass.

use crate::field::{inverse, multiply, power};
use crate::strips::{Finish, Pass, Sources, Syndromes};
use crate::{Kernel, WIDTH_MAX, check_length};

/// Most rows have so few data columns. Making room for more takes longer than adding up 4 KiB of two.
const NARROW: usize = 6;

/// What is known of a column, and what is asked.
#[derive(Debug)]
pub enum Column<'a> {
    /// Its bytes.
    Present(&'a [u8]),
    /// Unknown: to be rebuilt into this buffer.
    Missing(&'a mut [u8]),
    /// Unknown and not asked for. A column that need not be read to rebuild others, or Q where there is none.
    Absent,
}

/// A data column that is not present.
struct Unknown<'a> {
    index: usize,
    target: Option<&'a mut [u8]>,
}

impl<'a> Column<'a> {
    fn length(&self) -> Option<usize> {
        match self {
            Column::Present(bytes) => Some(bytes.len()),
            Column::Missing(bytes) => Some(bytes.len()),
            Column::Absent => None,
        }
    }

    fn target(self) -> Option<&'a mut [u8]> {
        match self {
            Column::Missing(bytes) => Some(bytes),
            Column::Present(_) | Column::Absent => None,
        }
    }
}

impl Kernel {
    /// Rebuilds the missing columns of a row: its data columns in order, P, and Q (absent where the row has
    /// single protection). Panics when more data columns are unknown than parity columns are present: whether
    /// a row can be rebuilt is for the caller to know before it reads.
    pub fn reconstruct(self, data: &mut [Column<'_>], p: Column<'_>, q: Column<'_>) {
        assert!(!data.is_empty(), "a row without data columns");
        let width = data.len() + 1 + usize::from(q.length().is_some());
        assert!(width <= WIDTH_MAX, "{width} columns, at most {WIDTH_MAX}");
        if data.len() <= NARROW {
            self.solve::<NARROW>(data, p, q);
        } else {
            self.solve::<WIDTH_MAX>(data, p, q);
        }
    }

    /// With room for M data columns.
    #[inline(always)]
    fn solve<const M: usize>(self, data: &mut [Column<'_>], p: Column<'_>, q: Column<'_>) {
        let count = data.len();
        let length = length_of(data, &p, &q);
        check_length(length);
        [&p, &q].into_iter().filter_map(Column::length).for_each(|other| check_same(length, other));
        let mut sources: [&[u8]; M] = [&[]; M];
        let mut unknown = [None, None];
        let mut unknown_count = 0;
        for (index, column) in data.iter_mut().enumerate() {
            column.length().into_iter().for_each(|other| check_same(length, other));
            let target = match column {
                Column::Present(bytes) => {
                    sources[index] = bytes;
                    continue;
                }
                Column::Missing(bytes) => Some(&mut **bytes),
                Column::Absent => None,
            };
            assert!(unknown_count < 2, "three data columns unknown, data column {index} being the third");
            unknown[unknown_count] = Some(Unknown { index, target });
            unknown_count += 1;
        }
        match unknown {
            [Some(x), Some(y)] => self.two(&sources[..count], x, y, p, q),
            [Some(x), None] => self.one(&mut sources[..count], x, p, q),
            [None, _] => self.encode(&sources[..count], p.target(), q.target()),
        }
    }

    /// Two data columns, by P and Q.
    fn two(self, data: Sources<'_>, x: Unknown<'_>, y: Unknown<'_>, p: Column<'_>, q: Column<'_>) {
        let (Column::Present(p), Column::Present(q)) = (p, q) else {
            panic!("data columns {} and {} unknown without both P and Q", x.index, y.index);
        };
        assert!(x.index < y.index, "data columns {} and {} unknown", x.index, y.index);
        assert!(y.index < data.len(), "data column {} of {}", y.index, data.len());
        let distance = power(y.index - x.index);
        // Else the two equations would be one: see `field`.
        assert!(distance != 1, "columns {} and {} weigh the same", x.index, y.index);
        let scale = inverse(distance ^ 1);
        let a = multiply(distance, scale);
        let b = multiply(inverse(power(x.index)), scale);
        let finish = Finish::Split { a, b };
        self.syndromes(Syndromes { data, p: Some(p), q: Some(q), finish, first: x.target, second: y.target });
    }

    /// One data column, by P if it is there, else by Q; and the other parity column if it is asked for.
    fn one<'a>(self, data: &mut [&'a [u8]], x: Unknown<'_>, p: Column<'a>, q: Column<'a>) {
        assert!(x.index < data.len(), "data column {} of {}", x.index, data.len());
        assert!(data[x.index].is_empty(), "data column {} is known", x.index);
        match (p, q) {
            (Column::Present(p), Column::Missing(q)) => {
                let finish = Finish::Carry { c: power(x.index) };
                let (first, second) = (x.target, Some(q));
                self.syndromes(Syndromes { data, p: Some(p), q: None, finish, first, second });
            }
            (Column::Present(p), Column::Present(_) | Column::Absent) => {
                if let Some(target) = x.target {
                    // P takes the place of the column it stands in for, so that no zeroes are summed.
                    data[x.index] = p;
                    self.run(Pass::Sum { sources: data, target });
                }
            }
            (p, Column::Present(q)) => {
                let finish = Finish::Split { a: 0, b: inverse(power(x.index)) };
                let (first, second) = (x.target, p.target());
                self.syndromes(Syndromes { data, p: None, q: Some(q), finish, first, second });
            }
            (_, Column::Missing(_) | Column::Absent) => {
                panic!("data column {} unknown without P or Q", x.index);
            }
        }
    }

    /// P and Q, or one of them, of whole data.
    pub(crate) fn encode(self, data: Sources<'_>, p: Option<&mut [u8]>, q: Option<&mut [u8]>) {
        assert!(
            data.iter().all(|column| column.len() == data[0].len()),
            "parity of columns that are not all there"
        );
        match (p, q) {
            (Some(target), None) => self.run(Pass::Sum { sources: data, target }),
            (first, second) => {
                let finish = Finish::Plain;
                self.syndromes(Syndromes { data, p: None, q: None, finish, first, second });
            }
        }
    }

    fn syndromes(self, job: Syndromes<'_>) {
        self.run(Pass::Syndromes(job));
    }
}

/// The length of the columns of a row: P's as a rule. A row without any has nothing to do.
fn length_of(data: &[Column<'_>], p: &Column<'_>, q: &Column<'_>) -> usize {
    [p, q].into_iter().chain(data).find_map(Column::length).unwrap_or(0)
}

fn check_same(length: usize, other: usize) {
    assert!(length == other, "columns of different lengths: {length} and {other} bytes");
}
