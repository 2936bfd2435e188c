//! One logical unit: a device, its mode pages, its reservations, and what each nexus has not heard of.
//!
//! Shared by every session that serves the volume, so that hosts on different connections see one unit.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ashlar_block::{BlockDevice, ErrorKind, Identity};
use ashlar_runtime::Buf;
use ashlar_runtime::sync::Mutex;

use crate::answer::{Answer, Refusal, Status};
use crate::attention::{Attention, Attentions};
use crate::bytes::truncated;
use crate::commands::{Access, Entry, Kind};
use crate::copy::{self, Copies};
use crate::inquiry::{self, Subject};
use crate::mode::{Medium, ModePages};
use crate::parse::{self, Operation, Span};
use crate::range_lock::RangeLock;
use crate::reports;
use crate::reservation::{self, Nexus, OutAction, ReservationStore, Reservations, Saved};
use crate::sense::{Sense, SenseKey, code};
use crate::target::Port;

/// Nexuses of one unit. More are served, but hear no unit attentions. Arbitrary.
const NEXUSES_MAX: usize = 1024;

/// How much one command may ask for; told in the Block Limits page. Not the host's: it bounds memory and
/// time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a read, a write or a verification. Default 16 MiB: arbitrary, 64 times the largest request of
    /// a kernel that is not told otherwise.
    pub transfer_bytes_max: u32,
    /// Bytes that one WRITE SAME covers. Default 16 MiB, as a transfer: there are hosts that take the one
    /// limit for the other.
    pub write_same_bytes_max: u32,
    /// Blocks of one UNMAP. Default 2^20: half a GiB of 512-byte blocks, what the lists of kernels carry.
    pub unmap_blocks_max: u32,
    /// Descriptors of one UNMAP. Default 256: a list of 4 KiB.
    pub unmap_descriptors_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            transfer_bytes_max: 16 << 20,
            write_same_bytes_max: 16 << 20,
            unmap_blocks_max: 1 << 20,
            unmap_descriptors_max: 256,
        }
    }
}

impl Limits {
    pub(crate) fn transfer_blocks(self, block_bytes: u32) -> u32 {
        self.transfer_bytes_max / block_bytes
    }

    pub(crate) fn write_same_blocks(self, block_bytes: u32) -> u32 {
        self.write_same_bytes_max / block_bytes
    }

    /// COMPARE AND WRITE carries its blocks twice, and counts them in one byte.
    pub(crate) fn compare_blocks(self, block_bytes: u32) -> u32 {
        (self.transfer_blocks(block_bytes) / 2).min(255)
    }
}

/// What a unit is made of besides its device.
pub struct UnitSettings {
    /// What names are made of.
    pub identity: Identity,
    /// The logical block that hosts address: 512 or 4096. The device takes any part of its own blocks.
    pub block_bytes: u32,
    /// PRODUCT REVISION LEVEL, four characters for people.
    pub revision: String,
    pub limits: Limits,
    /// Where reservations go that hosts want to outlive a loss of power; without one they are refused.
    pub store: Option<Rc<dyn ReservationStore>>,
    /// What that store had.
    pub saved: Saved,
    /// Makes buffers, which the device fills whole before anybody reads them: their content is arbitrary.
    pub allocate: Rc<dyn Fn(usize) -> Buf>,
}

/// One logical unit.
pub struct Unit {
    pub(crate) device: Rc<dyn BlockDevice>,
    identity: Identity,
    block_bytes: u32,
    revision: String,
    pub(crate) limits: Limits,
    store: Option<Rc<dyn ReservationStore>>,
    pub(crate) allocate: Rc<dyn Fn(usize) -> Buf>,
    modes: Cell<ModePages>,
    is_retired: Cell<bool>,
    reservations: RefCell<Reservations>,
    /// One change of reservations at a time: it may wait for the store.
    reserving: Mutex<()>,
    /// Who took the unit with RESERVE.
    reserved_by: RefCell<Option<Nexus>>,
    nexuses: RefCell<BTreeMap<Nexus, Attentions>>,
    /// The size that hosts were told last.
    size_bytes: Cell<u64>,
    pub(crate) writes: Rc<RangeLock>,
    /// Reads share ranges, atomic writes have them for themselves. Who claims one of `writes`, too, be it of
    /// another unit, does that first. Fences do not wait for reads.
    pub(crate) reads: Rc<RangeLock>,
    /// Copies that came in here.
    pub(crate) copies: Copies,
}

impl Unit {
    /// A unit that serves this device.
    #[must_use]
    pub fn new(device: Rc<dyn BlockDevice>, settings: UnitSettings) -> Unit {
        let UnitSettings { identity, block_bytes: block, revision, limits, store, saved, allocate } =
            settings;
        let geometry = device.geometry();
        assert!(block == 512 || block == 4096, "logical blocks of {block} bytes");
        assert!(limits.transfer_bytes_max >= 2 * block, "transfers of {} bytes", limits.transfer_bytes_max);
        assert!(limits.write_same_bytes_max >= block, "WRITE SAME of {} bytes", limits.write_same_bytes_max);
        Unit {
            device,
            identity,
            block_bytes: block,
            revision,
            limits,
            store,
            allocate,
            modes: Cell::default(),
            is_retired: Cell::new(false),
            reservations: RefCell::new(Reservations::restored(saved)),
            reserving: Mutex::new(()),
            reserved_by: RefCell::default(),
            nexuses: RefCell::default(),
            size_bytes: Cell::new(geometry.size_bytes),
            writes: Rc::default(),
            reads: Rc::default(),
            copies: Copies::default(),
        }
    }

    /// A nexus comes, or comes again: it hears that the unit is new to it.
    pub fn attach(&self, nexus: &Nexus) {
        let mut nexuses = self.nexuses.borrow_mut();
        let is_back = nexuses.contains_key(nexus);
        if !is_back && nexuses.len() >= NEXUSES_MAX {
            return;
        }
        let attention = if is_back { Attention::NexusLoss } else { Attention::PowerOn };
        let attentions = nexuses.entry(nexus.clone()).or_default();
        *attentions = Attentions::default();
        attentions.add(attention);
        drop(nexuses);
        if is_back {
            self.copies.forget(nexus);
            self.release_of(nexus);
        }
    }

    /// A nexus is lost: its RESERVE goes with it, its registration stays (SPC-4 5.13.4).
    pub fn detach(&self, nexus: &Nexus) {
        self.nexuses.borrow_mut().remove(nexus);
        self.copies.forget(nexus);
        self.release_of(nexus);
    }

    fn release_of(&self, nexus: &Nexus) {
        self.reserved_by.borrow_mut().take_if(|holder| *holder == *nexus);
    }

    /// Tells every nexus but one.
    pub fn tell(&self, attention: Attention, except: Option<&Nexus>) {
        for (nexus, attentions) in self.nexuses.borrow_mut().iter_mut() {
            if except != Some(nexus) {
                attentions.add(attention);
            }
        }
    }

    /// Tells one nexus.
    pub fn tell_one(&self, nexus: &Nexus, attention: Attention) {
        if let Some(attentions) = self.nexuses.borrow_mut().get_mut(nexus) {
            attentions.add(attention);
        }
    }

    pub(crate) fn forget(&self, nexus: &Nexus, attention: Attention) {
        if let Some(attentions) = self.nexuses.borrow_mut().get_mut(nexus) {
            attentions.forget(attention);
        }
    }

    /// LOGICAL UNIT RESET (SAM-5 6.3.3): returns when every write that began before has ended. The caller
    /// sees to it that the commands of all nexuses are answered no more.
    pub async fn reset(&self) {
        self.reserved_by.take();
        self.modes.take();
        drop(self.writes.barrier().await);
        self.tell(Attention::Reset, None);
    }

    #[cfg(test)]
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether this is one of its names, as it stands in the Device Identification page.
    pub(crate) fn is_designated(&self, designator: &[u8]) -> bool {
        inquiry::designators(self.identity).iter().any(|name| name == designator)
    }

    /// The unit of addresses, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Blocks that there are.
    pub(crate) fn blocks(&self) -> u64 {
        self.device.geometry().size_bytes / u64::from(self.block_bytes)
    }

    /// Everything that can be decided without data: reservations, attentions, fields, limits, range, and
    /// whether the host brings the data that the CDB asks for. An error is the whole answer.
    pub(crate) fn begin(&self, nexus: &Nexus, cdb: &[u8], offered_bytes: u64) -> Result<Operation, Answer> {
        self.notice_size();
        let entry = parse::lookup(cdb);
        // A conflict comes before an attention, which stays (SAM-5 5.3.3).
        if entry.is_ok_and(|entry| self.conflicts(nexus, entry)) {
            return Err(Answer::status(Status::ReservationConflict));
        }
        if !entry.is_ok_and(Entry::passes_attention)
            && let Some(attention) = self.take_attention(nexus)
        {
            return Err(self.refused(attention.into()));
        }
        let operation = entry.and_then(|entry| parse::operation(entry, cdb)).map_err(Refusal::Check);
        operation
            .and_then(|operation| self.check(&operation, offered_bytes).map(|()| operation))
            .map_err(|refusal| self.refused(refusal))
    }

    /// Carries an operation out that [`Unit::begin`] let through.
    pub(crate) async fn run(&self, nexus: &Nexus, operation: Operation, data: &[u8]) -> Answer {
        match self.carry_out(nexus, operation, data).await {
            Ok(answer) => answer,
            Err(refusal) => self.refused(refusal),
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal) -> Answer {
        match refusal {
            Refusal::Check(sense) => Answer::check(&sense, self.modes.get().is_descriptor_sense),
            Refusal::Conflict => Answer::status(Status::ReservationConflict),
        }
    }

    /// Tells everybody when the device has another size than they know.
    fn notice_size(&self) {
        let size_bytes = self.device.geometry().size_bytes;
        if self.size_bytes.replace(size_bytes) != size_bytes {
            self.tell(Attention::CapacityChanged, None);
        }
    }

    fn take_attention(&self, nexus: &Nexus) -> Option<Sense> {
        self.nexuses.borrow_mut().get_mut(nexus)?.take()
    }

    fn conflicts(&self, nexus: &Nexus, entry: &Entry) -> bool {
        let is_persistent = matches!(entry.kind, Kind::PersistentReserveIn | Kind::PersistentReserveOut);
        let is_reserved = match &*self.reserved_by.borrow() {
            None => false,
            // SPC-2 5.5.1: while RESERVE holds, the other kind of reservation is refused to everybody.
            Some(_) if is_persistent => true,
            Some(holder) => holder != nexus && !entry.passes_reserve(),
        };
        is_reserved || !self.reservations.borrow().allows(nexus, entry.access)
    }

    /// Once more when a command's turn has come: a reservation may have come meanwhile, and whoever took it
    /// was told that nobody else writes any more.
    pub(crate) fn check_allowed(&self, nexus: &Nexus, access: Access) -> Result<(), Refusal> {
        self.check_served()?;
        let is_reserved = self.reserved_by.borrow().as_ref().is_some_and(|holder| holder != nexus);
        if is_reserved || !self.reservations.borrow().allows(nexus, access) {
            return Err(Refusal::Conflict);
        }
        Ok(())
    }

    /// It is served no more: commands that have come and are not at work are refused, those of many pieces
    /// end at the next.
    pub fn retire(&self) {
        self.is_retired.set(true);
    }

    fn check_served(&self) -> Result<(), Refusal> {
        match self.is_retired.get() {
            true => Err(Sense::illegal(code::UNIT_NOT_SUPPORTED).into()),
            false => Ok(()),
        }
    }

    /// Returns when every write and every change of reservations that is at work now is over.
    pub async fn wait_for_writes(&self) {
        drop(self.writes.barrier().await);
        drop(self.reserving.lock().await);
    }

    /// Every write is made durable before it is answered.
    pub(crate) fn is_write_through(&self) -> bool {
        !self.modes.get().is_cache_on
    }

    fn check(&self, operation: &Operation, offered_bytes: u64) -> Result<(), Refusal> {
        let block = self.block_bytes();
        let transfer = self.limits.transfer_blocks(block);
        match *operation {
            Operation::Read { span } | Operation::Verify { span, .. } => {
                self.check_span(span)?;
                check_length(span, transfer)?;
            }
            Operation::Write { span, .. }
            | Operation::WriteAndVerify { span, .. }
            | Operation::OrWrite { span, .. } => {
                self.check_writable()?;
                self.check_span(span)?;
                check_length(span, transfer)?;
            }
            Operation::WriteAtomic { span, .. } => {
                self.check_writable()?;
                self.check_span(span)?;
                // ATOMIC ALIGNMENT and ATOMIC TRANSFER LENGTH GRANULARITY of the Block Limits page.
                let aligned = u64::from(self.optimal_blocks());
                if !span.start.is_multiple_of(aligned) {
                    return Err(Sense::field_in_cdb(2).into());
                }
                if !span.blocks.is_multiple_of(aligned) {
                    return Err(Sense::field_in_cdb(span.blocks_at).into());
                }
                check_length(span, self.atomic_blocks())?;
            }
            Operation::CompareAndWrite { span, .. } => {
                self.check_writable()?;
                check_length(span, self.limits.compare_blocks(block))?;
                self.check_span(span)?;
            }
            Operation::WriteSame { span, .. } => {
                self.check_writable()?;
                // WSNZ: zero does not mean "to the end".
                if span.blocks == 0 {
                    return Err(Sense::field_in_cdb(span.blocks_at).into());
                }
                self.check_span(span)?;
                check_length(span, self.limits.write_same_blocks(block))?;
            }
            Operation::SynchronizeCache(span) | Operation::Prefetch(span) => self.check_span(span)?,
            Operation::GetBlockStatus { start, .. } => {
                self.check_span(Span { start, blocks: 0, blocks_at: 2 })?;
            }
            Operation::Unmap { .. } => self.check_writable()?,
            Operation::ExtendedCopy { length } if length > copy::list::LIST_BYTES_MAX => {
                return Err(Sense::illegal(code::PARAMETER_LIST_LENGTH).into());
            }
            _ => {}
        }
        let wanted = operation.cut_to(offered_bytes, block).data_out_bytes(block);
        if offered_bytes >= wanted && (offered_bytes == wanted || !operation.wants_exact_data()) {
            return Ok(());
        }
        Err(match *operation {
            // Hosts that want more blocks than the one byte can count find none in it.
            Operation::CompareAndWrite { span, .. } => Sense::field_in_cdb(span.blocks_at),
            _ => Sense::illegal(code::INVALID_FIELD_IN_INFORMATION_UNIT),
        }
        .into())
    }

    pub(crate) fn check_writable(&self) -> Result<(), Refusal> {
        let code = if self.device.geometry().is_read_only {
            code::WRITE_PROTECTED
        } else if self.modes.get().is_write_protected {
            code::SOFTWARE_WRITE_PROTECTED
        } else {
            return Ok(());
        };
        Err(Sense::new(SenseKey::DataProtect, code).into())
    }

    /// A span begins at a block that there is, even one of no blocks (SBC-3 4.14).
    pub(crate) fn check_span(&self, span: Span) -> Result<(), Refusal> {
        let blocks = self.blocks();
        let is_inside =
            span.start < blocks && span.start.checked_add(span.blocks).is_some_and(|end| end <= blocks);
        if is_inside { Ok(()) } else { Err(Sense::out_of_range().into()) }
    }

    async fn carry_out(&self, nexus: &Nexus, operation: Operation, data: &[u8]) -> Result<Answer, Refusal> {
        let wanted = operation.data_out_bytes(self.block_bytes());
        // The transport was told how much; a host that stopped half way is no reason to write half.
        let Some(data) = usize::try_from(wanted).ok().and_then(|wanted| data.get(..wanted)) else {
            return Err(Sense::illegal(code::INVALID_FIELD_IN_INFORMATION_UNIT).into());
        };
        match operation {
            Operation::TestUnitReady => Ok(Answer::good()),
            Operation::RequestSense { is_descriptor, allocation } => {
                let nothing = Sense::new(SenseKey::NoSense, code::NO_ADDITIONAL_SENSE);
                let sense = self.take_attention(nexus).unwrap_or(nothing);
                Ok(Answer::parameters(truncated(sense.encoded(is_descriptor), allocation)))
            }
            Operation::StartStopUnit { flushes: false } => Ok(Answer::good()),
            Operation::StartStopUnit { flushes: true } | Operation::SynchronizeCache(_) => self.flush().await,
            Operation::Read { span } => self.read(nexus, span).await,
            Operation::Write { span, is_fua } => self.write(nexus, span, data, is_fua).await,
            Operation::Verify { span, check } => self.verify(nexus, span, check, data).await,
            Operation::WriteAndVerify { span, check } => {
                self.write_and_verify(nexus, span, check, data).await
            }
            Operation::CompareAndWrite { span, is_fua } => {
                self.compare_and_write(nexus, span, data, is_fua).await
            }
            Operation::WriteSame { span, may_unmap, .. } => {
                self.write_same(nexus, span, data, may_unmap).await
            }
            Operation::Unmap { .. } => self.unmap(nexus, data).await,
            Operation::CopyResults { list, allocation } => {
                let bytes = match list {
                    Some(id) => self.copies.status(nexus, id)?,
                    None => copy::operating_parameters(),
                };
                Ok(Answer::parameters(truncated(bytes, allocation)))
            }
            Operation::GetBlockStatus { start, allocation } => self.block_status(start, allocation).await,
            Operation::OrWrite { span, is_fua } => self.or_write(nexus, span, data, is_fua).await,
            Operation::WriteAtomic { span, is_fua } => self.write_atomic(nexus, span, data, is_fua).await,
            Operation::Prefetch(span) => self.prefetch(nexus, span).await,
            Operation::PersistentReserveOut { action, scope, kind, length } => {
                self.reserve_persistently(nexus, action, (scope, kind), length, data).await
            }
            Operation::Reserve => self.reserve(nexus).await,
            Operation::Release => self.release(nexus),
            Operation::ModeSelect { is_long, .. } => self.select_modes(nexus, is_long, data),
            _ => self.report(operation).map(Answer::parameters).map_err(Refusal::Check),
        }
    }

    /// Parameter data that need no device. INQUIRY and what is about the target's ports come from the target.
    fn report(&self, operation: Operation) -> Result<Vec<u8>, Sense> {
        let (blocks, block_bytes) = (self.blocks(), self.block_bytes());
        let (bytes, allocation) = match operation {
            Operation::ReadCapacity { is_long: false, allocation } => {
                (reports::capacity_short(blocks, block_bytes), allocation)
            }
            Operation::ReadCapacity { is_long: true, allocation } => {
                (reports::capacity_long(blocks, block_bytes, self.optimal_blocks()), allocation)
            }
            Operation::ModeSense(request) => {
                (self.modes.get().sense(&request, self.medium())?, request.allocation)
            }
            Operation::LogSense { page, subpage, parameter, allocation } => {
                (reports::log(page, subpage, parameter)?, allocation)
            }
            Operation::PersistentReserveIn { action, allocation } => {
                let state = self.reservations.borrow();
                (reservation::report(&state, action, self.store.is_some()), allocation)
            }
            Operation::ReportOperationCodes { asked, has_timeouts, allocation } => {
                (reports::operation_codes(asked, has_timeouts), allocation)
            }
            Operation::ReportTaskManagement { is_extended, allocation } => {
                (reports::task_management(is_extended), allocation)
            }
            _ => return Err(Sense::illegal(code::INVALID_OPERATION_CODE)),
        };
        Ok(truncated(bytes, allocation))
    }

    /// INQUIRY, which also tells of the port it came in by.
    pub(crate) fn inquire(&self, port: &Port, page: Option<u8>) -> Result<Vec<u8>, Sense> {
        let subject = Subject {
            identity: self.identity,
            revision: &self.revision,
            port,
            limits: self.limits,
            block_bytes: self.block_bytes(),
            optimal_blocks: self.optimal_blocks(),
            atomic_blocks: self.atomic_blocks(),
        };
        match page {
            None => Ok(inquiry::standard(&subject)),
            Some(page) => inquiry::page(&subject, page),
        }
    }

    fn optimal_blocks(&self) -> u32 {
        (self.device.geometry().optimal_block_bytes / self.block_bytes).max(1)
    }

    /// Blocks of one WRITE ATOMIC.
    fn atomic_blocks(&self) -> u32 {
        let blocks = self.device.atomic_bytes_max() / u64::from(self.block_bytes);
        u32::try_from(blocks).unwrap_or(u32::MAX).min(self.limits.transfer_blocks(self.block_bytes))
    }

    fn medium(&self) -> Medium {
        Medium {
            blocks: self.blocks(),
            block_bytes: self.block_bytes(),
            is_read_only: self.device.geometry().is_read_only,
        }
    }

    fn select_modes(&self, nexus: &Nexus, is_long: bool, data: &[u8]) -> Result<Answer, Refusal> {
        let before = self.modes.get();
        let after = before.select(is_long, data, self.medium())?;
        self.modes.set(after);
        if after != before {
            self.tell(Attention::ModeParametersChanged, Some(nexus));
        }
        Ok(Answer::good())
    }

    async fn reserve_persistently(
        &self,
        nexus: &Nexus,
        action: OutAction,
        scope_and_kind: (u8, u8),
        length: usize,
        data: &[u8],
    ) -> Result<Answer, Refusal> {
        let request = reservation::parse_list(action, scope_and_kind, length, data, self.store.is_some())?;
        let _turn = self.reserving.lock().await;
        self.check_served()?;
        let before = self.reservations.borrow().clone();
        let change = reservation::apply(&before, nexus, &request)?;
        let saved = change.state.to_save();
        if let Some(store) = &self.store
            && saved != before.to_save()
        {
            // Not saved is not done: the state stays as it was, and the host may try again.
            let failed = |_| Refusal::Check(Sense::new(SenseKey::AbortedCommand, code::INTERNAL_FAILURE));
            store.save(&saved).await.map_err(failed)?;
        }
        self.reservations.replace(change.state);
        change.heard.iter().for_each(|(heard_by, attention)| self.tell_one(heard_by, *attention));
        if change.is_fence {
            drop(self.writes.barrier().await);
        }
        Ok(Answer::good())
    }

    /// RESERVE (SPC-2 7.20). With registrants about it does nothing: to them as if done, to others a conflict
    /// (SPC-4 5.13.3).
    async fn reserve(&self, nexus: &Nexus) -> Result<Answer, Refusal> {
        if self.reservations.borrow().is_in_use() {
            return self.answer_registrant(nexus);
        }
        self.check_allowed(nexus, Access::Always)?;
        self.reserved_by.replace(Some(nexus.clone()));
        drop(self.writes.barrier().await);
        Ok(Answer::good())
    }

    /// RELEASE (SPC-2 7.16): of somebody who holds nothing it changes nothing.
    fn release(&self, nexus: &Nexus) -> Result<Answer, Refusal> {
        if self.reservations.borrow().is_in_use() {
            return self.answer_registrant(nexus);
        }
        self.release_of(nexus);
        Ok(Answer::good())
    }

    fn answer_registrant(&self, nexus: &Nexus) -> Result<Answer, Refusal> {
        if self.reservations.borrow().is_registered(nexus) {
            Ok(Answer::good())
        } else {
            Err(Refusal::Conflict)
        }
    }

    /// A device's error as sense data. `is_write` tells which of the two a medium failed at.
    pub(crate) fn failed(error: &ashlar_block::Error, is_write: bool) -> Refusal {
        let sense = match error.kind {
            // The range was checked: the device became smaller meanwhile.
            ErrorKind::Invalid => Sense::out_of_range(),
            ErrorKind::ReadOnly => Sense::new(SenseKey::DataProtect, code::WRITE_PROTECTED),
            ErrorKind::NoSpace => Sense::new(SenseKey::DataProtect, code::SPACE_ALLOCATION_FAILED),
            ErrorKind::Medium if is_write => Sense::new(SenseKey::MediumError, code::WRITE_ERROR),
            ErrorKind::Medium => Sense::new(SenseKey::MediumError, code::UNRECOVERED_READ_ERROR),
            ErrorKind::Gone => Sense::new(SenseKey::NotReady, code::UNIT_NOT_READY),
        };
        Refusal::Check(sense)
    }
}

fn check_length(span: Span, blocks_max: u32) -> Result<(), Refusal> {
    if span.blocks > u64::from(blocks_max) { Err(Sense::field_in_cdb(span.blocks_at).into()) } else { Ok(()) }
}
