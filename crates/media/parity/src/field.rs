//! The field of 256 elements in which Q is computed, as tables made by the compiler.
//!
//! Elements are bytes read as polynomials over GF(2), modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d). The powers
//! of 2 run through all 255 elements but zero, so columns 0 to 254 could be told apart; we use 24.

/// The polynomial without its highest bit: what is added when doubling carries out of a byte.
pub(crate) const REDUCTION: u8 = 0x1d;

/// How many different powers of 2 there are.
const ORDER: usize = 255;

/// 2^n for n below the order.
const POWERS: [u8; ORDER] = powers();

/// The n for which 2^n is the element; zero has none and stands as 0.
const LOGARITHMS: [u8; 256] = logarithms();

const fn double(element: u8) -> u8 {
    let carry = if element & 0x80 == 0 { 0 } else { REDUCTION };
    (element << 1) ^ carry
}

const fn powers() -> [u8; ORDER] {
    let mut table = [1; ORDER];
    let mut exponent = 1;
    while exponent < ORDER {
        table[exponent] = double(table[exponent - 1]);
        exponent += 1;
    }
    assert!(double(table[ORDER - 1]) == 1, "2 generates the whole field");
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut exponent = 0;
    while exponent < ORDER {
        table[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    table
}

/// 2^n: what data column n is multiplied by in Q.
pub(crate) const fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    power(LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize)
}

/// 1 / a. Zero has no inverse.
pub(crate) const fn inverse(a: u8) -> u8 {
    assert!(a != 0, "division by zero in the field");
    power(ORDER - LOGARITHMS[a as usize] as usize)
}

/// For each constant its products with the 16 low halves of a byte, then with the 16 high halves. A byte's
/// product is the sum of two of them, which is what a byte shuffle can look up.
pub(crate) static HALF_PRODUCTS: [[u8; 32]; 256] = half_products();

const fn half_products() -> [[u8; 32]; 256] {
    let mut tables = [[0; 32]; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut half = 0;
        while half < 16 {
            tables[constant][half] = multiply(constant as u8, half as u8);
            tables[constant][16 + half] = multiply(constant as u8, (half << 4) as u8);
            half += 1;
        }
        constant += 1;
    }
    tables
}

/// For each constant the 8 by 8 bit matrix that multiplies by it, in the order the affine instruction of
/// GFNI wants: byte 7 - i holds row i, and bit j of it says whether bit j of the input adds to bit i.
pub(crate) static MATRICES: [u64; 256] = matrices();

const fn matrices() -> [u64; 256] {
    let mut table = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        table[constant] = matrix(constant as u8);
        constant += 1;
    }
    table
}

pub(crate) const fn matrix(constant: u8) -> u64 {
    let mut bits = 0;
    let mut input = 0;
    while input < 8 {
        let product = multiply(constant, 1 << input);
        let mut output = 0;
        while output < 8 {
            if product >> output & 1 == 1 {
                bits |= 1 << ((7 - output) * 8 + input);
            }
            output += 1;
        }
        input += 1;
    }
    bits
}
