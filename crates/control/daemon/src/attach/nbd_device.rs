//! Which volume of the array comes back as a block device of the kernel's NBD client.
//!
//! ```text
//!   /dev/nbd3 ──► process that set it up (/sys/.../pid) ──► its connection to the array ──► volume
//! ```
//!
//! The process stays for as long as the device does, or it hands its connection to the kernel and ends: then
//! it is known as the process that connected, and over TCP, where that is not told, as a connection that no
//! process has.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ashlar_runtime::Peer;

/// What the array has of its own that may lie below a drive.
pub struct Own {
    /// The directory of volume files.
    pub volumes: PathBuf,
    /// The socket of NBD.
    pub socket: PathBuf,
    /// The clients of NBD that use a volume.
    pub clients: Vec<Client>,
}

/// A client of NBD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    pub peer: Peer,
    pub volume: String,
}

impl Own {
    /// The volume that a device of the kernel's NBD client is, if it is one of this array. `sys` is the
    /// device's directory in sysfs.
    pub(super) fn volume_of_device(&self, sys: &Path) -> Option<String> {
        self.volume_served_to(process_of(sys)?, Path::new("/proc"))
    }

    fn volume_served_to(&self, process_id: u32, proc: &Path) -> Option<String> {
        if let Some(client) = self.clients.iter().find(|client| is_process(client.peer, process_id)) {
            return Some(client.volume.clone());
        }
        let process = proc.join(process_id.to_string());
        let is_running = process.exists();
        let rows =
            ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(proc.join(name)).unwrap_or_default());
        let mut held = None;
        for client in &self.clients {
            let Peer::Tcp(address) = client.peer else { continue };
            let Some(inode) = rows.iter().find_map(|rows| inode_of(rows, address)) else { continue };
            let is_its = match is_running {
                true => sockets_of(&process).contains(&inode),
                false => !held.get_or_insert_with(|| sockets_of_all(proc)).contains(&inode),
            };
            if is_its {
                return Some(client.volume.clone());
            }
        }
        self.volume_on_command_line(&process)
    }

    /// A process that was started with the array's socket; who connected may have been its parent.
    fn volume_on_command_line(&self, process: &Path) -> Option<String> {
        let line = fs::read(process.join("cmdline")).ok()?;
        let arguments: Vec<String> =
            line.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        let socket = fs::canonicalize(&self.socket).ok()?;
        let is_socket = |argument: &String| fs::canonicalize(argument).is_ok_and(|path| path == socket);
        if !arguments.iter().any(is_socket) {
            return None;
        }
        let name =
            arguments.iter().position(|argument| ["-N", "-name", "--name"].contains(&argument.as_str()));
        let volume = name.and_then(|index| arguments.get(index + 1)).cloned();
        // Without a name it uses some volume all the same.
        volume.or_else(|| self.clients.first().map(|client| client.volume.clone()))
    }
}

/// The process that set a device up; `None` for one of another kind, and for one that is not connected.
fn process_of(sys: &Path) -> Option<u32> {
    fs::read_to_string(sys.join("pid")).ok()?.trim().parse().ok().filter(|id| *id > 0)
}

fn is_process(peer: Peer, id: u32) -> bool {
    matches!(peer, Peer::Process { process_id, .. } if process_id == id)
}

/// The number of the socket at this end of a connection, in a table as `/proc/net/tcp` has it.
fn inode_of(rows: &str, local: SocketAddr) -> Option<u64> {
    let wanted = in_hex(local);
    let fields = rows.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let mut inodes = fields.filter_map(|fields| match fields.get(1) {
        Some(address) if *address == wanted => fields.get(9)?.parse().ok(),
        _ => None,
    });
    inodes.find(|inode| *inode > 0)
}

/// An address as those tables write it: words of the machine's order, the port as a number.
fn in_hex(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let word = |bytes: &[u8]| format!("{:08X}", u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let words: String = bytes.chunks_exact(4).map(word).collect();
    format!("{words}:{:04X}", address.port())
}

/// The sockets that a process has open.
fn sockets_of(process: &Path) -> BTreeSet<u64> {
    let links = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    let inode = |target: PathBuf| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    targets.filter_map(inode).collect()
}

/// The same of all processes.
fn sockets_of_all(proc: &Path) -> BTreeSet<u64> {
    let all = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes =
        all.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    processes.flat_map(|entry| sockets_of(&entry.path())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Rows of two connections to port 10809, seen from the client, as the kernel prints them.
    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:9C40 0100007F:2A39 01 00000000:00000000 00:00000000 00000000     0        0 555 1 0 20 4 30 10 -1\n   \
        1: 0100007F:9C41 0100007F:2A39 01 00000000:00000000 00:00000000 00000000     0        0 777 1 0 20 4 30 10 -1\n";

    fn proc_with(processes: &[(u32, u64, &[&str])]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("net")).unwrap();
        fs::write(proc.path().join("net/tcp"), TCP).unwrap();
        for (id, socket, arguments) in processes {
            let directory = proc.path().join(id.to_string());
            fs::create_dir_all(directory.join("fd")).unwrap();
            std::os::unix::fs::symlink(format!("socket:[{socket}]"), directory.join("fd/3")).unwrap();
            std::os::unix::fs::symlink("/dev/null", directory.join("fd/0")).unwrap();
            fs::write(directory.join("cmdline"), arguments.join("\0")).unwrap();
        }
        proc
    }

    fn own(peers: &[(Peer, &str)], socket: &Path) -> Own {
        let client = |(peer, volume): &(Peer, &str)| Client { peer: *peer, volume: (*volume).to_string() };
        let clients = peers.iter().map(client).collect();
        Own { volumes: PathBuf::from("/s/volumes"), socket: socket.to_path_buf(), clients }
    }

    #[test]
    fn a_device_is_the_volume_of_the_process_that_connected() {
        let connected = Peer::Process { process_id: 100, user_id: 0 };
        let own = own(&[(connected, "db")], Path::new("/s/nbd.sock"));
        let proc = proc_with(&[(200, 9, &["nbd-client", "elsewhere"])]);
        // It is gone by now, and the kernel has its connection.
        assert_eq!(own.volume_served_to(100, proc.path()).as_deref(), Some("db"));
        assert_eq!(own.volume_served_to(200, proc.path()), None);
    }

    #[test]
    fn a_tcp_connection_is_known_by_who_has_its_socket_or_that_nobody_has() {
        let tcp = |port: u16| Peer::Tcp(SocketAddr::from(([127, 0, 0, 1], port)));
        let own = own(&[(tcp(40000), "db"), (tcp(40001), "wal")], Path::new("/s/nbd.sock"));
        let proc = proc_with(&[(100, 777, &["nbd-client"]), (200, 9, &["nbd-client"])]);
        assert_eq!(own.volume_served_to(100, proc.path()).as_deref(), Some("wal"));
        assert_eq!(own.volume_served_to(200, proc.path()), None, "it talks to somebody else");
        assert_eq!(own.volume_served_to(300, proc.path()).as_deref(), Some("db"), "the kernel has 555");
        let proc = proc_with(&[(100, 777, &["nbd-client"]), (200, 555, &["psql"])]);
        assert_eq!(own.volume_served_to(300, proc.path()), None, "processes have both");
    }

    #[test]
    fn a_process_that_was_started_with_the_socket_is_known_by_that() {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join("nbd.sock");
        fs::write(&socket, "").unwrap();
        let parent = Peer::Process { process_id: 99, user_id: 0 };
        let own = own(&[(parent, "db"), (parent, "wal")], &socket);
        let line = ["nbd-client", "-unix", socket.to_str().unwrap(), "-N", "wal", "/dev/nbd0"];
        let proc = proc_with(&[(100, 9, &line), (200, 9, &["nbd-client", "-unix", "/other", "-N", "wal"])]);
        assert_eq!(own.volume_served_to(100, proc.path()).as_deref(), Some("wal"));
        assert_eq!(own.volume_served_to(200, proc.path()), None);
    }

    #[test]
    fn what_the_kernel_tells_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(process_of(scratch.path()), None, "no device of this kind");
        fs::write(scratch.path().join("pid"), "4711\n").unwrap();
        assert_eq!(process_of(scratch.path()), Some(4711));
        let address: SocketAddr = "127.0.0.1:40000".parse().unwrap();
        assert_eq!(inode_of(TCP, address), Some(555));
        assert_eq!(inode_of(TCP, "127.0.0.1:1".parse().unwrap()), None);
        assert_eq!(in_hex("[::1]:16".parse().unwrap()), "00000000000000000000000001000000:0010");
    }
}
