//! `ashlar doctor`: what this machine gives the array, and what it lacks.

mod hosts;

use std::fs::OpenOptions;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use ashlar_api::{Reason, SEGMENT_NUMBERS_PERCENT_LATE};

use crate::Context;
use crate::failure::{Failure, Result};
use crate::output::{size, table};

/// Check what this machine gives the array: io_uring, FUSE, loop devices, memory, space, tools.
///
/// While iSCSI is served it also tells what to set on hosts that run Linux, Windows or VMware, and why.
///
/// Changes nothing. Exit status 1 when the array could not run at all.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar doctor --state /srv/ashlar")]
pub struct Doctor {}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Good,
    /// Of a host: what to set there, and why.
    Advice,
    /// The array runs, with something missing or slower.
    Warning,
    /// The array cannot run.
    Bad,
}

/// One thing looked at.
#[derive(Serialize)]
pub struct Finding {
    check: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do about it; empty when all is well.
    action: String,
}

impl Finding {
    fn good(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Good, found: found.into(), action: String::new() }
    }

    fn warning(check: &'static str, found: impl Into<String>, action: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Warning, found: found.into(), action: action.into() }
    }

    fn bad(check: &'static str, found: impl Into<String>, action: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Bad, found: found.into(), action: action.into() }
    }
}

/// Below this the journal of events, sockets and a small pool's files have no room. Arbitrary.
const STATE_FREE_BYTES_MIN: u64 = 64 << 20;
/// Registered buffers of one shard need this much locked memory where the kernel counts it.
const MEMLOCK_BYTES_MIN: u64 = 64 << 20;
/// With fewer the array takes fewer than 256 NBD clients.
const OPEN_FILES_MIN: u64 = 1024;
/// A UNIX socket's path holds 107 bytes and a zero (`sun_path` in unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

impl Doctor {
    pub fn run(self, context: &Context) -> Result<()> {
        context.only_here("doctor")?;
        let findings = findings(context);
        context.output.print(&findings, |findings| {
            let rows: Vec<Vec<String>> = findings
                .iter()
                .map(|finding| {
                    let verdict = match finding.verdict {
                        Verdict::Good => "good",
                        Verdict::Advice => "advice",
                        Verdict::Warning => "warning",
                        Verdict::Bad => "BAD",
                    };
                    vec![
                        finding.check.to_string(),
                        verdict.to_string(),
                        finding.found.clone(),
                        finding.action.clone(),
                    ]
                })
                .collect();
            table(&["CHECK", "VERDICT", "FOUND", "WHAT TO DO"], &[], &rows)
        })?;
        match findings.iter().find(|finding| finding.verdict == Verdict::Bad) {
            None => Ok(()),
            Some(bad) => Err(Failure::new(format!("{}: {}: {}", bad.check, bad.found, bad.action))),
        }
    }
}

/// Everything that is looked at.
pub fn findings(context: &Context) -> Vec<Finding> {
    let mut findings =
        vec![io_driver(), fuse(), outlives_a_crash(), loop_devices(), memlock(), open_files(), user()];
    findings.extend(state_directory(&context.state));
    findings.extend(tools());
    findings.push(array(context));
    findings.extend(segment_numbers(context));
    findings.extend(hosts::findings(context));
    findings
}

fn io_driver() -> Finding {
    match ashlar_daemon::probe_io_driver() {
        Ok(line) if line.contains("uring") && !line.contains("threads") => Finding::good("io", line),
        Ok(line) => Finding::warning(
            "io",
            line,
            "works; for more speed allow io_uring (sysctl kernel.io_uring_disabled=0, or the container's seccomp profile)",
        ),
        Err(error) => Finding::bad("io", error.to_string(), "raise the limits of threads and open files"),
    }
}

fn fuse() -> Finding {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::good("fuse", "/dev/fuse opens"),
        Err(error) => Finding::warning(
            "fuse",
            format!("/dev/fuse: {error}"),
            "`ashlar attach` will not work: modprobe fuse, or give the container /dev/fuse; NBD works without",
        ),
    }
}

/// `FUSE_NOTIFY_RESEND` came with Linux 6.9.
fn outlives_a_crash() -> Finding {
    const CHECK: &str = "attach over a crash";
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    if kernel_version(release).is_some_and(|version| version >= (6, 9)) {
        return Finding::good(
            CHECK,
            format!("Linux {release}: attached volumes outlive a crash of the array"),
        );
    }
    Finding::warning(
        CHECK,
        format!("Linux {release}: attached volumes outlive a restart of the array, not a crash"),
        "take Linux 6.9 or later",
    )
}

/// Major and minor version of a kernel's release.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn loop_devices() -> Finding {
    match OpenOptions::new().read(true).write(true).open("/dev/loop-control") {
        Ok(_) => Finding::good("loop devices", "/dev/loop-control opens"),
        Err(error) => Finding::warning(
            "loop devices",
            format!("/dev/loop-control: {error}"),
            "`ashlar attach` will not work: modprobe loop, and run as root; NBD works without",
        ),
    }
}

fn memlock() -> Finding {
    match getrlimit(Resource::Memlock).current {
        None => Finding::good("locked memory", "unlimited"),
        Some(bytes) if bytes >= MEMLOCK_BYTES_MIN => Finding::good("locked memory", size(bytes)),
        // Root is not held to the limit (CAP_IPC_LOCK).
        Some(bytes) if rustix::process::geteuid().is_root() => {
            Finding::good("locked memory", format!("{}, not applied to root", size(bytes)))
        }
        Some(bytes) => Finding::warning(
            "locked memory",
            size(bytes),
            "works without registered buffers; for more speed set LimitMEMLOCK=infinity or `ulimit -l unlimited`",
        ),
    }
}

fn open_files() -> Finding {
    match getrlimit(Resource::Nofile).maximum {
        Some(count) if count < OPEN_FILES_MIN => Finding::warning(
            "open files",
            format!("{count} at most"),
            "works, with fewer NBD clients; raise LimitNOFILE or `ulimit -Hn`",
        ),
        Some(count) => Finding::good("open files", format!("{count} at most")),
        None => Finding::good("open files", "unlimited"),
    }
}

fn user() -> Finding {
    if rustix::process::geteuid().is_root() {
        return Finding::good("user", "root");
    }
    Finding::warning("user", "not root", "NBD works; `ashlar attach` and block devices as drives need root")
}

fn state_directory(state: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shown = state.display();
    let socket = state.join(ashlar_keeper::SOCKET);
    if socket.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        findings.push(Finding::bad(
            "state directory",
            format!("{shown} is too long for a socket's path ({SOCKET_PATH_BYTES_MAX} bytes)"),
            "choose a shorter --state",
        ));
    }
    // What does not exist yet is made in the nearest directory that does.
    let existing = state.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_err() {
        findings.push(Finding::bad(
            "state directory",
            format!("{} is not writable", existing.display()),
            "run as its owner, or name another directory with --state",
        ));
    }
    match rustix::fs::statvfs(existing) {
        Ok(space) if space.f_bavail * space.f_frsize < STATE_FREE_BYTES_MIN => findings.push(Finding::bad(
            "state directory",
            format!("{} free at {shown}", size(space.f_bavail * space.f_frsize)),
            format!("free at least {}", size(STATE_FREE_BYTES_MIN)),
        )),
        Ok(space) => findings.push(Finding::good(
            "state directory",
            format!("{shown}, {} free", size(space.f_bavail * space.f_frsize)),
        )),
        Err(error) => {
            findings.push(Finding::bad(
                "state directory",
                format!("{shown}: {error}"),
                "choose another --state",
            ));
        }
    }
    findings
}

fn tools() -> Vec<Finding> {
    [("mount", "mount", "mount"), ("mkfs.ext4", "ext4", "e2fsprogs"), ("mkfs.xfs", "xfs", "xfsprogs")]
        .into_iter()
        .map(|(tool, purpose, package)| match find_tool(tool) {
            Some(path) => Finding::good(tool, path.display().to_string()),
            None => Finding::warning(
                tool,
                "not found",
                format!("only needed for `ashlar attach` with {purpose}: apt-get install {package}"),
            ),
        })
        .collect()
}

fn find_tool(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|directory| directory.join(tool))
        .find(|file| file.is_file())
}

fn array(context: &Context) -> Finding {
    let client = match context.client() {
        Ok(client) => client,
        Err(error) => {
            return Finding::warning("array", error.to_string(), "name it with --address or --state");
        }
    };
    match client.status() {
        Ok(status) => Finding::good("array", format!("serves, process {}", status.process_id)),
        Err(error) if !listens(context) => Finding::warning(
            "array",
            format!("none serves {}: {}", context.state.display(), error.message),
            "start it with `ashlar serve`",
        ),
        Err(error) if error.reason == Some(Reason::Overloaded) => Finding::warning(
            "array",
            format!("serves, and has no place for another client: {}", error.message),
            "end programs that keep connections to it open, then ask again",
        ),
        Err(error) => Finding::warning("array", format!("listens, but: {}", error.message), error.action),
    }
}

/// Whether anybody takes connections there.
fn listens(context: &Context) -> bool {
    match context.address {
        Some(address) => TcpStream::connect(address).is_ok(),
        None => UnixStream::connect(context.state.join(ashlar_daemon::API_SOCKET)).is_ok(),
    }
}

/// Of each pool that has used much of its segment numbers: no cleaning gives those back.
fn segment_numbers(context: &Context) -> Vec<Finding> {
    let pools = context.client().and_then(|client| Ok(client.pools()?)).unwrap_or_default();
    pools.iter().filter_map(|pool| numbers_of(&pool.name, pool.segment_numbers_percent)).collect()
}

fn numbers_of(pool: &str, percent: u8) -> Option<Finding> {
    const CHECK: &str = "segment numbers";
    let found = format!("pool {pool} has used {percent} %");
    let action = format!("copy the volumes of {pool} to a new pool");
    match percent {
        100.. => Some(Finding::bad(CHECK, format!("{found}: it takes no writes"), action)),
        SEGMENT_NUMBERS_PERCENT_LATE.. => {
            Some(Finding::warning(CHECK, found, format!("{action}; at 100 % this one takes no writes")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_nears_its_last_segment_number_is_told_of_in_time() {
        assert!(numbers_of("main", 89).is_none());
        let late = numbers_of("main", 90).unwrap();
        assert!(late.verdict == Verdict::Warning && late.found.contains("pool main has used 90 %"));
        let over = numbers_of("main", 100).unwrap();
        assert!(over.verdict == Verdict::Bad && over.action.contains("new pool"));
    }

    #[test]
    fn kernel_versions_are_read() {
        let known = [
            ("6.18.5", (6, 18)),
            ("6.1.0-28-amd64", (6, 1)),
            ("5.14.0-503.el9", (5, 14)),
            ("7.0-rc1", (7, 0)),
        ];
        for (release, version) in known {
            assert_eq!(kernel_version(release), Some(version), "{release}");
        }
        assert_eq!(kernel_version("linux"), None);
    }
}
