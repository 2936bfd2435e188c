//! Parameter data of the commands that only ask: capacity, units, codes, ports, logs, provisioning.

use ashlar_block::{Extent, ExtentKind};

use crate::address::UnitAddress;
use crate::bytes::put;
use crate::commands::{self, COMMANDS, Entry};
use crate::parse::CodesAsked;
use crate::sense::Sense;
use crate::target::Port;

/// The only log page beside the lists of pages (SPC-4 7.3).
const LOG_EXCEPTIONS: u8 = 0x2f;
/// Provisioning status of a block in GET LBA STATUS (SBC-3 table 41).
const MAPPED: u8 = 0;
const DEALLOCATED: u8 = 1;

/// READ CAPACITY(10): the last address and the block's length; all ones where the address does not fit.
pub(crate) fn capacity_short(blocks: u64, block_bytes: u32) -> Vec<u8> {
    let last = u32::try_from(blocks.saturating_sub(1)).unwrap_or(u32::MAX);
    [last.to_be_bytes(), block_bytes.to_be_bytes()].concat()
}

/// READ CAPACITY(16) (SBC-3 5.16): without protection, thin, unmapped blocks read as zeroes.
pub(crate) fn capacity_long(blocks: u64, block_bytes: u32, optimal_blocks: u32) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    put(&mut bytes, 0, &blocks.saturating_sub(1).to_be_bytes());
    put(&mut bytes, 8, &block_bytes.to_be_bytes());
    bytes[13] = optimal_blocks.max(1).ilog2() as u8;
    bytes[14] = 0xc0;
    bytes
}

/// REPORT LUNS (SPC-4 6.33).
pub(crate) fn units(addresses: impl Iterator<Item = UnitAddress>) -> Vec<u8> {
    let list: Vec<u8> = addresses.flat_map(UnitAddress::to_wire).collect();
    let mut bytes = (list.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&list);
    bytes
}

/// REPORT TARGET PORT GROUPS (SPC-4 6.37): one group, active/optimised, and no other state there ever is.
pub(crate) fn port_groups(port: &Port, is_extended: bool) -> Vec<u8> {
    let mut group = vec![0; 8];
    // AO_SUP alone.
    group[1] = 0x01;
    put(&mut group, 2, &port.group.to_be_bytes());
    group[7] = 1;
    group.extend_from_slice(&[0, 0]);
    group.extend_from_slice(&port.relative_id.to_be_bytes());
    let mut body = Vec::new();
    if is_extended {
        // Format 001b, and no time for a transition to wait.
        body.extend_from_slice(&[0x10, 0, 0, 0]);
    }
    body.extend_from_slice(&group);
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 6.36): ABORT TASK, ABORT TASK SET, CLEAR TASK SET,
/// LOGICAL UNIT RESET, and a reset of the target.
pub(crate) fn task_management(is_extended: bool) -> Vec<u8> {
    let mut bytes = vec![0x80 | 0x40 | 0x10 | 0x08 | 0x02, 0, 0, 0];
    if is_extended {
        bytes[3] = 12;
        // No timeouts are told.
        bytes.resize(16, 0);
    }
    bytes
}

/// REPORT SUPPORTED OPERATION CODES (SPC-4 6.35).
pub(crate) fn operation_codes(asked: CodesAsked, has_timeouts: bool) -> Vec<u8> {
    let one = match asked {
        CodesAsked::All => return all_codes(has_timeouts),
        CodesAsked::Opcode(opcode) => commands::of_opcode(opcode).next(),
        CodesAsked::OpcodeAndAction(opcode, action) | CodesAsked::Either(opcode, action) => {
            // A command without service actions is asked for with action zero (table 273).
            let is_asked = |entry: &&Entry| u16::from(entry.service_action.unwrap_or(0)) == action;
            commands::of_opcode(opcode).find(is_asked)
        }
    };
    let timeouts_mark = if has_timeouts { 0x80 } else { 0 };
    // SUPPORT: 001b not there, 011b there as the standard says.
    let Some(entry) = one else { return vec![0, 0x01, 0, 0] };
    let usage = entry.usage_data();
    let mut bytes = vec![0, timeouts_mark | 0x03, 0, usage.len() as u8];
    bytes.extend_from_slice(&usage);
    if has_timeouts {
        bytes.extend_from_slice(&timeouts());
    }
    bytes
}

fn all_codes(has_timeouts: bool) -> Vec<u8> {
    let mut list = Vec::new();
    for entry in &COMMANDS {
        let action = u16::from(entry.service_action.unwrap_or(0));
        let flags = u8::from(entry.service_action.is_some()) | if has_timeouts { 2 } else { 0 };
        list.extend_from_slice(&[entry.opcode, 0]);
        list.extend_from_slice(&action.to_be_bytes());
        list.extend_from_slice(&[0, flags, 0, entry.usage.len() as u8]);
        if has_timeouts {
            list.extend_from_slice(&timeouts());
        }
    }
    let mut bytes = (list.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&list);
    bytes
}

/// A timeouts descriptor that names no time (SPC-4 table 278).
fn timeouts() -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[1] = 0x0a;
    bytes
}

/// LOG SENSE (SPC-4 6.8): the lists of pages, and informational exceptions, of which there never is one.
pub(crate) fn log(page: u8, subpage: u8, parameter: u16) -> Result<Vec<u8>, Sense> {
    let body: Vec<u8> = match (page, subpage) {
        (0x00, 0x00) => vec![0x00, LOG_EXCEPTIONS],
        (0x00, 0xff) => vec![0x00, 0x00, 0x00, 0xff, LOG_EXCEPTIONS, 0x00],
        // Parameter 0: no additional sense code; FFh is "no temperature".
        (LOG_EXCEPTIONS, 0x00) if parameter == 0 => vec![0, 0, 0x03, 4, 0, 0, 0xff, 0],
        (LOG_EXCEPTIONS, 0x00) => return Err(Sense::field_in_cdb(5)),
        (0x00 | LOG_EXCEPTIONS, _) => return Err(Sense::field_in_cdb(3)),
        _ => return Err(Sense::bit_in_cdb(2, 5)),
    };
    let subpage_mark = if subpage == 0 { 0 } else { 0x40 };
    let mut bytes = vec![subpage_mark | page, subpage];
    bytes.extend_from_slice(&(body.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// GET LBA STATUS (SBC-3 5.6): runs of blocks from `start` on. A block that is data in part is mapped.
pub(crate) fn block_status(
    start: u64,
    blocks_max: u64,
    block_bytes: u32,
    extents: &[Extent],
    runs_max: usize,
) -> Vec<u8> {
    let mut list = Vec::new();
    let mut first = start;
    for (blocks, status) in status_runs(blocks_max, block_bytes, extents).into_iter().take(runs_max) {
        list.extend_from_slice(&first.to_be_bytes());
        // A run longer than the field is told up to there; the host asks on from its end (SBC-3 table 40).
        let blocks_told = u32::try_from(blocks).unwrap_or(u32::MAX);
        list.extend_from_slice(&blocks_told.to_be_bytes());
        list.extend_from_slice(&[status, 0, 0, 0]);
        first += u64::from(blocks_told);
        if u64::from(blocks_told) < blocks {
            break;
        }
    }
    // PARAMETER DATA LENGTH counts the four reserved bytes behind it.
    let mut bytes = (list.len() as u32 + 4).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&list);
    bytes
}

/// Extents in bytes to runs of whole blocks; neighbours of one status are one run.
fn status_runs(blocks_max: u64, block_bytes: u32, extents: &[Extent]) -> Vec<(u64, u8)> {
    let block_bytes = u64::from(block_bytes);
    let mut runs: Vec<(u64, u8)> = Vec::new();
    let (mut told, mut end_bytes) = (0_u64, 0_u64);
    // Whether the block that an extent ended in the middle of holds data so far.
    let mut has_data = false;
    for extent in extents {
        let is_data = extent.kind == ExtentKind::Data;
        end_bytes = end_bytes.saturating_add(extent.length_bytes);
        let mut put_run = |blocks: u64, status: u8| match runs.last_mut() {
            Some((length, last)) if *last == status => *length += blocks,
            Some(_) | None => runs.push((blocks, status)),
        };
        let status_of = |is_mapped: bool| if is_mapped { MAPPED } else { DEALLOCATED };
        let whole = (end_bytes / block_bytes).min(blocks_max);
        let started_inside = (end_bytes - extent.length_bytes) % block_bytes != 0;
        if whole > told && started_inside {
            put_run(1, status_of(has_data || is_data));
            told += 1;
            has_data = false;
        }
        if whole > told {
            put_run(whole - told, status_of(is_data));
            told = whole;
        }
        if end_bytes % block_bytes != 0 {
            has_data |= is_data;
        }
        if told == blocks_max {
            break;
        }
    }
    // One run is told always. Of a block that was told in part only, what is safe is that it holds data.
    if runs.is_empty() && blocks_max > 0 {
        runs.push((1, MAPPED));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(length_bytes: u64, kind: ExtentKind) -> Extent {
        Extent { length_bytes, kind }
    }

    #[test]
    fn capacity_beyond_four_bytes_is_told_as_all_ones() {
        assert_eq!(capacity_short(1 << 32, 512)[..4], [0xff; 4]);
        assert_eq!(capacity_short(8, 4096), [0, 0, 0, 7, 0, 0, 0x10, 0]);
        let long = capacity_long(1 << 32, 512, 8);
        assert_eq!((long[3..8].to_vec(), long[13], long[14]), (vec![0, 0xff, 0xff, 0xff, 0xff], 3, 0xc0));
    }

    #[test]
    fn runs_are_whole_blocks_and_a_block_with_some_data_is_mapped() {
        let extents = [
            extent(1024, ExtentKind::Hole),
            extent(512, ExtentKind::Zero),
            extent(600, ExtentKind::Data),
            extent(424, ExtentKind::Hole),
            extent(1 << 20, ExtentKind::Hole),
        ];
        assert_eq!(status_runs(8, 512, &extents), [(3, DEALLOCATED), (2, MAPPED), (3, DEALLOCATED)]);
        // With blocks of 4 KiB, the block that data begin in is mapped whole.
        assert_eq!(status_runs(2, 4096, &extents), [(1, MAPPED), (1, DEALLOCATED)]);
    }

    #[test]
    fn a_run_longer_than_the_field_is_told_up_to_its_end() {
        let extents = [extent(u64::MAX, ExtentKind::Hole), extent(512, ExtentKind::Data)];
        let bytes = block_status(7, 1 << 40, 512, &extents, 4);
        assert_eq!(bytes.len(), 8 + 16);
        assert_eq!(bytes[..8], [0, 0, 0, 20, 0, 0, 0, 0]);
        assert_eq!(bytes[8..], [0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, DEALLOCATED, 0, 0, 0]);
    }

    #[test]
    fn usage_data_carry_the_service_action() {
        let bytes = operation_codes(CodesAsked::OpcodeAndAction(0x9e, 0x10), true);
        assert_eq!(bytes[..6], [0, 0x83, 0, 16, 0x9e, 0x10]);
        assert_eq!(bytes.len(), 4 + 16 + 12);
        assert_eq!(operation_codes(CodesAsked::Opcode(0xff), false), [0, 1, 0, 0]);
        assert_eq!(operation_codes(CodesAsked::Either(0x28, 1), false), [0, 1, 0, 0]);
    }

    #[test]
    fn logs_tell_of_their_pages_and_of_no_temperature() {
        assert_eq!(log(0, 0, 0).unwrap(), [0, 0, 0, 2, 0, 0x2f]);
        assert_eq!(log(0, 0xff, 0).unwrap()[..4], [0x40, 0xff, 0, 6]);
        assert_eq!(log(0x2f, 0, 0).unwrap()[10], 0xff);
        assert_eq!(log(0x0d, 0, 0), Err(Sense::bit_in_cdb(2, 5)));
        assert_eq!(log(0x2f, 0, 1), Err(Sense::field_in_cdb(5)));
    }
}
