//! The least NBD client that writes and reads: export by name over the socket in the state directory.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const OPTION_MAGIC: &[u8] = b"IHAVEOPT";
const REQUEST_MAGIC: u32 = 0x2560_9513;
const OPTION_EXPORT_NAME: u32 = 1;
/// Fixed newstyle, and no 124 zeroes after the answer.
const FLAGS: u32 = 3;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const TRIM: u16 = 4;

pub struct Nbd(UnixStream);

impl Nbd {
    pub fn connect(state: &Path, volume: &str) -> Nbd {
        let mut stream = UnixStream::connect(state.join("nbd.sock")).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        let mut hello = FLAGS.to_be_bytes().to_vec();
        hello.extend_from_slice(OPTION_MAGIC);
        hello.extend(OPTION_EXPORT_NAME.to_be_bytes());
        hello.extend((volume.len() as u32).to_be_bytes());
        hello.extend_from_slice(volume.as_bytes());
        stream.write_all(&hello).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        Nbd(stream)
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.try_write(offset, bytes).unwrap();
    }

    /// Fails when the array ends before it acknowledges.
    pub fn try_write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.request(WRITE, offset, bytes.len(), bytes)
    }

    pub fn read(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.try_read(offset, length).expect("the array answers reads")
    }

    /// Reads a range; `None` when the array reports an error.
    pub fn try_read(&mut self, offset: u64, length: usize) -> Option<Vec<u8>> {
        self.send(READ, offset, length, &[]).unwrap();
        let mut answer = [0; 16];
        self.0.read_exact(&mut answer).unwrap();
        if answer[4..8] != [0; 4] {
            return None;
        }
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        Some(bytes)
    }

    /// True when a write is answered with an error.
    pub fn is_refused(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.error_of_write(offset, bytes) != 0
    }

    /// The number of the error that a write is answered with; 0 when it is done.
    pub fn error_of_write(&mut self, offset: u64, bytes: &[u8]) -> u32 {
        self.send_write(offset, bytes);
        let mut answer = [0; 16];
        self.0.read_exact(&mut answer).unwrap();
        u32::from_be_bytes([answer[4], answer[5], answer[6], answer[7]])
    }

    /// Sends a write without waiting for the answer.
    pub fn send_write(&mut self, offset: u64, bytes: &[u8]) {
        self.send(WRITE, offset, bytes.len(), bytes).unwrap();
    }

    /// Waits until one that was sent is acknowledged.
    pub fn wait(&mut self) {
        self.acknowledged().unwrap();
    }

    pub fn unmap(&mut self, offset: u64, length: usize) {
        self.request(TRIM, offset, length, &[]).unwrap();
    }

    /// Returns when it is acknowledged.
    fn request(&mut self, command: u16, offset: u64, length: usize, payload: &[u8]) -> std::io::Result<()> {
        self.send(command, offset, length, payload)?;
        self.acknowledged()
    }

    fn send(&mut self, command: u16, offset: u64, length: usize, payload: &[u8]) -> std::io::Result<()> {
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(7_u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend((length as u32).to_be_bytes());
        request.extend_from_slice(payload);
        self.0.write_all(&request)
    }

    fn acknowledged(&mut self) -> std::io::Result<()> {
        let mut answer = [0; 16];
        self.0.read_exact(&mut answer)?;
        assert_eq!(answer[4..8], [0; 4], "the array refused");
        Ok(())
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend(DISCONNECT.to_be_bytes());
        request.extend([0; 20]);
        let _ = self.0.write_all(&request);
    }
}
