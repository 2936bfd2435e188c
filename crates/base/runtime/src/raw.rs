//! I/O on descriptors of the caller's own: character devices, pipes, device commands.

use std::future::Future;
use std::io;
use std::os::fd::RawFd;

use crate::driver::Driver;
use crate::operation::{Operation, Submitted, UringCommand, count, is_transient};
use crate::{Buf, Runtime};

impl Runtime {
    /// Reads at the descriptor's own position: at most `buf.len()` bytes, zero at the end. The
    /// descriptor must stay open until the future is done; where io_uring is not used it is switched
    /// to non-blocking.
    pub async fn read_fd(&self, fd: RawFd, mut buf: Buf) -> (io::Result<usize>, Buf) {
        if let Some(error) = self.refuse_in_simulation() {
            return (Err(error), buf);
        }
        loop {
            let (result, operation) = Submitted::new(self, Operation::ReadFd { fd, buf }).await;
            buf = operation.into_buf().expect("a read carries its buffer");
            if result != -libc::EINTR {
                return (count(result), buf);
            }
        }
    }

    /// Reads until `buf` is full or the end is reached.
    pub async fn read_fd_fully(&self, fd: RawFd, mut buf: Buf) -> (io::Result<usize>, Buf) {
        let whole = buf.len();
        let mut done = 0;
        while done < whole {
            let (result, piece) = self.read_fd(fd, self.buffer(whole - done)).await;
            match result {
                Ok(0) => break,
                Ok(length) => buf[done..done + length].copy_from_slice(&piece[..length]),
                Err(error) => return (Err(error), buf),
            }
            done += result.unwrap_or(0);
        }
        (Ok(done), buf)
    }

    /// Writes at the descriptor's own position, in one system call: the count may be short. The
    /// descriptor must stay open until the future is done.
    pub async fn write_fd(&self, fd: RawFd, mut buf: Buf) -> (io::Result<usize>, Buf) {
        if let Some(error) = self.refuse_in_simulation() {
            return (Err(error), buf);
        }
        loop {
            let (result, operation) = Submitted::new(self, Operation::WriteFd { fd, buf }).await;
            buf = operation.into_buf().expect("a write carries its buffer");
            if !is_transient(result) {
                return (count(result), buf);
            }
        }
    }

    /// Sends a device's own command (`IORING_OP_URING_CMD`, 128-byte entries): `command` is the area
    /// at byte 48 of the entry, `address` and `length` its `addr` and `len`. The future gives the raw
    /// result, negative for an error number. `None` when the driver is not io_uring.
    ///
    /// # Safety
    /// The memory that `address` and the command name must stay valid, and unused otherwise, for as
    /// long as the device may use it, which may be longer than the future lives.
    pub unsafe fn uring_command(
        &self,
        fd: RawFd,
        code: u32,
        command: [u8; 80],
        address: u64,
        length: u32,
    ) -> Option<impl Future<Output = i32> + use<>> {
        match &self.shard.driver {
            Driver::Uring(_) => {
                let command = Box::new(UringCommand { fd, code, area: command, address, length });
                let submitted = Submitted::new(self, Operation::Command { command });
                Some(async move { submitted.await.0 })
            }
            Driver::Threads(_) | Driver::Sim(_) => None,
        }
    }

    pub(crate) fn refuse_in_simulation(&self) -> Option<io::Error> {
        let is_simulated = self.shard.driver.as_sim().is_some();
        is_simulated
            .then(|| io::Error::new(io::ErrorKind::Unsupported, "the simulated world has drives only"))
    }
}
