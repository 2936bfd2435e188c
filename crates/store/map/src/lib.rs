//! The logical to physical map: a persistent copy-on-write radix tree.
