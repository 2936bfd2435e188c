//! Wrappers round a BlockDevice: memory, fault, delay, counting.
