//! Errors in the protocol's own words: what the session refuses, and what devices answer.

use ashlar_block::ErrorKind;

use crate::wire::Errno;

/// Why a request is refused before the device sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub errno: Errno,
    pub message: &'static str,
}

/// The word of the protocol for a device's error.
pub(crate) fn errno_of(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::Invalid => Errno::Inval,
        ErrorKind::ReadOnly => Errno::Perm,
        ErrorKind::NoSpace => Errno::NoSpc,
        // Of a write it says what a drive says: its blocks hold the old or the new content, until they
        // are written again (docs/internals/durability.md).
        ErrorKind::Medium => Errno::Io,
        // A client that sees this MUST disconnect, which is what the kind asks of the host.
        ErrorKind::Gone => Errno::Shutdown,
    }
}
