//! What both transports of one mount share: the device, the session, and how many requests run.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ashlar_runtime::Runtime;
use ashlar_runtime::sync::Notify;

use crate::error::Errno;
use crate::session::Session;
use crate::settings::Settings;
use crate::volume_work::VolumeWork;

/// One mount.
pub(crate) struct Connection {
    pub(crate) runtime: Runtime,
    pub(crate) device: OwnedFd,
    pub(crate) session: RefCell<Session>,
    pub(crate) settings: Settings,
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
    ) -> Connection {
        Connection {
            runtime: runtime.clone(),
            device,
            session: RefCell::new(session),
            settings,
            running: Cell::new(0),
            ended: Notify::new(),
        }
    }

    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Does work on a volume and counts it.
    pub(crate) async fn perform(&self, work: &VolumeWork, payload: &mut [u8]) -> Result<usize, Errno> {
        let started = self.runtime.now();
        let result = work.perform(payload).await;
        let (operation, bytes) = work.operation.counted();
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
