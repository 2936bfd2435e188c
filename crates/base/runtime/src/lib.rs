//! Shards, tasks, timers, buffers, clock and random; the only door to the world.
