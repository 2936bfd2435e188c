//! INQUIRY: standard data and vital product data pages (SPC-4 6.6 and 7.8, SBC-3 6.5).

use ashlar_block::Identity;

use crate::bytes::{put, put_text};
use crate::copy;
use crate::sense::{DESCRIPTOR_BYTES_MAX, Sense};
use crate::target::Port;
use crate::unit::Limits;

/// T10 VENDOR IDENTIFICATION: eight characters.
const VENDOR: &str = "ASHLAR";
/// PRODUCT IDENTIFICATION: sixteen.
const PRODUCT: &str = "Volume";
/// Version descriptors (SPC-4 table 147): SAM-5, iSCSI, SPC-4, SBC-3, each without claiming a revision.
const VERSIONS: [u16; 4] = [0x00a0, 0x0960, 0x0460, 0x04c0];
/// Protocol identifier of iSCSI (SPC-4 table 437).
const PROTOCOL_ISCSI: u8 = 5;

const SUPPORTED_PAGES: u8 = 0x00;
const SERIAL_NUMBER: u8 = 0x80;
const DEVICE_IDENTIFICATION: u8 = 0x83;
const EXTENDED_INQUIRY: u8 = 0x86;
const THIRD_PARTY_COPY: u8 = 0x8f;
const BLOCK_LIMITS: u8 = 0xb0;
const BLOCK_CHARACTERISTICS: u8 = 0xb1;
const PROVISIONING: u8 = 0xb2;
/// The pages, in ascending order.
const PAGES: [u8; 8] = [
    SUPPORTED_PAGES,
    SERIAL_NUMBER,
    DEVICE_IDENTIFICATION,
    EXTENDED_INQUIRY,
    THIRD_PARTY_COPY,
    BLOCK_LIMITS,
    BLOCK_CHARACTERISTICS,
    PROVISIONING,
];

/// What INQUIRY tells of one unit.
pub(crate) struct Subject<'a> {
    pub identity: Identity,
    /// Four characters for people.
    pub revision: &'a str,
    pub port: &'a Port,
    pub limits: Limits,
    pub block_bytes: u32,
    /// Blocks that cost no read-modify-write together.
    pub optimal_blocks: u32,
    /// Blocks of an atomic write.
    pub atomic_blocks: u32,
}

/// Standard data of a unit that is not there: qualifier 011b, type 1Fh (SPC-4 6.6.2).
pub(crate) fn absent() -> Vec<u8> {
    let mut bytes = standard_without_names();
    bytes[0] = 0x7f;
    bytes
}

/// Standard data.
pub(crate) fn standard(subject: &Subject<'_>) -> Vec<u8> {
    let mut bytes = standard_without_names();
    put_text(&mut bytes[32..36], subject.revision);
    bytes
}

fn standard_without_names() -> Vec<u8> {
    let mut bytes = vec![0; 96];
    // SPC-4; HISUP and response data format 2.
    put(&mut bytes, 2, &[0x06, 0x12, 96 - 5]);
    // Implicit asymmetric access, third-party copies; MULTIP; CMDQUE.
    put(&mut bytes, 5, &[0x18, 0x10, 0x02]);
    put_text(&mut bytes[8..16], VENDOR);
    put_text(&mut bytes[16..32], PRODUCT);
    put_text(&mut bytes[32..36], "");
    for (index, version) in VERSIONS.iter().enumerate() {
        put(&mut bytes, 58 + 2 * index, &version.to_be_bytes());
    }
    bytes
}

/// A vital product data page.
pub(crate) fn page(subject: &Subject<'_>, page: u8) -> Result<Vec<u8>, Sense> {
    let body = match page {
        SUPPORTED_PAGES => PAGES.to_vec(),
        SERIAL_NUMBER => serial_number(subject.identity).into_bytes(),
        DEVICE_IDENTIFICATION => device_identification(subject),
        EXTENDED_INQUIRY => extended_inquiry(),
        THIRD_PARTY_COPY => copy::page(),
        BLOCK_LIMITS => block_limits(subject),
        BLOCK_CHARACTERISTICS => block_characteristics(),
        // No threshold; UNMAP, WRITE SAME(16) and (10) unmap; reads as zeroes; thin.
        PROVISIONING => vec![0, 0xe4, 0x02, 0],
        _ => return Err(Sense::field_in_cdb(2)),
    };
    let mut bytes = vec![0, page];
    bytes.extend_from_slice(&(body.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn serial_number(identity: Identity) -> String {
    format!("{:032x}{:016x}", identity.pool, identity.image)
}

/// One round of SplitMix64's finalizer: spreads an identity over 64 bits.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// 64 bits that differ for different units but for chance; `salt` gives another 64.
fn digest_of(identity: Identity, salt: u64) -> u64 {
    let pool = mixed(mixed(salt ^ (identity.pool >> 64) as u64) ^ identity.pool as u64);
    mixed(pool ^ identity.image)
}

/// NAA 3h, locally assigned (SPC-4 7.8.6.6.4): the project has no number of the IEEE, which the others need.
fn locally_assigned(identity: Identity) -> [u8; 8] {
    (digest_of(identity, 0) >> 4 | 0x3000_0000_0000_0000).to_be_bytes()
}

/// The name of a unit as hosts write it: `0x3465391958fc61f1`.
#[must_use]
pub fn world_wide_name(identity: Identity) -> String {
    format!("0x{:016x}", u64::from_be_bytes(locally_assigned(identity)))
}

/// A UUID of version 8, made by the unit's maker (RFC 9562 5.8).
fn uuid(identity: Identity) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&digest_of(identity, 1).to_be_bytes());
    bytes[8..].copy_from_slice(&digest_of(identity, 2).to_be_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// What a designator is of (SPC-4 table 513).
#[derive(Clone, Copy)]
enum Of {
    Unit = 0,
    Port = 1,
    Device = 2,
}

fn designator(of: Of, kind: u8, code_set: u8, body: &[u8]) -> Vec<u8> {
    // The protocol is told of ports and devices only (PIV).
    let (protocol, piv) = match of {
        Of::Unit => (0, 0),
        Of::Port | Of::Device => (PROTOCOL_ISCSI << 4, 0x80),
    };
    let mut bytes = vec![protocol | code_set, piv | (of as u8) << 4 | kind, 0, body.len() as u8];
    bytes.extend_from_slice(body);
    bytes
}

/// A name string: UTF-8, ended by a NUL, a multiple of four bytes long (SPC-4 7.8.6.11).
fn name_string(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 1).next_multiple_of(4), 0);
    bytes
}

const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF8: u8 = 3;

/// The names of a unit, whoever asks.
pub(crate) fn designators(identity: Identity) -> [Vec<u8>; 3] {
    let mut vendor = vec![0; 8];
    put_text(&mut vendor, VENDOR);
    vendor.extend_from_slice(serial_number(identity).as_bytes());
    let uuid = [&[0x10, 0][..], &uuid(identity)].concat();
    [
        designator(Of::Unit, 0x3, BINARY, &locally_assigned(identity)),
        designator(Of::Unit, 0x1, ASCII, &vendor),
        designator(Of::Unit, 0xa, BINARY, &uuid),
    ]
}

fn device_identification(subject: &Subject<'_>) -> Vec<u8> {
    let with_padding = |number: u16| [[0, 0], number.to_be_bytes()].concat();
    [
        designators(subject.identity).concat(),
        designator(Of::Port, 0x4, BINARY, &with_padding(subject.port.relative_id)),
        designator(Of::Port, 0x5, BINARY, &with_padding(subject.port.group)),
        designator(Of::Port, 0x8, UTF8, &name_string(&subject.port.name)),
        designator(Of::Device, 0x8, UTF8, &name_string(&subject.port.device_name)),
    ]
    .concat()
}

fn extended_inquiry() -> Vec<u8> {
    let mut bytes = vec![0; 60];
    // SIMPSUP; V_SUP: there may be a volatile cache; LUICLR: a lost nexus takes its attentions along.
    bytes[1] = 0x01;
    bytes[2] = 0x01;
    bytes[3] = 0x01;
    // MAXIMUM SUPPORTED SENSE DATA LENGTH, byte 13 of the page.
    bytes[9] = DESCRIPTOR_BYTES_MAX as u8;
    bytes
}

fn block_limits(subject: &Subject<'_>) -> Vec<u8> {
    let limits = subject.limits;
    // Positions are those of the page, which has four bytes before its body.
    let mut page = vec![0; 64];
    // WSNZ: WRITE SAME of no blocks is an error.
    page[4] = 1;
    page[5] = limits.compare_blocks(subject.block_bytes) as u8;
    let granularity = u16::try_from(subject.optimal_blocks).unwrap_or(u16::MAX);
    put(&mut page, 6, &granularity.to_be_bytes());
    put(&mut page, 8, &limits.transfer_blocks(subject.block_bytes).to_be_bytes());
    put(&mut page, 20, &limits.unmap_blocks_max.to_be_bytes());
    put(&mut page, 24, &limits.unmap_descriptors_max.to_be_bytes());
    put(&mut page, 28, &subject.optimal_blocks.to_be_bytes());
    // UGAVALID, and an alignment of zero.
    page[32] = 0x80;
    put(&mut page, 36, &u64::from(limits.write_same_blocks(subject.block_bytes)).to_be_bytes());
    // MAXIMUM ATOMIC TRANSFER LENGTH, ATOMIC ALIGNMENT, ATOMIC TRANSFER LENGTH GRANULARITY (SBC-4 6.6.4);
    // none with a boundary.
    if subject.atomic_blocks > 0 {
        put(&mut page, 44, &subject.atomic_blocks.to_be_bytes());
        put(&mut page, 48, &subject.optimal_blocks.to_be_bytes());
        put(&mut page, 52, &subject.optimal_blocks.to_be_bytes());
    }
    page.split_off(4)
}

fn block_characteristics() -> Vec<u8> {
    let mut bytes = vec![0; 60];
    // MEDIUM ROTATION RATE 1: it does not rotate.
    bytes[1] = 1;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_that_differ_in_one_number_have_other_names() {
        let of = |pool, image| locally_assigned(Identity { pool, image });
        let names = [of(1, 1), of(1, 2), of(2, 1), of(1 << 64, 1), of(1, 1 << 63)];
        for (index, name) in names.iter().enumerate() {
            assert_eq!(name[0] >> 4, 3, "NAA 3h");
            assert!(!names[..index].contains(name), "{name:x?}");
        }
        let uuid = uuid(Identity { pool: 1, image: 1 });
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 2), "version and variant of RFC 9562");
    }

    /// The loss would be disks that hosts do not know again behind an upgrade. The fuzzer's seeds have the
    /// first, too.
    #[test]
    fn names_of_units_never_change() {
        let [naa, vendor, uuid] = designators(Identity { pool: 1, image: 1 });
        assert_eq!(naa[4..], 0x3465_3919_58fc_61f1_u64.to_be_bytes());
        assert!(vendor[4..].starts_with(b"ASHLAR  00000000000000000000000000000001"), "{vendor:x?}");
        assert_eq!((uuid[3], uuid[4]), (18, 0x10));
        assert_eq!(world_wide_name(Identity { pool: 1, image: 1 }), "0x3465391958fc61f1");
    }

    #[test]
    fn names_end_with_a_nul_and_fill_four_bytes() {
        assert_eq!(name_string("abc"), b"abc\0");
        assert_eq!(name_string("abcd"), b"abcd\0\0\0\0");
    }
}
