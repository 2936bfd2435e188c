//! What a supervisor is told.

use std::os::unix::net::UnixDatagram;

/// Tells systemd about our state, if it wants to know (sd_notify(3)).
pub fn notify_supervisor(socket: Option<&std::ffi::OsStr>, message: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::SocketAddr;

    let Some(path) = socket else { return Ok(()) };
    // A leading @ names a socket without a file.
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_supervisor_hears_that_we_are_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        notify_supervisor(Some(path.as_os_str()), "READY=1").unwrap();
        let mut heard = [0u8; 64];
        let length = socket.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1");
        notify_supervisor(None, "READY=1").unwrap();
    }
}
