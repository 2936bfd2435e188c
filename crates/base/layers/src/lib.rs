//! Layers over a [`BlockDevice`](ashlar_block::BlockDevice), and a device in memory to put under them.
//!
//! A layer owns the device below and is a device itself, so the daemon stacks what a volume needs and
//! tests stack what they want to see fail. Layers hold no thread and read no clock but the shard's.

mod counted;
mod faulty;
mod memory;

pub use counted::Counted;
pub use faulty::{FaultSettings, Faulty};
pub use memory::MemoryDevice;

#[cfg(test)]
mod tests;
