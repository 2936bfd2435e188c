//! The deterministic simulator: simulated drives, faults, workloads, checkers.
