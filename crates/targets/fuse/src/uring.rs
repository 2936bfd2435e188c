//! FUSE over io_uring: requests arrive and replies leave through the shard's own ring.
//!
//! The kernel keeps one queue for each possible CPU; each holds *depth* entries, and an entry is a
//! pair of header and payload memory that carries one request at a time. Each entry is one task:
//!
//! ```text
//!  REGISTER ──► the kernel holds the entry ──► completion: a request is in its memory
//!                      ▲                                  │ decode, do it, write the reply there
//!                      └────── COMMIT_AND_FETCH ◄─────────┘
//! ```
//!
//! The ring becomes ready when every queue has an entry; until then, and when a registration fails,
//! the kernel sends everything the classic way (`fs/fuse/dev_uring.c`).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;

use crate::connection::Connection;
use crate::error::Errno;
use crate::session::Answer;
use crate::wire::{self, InHeader};

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

// Places in `struct fuse_uring_req_header`: 128 bytes for the header of request and reply, 128 for
// the fixed part of the request, then what belongs to the ring.
const FIXED_AT: usize = 128;
const FIXED_BYTES: usize = 128;
const COMMIT_ID_AT: usize = 264;
const PAYLOAD_BYTES_AT: usize = 272;
const HEADERS_BYTES: usize = 288;

/// The header page also holds the two I/O vectors that REGISTER points to.
const VECTORS_AT: usize = 512;
const PAGE_BYTES: usize = 4096;

/// The memory of one entry: a page of headers, then the payload, page-aligned.
///
/// The kernel writes into it from REGISTER or COMMIT until that command completes. It is therefore
/// freed only by [`EntryMemory::free`], after a completion; a task that is dropped half way leaks it.
struct EntryMemory {
    base: NonNull<u8>,
    payload_bytes: usize,
}

impl EntryMemory {
    fn new(payload_bytes: usize) -> EntryMemory {
        let layout = EntryMemory::layout(payload_bytes);
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        let memory = EntryMemory { base, payload_bytes };
        let vector = |at: usize, length: usize| libc::iovec {
            // SAFETY: both places lie inside the allocation.
            iov_base: unsafe { base.add(at) }.as_ptr().cast(),
            iov_len: length,
        };
        // SAFETY: two vectors fit at this place of the page, which is aligned for them.
        unsafe {
            let vectors = base.add(VECTORS_AT).cast::<[libc::iovec; 2]>();
            vectors.write([vector(0, HEADERS_BYTES), vector(PAGE_BYTES, payload_bytes)]);
        }
        memory
    }

    fn layout(payload_bytes: usize) -> Layout {
        Layout::from_size_align(PAGE_BYTES + payload_bytes, PAGE_BYTES)
            .expect("settings keep a payload at 1 MiB at most")
    }

    /// Where REGISTER finds the two vectors.
    fn vectors_address(&self) -> u64 {
        // SAFETY: inside the allocation.
        unsafe { self.base.add(VECTORS_AT) }.as_ptr() as u64
    }

    /// Headers and payload.
    ///
    /// # Safety
    /// No command of this entry may be in the kernel's hands.
    unsafe fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        // SAFETY: the two ranges lie inside the allocation, do not overlap, are initialised, and the
        // caller promises that the kernel leaves them alone while the borrow lasts.
        unsafe {
            (
                slice::from_raw_parts_mut(self.base.as_ptr(), HEADERS_BYTES),
                slice::from_raw_parts_mut(self.base.add(PAGE_BYTES).as_ptr(), self.payload_bytes),
            )
        }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No command of this entry may be in the kernel's hands, nor may one be sent again.
    unsafe fn free(self) {
        // SAFETY: allocated with this layout; the caller promises that nobody uses it.
        unsafe { dealloc(self.base.as_ptr(), EntryMemory::layout(self.payload_bytes)) }
    }
}

/// `struct fuse_uring_cmd_req`: flags, commit id, queue.
fn command_area(commit_id: u64, queue: u16) -> [u8; 80] {
    let mut area = [0; 80];
    area[8..16].copy_from_slice(&commit_id.to_ne_bytes());
    area[16..18].copy_from_slice(&queue.to_ne_bytes());
    area
}

/// Serves one entry of one queue until the connection ends. The result is the kernel's last word:
/// `ENOTCONN` at the end of a connection, something else when the entry was refused.
pub(crate) async fn serve_entry(connection: Rc<Connection>, queue: u16) -> Errno {
    let mut memory = EntryMemory::new(connection.settings.payload_bytes as usize);
    let device = connection.device.as_raw_fd();
    let runtime = &connection.runtime;
    // SAFETY: the entry's memory is freed after a completion only, and left alone until then; the
    // device stays open as long as the connection that this task holds.
    let registered = unsafe {
        runtime.uring_command(device, REGISTER, command_area(0, queue), memory.vectors_address(), 2)
    };
    let Some(registered) = registered else { return Errno::NOT_SUPPORTED };
    let mut result = registered.await;
    while result >= 0 {
        // SAFETY: the last command has completed and the next is not sent yet.
        let (headers, payload) = unsafe { memory.parts() };
        let commit_id = serve_request(&connection, headers, payload).await;
        let area = command_area(commit_id, queue);
        // SAFETY: as for REGISTER; the parts are not used after this point of the turn.
        let committed = unsafe { runtime.uring_command(device, COMMIT_AND_FETCH, area, 0, 0) };
        let Some(committed) = committed else { return Errno::NOT_SUPPORTED };
        result = committed.await;
    }
    // SAFETY: the command failed, so the kernel has let go of the entry.
    unsafe { memory.free() };
    Errno(-result)
}

/// Carries out the request in the entry and leaves the reply there; gives the commit id.
async fn serve_request(connection: &Connection, headers: &mut [u8], payload: &mut [u8]) -> u64 {
    let commit_id = u64::from_ne_bytes(field(headers, COMMIT_ID_AT));
    let payload_bytes = u32::from_ne_bytes(field(headers, PAYLOAD_BYTES_AT)) as usize;
    let header = InHeader::decode(headers).expect("the headers are longer than one header");
    let data = &payload[..payload_bytes.min(payload.len())];
    let fixed = &headers[FIXED_AT..FIXED_AT + FIXED_BYTES];
    let answer = match wire::decode(header.opcode, fixed, data) {
        Ok(request) => connection.apply(&header, request),
        Err(errno) => Answer::Failed(errno),
    };
    let result = match answer {
        // Requests without a reply come the classic way; should one come here, the entry must still
        // go back to the kernel.
        Answer::Silent => Ok(0),
        Answer::Failed(errno) => Err(errno),
        Answer::Small(reply) => {
            let bytes = reply.as_bytes();
            payload[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
        Answer::Directory { entries, first, size } => {
            let room = payload.len().min(size as usize);
            Ok(wire::encode_directory(&entries, first, &mut payload[..room]))
        }
        Answer::Volume(work) => connection.perform(&work, payload).await,
    };
    let out = wire::out_header(header.unique, result);
    headers[..out.len()].copy_from_slice(&out);
    let reply_bytes = result.unwrap_or(0) as u32;
    headers[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].copy_from_slice(&reply_bytes.to_ne_bytes());
    commit_id
}

fn field<const N: usize>(headers: &[u8], at: usize) -> [u8; N] {
    *headers[at..].first_chunk().expect("every field lies inside the headers")
}
