//! The least iSCSI initiator: logs in without a proof, sends commands one by one, and never logs in again by
//! itself.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Status of SCSI.
pub const GOOD: u8 = 0;
pub const CHECK_CONDITION: u8 = 2;
pub const RESERVATION_CONFLICT: u8 = 0x18;

pub struct Initiator {
    stream: TcpStream,
    tag: u32,
}

/// What a command ended with.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: u8,
    /// Data, or behind CHECK CONDITION the sense data.
    pub data: Vec<u8>,
}

impl Ended {
    /// The additional sense code.
    pub fn sense_code(&self) -> u16 {
        assert_eq!(self.status, CHECK_CONDITION, "{self:x?}");
        u16::from_be_bytes([self.data[12], self.data[13]])
    }
}

impl Initiator {
    /// Logs in to a target and hears that its first unit is new. `Err` has the status of a login that was
    /// refused.
    pub fn log_in(port: u16, name: &str, target: &str) -> Result<Initiator, u16> {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut initiator = Initiator { stream, tag: 1 };
        let text = format!("InitiatorName={name}\0TargetName={target}\0InitialR2T=No\0ImmediateData=Yes\0");
        initiator.send(&[(0, &[0x43, 0x87]), (13, &[1]), (27, &[1])], text.as_bytes());
        let (header, _) = initiator.receive().unwrap();
        match u16::from_be_bytes([header[36], header[37]]) {
            0 => Ok(initiator),
            status => Err(status),
        }
    }

    fn send(&mut self, fields: &[(usize, &[u8])], data: &[u8]) {
        let mut bytes = vec![0; 48];
        bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        fields.iter().for_each(|(at, part)| bytes[*at..*at + part.len()].copy_from_slice(part));
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> Option<([u8; 48], Vec<u8>)> {
        let mut header = [0; 48];
        self.stream.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(length);
        Some((header, data))
    }

    /// A command at a unit that reads up to 4 KiB, or writes these.
    pub fn command(&mut self, unit: u8, cdb: &[u8], write: &[u8]) -> Ended {
        self.begin(unit, cdb, write);
        self.finish()
    }

    /// Sends one, and waits for nothing.
    pub fn begin(&mut self, unit: u8, cdb: &[u8], write: &[u8]) {
        let tag = self.tag;
        self.tag += 1;
        let (flags, length) = if write.is_empty() { (0xc0, 4096) } else { (0xa0, write.len() as u32) };
        let fields: [(usize, &[u8]); 6] = [
            (0, &[0x01, flags]),
            (8, &[0, unit]),
            (16, &tag.to_be_bytes()),
            (20, &length.to_be_bytes()),
            (24, &tag.to_be_bytes()),
            (32, cdb),
        ];
        self.send(&fields, write);
    }

    fn finish(&mut self) -> Ended {
        let mut data = Vec::new();
        loop {
            let (header, part) = self.receive().expect("an answer");
            match header[0] & 0x3f {
                0x25 => data.extend_from_slice(&part),
                0x21 => {
                    let sense = part.get(2..).unwrap_or_default();
                    data.extend_from_slice(sense);
                    return Ended { status: header[3], data };
                }
                // A ping, or the wish that we log out.
                0x20 | 0x32 => continue,
                other => panic!("PDU {other:#x}"),
            }
            // The last data may carry the status.
            if header[1] & 1 != 0 {
                return Ended { status: header[3], data };
            }
        }
    }

    /// Hears what a unit has to tell, up to GOOD; the codes.
    pub fn hear(&mut self, unit: u8) -> Vec<u16> {
        let mut codes = Vec::new();
        loop {
            let ended = self.command(unit, &[0; 6], &[]);
            if ended.status == GOOD {
                return codes;
            }
            codes.push(ended.sense_code());
        }
    }
}
