//! Who this array is: what it writes to the owner block of pools that it opens.

use std::path::Path;
use std::sync::Arc;

use ashlar_engine::{Identity, ProcessProbe};

/// This process of this boot of this machine.
pub(crate) fn own() -> Identity {
    let process = std::process::id();
    Identity {
        machine: read_hex("/etc/machine-id").unwrap_or(0),
        // Numbers of processes mean something within their namespace only: a container is another boot.
        boot: read_hex("/proc/sys/kernel/random/boot_id").unwrap_or(0) ^ u128::from(process_namespace()),
        machine_name: read("/proc/sys/kernel/hostname").unwrap_or_default(),
        process,
        process_started: started(process).unwrap_or(0),
    }
}

/// Whether a process of this boot is there.
pub(crate) fn process_probe() -> ProcessProbe {
    Arc::new(|process, when| started(process).is_some_and(|started| started == when))
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn read_hex(path: &str) -> Option<u128> {
    let digits: String = read(path)?.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok()
}

fn process_namespace() -> u64 {
    let link = std::fs::read_link(Path::new("/proc/self/ns/pid")).ok();
    let text = link.as_deref().and_then(Path::to_str).unwrap_or_default();
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

/// When a process started, in ticks since the boot: field 22 of proc(5)'s `stat`, behind the name in
/// brackets, which may hold anything.
fn started(process: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A process that has ended and is not waited for holds nothing open any more.
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let own = own();
        assert!(own.process_started > 0, "{own:?}");
        let is_there = process_probe();
        assert!(is_there(own.process, own.process_started));
        assert!(!is_there(own.process, own.process_started + 1));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let started = started(child.id());
        child.wait().unwrap();
        assert!(!is_there(child.id(), started.unwrap_or(0)));
    }
}
