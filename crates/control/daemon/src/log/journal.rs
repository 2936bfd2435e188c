//! The systemd journal in its own words (systemd's "Native Journal Protocol"): a datagram of fields, so that
//! `journalctl ASHLAR_OBJECT="pool main"` finds what is about one object.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use ashlar_api::Event;

use super::{priority, word};

const SOCKET: &str = "/run/systemd/journal/socket";

/// The journal of this machine.
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// The journal, where it is what reads this process's stderr: `stream` names its device and inode. A
    /// stderr that goes elsewhere gets its lines there.
    pub(super) fn of_stderr(stream: &str) -> Option<Journal> {
        let stderr = rustix::fs::fstat(std::io::stderr()).ok()?;
        let is_stderr = stream == format!("{}:{}", stderr.st_dev, stderr.st_ino);
        is_stderr.then(|| Journal::at(SOCKET)).flatten()
    }

    fn at(path: impl Into<PathBuf>) -> Option<Journal> {
        let socket = UnixDatagram::unbound().ok()?;
        // One that is too busy must not hold the array up: it gets a line instead.
        socket.set_nonblocking(true).ok()?;
        Some(Journal { socket, path: path.into() })
    }

    /// Hands an event over; false when the journal does not take it.
    pub(super) fn take(&self, event: &Event) -> bool {
        let fields = fields(event);
        self.socket.send_to(&fields, &self.path).is_ok_and(|sent| sent == fields.len())
    }
}

fn fields(event: &Event) -> Vec<u8> {
    let mut text = Vec::new();
    let message = format!("{}: {}", event.object, event.message);
    for (name, value) in [
        ("MESSAGE", message.as_str()),
        ("PRIORITY", priority(event.level).to_string().as_str()),
        ("SYSLOG_IDENTIFIER", "ashlar"),
        ("ASHLAR_LEVEL", word(event.level)),
        ("ASHLAR_OBJECT", event.object.as_str()),
        ("ASHLAR_SEQUENCE", event.sequence.to_string().as_str()),
    ] {
        field(&mut text, name, value);
    }
    text
}

/// One with a line break says how long it is.
fn field(text: &mut Vec<u8>, name: &str, value: &str) {
    let written = match value.contains('\n') {
        false => writeln!(text, "{name}={value}"),
        true => writeln!(text, "{name}").and_then(|()| {
            text.write_all(&(value.len() as u64).to_le_bytes())?;
            writeln!(text, "{value}")
        }),
    };
    written.expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ashlar_api::EventLevel;

    use super::*;

    fn event(message: &str) -> Event {
        Event {
            sequence: 7,
            boot_id: "b".to_string(),
            unix_millis: 1,
            level: EventLevel::Error,
            object: "pool main".to_string(),
            message: message.to_string(),
        }
    }

    #[test]
    fn the_journal_gets_object_and_level_as_fields() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let listener = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path).unwrap();
        let mut heard = [0; 4096];
        assert!(journal.take(&event("takes no writes")));
        let length = listener.recv(&mut heard).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&heard[..length]),
            "MESSAGE=pool main: takes no writes\nPRIORITY=3\nSYSLOG_IDENTIFIER=ashlar\nASHLAR_LEVEL=error\n\
             ASHLAR_OBJECT=pool main\nASHLAR_SEQUENCE=7\n"
        );
        assert!(journal.take(&event("a\nPRIORITY=0")));
        let length = listener.recv(&mut heard).unwrap();
        let expected = b"MESSAGE\n\x17\0\0\0\0\0\0\0pool main: a\nPRIORITY=0\nPRIORITY=3\n";
        assert!(heard[..length].starts_with(expected), "{:?}", String::from_utf8_lossy(&heard[..length]));
        // Nobody listens: the caller writes a line.
        drop(listener);
        assert!(!journal.take(&event("x")));
    }

    #[test]
    fn a_stderr_that_goes_elsewhere_keeps_its_lines() {
        assert!(Journal::of_stderr("1:2").is_none());
        assert!(Journal::of_stderr("").is_none());
        let stderr = rustix::fs::fstat(std::io::stderr()).unwrap();
        assert!(Journal::of_stderr(&format!("{}:{}", stderr.st_dev, stderr.st_ino)).is_some());
    }
}
