//! Counts every request to a device, with its latency.

use std::rc::Rc;

use ashlar_block::{BlockDevice, Extent, Geometry, LocalFuture, Result};
use ashlar_runtime::Runtime;
use ashlar_telemetry::{Counters, Operation};

/// A device whose requests are counted.
pub struct Counted {
    below: Rc<dyn BlockDevice>,
    counters: Rc<Counters>,
    runtime: Runtime,
}

impl Counted {
    /// Counts what reaches `below` in `counters`.
    #[must_use]
    pub fn new(below: Rc<dyn BlockDevice>, counters: Rc<Counters>, runtime: &Runtime) -> Counted {
        Counted { below, counters, runtime: runtime.clone() }
    }

    async fn count<T>(
        &self,
        operation: Operation,
        (offset, bytes): (u64, u64),
        request: LocalFuture<'_, Result<T>>,
    ) -> Result<T> {
        let start = self.runtime.now();
        self.counters.arrived(operation, offset, bytes);
        let result = request.await;
        match &result {
            Ok(_) => self.counters.completed(operation, bytes, self.runtime.now() - start),
            Err(_) => self.counters.failed(operation),
        }
        result
    }
}

impl BlockDevice for Counted {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn atomic_bytes_max(&self) -> u64 {
        self.below.atomic_bytes_max()
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        let bytes = into.len() as u64;
        Box::pin(self.count(Operation::Read, (offset, bytes), self.below.read(offset, into)))
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], is_fua: bool) -> LocalFuture<'a, Result<()>> {
        let bytes = data.len() as u64;
        Box::pin(self.count(Operation::Write, (offset, bytes), self.below.write(offset, data, is_fua)))
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(self.count(Operation::Flush, (0, 0), self.below.flush()))
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        Box::pin(self.count(Operation::Unmap, (offset, length), self.below.unmap(offset, length)))
    }

    fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        let request = self.below.write_zeroes(offset, length, may_unmap);
        Box::pin(self.count(Operation::WriteZeroes, (offset, length), request))
    }

    fn extents(&self, offset: u64, length: u64, extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        let request = self.below.extents(offset, length, extents_max);
        Box::pin(self.count(Operation::Extents, (offset, length), request))
    }
}
