//! What another machine runs so that a clone's server runs there: a script, of values and of text that is the
//! same for every database.

use crate::record::Limits;

/// What the array makes on volumes of databases.
pub const FILE_SYSTEM: &str = "ext4";

/// What the values are followed by.
const STEPS: &str = include_str!("handover.sh");

/// A clone that is handed to another machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Handover {
    /// The clone.
    pub database: String,
    /// What it was cloned from.
    pub source: String,
    /// The machine, as the array calls it.
    pub host: String,
    /// The pool over iSCSI.
    pub target: String,
    /// Where the machine comes in.
    pub portals: Vec<String>,
    /// What the machine calls itself when it proves who it is.
    pub chap_user: Option<String>,
    /// What the array calls itself then.
    pub mutual_chap_user: Option<String>,
    /// PostgreSQL's major version.
    pub major: u32,
    /// The directory of its programs, here.
    pub programs: String,
    /// The account of its files, here.
    pub account: String,
    /// Its number.
    pub user: u32,
    /// Its group's.
    pub group: u32,
    /// Where the server listens.
    pub port: u16,
    /// What it may use of the machine.
    pub limits: Option<Limits>,
    /// Its data directory.
    pub data: String,
    /// The directory of its socket.
    pub socket: String,
    /// The volumes.
    pub volumes: Vec<Handed>,
}

/// A volume of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handed {
    /// What is on it.
    pub role: String,
    /// Its name among SCSI units.
    pub wwn: String,
    /// Where it is mounted.
    pub mount: String,
}

impl Handover {
    /// Whether a path can stand in a unit of systemd and in this script as it is.
    #[must_use]
    pub fn is_plain_path(path: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        path.starts_with('/') && path.bytes().all(is_plain)
    }

    /// For root on the other machine.
    #[must_use]
    pub fn script(&self) -> String {
        let mut text = self.head();
        text.push_str(&self.secrets());
        text.push_str(&self.values());
        text.push_str(STEPS);
        text
    }

    fn head(&self) -> String {
        let Handover { database, source, host, port, major, .. } = self;
        let mut text = format!(
            "#!/bin/sh\n\
             # Runs database {database}, a clone of {source}, on the machine that the array calls {host}.\n\
             #\n\
             # Its volumes are on the array and come here over iSCSI. This script logs in, mounts them where\n\
             # they are mounted on the array's machine (links in them name each other so), and has systemd run\n\
             # PostgreSQL {major} on them, port {port}, now and at each start of this machine.\n\
             #\n\
             # Needed: open-iscsi, systemd, PostgreSQL {major} built for the same processor and, where texts are\n\
             # sorted by a locale, the same version of the C library. Read it, then as root:\n\
             #\n\
             #   sh THIS.sh          does all that; may be repeated\n\
             #   sh THIS.sh remove   stops the server and takes the volumes out of this machine\n\
             #\n\
             # Back to the array's machine: remove, then there `ashlar database return {database}`.\n"
        );
        let is_loopback = |portal: &String| portal.starts_with("127.") || portal.starts_with("[::1]");
        if self.portals.iter().all(is_loopback) {
            text.push_str(
                "#\n# NOTE: the array serves iSCSI to its own machine alone. Add an address to its setting\n\
                 # `iscsi_listen`, start the array again and have this script printed once more.\n",
            );
        }
        text
    }

    fn secrets(&self) -> String {
        let mut text = String::from("\n");
        let mut secret = |name: &str, user: &Option<String>, whose: &str| {
            let what = match user {
                Some(user) => {
                    format!(
                        "# The CHAP secret of {whose}, {user}, goes between these quotes.\n\
                         # Empty: as this machine's iscsid.conf has it.\n"
                    )
                }
                None => String::new(),
            };
            let user = quoted(user.as_deref().unwrap_or_default());
            text.push_str(&format!("{what}{name}_user={user}\n{name}_secret=''\n"));
        };
        secret("chap", &self.chap_user, "this host");
        secret("mutual_chap", &self.mutual_chap_user, "the array");
        text
    }

    fn values(&self) -> String {
        let volumes: Vec<String> =
            self.volumes.iter().map(|one| format!("{} {} {}", one.role, one.wwn, one.mount)).collect();
        let Limits { memory_bytes, cores } = self.limits.unwrap_or_default();
        let memory = memory_bytes.map(|bytes| format!("MemoryMax={bytes}"));
        let cores = cores.map(|cores| format!("CPUQuota={:.0}%", cores * 100.0));
        let limits: Vec<String> = memory.into_iter().chain(cores).collect();
        let lines = [
            ("", "database", self.database.clone()),
            ("", "source", self.source.clone()),
            ("Where the array is, and what the pool is called there.", "target", self.target.clone()),
            ("", "portals", self.portals.join(" ")),
            ("The server.", "major", self.major.to_string()),
            ("", "programs", self.programs.clone()),
            ("Its account, with its numbers on the array's machine.", "account", self.account.clone()),
            ("", "user_id", self.user.to_string()),
            ("", "group_id", self.group.to_string()),
            (
                "Where it listens. For other machines name an address, and let them in in pg_hba.conf.",
                "listen",
                "127.0.0.1".to_string(),
            ),
            ("", "port", self.port.to_string()),
            ("", "data_directory", self.data.clone()),
            ("", "socket_directory", self.socket.clone()),
            ("Role, name among SCSI units and directory of each volume.", "volumes", volumes.join("\n")),
            ("", "file_system", FILE_SYSTEM.to_string()),
            ("What it may use of this machine.", "limits", limits.join("\n")),
        ];
        let mut text = String::from("\n");
        for (comment, name, value) in lines {
            if !comment.is_empty() {
                text.push_str(&format!("# {comment}\n"));
            }
            text.push_str(&format!("{name}={}\n", quoted(&value)));
        }
        text
    }
}

/// For sh.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;

    use super::*;

    fn handover() -> Handover {
        let volume = |role: &str, wwn: &str| Handed {
            role: role.to_string(),
            wwn: wwn.to_string(),
            mount: format!("/var/lib/ashlar/databases/dev/{role}"),
        };
        Handover {
            database: "dev".to_string(),
            source: "prod".to_string(),
            host: "db1".to_string(),
            target: "iqn.2026-11.io.ashlar:main-5a80c1d3".to_string(),
            portals: vec!["192.0.2.10:3260".to_string(), "[fd00::1]:3260".to_string()],
            chap_user: Some("it's $(db1)".to_string()),
            mutual_chap_user: None,
            major: 15,
            programs: "/usr/lib/postgresql/15/bin".to_string(),
            account: "postgres".to_string(),
            user: 112,
            group: 118,
            port: 5434,
            limits: Some(Limits { memory_bytes: Some(1 << 30), cores: Some(1.5) }),
            data: "/var/lib/ashlar/databases/dev/data/pgdata".to_string(),
            socket: "/var/lib/ashlar/databases/dev/run".to_string(),
            volumes: vec![volume("data", "0x3465391958fc61f1"), volume("log", "0x3000000000000001")],
        }
    }

    /// The shell reads the values as they are, whatever quotes they have, and runs nothing of them.
    #[test]
    fn values_are_what_the_shell_reads() {
        let script = handover().script();
        let (values, _) = script.split_once("# The same for every").unwrap();
        let shown = "printf '%s|' \"$chap_user\" \"$chap_secret\" \"$portals\" \"$limits\" \"$volumes\"";
        let ran = Command::new("sh").args(["-euc", &format!("{values}\n{shown}")]).output().unwrap();
        assert_eq!(
            String::from_utf8(ran.stdout).unwrap(),
            "it's $(db1)||192.0.2.10:3260 [fd00::1]:3260|MemoryMax=1073741824\nCPUQuota=150%|\
             data 0x3465391958fc61f1 /var/lib/ashlar/databases/dev/data\n\
             log 0x3000000000000001 /var/lib/ashlar/databases/dev/log|"
        );
    }

    #[test]
    fn the_script_is_one_for_sh() {
        let script = handover().script();
        let read = Command::new("sh").args(["-nc", &script]).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        assert!(!script.contains("NOTE:"));
        let alone = Handover { portals: vec!["127.0.0.1:3260".to_string()], ..handover() };
        assert!(alone.script().contains("NOTE: the array serves iSCSI to its own machine alone"));
    }

    #[test]
    fn paths_that_a_unit_would_read_otherwise_are_not_plain() {
        assert!(Handover::is_plain_path("/var/lib/ashlar/databases/dev-1/data"));
        for path in ["/var/my db", "/var/50%", "/var/$x", "var", "/a'b", "/a\nb"] {
            assert!(!Handover::is_plain_path(path), "{path}");
        }
    }
}
