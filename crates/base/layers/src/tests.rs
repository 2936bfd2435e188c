//! The memory device against a plain model, and what the layers promise about what is below.
#![allow(clippy::unwrap_used)]

use std::rc::Rc;
use std::time::Duration;

use ashlar_block::{BlockDevice, Error, ErrorKind, Extent, ExtentKind};
use ashlar_runtime::{DriverChoice, LocalFuture, Runtime, ShardSettings, start_shard};
use ashlar_telemetry::{Counters, Operation};

use crate::{Counted, FaultSettings, Faulty, MemoryDevice};

const SIZE: u64 = 1 << 20;

/// Runs a test on a real shard.
fn on_shard(test: impl FnOnce(Runtime) -> LocalFuture<'static, ()> + Send + 'static) {
    let settings = ShardSettings {
        driver: DriverChoice::Threads,
        buffer_pool_bytes: 4 << 20,
        ..ShardSettings::default()
    };
    start_shard(settings, test).unwrap().join();
}

fn kinds(extents: &[Extent]) -> Vec<(ExtentKind, u64)> {
    extents.iter().map(|extent| (extent.kind, extent.length_bytes)).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The model keeps a byte and a kind for each block; every request must agree with it.
#[test]
fn the_memory_device_agrees_with_a_model() {
    on_shard(|_| Box::pin(agree_with_a_model()));
}

async fn agree_with_a_model() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let block = if seed % 2 == 0 { 512 } else { 4096 };
        let device = MemoryDevice::new(SIZE, block);
        let block = u64::from(block);
        let mut bytes = vec![0u8; SIZE as usize];
        let mut states = vec![ExtentKind::Hole; (SIZE / block) as usize];
        for step in 0..300 {
            let first = random.below(SIZE / block);
            let count = 1 + random.below((SIZE / block - first).min(200));
            let (offset, length) = (first * block, count * block);
            let range = offset as usize..(offset + length) as usize;
            let blocks = first as usize..(first + count) as usize;
            match random.below(5) {
                0 | 1 => {
                    let data = vec![step as u8 | 1; length as usize];
                    device.write(offset, &data, false).await.unwrap();
                    bytes[range].copy_from_slice(&data);
                    states[blocks].fill(ExtentKind::Data);
                }
                2 => {
                    device.unmap(offset, length).await.unwrap();
                    bytes[range].fill(0);
                    states[blocks].fill(ExtentKind::Hole);
                }
                3 => {
                    let may_unmap = random.below(2) == 0;
                    device.write_zeroes(offset, length, may_unmap).await.unwrap();
                    bytes[range].fill(0);
                    states[blocks].fill(if may_unmap { ExtentKind::Hole } else { ExtentKind::Zero });
                }
                _ => {
                    let mut into = vec![0xee; length as usize];
                    device.read(offset, &mut into).await.unwrap();
                    assert!(into == bytes[range], "seed {seed} step {step}");
                    let extents = device.extents(offset, length, usize::MAX).await.unwrap();
                    let told: Vec<ExtentKind> = extents
                        .iter()
                        .flat_map(|extent| vec![extent.kind; (extent.length_bytes / block) as usize])
                        .collect();
                    assert_eq!(told, states[blocks], "seed {seed} step {step}");
                    assert!(extents.windows(2).all(|pair| pair[0].kind != pair[1].kind));
                }
            }
        }
    }
}

#[test]
fn extents_stop_at_the_number_asked_for() {
    on_shard(|_| {
        Box::pin(async {
            let device = MemoryDevice::new(SIZE, 512);
            for n in 0..10 {
                device.write(n * 8192, &[1; 4096], false).await.unwrap();
            }
            let extents = device.extents(0, SIZE, 3).await.unwrap();
            let expected = [(ExtentKind::Data, 4096), (ExtentKind::Hole, 4096), (ExtentKind::Data, 4096)];
            assert_eq!(kinds(&extents), expected);
            assert_eq!(kinds(&device.extents(0, SIZE, 0).await.unwrap()), expected[..1]);
            // Parts of blocks: what touches a block makes it data, what clears a part of it leaves it so.
            device.write(SIZE - 300, &[1; 100], false).await.unwrap();
            device.unmap(SIZE - 300, 100).await.unwrap();
            let end = [(ExtentKind::Hole, 388), (ExtentKind::Data, 400)];
            assert_eq!(kinds(&device.extents(SIZE - 900, 788, 9).await.unwrap()), end);
        })
    });
}

#[test]
fn unmapping_everything_gives_the_memory_back() {
    on_shard(|_| {
        Box::pin(async {
            let device = MemoryDevice::new(SIZE, 512);
            device.write(0, &vec![1; SIZE as usize], true).await.unwrap();
            assert_eq!(device.allocated_bytes(), SIZE);
            device.unmap(0, SIZE).await.unwrap();
            assert_eq!(device.allocated_bytes(), 0);
            assert_eq!(kinds(&device.extents(0, SIZE, 9).await.unwrap()), [(ExtentKind::Hole, SIZE)]);
        })
    });
}

#[test]
fn the_memory_device_refuses_what_the_contract_refuses() {
    on_shard(|_| {
        Box::pin(async {
            let device = MemoryDevice::new(SIZE, 4096);
            let kind = |result: Result<(), Error>| result.unwrap_err().kind;
            assert_eq!(kind(device.write(SIZE - 1, &[0; 2], false).await), ErrorKind::Invalid);
            assert_eq!(kind(device.read(SIZE - 99, &mut [0; 100]).await), ErrorKind::Invalid);
            assert_eq!(kind(device.unmap(SIZE, 4096).await), ErrorKind::Invalid);
            assert_eq!(kind(device.write_zeroes(u64::MAX - 4095, 4096, true).await), ErrorKind::Invalid);
            device.set_read_only(true);
            assert_eq!(kind(device.write(0, &[0; 4096], false).await), ErrorKind::ReadOnly);
            assert_eq!(kind(device.unmap(0, 4096).await), ErrorKind::ReadOnly);
            device.set_gone();
            assert_eq!(kind(device.read(0, &mut [0; 4096]).await), ErrorKind::Gone);
            assert_eq!(kind(device.flush().await), ErrorKind::Gone);
        })
    });
}

#[test]
fn a_shrunk_device_forgets_what_was_beyond_its_end() {
    on_shard(|_| {
        Box::pin(async {
            let device = MemoryDevice::new(SIZE, 512);
            device.write(0, &vec![1; SIZE as usize], false).await.unwrap();
            device.set_size(1024);
            device.set_size(SIZE);
            let expected = [(ExtentKind::Data, 1024), (ExtentKind::Hole, SIZE - 1024)];
            assert_eq!(kinds(&device.extents(0, SIZE, 9).await.unwrap()), expected);
        })
    });
}

#[test]
fn counted_counts_requests_bytes_and_failures() {
    on_shard(|runtime| {
        Box::pin(async move {
            let counters = Rc::new(Counters::new());
            let device = Counted::new(Rc::new(MemoryDevice::new(SIZE, 512)), counters.clone(), &runtime);
            device.write(0, &[1; 1024], false).await.unwrap();
            device.read(1024, &mut [0; 512]).await.unwrap();
            device.read(1536, &mut [0; 512]).await.unwrap();
            device.flush().await.unwrap();
            device.unmap(SIZE - 511, 512).await.unwrap_err();
            let snapshot = counters.snapshot();
            assert_eq!(snapshot.of(Operation::Write).bytes, 1024);
            assert_eq!(snapshot.of(Operation::Read).latency.count(), 2);
            assert_eq!(snapshot.of(Operation::Read).shape.sequential(), 1);
            assert_eq!(snapshot.of(Operation::Write).shape.classes().next(), Some((1024, 1)));
            assert_eq!(snapshot.of(Operation::Flush).completed, 1);
            assert_eq!(snapshot.of(Operation::Unmap).failed, 1);
        })
    });
}

#[test]
fn ordered_faults_strike_the_operation_they_name_and_then_stop() {
    on_shard(|runtime| {
        Box::pin(async move {
            let below = Rc::new(MemoryDevice::new(SIZE, 512));
            let device = Faulty::new(below.clone(), &runtime, FaultSettings::default());
            device.fail_next(Operation::Write, 2);
            device.read(0, &mut [0; 512]).await.unwrap();
            for _ in 0..2 {
                assert_eq!(device.write(0, &[1; 512], false).await.unwrap_err().kind, ErrorKind::Medium);
            }
            assert_eq!(below.allocated_bytes(), 0, "a failed write changes nothing");
            device.write(0, &[1; 512], false).await.unwrap();
            assert_eq!(device.injected(), 2);
        })
    });
}

#[test]
fn equal_seeds_give_equal_faults() {
    on_shard(|runtime| {
        Box::pin(async move {
            let mut runs = Vec::new();
            for seed in [1, 1, 2] {
                let settings = FaultSettings {
                    seed,
                    errors_per_million: 200_000,
                    torn_writes_per_million: 200_000,
                    delays_per_million: 100_000,
                    delay_max: Duration::from_micros(50),
                    ..FaultSettings::default()
                };
                let device = Faulty::new(Rc::new(MemoryDevice::new(SIZE, 512)), &runtime, settings);
                let mut run = Vec::new();
                for n in 0..100u64 {
                    run.push(device.write(n * 1024, &[1; 1024], false).await.is_ok());
                }
                runs.push(run);
            }
            assert_eq!(runs[0], runs[1]);
            assert_ne!(runs[0], runs[2]);
            assert!(runs[0].contains(&true) && runs[0].contains(&false));
        })
    });
}

#[test]
fn a_torn_write_leaves_a_part_shorter_than_the_whole() {
    on_shard(|runtime| {
        Box::pin(async move {
            for seed in 0..30 {
                let below = Rc::new(MemoryDevice::new(SIZE, 512));
                let settings =
                    FaultSettings { seed, torn_writes_per_million: 1_000_000, ..FaultSettings::default() };
                let device = Faulty::new(below.clone(), &runtime, settings);
                device.write(0, &[1; 4096], false).await.unwrap_err();
                let extents = below.extents(0, 4096, 9).await.unwrap();
                assert_eq!(extents.last().unwrap().kind, ExtentKind::Hole);
            }
        })
    });
}
