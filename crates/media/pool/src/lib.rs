//! Drives into one space: superblock, segment allocation, segment reads and writes.
