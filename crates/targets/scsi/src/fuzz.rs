//! Feeds a target arbitrary commands with arbitrary data, over a device that is a vector. For fuzzing; no
//! server uses it.

use std::cell::RefCell;
use std::future::{Future, ready};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ashlar_block::{BlockDevice, Extent, ExtentKind, Geometry, Identity, LocalFuture, Result, check_range};
use ashlar_runtime::Buf;

use crate::address::UnitAddress;
use crate::answer::{Answer, Status};
use crate::reservation::{MemoryStore, Nexus, Saved};
use crate::target::{Begun, Port, Target};
use crate::unit::{Limits, Unit, UnitSettings};

/// Size of the device: small, so that a fuzzer hits its end.
const SIZE_BYTES: u64 = 64 << 10;
/// Commands of one input.
const COMMANDS_MAX: usize = 64;

struct VectorDevice {
    bytes: RefCell<Vec<u8>>,
    logical_block_bytes: u32,
}

impl VectorDevice {
    fn change(&self, offset: u64, length: u64, change: impl FnOnce(&mut [u8])) -> Result<()> {
        check_range(&self.geometry(), offset, length)?;
        change(&mut self.bytes.borrow_mut()[offset as usize..(offset + length) as usize]);
        Ok(())
    }
}

impl BlockDevice for VectorDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: SIZE_BYTES,
            logical_block_bytes: self.logical_block_bytes,
            optimal_block_bytes: 4096,
            is_read_only: false,
        }
    }

    fn atomic_bytes_max(&self) -> u64 {
        8192
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        let length = into.len() as u64;
        Box::pin(ready(self.change(offset, length, |bytes| into.copy_from_slice(bytes))))
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], _is_fua: bool) -> LocalFuture<'a, Result<()>> {
        Box::pin(ready(self.change(offset, data.len() as u64, |bytes| bytes.copy_from_slice(data))))
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(ready(Ok(())))
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        Box::pin(ready(self.change(offset, length, |bytes| bytes.fill(0))))
    }

    fn write_zeroes(&self, offset: u64, length: u64, _may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        self.unmap(offset, length)
    }

    fn extents(&self, offset: u64, length: u64, _extents_max: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        let told = self.change(offset, length, |_| ());
        let extents =
            if length == 0 { vec![] } else { vec![Extent { length_bytes: length, kind: ExtentKind::Data }] };
        Box::pin(ready(told.map(|()| extents)))
    }
}

/// Runs commands that a fuzzer made up. Each is: a byte that chooses nexus and address, the CDB's sixteen
/// bytes, two bytes of length, so much data-out. The first byte of all chooses the logical block.
///
/// # Panics
/// When an answer breaks a promise of this crate.
pub fn fuzz_commands(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let logical_block_bytes = if choice & 1 == 0 { 512 } else { 4096 };
    let device =
        Rc::new(VectorDevice { bytes: RefCell::new(vec![0x5a; SIZE_BYTES as usize]), logical_block_bytes });
    let target = target_of(device);
    let nexuses: Vec<Nexus> =
        (0..3).map(|number| Nexus { initiator: format!("iqn.x:{number},i,0x0"), port: 1 }).collect();
    nexuses.iter().for_each(|nexus| target.attach(nexus));
    for _ in 0..COMMANDS_MAX {
        let Some((head, tail)) = rest.split_first_chunk::<19>() else { return };
        let [place, cdb @ .., high, low] = head;
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (data_out, tail) = tail.split_at(length);
        rest = tail;
        let nexus = &nexuses[usize::from(place & 3) % nexuses.len()];
        let address = UnitAddress::new(u16::from(place >> 7));
        let answer = match target.begin(nexus, address, cdb, length as u64) {
            Begun::Answered(answer) => answer,
            Begun::Work(work) => {
                let data_in_max = work.data_in_bytes_max();
                let answer = run(work.run(data_out));
                if data_in_max > 0 {
                    assert!(answer.data.as_slice().len() as u64 <= data_in_max, "more data than foretold");
                }
                answer
            }
        };
        check_answer(&answer);
    }
}

fn target_of(device: Rc<dyn BlockDevice>) -> Rc<Target> {
    let port = Port { relative_id: 1, group: 1, name: "iqn.y,t,0x0001".into(), device_name: "iqn.y".into() };
    let target = Target::new(port);
    let settings = UnitSettings {
        identity: Identity { pool: 1, image: 1 },
        block_bytes: device.geometry().logical_block_bytes,
        revision: "1".into(),
        limits: Limits::default(),
        store: Some(Rc::new(MemoryStore::default())),
        saved: Saved::default(),
        allocate: Rc::new(Buf::on_heap),
    };
    let address = UnitAddress::new(0).expect("zero is an address");
    assert!(target.add(address, Rc::new(Unit::new(device, settings))), "the target was empty");
    target
}

fn check_answer(answer: &Answer) {
    let has_sense = !answer.sense.is_empty();
    assert_eq!(has_sense, answer.status == Status::CheckCondition, "sense data with {:?}", answer.status);
    if answer.status != Status::Good {
        assert!(answer.data.as_slice().is_empty(), "data with {:?}", answer.status);
    }
    assert!(answer.sense.len() <= 252, "{} bytes of sense data", answer.sense.len());
}

/// Runs a future whose device answers at once: nothing in it may wait.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a command waits for another that is not there"),
    }
}
