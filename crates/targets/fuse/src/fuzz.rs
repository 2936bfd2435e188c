//! Feeds rubbish to decoder, session and volume work, for the fuzzer and the tests.

use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ashlar_block::{BlockDevice, Catalogue};
use ashlar_layers::MemoryDevice;
use ashlar_telemetry::Registry;

use crate::error::Errno;
use crate::session::{Answer, Session};
use crate::settings::Settings;
use crate::wire::{self, InHeader};

/// Small, so that the fuzzer finds the end of the device.
const DEVICE_BYTES: u64 = 256 << 10;

struct OneVolume(Rc<MemoryDevice>);

impl Catalogue for OneVolume {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        (name == "v").then(|| self.0.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        vec!["v".to_string()]
    }
}

/// Takes `data` as a row of messages, each led by a 16-bit length, and answers them all on one
/// session with one small volume that is open as handle 0. Must return, whatever the bytes are.
pub fn fuzz_requests(data: &[u8]) {
    let settings = Settings { payload_bytes: 64 << 10, ..Settings::default() };
    let mut payload = vec![0; settings.payload_bytes as usize];
    let catalogue = Rc::new(OneVolume(Rc::new(MemoryDevice::new(DEVICE_BYTES, 512))));
    let mut session = Session::new(catalogue, Rc::new(Registry::new()), settings, 0);
    let about = |node| InHeader { length: 0, opcode: 0, unique: 2, node };
    session.apply(&about(wire::ROOT_NODE), wire::Request::Lookup { name: b"v" });
    session.apply(&about(wire::ROOT_NODE + 1), wire::Request::Open { flags: libc::O_RDWR as u32 });
    let mut rest = data;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (message, next) = after.split_at(length);
        rest = next;
        let result = answer(&mut session, message, &mut payload);
        if let (Some(result), Some(header)) = (result, InHeader::decode(message)) {
            let out = wire::out_header(header.unique, result);
            assert!(result.is_ok_and(|length| length <= payload.len()) || out[4..8] != [0; 4]);
        }
    }
}

/// Handles one classic message to its end; `None` when no reply is due.
fn answer(session: &mut Session, message: &[u8], payload: &mut [u8]) -> Option<Result<usize, Errno>> {
    let header = InHeader::decode(message)?;
    let body = &message[wire::IN_HEADER_BYTES..];
    let decoded = wire::split_classic(header.opcode, body)
        .and_then(|(fixed, data)| Ok((wire::decode(header.opcode, fixed, data)?, data)));
    let (request, data) = match decoded {
        Ok(decoded) => decoded,
        Err(errno) => return Some(Err(errno)),
    };
    if let wire::Request::Init(init) = &request {
        return Some(session.init(init, true).map(|(_, reply)| reply.as_bytes().len()));
    }
    Some(match session.apply(&header, request) {
        Answer::Silent => return None,
        Answer::Failed(errno) => Err(errno),
        Answer::Small(reply) => Ok(reply.as_bytes().len()),
        Answer::Directory { entries, first, size } => {
            let room = payload.len().min(size as usize);
            Ok(wire::encode_directory(&entries, first, &mut payload[..room]))
        }
        Answer::Volume(work) => {
            let length = data.len().min(payload.len());
            payload[..length].copy_from_slice(&data[..length]);
            let mut future = pin!(work.perform(payload));
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => panic!("a memory device is always ready"),
            }
        }
    })
}
