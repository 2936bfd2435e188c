//! The write-ahead log: groups, group commit, replay.
