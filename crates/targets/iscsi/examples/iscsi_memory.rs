//! Serves one volume in memory over iSCSI, to try the door without the engine behind it.
//!
//! `iscsi_memory PORT BYTES [512|4096]` on 127.0.0.1, until it is killed. The target is
//! `iqn.2026-11.io.ashlar:memory`, the volume is at address 0, everybody may come in.

use std::rc::Rc;

use ashlar_block::Identity;
use ashlar_iscsi::{Admission, Authentication, Directory, Established, Portal, Server, Settings};
use ashlar_layers::MemoryDevice;
use ashlar_runtime::{Runtime, ShardSettings, start_shard};
use ashlar_scsi::{Limits, MemoryStore, Port, Saved, Target, Unit, UnitAddress, UnitSettings};
use ashlar_telemetry::Registry;

const NAME: &str = "iqn.2026-11.io.ashlar:memory";

struct One {
    target: Rc<Target>,
    address: String,
}

impl Directory for One {
    fn admit(&self, _initiator: &str, target: Option<&str>) -> Admission {
        match target {
            Some(NAME) | None => Admission::Allowed(Authentication::None),
            Some(_) => Admission::NotFound,
        }
    }

    fn targets(&self, _initiator: &str) -> Vec<(String, Vec<String>)> {
        vec![(NAME.to_string(), vec![self.address.clone()])]
    }
}

impl Portal for One {
    fn target(&self, _established: &Established) -> Option<Rc<Target>> {
        Some(self.target.clone())
    }

    fn volume(&self, _target: &str, _address: UnitAddress) -> Option<String> {
        Some("memory".to_string())
    }

    fn number(&self) -> u64 {
        1
    }
}

fn target(runtime: &Runtime, size_bytes: u64, block_bytes: u32) -> Rc<Target> {
    let port =
        Port { relative_id: 1, group: 1, name: format!("{NAME},t,0x0001"), device_name: NAME.to_string() };
    let runtime = runtime.clone();
    let settings = UnitSettings {
        identity: Identity { pool: 1, image: 1 },
        block_bytes,
        revision: "0".to_string(),
        limits: Limits::default(),
        store: Some(Rc::new(MemoryStore::default())),
        saved: Saved::default(),
        allocate: Rc::new(move |length| runtime.buffer(length)),
    };
    let unit = Unit::new(Rc::new(MemoryDevice::new(size_bytes, block_bytes)), settings);
    let target = Target::new(port);
    let address = UnitAddress::new(0).expect("zero is an address");
    assert!(target.add(address, Rc::new(unit)), "the target was empty");
    target
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (port, size_bytes, block_bytes): (u16, u64, u32) = match arguments.as_slice() {
        [port, size] => (port.parse()?, size.parse()?, 512),
        [port, size, block] => (port.parse()?, size.parse()?, block.parse()?),
        _ => return Err("usage: iscsi_memory PORT BYTES [512|4096]".into()),
    };
    let shard = start_shard(ShardSettings::default(), move |runtime| {
        Box::pin(async move {
            let address = format!("127.0.0.1:{port}");
            let parsed = address.parse().expect("an address and a port");
            let listener = runtime.listen_tcp(parsed).expect("the port is free");
            let target = target(&runtime, size_bytes, block_bytes);
            let portal = Rc::new(One { target, address });
            // Nobody is asked for a proof here, so nobody needs a challenge that cannot be foretold.
            let random = Rc::new(|bytes: &mut [u8]| bytes.fill(0));
            let registry = Rc::new(Registry::new());
            let server = Server::new(&runtime, portal.clone(), random, Settings::default(), registry);
            server.listen(listener, portal);
            std::future::pending::<()>().await;
        })
    })?;
    println!("{}", shard.driver_line());
    shard.join();
    Ok(())
}
