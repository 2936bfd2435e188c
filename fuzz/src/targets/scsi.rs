//! Parsers of what iSCSI initiators send: commands, PDUs, text.

use super::Target;

/// CDBs with their data, PDUs in a stream, logins, text alone.
pub const TARGETS: [Target; 4] = [
    Target { name: "scsi", run: ashlar_scsi::fuzz_commands, seeds: command_seeds },
    Target { name: "iscsi", run: ashlar_iscsi::fuzz_session, seeds: session_seeds },
    Target { name: "iscsi_login", run: ashlar_iscsi::fuzz_login, seeds: login_seeds },
    Target { name: "iscsi_text", run: ashlar_iscsi::fuzz_text, seeds: text_seeds },
];

/// A command as `fuzz_commands` takes it: place, sixteen bytes of CDB, length and data.
fn command(place: u8, cdb: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![place];
    bytes.extend_from_slice(cdb);
    bytes.resize(17, 0);
    bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Every opcode once, those with data with some, and a few that follow from each other.
fn command_seeds() -> Vec<Vec<u8>> {
    let registration = [&[0; 8][..], &[0, 0, 0, 0, 0, 0, 0, 9], &[0; 8]].concat();
    let reservation = [&[0, 0, 0, 0, 0, 0, 0, 9][..], &[0; 16]].concat();
    let unmap = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]].concat();
    let modes = [0, 0, 0, 0, 0x0a, 10, 4, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0, 0];
    // The unit's NAA name, made of the identity that `fuzz_commands` gives it.
    let name = [0x34, 0x65, 0x39, 0x19, 0x58, 0xfc, 0x61, 0xf1];
    let device = [&[0xe4, 0, 0, 0, 1, 3, 0, 8][..], &name, &[0; 14], &[2, 0]].concat();
    let ranges = [&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0, 0, 0, 0, 0, 0, 0, 9]].concat();
    let segment = [&[2, 0, 0, 24, 0, 0, 0, 0][..], &ranges].concat();
    let copy = [&[7, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0][..], &device, &segment].concat();
    let block = [0x5a; 512];
    let two = [0x5a; 1024];
    let commands = [
        command(0, &[0x00], &[]),
        command(0, &[0x03, 1, 0, 0, 252], &[]),
        command(0, &[0x12, 1, 0x83, 1, 0], &[]),
        command(0, &[0x15, 0x10, 0, 0, 16], &modes),
        command(0, &[0x1a, 0, 0x3f, 0, 255], &[]),
        command(0, &[0x25], &[]),
        command(0, &[0x28, 0, 0, 0, 0, 1, 0, 0, 2], &[]),
        command(0, &[0x2a, 8, 0, 0, 0, 1, 0, 0, 1], &block),
        command(0, &[0x2f, 2, 0, 0, 0, 1, 0, 0, 1], &block),
        command(0, &[0x41, 8, 0, 0, 0, 1, 0, 0, 4], &block),
        command(0, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24], &unmap),
        command(0, &[0x4d, 0, 0x2f, 0, 0, 0, 0, 0, 255], &[]),
        command(0, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24], &registration),
        command(0, &[0x5f, 1, 1, 0, 0, 0, 0, 0, 24], &reservation),
        command(1, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], &block),
        command(0, &[0x5e, 3, 0, 0, 0, 0, 0, 1, 0], &[]),
        command(0, &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, copy.len() as u8], &copy),
        command(0, &[0x84, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12], &[]),
        command(0, &[0x84, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64], &[]),
        command(0, &[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], &two),
        command(0, &[0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], &block),
        command(0, &[0x9c, 8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8], &[0x5a; 4096]),
        command(0, &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32], &[]),
        command(0, &[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 64], &[]),
        command(0x80, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64], &[]),
        command(0, &[0xa3, 0x0c, 0x80, 0, 0, 0, 0, 0, 0x10, 0], &[]),
        command(0, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 64], &[]),
    ];
    let mut seeds: Vec<Vec<u8>> = commands.iter().map(|one| [&[0][..], one].concat()).collect();
    seeds.push([&[0][..], &commands.concat()].concat());
    seeds
}

/// A PDU without digests: bytes 0 and 1, tag, bytes 20 to 28, bytes 32 to 48, data.
fn pdu(start: [u8; 2], tag: u8, middle: [u8; 8], end: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..2].copy_from_slice(&start);
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    bytes[19] = tag;
    bytes[20..28].copy_from_slice(&middle);
    bytes[32..32 + end.len()].copy_from_slice(end);
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Every PDU of an initiator, and a stream of them behind each of the logins `fuzz_session` makes.
fn session_seeds() -> Vec<Vec<u8>> {
    let no_tag = [0xff; 4];
    let numbered = |first: [u8; 4], cmd_sn: u8| {
        let [a, b, c, d] = first;
        [a, b, c, d, 0, 0, 0, cmd_sn]
    };
    let pdus = [
        pdu([0x01, 0xc0], 1, numbered([0, 0, 0, 96], 1), &[0x12, 0, 0, 0, 96], &[]),
        pdu([0x01, 0xa0], 2, numbered([0, 0, 4, 0], 2), &[0x2a, 0, 0, 0, 0, 0, 0, 0, 2], &[7; 512]),
        pdu([0x05, 0x80], 2, [0, 0, 0, 1, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0], &[8; 512]),
        pdu([0x40, 0x80], 3, numbered(no_tag, 3), &[], b"ping"),
        pdu([0x04, 0x80], 4, numbered(no_tag, 3), &[], b"SendTargets=\0"),
        pdu([0x42, 0x85], 5, numbered(no_tag, 4), &[], &[]),
        pdu([0x06, 0x80], 6, numbered([0; 4], 4), &[], &[]),
    ];
    let mut seeds: Vec<Vec<u8>> = (0..4).map(|choice| [&[choice][..], &pdus.concat()].concat()).collect();
    seeds.extend(pdus.iter().map(|pdu| [&[1][..], pdu].concat()));
    seeds
}

/// Texts of the known steps, each led by its flags and its length.
fn login_seeds() -> Vec<Vec<u8>> {
    let names = b"InitiatorName=iqn.2026-11.io.example:host\0TargetName=iqn.2026-11.io.ashlar:p\0";
    let step = |flags: u8, parts: &[&[u8]]| {
        let text = parts.concat();
        [&[flags, text.len() as u8][..], &text].concat()
    };
    let open = step(0x87, &[names, b"HeaderDigest=CRC32C,None\0InitialR2T=No\0MaxBurstLength=65536\0"]);
    let chap = [
        step(0x00, &[names, b"AuthMethod=CHAP,None\0"]),
        step(0x00, &[b"CHAP_A=7,6,5\0"]),
        step(0x81, &[b"CHAP_N=host\0CHAP_R=0x00112233445566778899aabbccddeeff\0CHAP_I=1\0CHAP_C=0x0102\0"]),
        step(0x87, &[b"MaxRecvDataSegmentLength=8192\0"]),
    ];
    vec![
        [&[0][..], &open].concat(),
        [&[1][..], &chap.concat()].concat(),
        [&[0][..], &step(0x87, &[b"InitiatorName=iqn.x\0SessionType=Discovery\0"])].concat(),
    ]
}

/// Keys with values of every kind.
fn text_seeds() -> Vec<Vec<u8>> {
    let all = [
        &b"HeaderDigest=CRC32C,None\0"[..],
        b"MaxBurstLength=0x40000\0",
        b"CHAP_C=0bZm9vYmFy\0",
        b"CHAP_R=0x0aff\0",
    ];
    let mut seeds: Vec<Vec<u8>> = all.iter().map(|pair| pair.to_vec()).collect();
    seeds.push(all.concat());
    seeds
}
