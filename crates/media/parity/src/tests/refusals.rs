//! What callers may not ask, and what they are told.

use super::{Kept, LeftOut, Lost, Row};
use crate::{Column, Kernel};

#[test]
#[should_panic(expected = "three data columns unknown")]
fn three_unknown_data_columns_are_refused() {
    let mut room = vec![vec![0; 64]; 3];
    Row::new(3, true, 64).check(Kernel::detect(), &[Lost, Lost, Lost, Kept, Kept], &mut room);
}

#[test]
#[should_panic(expected = "without both P and Q")]
fn two_unknown_data_columns_and_no_q_are_refused() {
    let mut room = vec![vec![0; 64]; 2];
    Row::new(3, false, 64).check(Kernel::detect(), &[Lost, LeftOut, Kept, Kept], &mut room);
}

#[test]
#[should_panic(expected = "data column 1 unknown without P or Q")]
fn a_data_column_without_any_parity_is_refused() {
    let mut room = vec![vec![0; 64]; 3];
    Row::new(3, true, 64).check(Kernel::detect(), &[Kept, Lost, Kept, Lost, Lost], &mut room);
}

#[test]
#[should_panic(expected = "different lengths")]
fn columns_of_different_lengths_are_refused() {
    let (long, mut short) = ([0; 128], [0; 64]);
    Kernel::detect().reconstruct(&mut [Column::Present(&long)], Column::Missing(&mut short), Column::Absent);
}

#[test]
#[should_panic(expected = "65 bytes are no whole 64")]
fn lengths_that_are_no_whole_vectors_are_refused() {
    Kernel::detect().generate(&[&[0; 65]], &mut [0; 65], None);
}

#[test]
#[should_panic(expected = "25 columns, at most 24")]
fn rows_wider_than_the_limit_are_refused() {
    Kernel::detect().generate(&[&[0; 64][..]; 23], &mut [0; 64], Some(&mut [0; 64]));
}
