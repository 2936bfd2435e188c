//! What a command ends with: a status, data for the host, sense data.

use ashlar_runtime::Buf;

use crate::sense::Sense;

/// SCSI status codes (SAM-5 table 34).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Good = 0x00,
    /// Failed; the sense data say why.
    CheckCondition = 0x02,
    /// Try again later.
    Busy = 0x08,
    /// Somebody else has reserved the unit.
    ReservationConflict = 0x18,
    /// Too many commands at once.
    TaskSetFull = 0x28,
}

/// Bytes for the host.
#[derive(Default)]
pub enum Data {
    /// None.
    #[default]
    None,
    /// Parameter data.
    Parameters(Vec<u8>),
    /// Blocks of the device.
    Blocks(Buf),
}

impl Data {
    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Data::None => &[],
            Data::Parameters(bytes) => bytes,
            Data::Blocks(buf) => buf,
        }
    }
}

/// What a command ends with.
pub struct Answer {
    /// The status.
    pub status: Status,
    /// Data-in, not longer than the allocation length allows; empty unless the command succeeded.
    pub data: Data,
    /// Encoded sense data; empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
}

impl Answer {
    /// GOOD without data.
    #[must_use]
    pub fn good() -> Answer {
        Answer::status(Status::Good)
    }

    /// GOOD with parameter data.
    #[must_use]
    pub fn parameters(bytes: Vec<u8>) -> Answer {
        Answer { data: Data::Parameters(bytes), ..Answer::good() }
    }

    /// GOOD with blocks.
    #[must_use]
    pub fn blocks(buf: Buf) -> Answer {
        Answer { data: Data::Blocks(buf), ..Answer::good() }
    }

    /// A status alone.
    #[must_use]
    pub fn status(status: Status) -> Answer {
        Answer { status, data: Data::None, sense: Vec::new() }
    }

    /// CHECK CONDITION with sense data.
    #[must_use]
    pub fn check(sense: &Sense, is_descriptor: bool) -> Answer {
        Answer { status: Status::CheckCondition, data: Data::None, sense: sense.encoded(is_descriptor) }
    }
}

/// How an operation fails inside this crate; the unit encodes it in the form its mode page asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// CHECK CONDITION.
    Check(Sense),
    /// RESERVATION CONFLICT.
    Conflict,
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Refusal {
        Refusal::Check(sense)
    }
}
