//! CDBs to operations: bytes in, typed fields out, sense data with field pointers for what is wrong.
//!
//! Pure: knows no device. Checks opcode, service action, reserved bits and values; ranges and limits are for
//! the unit.

use crate::bytes::{u16_at, u24_at, u32_at, u64_at};
use crate::commands::{self, Entry, Kind};
use crate::reservation::{InAction, OutAction};
use crate::sense::{Sense, code};

/// The control byte's bit that asks for ACA (SAM-5 5.2), which is not here.
const CONTROL_NACA: u8 = 0x04;
/// READ(6) and WRITE(6) with a length of zero mean so many blocks (SBC-3 5.10).
const SHORT_BLOCKS: u64 = 256;

/// Blocks that a command is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first logical block.
    pub start: u64,
    /// How many. What zero means is the command's.
    pub blocks: u64,
    /// The byte of the CDB where the number begins, for field pointers.
    pub blocks_at: u16,
}

/// What a VERIFY compares the blocks with (SBC-3 table 114).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteCheck {
    /// Nothing: they must be readable.
    Readable,
    /// The data-out, block by block.
    Equal,
    /// One block of data-out, with each.
    EqualToOne,
}

/// Which commands REPORT SUPPORTED OPERATION CODES is asked for (SPC-4 table 273).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodesAsked {
    /// All.
    All,
    /// One that has no service actions.
    Opcode(u8),
    /// One that has them.
    OpcodeAndAction(u8, u16),
    /// One, whether it has them or not.
    Either(u8, u16),
}

/// The fields of MODE SENSE (SPC-4 6.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeSense {
    /// MODE SENSE(10): the long header.
    pub is_long: bool,
    /// Page control: 0 current, 1 changeable, 2 default, 3 saved.
    pub control: u8,
    pub page: u8,
    pub subpage: u8,
    /// DBD: no block descriptor.
    pub is_without_descriptor: bool,
    /// LLBAA: the block descriptor may be the long one.
    pub allows_long_descriptor: bool,
    pub allocation: usize,
}

/// What a command asks for. Lengths and allocation lengths are in bytes, spans in logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    TestUnitReady,
    RequestSense {
        is_descriptor: bool,
        allocation: usize,
    },
    Inquiry {
        page: Option<u8>,
        allocation: usize,
    },
    ReadCapacity {
        is_long: bool,
        allocation: usize,
    },
    ReportUnits {
        select: u8,
        allocation: usize,
    },
    ModeSense(ModeSense),
    ModeSelect {
        is_long: bool,
        length: usize,
    },
    LogSense {
        page: u8,
        subpage: u8,
        parameter: u16,
        allocation: usize,
    },
    StartStopUnit {
        flushes: bool,
    },
    SynchronizeCache(Span),
    Read {
        span: Span,
    },
    Write {
        span: Span,
        is_fua: bool,
    },
    Verify {
        span: Span,
        check: ByteCheck,
    },
    WriteAndVerify {
        span: Span,
        check: ByteCheck,
    },
    CompareAndWrite {
        span: Span,
        is_fua: bool,
    },
    WriteSame {
        span: Span,
        may_unmap: bool,
        has_data: bool,
    },
    Unmap {
        length: usize,
    },
    ExtendedCopy {
        length: usize,
    },
    /// Of this copy, or, without one, what copies may be.
    CopyResults {
        list: Option<u8>,
        allocation: usize,
    },
    GetBlockStatus {
        start: u64,
        allocation: usize,
    },
    OrWrite {
        span: Span,
        is_fua: bool,
    },
    WriteAtomic {
        span: Span,
        is_fua: bool,
    },
    Prefetch(Span),
    PersistentReserveIn {
        action: InAction,
        allocation: usize,
    },
    PersistentReserveOut {
        action: OutAction,
        scope: u8,
        kind: u8,
        length: usize,
    },
    Reserve,
    Release,
    ReportOperationCodes {
        asked: CodesAsked,
        has_timeouts: bool,
        allocation: usize,
    },
    ReportTaskManagement {
        is_extended: bool,
        allocation: usize,
    },
    ReportTargetPortGroups {
        is_extended: bool,
        allocation: usize,
    },
}

impl Operation {
    /// Bytes of data-out that the CDB asks the host for.
    #[must_use]
    pub fn data_out_bytes(&self, block_bytes: u32) -> u64 {
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(block_bytes));
        match *self {
            Operation::Write { span, .. } | Operation::WriteAndVerify { span, .. } => bytes(span.blocks),
            Operation::OrWrite { span, .. } | Operation::WriteAtomic { span, .. } => bytes(span.blocks),
            Operation::CompareAndWrite { span, .. } => bytes(span.blocks.saturating_mul(2)),
            Operation::Verify { span, check } => match check {
                ByteCheck::Readable => 0,
                ByteCheck::Equal => bytes(span.blocks),
                ByteCheck::EqualToOne => bytes(span.blocks.min(1)),
            },
            Operation::WriteSame { has_data, .. } => bytes(u64::from(has_data)),
            Operation::ModeSelect { length, .. }
            | Operation::Unmap { length }
            | Operation::ExtendedCopy { length }
            | Operation::PersistentReserveOut { length, .. } => length as u64,
            Operation::TestUnitReady
            | Operation::RequestSense { .. }
            | Operation::Inquiry { .. }
            | Operation::ReadCapacity { .. }
            | Operation::ReportUnits { .. }
            | Operation::ModeSense(_)
            | Operation::LogSense { .. }
            | Operation::StartStopUnit { .. }
            | Operation::SynchronizeCache(_)
            | Operation::Read { .. }
            | Operation::GetBlockStatus { .. }
            | Operation::CopyResults { .. }
            | Operation::Prefetch(_)
            | Operation::PersistentReserveIn { .. }
            | Operation::Reserve
            | Operation::Release
            | Operation::ReportOperationCodes { .. }
            | Operation::ReportTaskManagement { .. }
            | Operation::ReportTargetPortGroups { .. } => 0,
        }
    }

    /// The same with no more blocks than the host brings data for: a plain write of more writes those (RFC
    /// 7143 11.4.5.1, residual overflow).
    pub(crate) fn cut_to(mut self, offered_bytes: u64, block_bytes: u32) -> Operation {
        if let Operation::Write { span, .. } | Operation::WriteAndVerify { span, .. } = &mut self {
            span.blocks = span.blocks.min(offered_bytes / u64::from(block_bytes));
        }
        self
    }

    /// More data-out than asked for is an error too, not only less: a host that got the length wrong may have
    /// got the rest wrong, and these write or give away more than they carry.
    pub(crate) fn wants_exact_data(&self) -> bool {
        matches!(
            self,
            Operation::WriteSame { .. } | Operation::CompareAndWrite { .. } | Operation::Unmap { .. }
        )
    }
}

/// Reads a CDB.
pub fn parse(cdb: &[u8]) -> Result<Operation, Sense> {
    operation(lookup(cdb)?, cdb)
}

/// Finds the command. An opcode that is not there is INVALID COMMAND OPERATION CODE; a service action that is
/// not there is an invalid field (SPC-4 4.2.5.2).
pub(crate) fn lookup(cdb: &[u8]) -> Result<&'static Entry, Sense> {
    let (opcode, service_action) = (crate::bytes::u8_at(cdb, 0), crate::bytes::u8_at(cdb, 1) & 0x1f);
    if cdb.is_empty() || commands::of_opcode(opcode).next().is_none() {
        return Err(Sense::illegal(code::INVALID_OPERATION_CODE));
    }
    commands::find(opcode, service_action).ok_or(Sense::bit_in_cdb(1, 4))
}

/// Checks the bits that nothing reads, then reads the fields.
pub(crate) fn operation(entry: &Entry, cdb: &[u8]) -> Result<Operation, Sense> {
    let Some(cdb) = cdb.get(..entry.usage.len()) else {
        return Err(Sense::field_in_cdb(u16::try_from(cdb.len()).unwrap_or(u16::MAX)));
    };
    check_reserved(entry, cdb)?;
    match entry.kind {
        Kind::Read6
        | Kind::Read10
        | Kind::Read12
        | Kind::Read16
        | Kind::Write6
        | Kind::Write10
        | Kind::Write12
        | Kind::Write16
        | Kind::CompareAndWrite
        | Kind::OrWrite
        | Kind::WriteAtomic16 => Ok(transfer(entry.kind, cdb)),
        Kind::Verify10
        | Kind::Verify12
        | Kind::Verify16
        | Kind::WriteAndVerify10
        | Kind::WriteAndVerify12
        | Kind::WriteAndVerify16 => verification(entry.kind, cdb),
        Kind::Prefetch10 | Kind::Prefetch16 => Ok(Operation::Prefetch(span(cdb))),
        Kind::SynchronizeCache10 | Kind::SynchronizeCache16 => Ok(Operation::SynchronizeCache(span(cdb))),
        Kind::WriteSame10 | Kind::WriteSame16 => Ok(Operation::WriteSame {
            span: span(cdb),
            may_unmap: cdb[1] & 0x08 != 0,
            has_data: cdb[1] & 0x01 == 0,
        }),
        Kind::Unmap => Ok(Operation::Unmap { length: usize::from(u16_at(cdb, 7)) }),
        Kind::ExtendedCopy => Ok(Operation::ExtendedCopy { length: u32_at(cdb, 10) as usize }),
        Kind::ReceiveCopyResults => {
            let list = (entry.service_action == Some(0)).then_some(cdb[2]);
            Ok(Operation::CopyResults { list, allocation: u32_at(cdb, 10) as usize })
        }
        Kind::GetBlockStatus => {
            Ok(Operation::GetBlockStatus { start: u64_at(cdb, 2), allocation: u32_at(cdb, 10) as usize })
        }
        Kind::PersistentReserveIn | Kind::PersistentReserveOut | Kind::Reserve | Kind::Release => {
            reservation(entry, cdb)
        }
        Kind::ModeSelect6 | Kind::ModeSelect10 | Kind::ModeSense6 | Kind::ModeSense10 | Kind::LogSense => {
            pages(entry.kind, cdb)
        }
        Kind::TestUnitReady
        | Kind::RequestSense
        | Kind::Inquiry
        | Kind::StartStopUnit
        | Kind::ReadCapacity10
        | Kind::ReadCapacity16
        | Kind::ReportUnits
        | Kind::ReportTargetPortGroups
        | Kind::ReportOperationCodes
        | Kind::ReportTaskManagement => inquiry(entry.kind, cdb),
    }
}

fn check_reserved(entry: &Entry, cdb: &[u8]) -> Result<(), Sense> {
    let control_at = cdb.len() - 1;
    for (index, byte) in cdb.iter().enumerate().take(control_at).skip(1) {
        let action_bits = if index == 1 && entry.service_action.is_some() { 0x1f } else { 0 };
        let wrong = byte & !(entry.usage[index] | action_bits);
        if wrong != 0 {
            return Err(Sense::bit_in_cdb(index as u16, 7 - wrong.leading_zeros() as u8));
        }
    }
    if cdb[control_at] & CONTROL_NACA != 0 {
        return Err(Sense::bit_in_cdb(control_at as u16, 2));
    }
    Ok(())
}

/// Start and length of a command of 10, 12 or 16 bytes that has both in the usual places.
fn span(cdb: &[u8]) -> Span {
    match cdb.len() {
        10 => Span { start: u64::from(u32_at(cdb, 2)), blocks: u64::from(u16_at(cdb, 7)), blocks_at: 7 },
        12 => Span { start: u64::from(u32_at(cdb, 2)), blocks: u64::from(u32_at(cdb, 6)), blocks_at: 6 },
        _ => Span { start: u64_at(cdb, 2), blocks: u64::from(u32_at(cdb, 10)), blocks_at: 10 },
    }
}

/// The same of six bytes: 21 bits of address, and no length of zero.
fn short_span(cdb: &[u8]) -> Span {
    let blocks = match cdb[4] {
        0 => SHORT_BLOCKS,
        blocks => u64::from(blocks),
    };
    Span { start: u64::from(u24_at(cdb, 1) & 0x1f_ffff), blocks, blocks_at: 4 }
}

fn transfer(kind: Kind, cdb: &[u8]) -> Operation {
    // FUA, or the obsolete FUA_NV.
    let is_fua = cdb.len() > 6 && cdb[1] & 0x0a != 0;
    match kind {
        Kind::Read6 => Operation::Read { span: short_span(cdb) },
        Kind::Write6 => Operation::Write { span: short_span(cdb), is_fua: false },
        Kind::Read10 | Kind::Read12 | Kind::Read16 => Operation::Read { span: span(cdb) },
        Kind::CompareAndWrite => {
            let span = Span { start: u64_at(cdb, 2), blocks: u64::from(cdb[13]), blocks_at: 13 };
            Operation::CompareAndWrite { span, is_fua }
        }
        Kind::OrWrite => Operation::OrWrite { span: span(cdb), is_fua },
        Kind::WriteAtomic16 => {
            let span = Span { start: u64_at(cdb, 2), blocks: u64::from(u16_at(cdb, 12)), blocks_at: 12 };
            Operation::WriteAtomic { span, is_fua }
        }
        _ => Operation::Write { span: span(cdb), is_fua },
    }
}

fn verification(kind: Kind, cdb: &[u8]) -> Result<Operation, Sense> {
    let span = span(cdb);
    let is_write = matches!(kind, Kind::WriteAndVerify10 | Kind::WriteAndVerify12 | Kind::WriteAndVerify16);
    let check = match cdb[1] >> 1 & 3 {
        0 => ByteCheck::Readable,
        1 => ByteCheck::Equal,
        3 if !is_write => ByteCheck::EqualToOne,
        _ => return Err(Sense::bit_in_cdb(1, 2)),
    };
    Ok(if is_write { Operation::WriteAndVerify { span, check } } else { Operation::Verify { span, check } })
}

fn reservation(entry: &Entry, cdb: &[u8]) -> Result<Operation, Sense> {
    let service_action = entry.service_action.unwrap_or(0);
    match entry.kind {
        Kind::PersistentReserveIn => Ok(Operation::PersistentReserveIn {
            action: InAction::from_wire(service_action).ok_or(Sense::bit_in_cdb(1, 4))?,
            allocation: usize::from(u16_at(cdb, 7)),
        }),
        Kind::PersistentReserveOut => Ok(Operation::PersistentReserveOut {
            action: OutAction::from_wire(service_action).ok_or(Sense::bit_in_cdb(1, 4))?,
            scope: cdb[2] >> 4,
            kind: cdb[2] & 0x0f,
            length: u32_at(cdb, 5) as usize,
        }),
        Kind::Reserve => Ok(Operation::Reserve),
        _ => Ok(Operation::Release),
    }
}

fn pages(kind: Kind, cdb: &[u8]) -> Result<Operation, Sense> {
    let is_long = cdb.len() == 10;
    let allocation = if is_long { usize::from(u16_at(cdb, 7)) } else { usize::from(cdb[4]) };
    match kind {
        Kind::ModeSelect6 | Kind::ModeSelect10 => {
            // PF=0 is a page format of the vendor's own, and there is none; SP asks to save, and nothing is.
            if cdb[1] & 0x10 == 0 && allocation > 0 {
                return Err(Sense::bit_in_cdb(1, 4));
            }
            if cdb[1] & 0x01 != 0 {
                return Err(Sense::bit_in_cdb(1, 0));
            }
            Ok(Operation::ModeSelect { is_long, length: allocation })
        }
        Kind::LogSense => Ok(Operation::LogSense {
            page: cdb[2] & 0x3f,
            subpage: cdb[3],
            parameter: u16_at(cdb, 5),
            allocation,
        }),
        _ => Ok(Operation::ModeSense(ModeSense {
            is_long,
            control: cdb[2] >> 6,
            page: cdb[2] & 0x3f,
            subpage: cdb[3],
            is_without_descriptor: cdb[1] & 0x08 != 0,
            allows_long_descriptor: is_long && cdb[1] & 0x10 != 0,
            allocation,
        })),
    }
}

fn inquiry(kind: Kind, cdb: &[u8]) -> Result<Operation, Sense> {
    Ok(match kind {
        Kind::TestUnitReady => Operation::TestUnitReady,
        Kind::RequestSense => {
            Operation::RequestSense { is_descriptor: cdb[1] & 1 != 0, allocation: usize::from(cdb[4]) }
        }
        Kind::Inquiry => {
            let page = (cdb[1] & 1 != 0).then_some(cdb[2]);
            if page.is_none() && cdb[2] != 0 {
                return Err(Sense::field_in_cdb(2));
            }
            Operation::Inquiry { page, allocation: usize::from(u16_at(cdb, 3)) }
        }
        // NO_FLUSH counts only without a power condition (SBC-3 table 108).
        Kind::StartStopUnit => start_stop(cdb)?,
        Kind::ReadCapacity10 => {
            // An address without PMI is an error (SBC-3 5.15); with PMI, which is obsolete, it changes
            // nothing.
            if cdb[8] & 1 == 0 && u32_at(cdb, 2) != 0 {
                return Err(Sense::field_in_cdb(2));
            }
            Operation::ReadCapacity { is_long: false, allocation: 8 }
        }
        Kind::ReadCapacity16 => {
            Operation::ReadCapacity { is_long: true, allocation: u32_at(cdb, 10) as usize }
        }
        Kind::ReportUnits => {
            let (select, allocation) = (cdb[2], u32_at(cdb, 6) as usize);
            if select > 2 {
                return Err(Sense::field_in_cdb(2));
            }
            // SPC-4 6.33: room for the header and one address at least.
            if allocation < 16 {
                return Err(Sense::field_in_cdb(6));
            }
            Operation::ReportUnits { select, allocation }
        }
        Kind::ReportTargetPortGroups => {
            let format = cdb[1] >> 5;
            if format > 1 {
                return Err(Sense::bit_in_cdb(1, 7));
            }
            Operation::ReportTargetPortGroups {
                is_extended: format == 1,
                allocation: u32_at(cdb, 6) as usize,
            }
        }
        Kind::ReportTaskManagement => {
            let allocation = u32_at(cdb, 6) as usize;
            // SPC-4 6.36: room for the short form at least.
            if allocation < 4 {
                return Err(Sense::field_in_cdb(6));
            }
            Operation::ReportTaskManagement { is_extended: cdb[2] & 0x80 != 0, allocation }
        }
        _ => Operation::ReportOperationCodes {
            asked: codes_asked(cdb)?,
            has_timeouts: cdb[2] & 0x80 != 0,
            allocation: u32_at(cdb, 6) as usize,
        },
    })
}

fn start_stop(cdb: &[u8]) -> Result<Operation, Sense> {
    let (power_condition, is_no_flush, is_eject) = (cdb[4] >> 4, cdb[4] & 4 != 0, cdb[4] & 2 != 0);
    // With a power condition LOEJ and START are ignored; without, there is no medium to load or eject.
    if power_condition == 0 && is_eject {
        return Err(Sense::bit_in_cdb(4, 1));
    }
    Ok(Operation::StartStopUnit { flushes: power_condition == 0 && !is_no_flush })
}

fn codes_asked(cdb: &[u8]) -> Result<CodesAsked, Sense> {
    let (opcode, service_action) = (cdb[3], u16_at(cdb, 4));
    let is_known = commands::of_opcode(opcode).next().is_some();
    let has_actions = commands::of_opcode(opcode).any(|entry| entry.service_action.is_some());
    match cdb[2] & 7 {
        0 => Ok(CodesAsked::All),
        // SPC-4 6.35.1: the two must fit the command asked for.
        1 if has_actions => Err(Sense::bit_in_cdb(2, 2)),
        1 => Ok(CodesAsked::Opcode(opcode)),
        2 if is_known && !has_actions => Err(Sense::bit_in_cdb(2, 2)),
        2 => Ok(CodesAsked::OpcodeAndAction(opcode, service_action)),
        3 => Ok(CodesAsked::Either(opcode, service_action)),
        _ => Err(Sense::bit_in_cdb(2, 2)),
    }
}
