//! An NBD export as a target, reached from user space: no kernel module, no root.

use std::process::{Command, Stdio};

use crate::place::{Place, Refusal};

pub(crate) fn open(uri: &str, may_destroy: bool) -> Result<Place, Refusal> {
    let refused = |what: &str| Refusal(format!("{uri}: {what}"));
    if !may_destroy {
        return Err(refused("everything on it would be overwritten: say so with --destroy"));
    }
    let asked = Command::new("nbdinfo").args(["--size", uri]).stdin(Stdio::null()).output();
    let asked = asked.map_err(|error| {
        refused(&format!("nbdinfo: {error}: install libnbd's tools (on Debian: apt-get install libnbd-bin)"))
    })?;
    let said = String::from_utf8_lossy(&asked.stdout);
    match said.trim().parse::<u64>() {
        Ok(size_bytes) if asked.status.success() => Ok(Place::Nbd { uri: uri.to_string(), size_bytes }),
        _ => Err(refused(String::from_utf8_lossy(&asked.stderr).trim())),
    }
}
