//! Commands byte by byte against a volume in memory: what goes in, and exactly what must come out.

mod attentions;
mod blocks;
mod copies;
mod device;
mod modes;
mod queries;
mod reservations;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ashlar_block::{BlockDevice, Identity};
use ashlar_layers::MemoryDevice;
use ashlar_runtime::Buf;

use crate::{
    Answer, Begun, Limits, MemoryStore, Nexus, Port, Saved, Status, Target, Unit, UnitAddress, UnitSettings,
};

/// Blocks of the volume.
pub const BLOCKS: u64 = 4096;

/// A target with one volume at address 0, and three hosts that have heard everything.
pub struct Rig {
    pub target: Rc<Target>,
    pub unit: Rc<Unit>,
    pub device: Rc<MemoryDevice>,
    pub store: Rc<MemoryStore>,
    pub hosts: [Nexus; 3],
    pub block: usize,
}

/// Polls once.
pub fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

pub fn settings(store: &Rc<MemoryStore>, saved: Saved) -> UnitSettings {
    UnitSettings {
        identity: Identity { pool: 7, image: 3 },
        block_bytes: 512,
        revision: "1".to_string(),
        limits: Limits::default(),
        store: Some(store.clone()),
        saved,
        allocate: Rc::new(Buf::on_heap),
    }
}

/// A unit over a device.
pub fn unit_of(image: u64, device: Rc<dyn BlockDevice>) -> Unit {
    let block_bytes = device.geometry().logical_block_bytes;
    let identity = Identity { pool: 7, image };
    let settings = settings(&Rc::new(MemoryStore::default()), Saved::default());
    Unit::new(device, UnitSettings { identity, block_bytes, ..settings })
}

impl Rig {
    pub fn new() -> Rig {
        Rig::of(512, Saved::default())
    }

    pub fn of(block: u32, saved: Saved) -> Rig {
        let device = Rc::new(MemoryDevice::new(BLOCKS * u64::from(block), block));
        let store = Rc::new(MemoryStore::default());
        let settings = UnitSettings { block_bytes: block, ..settings(&store, saved) };
        let unit = Rc::new(Unit::new(device.clone(), settings));
        let target = Target::new(Port {
            relative_id: 1,
            group: 1,
            name: "iqn.2026-11.io.ashlar:p,t,0x0001".to_string(),
            device_name: "iqn.2026-11.io.ashlar:p".to_string(),
        });
        assert!(target.add(UnitAddress::new(0).unwrap(), unit.clone()));
        let hosts = ["a", "b", "c"].map(|name| Nexus {
            initiator: format!("iqn.2026-11.io.example:{name},i,0x00023d000001"),
            port: 1,
        });
        let rig = Rig { target, unit, device, store, hosts, block: block as usize };
        for host in 0..3 {
            rig.target.attach(&rig.hosts[host]);
            rig.hear(host);
        }
        rig
    }

    /// Lets a host hear everything there is for it; the codes.
    pub fn hear(&self, host: usize) -> Vec<u16> {
        let mut codes = Vec::new();
        loop {
            let answer = self.send(host, &[0x03, 0, 0, 0, 252, 0], &[]);
            let sense = answer.data.as_slice().to_vec();
            match u16::from_be_bytes([sense[12], sense[13]]) {
                0 => return codes,
                code => codes.push(code),
            }
        }
    }

    /// Sends a command from a host to address 0, with its data, and waits for the answer.
    pub fn send(&self, host: usize, cdb: &[u8], data: &[u8]) -> Answer {
        match self.begin(host, cdb, data.len() as u64) {
            Begun::Answered(answer) => answer,
            Begun::Work(work) => {
                let mut running: Pin<Box<dyn Future<Output = Answer>>> = Box::pin(work.run(data));
                poll(&mut running).expect("nothing else is under way")
            }
        }
    }

    pub fn begin(&self, host: usize, cdb: &[u8], offered_bytes: u64) -> Begun {
        self.target.begin(&self.hosts[host], UnitAddress::new(0), cdb, offered_bytes)
    }

    /// The data of a command that must succeed.
    pub fn good(&self, host: usize, cdb: &[u8], data: &[u8]) -> Vec<u8> {
        let answer = self.send(host, cdb, data);
        assert_eq!(answer.status, Status::Good, "{cdb:x?}: {:x?}", answer.sense);
        answer.data.as_slice().to_vec()
    }

    /// Key and code of a command that must fail, from fixed format sense data.
    pub fn bad(&self, host: usize, cdb: &[u8], data: &[u8]) -> (u8, u16) {
        let sense = self.sense(host, cdb, data);
        (sense[2], u16::from_be_bytes([sense[12], sense[13]]))
    }

    /// Where a command is wrong: sense key specific bytes 15 to 17.
    pub fn pointer(&self, host: usize, cdb: &[u8], data: &[u8]) -> [u8; 3] {
        let sense = self.sense(host, cdb, data);
        [sense[15], sense[16], sense[17]]
    }

    pub fn sense(&self, host: usize, cdb: &[u8], data: &[u8]) -> Vec<u8> {
        let answer = self.send(host, cdb, data);
        assert_eq!(answer.status, Status::CheckCondition, "{cdb:x?}");
        assert!(answer.data.as_slice().is_empty(), "{cdb:x?} failed and has data");
        answer.sense
    }

    pub fn is_conflict(&self, host: usize, cdb: &[u8], data: &[u8]) -> bool {
        let answer = self.send(host, cdb, data);
        assert!(answer.data.as_slice().is_empty() || answer.status == Status::Good);
        answer.status == Status::ReservationConflict
    }

    pub fn blocks_of(&self, byte: u8, blocks: usize) -> Vec<u8> {
        vec![byte; blocks * self.block]
    }

    /// What the device holds, read past the target.
    pub fn stored(&self, start: u64, blocks: usize) -> Vec<u8> {
        let mut bytes = self.blocks_of(0, blocks);
        let mut reading = self.device.read(start * self.block as u64, &mut bytes);
        poll(&mut reading).unwrap().unwrap();
        drop(reading);
        bytes
    }
}

/// READ(10), WRITE(10) and whatever else looks like them.
pub fn ten(opcode: u8, flags: u8, start: u32, blocks: u16) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&start.to_be_bytes());
    cdb.push(0);
    cdb.extend_from_slice(&blocks.to_be_bytes());
    cdb.push(0);
    cdb
}

/// The same of twelve bytes.
pub fn twelve(opcode: u8, flags: u8, start: u32, blocks: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&start.to_be_bytes());
    cdb.extend_from_slice(&blocks.to_be_bytes());
    cdb.extend_from_slice(&[0, 0]);
    cdb
}

/// The same of sixteen bytes.
pub fn sixteen(opcode: u8, flags: u8, start: u64, blocks: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend_from_slice(&start.to_be_bytes());
    cdb.extend_from_slice(&blocks.to_be_bytes());
    cdb.extend_from_slice(&[0, 0]);
    cdb
}

/// COMPARE AND WRITE.
pub fn compare_and_write(start: u64, blocks: u8) -> Vec<u8> {
    let mut cdb = sixteen(0x89, 0, start, u32::from(blocks));
    cdb[14] = 0;
    cdb
}
