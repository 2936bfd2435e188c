//! Everything that is on a drive: structs, versions, checksums. Bytes in, bytes out.
