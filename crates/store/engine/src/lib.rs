//! Volumes, snapshots and clones over a pool: write path, read path, checkpoint, recovery.
