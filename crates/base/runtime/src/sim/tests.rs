//! The simulated world repeats itself and stops where it is told.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{Durability, Instant, OpenDrive, Priority, Runtime};

/// A drive of bytes; writes take effect on completion.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    in_flight_at_crash: Vec<SimTicket>,
    is_stuck: bool,
}

impl SimStorage for Memory {
    fn open(&mut self, path: &str, options: &OpenDrive) -> io::Result<(SimDriveId, u64)> {
        if path != "drive" {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such drive"));
        }
        let wanted = options.create_size_bytes.unwrap_or(0) as usize;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        Ok((SimDriveId(0), self.bytes.len() as u64))
    }

    fn start(&mut self, now: Instant, ticket: SimTicket, _operation: &SimOperation) -> u64 {
        if self.is_stuck { u64::MAX } else { now.as_nanos() + 20_000 + ticket.0 % 7 * 5_000 }
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

    fn crash(&mut self, _now: Instant, in_flight: Vec<(SimTicket, SimOperation)>) {
        self.in_flight_at_crash = in_flight.iter().map(|(ticket, _)| *ticket).collect();
    }
}

async fn workload(runtime: Runtime) -> u64 {
    let options = OpenDrive { create_size_bytes: Some(1 << 20), is_read_only: false };
    let drive = runtime.open_drive("drive", options).await.unwrap();
    let mut tasks = Vec::new();
    for index in 0..16u64 {
        let (runtime_here, drive) = (runtime.clone(), drive.clone());
        tasks.push(runtime.spawn(Priority::Host, async move {
            for round in 0..4 {
                runtime_here.sleep(Duration::from_nanos(runtime_here.random() % 50_000)).await;
                let mut buf = runtime_here.buffer(4096);
                buf.fill((index * 4 + round) as u8);
                let (result, buf) = drive.write(index * 4096, buf, Durability::Durable).await;
                result.unwrap();
                let (result, buf) = drive.read(index * 4096, buf).await;
                result.unwrap();
                assert!(buf.iter().all(|&byte| byte == (index * 4 + round) as u8));
            }
            index
        }));
    }
    let mut sum = 0;
    for task in tasks {
        sum += task.await;
    }
    sum
}

fn run(seed: u64) -> (u64, u64, Instant) {
    let mut simulation = Simulation::new(seed, Rc::new(RefCell::new(Memory::default())));
    let runtime = simulation.runtime();
    assert_eq!(simulation.run_until(workload(runtime)).unwrap(), 120);
    (simulation.digest(), simulation.steps(), simulation.now())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn a_run_stops_at_every_step_and_the_storage_learns_what_was_in_flight() {
    let (_, steps, _) = run(7);
    let mut crashes_with_writes = 0;
    for limit in 0..steps {
        let storage = Rc::new(RefCell::new(Memory::default()));
        let mut simulation = Simulation::new(7, storage.clone());
        let runtime = simulation.runtime();
        assert_eq!(simulation.run_until_steps(workload(runtime), limit), Err(Stop::Steps));
        assert_eq!(simulation.steps(), limit);
        drop(simulation);
        crashes_with_writes += u32::from(!storage.borrow().in_flight_at_crash.is_empty());
        // The model outlives the crash: nobody else holds it.
        assert_eq!(Rc::strong_count(&storage), 1, "a task survived the crash at step {limit}");
    }
    assert!(crashes_with_writes > 100);
}

#[test]
fn a_stuck_request_is_reported_as_a_stall() {
    let storage = Memory { is_stuck: true, ..Memory::default() };
    let mut simulation = Simulation::new(1, Rc::new(RefCell::new(storage)));
    let runtime = simulation.runtime();
    assert_eq!(simulation.run_until(workload(runtime)), Err(Stalled));
}

#[test]
fn time_jumps_to_the_next_timer() {
    let mut simulation = Simulation::new(1, Rc::new(RefCell::new(Memory::default())));
    let runtime = simulation.runtime();
    let clock = runtime.clone();
    let slept = simulation.run_until(async move {
        let before = clock.now();
        clock.sleep(Duration::from_secs(3600)).await;
        clock.now() - before
    });
    let slept = slept.unwrap();
    assert!(slept >= Duration::from_secs(3600) && slept < Duration::from_secs(3601));
    assert!(simulation.steps() < 10);
}

#[test]
fn an_unaligned_request_is_refused_without_reaching_the_drive() {
    let mut simulation = Simulation::new(1, Rc::new(RefCell::new(Memory::default())));
    let runtime = simulation.runtime();
    let inside = runtime.clone();
    let kinds = simulation.run_until(async move {
        let options = OpenDrive { create_size_bytes: Some(1 << 20), is_read_only: false };
        let drive = inside.open_drive("drive", options).await.unwrap();
        let offset = drive.read(512, inside.buffer(4096)).await.0.unwrap_err().kind();
        let length = drive.read(0, inside.buffer(100)).await.0.unwrap_err().kind();
        let beyond = drive.read(1 << 20, inside.buffer(4096)).await.0.unwrap_err().kind();
        (offset, length, beyond)
    });
    let invalid = io::ErrorKind::InvalidInput;
    assert_eq!(kinds.unwrap(), (invalid, invalid, io::ErrorKind::UnexpectedEof));
}

#[test]
fn the_wall_clock_jumps_both_ways_and_never_wraps() {
    const YEAR_NANOS: i128 = 365 * 24 * 3600 * 1_000_000_000;
    let simulation = Simulation::new(1, Rc::new(RefCell::new(Memory::default())));
    let runtime = simulation.runtime();
    let (before, monotonic) = (runtime.unix_nanos(), runtime.now());
    simulation.set_unix_offset_nanos(-YEAR_NANOS);
    assert_eq!(i128::from(runtime.unix_nanos()), i128::from(before) - YEAR_NANOS);
    for (offset, expected) in
        [(-100 * YEAR_NANOS, 0), (i128::MIN, 0), (600 * YEAR_NANOS, u64::MAX), (i128::MAX, u64::MAX)]
    {
        simulation.set_unix_offset_nanos(offset);
        assert_eq!(runtime.unix_nanos(), expected, "{offset}");
    }
    assert_eq!(runtime.now(), monotonic);
}
