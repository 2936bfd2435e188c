//! Mode pages: caching, control and informational exceptions (SPC-4 7.5, SBC-3 6.4).
//!
//! The pages are the unit's, shared by every nexus. Nothing is saved: a reset brings the defaults back.

use crate::bytes::{put, u8_at, u16_at, u24_at, u32_at, u64_at};
use crate::parse::ModeSense;
use crate::sense::{Sense, code};

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;
/// Every page, in ascending order (SPC-4 6.11.2).
const PAGES: [u8; 3] = [CACHING, CONTROL, EXCEPTIONS];
/// Asks for every page.
const ALL_PAGES: u8 = 0x3f;
/// Asks for every page with every subpage; there are no subpages.
const ALL_SUBPAGES: u8 = 0xff;

/// Caching page, byte 2: WCE.
const CACHE_ON: u8 = 0x04;
/// Control page, byte 2: D_SENSE.
const DESCRIPTOR_SENSE: u8 = 0x04;
/// Control page, byte 4: SWP.
const WRITE_PROTECT: u8 = 0x08;
/// Device-specific parameter: writes are refused.
const DEVICE_READ_ONLY: u8 = 0x80;
/// Device-specific parameter: DPO and FUA are understood.
const DEVICE_DPOFUA: u8 = 0x10;

/// The values that hosts may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ModePages {
    /// A write may be answered before it is durable; SYNCHRONIZE CACHE makes it so. Off, every write is FUA.
    pub is_cache_on: bool,
    /// Sense data are in descriptor form.
    pub is_descriptor_sense: bool,
    /// Writes are refused.
    pub is_write_protected: bool,
}

impl Default for ModePages {
    /// A write cache is claimed, because a device may have one: a host that flushes too often loses time, one
    /// that flushes too seldom loses data.
    fn default() -> ModePages {
        ModePages { is_cache_on: true, is_descriptor_sense: false, is_write_protected: false }
    }
}

/// What mode parameter headers and block descriptors tell of the device.
#[derive(Clone, Copy)]
pub(crate) struct Medium {
    pub blocks: u64,
    pub block_bytes: u32,
    pub is_read_only: bool,
}

/// Which values of a page are meant (SPC-4 table 121).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Current,
    Changeable,
    Default,
}

impl ModePages {
    /// The answer to MODE SENSE, not yet cut to the allocation length.
    pub fn sense(&self, request: &ModeSense, medium: Medium) -> Result<Vec<u8>, Sense> {
        let values = match request.control {
            0 => Values::Current,
            1 => Values::Changeable,
            2 => Values::Default,
            _ => return Err(Sense::illegal(code::SAVING_NOT_SUPPORTED)),
        };
        let is_all = request.page == ALL_PAGES;
        if !is_all && !PAGES.contains(&request.page) {
            return Err(Sense::bit_in_cdb(2, 5));
        }
        if request.subpage != 0 && request.subpage != ALL_SUBPAGES {
            return Err(Sense::field_in_cdb(3));
        }
        let mut bytes = header(request, medium, self.is_write_protected);
        for page in PAGES.into_iter().filter(|page| is_all || *page == request.page) {
            bytes.extend_from_slice(&self.page(page, values));
        }
        // MODE DATA LENGTH does not count itself.
        if request.is_long {
            let length = bytes.len() as u16 - 2;
            put(&mut bytes, 0, &length.to_be_bytes());
        } else {
            bytes[0] = bytes.len() as u8 - 1;
        }
        Ok(bytes)
    }

    /// The pages as MODE SELECT leaves them. Nothing is taken over unless everything is right.
    pub fn select(&self, is_long: bool, list: &[u8], medium: Medium) -> Result<ModePages, Sense> {
        if list.is_empty() {
            return Ok(*self);
        }
        let too_short = Sense::illegal(code::PARAMETER_LIST_LENGTH);
        let header_bytes = if is_long { 8 } else { 4 };
        if list.len() < header_bytes {
            return Err(too_short);
        }
        let descriptor_bytes =
            if is_long { usize::from(u16_at(list, 6)) } else { usize::from(u8_at(list, 3)) };
        let is_long_descriptor = is_long && u8_at(list, 4) & 1 != 0;
        let mut at = header_bytes + descriptor_bytes;
        if list.len() < at {
            return Err(too_short);
        }
        check_descriptor(list, header_bytes, descriptor_bytes, is_long_descriptor, medium)?;
        let mut pages = *self;
        while at < list.len() {
            at += pages.select_page(list, at)?;
        }
        Ok(pages)
    }

    /// Takes one page over; how many bytes it has.
    fn select_page(&mut self, list: &[u8], at: usize) -> Result<usize, Sense> {
        // PS (bit 7) is reserved here and comes back from MODE SENSE as it was: ignored.
        let page = u8_at(list, at) & 0x3f;
        if u8_at(list, at) & 0x40 != 0 {
            return Err(Sense::field_in_list(at, Some(6)));
        }
        if !PAGES.contains(&page) {
            return Err(Sense::field_in_list(at, Some(5)));
        }
        let (current, mask) = (self.page(page, Values::Current), self.page(page, Values::Changeable));
        let Some(bytes) = list.get(at..at + current.len()) else {
            return Err(Sense::illegal(code::PARAMETER_LIST_LENGTH));
        };
        for index in 1..current.len() {
            // The page length is no parameter: it must be right.
            let may_change = if index == 1 { 0 } else { mask[index] };
            let wrong = (bytes[index] ^ current[index]) & !may_change;
            if wrong != 0 {
                return Err(Sense::field_in_list(at + index, Some(7 - wrong.leading_zeros() as u8)));
            }
        }
        match page {
            CACHING => self.is_cache_on = bytes[2] & CACHE_ON != 0,
            CONTROL => {
                self.is_descriptor_sense = bytes[2] & DESCRIPTOR_SENSE != 0;
                self.is_write_protected = bytes[4] & WRITE_PROTECT != 0;
            }
            _ => {}
        }
        Ok(bytes.len())
    }

    fn page(&self, page: u8, values: Values) -> Vec<u8> {
        let shown = match values {
            Values::Current => *self,
            Values::Default => ModePages::default(),
            Values::Changeable => {
                ModePages { is_cache_on: true, is_descriptor_sense: true, is_write_protected: true }
            }
        };
        let bit = |is_set: bool, mask: u8| if is_set { mask } else { 0 };
        let is_mask = values == Values::Changeable;
        match page {
            CACHING => {
                let mut bytes = vec![0; 20];
                bytes[..3].copy_from_slice(&[CACHING, 18, bit(shown.is_cache_on, CACHE_ON)]);
                bytes
            }
            CONTROL => {
                let mut bytes = vec![0; 12];
                bytes[..3].copy_from_slice(&[CONTROL, 10, bit(shown.is_descriptor_sense, DESCRIPTOR_SENSE)]);
                bytes[4] = bit(shown.is_write_protected, WRITE_PROTECT);
                if !is_mask {
                    // Commands may be reordered at will; no limit to how long a unit is busy.
                    bytes[3] = 0x10;
                    bytes[8..10].copy_from_slice(&[0xff, 0xff]);
                }
                bytes
            }
            _ => {
                let mut bytes = vec![0; 12];
                bytes[..2].copy_from_slice(&[EXCEPTIONS, 10]);
                // DEXCPT: no exceptions are reported this way; the array has events and metrics for them.
                bytes[2] = bit(!is_mask, 0x08);
                bytes
            }
        }
    }
}

fn header(request: &ModeSense, medium: Medium, is_write_protected: bool) -> Vec<u8> {
    let read_only = if medium.is_read_only || is_write_protected { DEVICE_READ_ONLY } else { 0 };
    let device_specific = DEVICE_DPOFUA | read_only;
    let is_long_descriptor = request.allows_long_descriptor && medium.blocks > u64::from(u32::MAX);
    let descriptor = match (request.is_without_descriptor, is_long_descriptor) {
        (true, _) => Vec::new(),
        (false, true) => {
            let mut bytes = medium.blocks.to_be_bytes().to_vec();
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&medium.block_bytes.to_be_bytes());
            bytes
        }
        (false, false) => {
            // Too many for the field are told as all ones (SBC-3 6.4.2.2).
            let blocks = u32::try_from(medium.blocks).unwrap_or(u32::MAX);
            let mut bytes = blocks.to_be_bytes().to_vec();
            // A reserved byte, then the length in three.
            bytes.extend_from_slice(&medium.block_bytes.to_be_bytes());
            bytes[4] = 0;
            bytes
        }
    };
    let descriptor_bytes = descriptor.len() as u8;
    let mut bytes = if request.is_long {
        vec![0, 0, 0, device_specific, u8::from(descriptor_bytes == 16), 0, 0, descriptor_bytes]
    } else {
        vec![0, 0, device_specific, descriptor_bytes]
    };
    bytes.extend_from_slice(&descriptor);
    bytes
}

/// A block descriptor may say only what is: the size cannot be changed from here.
fn check_descriptor(
    list: &[u8],
    at: usize,
    length: usize,
    is_long: bool,
    medium: Medium,
) -> Result<(), Sense> {
    let (blocks, blocks_all, block_bytes, block_bytes_at) = match (length, is_long) {
        (0, _) => return Ok(()),
        (8, false) => (u64::from(u32_at(list, at)), u64::from(u32::MAX), u24_at(list, at + 5), at + 5),
        (16, true) => (u64_at(list, at), u64::MAX, u32_at(list, at + 12), at + 12),
        _ => return Err(Sense::field_in_list(if at == 8 { 6 } else { 3 }, None)),
    };
    if blocks != 0 && blocks != blocks_all && blocks != medium.blocks {
        return Err(Sense::field_in_list(at, None));
    }
    if block_bytes != medium.block_bytes {
        return Err(Sense::field_in_list(block_bytes_at, None));
    }
    Ok(())
}
