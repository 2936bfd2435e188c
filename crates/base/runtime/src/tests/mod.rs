//! Drivers, executor and sockets, tried for real on both drivers.

#![allow(clippy::unwrap_used)]

mod drives;
mod executor;
mod sockets;

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{DriverChoice, LocalFuture, Runtime, ShardSettings, start_shard};

/// Both drivers, or threads alone where the kernel denies io_uring.
fn drivers() -> Vec<DriverChoice> {
    let probe = start_shard(settings(DriverChoice::Auto), |_| Box::pin(async {})).unwrap();
    let has_uring = probe.driver_line().starts_with("io: io_uring");
    probe.join();
    if has_uring { vec![DriverChoice::Uring, DriverChoice::Threads] } else { vec![DriverChoice::Threads] }
}

fn settings(driver: DriverChoice) -> ShardSettings {
    ShardSettings { name: "test".to_owned(), driver, buffer_pool_bytes: 8 << 20, cpu: None }
}

/// Runs a test's body on a shard of each driver.
fn on_each_driver<F: Future<Output = ()> + 'static>(
    body: impl FnOnce(Runtime) -> F + Send + Clone + 'static,
) {
    for driver in drivers() {
        let body = body.clone();
        let main = move |runtime| -> LocalFuture<'static, ()> { Box::pin(body(runtime)) };
        start_shard(settings(driver), main).unwrap().join();
    }
}

/// A directory of this test alone, removed at the end.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ashlar-runtime-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch { path }
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
