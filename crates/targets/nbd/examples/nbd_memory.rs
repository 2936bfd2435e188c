//! Serves one volume in memory over NBD, to measure the door without the engine behind it.
//!
//! `nbd_memory SOCKET BYTES [uring|threads]`, until it is killed.

use std::collections::BTreeMap;
use std::rc::Rc;

use ashlar_block::{BlockDevice, Catalogue};
use ashlar_layers::MemoryDevice;
use ashlar_nbd::{Door, Settings, serve};
use ashlar_runtime::{DriverChoice, ShardSettings, start_shard};
use ashlar_telemetry::Registry;

struct Volumes(BTreeMap<String, Rc<MemoryDevice>>);

impl Catalogue for Volumes {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        self.0.get(name).map(|device| device.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (socket, size_bytes, driver) = match arguments.as_slice() {
        [socket, size] => (socket.clone(), size.parse()?, DriverChoice::Auto),
        [socket, size, driver] if driver == "threads" => {
            (socket.clone(), size.parse()?, DriverChoice::Threads)
        }
        [socket, size, driver] if driver == "uring" => (socket.clone(), size.parse()?, DriverChoice::Uring),
        _ => return Err("usage: nbd_memory SOCKET BYTES [uring|threads]".into()),
    };
    let shard = start_shard(ShardSettings { driver, ..ShardSettings::default() }, move |runtime| {
        Box::pin(async move {
            let listener = runtime.listen_unix(&socket).expect("the socket's directory is there");
            let device = Rc::new(MemoryDevice::new(size_bytes, 512));
            let volumes = BTreeMap::from([("disk".to_string(), device)]);
            let registry = Rc::new(Registry::new());
            let (volumes, settings) = (Rc::new(Volumes(volumes)), Settings::default());
            let _server = serve(&runtime, listener, volumes, settings, registry, &Door::default());
            std::future::pending::<()>().await;
        })
    })?;
    println!("{}", shard.driver_line());
    shard.join();
    Ok(())
}
