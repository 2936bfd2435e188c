//! The commands there are: opcode, CDB usage data and what reservations say of them, in one table.
//!
//! Parsing, REPORT SUPPORTED OPERATION CODES and the checks of reservations all read it, so they cannot
//! differ.

/// What a command does to the unit, as reservations see it (SPC-4 table 66, SBC-3 table 13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Allowed whoever holds a reservation.
    Always,
    /// Refused to others only by the exclusive access types.
    Read,
    /// Refused to others by every type.
    Write,
}

/// The commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    TestUnitReady,
    RequestSense,
    Read6,
    Write6,
    Inquiry,
    ModeSelect6,
    Reserve,
    Release,
    ModeSense6,
    StartStopUnit,
    ReadCapacity10,
    Read10,
    Write10,
    WriteAndVerify10,
    Verify10,
    Prefetch10,
    SynchronizeCache10,
    WriteSame10,
    Unmap,
    LogSense,
    ModeSelect10,
    ModeSense10,
    PersistentReserveIn,
    PersistentReserveOut,
    Read16,
    CompareAndWrite,
    Write16,
    OrWrite,
    ExtendedCopy,
    ReceiveCopyResults,
    WriteAndVerify16,
    Verify16,
    Prefetch16,
    SynchronizeCache16,
    WriteSame16,
    WriteAtomic16,
    ReadCapacity16,
    GetBlockStatus,
    ReportUnits,
    ReportTargetPortGroups,
    ReportOperationCodes,
    ReportTaskManagement,
    Read12,
    Write12,
    WriteAndVerify12,
    Verify12,
}

/// One line of the table.
pub(crate) struct Entry {
    pub kind: Kind,
    pub opcode: u8,
    /// For commands that have one: it stands in the low five bits of byte 1.
    pub service_action: Option<u8>,
    /// One byte for each of the CDB: the bits that are looked at (SPC-4 6.35.3). Byte 0 is the opcode, byte 1
    /// of a command with a service action is the mask of what else is there. Any other bit must be zero.
    pub usage: &'static [u8],
    pub access: Access,
}

const fn entry(kind: Kind, usage: &'static [u8], access: Access) -> Entry {
    Entry { kind, opcode: usage[0], service_action: None, usage, access }
}

const fn action(kind: Kind, service_action: u8, usage: &'static [u8], access: Access) -> Entry {
    Entry { kind, opcode: usage[0], service_action: Some(service_action), usage, access }
}

const F: u8 = 0xff;
/// DPO, FUA and the obsolete FUA_NV, which is taken for FUA. RDPROTECT and WRPROTECT must be zero.
const CACHING: u8 = 0x1a;
/// DPO and BYTCHK.
const CHECKING: u8 = 0x16;
/// GROUP NUMBER: hosts may sort what they read ahead into groups; nothing is counted by them.
const GROUP: u8 = 0x1f;
/// IMMED.
const IMMEDIATE: u8 = 0x02;

// tidy: long because it is a table, sorted by opcode.
/// Every command, by opcode and service action.
pub(crate) const COMMANDS: [Entry; 59] = [
    entry(Kind::TestUnitReady, &[0x00, 0, 0, 0, 0, 0], Access::Always),
    entry(Kind::RequestSense, &[0x03, 0x01, 0, 0, F, 0], Access::Always),
    entry(Kind::Read6, &[0x08, 0x1f, F, F, F, 0], Access::Read),
    entry(Kind::Write6, &[0x0a, 0x1f, F, F, F, 0], Access::Write),
    entry(Kind::Inquiry, &[0x12, 0x01, F, F, F, 0], Access::Always),
    entry(Kind::ModeSelect6, &[0x15, 0x11, 0, 0, F, 0], Access::Write),
    entry(Kind::Reserve, &[0x16, 0, 0, 0, 0, 0], Access::Always),
    entry(Kind::Release, &[0x17, 0, 0, 0, 0, 0], Access::Always),
    entry(Kind::ModeSense6, &[0x1a, 0x08, F, F, F, 0], Access::Write),
    // START=1 without a power condition is allowed to all (SBC-3 table 13); nothing is stopped here, so all
    // is.
    entry(Kind::StartStopUnit, &[0x1b, 0x01, 0, 0x0f, 0xf7, 0], Access::Always),
    entry(Kind::ReadCapacity10, &[0x25, 0, F, F, F, F, 0, 0, 0x01, 0], Access::Always),
    entry(Kind::Read10, &[0x28, CACHING, F, F, F, F, 0, F, F, 0], Access::Read),
    entry(Kind::Write10, &[0x2a, CACHING, F, F, F, F, 0, F, F, 0], Access::Write),
    entry(Kind::WriteAndVerify10, &[0x2e, CHECKING, F, F, F, F, 0, F, F, 0], Access::Write),
    entry(Kind::Verify10, &[0x2f, CHECKING, F, F, F, F, 0, F, F, 0], Access::Read),
    entry(Kind::Prefetch10, &[0x34, IMMEDIATE, F, F, F, F, GROUP, F, F, 0], Access::Read),
    // SYNC_NV (bit 2) is obsolete and asks for nothing that is not done.
    entry(Kind::SynchronizeCache10, &[0x35, 0x06, F, F, F, F, 0, F, F, 0], Access::Write),
    // UNMAP; WRPROTECT and ANCHOR must be zero.
    entry(Kind::WriteSame10, &[0x41, 0x08, F, F, F, F, 0, F, F, 0], Access::Write),
    entry(Kind::Unmap, &[0x42, 0, 0, 0, 0, 0, 0, F, F, 0], Access::Write),
    entry(Kind::LogSense, &[0x4d, 0, F, F, 0, F, F, F, F, 0], Access::Always),
    entry(Kind::ModeSelect10, &[0x55, 0x11, 0, 0, 0, 0, 0, F, F, 0], Access::Write),
    entry(Kind::Reserve, &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], Access::Always),
    entry(Kind::Release, &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0], Access::Always),
    entry(Kind::ModeSense10, &[0x5a, 0x18, F, F, 0, 0, 0, F, F, 0], Access::Write),
    action(Kind::PersistentReserveIn, 0, &[0x5e, 0, 0, 0, 0, 0, 0, F, F, 0], Access::Always),
    action(Kind::PersistentReserveIn, 1, &[0x5e, 0, 0, 0, 0, 0, 0, F, F, 0], Access::Always),
    action(Kind::PersistentReserveIn, 2, &[0x5e, 0, 0, 0, 0, 0, 0, F, F, 0], Access::Always),
    action(Kind::PersistentReserveIn, 3, &[0x5e, 0, 0, 0, 0, 0, 0, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 0, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 1, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 2, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 3, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 4, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 5, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 6, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::PersistentReserveOut, 7, &[0x5f, 0, F, 0, 0, F, F, F, F, 0], Access::Always),
    action(Kind::ExtendedCopy, 0, &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, F, F, F, F, 0, 0], Access::Write),
    action(Kind::ReceiveCopyResults, 0, &[0x84, 0, F, 0, 0, 0, 0, 0, 0, 0, F, F, F, F, 0, 0], Access::Write),
    action(Kind::ReceiveCopyResults, 3, &[0x84, 0, F, 0, 0, 0, 0, 0, 0, 0, F, F, F, F, 0, 0], Access::Write),
    entry(Kind::Read16, &[0x88, CACHING, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Read),
    entry(Kind::CompareAndWrite, &[0x89, CACHING, F, F, F, F, F, F, F, F, 0, 0, 0, F, 0, 0], Access::Write),
    entry(Kind::Write16, &[0x8a, CACHING, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Write),
    entry(Kind::OrWrite, &[0x8b, CACHING, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Write),
    entry(Kind::WriteAndVerify16, &[0x8e, CHECKING, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Write),
    entry(Kind::Verify16, &[0x8f, CHECKING, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Read),
    entry(Kind::Prefetch16, &[0x90, IMMEDIATE, F, F, F, F, F, F, F, F, F, F, F, F, GROUP, 0], Access::Read),
    entry(Kind::SynchronizeCache16, &[0x91, 0x06, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Write),
    // UNMAP and NDOB.
    entry(Kind::WriteSame16, &[0x93, 0x09, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Write),
    // DPO and FUA. An atomic boundary is for devices that can do it only with one.
    entry(Kind::WriteAtomic16, &[0x9c, 0x18, F, F, F, F, F, F, F, F, 0, 0, F, F, GROUP, 0], Access::Write),
    action(Kind::ReadCapacity16, 0x10, &[0x9e, 0, 0, 0, 0, 0, 0, 0, 0, 0, F, F, F, F, 0, 0], Access::Always),
    action(Kind::GetBlockStatus, 0x12, &[0x9e, 0, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0], Access::Read),
    entry(Kind::ReportUnits, &[0xa0, 0, F, 0, 0, 0, F, F, F, F, 0, 0], Access::Always),
    action(Kind::ReportTargetPortGroups, 0x0a, &[0xa3, 0xe0, 0, 0, 0, 0, F, F, F, F, 0, 0], Access::Always),
    action(Kind::ReportOperationCodes, 0x0c, &[0xa3, 0, 0x87, F, F, F, F, F, F, F, 0, 0], Access::Write),
    action(Kind::ReportTaskManagement, 0x0d, &[0xa3, 0, 0x80, 0, 0, 0, F, F, F, F, 0, 0], Access::Write),
    entry(Kind::Read12, &[0xa8, CACHING, F, F, F, F, F, F, F, F, 0, 0], Access::Read),
    entry(Kind::Write12, &[0xaa, CACHING, F, F, F, F, F, F, F, F, 0, 0], Access::Write),
    entry(Kind::WriteAndVerify12, &[0xae, CHECKING, F, F, F, F, F, F, F, F, 0, 0], Access::Write),
    entry(Kind::Verify12, &[0xaf, CHECKING, F, F, F, F, F, F, F, F, 0, 0], Access::Read),
];

/// The lines of an opcode: one, or one for each service action.
pub(crate) fn of_opcode(opcode: u8) -> impl Iterator<Item = &'static Entry> {
    COMMANDS.iter().filter(move |entry| entry.opcode == opcode)
}

/// The line of this CDB.
pub(crate) fn find(opcode: u8, service_action: u8) -> Option<&'static Entry> {
    of_opcode(opcode).find(|entry| entry.service_action.is_none_or(|action| action == service_action))
}

impl Entry {
    /// CDB usage data as REPORT SUPPORTED OPERATION CODES gives them: the service action stands as it is.
    pub fn usage_data(&self) -> Vec<u8> {
        let mut usage = self.usage.to_vec();
        usage[1] |= self.service_action.unwrap_or(0);
        usage
    }

    /// Still carried out while another nexus holds the unit with RESERVE (SPC-2 table 11).
    pub fn passes_reserve(&self) -> bool {
        matches!(
            self.kind,
            Kind::Inquiry | Kind::LogSense | Kind::ReportUnits | Kind::RequestSense | Kind::Release
        )
    }

    /// Carried out although the nexus has a unit attention to hear (SPC-4 5.14, SAM-5 5.14.5).
    pub fn passes_attention(&self) -> bool {
        matches!(self.kind, Kind::Inquiry | Kind::ReportUnits | Kind::RequestSense)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_cdb_has_the_length_of_its_group() {
        for pair in COMMANDS.windows(2) {
            let place = |entry: &Entry| (entry.opcode, entry.service_action);
            assert!(place(&pair[0]) < place(&pair[1]), "{:?} before {:?}", pair[0].kind, pair[1].kind);
        }
        for entry in &COMMANDS {
            let length = match entry.opcode >> 5 {
                0 => 6,
                1 | 2 => 10,
                4 => 16,
                _ => 12,
            };
            assert_eq!(entry.usage.len(), length, "{:?}", entry.kind);
            assert_eq!(entry.service_action.map_or(0, |_| entry.usage[1] & 0x1f), 0, "{:?}", entry.kind);
        }
    }
}
