//! SCSI block commands over [`BlockDevice`](ashlar_block::BlockDevice)s, for whatever transport carries them.
//!
//! ```text
//!   transport ─► Target::begin(nexus, address, CDB) ─► Work ─► Work::run(data-out) ─► Answer
//!                  │ parse        CDB to Operation          │ status, data-in, sense
//!                  │ attention    what a host must hear first
//!                  └ reservation  who may do what
//! ```
//!
//! `begin` is synchronous and does everything that needs no data: it parses the CDB, reports unit attentions,
//! checks reservations and the range. `run` is the one async function that carries an operation out over the
//! device. Nothing here knows a clock, a socket or a random number, so the same commands give the same
//! answers.
//!
//! What a host sees: a direct access device by SPC-4 and SBC-3 with logical blocks of 512 or 4096 bytes, thin
//! provisioning that reads as zeroes, persistent reservations, one active/optimised target port group.
//! Deliberately not there: protection information, ANCHOR, ACA, removable media, task
//! attributes other than SIMPLE (every command is taken as SIMPLE).
//!
//! Invariants: (1) no CDB and no parameter list can panic; (2) a refused command changes nothing; (3) when
//! PREEMPT, CLEAR or a reset has answered, no write of a nexus that lost its right is still under way; (4)
//! COMPARE AND WRITE and ORWRITE are atomic with respect to every write through the same [`Unit`]; (5) a
//! WRITE ATOMIC is seen as a whole or not at all by every read through it.

mod address;
mod answer;
mod attention;
mod blocks;
mod bytes;
mod commands;
mod copy;
mod fuzz;
mod inquiry;
mod mode;
mod parse;
mod range_lock;
mod reports;
pub mod reservation;
mod sense;
mod target;
mod unit;

pub use address::UnitAddress;
pub use answer::{Answer, Data, Status};
pub use attention::Attention;
pub use fuzz::fuzz_commands;
pub use inquiry::world_wide_name;
pub use parse::{ByteCheck, CodesAsked, ModeSense, Operation, Span, parse};
pub use reservation::{MemoryStore, Nexus, ReservationStore, Saved};
pub use sense::{FieldPointer, Sense, SenseKey, code};
pub use target::{Begun, Port, Stop, Target, Work};
pub use unit::{Limits, Unit, UnitSettings};

#[cfg(test)]
mod tests;
