//! Makes a device fail and dawdle, by chance from a seed or by order.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::{BlockDevice, Error, ErrorKind, Extent, Geometry, LocalFuture, Result};
use ashlar_runtime::Runtime;
use ashlar_telemetry::Operation;

/// How often and how a device fails. The default never does.
#[derive(Clone, Copy, Debug)]
pub struct FaultSettings {
    /// Where the chances come from: the same seed and requests give the same faults.
    pub seed: u64,
    /// Requests in a million that fail before they change anything.
    pub errors_per_million: u32,
    /// Writes in a million that write a part, then fail.
    pub torn_writes_per_million: u32,
    /// Requests in a million that are held back for up to `delay_max`.
    pub delays_per_million: u32,
    /// The longest delay.
    pub delay_max: Duration,
    /// What failed requests answer.
    pub kind: ErrorKind,
}

impl Default for FaultSettings {
    fn default() -> FaultSettings {
        FaultSettings {
            seed: 0,
            errors_per_million: 0,
            torn_writes_per_million: 0,
            delays_per_million: 0,
            delay_max: Duration::ZERO,
            kind: ErrorKind::Medium,
        }
    }
}

/// A device that fails on purpose.
pub struct Faulty {
    below: Rc<dyn BlockDevice>,
    runtime: Runtime,
    settings: Cell<FaultSettings>,
    random: Cell<u64>,
    ordered: [Cell<u32>; Operation::ALL.len()],
    injected: Cell<u64>,
}

impl Faulty {
    /// Puts faults over `below`.
    #[must_use]
    pub fn new(below: Rc<dyn BlockDevice>, runtime: &Runtime, settings: FaultSettings) -> Faulty {
        Faulty {
            below,
            runtime: runtime.clone(),
            settings: Cell::new(settings),
            random: Cell::new(settings.seed),
            ordered: Default::default(),
            injected: Cell::new(0),
        }
    }

    /// Changes the chances from now on; the seed starts anew.
    pub fn set(&self, settings: FaultSettings) {
        self.settings.set(settings);
        self.random.set(settings.seed);
    }

    /// Makes the next `count` requests of this kind fail.
    pub fn fail_next(&self, operation: Operation, count: u32) {
        self.ordered[operation as usize].set(count);
    }

    /// How many requests were made to fail.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.injected.get()
    }

    /// splitmix64: small, and good enough for dice.
    fn next(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn happens(&self, per_million: u32) -> bool {
        per_million > 0 && self.next() % 1_000_000 < u64::from(per_million)
    }

    fn error(&self, operation: Operation) -> Error {
        self.injected.set(self.injected.get() + 1);
        Error::new(self.settings.get().kind, format!("injected fault in {}", operation.name()))
    }

    /// Delays, then says whether the request may go on.
    async fn pass(&self, operation: Operation) -> Result<()> {
        let settings = self.settings.get();
        let is_ordered = self.ordered[operation as usize].get() > 0;
        if is_ordered {
            self.ordered[operation as usize].set(self.ordered[operation as usize].get() - 1);
        }
        let fails = is_ordered || self.happens(settings.errors_per_million);
        if self.happens(settings.delays_per_million) {
            let micros = settings.delay_max.as_micros() as u64;
            self.runtime.sleep(Duration::from_micros(self.next() % (micros + 1))).await;
        }
        if fails { Err(self.error(operation)) } else { Ok(()) }
    }

    async fn write_torn(&self, offset: u64, data: &[u8]) -> Result<()> {
        let unit = u64::from(self.geometry().logical_block_bytes);
        let blocks = data.len() as u64 / unit;
        let written = (self.next() % blocks.max(1)) * unit;
        self.below.write(offset, &data[..written as usize], false).await?;
        Err(self.error(Operation::Write))
    }
}

impl BlockDevice for Faulty {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            self.pass(Operation::Read).await?;
            self.below.read(offset, into).await
        })
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], is_fua: bool) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            self.pass(Operation::Write).await?;
            if self.happens(self.settings.get().torn_writes_per_million) {
                return self.write_torn(offset, data).await;
            }
            self.below.write(offset, data, is_fua).await
        })
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            self.pass(Operation::Flush).await?;
            self.below.flush().await
        })
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            self.pass(Operation::Unmap).await?;
            self.below.unmap(offset, length).await
        })
    }

    fn write_zeroes(&self, offset: u64, length: u64, may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            self.pass(Operation::WriteZeroes).await?;
            self.below.write_zeroes(offset, length, may_unmap).await
        })
    }

    fn extents(&self, offset: u64, length: u64, extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        Box::pin(async move {
            self.pass(Operation::Extents).await?;
            self.below.extents(offset, length, extents_max).await
        })
    }
}
