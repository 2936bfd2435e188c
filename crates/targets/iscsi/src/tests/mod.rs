//! Sessions byte by byte: what goes in, and exactly what must come out.

mod data;
mod full_feature;
mod login;

use crate::fuzz::{Exercise, OneTarget, login_request, login_text};
use crate::login::Authentication;
use crate::parameters::Offer;
use crate::wire::{Digests, Framed, HEADER_BYTES, frame};

/// A PDU the target sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    pub header: [u8; HEADER_BYTES],
    pub data: Vec<u8>,
}

impl Received {
    pub fn opcode(&self) -> u8 {
        self.header[0]
    }

    pub fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.header[at..at + 4].try_into().unwrap())
    }

    /// StatSN, ExpCmdSN, MaxCmdSN.
    pub fn numbers(&self) -> [u32; 3] {
        [self.u32_at(24), self.u32_at(28), self.u32_at(32)]
    }

    pub fn text(&self) -> Vec<(String, String)> {
        let pairs = crate::text::pairs(&self.data).unwrap();
        pairs.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    pub fn value(&self, key: &str) -> Option<String> {
        self.text().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

impl Exercise {
    /// Takes what the target sent, PDU by PDU.
    pub fn received(&mut self) -> Vec<Received> {
        self.received_with(Digests::default())
    }

    pub fn received_with(&mut self, digests: Digests) -> Vec<Received> {
        let bytes = std::mem::take(&mut self.output);
        let mut rest = &bytes[..];
        let mut all = Vec::new();
        while !rest.is_empty() {
            let Framed::Whole(whole) = frame(rest, digests, 1 << 20) else { panic!("no PDU: {rest:x?}") };
            all.push(Received { header: *whole.header, data: whole.data.to_vec() });
            rest = &rest[whole.bytes..];
        }
        all
    }

    /// The one PDU that it sent.
    pub fn one(&mut self) -> Received {
        let mut all = self.received();
        assert_eq!(all.len(), 1, "{all:x?}");
        all.remove(0)
    }
}

/// A PDU of the initiator, without digests.
pub fn pdu(fields: &[(usize, &[u8])], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    for (at, part) in fields {
        bytes[*at..*at + part.len()].copy_from_slice(part);
    }
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A command: flags of byte 1, tag, CmdSN, expected length, first bytes of the CDB, immediate data.
pub fn command(flags: u8, tag: u32, cmd_sn: u32, expected: u32, cdb: &[u8], data: &[u8]) -> Vec<u8> {
    pdu(
        &[
            (0, &[0x01, flags]),
            (16, &tag.to_be_bytes()),
            (20, &expected.to_be_bytes()),
            (24, &cmd_sn.to_be_bytes()),
            (32, cdb),
        ],
        data,
    )
}

/// A read that is answered with `length` bytes.
pub fn read(tag: u32, cmd_sn: u32, expected: u32, length: u8) -> Vec<u8> {
    command(0xc0, tag, cmd_sn, expected, &[0x12, 0, 0, 0, length], &[])
}

/// Data-Out: final, tag, transfer tag, DataSN, offset.
pub fn data_out(is_final: bool, tag: u32, transfer: u32, data_sn: u32, offset: u32, data: &[u8]) -> Vec<u8> {
    pdu(
        &[
            (0, &[0x05, if is_final { 0x80 } else { 0 }]),
            (16, &tag.to_be_bytes()),
            (20, &transfer.to_be_bytes()),
            (36, &data_sn.to_be_bytes()),
            (40, &offset.to_be_bytes()),
        ],
        data,
    )
}

/// A session in the full feature phase, its login answers taken. The first CmdSN is 1.
pub fn logged_in(more: &[(&str, &str)], offer: Offer) -> Exercise {
    let mut exercise = Exercise::new(OneTarget { authentication: Authentication::None }, offer);
    exercise.feed(&login_request(0x87, &login_text(more)));
    assert!(exercise.opened.is_some(), "{:?}", exercise.end);
    exercise.output.clear();
    exercise
}
