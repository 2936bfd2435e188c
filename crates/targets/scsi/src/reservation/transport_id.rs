//! TransportIDs of iSCSI initiator ports (SPC-4 7.6.4.6).

use crate::bytes::{u8_at, u16_at};

/// Format 01b (a port: name, separator, ISID) and protocol 5h (iSCSI).
const PORT_FORMAT: u8 = 0x45;
/// Bytes before the name.
const HEADER_BYTES: usize = 4;
/// The least ADDITIONAL LENGTH.
const NAME_BYTES_MIN: usize = 20;

/// The TransportID of an initiator port of this name.
pub(crate) fn encode(initiator: &str) -> Vec<u8> {
    // The name ends with a NUL at least, and the whole is a multiple of four bytes long.
    let name_bytes = (initiator.len() + 1).next_multiple_of(4).max(NAME_BYTES_MIN);
    let mut bytes = vec![PORT_FORMAT, 0];
    bytes.extend_from_slice(&(name_bytes as u16).to_be_bytes());
    bytes.extend_from_slice(initiator.as_bytes());
    bytes.resize(HEADER_BYTES + name_bytes, 0);
    bytes
}

/// The initiator port's name; `None` for another protocol, a device instead of a port, or bytes that make no
/// name.
pub(crate) fn decode(bytes: &[u8]) -> Option<String> {
    if u8_at(bytes, 0) != PORT_FORMAT {
        return None;
    }
    let name = bytes.get(HEADER_BYTES..HEADER_BYTES + usize::from(u16_at(bytes, 2)))?;
    let length = name.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&name[..length]).ok()?;
    // A port's name has the separator of RFC 7143 4.3.
    name.contains(",i,0x").then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_other_protocols_do_not() {
        let name = "iqn.2026-11.io.example:host,i,0x00023d000001";
        let bytes = encode(name);
        assert_eq!((bytes.len() % 4, decode(&bytes).as_deref()), (0, Some(name)));
        assert_eq!(encode("a").len(), 24);
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(decode(&[0x05, 0, 0, 20]), None);
    }
}
