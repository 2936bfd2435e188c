//! Numbers of repeated measurements: steady state, intervals, comparisons; no I/O.
//!
//! The lab's other rooms call this one with what fio, databases and collectors counted, and print what it
//! answers. Pure functions of their arguments: no clock, and random numbers only from a seed of the caller.
//!
//! 1. No answer is "not a number". What cannot be computed (too few values, a value that is not finite) is
//!    `None` or a verdict of its own, never a guess.
//! 2. Intervals are of 95 %: of twenty of them, about one misses the truth.
//! 3. What a caller can only get wrong by a mistake in its code (samples out of order) asserts.

pub mod compare;
pub mod drift;
pub mod histogram;
pub mod interval;
pub mod latencies;
pub mod latency_rule;
pub mod plausible;
pub mod random;
mod series;
pub mod steady;
