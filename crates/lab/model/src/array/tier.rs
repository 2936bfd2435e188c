//! The flash cache in front of an array: what it answers itself, and what it lets in.
//!
//! Writes go through to the array and keep what is in the flash up to date; they let nothing in.

use super::recent::Recent;
use super::spec::{Admission, Flash};
use crate::{Kind, Request, nanos};

#[derive(Debug)]
pub(crate) struct Tier {
    blocks: Recent,
    /// Blocks that were read once, for the admission on the second read.
    seen: Option<Recent>,
    latency: u64,
    bytes_per_second: u64,
    /// Until when the transfers of earlier hits take.
    free_at: u64,
}

impl Tier {
    pub(crate) fn new(flash: &Flash) -> Tier {
        let blocks = || Recent::new(flash.size_bytes, flash.block_bytes);
        Tier {
            blocks: blocks(),
            seen: (flash.admission == Admission::SecondRead).then(blocks),
            latency: nanos(flash.latency),
            bytes_per_second: flash.bytes_per_second,
            free_at: 0,
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.blocks.is_none()
    }

    /// When the flash will have answered the request, if it can.
    pub(crate) fn meet(&mut self, request: &Request, now: u64) -> Option<u64> {
        let end = request.offset_bytes + request.length_bytes;
        let is_hit = self.blocks.look_up(request.offset_bytes, end);
        if request.kind == Kind::Write || !is_hit {
            return None;
        }
        let transfer = u128::from(request.length_bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        self.free_at = self.free_at.max(now) + transfer as u64;
        Some(self.free_at + self.latency)
    }

    /// The bytes to read for a miss: whole blocks, for a cache that may let them in.
    pub(crate) fn fetched(&self, request: &Request) -> (u64, u64) {
        let (offset, end) = (request.offset_bytes, request.offset_bytes + request.length_bytes);
        if self.is_none() { (offset, end) } else { self.blocks.around(offset, end) }
    }

    /// A request's data are there: lets them in, if they may.
    pub(crate) fn answered(&mut self, request: &Request) {
        if self.is_none() || request.kind == Kind::Write {
            return;
        }
        for block in self.blocks.units(request.offset_bytes, request.offset_bytes + request.length_bytes) {
            if self.blocks.refresh(block) {
                continue;
            }
            let is_second = self.seen.as_mut().is_none_or(|seen| seen.refresh(block));
            match &mut self.seen {
                Some(seen) if !is_second => seen.insert(block),
                _ => self.blocks.insert(block),
            }
        }
    }
}
