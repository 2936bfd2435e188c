//! Every kernel against an oracle that knows only the definition, and every loss of one or two columns.

mod refusals;

use crate::{Column, Kernel, LENGTH_UNIT_BYTES, WIDTH_MAX};

/// Lengths of columns: the least, one with strips left over for every kernel, and real ones.
const LENGTHS: [usize; 4] = [64, 4096 - 64, 4096, 3 * 4096 + 64];

/// What buffers to be filled start as, so that a byte left out is seen.
const STALE: u8 = 0xee;

/// The product by the definition, bit by bit: multiply as polynomials, then divide by 0x11d. Shares nothing
/// with `field`.
fn product(a: u8, b: u8) -> u8 {
    let mut wide = 0_u32;
    for bit in (0..8).filter(|bit| b >> bit & 1 == 1) {
        wide ^= u32::from(a) << bit;
    }
    for bit in (8..15).rev() {
        if wide >> bit & 1 == 1 {
            wide ^= 0x11d << (bit - 8);
        }
    }
    u8::try_from(wide).expect("what divisions leave is a byte")
}

/// 2^n by the definition.
fn weight(exponent: usize) -> u8 {
    (0..exponent).fold(1, |power, _| product(power, 2))
}

fn oracle(data: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let (mut p, mut q) = (vec![0; data[0].len()], vec![0; data[0].len()]);
    for (index, column) in data.iter().enumerate() {
        let products: Vec<u8> = (0..=255).map(|byte| product(weight(index), byte)).collect();
        for (offset, byte) in column.iter().enumerate() {
            p[offset] ^= byte;
            q[offset] ^= products[usize::from(*byte)];
        }
    }
    (p, q)
}

/// Bytes that look random and are the same in every run.
fn noise(count: usize, length: usize) -> Vec<Vec<u8>> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ (count * 65536 + length) as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| (0..length).map(|_| next()).collect()).collect()
}

/// What happened to a column before it is rebuilt.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Kept,
    Lost,
    /// Lost, and not asked for.
    LeftOut,
}
use Fate::{Kept, LeftOut, Lost};

/// A row with its parity: data columns, P, and Q with dual protection.
struct Row {
    columns: Vec<Vec<u8>>,
    data_count: usize,
}

impl Row {
    fn new(data_count: usize, is_dual: bool, length: usize) -> Row {
        let mut columns = noise(data_count, length);
        let (p, q) = oracle(&columns);
        columns.push(p);
        columns.extend(is_dual.then_some(q));
        Row { columns, data_count }
    }

    /// Rebuilds what was lost, and compares every byte.
    fn check(&self, kernel: Kernel, fates: &[Fate], room: &mut [Vec<u8>]) {
        let length = self.columns[0].len();
        room.iter_mut().for_each(|buffer| buffer[..length].fill(STALE));
        let mut buffers = room.iter_mut();
        let columns = self.columns.iter().zip(fates).map(|(column, fate)| match fate {
            Kept => Column::Present(column),
            Lost => Column::Missing(&mut buffers.next().expect("room for two")[..length]),
            LeftOut => Column::Absent,
        });
        let mut columns: Vec<Column<'_>> = columns.collect();
        let mut parity = columns.split_off(self.data_count).into_iter();
        let p = parity.next().expect("every row has P");
        kernel.reconstruct(&mut columns, p, parity.next().unwrap_or(Column::Absent));
        let lost = self.columns.iter().zip(fates).filter(|(_, fate)| **fate == Lost);
        for ((column, _), buffer) in lost.zip(room) {
            let what = format!("{} {}+{}", kernel.name(), self.data_count, fates.len() - self.data_count);
            assert!(column[..] == buffer[..length], "{what} of {length} bytes, {fates:?}");
        }
    }
}

/// Every choice of one or two columns, as far as parity reaches, with each of the fates given.
fn losses(width: usize, is_dual: bool, choices: &[(Fate, Fate)]) -> Vec<Vec<Fate>> {
    let mut all = Vec::new();
    for one in 0..width {
        for other in one..width {
            if other > one && !is_dual {
                continue;
            }
            for &(fate, other_fate) in choices {
                let mut fates = vec![Kept; width];
                fates[other] = other_fate;
                fates[one] = fate;
                all.push(fates);
            }
        }
    }
    all
}

#[test]
fn every_kernel_generates_what_the_definition_says_at_every_width_and_length() {
    for data_count in 1..WIDTH_MAX {
        for length in LENGTHS {
            let data = noise(data_count, length);
            let (p_wanted, q_wanted) = oracle(&data);
            let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            for kernel in Kernel::all() {
                let what = format!("{} {data_count} of {length} bytes", kernel.name());
                let (mut p, mut q) = (vec![STALE; length], vec![STALE; length]);
                kernel.generate(&data, &mut p, None);
                assert!(p == p_wanted, "P alone, {what}");
                if data_count + 2 <= WIDTH_MAX {
                    p.fill(STALE);
                    kernel.generate(&data, &mut p, Some(&mut q));
                    assert!(p == p_wanted, "P, {what}");
                    assert!(q == q_wanted, "Q, {what}");
                }
            }
        }
    }
}

#[test]
fn every_loss_of_one_or_two_columns_is_rebuilt_at_every_width_and_length() {
    let mut room = vec![vec![0; LENGTHS[3]]; 2];
    let every_fate = [(Lost, Lost), (Lost, LeftOut), (LeftOut, Lost)];
    for is_dual in [false, true] {
        for width in 2 + usize::from(is_dual)..=WIDTH_MAX {
            let data_count = width - 1 - usize::from(is_dual);
            // What is left out changes which targets are written, not how: the shortest rows show it.
            for (length, fates) in
                [(64, &every_fate[..]), (4096, &every_fate[..1]), (LENGTHS[3], &every_fate[..1])]
            {
                let row = Row::new(data_count, is_dual, length);
                let losses = losses(width, is_dual, fates);
                for kernel in Kernel::all() {
                    losses.iter().for_each(|fates| row.check(kernel, fates, &mut room));
                }
            }
        }
    }
}

/// Vectors are loaded and stored where bytes lie, not where alignment would be nice.
#[test]
fn columns_need_no_alignment() {
    let length = 4096;
    let data = noise(5, length + 5);
    for kernel in Kernel::all() {
        let moved: Vec<Vec<u8>> =
            data.iter().enumerate().map(|(index, column)| column[index..][..length].to_vec()).collect();
        let (p_wanted, q_wanted) = oracle(&moved);
        let skewed: Vec<&[u8]> =
            data.iter().enumerate().map(|(index, column)| &column[index..][..length]).collect();
        let (mut p, mut q) = (vec![STALE; length + 3], vec![STALE; length + 3]);
        kernel.generate(&skewed, &mut p[3..], Some(&mut q[1..=length]));
        assert!(p[3..] == p_wanted && q[1..=length] == q_wanted, "{}", kernel.name());
        assert!(p[..3] == [STALE; 3] && q[0] == STALE && q[length + 1..] == [STALE; 2], "{}", kernel.name());
    }
}

/// A column of ones among zeroes makes Q its weight. The numbers are the powers of 2
/// as the polynomial gives them by hand: doubling 0x80 is 0x1d, and so on.
#[test]
fn unit_columns_give_the_published_powers_of_two() {
    let powers = [
        1, 2, 4, 8, 16, 32, 64, 128, 0x1d, 0x3a, 0x74, 0xe8, 0xcd, 0x87, 0x13, 0x26, 0x4c, 0x98, 0x2d, 0x5a,
        0xb4, 0x75,
    ];
    let zeroes = [0; LENGTH_UNIT_BYTES];
    let ones = [1; LENGTH_UNIT_BYTES];
    for kernel in Kernel::all() {
        for (index, power) in powers.iter().enumerate() {
            let mut data = [&zeroes[..]; 22];
            data[index] = &ones;
            let (mut p, mut q) = ([STALE; LENGTH_UNIT_BYTES], [STALE; LENGTH_UNIT_BYTES]);
            kernel.generate(&data, &mut p, Some(&mut q));
            assert_eq!(p, ones, "{} P of column {index}", kernel.name());
            assert_eq!(q, [*power; LENGTH_UNIT_BYTES], "{} Q of column {index}", kernel.name());
        }
    }
}

/// Every byte by every constant that solving can need, through the public door: a column by Q alone.
#[test]
fn every_byte_value_survives_the_loss_of_its_column_and_of_p() {
    let bytes: Vec<u8> = (0..=255).collect();
    for kernel in Kernel::all() {
        for index in 0..22 {
            let mut columns = vec![vec![0; 256]; 22];
            columns[index].clone_from(&bytes);
            let (p, q) = oracle(&columns);
            let mut fates = vec![Kept; 24];
            fates[index] = Lost;
            fates[22] = Lost;
            columns.extend([p, q]);
            Row { columns, data_count: 22 }.check(kernel, &fates, &mut [vec![0; 256], vec![0; 256]]);
        }
    }
}

#[test]
fn nothing_missing_is_nothing_to_do() {
    let row = Row::new(3, true, 64);
    for fate in [Kept, LeftOut] {
        row.check(Kernel::detect(), &[Kept, Kept, Kept, fate, fate], &mut []);
    }
    row.check(Kernel::detect(), &[Kept, LeftOut, Kept, Kept, Kept], &mut []);
}

#[test]
fn detect_takes_the_last_and_names_differ() {
    let names: Vec<&str> = Kernel::all().map(Kernel::name).collect();
    assert_eq!(names[0], "portable");
    assert_eq!(names.last(), Some(&Kernel::detect().name()));
    assert!(names.is_sorted_by(|a, b| a != b), "{names:?}");
}
