//! What is known of copies: those that run, and those of which the host may still ask how they ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::list::{self, Request};
use super::{COPIES_MAX, DEVICES_MAX, SEGMENT_BYTES_MAX, SEGMENTS_MAX};
use crate::answer::Refusal;
use crate::bytes::put;
use crate::reservation::Nexus;
use crate::sense::{Sense, code};

/// COPY MANAGER STATUS (SPC-4 table 230).
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running = 0,
    Completed = 1,
    Failed = 2,
}

#[derive(Clone, Copy)]
struct Progress {
    state: State,
    segments: u16,
    bytes: u64,
}

/// The copies of one unit.
#[derive(Default)]
pub(crate) struct Copies {
    running: Rc<Cell<usize>>,
    /// By who asked and what it calls it: at most 256 of each, gone with the nexus.
    known: Rc<RefCell<BTreeMap<(Nexus, u8), Progress>>>,
}

/// A copy that runs. It has failed when this is dropped before it is complete.
pub(crate) struct Running {
    running: Rc<Cell<usize>>,
    known: Rc<RefCell<BTreeMap<(Nexus, u8), Progress>>>,
    key: Option<(Nexus, u8)>,
    is_held: bool,
    progress: Cell<Progress>,
}

impl Copies {
    /// A copy begins; `None` where as many run as may. Two of one name cannot be told apart.
    pub fn begin(&self, nexus: &Nexus, request: &Request) -> Result<Option<Running>, Refusal> {
        let key = request.id.map(|id| (nexus.clone(), id));
        let mut known = self.known.borrow_mut();
        let before = key.as_ref().and_then(|key| known.get(key));
        if before.is_some_and(|progress| progress.state == State::Running) {
            return Err(Sense::illegal(code::OPERATION_IN_PROGRESS).into());
        }
        if self.running.get() >= COPIES_MAX {
            return Ok(None);
        }
        self.running.set(self.running.get() + 1);
        let progress = Progress { state: State::Running, segments: 0, bytes: 0 };
        if let Some(key) = &key {
            known.insert(key.clone(), progress);
        }
        Ok(Some(Running {
            running: self.running.clone(),
            known: self.known.clone(),
            key,
            is_held: request.is_held,
            progress: Cell::new(progress),
        }))
    }

    /// A nexus is lost, and with it what it might have asked.
    pub fn forget(&self, nexus: &Nexus) {
        self.known.borrow_mut().retain(|(of, _), _| of != nexus);
    }

    /// COPY STATUS (SPC-4 6.18). How a copy ended is told once.
    pub fn status(&self, nexus: &Nexus, id: u8) -> Result<Vec<u8>, Sense> {
        let mut known = self.known.borrow_mut();
        let key = (nexus.clone(), id);
        let progress = *known.get(&key).ok_or(Sense::field_in_cdb(2))?;
        if progress.state != State::Running {
            known.remove(&key);
        }
        let mut bytes = vec![0; 12];
        bytes[3] = 8;
        bytes[4] = progress.state as u8;
        put(&mut bytes, 5, &progress.segments.to_be_bytes());
        // TRANSFER COUNT UNITS 0: bytes. A copy has a GiB at most.
        put(&mut bytes, 8, &u32::try_from(progress.bytes).unwrap_or(u32::MAX).to_be_bytes());
        Ok(bytes)
    }
}

impl Running {
    pub fn moved(&self, bytes: u64) {
        self.change(|progress| progress.bytes += bytes);
    }

    pub fn segment_done(&self) {
        self.change(|progress| progress.segments += 1);
    }

    pub fn complete(self) {
        self.change(|progress| progress.state = State::Completed);
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.get();
        change(&mut progress);
        self.progress.set(progress);
        // Forgotten while it runs: the nexus that would ask is gone.
        let mut known = self.known.borrow_mut();
        if let Some(told) = self.key.as_ref().and_then(|key| known.get_mut(key)) {
            *told = progress;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.running.set(self.running.get() - 1);
        if self.progress.get().state == State::Running {
            self.change(|progress| progress.state = State::Failed);
        }
        if let Some(key) = self.key.as_ref().filter(|_| !self.is_held) {
            self.known.borrow_mut().remove(key);
        }
    }
}

/// OPERATING PARAMETERS (SPC-4 6.20).
pub(crate) fn operating_parameters() -> Vec<u8> {
    let codes = [list::SEGMENT_OF_BLOCKS, list::DEVICE_BY_IDENTIFICATION];
    let mut bytes = vec![0; 44];
    // SNLID: a copy may do without a list identifier.
    bytes[4] = 1;
    put(&mut bytes, 8, &(DEVICES_MAX as u16).to_be_bytes());
    put(&mut bytes, 10, &(SEGMENTS_MAX as u16).to_be_bytes());
    put(&mut bytes, 12, &(list::DESCRIPTORS_BYTES_MAX as u32).to_be_bytes());
    put(&mut bytes, 16, &(SEGMENT_BYTES_MAX as u32).to_be_bytes());
    put(&mut bytes, 34, &(COPIES_MAX as u16).to_be_bytes());
    bytes[36] = COPIES_MAX as u8;
    bytes[37] = GRANULARITY_LOG2;
    bytes[43] = codes.len() as u8;
    bytes.extend_from_slice(&codes);
    let behind = bytes.len() as u32 - 4;
    put(&mut bytes, 0, &behind.to_be_bytes());
    bytes
}

/// DATA SEGMENT GRANULARITY: the smallest block there is, 512 bytes.
const GRANULARITY_LOG2: u8 = 9;

/// The Third-party Copy page (SPC-4 7.8.17): which commands there are, and the same limits once more.
pub(crate) fn page() -> Vec<u8> {
    let descriptor = |kind: u16, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), &body].concat()
    };
    // EXTENDED COPY(LID1); RECEIVE COPY STATUS(LID1) and OPERATING PARAMETERS.
    let commands = [7, 0x83, 1, 0x00, 0x84, 2, 0x00, 0x03];
    let mut limits = [0; 28];
    put(&mut limits, 4, &(DEVICES_MAX as u16).to_be_bytes());
    put(&mut limits, 6, &(SEGMENTS_MAX as u16).to_be_bytes());
    put(&mut limits, 8, &(list::DESCRIPTORS_BYTES_MAX as u32).to_be_bytes());
    let codes = [2, list::SEGMENT_OF_BLOCKS, list::DEVICE_BY_IDENTIFICATION];
    let mut general = [0; 32];
    put(&mut general, 0, &(COPIES_MAX as u32).to_be_bytes());
    put(&mut general, 4, &(COPIES_MAX as u32).to_be_bytes());
    put(&mut general, 8, &(SEGMENT_BYTES_MAX as u32).to_be_bytes());
    general[12] = GRANULARITY_LOG2;
    [
        descriptor(0x0001, &commands),
        descriptor(0x0004, &limits),
        descriptor(0x0008, &codes),
        // No identifiers of devices beyond the list's own.
        descriptor(0x000c, &[0, 0]),
        descriptor(0x8001, &general),
    ]
    .concat()
}
