//! A real shard with volumes in memory behind a real socket, for the tests of this crate.
// The other side of the socket is a process of its own world: files, sockets and time are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used, dead_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use ashlar_block::{BlockDevice, Catalogue};
use ashlar_layers::{FaultSettings, Faulty, MemoryDevice};
use ashlar_nbd::{Door, Server, Settings, serve};
use ashlar_runtime::sync::Notify;
use ashlar_runtime::{Address, DriverChoice, LocalFuture, ShardSettings, ShardThread, start_shard};
use ashlar_telemetry::{Registry, Snapshot};

/// Payload bytes of all connections: what large requests get of it is six of the largest.
pub const DOOR_PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// What a test wants to serve.
#[derive(Clone)]
pub struct Volume {
    pub name: &'static str,
    pub size_bytes: u64,
    pub logical_block_bytes: u32,
}

impl Volume {
    pub fn new(name: &'static str, size_bytes: u64) -> Volume {
        Volume { name, size_bytes, logical_block_bytes: 512 }
    }
}

/// What lives on the shard.
pub struct OnShard {
    pub server: Server,
    pub door: Door,
    pub devices: BTreeMap<String, Rc<MemoryDevice>>,
    pub faults: BTreeMap<String, Rc<Faulty>>,
    pub registry: Rc<Registry>,
    stop: Notify,
}

thread_local! {
    static ON_SHARD: RefCell<Option<Rc<OnShard>>> = const { RefCell::new(None) };
}

struct Volumes(BTreeMap<String, Rc<Faulty>>);

impl Catalogue for Volumes {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        self.0.get(name).map(|device| device.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// A server in the making or at work.
pub struct Rig {
    pub directory: PathBuf,
    pub address: Address,
    shard: Option<ShardThread>,
}

pub fn drivers() -> [DriverChoice; 2] {
    [DriverChoice::Uring, DriverChoice::Threads]
}

impl Rig {
    pub fn new(driver: DriverChoice, volumes: &[Volume]) -> Rig {
        Rig::with(driver, volumes, Settings::default(), false)
    }

    pub fn with(driver: DriverChoice, volumes: &[Volume], settings: Settings, is_tcp: bool) -> Rig {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("ashlar-nbd-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("nbd.sock").to_str().unwrap().to_string();
        let volumes = volumes.to_vec();
        let (started, wait) = std::sync::mpsc::channel();
        let shard = ShardSettings { driver, buffer_pool_bytes: 64 << 20, ..ShardSettings::default() };
        let shard = start_shard(shard, move |runtime| {
            Box::pin(async move {
                let listener = if is_tcp {
                    runtime.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap()
                } else {
                    runtime.listen_unix(&socket).unwrap()
                };
                let mut devices = BTreeMap::new();
                let mut faults = BTreeMap::new();
                for volume in volumes {
                    let device = Rc::new(MemoryDevice::new(volume.size_bytes, volume.logical_block_bytes));
                    let faulty = Faulty::new(device.clone(), &runtime, FaultSettings::default());
                    devices.insert(volume.name.to_string(), device);
                    faults.insert(volume.name.to_string(), Rc::new(faulty));
                }
                let registry = Rc::new(Registry::new());
                let catalogue = Rc::new(Volumes(faults.clone()));
                let door = Door::new(DOOR_PAYLOAD_BYTES_MAX);
                let server = serve(&runtime, listener, catalogue, settings, registry.clone(), &door);
                let address = server.local_addr().unwrap();
                let stop = Notify::new();
                let on_shard =
                    Rc::new(OnShard { server, door, devices, faults, registry, stop: stop.clone() });
                ON_SHARD.set(Some(on_shard.clone()));
                started.send(address).unwrap();
                stop.notified().await;
                on_shard.server.shutdown().await;
            })
        })
        .unwrap();
        let address = wait.recv().expect("the server did not start");
        Rig { directory, address, shard: Some(shard) }
    }

    /// Runs something next to the server.
    pub fn run<T: Send + 'static>(
        &self,
        action: impl FnOnce(Rc<OnShard>) -> LocalFuture<'static, T> + Send + 'static,
    ) -> T {
        let remote = self.shard.as_ref().unwrap().remote();
        let result = remote.run(move |_| action(ON_SHARD.with_borrow(|on_shard| on_shard.clone().unwrap())));
        result.wait().expect("the shard lives")
    }

    pub fn counters(&self) -> Snapshot {
        self.run(|on_shard| Box::pin(async move { on_shard.registry.snapshot() }))
    }

    pub fn socket(&self) -> String {
        self.address.to_string()
    }

    /// The URI of an export.
    pub fn uri(&self, name: &str) -> String {
        match &self.address {
            Address::Unix(path) => format!("nbd+unix:///{name}?socket={path}"),
            Address::Tcp(address) => format!("nbd://{address}/{name}"),
        }
    }

    /// Tells the server to shut down, without waiting for it.
    pub fn begin_stop(&self) {
        self.run(|on_shard| Box::pin(async move { on_shard.stop.notify_one() }));
    }

    /// Shuts the server down and waits for its shard.
    pub fn stop(self) {
        self.begin_stop();
        self.join();
    }

    /// Waits for the shard of a server that was told to stop.
    pub fn join(mut self) {
        self.shard.take().unwrap().join();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.shard.is_some() && !std::thread::panicking() {
            self.begin_stop();
            self.shard.take().unwrap().join();
        }
        // Left behind only if it is gone already.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
