//! The eight-byte address of a logical unit, which SAM-5 4.7 calls a LUN.

use std::fmt;

/// Single-level addresses up to this fit the peripheral device method (SAM-5 4.7.7.2); above, flat space.
const PERIPHERAL_MAX: u16 = 0xff;
/// The largest number that a single-level address of two bytes can carry: 14 bits (SAM-5 4.7.7.3).
const NUMBER_MAX: u16 = 0x3fff;

/// The number of a logical unit on a target. Only single-level addresses are known here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnitAddress(u16);

impl UnitAddress {
    /// The address of this number; `None` above 16383.
    #[must_use]
    pub fn new(number: u16) -> Option<UnitAddress> {
        (number <= NUMBER_MAX).then_some(UnitAddress(number))
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// Reads the address on the wire; `None` for one that no unit here can have: more than one level, a bus
    /// other than 0, a well-known unit.
    #[must_use]
    pub fn from_wire(bytes: [u8; 8]) -> Option<UnitAddress> {
        let [first, second, rest @ ..] = bytes;
        if rest != [0; 6] {
            return None;
        }
        let method = first >> 6;
        match method {
            // Peripheral device addressing: the rest of the first byte is the bus.
            0 if first == 0 => Some(UnitAddress(u16::from(second))),
            // Flat space addressing.
            1 => Some(UnitAddress(u16::from_be_bytes([first & 0x3f, second]))),
            _ => None,
        }
    }

    /// The address on the wire, by the method SAM-5 wants for its size.
    #[must_use]
    pub fn to_wire(self) -> [u8; 8] {
        let [high, low] = self.0.to_be_bytes();
        let method = if self.0 > PERIPHERAL_MAX { 0x40 } else { 0 };
        [method | high, low, 0, 0, 0, 0, 0, 0]
    }
}

impl fmt::Display for UnitAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_from_the_wire() {
        for number in [0, 1, 255, 256, 0x3fff] {
            let address = UnitAddress::new(number).unwrap();
            assert_eq!(UnitAddress::from_wire(address.to_wire()), Some(address));
        }
        assert_eq!(UnitAddress::new(0x4000), None);
        assert_eq!(UnitAddress::new(256).unwrap().to_wire()[..2], [0x41, 0x00]);
    }

    #[test]
    fn flat_addresses_below_256_are_understood_and_others_refused() {
        assert_eq!(UnitAddress::from_wire([0x40, 7, 0, 0, 0, 0, 0, 0]), UnitAddress::new(7));
        for wire in [[0xc1, 1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(UnitAddress::from_wire(wire), None, "{wire:?}");
        }
    }
}
