//! Rotating drives and arrays of them as an event model in virtual time; no I/O.
//!
//! The lab calls it in two ways: alone, with the loops of [`load`], which takes seconds for an hour of an
//! array's life; and as the pace of a volume that delays, where a request goes in when it arrives and
//! [`array::Array`] says when it is complete. Everything that comes out of it is labelled as simulated.
//!
//! ```text
//!   request ──► flash cache ──► overhead ──► write cache ──► read cache ──► layout ──► drives
//!                  hit │                        room │           hit │      RAID       queue, seek,
//!                      ▼                             ▼               ▼                 angle, transfer
//!                   answer                         answer         answer
//! ```
//!
//! 1. Time is a `Duration` from the start of the model, and comes from the caller. The room has no clock.
//! 2. The same description, seed and requests give the same events. Randomness comes from a seed only.
//! 3. Every request is completed exactly once, and never before the heads could have been there: the angle
//!    of the platters is followed, not drawn.
//! 4. The model is of time only. It holds no data, and orders no two requests for the same place.
//!
//! Sizes and offsets are bytes as plain numbers, and say so in their names: this room speaks of the drives
//! of other makers' arrays, and needs none of our own words for them.

pub mod address;
pub mod array;
pub mod drive;
pub mod error;
pub mod layout;
pub mod load;

use std::time::Duration;

/// What is asked of an array or of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Data come from the drives.
    Read,
    /// Data go to the drives.
    Write,
}

/// One request of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked.
    pub kind: Kind,
    /// The first byte, from the start of the array.
    pub offset_bytes: u64,
    /// How many bytes; never none.
    pub length_bytes: u64,
}

/// Virtual time inside: nanoseconds in 64 bits last for 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("virtual time ends after 584 years")
}
