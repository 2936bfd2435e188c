//! The operations on blocks: reading, writing, comparing, unmapping (SBC-3 clause 5).
//!
//! Every write claims its range first and looks at the reservations again when its turn has come. A command
//! that covers more than [`PIECE_BYTES`] without carrying it works piece by piece, so memory is bounded by
//! what the host itself sent or asked for.

use ashlar_block::{Extent, Identity};
use ashlar_runtime::Buf;

use crate::answer::{Answer, Refusal};
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::commands::Access;
use crate::parse::{ByteCheck, Span};
use crate::reports;
use crate::reservation::Nexus;
use crate::sense::{Sense, SenseKey, code};
use crate::unit::Unit;

/// What is read or filled at a time. Arbitrary: large enough that a device reaches its full speed.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;
/// A PRE-FETCH reads so much and leaves the rest. Arbitrary, the same as NBD's CACHE.
const PREFETCH_BYTES_MAX: u64 = 32 << 20;
/// GET LBA STATUS looks so far ahead in one command. Arbitrary: a map of 1 GiB is answered at once.
const STATUS_BYTES_MAX: u64 = 1 << 30;
/// Descriptors in one answer to GET LBA STATUS. Arbitrary: 4 KiB of them.
const STATUS_RUNS_MAX: usize = 256;
/// What GET LBA STATUS takes while it is carried out: up to eight extents for each run, and the list.
pub(crate) const STATUS_MEMORY_BYTES_MAX: u64 = (STATUS_RUNS_MAX * (8 * size_of::<Extent>() + 16)) as u64;
/// Header of an UNMAP list, and each of its descriptors.
const UNMAP_HEADER_BYTES: usize = 8;
const UNMAP_DESCRIPTOR_BYTES: usize = 16;

/// Where a span lies, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub offset: u64,
    pub length: u64,
}

impl Range {
    /// The pieces, in order.
    pub fn pieces(self) -> impl Iterator<Item = Range> {
        let end = self.offset + self.length;
        (0..self.length.div_ceil(PIECE_BYTES)).map(move |index| {
            let offset = self.offset + index * PIECE_BYTES;
            Range { offset, length: PIECE_BYTES.min(end - offset) }
        })
    }
}

impl Unit {
    /// Checked spans only: neither product nor sum can be too large for a device that has that many bytes.
    pub(crate) fn range(&self, span: Span) -> Result<Range, Refusal> {
        self.check_span(span)?;
        let block = u64::from(self.block_bytes());
        Ok(Range { offset: span.start * block, length: span.blocks * block })
    }

    fn buffer(&self, length: u64) -> Buf {
        (self.allocate)(usize::try_from(length).expect("lengths are limited"))
    }

    pub(crate) async fn read_range(&self, range: Range) -> Result<Buf, Refusal> {
        let _turn = self.reads.shared(range.offset, range.length).await;
        let mut buf = self.buffer(range.length);
        let read = self.device.read(range.offset, &mut buf).await;
        read.map_err(|error| Unit::failed(&error, false))?;
        Ok(buf)
    }

    pub(crate) async fn write_range(&self, range: Range, data: &[u8], is_fua: bool) -> Result<(), Refusal> {
        assert_eq!(data.len() as u64, range.length, "a write of its range");
        let is_durable = is_fua || self.is_write_through();
        let written = self.device.write(range.offset, data, is_durable).await;
        written.map_err(|error| Unit::failed(&error, true))
    }

    /// Makes a range what one of another device is, if this device can do so without the data.
    pub(crate) async fn copy_range(&self, source: Identity, from: u64, to: Range) -> Result<bool, Refusal> {
        let copied = self.device.copy_from(source, from, to.offset, to.length).await;
        let is_done = copied.map_err(|error| Unit::failed(&error, true))?;
        if is_done {
            self.flush_if_write_through().await?;
        }
        Ok(is_done)
    }

    pub(crate) async fn flush(&self) -> Result<Answer, Refusal> {
        self.device.flush().await.map_err(|error| Unit::failed(&error, true))?;
        Ok(Answer::good())
    }

    /// What takes no flag of its own is made durable behind it where every write is.
    async fn flush_if_write_through(&self) -> Result<Answer, Refusal> {
        if self.is_write_through() { self.flush().await } else { Ok(Answer::good()) }
    }

    pub(crate) async fn read(&self, nexus: &Nexus, span: Span) -> Result<Answer, Refusal> {
        self.check_allowed(nexus, Access::Read)?;
        if span.blocks == 0 {
            return Ok(Answer::good());
        }
        Ok(Answer::blocks(self.read_range(self.range(span)?).await?))
    }

    pub(crate) async fn write(
        &self,
        nexus: &Nexus,
        span: Span,
        data: &[u8],
        is_fua: bool,
    ) -> Result<Answer, Refusal> {
        if span.blocks == 0 {
            return Ok(Answer::good());
        }
        let range = self.range(span)?;
        let _turn = self.writes.shared(range.offset, range.length).await;
        self.check_allowed(nexus, Access::Write)?;
        self.write_range(range, data, is_fua).await?;
        Ok(Answer::good())
    }

    pub(crate) async fn verify(
        &self,
        nexus: &Nexus,
        span: Span,
        check: ByteCheck,
        data: &[u8],
    ) -> Result<Answer, Refusal> {
        self.check_allowed(nexus, Access::Read)?;
        self.check_bytes(span, check, data).await?;
        Ok(Answer::good())
    }

    /// Reads the blocks, and compares them as asked for. Tells the block that differs (SBC-3 4.18.1).
    async fn check_bytes(&self, span: Span, check: ByteCheck, data: &[u8]) -> Result<(), Refusal> {
        if span.blocks == 0 {
            return Ok(());
        }
        let range = self.range(span)?;
        let block = self.block_bytes() as usize;
        for piece in range.pieces() {
            let buf = self.read_range(piece).await?;
            let done = (piece.offset - range.offset) as usize;
            let is_equal = |(index, bytes): (usize, &[u8])| match check {
                ByteCheck::Readable => true,
                ByteCheck::Equal => bytes == &data[done + index * block..done + (index + 1) * block],
                ByteCheck::EqualToOne => bytes == &data[..block],
            };
            if let Some(index) = buf.chunks(block).enumerate().position(|place| !is_equal(place)) {
                let address = span.start + (done / block + index) as u64;
                let sense = Sense::new(SenseKey::Miscompare, code::MISCOMPARE_DURING_VERIFY);
                return Err(sense.with_information(address).into());
            }
        }
        Ok(())
    }

    pub(crate) async fn write_and_verify(
        &self,
        nexus: &Nexus,
        span: Span,
        check: ByteCheck,
        data: &[u8],
    ) -> Result<Answer, Refusal> {
        if span.blocks == 0 {
            return Ok(Answer::good());
        }
        let range = self.range(span)?;
        // Alone on the range: what another writes meanwhile is not what this one must find.
        let _turn = self.writes.exclusive(range.offset, range.length).await;
        self.check_allowed(nexus, Access::Write)?;
        self.write_range(range, data, true).await?;
        self.check_bytes(span, check, data).await?;
        Ok(Answer::good())
    }

    /// COMPARE AND WRITE (SBC-3 5.3): the first half of the data must be there, then the second half is. A
    /// difference is told with its offset in the data-out.
    pub(crate) async fn compare_and_write(
        &self,
        nexus: &Nexus,
        span: Span,
        data: &[u8],
        is_fua: bool,
    ) -> Result<Answer, Refusal> {
        if span.blocks == 0 {
            return Ok(Answer::good());
        }
        let range = self.range(span)?;
        let (expected, new) = data.split_at(data.len() / 2);
        let _turn = self.writes.exclusive(range.offset, range.length).await;
        self.check_allowed(nexus, Access::Write)?;
        let found = self.read_range(range).await?;
        self.check_allowed(nexus, Access::Write)?;
        if let Some(offset) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
            let sense = Sense::new(SenseKey::Miscompare, code::MISCOMPARE_DURING_VERIFY);
            return Err(sense.with_information(offset as u64).into());
        }
        self.write_range(range, new, is_fua).await?;
        Ok(Answer::good())
    }

    pub(crate) async fn or_write(
        &self,
        nexus: &Nexus,
        span: Span,
        data: &[u8],
        is_fua: bool,
    ) -> Result<Answer, Refusal> {
        if span.blocks == 0 {
            return Ok(Answer::good());
        }
        let range = self.range(span)?;
        let _turn = self.writes.exclusive(range.offset, range.length).await;
        self.check_allowed(nexus, Access::Write)?;
        let mut buf = self.read_range(range).await?;
        self.check_allowed(nexus, Access::Write)?;
        for (byte, bits) in buf.iter_mut().zip(data) {
            *byte |= bits;
        }
        self.write_range(range, &buf, is_fua).await?;
        Ok(Answer::good())
    }

    /// WRITE ATOMIC (SBC-4 5.48): all of it or nothing. Over a crash the device sees to that; whoever reads
    /// through this unit comes before it or behind it.
    pub(crate) async fn write_atomic(
        &self,
        nexus: &Nexus,
        span: Span,
        data: &[u8],
        is_fua: bool,
    ) -> Result<Answer, Refusal> {
        if span.blocks == 0 {
            return Ok(Answer::good());
        }
        let range = self.range(span)?;
        let _turn = self.writes.exclusive(range.offset, range.length).await;
        let _alone = self.reads.exclusive(range.offset, range.length).await;
        self.check_allowed(nexus, Access::Write)?;
        self.write_range(range, data, is_fua).await?;
        Ok(Answer::good())
    }

    /// WRITE SAME (SBC-3 5.45). Without data (NDOB) or with a block of zeroes the range is zeroed, and given
    /// back if UNMAP allows it; other blocks are written whatever UNMAP says, because an unmapped block reads
    /// as zeroes (SBC-3 4.7.3.4.4).
    pub(crate) async fn write_same(
        &self,
        nexus: &Nexus,
        span: Span,
        data: &[u8],
        may_unmap: bool,
    ) -> Result<Answer, Refusal> {
        let range = self.range(span)?;
        let _turn = self.writes.shared(range.offset, range.length).await;
        self.check_allowed(nexus, Access::Write)?;
        if data.iter().all(|byte| *byte == 0) {
            let zeroed = self.device.write_zeroes(range.offset, range.length, may_unmap).await;
            zeroed.map_err(|error| Unit::failed(&error, true))?;
            return self.flush_if_write_through().await;
        }
        let mut pattern = self.buffer(range.length.min(PIECE_BYTES));
        for block in pattern.chunks_mut(data.len()) {
            block.copy_from_slice(data);
        }
        for piece in range.pieces() {
            self.check_allowed(nexus, Access::Write)?;
            self.write_range(piece, &pattern[..piece.length as usize], false).await?;
        }
        Ok(Answer::good())
    }

    /// UNMAP (SBC-3 5.28): the list is checked whole before anything is given back.
    pub(crate) async fn unmap(&self, nexus: &Nexus, list: &[u8]) -> Result<Answer, Refusal> {
        let spans = self.unmap_spans(list)?;
        for span in spans.into_iter().filter(|span| span.blocks > 0) {
            let range = self.range(span)?;
            let _turn = self.writes.shared(range.offset, range.length).await;
            self.check_allowed(nexus, Access::Write)?;
            let unmapped = self.device.unmap(range.offset, range.length).await;
            unmapped.map_err(|error| Unit::failed(&error, true))?;
        }
        self.flush_if_write_through().await
    }

    fn unmap_spans(&self, list: &[u8]) -> Result<Vec<Span>, Refusal> {
        // A list of no bytes is no error (SBC-3 5.28.1).
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let too_short: Refusal = Sense::illegal(code::PARAMETER_LIST_LENGTH).into();
        if list.len() < UNMAP_HEADER_BYTES {
            return Err(too_short);
        }
        let descriptors = list.get(UNMAP_HEADER_BYTES..UNMAP_HEADER_BYTES + usize::from(u16_at(list, 2)));
        let descriptors = descriptors.ok_or(too_short)?;
        // What is left of a descriptor at the end is ignored (SBC-3 table 103).
        let spans: Vec<Span> = descriptors
            .chunks_exact(UNMAP_DESCRIPTOR_BYTES)
            .map(|bytes| Span { start: u64_at(bytes, 0), blocks: u64::from(u32_at(bytes, 8)), blocks_at: 8 })
            .collect();
        if spans.len() > self.limits.unmap_descriptors_max as usize {
            return Err(Sense::field_in_list(2, None).into());
        }
        let mut blocks = 0;
        let end = self.blocks();
        for (index, span) in spans.iter().enumerate() {
            // A descriptor of no blocks may stand right behind the last one.
            if span.start.checked_add(span.blocks).is_none_or(|span_end| span_end > end) {
                return Err(Sense::out_of_range().into());
            }
            blocks += span.blocks;
            if blocks > u64::from(self.limits.unmap_blocks_max) {
                let at = UNMAP_HEADER_BYTES + index * UNMAP_DESCRIPTOR_BYTES + 8;
                return Err(Sense::field_in_list(at, None).into());
            }
        }
        Ok(spans)
    }

    pub(crate) async fn block_status(&self, start: u64, allocation: usize) -> Result<Answer, Refusal> {
        let blocks_left = self.blocks().saturating_sub(start);
        let block_bytes = self.block_bytes();
        let blocks = blocks_left.min(STATUS_BYTES_MAX / u64::from(block_bytes));
        let range = self.range(Span { start, blocks, blocks_at: 2 })?;
        // At least one run is looked up: the length of the whole is told even where there is no room for it.
        let runs_max = (allocation.saturating_sub(8) / 16).clamp(1, STATUS_RUNS_MAX);
        // Extents of sectors join into fewer runs of blocks: so many cover one run at least.
        let extents_max = runs_max * (block_bytes / 512) as usize;
        let extents = self.device.extents(range.offset, range.length, extents_max).await;
        let extents = extents.map_err(|error| Unit::failed(&error, false))?;
        let bytes = reports::block_status(start, blocks, block_bytes, &extents, runs_max);
        Ok(Answer::parameters(crate::bytes::truncated(bytes, allocation)))
    }

    /// PRE-FETCH (SBC-3 5.8). Ends with GOOD and never with CONDITION MET: nobody knows how long the blocks
    /// stay.
    pub(crate) async fn prefetch(&self, nexus: &Nexus, span: Span) -> Result<Answer, Refusal> {
        self.check_allowed(nexus, Access::Read)?;
        let blocks = if span.blocks == 0 { self.blocks().saturating_sub(span.start) } else { span.blocks };
        let range = self.range(Span { blocks, ..span })?;
        let range = Range { length: range.length.min(PREFETCH_BYTES_MAX), ..range };
        for piece in range.pieces() {
            drop(self.read_range(piece).await?);
        }
        Ok(Answer::good())
    }
}
