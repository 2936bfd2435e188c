//! What a host may ask for at once without end: changes without data.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::support::{bytes_of, volume};
use ashlar_engine::{DriveSpec, Engine, PoolSpec, Protection, Settings};
use ashlar_runtime::sim::{SimDriveId, SimOperation, SimStorage, SimTicket, Simulation};
use ashlar_runtime::{Instant, OpenDrive, Priority, Runtime};

/// As many requests as 256 connections may have in flight.
const UNMAPS: u64 = 128 * 256;
/// What the credits of changes let wait: 1 MiB in pieces of 26 and 256 bytes.
const QUEUED_MAX: u64 = (1 << 20) / 282;
/// Of a write: as long as thousands of requests take to arrive.
const WRITE_NANOS: u64 = 50_000_000;

/// A drive in memory that is slow to write.
struct Slow {
    bytes: Vec<u8>,
}

impl SimStorage for Slow {
    fn open(&mut self, _path: &str, options: &OpenDrive) -> io::Result<(SimDriveId, u64)> {
        let wanted = options.create_size_bytes.unwrap_or(0) as usize;
        self.bytes.resize(self.bytes.len().max(wanted), 0);
        Ok((SimDriveId(0), self.bytes.len() as u64))
    }

    fn start(&mut self, now: Instant, _ticket: SimTicket, operation: &SimOperation) -> u64 {
        match operation {
            SimOperation::Write { .. } => now.as_nanos() + WRITE_NANOS,
            SimOperation::Read { .. } | SimOperation::Sync { .. } | SimOperation::Discard { .. } => {
                now.as_nanos() + 10_000
            }
        }
    }

    fn finish(&mut self, _now: Instant, _ticket: SimTicket, operation: &mut SimOperation) -> io::Result<()> {
        match operation {
            SimOperation::Read { offset, into, .. } => {
                let start = *offset as usize;
                let end = start + into.len();
                into.copy_from_slice(&self.bytes[start..end]);
            }
            SimOperation::Write { offset, data, .. } => {
                let start = *offset as usize;
                self.bytes[start..start + data.len()].copy_from_slice(data);
            }
            SimOperation::Sync { .. } | SimOperation::Discard { .. } => {}
        }
        Ok(())
    }

    fn crash(&mut self, _now: Instant, _in_flight: Vec<(SimTicket, SimOperation)>) {}
}

/// Before, all of them stood in the journal's queue, which had no bound in count, and none in bytes since a
/// record counted nothing.
#[test]
fn unmaps_without_end_keep_the_queue_of_the_journal_short() {
    let mut simulation = Simulation::new(1, Rc::new(RefCell::new(Slow { bytes: Vec::new() })));
    let runtime = simulation.runtime();
    simulation.run_until(unmap_everywhere(runtime)).unwrap();
}

async fn unmap_everywhere(runtime: Runtime) {
    let path = "drive".to_string();
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.clone(), create_size_bytes: Some(64 << 20) }],
        protection: Protection::None,
        segment_bytes: Some(1 << 20),
        width: None,
        spares: 0,
    };
    Engine::create_pool(&runtime, spec).await.unwrap();
    let engine = Engine::open(&runtime, &[path], Settings::default()).await.unwrap();
    engine.volume_create(volume("data", UNMAPS * 4096)).await.unwrap();
    let device = engine.device("data").unwrap();
    device.write(0, &bytes_of(1, 1 << 20), false).await.unwrap();
    let unmaps: Vec<_> = (0..UNMAPS)
        .map(|block| {
            let device = device.clone();
            let unmap = async move { device.unmap(block * 4096, 4096).await };
            runtime.spawn(Priority::Host, unmap)
        })
        .collect();
    for unmap in unmaps {
        unmap.await.unwrap();
    }
    let counters = engine.status().counters;
    let queued = counters.journal_queued_max;
    assert!((100..=QUEUED_MAX).contains(&queued), "{queued} changes were queued at once");
    let mut found = vec![1; 1 << 20];
    device.read(0, &mut found).await.unwrap();
    assert!(found.iter().all(|byte| *byte == 0));
    engine.close().await.unwrap();
}
