//! What an operator may change, read from a TOML file at the start and again at a reload. Unknown fields are
//! refused.

mod live;

use std::fmt::Write;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;

use ashlar_api::Reason;
use ashlar_units::ByteCount;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::at_once::open_at_once;
use crate::error::{Error, Result};
use crate::messenger::WebAddress;
use crate::places::Places;
use crate::tls::is_host;

pub(crate) use live::{Live, Source};

/// The settings file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    #[serde(deserialize_with = "api_address")]
    pub(crate) api: Address,
    pub(crate) api_names: Vec<String>,
    pub(crate) metrics: Address,
    pub(crate) token_file: String,
    pub(crate) metrics_token_file: String,
    pub(crate) guest_drives: Vec<String>,
    pub(crate) guest_mounts: Vec<String>,
    pub(crate) socket_group: String,
    pub(crate) nbd_socket: Socket,
    pub(crate) nbd_tcp: Address,
    #[serde(deserialize_with = "nbd_tls_addresses")]
    pub(crate) nbd_tls_listen: Vec<SocketAddr>,
    pub(crate) nbd_tls_clients: String,
    pub(crate) tls_certificate: String,
    pub(crate) tls_key: String,
    #[serde(deserialize_with = "clients_max")]
    pub(crate) nbd_clients_max: u32,
    #[serde(deserialize_with = "iscsi_addresses")]
    pub(crate) iscsi_listen: Vec<SocketAddr>,
    pub(crate) io_driver: IoDriver,
    pub(crate) fuse_transport: FuseTransport,
    #[serde(deserialize_with = "attach_wait_seconds")]
    pub(crate) attach_wait_seconds: u32,
    #[serde(deserialize_with = "port_first")]
    pub(crate) database_port_first: u32,
    #[serde(deserialize_with = "console_port")]
    pub(crate) console_port: u32,
    pub(crate) lab_results: String,
    #[serde(deserialize_with = "bytes")]
    pub(crate) cache_bytes: u64,
    #[serde(deserialize_with = "bytes")]
    pub(crate) map_cache_bytes: u64,
    #[serde(deserialize_with = "bytes")]
    pub(crate) buffer_bytes: u64,
    pub(crate) dedupe_index_bytes: IndexBytes,
    #[serde(deserialize_with = "run_blocks")]
    pub(crate) dedupe_run_blocks_min: u8,
    #[serde(deserialize_with = "sample_shift")]
    pub(crate) dedupe_sample_shift: u8,
    #[serde(deserialize_with = "interval_days")]
    pub(crate) scrub_interval_days: u16,
    #[serde(deserialize_with = "after_seconds")]
    pub(crate) spare_after_seconds: u32,
    #[serde(deserialize_with = "late_minutes")]
    pub(crate) late_drive_minutes: u32,
    #[serde(deserialize_with = "missing_seconds")]
    pub(crate) missing_drive_wait_seconds: u32,
    #[serde(deserialize_with = "takeover_seconds")]
    pub(crate) takeover_wait_seconds: u32,
    #[serde(deserialize_with = "no_space_seconds")]
    pub(crate) no_space_wait_seconds: u32,
    #[serde(deserialize_with = "keep_hours")]
    pub(crate) deleted_volumes_hours: u16,
    pub(crate) log_format: LogFormat,
    pub(crate) event_minimum: Severity,
    pub(crate) event_command: Vec<String>,
    #[serde(deserialize_with = "webhook", serialize_with = "webhook_text")]
    pub(crate) event_webhook: Option<WebAddress>,
}

/// Memory of the fingerprint index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IndexBytes {
    /// A share of the machine's memory.
    Auto,
    /// So much; 0 switches dedupe off.
    AtMost(u64),
}

/// An address, or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Off,
    At(SocketAddr),
}

/// A socket in the state directory, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Socket {
    On,
    Off,
}

/// Which driver does input and output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IoDriver {
    Auto,
    Uring,
    Threads,
}

/// How FUSE requests travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FuseTransport {
    Classic,
    Uring,
}

/// How lines of the log are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// From which level on events are handed to a command or an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    Info,
    Warning,
    Error,
}

/// Settings that a reload changes in the running array. All others change at the next start.
const AT_ONCE: [&str; 13] = [
    "api_names",
    "guest_drives",
    "guest_mounts",
    "database_port_first",
    "lab_results",
    "scrub_interval_days",
    "spare_after_seconds",
    "takeover_wait_seconds",
    "deleted_volumes_hours",
    "log_format",
    "event_minimum",
    "event_command",
    "event_webhook",
];

/// What the reference page says about one setting.
struct Described {
    name: &'static str,
    default: &'static str,
    range: &'static str,
    text: &'static str,
}

/// One line a field of [`Settings`]; a test keeps both in step.
const DESCRIBED: [Described; 39] = [
    Described {
        name: "api",
        default: "\"off\"",
        range: "an address with port (0: any free port), or \"off\"; 0.0.0.0 is none",
        text: "TCP address of the API and the console beside `STATE/api.sock`, which is always there. Who asks there \
               shows a token or logs in. Off loopback it speaks TLS alone, and opens when there is a user or a token. \
               `--api` overrides it.",
    },
    Described {
        name: "api_names",
        default: "[]",
        range: "names and addresses of hosts",
        text: "More names that `api` is called by, as in a browser's address, besides its own address and the names of \
               its certificate. A certificate that the array makes has them, too.",
    },
    Described {
        name: "metrics",
        default: "\"off\"",
        range: "a loopback address with port (0: any free port), or \"off\"",
        text: "TCP address that answers `/metrics`, `/healthz` and `/readyz` alone, to who shows the token of metrics.",
    },
    Described {
        name: "token_file",
        default: "\"\"",
        range: "an absolute path; empty: `STATE/api.token`",
        text: "File with the API's token, a line that its owner alone may read (mode 0600). Made at the first \
               start; once deleted, the next start makes another. Who has it can read, change and delete all \
               volumes.",
    },
    Described {
        name: "metrics_token_file",
        default: "\"\"",
        range: "an absolute path; empty: `STATE/metrics.token`",
        text: "The same for `metrics`: what Prometheus names as `credentials_file`. Its group may read it, too.",
    },
    Described {
        name: "guest_drives",
        default: "[]",
        range: "absolute directories, and paths below /dev with `*` and `?`",
        text: "Which drives guests may name, that is who comes with a token or as a member of `socket_group`. \
               Root over the socket may name any. Name directories that only root can change.",
    },
    Described {
        name: "guest_mounts",
        default: "[]",
        range: "absolute directories",
        text: "Below which directories guests may mount. Name directories that only root can change.",
    },
    Described {
        name: "socket_group",
        default: "\"\"",
        range: "a group's name or number; empty: none",
        text: "Group that may use the sockets besides root: their mode is then 0660 instead of 0600. Its \
               members can read, change and delete all volumes.",
    },
    Described {
        name: "nbd_socket",
        default: "\"on\"",
        range: "\"on\" or \"off\"",
        text: "Whether NBD listens on `STATE/nbd.sock`.",
    },
    Described {
        name: "nbd_tcp",
        default: "\"off\"",
        range: "a loopback address with port (0: any free port), or \"off\"",
        text: "TCP address of NBD. NBD asks for no token: every user and every container with this machine's \
               network can then read and write all volumes. If it is taken the array goes on with the socket \
               and says so.",
    },
    Described {
        name: "nbd_tls_listen",
        default: "[]",
        range: "addresses with port (0: any free port), each named: 0.0.0.0 is none",
        text: "Where other machines reach volumes over NBD with TLS; its own port is 10809. Only clients come in \
               whose certificate the authority in `nbd_tls_clients` signed: each of them can read and write all \
               volumes. Beside the socket and `nbd_tcp`, and as many clients.",
    },
    Described {
        name: "nbd_tls_clients",
        default: "\"\"",
        range: "an absolute path",
        text: "File with the certificates (PEM) of the authorities that sign those of clients over TLS. It is read \
               again when it changes, as are the next two.",
    },
    Described {
        name: "tls_certificate",
        default: "\"\"",
        range: "an absolute path of a PEM file; empty: the array makes one",
        text: "This array's certificate, and behind it those that lead to its root: for NBD over TLS and for `api`. \
               Where it is set `api` speaks TLS on loopback, too; without it the array makes one in `STATE/tls`. \
               `ashlar reload` has `api` read the file again, NBD sees that it changed; \
               connections go on.",
    },
    Described {
        name: "tls_key",
        default: "\"\"",
        range: "an absolute path of a PEM file",
        text: "The private key of `tls_certificate`, which other users must not be able to read.",
    },
    Described {
        name: "nbd_clients_max",
        default: "256",
        range: "1 to 65536",
        text: "NBD clients at the same time; more are told so and let go. Fewer where the limit of open files \
               leaves no room for so many beside drives, attachments and commands. Beside the socket no more \
               than three of four come by TCP.",
    },
    Described {
        name: "iscsi_listen",
        default: "[]",
        range: "addresses with port (0: any free port), each named: 0.0.0.0 is none",
        text: "Where hosts reach exported volumes over iSCSI; its own port is 3260. On loopback every user of this \
               machine may come in, and sees the exports that name no host. Elsewhere only hosts with a CHAP secret \
               do, and the address is not opened while a host has none. `--iscsi-listen` overrides it.",
    },
    Described {
        name: "io_driver",
        default: "\"auto\"",
        range: "\"auto\", \"uring\" or \"threads\"",
        text: "Which driver does input and output. `auto` takes io_uring where the kernel allows it.",
    },
    Described {
        name: "fuse_transport",
        default: "\"classic\"",
        range: "\"classic\" or \"uring\"",
        text: "How requests of attached volumes travel. With `classic` what is attached outlives the array: its \
               requests wait for the next one. `uring` takes FUSE over io_uring where the kernel offers it, which \
               costs less, and what is attached ends with the array.",
    },
    Described {
        name: "attach_wait_seconds",
        default: "600",
        range: "0 to 86400, 0: for ever",
        text: "How long requests to attached volumes wait for an array once theirs is gone. Then they fail, and \
               databases on them end.",
    },
    Described {
        name: "database_port_first",
        default: "5433",
        range: "1024 to 65535",
        text: "Where the server of a database listens that is given no port: the first free one from here on. \
               Two arrays on one machine need ports apart.",
    },
    Described {
        name: "console_port",
        default: "0",
        range: "0 to 65535; 0: any free port",
        text: "Where on 127.0.0.1 the console is served once `ashlar console` asks for it. Where `api` has an \
               address, the console is there.",
    },
    Described {
        name: "lab_results",
        default: "\"\"",
        range: "an absolute path, or empty: none",
        text: "A directory with results of `ashlar lab run`, which the console shows. They are only read.",
    },
    Described {
        name: "cache_bytes",
        default: "\"256MiB\"",
        range: "1MiB to 1TiB, a number of bytes or a text with unit",
        text: "Cap on the read cache of each pool, filled only by reads. A database caches its own pages, so more \
               helps mostly clones that read the same blocks.",
    },
    Described {
        name: "map_cache_bytes",
        default: "\"128MiB\"",
        range: "1MiB to 1TiB, a number of bytes or a text with unit",
        text: "Cap on the cache of map pages of each pool. 1 MiB of it maps 512 MiB of volume; a miss costs \
               one read of a drive.",
    },
    Described {
        name: "buffer_bytes",
        default: "\"32MiB\"",
        range: "1MiB to 1TiB, a number of bytes or a text with unit",
        text: "Memory registered with the kernel for input and output; requests beyond it use ordinary memory.",
    },
    Described {
        name: "dedupe_index_bytes",
        default: "\"auto\"",
        range: "\"auto\" (a sixteenth of memory), 64KiB to 1TiB, or 0 for no dedupe",
        text: "Cap on the fingerprint index of each pool. Taken when a volume with dedupe is first written to, as \
               the index fills, and never more than 16 bytes for each 4 KiB of the pool. 2 GiB know every block \
               of a TiB.",
    },
    Described {
        name: "dedupe_run_blocks_min",
        default: "2",
        range: "1 to 16",
        text: "Fewer equal 4 KiB blocks in a row are left alone: they would save little, and cost each \
               later sequential read a request.",
    },
    Described {
        name: "dedupe_sample_shift",
        default: "0",
        range: "0 to 8",
        text: "One in two to this power of blocks is recorded in the index; all are looked up, and neighbours of a \
               hit are compared. 3 finds runs of eight blocks and more with an eighth of the memory.",
    },
    Described {
        name: "scrub_interval_days",
        default: "30",
        range: "1 to 65535, or 0 for never",
        text: "A pool is scrubbed by itself when the last scrub is this long ago. It leaves the drives to hosts; \
               `ashlar pool scrub POOL --pause` holds it.",
    },
    Described {
        name: "spare_after_seconds",
        default: "300",
        range: "1 to 604800, or 0 for never",
        text: "Spare space takes the place of a drive that is lost for so long. One that comes back earlier is \
               only given what was written meanwhile; one that somebody took out of service is left alone.",
    },
    Described {
        name: "late_drive_minutes",
        default: "10",
        range: "1 to 1440, or 0 for never",
        text: "A known pool whose drives are missing or in use at the start is opened as soon as they are there, for so \
               long. The service counts as started when all known pools are open, or this is over.",
    },
    Described {
        name: "missing_drive_wait_seconds",
        default: "15",
        range: "0 to 600",
        text: "A pool that can do without some of its drives waits so long at the start for those that are missing, \
               before it is opened degraded. One that comes later is taken back into service by itself.",
    },
    Described {
        name: "takeover_wait_seconds",
        default: "30",
        range: "0 to 3600",
        text: "A pool that another machine left open, or that is taken over by force, is opened so much later: what \
               the array before it asked of the drives has landed by then. Linux gives a request of a drive 30 \
               seconds. A pool of this machine's own crash or reboot opens at once.",
    },
    Described {
        name: "no_space_wait_seconds",
        default: "60",
        range: "0 to 3600",
        text: "A write to a full pool waits so long for room before the host is told that there is none: time to \
               delete or unmap something, or to add a drive. Reads go on.",
    },
    Described {
        name: "deleted_volumes_hours",
        default: "24",
        range: "0 to 8760",
        text: "How long `ashlar volume undelete` brings a deleted volume back; 0: deletes are for good. Only time \
               counts in which the array has the pool open, whatever the clock says. Where a pool is 95 % full \
               the volume kept longest is given up earlier.",
    },
    Described {
        name: "log_format",
        default: "\"text\"",
        range: "\"text\" or \"json\"",
        text: "How the log is written to standard error. `json`: one object a line, the same as events have in the \
               API. With `text` under systemd object and level are fields of the journal.",
    },
    Described {
        name: "event_minimum",
        default: "\"warning\"",
        range: "\"info\", \"warning\" or \"error\"",
        text: "Which events `event_command` and `event_webhook` get: those of this level and above.",
    },
    Described {
        name: "event_command",
        default: "[]",
        range: "a program's absolute path and its arguments; empty: none",
        text: "Is run for each event, which it reads as JSON on its standard input. It has 30 seconds.",
    },
    Described {
        name: "event_webhook",
        default: "\"\"",
        range: "`http://HOST[:PORT]/PATH`; empty: none",
        text: "Gets each event as JSON by POST. It has 10 seconds to answer with a status of 200 to 299. Not \
               encrypted.",
    },
];

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            api: Address::Off,
            api_names: Vec::new(),
            metrics: Address::Off,
            token_file: String::new(),
            metrics_token_file: String::new(),
            guest_drives: Vec::new(),
            guest_mounts: Vec::new(),
            socket_group: String::new(),
            nbd_socket: Socket::On,
            nbd_tcp: Address::Off,
            nbd_tls_listen: Vec::new(),
            nbd_tls_clients: String::new(),
            tls_certificate: String::new(),
            tls_key: String::new(),
            nbd_clients_max: 256,
            iscsi_listen: Vec::new(),
            io_driver: IoDriver::Auto,
            fuse_transport: FuseTransport::Classic,
            attach_wait_seconds: 600,
            database_port_first: 5433,
            console_port: 0,
            lab_results: String::new(),
            cache_bytes: 256 << 20,
            map_cache_bytes: 128 << 20,
            buffer_bytes: 32 << 20,
            dedupe_index_bytes: IndexBytes::Auto,
            dedupe_run_blocks_min: 2,
            dedupe_sample_shift: 0,
            scrub_interval_days: 30,
            spare_after_seconds: 300,
            late_drive_minutes: 10,
            missing_drive_wait_seconds: 15,
            takeover_wait_seconds: 30,
            no_space_wait_seconds: 60,
            deleted_volumes_hours: 24,
            log_format: LogFormat::Text,
            event_minimum: Severity::Warning,
            event_command: Vec::new(),
            event_webhook: None,
        }
    }
}

/// Smallest and largest memory a setting may claim.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;
const INDEX_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 40;

/// The fingerprint index takes one part in this many of the memory.
const INDEX_FRACTION: u64 = 16;
/// And this much where the system does not tell.
const INDEX_BYTES_DEFAULT: u64 = 64 << 20;

impl IndexBytes {
    /// What a pool's index may take.
    pub(crate) fn in_bytes(self) -> u64 {
        match self {
            IndexBytes::AtMost(bytes) => bytes,
            IndexBytes::Auto => crate::process::memory_total_bytes()
                .map_or(INDEX_BYTES_DEFAULT, |total| total / INDEX_FRACTION)
                .clamp(*INDEX_BYTES.start(), *INDEX_BYTES.end()),
        }
    }
}

impl<'de> Deserialize<'de> for IndexBytes {
    fn deserialize<D: Deserializer<'de>>(input: D) -> std::result::Result<IndexBytes, D::Error> {
        match NumberOrText::deserialize(input)? {
            NumberOrText::Text(text) if text == "auto" => Ok(IndexBytes::Auto),
            other => other.bytes().map(IndexBytes::AtMost).map_err(serde::de::Error::custom),
        }
    }
}

impl Serialize for IndexBytes {
    fn serialize<S: Serializer>(&self, output: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            IndexBytes::Auto => output.serialize_str("auto"),
            IndexBytes::AtMost(bytes) => output.serialize_u64(*bytes),
        }
    }
}

impl Settings {
    /// Reads a settings file.
    pub(crate) fn load(path: &Path) -> Result<Settings> {
        let wrong = |why: &str, action: &str| {
            let what = format!("settings file {}: {why}", path.display());
            Err(Error::invalid(what, action).because(Reason::WrongSettings))
        };
        let text = match read_file(path) {
            Ok(Some(text)) => text,
            Ok(None) => return wrong("it is no file", "write the settings into a file of that name"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return wrong("there is none", "write one, an empty one for the defaults, or name another");
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return wrong("it is not UTF-8", "mend it");
            }
            Err(error) => return Err(Error::file("read settings file", path, &error)),
        };
        Settings::parse(&text)
            .or_else(|why| wrong(&why, "mend it; docs/reference/settings.md lists what it may hold"))
    }

    fn parse(text: &str) -> std::result::Result<Settings, String> {
        let settings: Settings = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or("", |span| &text[..span.start]);
            let number = before.matches('\n').count() + 1;
            // Some messages of the reader do not say of which setting they are. A value may be a secret.
            let line = text.lines().nth(number - 1).unwrap_or_default();
            let name = line.split_once('=').map(|(name, _)| name.trim());
            let said = error.message();
            match name.filter(|name| !said.contains(name)) {
                Some(name) => format!("line {number}: {name}: {said}"),
                None => format!("line {number}: {said}"),
            }
        })?;
        settings.check().map_err(|why| match line_of(text, &why) {
            Some(number) => format!("line {number}: {why}"),
            None => why,
        })?;
        Ok(settings)
    }

    /// What cannot be said of one value while it is read. Each message begins with the setting's name.
    fn check(&self) -> std::result::Result<(), String> {
        let settings = self;
        for (name, bytes) in [
            ("cache_bytes", settings.cache_bytes),
            ("map_cache_bytes", settings.map_cache_bytes),
            ("buffer_bytes", settings.buffer_bytes),
        ] {
            if !MEMORY_BYTES.contains(&bytes) {
                return Err(format!("{name} is {}: it must be 1MiB to 1TiB", ByteCount(bytes)));
            }
        }
        settings.check_dedupe()?;
        settings.check_command()?;
        settings.places()?;
        settings.check_tls()?;
        let paths = [
            ("token_file", &settings.token_file),
            ("metrics_token_file", &settings.metrics_token_file),
            ("lab_results", &settings.lab_results),
            ("nbd_tls_clients", &settings.nbd_tls_clients),
            ("tls_certificate", &settings.tls_certificate),
            ("tls_key", &settings.tls_key),
        ];
        for (name, path) in paths {
            if !path.is_empty() && !Path::new(path).is_absolute() {
                return Err(format!("{name}: `{path}` is not an absolute path"));
            }
        }
        if !settings.nbd_tls_listen.is_empty() && settings.nbd_tls_clients.is_empty() {
            return Err("nbd_tls_listen needs `nbd_tls_clients`, too".to_string());
        }
        Ok(())
    }

    fn check_dedupe(&self) -> std::result::Result<(), String> {
        if let IndexBytes::AtMost(bytes) = self.dedupe_index_bytes
            && bytes != 0
            && !INDEX_BYTES.contains(&bytes)
        {
            return Err(format!("dedupe_index_bytes is {}: it must be 0 or 64KiB to 1TiB", ByteCount(bytes)));
        }
        Ok(())
    }

    fn check_tls(&self) -> std::result::Result<(), String> {
        if self.tls_certificate.is_empty() != self.tls_key.is_empty() {
            let alone = if self.tls_key.is_empty() { "tls_certificate" } else { "tls_key" };
            return Err(format!(
                "{alone}: a certificate and its key go together: set tls_certificate and tls_key"
            ));
        }
        match self.api_names.iter().find(|name| !is_host(name)) {
            Some(name) => Err(format!("api_names: `{name}` is no name and no address of a host")),
            None => Ok(()),
        }
    }

    fn check_command(&self) -> std::result::Result<(), String> {
        match self.event_command.first() {
            Some(program) if !Path::new(program).is_absolute() => {
                Err(format!("event_command: `{program}` is not an absolute path"))
            }
            _ => Ok(()),
        }
    }

    /// Whether NBD is served at all.
    pub(crate) fn has_nbd(&self) -> bool {
        self.nbd_socket == Socket::On || self.nbd_tcp != Address::Off || !self.nbd_tls_listen.is_empty()
    }

    /// What guests may name.
    pub(crate) fn places(&self) -> std::result::Result<Places, String> {
        Places::new(&self.guest_drives, &self.guest_mounts)
    }
}

/// The text of a file; `None` of what is none. It does not wait for a writer of a pipe.
fn read_file(path: &Path) -> io::Result<Option<String>> {
    let mut file = open_at_once(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

/// The line of the setting that a message begins with.
fn line_of(text: &str, why: &str) -> Option<usize> {
    let name = why.split([' ', ':']).next()?;
    let is_set = |line: &str| line.split_once('=').is_some_and(|(set, _)| set.trim() == name);
    text.lines().position(is_set).map(|index| index + 1)
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Address, String> {
        if text == "off" {
            return Ok(Address::Off);
        }
        let address: SocketAddr =
            text.parse().map_err(|_| format!("`{text}` is not an address: write 127.0.0.1:PORT, or off"))?;
        // A token, or all data, would cross the network in the clear.
        if !address.ip().is_loopback() {
            return Err(format!(
                "`{text}` is not a loopback address: use 127.0.0.1, and a tunnel from elsewhere"
            ));
        }
        Ok(Address::At(address))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(input: D) -> std::result::Result<Address, D::Error> {
        String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, output: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Address::Off => output.serialize_str("off"),
            Address::At(address) => output.collect_str(address),
        }
    }
}

/// The API's, which may be off loopback: it speaks TLS there.
pub(crate) fn api_address_of(text: &str) -> std::result::Result<Address, String> {
    match text {
        "off" => Ok(Address::Off),
        text => named_address(text).map(Address::At),
    }
}

fn api_address<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<Address, D::Error> {
    let text = String::deserialize(input)?;
    api_address_of(&text).map_err(|why| serde::de::Error::custom(format!("api: {why}")))
}

fn webhook<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<Option<WebAddress>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(None);
    }
    let address = WebAddress::parse(&text);
    address.map(Some).map_err(|why| serde::de::Error::custom(format!("event_webhook: {why}")))
}

fn webhook_text<S: Serializer>(
    address: &Option<WebAddress>,
    output: S,
) -> std::result::Result<S::Ok, S::Error> {
    output.serialize_str(&address.as_ref().map(WebAddress::whole).unwrap_or_default())
}

/// An address that says on which network it is.
pub(crate) fn named_address(text: &str) -> std::result::Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("`{text}` is not an address: write ADDRESS:PORT, as in 127.0.0.1:3260"))?;
    if address.ip().is_unspecified() {
        return Err(format!("`{text}` is every address of this machine: name the one that is to be used"));
    }
    Ok(address)
}

fn named_addresses<'de, D: Deserializer<'de>>(
    input: D,
    name: &str,
) -> std::result::Result<Vec<SocketAddr>, D::Error> {
    let texts = Vec::<String>::deserialize(input)?;
    let addresses = texts.iter().map(|text| named_address(text)).collect::<std::result::Result<_, _>>();
    addresses.map_err(|why| serde::de::Error::custom(format!("{name}: {why}")))
}

fn iscsi_addresses<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<Vec<SocketAddr>, D::Error> {
    named_addresses(input, "iscsi_listen")
}

fn nbd_tls_addresses<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<Vec<SocketAddr>, D::Error> {
    named_addresses(input, "nbd_tls_listen")
}

/// A size as a number of bytes or a text with a unit.
fn bytes<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u64, D::Error> {
    NumberOrText::deserialize(input)?.bytes().map_err(serde::de::Error::custom)
}

/// A whole number in a range. Whatever stands there instead, the answer is the range.
fn within<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    input: D,
    name: &str,
    allowed: std::ops::RangeInclusive<i64>,
    range: &str,
) -> std::result::Result<T, D::Error> {
    let value = toml::Value::deserialize(input)?;
    let number = value.as_integer().filter(|number| allowed.contains(number));
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| serde::de::Error::custom(format!("{name} is {value}: it must be {range}")))
}

fn run_blocks<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u8, D::Error> {
    within(input, "dedupe_run_blocks_min", 1..=16, "1 to 16")
}

fn sample_shift<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u8, D::Error> {
    within(input, "dedupe_sample_shift", 0..=8, "0 to 8")
}

fn takeover_seconds<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "takeover_wait_seconds", 0..=3600, "0 to 3600")
}

fn no_space_seconds<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "no_space_wait_seconds", 0..=3600, "0 to 3600")
}

fn keep_hours<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u16, D::Error> {
    within(input, "deleted_volumes_hours", 0..=8760, "0 to 8760")
}

fn late_minutes<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "late_drive_minutes", 0..=1440, "1 to 1440, or 0 for never")
}

fn missing_seconds<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "missing_drive_wait_seconds", 0..=600, "0 to 600")
}

fn clients_max<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "nbd_clients_max", 1..=65_536, "1 to 65536")
}

fn after_seconds<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "spare_after_seconds", 0..=604_800, "1 to 604800, or 0 for never")
}

fn attach_wait_seconds<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "attach_wait_seconds", 0..=86_400, "1 to 86400, or 0 for ever")
}

fn port_first<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "database_port_first", 1024..=65_535, "1024 to 65535")
}

fn console_port<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u32, D::Error> {
    within(input, "console_port", 0..=65_535, "0 to 65535")
}

fn interval_days<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<u16, D::Error> {
    within(input, "scrub_interval_days", 0..=i64::from(u16::MAX), "1 to 65535, or 0 for never")
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

impl NumberOrText {
    fn bytes(self) -> std::result::Result<u64, String> {
        match self {
            NumberOrText::Number(bytes) => Ok(bytes),
            NumberOrText::Text(text) => {
                text.parse::<ByteCount>().map(|count| count.0).map_err(|error| error.to_string())
            }
        }
    }
}

/// The text of `docs/reference/settings.md`.
#[must_use]
pub fn settings_reference() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         Generated from the program by `ashlar reference`; do not edit.\n\n\
         `ashlar serve --config FILE` reads a TOML file with any of these; fields it does not know are refused.\n\
         `deploy/ashlar.toml` is a sample. A change takes effect at the next start, or, where the table says so, at\n\
         once with `ashlar reload`, `systemctl reload ashlar` or SIGHUP.\n\n\
         | setting | default | range | what it does | changes |\n| --- | --- | --- | --- | --- |\n",
    );
    for setting in &DESCRIBED {
        let changes = if AT_ONCE.contains(&setting.name) { "at once" } else { "at the next start" };
        writeln!(
            text,
            "| `{}` | `{}` | {} | {} | {changes} |",
            setting.name, setting.default, setting.range, setting.text
        )
        .expect("writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_reference_lists_every_setting_with_its_true_default() {
        // The error for an unknown field names all fields there are.
        let error = toml::from_str::<Settings>("no_such_field = 1").unwrap_err().to_string();
        let (_, expected) = error.split_once("expected one of").unwrap();
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let described: Vec<&str> = DESCRIBED.iter().map(|setting| setting.name).collect();
        assert_eq!(described, known);
        let defaults: String =
            DESCRIBED.iter().map(|setting| format!("{} = {}\n", setting.name, setting.default)).collect();
        assert_eq!(Settings::parse(&defaults).unwrap(), Settings::default());
    }

    #[test]
    fn the_sample_file_holds_every_setting_and_parses() {
        let sample = include_str!("../../../../deploy/ashlar.toml");
        let uncommented: String = sample
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(Settings::parse(&uncommented).unwrap(), Settings::default());
        for setting in &DESCRIBED {
            assert!(sample.contains(setting.name), "{} is not in the sample", setting.name);
        }
        assert_eq!(Settings::parse(sample).unwrap(), Settings::default());
    }

    #[test]
    fn wrong_settings_are_refused_with_their_line() {
        for (text, word) in [
            ("api = \"127.0.0.1:0\"\ncashe_bytes = 1", "line 2"),
            ("cache_bytes = \"12 parsecs\"", "parsecs"),
            ("cache_bytes = 7", "cache_bytes"),
            ("api = \"0.0.0.0:9410\"", "api: `0.0.0.0:9410` is every address"),
            ("api_names = [\"a b\"]", "api_names: `a b`"),
            (
                "api = \"off\"\ntls_certificate = \"/c\"",
                "line 2: tls_certificate: a certificate and its key go together",
            ),
            ("tls_key = \"/k\"", "go together"),
            ("tls_certificate = \"c\"\ntls_key = \"/k\"", "tls_certificate: `c` is not an absolute path"),
            ("nbd_tcp = \"10809\"", "not an address"),
            ("metrics = \"192.168.0.1:9411\"", "loopback"),
            ("iscsi_listen = [\"0.0.0.0:3260\"]", "iscsi_listen: `0.0.0.0:3260` is every address"),
            ("nbd_tls_listen = [\"127.0.0.1:0\"]", "nbd_tls_listen needs `nbd_tls_clients`, too"),
            ("nbd_tls_listen = [\"0.0.0.0:10809\"]", "nbd_tls_listen: `0.0.0.0:10809` is every address"),
            ("nbd_tls_clients = \"ca.pem\"", "`ca.pem` is not an absolute path"),
            ("iscsi_listen = [\"3260\"]", "iscsi_listen: `3260` is not an address"),
            ("nbd_clients_max = 0", "1 to 65536"),
            ("guest_drives = [\"srv\"]", "guest_drives: `srv`"),
            ("guest_mounts = [\"/\"]", "guest_mounts: `/`"),
            ("token_file = \"token\"", "token_file: `token`"),
            ("io_driver = \"fast\"", "fast"),
            ("log_format = \"xml\"", "xml"),
            ("event_minimum = \"notice\"", "notice"),
            ("event_command = [\"mail\"]", "event_command: `mail` is not an absolute path"),
            ("event_webhook = \"https://127.0.0.1/x\"", "line 1: event_webhook: https"),
            ("event_webhook = \"127.0.0.1:80\"", "http://"),
            ("dedupe_index_bytes = \"1KiB\"", "64KiB"),
            ("dedupe_run_blocks_min = 0", "1 to 16"),
            ("dedupe_sample_shift = 9", "0 to 8"),
            ("dedupe_sample_shift = 300", "0 to 8"),
            ("scrub_interval_days = 65536", "line 1: scrub_interval_days is 65536: it must be 1 to 65535"),
            ("scrub_interval_days = -1", "1 to 65535"),
            ("scrub_interval_days = \"monthly\"", "1 to 65535"),
            ("scrub_interval_days = 1.5", "1 to 65535"),
            ("api = \"off\"\ncache_bytes = 7", "line 2: cache_bytes"),
            ("api = \"off\"\ndedupe_index_bytes = 7", "line 2: dedupe_index_bytes"),
            ("api = \"off\"\n event_command = [\n\"mail\"]", "line 2: event_command"),
            ("api = \"off\"\nguest_drives = [\"/srv/../x\"]", "line 2: guest_drives"),
            ("guest_mounts=[\"x\"]", "line 1: guest_mounts"),
            ("\nlab_results = \"x\"", "line 2: lab_results"),
        ] {
            let why = Settings::parse(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
            assert!(!why.contains("u8") && !why.contains("u16"), "{text}: {why}");
        }
    }
}
