//! What both transports of one mount share: the device, the session, and how many requests run.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ashlar_runtime::Runtime;
use ashlar_runtime::sync::Notify;

use crate::error::Errno;
use crate::legacy::Legacy;
use crate::session::{Answer, Session};
use crate::settings::Settings;
use crate::volume_work::VolumeWork;
use crate::wire::{InHeader, Request};

/// One mount.
pub(crate) struct Connection {
    pub(crate) runtime: Runtime,
    pub(crate) device: OwnedFd,
    pub(crate) session: RefCell<Session>,
    pub(crate) settings: Settings,
    legacy: RefCell<Legacy>,
    /// No further request is taken: a successor is to serve them.
    is_leaving: Cell<bool>,
    /// Classic requests that run as tasks.
    running: Cell<usize>,
    /// Told when one of them ends.
    ended: Notify,
}

impl Connection {
    pub(crate) fn new(
        runtime: &Runtime,
        device: OwnedFd,
        session: Session,
        settings: Settings,
        legacy: Legacy,
    ) -> Connection {
        Connection {
            runtime: runtime.clone(),
            device,
            session: RefCell::new(session),
            settings,
            legacy: RefCell::new(legacy),
            is_leaving: Cell::new(false),
            running: Cell::new(0),
            ended: Notify::new(),
        }
    }

    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Takes one request. What it opens is left to the successor before anybody hears of it.
    pub(crate) fn apply(&self, header: &InHeader, request: Request<'_>) -> Answer {
        let answer = self.session.borrow_mut().apply(header, request);
        match self.hand_down() {
            Ok(()) => answer,
            Err(errno) if self.session.borrow_mut().undo_open(header) => Answer::Failed(errno),
            // A file that is closed and still in the will does no harm.
            Err(_) => answer,
        }
    }

    /// Writes down what a successor must know, where that changed.
    pub(crate) fn hand_down(&self) -> Result<(), Errno> {
        let Some(will) = self.session.borrow_mut().take_will() else { return Ok(()) };
        self.legacy.borrow_mut().write(&will).map_err(|_| Errno::TOO_MANY_FILES)
    }

    /// Writes down that nothing is under way. A successor that does not learn of it asks for what there is.
    pub(crate) fn hand_down_drained(&self) {
        let will = self.session.borrow().will(true);
        let _ = self.legacy.borrow_mut().write(&will);
    }

    /// The memory of what is open, for who keeps it.
    pub(crate) fn legacy(&self) -> io::Result<OwnedFd> {
        self.legacy.borrow().descriptor().try_clone_to_owned()
    }

    pub(crate) fn leave(&self) {
        self.is_leaving.set(true);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// Does work on a volume and counts it.
    pub(crate) async fn perform(&self, work: &VolumeWork, payload: &mut [u8]) -> Result<usize, Errno> {
        let started = self.runtime.now();
        let (operation, offset, bytes) = work.operation.counted();
        work.file.counters.arrived(operation, offset, bytes);
        let result = work.perform(payload).await;
        match result {
            Ok(_) => {
                let latency = self.runtime.now().duration_since(started);
                work.file.counters.completed(operation, bytes, latency);
            }
            Err(_) => work.file.counters.failed(operation),
        }
        result
    }

    pub(crate) fn begin(&self) {
        self.running.set(self.running.get() + 1);
    }

    pub(crate) fn finish(&self) {
        self.running.set(self.running.get() - 1);
        self.ended.notify_waiters();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.running.get() >= self.settings.classic_requests_max
    }

    /// Waits until another classic request may start.
    pub(crate) async fn wait_for_room(&self) {
        while self.is_full() {
            self.ended.notified().await;
        }
    }

    /// Waits until no classic request runs.
    pub(crate) async fn wait_until_idle(&self) {
        while self.running.get() > 0 {
            self.ended.notified().await;
        }
    }
}
