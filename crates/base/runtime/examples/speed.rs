//! How fast the executor and a driver are here: `speed PATH [uring|threads]`.

use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use ashlar_runtime::sync::{Notify, channel};
use ashlar_runtime::{
    DriveFile, DriverChoice, Durability, Instant, OpenDrive, Priority, Runtime, ShardSettings, start_shard,
};

const DRIVE_BYTES: u64 = 256 << 20;
const BLOCK: usize = 4096;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "/tmp/ashlar-speed".to_owned());
    let driver = match arguments.next().as_deref() {
        Some("threads") => DriverChoice::Threads,
        Some("uring") => DriverChoice::Uring,
        Some(_) | None => DriverChoice::Auto,
    };
    let settings = ShardSettings { driver, ..ShardSettings::default() };
    let shard = start_shard(settings, move |runtime| {
        Box::pin(async move {
            if let Err(error) = measure(&runtime, &path).await {
                report(&format!("failed: {error}"));
            }
        })
    })?;
    report(&shard.driver_line());
    shard.join();
    Ok(())
}

fn report(line: &str) {
    // A closed pipe ends the report, nothing else.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn per(what: &str, count: u64, spent: Duration) {
    let nanos = spent.as_nanos() as u64 / count;
    report(&format!("{what:<34} {nanos:>7} ns each  {:>9} per s", 1_000_000_000 / nanos.max(1)));
}

async fn measure(runtime: &Runtime, path: &str) -> std::io::Result<()> {
    tasks(runtime).await;
    buffers(runtime);
    let options = OpenDrive { create_size_bytes: Some(DRIVE_BYTES), is_read_only: false };
    let drive = runtime.open_drive(path, options).await?;
    let mut offset = 0;
    while offset < DRIVE_BYTES {
        let mut buf = runtime.buffer(4 << 20);
        buf.fill(1);
        drive.write(offset, buf, Durability::Cached).await.0?;
        offset += 4 << 20;
    }
    drive.sync().await?;
    for depth in [1, 32] {
        let count = if depth == 1 { 20_000 } else { 200_000 };
        let spent = load(runtime, &drive, depth, count, Kind::Read).await;
        per(&format!("4 KiB read, depth {depth}"), count, spent);
    }
    for (name, durability) in [("cached", Durability::Cached), ("durable", Durability::Durable)] {
        let count = if durability == Durability::Durable { 2_000 } else { 50_000 };
        let spent = load(runtime, &drive, 32, count, Kind::Write(durability)).await;
        per(&format!("4 KiB {name} write, depth 32"), count, spent);
    }
    drop(drive);
    std::fs::remove_file(path)
}

async fn tasks(runtime: &Runtime) {
    const COUNT: u64 = 1_000_000;
    let before = runtime.now();
    for _ in 0..COUNT {
        runtime.spawn(Priority::Host, async {}).await;
    }
    per("spawn and join", COUNT, runtime.now() - before);
    let before = runtime.now();
    for _ in 0..COUNT {
        runtime.yield_now().await;
    }
    per("yield", COUNT, runtime.now() - before);
    let (ping, pong) = (Notify::new(), Notify::new());
    let (their_ping, their_pong) = (ping.clone(), pong.clone());
    let other = runtime.spawn(Priority::Host, async move {
        for _ in 0..COUNT {
            their_ping.notified().await;
            their_pong.notify_one();
        }
    });
    let before = runtime.now();
    for _ in 0..COUNT {
        ping.notify_one();
        pong.notified().await;
    }
    other.await;
    per("ping-pong by bell", COUNT, runtime.now() - before);
    let (sender, mut receiver) = channel(64);
    let _detached = runtime.spawn(Priority::Host, async move {
        for number in 0..COUNT {
            if sender.send(number).await.is_err() {
                return;
            }
        }
    });
    let before = runtime.now();
    while receiver.recv().await.is_some() {}
    per("value through a channel", COUNT, runtime.now() - before);
}

fn buffers(runtime: &Runtime) {
    const COUNT: u64 = 1_000_000;
    let before: Instant = runtime.now();
    for _ in 0..COUNT {
        let buf = runtime.buffer(BLOCK);
        assert!(buf.len() == BLOCK);
    }
    per("buffer taken and dropped", COUNT, runtime.now() - before);
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write(Durability),
}

async fn load(runtime: &Runtime, drive: &DriveFile, depth: u64, count: u64, kind: Kind) -> Duration {
    let failures = Rc::new(std::cell::Cell::new(0u64));
    let before = runtime.now();
    let workers: Vec<_> = (0..depth)
        .map(|_| {
            let (inside, drive, failures) = (runtime.clone(), drive.clone(), failures.clone());
            runtime.spawn(Priority::Host, async move {
                for _ in 0..count / depth {
                    let offset = inside.random() % (DRIVE_BYTES / BLOCK as u64) * BLOCK as u64;
                    let buf = inside.buffer(BLOCK);
                    let (result, _) = match kind {
                        Kind::Read => drive.read(offset, buf).await,
                        Kind::Write(durability) => drive.write(offset, buf, durability).await,
                    };
                    failures.set(failures.get() + u64::from(result.is_err()));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await;
    }
    assert!(failures.get() == 0, "{} requests failed", failures.get());
    runtime.now() - before
}
