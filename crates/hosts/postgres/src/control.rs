//! What a data directory says of its server's end, without the server.

use std::fs;
use std::path::Path;

/// The control file (`src/include/catalog/pg_control.h`): the state stands behind the system's identifier and
/// two versions, in all majors that this crate drives.
const CONTROL: &str = "global/pg_control";
const STATE_AT: usize = 16;
/// `DB_SHUTDOWNED`.
const SHUT_DOWN: u32 = 1;

/// Its server was stopped after a last checkpoint, and none was started on it since.
#[must_use]
pub fn was_shut_down(data: &Path) -> bool {
    let state = fs::read(data.join(CONTROL)).ok().and_then(|bytes| {
        let found = bytes.get(STATE_AT..STATE_AT + 4)?;
        Some(u32::from_ne_bytes(found.try_into().ok()?))
    });
    state == Some(SHUT_DOWN) && !data.join("postmaster.pid").exists()
}
