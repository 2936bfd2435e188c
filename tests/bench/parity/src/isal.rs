//! Calls of ISA-L that measure it at its best: tables and pointers are made before the clock runs.

use std::ffi::{c_int, c_uchar, c_void};
use std::marker::PhantomData;

#[link(name = "isal")]
unsafe extern "C" {
    fn xor_gen(vects: c_int, len: c_int, array: *mut *mut c_void) -> c_int;
    fn pq_gen(vects: c_int, len: c_int, array: *mut *mut c_void) -> c_int;
    fn gf_gen_rs_matrix(a: *mut c_uchar, m: c_int, k: c_int);
    fn gf_invert_matrix(input: *mut c_uchar, out: *mut c_uchar, n: c_int) -> c_int;
    fn ec_init_tables(k: c_int, rows: c_int, a: *mut c_uchar, tables: *mut c_uchar);
    fn ec_encode_data(
        len: c_int,
        k: c_int,
        rows: c_int,
        tables: *mut c_uchar,
        data: *mut *mut c_uchar,
        coding: *mut *mut c_uchar,
    );
}

/// Bytes of expanded tables for each coefficient.
const TABLE_BYTES: usize = 32;

fn int(value: usize) -> c_int {
    value.try_into().expect("counts and lengths here are small")
}

/// `xor_gen` of sources into one target, or `pq_gen` into two.
pub struct Raid<'a> {
    array: Vec<*mut c_void>,
    length: usize,
    is_dual: bool,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> Raid<'a> {
    pub fn new(sources: &[&'a [u8]], targets: Vec<&'a mut [u8]>) -> Raid<'a> {
        let (length, is_dual) = (targets[0].len(), targets.len() == 2);
        assert!(sources.iter().all(|source| source.len() == length));
        assert!(
            targets.iter().all(|target| target.len() == length && target.as_ptr().addr().is_multiple_of(64))
        );
        let mut array: Vec<*mut c_void> =
            sources.iter().map(|source| source.as_ptr().cast_mut().cast()).collect();
        array.extend(targets.into_iter().map(|target| target.as_mut_ptr().cast::<c_void>()));
        Raid { array, length, is_dual, buffers: PhantomData }
    }

    pub fn run(&mut self) {
        let (count, length, array) = (int(self.array.len()), int(self.length), self.array.as_mut_ptr());
        // SAFETY: the array holds that many pointers to buffers of that length, borrowed as long as `self`
        // lives, aligned to 64; the last one or two, which are written, are borrowed mutably.
        let failed = unsafe {
            if self.is_dual { pq_gen(count, length, array) } else { xor_gen(count, length, array) }
        };
        assert!(failed == 0, "ISA-L refused its arguments");
    }
}

/// `ec_encode_data` with any matrix: encoding, and decoding by the inverse.
pub struct Erasure<'a> {
    tables: Vec<u8>,
    sources: Vec<*mut c_uchar>,
    targets: Vec<*mut c_uchar>,
    length: usize,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> Erasure<'a> {
    /// Parity of `sources`. With one or two rows this is P, or P and Q.
    pub fn encode(sources: &[&'a [u8]], targets: Vec<&'a mut [u8]>) -> Erasure<'a> {
        let (k, rows) = (sources.len(), targets.len());
        let matrix = code_matrix(k, rows);
        Erasure::new(&matrix[k * k..], sources, targets)
    }

    /// The data columns `lost` of k, from the other ones and as many parity columns, in this order.
    pub fn decode(k: usize, lost: &[usize], sources: &[&'a [u8]], targets: Vec<&'a mut [u8]>) -> Erasure<'a> {
        assert!(sources.len() == k && targets.len() == lost.len());
        let matrix = code_matrix(k, lost.len());
        let kept = (0..k + lost.len()).filter(|row| !lost.contains(row));
        let mut square: Vec<u8> = kept.flat_map(|row| matrix[row * k..][..k].to_vec()).collect();
        let mut inverse = vec![0; k * k];
        // SAFETY: both are k by k bytes.
        let failed = unsafe { gf_invert_matrix(square.as_mut_ptr(), inverse.as_mut_ptr(), int(k)) };
        assert!(failed == 0, "the code has no such inverse");
        let rows: Vec<u8> = lost.iter().flat_map(|row| inverse[row * k..][..k].to_vec()).collect();
        Erasure::new(&rows, sources, targets)
    }

    fn new(rows: &[u8], sources: &[&'a [u8]], targets: Vec<&'a mut [u8]>) -> Erasure<'a> {
        let (k, length) = (sources.len(), targets[0].len());
        assert!(rows.len() == k * targets.len());
        assert!(sources.iter().all(|source| source.len() == length));
        assert!(targets.iter().all(|target| target.len() == length));
        let (mut rows, mut tables) = (rows.to_vec(), vec![0; rows.len() * TABLE_BYTES]);
        // SAFETY: `rows` is k bytes for each target, `tables` 32 times that.
        unsafe { ec_init_tables(int(k), int(targets.len()), rows.as_mut_ptr(), tables.as_mut_ptr()) };
        let sources = sources.iter().map(|source| source.as_ptr().cast_mut()).collect();
        let targets = targets.into_iter().map(|target| target.as_mut_ptr()).collect();
        Erasure { tables, sources, targets, length, buffers: PhantomData }
    }

    pub fn run(&mut self) {
        let (k, rows) = (int(self.sources.len()), int(self.targets.len()));
        let (sources, targets) = (self.sources.as_mut_ptr(), self.targets.as_mut_ptr());
        // SAFETY: that many pointers to buffers of that length, borrowed as long as `self` lives, the targets
        // mutably; the tables were made for k and rows.
        unsafe { ec_encode_data(int(self.length), k, rows, self.tables.as_mut_ptr(), sources, targets) };
    }
}

/// The identity, then a row of ones, then the powers of 2: P and Q as ours are.
fn code_matrix(k: usize, rows: usize) -> Vec<u8> {
    let mut matrix = vec![0; (k + rows) * k];
    // SAFETY: the matrix has k + rows rows of k bytes.
    unsafe { gf_gen_rs_matrix(matrix.as_mut_ptr(), int(k + rows), int(k)) };
    matrix
}
