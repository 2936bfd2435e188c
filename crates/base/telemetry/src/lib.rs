//! Counters, latency histograms and the event log.
