//! Sense data: why a command failed, in fixed and in descriptor form (SPC-4 4.5).

use crate::bytes::put;

/// What the host does about a failure (SPC-4 table 48).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SenseKey {
    /// Nothing happened.
    NoSense = 0x0,
    /// The unit cannot be reached now: another path, or later.
    NotReady = 0x2,
    /// The medium failed or its bytes are damaged.
    MediumError = 0x3,
    /// The command is wrong: mend it.
    IllegalRequest = 0x5,
    /// Something changed that the host must know; the command was not carried out.
    UnitAttention = 0x6,
    /// The blocks may not be written: read-only, or no space.
    DataProtect = 0x7,
    /// A copy between units failed, before its first block moved or behind it.
    CopyAborted = 0xa,
    /// The command was ended; sending it again may work.
    AbortedCommand = 0xb,
    /// The bytes compared are not equal.
    Miscompare = 0xe,
}

/// Additional sense codes with their qualifiers: ASC in the high byte, ASCQ in the low (SPC-4 table 51).
pub mod code {
    pub const NO_ADDITIONAL_SENSE: u16 = 0x0000;
    pub const OPERATION_IN_PROGRESS: u16 = 0x0016;
    pub const UNIT_NOT_READY: u16 = 0x0400;
    pub const UNREACHABLE_COPY_TARGET: u16 = 0x0804;
    pub const WRITE_ERROR: u16 = 0x0c00;
    pub const UNEXPECTED_UNSOLICITED_DATA: u16 = 0x0c0c;
    pub const INCORRECT_AMOUNT_OF_DATA: u16 = 0x0c0d;
    pub const THIRD_PARTY_DEVICE_FAILURE: u16 = 0x0d01;
    pub const INCORRECT_COPY_TARGET_TYPE: u16 = 0x0d03;
    pub const INVALID_FIELD_IN_INFORMATION_UNIT: u16 = 0x0e03;
    pub const UNRECOVERED_READ_ERROR: u16 = 0x1100;
    pub const PARAMETER_LIST_LENGTH: u16 = 0x1a00;
    pub const MISCOMPARE_DURING_VERIFY: u16 = 0x1d00;
    pub const INVALID_OPERATION_CODE: u16 = 0x2000;
    pub const ADDRESS_OUT_OF_RANGE: u16 = 0x2100;
    pub const INVALID_FIELD_IN_CDB: u16 = 0x2400;
    pub const UNIT_NOT_SUPPORTED: u16 = 0x2500;
    pub const INVALID_FIELD_IN_PARAMETER_LIST: u16 = 0x2600;
    pub const INVALID_RELEASE_OF_RESERVATION: u16 = 0x2604;
    pub const TOO_MANY_TARGET_DESCRIPTORS: u16 = 0x2606;
    pub const UNSUPPORTED_TARGET_DESCRIPTOR: u16 = 0x2607;
    pub const TOO_MANY_SEGMENT_DESCRIPTORS: u16 = 0x2608;
    pub const UNSUPPORTED_SEGMENT_DESCRIPTOR: u16 = 0x2609;
    pub const UNEXPECTED_INEXACT_SEGMENT: u16 = 0x260a;
    pub const INLINE_DATA_LENGTH_EXCEEDED: u16 = 0x260b;
    pub const WRITE_PROTECTED: u16 = 0x2700;
    pub const SOFTWARE_WRITE_PROTECTED: u16 = 0x2702;
    pub const SPACE_ALLOCATION_FAILED: u16 = 0x2707;
    pub const POWER_ON: u16 = 0x2900;
    pub const RESET_OCCURRED: u16 = 0x2903;
    pub const NEXUS_LOSS: u16 = 0x2907;
    pub const MODE_PARAMETERS_CHANGED: u16 = 0x2a01;
    pub const RESERVATIONS_PREEMPTED: u16 = 0x2a03;
    pub const RESERVATIONS_RELEASED: u16 = 0x2a04;
    pub const REGISTRATIONS_PREEMPTED: u16 = 0x2a05;
    pub const CAPACITY_CHANGED: u16 = 0x2a09;
    pub const COMMANDS_CLEARED: u16 = 0x2f00;
    pub const SAVING_NOT_SUPPORTED: u16 = 0x3900;
    pub const REPORTED_UNITS_CHANGED: u16 = 0x3f0e;
    pub const INTERNAL_FAILURE: u16 = 0x4400;
    pub const PROTOCOL_SERVICE_CRC_ERROR: u16 = 0x4705;
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: u16 = 0x5504;
}

/// Where in the CDB or the parameter list the wrong field is (SPC-4 4.5.2.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldPointer {
    /// In the CDB; otherwise in the data-out.
    pub is_in_cdb: bool,
    /// The byte, from 0.
    pub byte: u16,
    /// The field's most significant bit, if the field is not whole bytes.
    pub bit: Option<u8>,
}

impl FieldPointer {
    /// The three sense-key specific bytes.
    fn encoded(self) -> [u8; 3] {
        let in_cdb = if self.is_in_cdb { 0x40 } else { 0 };
        let bit = self.bit.map_or(0, |bit| 0x08 | (bit & 7));
        let [high, low] = self.byte.to_be_bytes();
        [0x80 | in_cdb | bit, high, low]
    }
}

/// Why a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sense {
    /// What the host does about it.
    pub key: SenseKey,
    /// One of [`code`].
    pub code: u16,
    /// An address, an offset or whatever else the code says.
    pub information: Option<u64>,
    /// The wrong field.
    pub pointer: Option<FieldPointer>,
}

/// Bytes of fixed format sense data.
const FIXED_BYTES: usize = 18;
/// The longest descriptor format sense data made here: the header, information, a field pointer.
pub(crate) const DESCRIPTOR_BYTES_MAX: usize = 8 + 12 + 8;

impl Sense {
    /// Sense data without details.
    #[must_use]
    pub fn new(key: SenseKey, code: u16) -> Sense {
        Sense { key, code, information: None, pointer: None }
    }

    /// ILLEGAL REQUEST without a field pointer.
    #[must_use]
    pub fn illegal(code: u16) -> Sense {
        Sense::new(SenseKey::IllegalRequest, code)
    }

    /// INVALID FIELD IN CDB at this byte, whole.
    #[must_use]
    pub fn field_in_cdb(byte: u16) -> Sense {
        let pointer = Some(FieldPointer { is_in_cdb: true, byte, bit: None });
        Sense { pointer, ..Sense::illegal(code::INVALID_FIELD_IN_CDB) }
    }

    /// INVALID FIELD IN CDB at this bit of this byte.
    #[must_use]
    pub fn bit_in_cdb(byte: u16, bit: u8) -> Sense {
        let pointer = Some(FieldPointer { is_in_cdb: true, byte, bit: Some(bit) });
        Sense { pointer, ..Sense::illegal(code::INVALID_FIELD_IN_CDB) }
    }

    /// INVALID FIELD IN PARAMETER LIST at this byte.
    #[must_use]
    pub fn field_in_list(byte: usize, bit: Option<u8>) -> Sense {
        let byte = u16::try_from(byte).unwrap_or(u16::MAX);
        let pointer = Some(FieldPointer { is_in_cdb: false, byte, bit });
        Sense { pointer, ..Sense::illegal(code::INVALID_FIELD_IN_PARAMETER_LIST) }
    }

    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    #[must_use]
    pub fn out_of_range() -> Sense {
        Sense::illegal(code::ADDRESS_OUT_OF_RANGE)
    }

    /// The same with an address, an offset or whatever else the code wants.
    #[must_use]
    pub fn with_information(self, information: u64) -> Sense {
        Sense { information: Some(information), ..self }
    }

    /// The bytes: descriptor form (response code 72h) or fixed form (70h).
    #[must_use]
    pub fn encoded(&self, is_descriptor: bool) -> Vec<u8> {
        if is_descriptor { self.descriptor() } else { self.fixed() }
    }

    fn fixed(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_BYTES];
        bytes[0] = 0x70;
        bytes[2] = self.key as u8;
        // The field has four bytes; a larger value leaves VALID at zero (SPC-4 4.5.3).
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= 0x80;
            put(&mut bytes, 3, &information.to_be_bytes());
        }
        bytes[7] = FIXED_BYTES as u8 - 8;
        put(&mut bytes, 12, &self.code.to_be_bytes());
        if let Some(pointer) = self.pointer {
            put(&mut bytes, 15, &pointer.encoded());
        }
        bytes
    }

    fn descriptor(&self) -> Vec<u8> {
        let [asc, ascq] = self.code.to_be_bytes();
        let mut bytes = vec![0x72, self.key as u8, asc, ascq, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend_from_slice(&[0x00, 0x0a, 0x80, 0x00]);
            bytes.extend_from_slice(&information.to_be_bytes());
        }
        if let Some(pointer) = self.pointer {
            bytes.extend_from_slice(&[0x02, 0x06, 0x00, 0x00]);
            bytes.extend_from_slice(&pointer.encoded());
            bytes.push(0);
        }
        assert!(bytes.len() <= DESCRIPTOR_BYTES_MAX, "{} bytes of sense data", bytes.len());
        bytes[7] = bytes.len() as u8 - 8;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_form_is_byte_for_byte_as_spc_4_table_53() {
        let sense = Sense::bit_in_cdb(1, 7);
        let expected = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcf, 0, 1];
        assert_eq!(sense.encoded(false), expected);
        let sense = Sense::new(SenseKey::Miscompare, code::MISCOMPARE_DURING_VERIFY).with_information(0x0102);
        assert_eq!(sense.encoded(false)[..8], [0xf0, 0, 0xe, 0, 0, 1, 2, 10]);
    }

    #[test]
    fn an_address_too_large_for_fixed_form_is_left_out_and_kept_in_descriptor_form() {
        let sense = Sense::new(SenseKey::MediumError, code::UNRECOVERED_READ_ERROR).with_information(1 << 40);
        assert_eq!(sense.encoded(false)[..7], [0x70, 0, 3, 0, 0, 0, 0]);
        let bytes = sense.encoded(true);
        assert_eq!(bytes[..8], [0x72, 3, 0x11, 0, 0, 0, 0, 12]);
        assert_eq!(bytes[8..], [0, 10, 0x80, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_field_pointer_in_a_parameter_list_stands_in_its_descriptor() {
        let bytes = Sense::field_in_list(300, Some(2)).encoded(true);
        assert_eq!(bytes, [0x72, 5, 0x26, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0x8a, 1, 44, 0]);
    }
}
