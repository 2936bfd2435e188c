//! This process as the kernel sees it: memory, processor time, readiness for systemd.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of memory resident now; zero where `/proc` is not mounted.
pub(crate) fn memory_resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Bytes of memory of the machine, if it tells.
pub(crate) fn memory_total_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Processor time of all threads since the start.
pub(crate) fn cpu_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// This program. One that was replaced since it was started is found by its open file.
pub(crate) fn own_path() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(if path.exists() { path } else { PathBuf::from("/proc/self/exe") })
}

/// How long systemd may take to say what it does.
const SYSTEMD_MAX: Duration = Duration::from_secs(3);

/// Whether systemd is about to stop the machine.
pub(crate) async fn machine_stops() -> bool {
    let asked =
        tokio::process::Command::new("systemctl").arg("is-system-running").kill_on_drop(true).output();
    match tokio::time::timeout(SYSTEMD_MAX, asked).await {
        Ok(Ok(said)) => said.stdout.trim_ascii() == b"stopping",
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Descriptors kept back for drives, attachments, file systems and whatever else is not a connection: a
/// quarter of the limit, and what a pool of 48 drives takes at least.
const DESCRIPTORS_KEPT: std::ops::RangeInclusive<u64> = 64..=1024;

/// How many connections each door may have, so that none takes what the others need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptors {
    /// All that the process may have.
    pub(crate) limit: u64,
    pub(crate) api_socket: usize,
    pub(crate) api_tcp: usize,
    pub(crate) metrics: usize,
    pub(crate) nbd: usize,
}

impl Descriptors {
    /// Raises the soft limit to the hard one and shares out what there is.
    pub(crate) fn raise() -> Descriptors {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        // A refusal leaves what there was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
        let now = getrlimit(Resource::Nofile).current;
        Descriptors::of(now.unwrap_or(u64::from(u32::MAX)))
    }

    fn of(limit: u64) -> Descriptors {
        let share = |fraction: u64, least: u64, most: u64| (limit / fraction).clamp(least, most);
        let kept = share(4, *DESCRIPTORS_KEPT.start(), *DESCRIPTORS_KEPT.end());
        // Commands are short, so few places serve many; each has one connection.
        let (socket, tcp, metrics) = (share(8, 8, 128), share(16, 4, 64), share(64, 2, 16));
        let nbd = limit.saturating_sub(kept + socket + tcp + metrics).max(1);
        Descriptors {
            limit,
            api_socket: socket as usize,
            api_tcp: tcp as usize,
            metrics: metrics as usize,
            nbd: usize::try_from(nbd).unwrap_or(usize::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn this_process_uses_memory_and_time() {
        assert!(memory_resident_bytes() > 100_000);
        assert!(cpu_micros() > 0);
    }

    #[test]
    fn no_door_takes_the_descriptors_of_another() {
        for limit in [128, 256, 1024, 4096, 65536, 1 << 20] {
            let shares = Descriptors::of(limit);
            let doors = (shares.api_socket + shares.api_tcp + shares.metrics + shares.nbd) as u64;
            let kept = limit - doors;
            assert!(kept >= 64, "{shares:?} keep {kept}");
            assert!(shares.nbd as u64 >= limit / 4, "{shares:?}");
        }
        // Too few for anything: each door has a little.
        assert_eq!(Descriptors::of(20).nbd, 1);
    }
}
