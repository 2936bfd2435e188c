//! The session byte by byte: what goes in, and exactly what must come out.

mod negotiation;
mod stream;
mod transmission;

use crate::fuzz::{Exercise, NAME};
use crate::wire::{OPTION_MAGIC, OPTION_REPLY_MAGIC, option};

/// The bytes of a client, put together by the test itself so that a wrong constant shows.
#[derive(Default)]
pub struct Client {
    pub bytes: Vec<u8>,
}

pub fn concat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

impl Client {
    pub fn new() -> Client {
        Client { bytes: 3u32.to_be_bytes().to_vec() }
    }

    pub fn option(mut self, kind: u32, data: &[u8]) -> Client {
        self.bytes.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        self.bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(data);
        self
    }

    pub fn go(self) -> Client {
        self.option(option::GO, &info_data(NAME, &[3]))
    }

    pub fn request(mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Client {
        self.bytes.extend_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        self.bytes.extend_from_slice(&flags.to_be_bytes());
        self.bytes.extend_from_slice(&command.to_be_bytes());
        self.bytes.extend_from_slice(&cookie.to_be_bytes());
        self.bytes.extend_from_slice(&offset.to_be_bytes());
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self
    }

    pub fn extended(mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u64) -> Client {
        self.bytes.extend_from_slice(&[0x21, 0xe4, 0x1c, 0x71]);
        self.bytes.extend_from_slice(&flags.to_be_bytes());
        self.bytes.extend_from_slice(&command.to_be_bytes());
        self.bytes.extend_from_slice(&cookie.to_be_bytes());
        self.bytes.extend_from_slice(&offset.to_be_bytes());
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self
    }

    pub fn payload(mut self, bytes: &[u8]) -> Client {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Feeds everything at once.
    pub fn run(self) -> Exercise {
        self.run_on(Exercise::new(false))
    }

    pub fn run_on(self, mut exercise: Exercise) -> Exercise {
        exercise.output.clear();
        exercise.feed(&self.bytes);
        exercise
    }
}

pub fn info_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    for info in wanted {
        data.extend_from_slice(&info.to_be_bytes());
    }
    data
}

pub fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}

/// Splits option replies into (option, type, data).
pub fn option_replies(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(bytes[..8], OPTION_REPLY_MAGIC.to_be_bytes());
        let end = 20 + number(16) as usize;
        replies.push((number(8), number(12), bytes[20..end].to_vec()));
        bytes = &bytes[end..];
    }
    replies
}
