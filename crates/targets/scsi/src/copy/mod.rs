//! EXTENDED COPY and RECEIVE COPY RESULTS in the forms with a list identifier of one byte (SPC-4 6.4, 6.18 to
//! 6.20): the array moves blocks between units that the host sees, and no data pass the network.
//!
//! ```text
//!   parameter list ─► list::parse ─► plan: units, ranges ─► pieces: copied by the device,
//!                                                                  or read, claim a turn, write
//! ```
//!
//! A device that has both units' blocks may copy without their data. All goes through the devices, so what
//! hosts may do to each unit, its limits and its turns hold for copies as for any other command. Everything
//! is checked before the first block moves; what may change meanwhile, reservations and the host's wish, is
//! looked at before each piece.

pub(crate) mod list;
mod status;

use std::rc::Rc;

use crate::answer::{Answer, Refusal, Status};
use crate::blocks::Range;
use crate::commands::Access;
use crate::parse::Span;
use crate::reservation::Nexus;
use crate::sense::{Sense, SenseKey, code};
use crate::target::{Stop, Target};
use crate::unit::Unit;

use list::{Designated, Request, Segment};
pub(crate) use status::{Copies, Running, operating_parameters, page};

/// Devices that one list may name. Arbitrary: hosts name two.
pub(crate) const DEVICES_MAX: usize = 16;
/// Segments of one list: with the longest, a GiB.
pub(crate) const SEGMENTS_MAX: usize = 16;
/// Bytes of one segment. Arbitrary: hosts wait half a minute for an answer, and copy in pieces of some MiB.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Copies of one unit at the same time; one more is told to come again. Arbitrary: drives are busy with less.
pub(crate) const COPIES_MAX: usize = 4;

/// A range that is copied.
struct Move {
    source: Rc<Unit>,
    target: Rc<Unit>,
    from: Range,
    to: Range,
}

/// Carries an EXTENDED COPY out that came in at `manager`.
pub(crate) async fn run(
    view: &Target,
    manager: &Unit,
    nexus: &Nexus,
    parameters: &[u8],
    stop: &Stop,
) -> Result<Answer, Refusal> {
    // A list of no bytes is no error (SPC-4 6.4.1).
    if parameters.is_empty() {
        return Ok(Answer::good());
    }
    let request = list::parse(parameters)?;
    let Some(running) = manager.copies.begin(nexus, &request)? else {
        return Ok(Answer::status(Status::TaskSetFull));
    };
    for one in &plan(view, &request)? {
        one.carry_out(nexus, stop, &running).await.map_err(aborted)?;
        running.segment_done();
    }
    running.complete();
    Ok(Answer::good())
}

/// What is to be moved: every unit is one that the host sees, every range is there.
fn plan(view: &Target, request: &Request) -> Result<Vec<Move>, Refusal> {
    request.segments.iter().map(|segment| plan_segment(view, &request.devices, segment)).collect()
}

fn plan_segment(view: &Target, devices: &[Designated], segment: &Segment) -> Result<Move, Refusal> {
    let source = find(view, devices, segment.source)?;
    let target = find(view, devices, segment.target)?;
    let (source_block, target_block) = (u64::from(source.block_bytes()), u64::from(target.block_bytes()));
    let counted = if segment.counts_target_blocks { target_block } else { source_block };
    let bytes = segment.blocks * counted;
    if bytes > SEGMENT_BYTES_MAX {
        return Err(Sense::field_in_list(segment.at + list::BLOCKS_AT, None).into());
    }
    if !bytes.is_multiple_of(source_block) || !bytes.is_multiple_of(target_block) {
        return Err(Sense::new(SenseKey::CopyAborted, code::UNEXPECTED_INEXACT_SEGMENT).into());
    }
    let span = |start, block| Span { start, blocks: bytes / block, blocks_at: 0 };
    let from = source.range(span(segment.source_start, source_block)).map_err(aborted)?;
    target.check_writable().map_err(aborted)?;
    let to = target.range(span(segment.target_start, target_block)).map_err(aborted)?;
    Ok(Move { source, target, from, to })
}

/// The unit behind a descriptor, if the host sees it.
fn find(view: &Target, devices: &[Designated], index: usize) -> Result<Rc<Unit>, Refusal> {
    let unreachable = Sense::new(SenseKey::CopyAborted, code::UNREACHABLE_COPY_TARGET);
    let device = devices.get(index).ok_or(unreachable)?;
    let mut units = view.units().into_iter().map(|(_, unit)| unit);
    let unit = units.find(|unit| unit.is_designated(&device.designator)).ok_or(unreachable)?;
    if device.kind != 0 || device.block_bytes != unit.block_bytes() {
        return Err(Sense::new(SenseKey::CopyAborted, code::INCORRECT_COPY_TARGET_TYPE).into());
    }
    Ok(unit)
}

/// A copy that fails says so by its key, and by the code what failed (SPC-4 6.4.3.1). Where the blocks are
/// not there, initiators look for no code.
fn aborted(refusal: Refusal) -> Refusal {
    let code = match refusal {
        Refusal::Conflict => code::THIRD_PARTY_DEVICE_FAILURE,
        Refusal::Check(Sense { code: code::ADDRESS_OUT_OF_RANGE, .. }) => code::NO_ADDITIONAL_SENSE,
        Refusal::Check(sense) => sense.code,
    };
    Sense::new(SenseKey::CopyAborted, code).into()
}

impl Move {
    async fn carry_out(&self, nexus: &Nexus, stop: &Stop, running: &Running) -> Result<(), Refusal> {
        for (from, to) in self.from.pieces().zip(self.to.pieces()) {
            // Nobody hears the answer.
            if stop.is_asked() {
                return Err(Sense::new(SenseKey::CopyAborted, code::NO_ADDITIONAL_SENSE).into());
            }
            self.source.check_allowed(nexus, Access::Read)?;
            if self.copy_in_device(nexus, from, to).await? {
                running.moved(to.length);
                continue;
            }
            let data = self.source.read_range(from).await?;
            let _turn = self.target.writes.shared(to.offset, to.length).await;
            self.target.check_allowed(nexus, Access::Write)?;
            self.target.write_range(to, &data, false).await?;
            running.moved(to.length);
        }
        Ok(())
    }

    /// Has the device copy a piece; false where it cannot.
    async fn copy_in_device(&self, nexus: &Nexus, from: Range, to: Range) -> Result<bool, Refusal> {
        let Some(source) = self.source.device.identity() else { return Ok(false) };
        let _turn = self.target.writes.shared(to.offset, to.length).await;
        let _reading = self.source.reads.shared(from.offset, from.length).await;
        self.target.check_allowed(nexus, Access::Write)?;
        self.target.copy_range(source, from.offset, to).await
    }
}
